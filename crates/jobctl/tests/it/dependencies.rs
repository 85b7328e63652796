//! What the program is made of.

use std::path::Path;

/// The command line speaks HTTP; with a daemon inside it would take their build time and size.
#[test]
fn the_program_links_no_daemon() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let (program, tests) = manifest.split_once("[dev-dependencies]").unwrap();
    assert!(tests.contains("orchestrator"), "this test has to follow the name");
    for daemon in ["orchestrator", "compute-agent"] {
        assert!(!program.contains(daemon), "{daemon}");
    }
}
