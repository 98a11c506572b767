//! The search for the largest that fits: few questions, and no step or dip misleads it.

use runner::predict::search::{Largest, Probe, Reach, largest};

/// The answer and how many questions it took.
fn ask(start: u64, limit: u64, peak: impl Fn(u64) -> u64) -> (Largest, usize) {
    let mut asked = 0;
    let found = largest(start, Reach { most: 1 << 40, far: 4096 }, limit, &mut |v| {
        asked += 1;
        Probe { fits: peak(v) <= limit, peak: peak(v) }
    });
    (found, asked)
}

#[test]
fn a_line_is_met_in_few_questions() {
    for start in [1, 64, 1 << 20] {
        let (found, asked) = ask(start, 24 << 30, |v| (64 << 20) + 12_345 * v);
        assert_eq!(found, Largest::Fits(((24 << 30) - (64 << 20)) / 12_345));
        assert!(asked < 40, "{asked} questions from {start}");
    }
}

#[test]
fn steps_do_not_mislead_it() {
    for limit in (1 << 20..1 << 24).step_by(77_777) {
        let peak = |v: u64| (v * 700).next_multiple_of(2 << 16) + v % 3 * 512;
        let (Largest::Fits(found), _) = ask(8, limit, peak) else { panic!("there is a largest") };
        assert!(peak(found) <= limit && peak(found + 1) > limit, "{limit}: {found}");
    }
}

#[test]
fn a_dip_beyond_the_first_that_does_not_fit_is_seen() {
    // 100 needs more than 101 does.
    let (found, _) = ask(1, 1000, |v| if v == 100 { 2000 } else { v * 9 });
    assert_eq!(found, Largest::Fits(111));
}

#[test]
fn nothing_and_everything() {
    assert_eq!(ask(64, 10, |v| 100 + v).0, Largest::Nothing);
    assert_eq!(ask(64, 1 << 50, |v| v).0, Largest::All(1 << 40));
    assert_eq!(ask(64, 10, |_| 5).0, Largest::Indifferent);
    assert_eq!(ask(2, 10, |v| v.min(3)).0, Largest::Level(4));
    // Below where it sets out it grows: that is looked at too.
    assert_eq!(ask(64, 10, |v| v.min(3)).0, Largest::Level(4));
    assert_eq!(ask(64, 10, |v| if v < 7 { 4 } else { 5 }).0, Largest::Level(8));
}
