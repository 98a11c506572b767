//! What SGD does to memory: momentum buffers, which the first step clones from the gradients, and what weight decay and Nesterov's
//! variant add to gradients out of place.

use crate::meta::TensorMeta;
use crate::optim::rule::{OptimRule, StepRecipe, StepWriter};
use crate::optim::{Implementation, Sgd};

impl OptimRule for Sgd {
    fn step(&self, parameters: &[TensorMeta], step: u64) -> StepRecipe {
        let mut w = StepWriter::new();
        let first = step == 1 && self.momentum != 0.0;
        match self.implementation {
            Implementation::ForLoop => self.for_loop(&mut w, parameters, first),
            Implementation::Foreach => self.foreach(&mut w, parameters, first),
            Implementation::Fused => {
                if first {
                    parameters.iter().for_each(|p| w.state(p.bytes()));
                }
            }
        }
        w.finish()
    }
}

impl Sgd {
    /// `grad` is a Python variable: what it held for one parameter dies when the next one's gradient is bound to it.
    fn for_loop(&self, w: &mut StepWriter, parameters: &[TensorMeta], first: bool) {
        let mut grad = None;
        for p in parameters {
            w.assign(&mut grad, None);
            if self.weight_decay != 0.0 {
                let decayed = w.like(p);
                w.assign(&mut grad, Some(decayed));
            }
            if first {
                w.state(p.bytes());
            }
            if self.momentum != 0.0 {
                let ahead = self.nesterov.then(|| w.like(p));
                w.assign(&mut grad, ahead);
            }
        }
        w.assign(&mut grad, None);
    }

    fn foreach(&self, w: &mut StepWriter, parameters: &[TensorMeta], first: bool) {
        let decayed = if self.weight_decay == 0.0 { Vec::new() } else { w.list(parameters) };
        if first {
            parameters.iter().for_each(|p| w.state(p.bytes()));
        }
        // Nesterov's sum is taken in place.
        w.free_list(decayed);
    }
}
