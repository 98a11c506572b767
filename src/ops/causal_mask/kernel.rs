//! The mask is made by way of truth values, as PyTorch makes it; nothing of that stays.

use super::rule::CausalMask;
use crate::device::cuda::{Kernel, Source};
use crate::exec::{Exec, Result};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

static SOURCE: Source = Source { name: "causal_mask", text: include_str!("kernel.cu") };

impl OpKernel for CausalMask {
    fn forward(&self, exec: &Exec, _inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let shape = Shape::new([self.length, self.length]).expect("the mask's shape was inferred before");
        let booleans = TensorMeta::contiguous(shape, DType::Bool);
        let ones = exec.empty(booleans.clone())?;
        let _triangle = exec.empty(booleans.clone())?;
        drop(ones);
        let _infinity = exec.empty(TensorMeta::scalar(self.dtype))?;
        let _zero = exec.empty(TensorMeta::scalar(self.dtype))?;
        let out = exec.empty(booleans.with_dtype(self.dtype))?;
        let length = self.length;
        exec.on_host(|host| {
            host.generate(out.operand(), |start, values: &mut [f64]| {
                for (i, value) in (start as u64..).zip(values) {
                    *value = if i % length <= i / length { 0.0 } else { f64::NEG_INFINITY };
                }
            });
        });
        exec.on_cuda(|gpu| {
            let n = out.meta().numel();
            let kernel = Kernel { source: &SOURCE, entry: "causal_mask", types: &[self.dtype] };
            gpu.launch(kernel, gpu.full(n), &[n.into(), length.into(), out.operand().into()]);
        });
        Ok(Forward::plain(out))
    }

    fn backward(&self, _exec: &Exec, _at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(Vec::new())
    }
}
