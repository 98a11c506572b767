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

/// The value of a scalar, once all earlier work is done; `None` after a failure.
pub(in crate::exec) fn item(cuda: &Cuda, t: Operand<'_>) -> Option<f64> {
    let mut bytes = [0; 8];
    cuda.download(t.address, &mut bytes[..t.meta.dtype.bytes() as usize]).ok()?;
    decode(bytes, t.meta.dtype)
}

/// The floating value in the first bytes; `None` of another type.
pub(in crate::exec) fn decode(bytes: [u8; 8], dtype: DType) -> Option<f64> {
    match dtype {
        DType::F64 => Some(f64::from_ne_bytes(bytes)),
        DType::F32 => Some(f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into()),
        DType::F16 => Some(f16::from_ne_bytes([bytes[0], bytes[1]]).into()),
        DType::BF16 => Some(bf16::from_ne_bytes([bytes[0], bytes[1]]).into()),
        DType::I64 | DType::Bool | DType::U8 => None,
    }
}
