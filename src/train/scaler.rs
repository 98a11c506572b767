//! The gradient scaler (`torch.amp.GradScaler`): keeps small f16 gradients from vanishing. Its memory is a handful of scalars, each a
//! block of its own, so their order and lifetimes count.

use crate::autograd::{Tape, Variable};
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::meta::{DType, TensorMeta};
use crate::ops::mul::rule::Mul;
use crate::optim::Implementation;
use crate::optim::kernel::{Scaling, Stepper, Trained};
use crate::record::Category;
use crate::tensor::{Storage, Tensor};

/// PyTorch's defaults.
const INITIAL_SCALE: f64 = 65_536.0;
const GROWTH: f64 = 2.0;
const BACKOFF: f64 = 0.5;
const GROWTH_INTERVAL: u32 = 2000;

/// A scaler as its constructor leaves it: everything is created at the first loss.
#[derive(Default)]
pub(super) struct Scaler {
    state: Option<State>,
}

struct State {
    scale: Tensor,
    /// Where PyTorch counts on the device how many steps in a row were fine: a 32-bit integer.
    _growth_tracker: Storage,
    fine_steps: u32,
}

impl Scaler {
    /// `scaler.scale(loss)`.
    pub(super) fn scale(&mut self, exec: &Exec, tape: &Tape, loss: &Variable) -> Result<Variable> {
        let state = match &mut self.state {
            Some(state) => state,
            none => {
                let scale = scalar(exec, DType::F32)?;
                exec.fill(&scale, INITIAL_SCALE);
                none.insert(State { scale, _growth_tracker: exec.memory().allocate(4, Category::Other)?, fine_steps: 0 })
            }
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
        let state = self.state.as_mut().expect("a loss was scaled before the step");
        // Found by `unscale`, kept until `update`.
        let found = if implementation == Implementation::Fused {
            // The optimizer unscales by itself: here gradients are only looked at.
            let inverse = scalar(exec, DType::F32)?;
            exec.fill(&inverse, 1.0);
            let found = check(exec, trained, &inverse)?;
            drop(inverse);
            let found_inf = scalar(exec, DType::F32)?;
            exec.copy(&found, &found_inf);
            let grad_scale = scalar(exec, DType::F32)?;
            exec.copy(&state.scale, &grad_scale);
            optimizer.step(exec, trained, Some(&Scaling { grad_scale, found_inf }))?;
            found
        } else {
            let wide = scalar(exec, DType::F64)?;
            exec.copy(&state.scale, &wide);
            let reciprocal = scalar(exec, DType::F64)?;
            exec.on_host(|host| map!(host, [wide] => [reciprocal], |wide| [1.0 / wide]));
            drop(wide);
            let inverse = scalar(exec, DType::F32)?;
            exec.copy(&reciprocal, &inverse);
            drop(reciprocal);
            let found = check(exec, trained, &inverse)?;
            drop(inverse);
            if !is_set(exec, &found) {
                optimizer.step(exec, trained, None)?;
            }
            found
        };
        let skipped = is_set(exec, &found);
        state.update(exec, skipped);
        Ok(skipped)
    }
}

impl State {
    /// `_amp_update_scale_`: backs off after a step that was skipped, grows after enough that were not.
    fn update(&mut self, exec: &Exec, skipped: bool) {
        let factor = if skipped {
            self.fine_steps = 0;
            BACKOFF
        } else {
            self.fine_steps += 1;
            if self.fine_steps < GROWTH_INTERVAL {
                return;
            }
            self.fine_steps = 0;
            GROWTH
        };
        // A scale that would leave f32 stays as it is.
        exec.on_host(|host| {
            map!(host, (factor = factor), [self.scale] => [self.scale], |scale| [if (scale * factor).is_finite() { scale * factor } else { scale }]);
        });
    }
}

/// Multiplies gradients by the inverse scale and looks for what is not finite (`_unscale_grads_`): the flag, and for each device a copy of
/// it and of the inverse scale. The copy of the flag is what stays.
fn check(exec: &Exec, trained: &[Trained], inverse: &Tensor) -> Result<Tensor> {
    let found_inf = scalar(exec, DType::F32)?;
    exec.fill(&found_inf, 0.0);
    let found = scalar(exec, DType::F32)?;
    exec.copy(&found_inf, &found);
    let inverse_copy = scalar(exec, DType::F32)?;
    exec.copy(inverse, &inverse_copy);
    exec.on_host(|host| {
        for grad in trained.iter().filter_map(|t| t.grad.as_ref()) {
            let lost: f32 = host.sum([grad.operand()], |[grad]: [f32; 1]| if grad.is_finite() { 0.0 } else { 1.0 });
            if lost > 0.0 {
                host.fill(found.operand(), 1.0);
            }
            map!(host, [grad, inverse_copy] => [grad], |grad, inverse| [grad * inverse]);
        }
    });
    Ok(found)
}

/// Whether a flag is set; never where nothing is computed.
fn is_set(exec: &Exec, flag: &Tensor) -> bool {
    exec.item(flag).is_some_and(|found| found != 0.0)
}

fn scalar(exec: &Exec, dtype: DType) -> Result<Tensor> {
    exec.empty_as(TensorMeta::scalar(dtype), Category::Other)
}
