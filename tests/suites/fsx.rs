//! fsx: random reads, writes, mappings, truncations, holes and copies in one file, each read compared with a model.
//!
//! The model is in the process, so two of them cannot work on one file; `behaviour_mmap` and `behaviour_data` have
//! processes share one.

use crate::harness::{each_stored_kind, full, program, random};
use std::time::Duration;

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suites/fsx.toml");

each_stored_kind! {
    fn fsx_agrees_with_its_model(scene) {
        program::need(&["fsx"]);
        scene.takes(Duration::from_secs(1800));
        let seed = random::seed();
        // In many runs: fsx keeps what it mapped to read, and Linux gives a process some 65,000 mappings.
        for run in 0..if full() { 50 } else { 1 } {
            let seed = seed.wrapping_add(run).to_string();
            let fsx = scene.program("fsx").dir(scene.home()).args(["-f", CONFIG, "-N", "20000", "-S", &seed, "-P"]);
            let said = fsx.arg(scene.home()).arg(scene.at("exercised")).text();
            assert!(said.contains("All operations completed"), "{said}");
        }
    }
}
