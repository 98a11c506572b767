//! `runner selftest` where there is no GPU.

use crate::support::Sandbox;

#[test]
fn every_registered_operator_has_a_case() {
    // Operators that no case runs are told whatever cases are chosen.
    let out = Sandbox::new().run(&["selftest", "--device", "host", "--only", "gelu"]).exits(0);
    assert!(out.stdout.contains("gelu") && out.stdout.contains("norms are within their bounds"), "{}", out.stdout);
    assert!(!out.stdout.contains("no case for"), "{}", out.stdout);
}
