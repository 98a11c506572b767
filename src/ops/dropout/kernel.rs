//! `dropout`: a mask of one byte an element, before the output; in place, scaled noise of the input's type instead. The input itself where
//! nothing is dropped.

use super::rule::Dropout;
use crate::device::cuda::{Arg, Kernel, Source, View};
use crate::device::host::{Philox, map};
use crate::exec::{Exec, Result, Stream, cuda};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl Dropout {
    fn drops(&self) -> bool {
        self.training && self.p > 0.0
    }

    fn drops_all(&self) -> bool {
        self.training && self.p >= 1.0
    }
}

static SOURCE: Source = Source { name: "dropout", text: include_str!("kernel.cu") };

impl OpKernel for Dropout {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        match (self.drops(), self.inplace) {
            (false, _) => Identity::Input,
            (true, true) => Identity::InPlace,
            (true, false) => Identity::New,
        }
    }

    fn constants(&self, exec: &Exec, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        if !self.drops_all() {
            return Ok(Vec::new());
        }
        // Everything is dropped by a product with a zero.
        let zero = exec.empty(TensorMeta::scalar(inputs[0].dtype()))?;
        exec.fill(&zero, 0.0);
        Ok(vec![zero])
    }

    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(inputs[1..].iter().map(|&zero| Some(zero.clone())).collect())
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let x = inputs[0];
        if self.drops_all() {
            let out = if self.inplace { x.clone() } else { exec.empty_dense(x)? };
            exec.on_host(|host| map!(host, [x] => [out], |x| [x * 0.0]));
            exec.on_cuda(|gpu| cuda::scale(gpu, x.operand(), 0.0, out.operand()));
            return Ok(Forward::plain(out));
        }
        let keep = 1.0 - self.p;
        let Stream { seed, number } = exec.generator().draw();
        let philox = Philox::new(seed, number);
        if self.inplace {
            let noise = exec.empty_dense(x)?;
            exec.on_host(|host| {
                // Drawn in the order of memory, as `bernoulli_` does and the kernel for CUDA: the noise has no gaps.
                let numel = Shape::new([noise.meta().numel()]).expect("as many elements");
                let memory = TensorMeta::contiguous(numel, noise.dtype());
                host.bernoulli(noise.operand().with(&memory), keep, philox);
                map!(host, (scale = 1.0 / keep), [noise] => [noise], |kept| [kept * scale]);
                map!(host, [x, noise] => [x], |x, noise| [x * noise]);
            });
            exec.on_cuda(|gpu| {
                let turns = noise.meta().numel().div_ceil(4);
                let kernel = Kernel { source: &SOURCE, entry: "dropout_noise", types: &[x.dtype()] };
                let args =
                    [noise.meta().numel().into(), noise.operand().into(), keep.into(), (1.0 / keep).into(), seed.into(), number.into()];
                gpu.launch(kernel, gpu.full(turns), &args);
                cuda::mul(gpu, x.operand(), noise.operand(), x.operand());
            });
            return Ok(Forward::saving(x.clone(), [noise]));
        }
        let mask = exec.empty(x.meta().with_dtype(DType::Bool))?;
        let out = exec.empty_dense(x)?;
        exec.on_host(|host| {
            host.bernoulli(mask.operand(), keep, philox);
            map!(host, (scale = 1.0 / keep), [x, mask] => [out], |x, kept| [x * kept * scale]);
        });
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "dropout_forward", types: &[x.dtype()] };
            let (n, to, from) = (out.meta().numel(), View::of(out.operand()), View::of(x.operand()));
            let random = [keep.into(), (1.0 / keep).into(), seed.into(), number.into()];
            let args = [&[Arg::from(n), (&to).into(), mask.operand().into(), (&from).into()], &random[..]].concat();
            gpu.launch(kernel, gpu.full(n.div_ceil(4)), &args);
        });
        Ok(Forward::saving(out, [mask]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        // The kernel of the mask writes contiguously; a product lies as its sides.
        let masked = at.saved(0).dtype() == DType::Bool;
        let out = if masked { exec.empty_like(at.grad())? } else { exec.empty_over(at.grad(), at.saved(0))? };
        exec.on_host(|host| {
            // A mask of ones where elements were kept, noise that is scaled already, or the one zero.
            let scale = if masked { 1.0 / (1.0 - self.p) } else { 1.0 };
            map!(host, (scale = scale), [at.grad(), at.saved(0)] => [out], |grad, noise| [grad * noise * scale]);
        });
        exec.on_cuda(|gpu| {
            let noise = at.saved(0).operand().spread(out.shape());
            if masked {
                let scale = 1.0 / (1.0 - self.p);
                gpu.map(&SOURCE, "dropout_backward", out.operand(), [at.grad().operand(), noise.operand()], &[scale.into()]);
            } else {
                cuda::mul(gpu, at.grad().operand(), noise.operand(), out.operand());
            }
        });
        Ok(vec![Some(out)])
    }
}
