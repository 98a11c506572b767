//! What Adam and AdamW do to memory: two moments a parameter (three with amsgrad), and the root of the second as a temporary.

use crate::meta::TensorMeta;
use crate::optim::rule::{OptimRule, StepRecipe, StepWriter};
use crate::optim::{Adam, Implementation};

/// A fused step counts steps on the device, in f32.
const STEP_BYTES: u64 = 4;

impl OptimRule for Adam {
    fn step(&self, parameters: &[TensorMeta], step: u64) -> StepRecipe {
        let mut w = StepWriter::new();
        if step == 1 {
            for p in parameters {
                if self.implementation == Implementation::Fused {
                    w.state(STEP_BYTES);
                }
                (0..if self.amsgrad { 3 } else { 2 }).for_each(|_| w.state(p.bytes()));
            }
        }
        // AdamW decays the parameter in place.
        let decays = self.weight_decay != 0.0 && !self.decoupled;
        match self.implementation {
            Implementation::ForLoop => for_loop(&mut w, parameters, decays),
            Implementation::Foreach => foreach(&mut w, parameters, decays),
            Implementation::Fused => {}
        }
        w.finish()
    }
}

/// Python variables of one parameter outlive its turn: `grad` until the next gradient is bound, `denom` until the next exists.
fn for_loop(w: &mut StepWriter, parameters: &[TensorMeta], decays: bool) {
    let (mut grad, mut denom) = (None, None);
    for p in parameters {
        w.assign(&mut grad, None);
        if decays {
            grad = Some(w.like(p));
        }
        let (root, quotient) = (w.like(p), w.like(p));
        w.free(root);
        w.assign(&mut denom, Some(quotient));
    }
    w.assign(&mut grad, None);
    w.assign(&mut denom, None);
}

/// The decayed gradients are deleted before the roots are taken.
fn foreach(w: &mut StepWriter, parameters: &[TensorMeta], decays: bool) {
    if decays {
        let decayed = w.list(parameters);
        w.free_list(decayed);
    }
    let roots = w.list(parameters);
    w.free_list(roots);
}
