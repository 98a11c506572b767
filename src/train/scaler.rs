//! The gradient scaler (`torch.amp.GradScaler`): keeps small f16 gradients from vanishing. Its memory is a handful of scalars, each a
//! block of its own, so their order and lifetimes count.

use std::collections::BTreeMap;

use crate::autograd::{Tape, Variable};
use crate::device::cuda::{Arg, Entry, Grid, Kernel, Source};
use crate::device::host::{Host, map};
use crate::exec::{Exec, Later, Result, cuda};
use crate::meta::{DType, TensorMeta};
use crate::ops::mul::rule::Mul;
use crate::optim::Implementation;
use crate::optim::kernel::{Scaling, Stepper, Trained};
use crate::record::Category;
use crate::tensor::{Storage, Tensor};

static SOURCE: Source = Source { name: "scaler", text: include_str!("scaler.cu") };

/// PyTorch's defaults.
const INITIAL_SCALE: f64 = 65_536.0;
const GROWTH: f64 = 2.0;
const BACKOFF: f64 = 0.5;
const GROWTH_INTERVAL: u32 = 2000;

/// A scaler as its constructor leaves it: everything is created at the first loss.
#[derive(Default)]
pub(crate) struct Scaler {
    state: Option<State>,
    /// Scale and fine steps of a save, until there is room for them.
    saved: Option<(f32, u32)>,
}

struct State {
    scale: Tensor,
    /// How many steps in a row were fine: a 32-bit integer on the device. The host counts for itself.
    growth_tracker: Storage,
    fine_steps: u32,
}

impl Scaler {
    /// Its scale, and how many steps in a row were fine; `None` before the first loss.
    pub(super) fn save(&self, exec: &Exec) -> Option<(f32, u32)> {
        let Some(state) = &self.state else { return self.saved };
        let mut fine_steps = state.fine_steps;
        exec.on_cuda(|gpu| {
            let mut bytes = [0; 4];
            // After a failure the run ends, and nothing is saved.
            if gpu.download(state.growth_tracker.address(), &mut bytes).is_ok() {
                fine_steps = u32::from_ne_bytes(bytes);
            }
        });
        Some((exec.item(&state.scale)? as f32, fine_steps))
    }

    /// Goes on from a save.
    pub(super) fn restore(&mut self, saved: (f32, u32)) {
        self.saved = Some(saved);
    }

    /// `scaler.scale(loss)`.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn scale(&mut self, exec: &Exec, tape: &Tape, loss: &Variable) -> Result<Variable> {
        let state = match &mut self.state {
            Some(state) => state,
            none => {
                let scale = scalar(exec, DType::F32)?;
                let (value, fine_steps) = self.saved.take().map_or((INITIAL_SCALE, 0), |(scale, fine)| (f64::from(scale), fine));
                exec.fill(&scale, value);
                let growth_tracker = exec.memory().allocate(4, Category::Other)?;
                exec.on_cuda(|gpu| gpu.upload(growth_tracker.address(), &fine_steps.to_ne_bytes()));
                none.insert(State { scale, growth_tracker, fine_steps })
            }
        };
        let scale = Variable::constant(state.scale.clone());
        let mut scaled = tape.apply(exec, &Mul.into(), &[loss, &scale]).map_err(crate::autograd::Halt::out_of_memory)?;
        Ok(scaled.swap_remove(0))
    }

    /// `scaler.step(optimizer); scaler.update()`. Gives what says whether the step was skipped: not 0.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn step(
        &mut self,
        exec: &Exec,
        implementation: Implementation,
        optimizer: &mut dyn Stepper,
        trained: &[Trained],
    ) -> Result<Later> {
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
            exec.on_cuda(|gpu| cuda::reciprocal(gpu, wide.operand(), reciprocal.operand()));
            drop(wide);
            let inverse = scalar(exec, DType::F32)?;
            exec.copy(&reciprocal, &inverse);
            drop(reciprocal);
            let found = check(exec, trained, &inverse)?;
            drop(inverse);
            if exec.item(&found).is_none_or(|found| found == 0.0) {
                optimizer.step(exec, trained, None)?;
            }
            found
        };
        state.update(exec, &found);
        Ok(exec.item_later(&found))
    }
}

impl State {
    /// `_amp_update_scale_`: backs off after a step that was skipped, grows after enough that were not.
    fn update(&mut self, exec: &Exec, found: &Tensor) {
        exec.on_host(|host| self.update_on_host(host, found));
        exec.on_cuda(|gpu| {
            let tracker = Arg::from(self.growth_tracker.address());
            let settings = [Arg::from(GROWTH as f32), Arg::from(BACKOFF as f32), Arg::from(GROWTH_INTERVAL)];
            let args = [&[self.scale.operand().into(), tracker, found.operand().into()], &settings[..]].concat();
            gpu.launch(Kernel { source: &SOURCE, entry: "scaler_update", types: &[DType::F32] }, Grid::line(1, 1), &args);
        });
    }

    fn update_on_host(&mut self, host: &Host, found: &Tensor) {
        let factor = if host.values::<f32>(found.operand())[0] != 0.0 {
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
        map!(host, (factor = factor), [self.scale] => [self.scale], |scale| [if (scale * factor).is_finite() { scale * factor } else { scale }]);
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
    exec.on_cuda(|gpu| {
        let mut grads: BTreeMap<DType, Vec<Entry<1>>> = BTreeMap::new();
        for grad in trained.iter().filter_map(|t| t.grad.as_ref()) {
            grads.entry(grad.dtype()).or_default().push(Entry { addresses: [grad.operand().address], elements: grad.meta().numel() });
        }
        for (dtype, grads) in grads {
            let kernel = Kernel { source: &SOURCE, entry: "scaler_unscale", types: &[dtype] };
            gpu.many(kernel, &grads, &[inverse_copy.operand().into(), found.operand().into()]);
        }
    });
    Ok(found)
}

fn scalar(exec: &Exec, dtype: DType) -> Result<Tensor> {
    exec.empty_as(TensorMeta::scalar(dtype), Category::Other)
}
