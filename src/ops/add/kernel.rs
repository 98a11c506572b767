//! `add` keeps nothing: both gradients are the incoming one.

use super::rule::Add;
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Add {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        if self.inplace { Identity::InPlace } else { Identity::New }
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = if self.inplace { inputs[0].clone() } else { exec.empty_like(inputs[0])? };
        exec.on_host(|host| map!(host, [inputs[0], inputs[1]] => [out], |left, right| [left + right]));
        Ok(Forward::plain(out))
    }

    fn backward(&self, _exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(at.needs.iter().map(|&needed| needed.then(|| at.grad().clone())).collect())
    }
}
