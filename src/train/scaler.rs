//! The gradient scaler (`torch.amp.GradScaler`): keeps small f16 gradients from vanishing. Its memory is a handful of scalars, each a
//! block of its own, so their order and lifetimes count.

use crate::autograd::{Tape, Variable};
use crate::exec::{Exec, Result};
use crate::meta::{DType, TensorMeta};
use crate::ops::mul::rule::Mul;
use crate::optim::Implementation;
use crate::optim::kernel::{Scaling, Stepper, Trained};
use crate::record::Category;
use crate::tensor::{Storage, Tensor};

/// A scaler as its constructor leaves it: everything is created at the first loss.
#[derive(Default)]
pub(super) struct Scaler {
    state: Option<State>,
}

struct State {
    scale: Tensor,
    /// How many steps in a row were fine: a 32-bit integer.
    _growth_tracker: Storage,
}

impl Scaler {
    /// `scaler.scale(loss)`.
    pub(super) fn scale(&mut self, exec: &Exec, tape: &Tape, loss: &Variable) -> Result<Variable> {
        let state = match &mut self.state {
            Some(state) => state,
            none => none.insert(State { scale: scalar(exec, DType::F32)?, _growth_tracker: exec.memory().allocate(4, Category::Other)? }),
        };
        let scale = Variable::constant(state.scale.clone());
        let mut scaled = tape.apply(exec, &Mul.into(), &[loss, &scale]).map_err(crate::autograd::Halt::out_of_memory)?;
        Ok(scaled.swap_remove(0))
    }

    /// `scaler.step(optimizer); scaler.update()`. Says whether the step was skipped.
    pub(super) fn step(
        &mut self,
        exec: &Exec,
        implementation: Implementation,
        optimizer: &mut dyn Stepper,
        trained: &[Trained],
    ) -> Result<bool> {
        // Found by `unscale`, kept until `update`.
        let _found = if implementation == Implementation::Fused {
            let _inverse = scalar(exec, DType::F32)?;
            let found = check(exec)?;
            drop(_inverse);
            let found_inf = scalar(exec, DType::F32)?;
            let grad_scale = scalar(exec, DType::F32)?;
            optimizer.step(exec, trained, Some(&Scaling { grad_scale, found_inf }))?;
            found
        } else {
            let wide = scalar(exec, DType::F64)?;
            let reciprocal = scalar(exec, DType::F64)?;
            drop(wide);
            let _inverse = scalar(exec, DType::F32)?;
            drop(reciprocal);
            let found = check(exec)?;
            drop(_inverse);
            optimizer.step(exec, trained, None)?;
            found
        };
        Ok(false)
    }
}

/// Unscales gradients and looks for what is not finite (`_unscale_grads_`): the flag, and for each device a copy of it and of the
/// inverse scale. The copy of the flag is what stays.
fn check(exec: &Exec) -> Result<Tensor> {
    let _found_inf = scalar(exec, DType::F32)?;
    let found = scalar(exec, DType::F32)?;
    let _inverse_copy = scalar(exec, DType::F32)?;
    Ok(found)
}

fn scalar(exec: &Exec, dtype: DType) -> Result<Tensor> {
    exec.empty_as(TensorMeta::scalar(dtype), Category::Other)
}
