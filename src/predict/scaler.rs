//! `torch.amp.GradScaler`: scalars, but each of them a block. It is assumed that no gradient overflows: whether one does is a matter
//! of values, and a skipped step is nothing that shapes can tell.

use super::graph::Gradient;
use super::listener::Pass;
use super::machine::{Machine, Thread};
use super::program::{Compiled, Layout};
use super::scope::Variable;
use super::storage::{Attempt, Id, NONE};
use crate::meta::{DType, TensorMeta};
use crate::ops::mul::rule::Mul;
use crate::ops::rule::{Effect, OpRule, promote};

const F32: u64 = 4;
const F64: u64 = 8;

/// The scaler's tensors.
#[derive(Debug)]
pub(super) struct Scaler {
    scale: Id,
    growth_tracker: Id,
    /// Whether gradients overflowed: made while they are unscaled, kept until `update`.
    found_inf: Id,
    /// What a fused optimizer is given.
    lent: [Id; 2],
}

impl Scaler {
    /// Its tensors come with the first loss.
    pub(super) const fn new() -> Self {
        Self { scale: NONE, growth_tracker: NONE, found_inf: NONE, lent: [NONE; 2] }
    }

    /// Its tensors.
    pub(super) const fn tensors(&self) -> [Id; 5] {
        [self.scale, self.growth_tracker, self.found_inf, self.lent[0], self.lent[1]]
    }

    /// `scaler.scale(loss).backward()`.
    pub(super) fn backward(&mut self, m: &mut Machine<'_, '_>, program: &Compiled<'_>, loss: Variable, layout: &Layout) -> Attempt {
        begin(m);
        if self.scale == NONE {
            self.scale = m.storages.alloc(F32)?;
            self.growth_tracker = m.storages.alloc(F32)?;
        }
        let scale = TensorMeta::scalar(DType::F32);
        let scaled = Layout::new(TensorMeta::scalar(promote(layout.dtype, scale.dtype)));
        let product = m.storages.alloc(scaled.bytes())?;
        let root = m.root_gradient(&scaled)?;
        begin(m);
        let inputs = [TensorMeta::clone(layout), scale];
        let recipe = Mul.backward(m.cx, &inputs, &[Some(TensorMeta::clone(&scaled))], &[true, false]);
        for &effect in recipe.effects.iter().filter(|&&e| e != Effect::Returned) {
            m.perform(effect, Thread::Backward)?;
        }
        let storage = m.slots.iter_mut().rfind(|s| **s != NONE).map(|s| std::mem::replace(s, NONE)).expect("a product's gradient is new");
        m.end_recipe();
        m.backward_from(program, loss, Gradient::new(storage, Layout::clone(layout)))?;
        m.storages.release(root);
        m.storages.release(product);
        Ok(())
    }

    /// `scaler.step(optimizer)` up to the optimizer's own step: gradients are unscaled and looked through. A fused optimizer does
    /// both itself, and borrows the scale and the finding.
    pub(super) fn before_step(&mut self, m: &mut Machine<'_, '_>, fused: bool) -> Attempt {
        begin(m);
        let inverse = if fused { m.storages.alloc(F32)? } else { inverse_of_scale(m)? };
        let found_inf = m.storages.alloc(F32)?;
        // The kernel takes copies, one a device.
        self.found_inf = m.storages.alloc(F32)?;
        let inverse_copy = m.storages.alloc(F32)?;
        for storage in [inverse_copy, inverse, found_inf] {
            m.storages.release(storage);
        }
        if fused {
            self.lent = [m.storages.alloc(F32)?, m.storages.alloc(F32)?];
        }
        Ok(())
    }

    /// The rest of `scaler.step(optimizer)`, and `scaler.update()`.
    pub(super) fn after_step(&mut self, m: &mut Machine<'_, '_>) {
        for variable in self.lent.iter_mut().chain([&mut self.found_inf]) {
            m.storages.clear(variable);
        }
    }
}

fn begin(m: &mut Machine<'_, '_>) {
    m.storages.begin(Pass::Optimizer, None, "grad_scaler");
}

/// `scale.double().reciprocal().float()`.
fn inverse_of_scale(m: &mut Machine<'_, '_>) -> Attempt<Id> {
    let double = m.storages.alloc(F64)?;
    let reciprocal = m.storages.alloc(F64)?;
    m.storages.release(double);
    let single = m.storages.alloc(F32)?;
    m.storages.release(reciprocal);
    Ok(single)
}
