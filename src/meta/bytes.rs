//! Sizes in bytes: the one unit of this program. Everything that multiplies goes through checked arithmetic.

/// A size that does not fit: the product or sum left 63 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} does not fit in 63 bits")]
pub struct SizeError {
    /// What was being computed, e.g. `2147483648 × 4294967296 elements`.
    pub what: String,
}

/// One kibibyte, in bytes.
pub const KIB: u64 = 1 << 10;
/// One mebibyte, in bytes.
pub const MIB: u64 = 1 << 20;
/// One gibibyte, in bytes.
pub const GIB: u64 = 1 << 30;

/// `bytes` for a person: the largest binary unit that keeps the figure at 1 or more, two decimals.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let scaled = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..MIB => format!("{:.2} KiB", scaled(KIB)),
        MIB..GIB => format!("{:.2} MiB", scaled(MIB)),
        _ => format!("{:.2} GiB", scaled(GIB)),
    }
}

/// A decimal number, such as `23.14`, times `unit`, rounded down, and whether that is exact. At most 18 digits follow the point.
#[must_use]
pub fn decimal(number: &str, unit: u64) -> Option<(u64, bool)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let divisor = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().ok()?.checked_mul(u128::from(unit))?;
    let sum = whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(u64::try_from(part / divisor).ok()?)?;
    Some((sum, part.is_multiple_of(divisor)))
}
