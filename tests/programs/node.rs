//! npm and node: a local package is installed and run.

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
}
