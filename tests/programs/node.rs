//! npm and node: a local package is installed and run.

use super::tools;
use crate::harness::{each_stored_kind, program, put};
use std::fs::create_dir_all;
use std::time::Duration;

each_stored_kind! {
    fn a_local_package_is_installed(scene) {
        program::need(&["npm", "node"]);
        scene.takes(Duration::from_secs(240));
        create_dir_all(scene.at("library/bin")).expect("mkdir");
        create_dir_all(scene.at("app")).expect("mkdir");
        put(scene.at("library/package.json"), r#"{"name": "greet", "version": "1.2.3", "bin": {"greet": "bin/greet.js"}, "license": "MIT"}"#);
        put(scene.at("library/index.js"), "module.exports = name => `hello, ${name}`;\n");
        put(scene.at("library/bin/greet.js"), "#!/usr/bin/env node\nconsole.log(require('..')(process.argv[2]));\n");
        put(scene.at("app/package.json"), r#"{"name": "app", "version": "1.0.0", "private": true, "scripts": {"start": "greet script"}}"#);
        let install = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"];
        let npm = |arguments: &[&str]| scene.program(arguments[0]).args(&arguments[1..]).dir(scene.at("app")).text();
        npm(&["npm", "pack", "../library", "--silent"]);
        npm(&[&install[..], &["./greet-1.2.3.tgz"]].concat());
        let linked = std::fs::symlink_metadata(scene.at("app/node_modules/.bin/greet")).expect("stat");
        assert!(linked.is_symlink());
        assert!(!std::fs::symlink_metadata(scene.at("app/node_modules/greet")).expect("stat").is_symlink());
        assert_eq!(npm(&["node", "-p", "require('greet')('node')"]), "hello, node\n");
        assert_eq!(npm(&["node_modules/.bin/greet", "bin"]), "hello, bin\n");
        assert!(npm(&["npm", "start", "--silent"]).ends_with("hello, script\n"));
        npm(&[&install[..], &["../library"]].concat());
        assert!(std::fs::symlink_metadata(scene.at("app/node_modules/greet")).expect("stat").is_symlink(), "a folder is linked");
        assert_eq!(npm(&["node", "-p", "require('greet')('link')"]), "hello, link\n");
        assert!(scene.at("library/index.js").exists(), "nothing above was removed");
        scene.bash("rm -rf app/node_modules; test ! -e app/node_modules; test -e library/bin/greet.js", &[]);
        npm(&[&install[..], &[]].concat());
        assert_eq!(npm(&["node", "-p", "require('greet')('again')"]), "hello, again\n");
    }

    fn pnpm_links_packages_and_they_go(scene) {
        program::need(&["npm", "node"]);
        scene.takes(Duration::from_secs(240));
        for library in ["left", "right"] {
            create_dir_all(scene.at(library)).expect("mkdir");
            put(scene.at(format!("{library}/index.js")), format!("module.exports = '{library}';\n"));
        }
        put(scene.at("left/package.json"), r#"{"name": "left", "version": "1.0.0", "license": "MIT"}"#);
        put(scene.at("right/package.json"), r#"{"name": "right", "version": "1.0.0", "license": "MIT", "dependencies": {"left": "file:../left-1.0.0.tgz"}}"#);
        scene.bash("for l in left right; do npm pack ./$l --silent; done; mkdir app", &[]);
        put(scene.at("app/package.json"), r#"{"name": "app", "version": "1.0.0", "private": true, "dependencies": {"right": "file:../right-1.0.0.tgz", "left": "file:../left-1.0.0.tgz"}}"#);
        let pnpm = tools::pnpm();
        let install = "cd app; \"$1\" install --offline --silent --store-dir ../store --config.package-import-method=hardlink; \
            node -p \"require('left') + require('right')\"; find node_modules/.pnpm -name index.js -links +1 | wc -l; test -L node_modules/left";
        assert_eq!(scene.bash(install, &[&pnpm]), "leftright\n2\n", "files are hard links to the store's");
        scene.remount_if_kept();
        scene.bash("cd app; rm -rf node_modules; test ! -e node_modules", &[]);
        assert_eq!(scene.bash(install, &[&pnpm]), "leftright\n2\n");
    }
}
