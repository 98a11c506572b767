//! Copies, also into another layout or element type.

use crate::device::Operand;
use crate::device::cuda::{Arg, Cuda, Kernel, Source, View};

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
