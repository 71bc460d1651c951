//! cargo: a crate's archive is unpacked and built, linked and run on the mount.

use crate::harness::{Program, each_stored_kind, each_stored_kind_in_full, program, put};
use std::fs::{copy, create_dir_all};
use std::time::Duration;

/// The toolchain that runs these tests, with a home of its own so that nothing of the user's is read.
fn cargo<'a>(scene: &'a crate::harness::Scene, arguments: &[&str]) -> Program<'a> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let program = scene.program(cargo).args(arguments).env("CARGO_HOME", scene.home().join("cargo-home"));
    program
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_ENCODED_RUSTFLAGS", "")
        .env("CARGO_TARGET_DIR", scene.path().join("target"))
        .env("CARGO_INCREMENTAL", "1")
}

fn write_crates(scene: &crate::harness::Scene) {
    let manifest = |name: &str, more: &str| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\ndescription = \"small\"\nlicense = \"MIT\"\n{more}\n[workspace]\n"
        )
    };
    for name in ["greet", "app"] {
        create_dir_all(scene.at(name).join("src")).expect("mkdir");
    }
    put(scene.at("greet/Cargo.toml"), manifest("greet", ""));
    let library =
        "//! Greets.\n/// A greeting.\npub fn greeting(name: &str) -> String { format!(\"hello, {name}\") }\n";
    put(
        scene.at("greet/src/lib.rs"),
        format!("{library}#[test]\nfn it_greets() {{ assert_eq!(greeting(\"x\"), \"hello, x\"); }}\n"),
    );
    put(scene.at("app/Cargo.toml"), manifest("app", "[dependencies]\ngreet = { path = \"../greet-0.1.0\" }\n"));
    put(scene.at("app/src/main.rs"), "fn main() { println!(\"{}\", greet::greeting(\"mount\")); }\n");
    put(scene.at("app/build.rs"), "fn main() { println!(\"cargo:rerun-if-changed=build.rs\"); }\n");
}

each_stored_kind! {
    fn a_crate_is_packed_unpacked_and_built(scene) {
        program::need(&["tar", "cc"]);
        scene.takes(Duration::from_secs(240));
        write_crates(scene);
        let packed = ["package", "--offline", "--no-verify", "--allow-dirty", "--manifest-path", "greet/Cargo.toml"];
        cargo(scene, &packed).text();
        scene.bash("tar xzf target/package/greet-0.1.0.crate; rm -r greet; test -f greet-0.1.0/src/lib.rs", &[]);
        let app = ["--offline", "--quiet", "--manifest-path", "app/Cargo.toml"];
        cargo(scene, &[&["build"], &app[..]].concat()).text();
        assert_eq!(scene.program(scene.at("target/debug/app")).text(), "hello, mount\n");
        let library = ["test", "--offline", "--manifest-path", "greet-0.1.0/Cargo.toml"];
        assert!(cargo(scene, &library).text().contains("1 passed"));
        scene.bash("sed -i 's/hello/good day/' greet-0.1.0/src/lib.rs", &[]);
        assert_eq!(cargo(scene, &[&["run"], &app[..]].concat()).text(), "good day, mount\n", "the change was seen");
        scene.remount_if_kept();
        let fresh = cargo(scene, &["build", "--offline", "--manifest-path", "app/Cargo.toml"]).start().output();
        let said = String::from_utf8_lossy(&fresh.stderr).into_owned();
        assert!(fresh.status.success() && !said.contains("Compiling"), "times were kept, so nothing is built anew: {said}");
    }
}

/// This project's own dependencies, but for the one that compiles a whole database in C.
fn dependencies() -> String {
    let manifest = include_str!("../../Cargo.toml");
    let (_, after) = manifest.split_once("[dependencies]\n").expect("there are some");
    let (own, _) = after.split_once("\n[").expect("more follows");
    own.lines().filter(|line| !line.starts_with("sqlx")).collect::<Vec<_>>().join("\n")
}

each_stored_kind_in_full! {
    fn a_crate_with_many_dependencies_is_built(scene) {
        program::need(&["cc"]);
        scene.takes(Duration::from_secs(900));
        create_dir_all(scene.at("app/src")).expect("mkdir");
        put(scene.at("app/Cargo.toml"), format!("[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n{}\n", dependencies()));
        put(scene.at("app/src/main.rs"), "fn main() { println!(\"{}\", serde_json::json!({\"a\": [1, 2]})); }\n");
        copy(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"), scene.at("app/Cargo.lock")).expect("copy");
        // The archives that built this test; they are unpacked on the mount.
        scene.bash("mkdir -p cargo-home/registry; cp -r \"${CARGO_HOME:-$HOME/.cargo}\"/registry/{cache,index} cargo-home/registry/", &[]);
        let build = || cargo(scene, &["run", "--offline", "--manifest-path", "app/Cargo.toml"]).env("CARGO_HOME", scene.at("cargo-home"));
        let built = build().start().output();
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        assert!(built.status.success() && said.matches("Compiling").count() > 50, "{said}");
        assert_eq!(String::from_utf8_lossy(&built.stdout), "{\"a\":[1,2]}\n");
        let again = build().start().output();
        assert!(!String::from_utf8_lossy(&again.stderr).contains("Compiling"), "nothing is built anew");
        scene.bash("rm -rf target cargo-home; ls", &[]);
    }
}
