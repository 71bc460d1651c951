//! What the command writes for people and for their shells: config, completions, help, and the log.

use super::Desk;
use std::fs;

#[test]
fn init_writes_a_config_that_works_and_overwrites_none() {
    let desk = Desk::new();
    assert!(desk.does(&["init"]).out.contains("workfs mount -c workfs.toml"));
    let text = fs::read_to_string(desk.path("workfs.toml")).expect("written");
    assert!(text.lines().filter(|line| line.starts_with('#')).count() > 10, "it is commented");
    desk.run(&["init"]).fails(1, &["workfs.toml exists and is not overwritten"]);
    assert_eq!(fs::read_to_string(desk.path("workfs.toml")).expect("there"), text);
    desk.does(&["init", "other.toml"]);
    desk.does(&["mount"]);
    assert_eq!(desk.status()["mountpoint"].as_str(), desk.path("work").to_str());
    fs::write(desk.path("work/memories/note"), "kept").expect("written");
    desk.does(&["umount", "work"]);
    desk.does(&["mount", "-c", "workfs.toml", "--view", "main"]);
    assert_eq!(fs::read_to_string(desk.path("work/memories/note")).expect("there"), "kept");
    desk.does(&["umount", "work"]);
}

#[test]
fn every_line_that_the_config_offers_is_a_sound_one() {
    let desk = Desk::new();
    desk.does(&["init"]);
    let text = fs::read_to_string(desk.path("workfs.toml")).expect("written");
    // What is commented out is turned on: tables and settings, not sentences.
    let turned_on = text.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with("[[") || rest.contains(" = ") => rest,
        _ => line,
    });
    fs::write(desk.path("workfs.toml"), turned_on.collect::<Vec<_>>().join("\n")).expect("written");
    desk.does(&["mount"]);
    let status = desk.status();
    assert_eq!(status["mounts"].as_array().map(Vec::len), Some(4), "{status}");
    assert_eq!(status["log"].as_str(), desk.path("./workfs.log").to_str());
    desk.does(&["umount", "work"]);
}

#[test]
fn completions_know_the_commands_of_each_shell() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.does(&["completions", shell]).out;
        for word in ["mount", "umount", "status", "exec", "init", "demo", "completions", "lazy", "config"] {
            assert!(script.contains(word), "{shell} knows no {word}");
        }
        assert!(!script.contains("daemon"), "{shell} shows what is hidden");
    }
    desk.run(&["completions", "tcsh"]).fails(2, &["bash", "zsh", "fish"]);
}

#[test]
fn help_tells_exit_codes_and_examples() {
    let desk = Desk::new();
    let help = desk.does(&["--help"]).out;
    assert!(help.contains("Exit codes:") && help.contains("WORKFS_LOG") && help.contains("WORKFS_STATE_DIR"), "{help}");
    let help = desk.does(&["mount", "--help"]).out;
    assert!(help.contains("AT=VOLUME[?options][:ro]") && help.contains("Examples:"), "{help}");
    assert_eq!(desk.does(&["--version"]).out.trim(), concat!("workfs ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_log_is_as_long_as_it_was_asked_to_be() {
    let desk = Desk::new();
    let log_with = |arguments: &[&str], variable: Option<&str>| {
        let mut command = desk.command(&[&["mount", "work", "-m", "/=memory:"], arguments].concat());
        if let Some(value) = variable {
            command.env("WORKFS_LOG", value);
        }
        assert!(command.output().expect("it runs").status.success());
        let before = desk.log();
        fs::read_dir(desk.path("work")).expect("it answers").for_each(drop);
        desk.does(&["umount", "work"]);
        let log = fs::read_dir(desk.path("state")).expect("a folder").next().expect("a log").expect("an entry").path();
        assert!(fs::read_to_string(&log).expect("read").starts_with(&before));
        let text = fs::read_to_string(&log).expect("read");
        fs::remove_file(log).expect("removed");
        text
    };
    let usual = log_with(&[], None);
    assert!(usual.contains(" INFO ") && !usual.contains("DEBUG"), "{usual}");
    let more = log_with(&["-vv"], None);
    assert!(more.len() > usual.len(), "{more}");
    assert_eq!(log_with(&["-vv"], Some("off")), "");
    assert!(log_with(&[], Some("][")).contains("is passed over"), "what cannot be read is said");
}

#[test]
fn the_config_names_another_log() {
    let desk = Desk::new();
    let text = "[[mount]]\nat = \"/\"\nvolume = \"memory:\"\n[log]\nlevel = \"warn\"\nfile = \"my.log\"\n";
    fs::write(desk.path("w.toml"), text).expect("written");
    desk.does(&["mount", "work", "-c", "w.toml"]);
    assert_eq!(desk.status()["log"].as_str(), desk.path("my.log").to_str());
    assert_eq!(desk.log(), "", "at the level of warnings it has nothing to say");
    desk.does(&["umount", "work"]);
}
