//! Division by a number keeps nothing.

use super::rule::DivScalar;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for DivScalar {
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_like(inputs[0])?;
        exec.on_host(|host| map!(host, (inverse = 1.0 / self.divisor), [inputs[0]] => [out], |x| [x * inverse]));
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty(at.input())?;
        exec.on_host(|host| map!(host, (inverse = 1.0 / self.divisor), [at.grad()] => [out], |grad| [grad * inverse]));
        Ok(vec![Some(out)])
    }
}
