//! What a change of a figure may be.

use runner::report::diff::Threshold;
use runner::report::diff::compare::Change;

fn exceeded(threshold: &str, before: u64, after: u64) -> bool {
    threshold.parse::<Threshold>().expect(threshold).is_exceeded(Change { before, after })
}

#[test]
fn a_figure_on_its_threshold_passes() {
    assert!(!exceeded("peak:1%", 1000, 1010) && exceeded("peak:1%", 1000, 1011));
    assert!(!exceeded("peak:0.000001%", 100_000_000, 100_000_001) && exceeded("peak:0.000001%", 99_999_999, 100_000_000));
    assert!(!exceeded("reserved:2MiB", 0, 2 << 20) && exceeded("reserved:2MiB", 0, (2 << 20) + 1));
    assert!(exceeded("allocated:0", 5, 6) && !exceeded("allocated:0", 6, 5));
    assert!(exceeded("peak:50%", 0, 1) && exceeded("peak:100%", 1, i64::MAX as u64));
}

#[test]
fn limits_are_read_exactly() {
    // The most that passes, from nothing.
    for (text, most) in [("peak:0", 0), ("peak:1.5GiB", 3 << 29), ("peak: 64 mib", 64 << 20), ("peak:0.001KB", 1)] {
        assert!(!exceeded(text, 0, most) && exceeded(text, 0, most + 1), "{text}");
    }
    assert!(!exceeded("peak:0.25%", 400_000, 401_000) && exceeded("peak:0.25%", 400_000, 401_001));
    let wrong = ["peak", "peak:", "peak:%", "peak:-1%", "peak:1.5", "peak:1e3", "peak:1XB", "peak:.5MiB", "top:1%"];
    for text in wrong.into_iter().chain(["peak:99999999999999999999", "peak:20000000TiB", "peak:0.0000001%"]) {
        assert!(text.parse::<Threshold>().is_err(), "{text}");
    }
}
