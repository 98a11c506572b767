//! Axes: where round figures stand between the smallest and the largest.
//!
//! Invariant: ticks are round in the reader's unit (powers of two of bytes, 1-2-5 of numbers), ascend, and the first and last of a
//! byte axis enclose the data.

use crate::meta::bytes::{GIB, KIB, MIB};

/// One tebibyte, in bytes.
const TIB: u64 = 1 << 40;

/// An axis of bytes that begins at 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteAxis {
    /// Where it ends; a tick.
    pub top: u64,
    /// Distance between ticks: a power of two.
    pub step: u64,
}

impl ByteAxis {
    /// An axis to `max` with three to six steps.
    #[must_use]
    pub fn to(max: u64) -> Self {
        let step = max.div_ceil(6).clamp(1, 1 << 60).next_power_of_two();
        Self { top: max.div_ceil(step).max(1).saturating_mul(step), step }
    }

    /// The ticks with 0 and the top.
    pub fn ticks(&self) -> impl Iterator<Item = u64> {
        (0..=self.top / self.step).map(|i| i * self.step)
    }
}

/// `bytes` as an axis writes it: the largest unit of which there is at least one, without trailing zeros.
#[must_use]
pub fn tick(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0 => return "0".to_string(),
        1..KIB => (1, "B"),
        KIB..MIB => (KIB, "KiB"),
        MIB..GIB => (MIB, "MiB"),
        GIB..TIB => (GIB, "GiB"),
        _ => (TIB, "TiB"),
    };
    let figure = format!("{:.3}", bytes as f64 / unit as f64);
    format!("{} {name}", figure.trim_end_matches('0').trim_end_matches('.'))
}

/// An axis of numbers, by their values or by their logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberAxis {
    /// The smallest value.
    low: f64,
    /// The largest value.
    high: f64,
    /// Whether equal factors stand equally far apart.
    logarithmic: bool,
    values: Vec<f64>,
}

impl NumberAxis {
    /// An axis for `values`; logarithmic where each is at least half as large again as the one before.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let geometric = values.len() > 2 && values[0] > 0.0 && values.windows(2).all(|w| w[1] >= 1.5 * w[0]);
        let (low, high) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0));
        Self { low, high, logarithmic: geometric, values }
    }

    /// How far along the axis `value` stands, from 0 to 1.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let on = |v: f64| if self.logarithmic { v.ln() } else { v };
        let span = on(self.high) - on(self.low);
        if span > 0.0 { (on(value) - on(self.low)) / span } else { 0.5 }
    }

    /// Ticks, no nearer to each other than `gap` of the axis: the values themselves where these are few or a logarithm's.
    #[must_use]
    pub fn ticks(&self, gap: f64) -> Vec<f64> {
        let fits = |ticks: &[f64]| ticks.windows(2).all(|w| self.place(w[1]) - self.place(w[0]) >= gap);
        if fits(&self.values) {
            return self.values.clone();
        }
        if self.logarithmic {
            let mut ticks: Vec<f64> = Vec::new();
            for &value in &self.values {
                if ticks.last().is_none_or(|&last| self.place(value) - self.place(last) >= gap) {
                    ticks.push(value);
                }
            }
            return ticks;
        }
        let span = self.high - self.low;
        let rough = (span * gap).max(f64::MIN_POSITIVE);
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|&s| s >= rough).unwrap_or(10.0 * power);
        let first = (self.low / step).ceil();
        let count = ((self.high / step).floor() - first).max(0.0) as usize;
        (0..=count).map(|i| (first + i as f64) * step).collect()
    }
}

/// A number as an axis writes it.
#[must_use]
pub fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e9).contains(&value.abs()) {
        return format!("{value:e}");
    }
    format!("{value:.6}").trim_end_matches('0').trim_end_matches('.').to_string()
}
