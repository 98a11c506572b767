//! Numbers, moments and labels as text, and back.

use std::time::{Duration, UNIX_EPOCH};

use runner::report::number::{shortest, signed_bytes};
use runner::report::point::Point;
use runner::report::run_file::utc;

#[test]
fn the_shortest_text_reads_back_the_same() {
    for value in [0.0, 0.1, 2.302_482_604_980_468_8, 1e300, 5e-324, -1.5, 123_456_789.0, f64::INFINITY] {
        assert_eq!(shortest(value).parse::<f64>().map(f64::to_bits), Ok(value.to_bits()));
    }
    assert_eq!(shortest(1e300), "1e300");
    assert_eq!(shortest(0.5), "0.5");
    assert_eq!(shortest(f64::NAN), "NaN");
}

#[test]
fn differences_keep_their_sign() {
    assert_eq!(signed_bytes(-1_048_576), "-1 048 576 B");
    assert_eq!(signed_bytes(512), "+512 B");
}

#[test]
fn moments_are_written_in_utc() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (978_307_199, "2000-12-31T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)).to_string(), text);
    }
}

#[test]
fn labels_read_back() {
    for (label, pairs) in [
        ("", 0),
        ("train.batch_size=32", 1),
        ("train.batch_size=32 train.dtype=bf16", 2),
        ("train.optimizer={ adamw = { lr = 0.001 } } train.dtype=f32", 2),
        ("train.optimizer={adamw={lr=0.1, b=2}} x=[1, y=2]", 2),
        ("no pair at all", 1),
        ("a=it's more b=2", 2),
    ] {
        let point = Point::of(label);
        assert_eq!((point.text().as_str(), point.values.len()), (label, pairs));
    }
}
