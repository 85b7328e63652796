//! The dependencies of the program.

use std::path::Path;

/// The command line only needs HTTP; linking a daemon would add its build time and size.
#[test]
fn the_program_links_no_daemon() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let (program, tests) = manifest.split_once("[dev-dependencies]").unwrap();
    assert!(tests.contains("orchestrator"), "update the names in this test");
    for daemon in ["orchestrator", "compute-agent"] {
        assert!(!program.contains(daemon), "{daemon}");
    }
}
