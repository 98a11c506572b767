//! Numbers as elements of any floating type, and how far apart two lists of them are.

use half::{bf16, f16};

use crate::device::host::Philox;
use crate::meta::DType;

/// What is tested.
pub(super) const TYPES: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

/// `values` as they are stored.
pub(super) fn encode(values: &[f64], dtype: DType) -> Vec<u8> {
    let one = |&v: &f64| -> Vec<u8> {
        match dtype {
            DType::F64 => v.to_ne_bytes().into(),
            DType::F32 => (v as f32).to_ne_bytes().into(),
            DType::F16 => f16::from_f64(v).to_ne_bytes().into(),
            DType::BF16 => bf16::from_f64(v).to_ne_bytes().into(),
            DType::I64 => (v as i64).to_ne_bytes().into(),
            DType::Bool | DType::U8 => vec![v as u8],
        }
    };
    values.iter().flat_map(one).collect()
}

/// The nearest values that `dtype` holds.
pub(super) fn rounded(values: &[f64], dtype: DType) -> Vec<f64> {
    let one = |&v: &f64| match dtype {
        DType::F32 => f64::from(v as f32),
        DType::F16 => f16::from_f64(v).to_f64(),
        DType::BF16 => bf16::from_f64(v).to_f64(),
        DType::F64 | DType::I64 | DType::Bool | DType::U8 => v,
    };
    values.iter().map(one).collect()
}

/// Uniform in `[low, high)`, the same for the same stream.
pub(super) fn uniform(n: u64, low: f64, high: f64, stream: u64) -> Vec<f64> {
    let philox = Philox::new(0x5e1f_7e57, stream);
    let four = |group| philox.uniform(group).map(|u| low + f64::from(u) * (high - low));
    (0..n.div_ceil(4)).flat_map(four).take(n as usize).collect()
}

/// `‖got − want‖ / ‖want‖`: 0 where both are all zeros, infinite where only `want` is or `got` is no number.
pub(super) fn relative_distance(got: &[f64], want: &[f64]) -> f64 {
    let norm = |squares: f64| squares.sqrt();
    let distance = norm(got.iter().zip(want).map(|(g, w)| (g - w) * (g - w)).sum());
    let size = norm(want.iter().map(|w| w * w).sum());
    if got.len() != want.len() || distance.is_nan() {
        f64::INFINITY
    } else if distance == 0.0 {
        0.0
    } else {
        distance / size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_no_number_is_near() {
        assert_eq!(relative_distance(&[f64::NAN, 1.0], &[1.0, 1.0]), f64::INFINITY);
        assert_eq!(relative_distance(&[1.0], &[0.0]), f64::INFINITY);
        assert_eq!(relative_distance(&[0.0], &[0.0]), 0.0);
        assert!((relative_distance(&[1.1, 0.0], &[1.0, 0.0]) - 0.1).abs() < 1e-12);
    }
}
