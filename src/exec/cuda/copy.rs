//! Copies, also into another layout or element type.

use half::{bf16, f16};

use crate::device::Operand;
use crate::device::cuda::{Arg, Cuda, Kernel, Source, View};
use crate::meta::DType;

static SOURCE: Source = Source { name: "copy", text: include_str!("copy.cu") };

/// Overwrites `to` with `from`, of the same shape.
pub(in crate::exec) fn copy(cuda: &Cuda, from: Operand<'_>, to: Operand<'_>) {
    let n = to.meta.numel();
    if n == 0 {
        return;
    }
    let together = from.meta.strides == to.meta.strides && to.meta.is_dense();
    let (mut from_view, mut to_view) = (View::of(from), View::of(to));
    if together {
        if from.meta.dtype == to.meta.dtype {
            cuda.copy(to.address, from.address, to.meta.bytes());
            return;
        }
        (from_view, to_view) = (View::line(from.address), View::line(to.address));
    }
    let kernel = Kernel { source: &SOURCE, entry: "copy", types: &[from.meta.dtype, to.meta.dtype] };
    cuda.launch(kernel, cuda.full(n.div_ceil(4)), &[Arg::from(n), Arg::from(&to_view), Arg::from(&from_view)]);
}

/// A contiguous tensor's values, once all earlier work is done; none after a failure.
pub(in crate::exec) fn values(cuda: &Cuda, t: Operand<'_>) -> Vec<f64> {
    let mut bytes = vec![0; t.meta.bytes() as usize];
    match cuda.download(t.address, &mut bytes) {
        Ok(()) => decode(&bytes, t.meta.dtype).collect(),
        Err(_) => Vec::new(),
    }
}

/// Elements as they are stored, as numbers.
pub(in crate::exec) fn decode(bytes: &[u8], dtype: DType) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(dtype.bytes() as usize).map(move |b| match (dtype, b) {
        (DType::F32, &[a, b, c, d]) => f32::from_ne_bytes([a, b, c, d]).into(),
        (DType::F16, &[a, b]) => f16::from_ne_bytes([a, b]).into(),
        (DType::BF16, &[a, b]) => bf16::from_ne_bytes([a, b]).into(),
        (DType::I64, &[a, b, c, d, e, f, g, h]) => i64::from_ne_bytes([a, b, c, d, e, f, g, h]) as f64,
        (DType::F64, &[a, b, c, d, e, f, g, h]) => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        (_, b) => f64::from(b[0]),
    })
}
