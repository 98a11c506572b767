//! What RMSprop does to memory: a running square, perhaps a momentum buffer and a running gradient, and a root as a temporary.

use crate::meta::TensorMeta;
use crate::optim::rule::{OptimRule, StepRecipe, StepWriter};
use crate::optim::{Implementation, RmsProp};

impl OptimRule for RmsProp {
    fn step(&self, parameters: &[TensorMeta], step: u64) -> StepRecipe {
        let mut w = StepWriter::new();
        if step == 1 {
            let tensors = 1 + usize::from(self.momentum > 0.0) + usize::from(self.centered);
            for p in parameters {
                (0..tensors).for_each(|_| w.state(p.bytes()));
            }
        }
        if self.implementation == Implementation::ForLoop {
            // `avg` of one parameter lives until the next one's exists.
            let mut avg = None;
            for p in parameters {
                let root = w.like(p);
                w.assign(&mut avg, Some(root));
            }
            w.assign(&mut avg, None);
        } else {
            let roots = w.list(parameters);
            w.free_list(roots);
        }
        w.finish()
    }
}
