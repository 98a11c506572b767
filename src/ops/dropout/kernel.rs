//! `dropout`: a mask of one byte an element, before the output; in place, scaled noise of the input's type instead. The input itself where
//! nothing is dropped.

use super::rule::Dropout;
use crate::device::host::{Philox, map};
use crate::exec::{Exec, Result, Stream};
use crate::meta::{DType, TensorMeta};
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
            let out = if self.inplace { x.clone() } else { exec.empty_like(x)? };
            exec.on_host(|host| map!(host, [x] => [out], |x| [x * 0.0]));
            return Ok(Forward::plain(out));
        }
        let keep = 1.0 - self.p;
        let Stream { seed, number } = exec.generator().draw();
        let philox = Philox::new(seed, number);
        if self.inplace {
            let noise = exec.empty_like(x)?;
            exec.on_host(|host| {
                host.bernoulli(noise.operand(), keep, philox);
                map!(host, (scale = 1.0 / keep), [noise] => [noise], |kept| [kept * scale]);
                map!(host, [x, noise] => [x], |x, noise| [x * noise]);
            });
            return Ok(Forward::saving(x.clone(), [noise]));
        }
        let mask = exec.empty(x.meta().with_dtype(DType::Bool))?;
        let out = exec.empty_like(x)?;
        exec.on_host(|host| {
            host.bernoulli(mask.operand(), keep, philox);
            map!(host, (scale = 1.0 / keep), [x, mask] => [out], |x, kept| [x * kept * scale]);
        });
        Ok(Forward::saving(out, [mask]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty(at.input())?;
        exec.on_host(|host| {
            // A mask of ones where elements were kept, noise that is scaled already, or the one zero.
            let scale = if at.saved(0).dtype() == DType::Bool { 1.0 / (1.0 - self.p) } else { 1.0 };
            map!(host, (scale = scale), [at.grad(), at.saved(0)] => [out], |grad, noise| [grad * noise * scale]);
        });
        Ok(vec![Some(out)])
    }
}
