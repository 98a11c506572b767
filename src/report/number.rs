//! Numbers as text: figures for files that read back the same, and sizes for people.

use crate::meta::bytes::decimal;

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

/// `64MiB`, `23.14 GiB`, `0`, rounded down to whole bytes. Bytes themselves have no fraction.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    if unit == 1 { scaled(number, unit) } else { decimal(number, unit).map(|(bytes, _)| bytes) }
}

/// A decimal number times `unit`, where that is whole.
#[must_use]
pub fn scaled(number: &str, unit: u64) -> Option<u64> {
    decimal(number, unit).filter(|(_, is_whole)| *is_whole).map(|(product, _)| product)
}
