//! Numbers as text: figures for files that read back the same, and sizes for people.

/// The shortest decimal text that reads back as `value`: plain or with an exponent, whichever is shorter.
#[must_use]
pub fn shortest(value: f64) -> String {
    let plain = format!("{value}");
    let exponent = format!("{value:e}");
    if exponent.len() < plain.len() { exponent } else { plain }
}

/// `bytes` in MiB with two decimals: `24.02`.
#[must_use]
pub fn mib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / crate::meta::bytes::MIB as f64)
}

/// A signed difference in bytes, exact, its thousands apart: `+4 096 B`.
#[must_use]
pub fn signed_bytes(difference: i128) -> String {
    let sign = if difference < 0 { '-' } else { '+' };
    format!("{sign}{} B", thousands(difference.unsigned_abs()))
}

/// `n` with a thin gap between groups of three digits.
#[must_use]
pub fn thousands(n: u128) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
