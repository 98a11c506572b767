//! Numbers as elements of any floating type.

use half::{bf16, f16};

use crate::device::host::Philox;
use crate::meta::DType;

/// What is tested.
pub(super) const TYPES: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

/// `values` as they are stored.
pub(super) fn encode(values: &[f64], dtype: DType) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * dtype.bytes() as usize);
    match dtype {
        DType::F64 => values.iter().for_each(|v| bytes.extend(v.to_ne_bytes())),
        DType::F32 => values.iter().for_each(|&v| bytes.extend((v as f32).to_ne_bytes())),
        DType::F16 => values.iter().for_each(|&v| bytes.extend(f16::from_f64(v).to_ne_bytes())),
        DType::BF16 => values.iter().for_each(|&v| bytes.extend(bf16::from_f64(v).to_ne_bytes())),
        DType::I64 => values.iter().for_each(|&v| bytes.extend((v as i64).to_ne_bytes())),
        DType::Bool | DType::U8 => values.iter().for_each(|&v| bytes.push(v as u8)),
    }
    bytes
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
    let mut values = Vec::with_capacity(n as usize + 3);
    for group in 0..n.div_ceil(4) {
        values.extend(philox.uniform(group).map(|u| low + f64::from(u) * (high - low)));
    }
    values.truncate(n as usize);
    values
}
