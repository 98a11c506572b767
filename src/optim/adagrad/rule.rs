//! What Adagrad does to memory: sums of squares, which the constructor makes, and their roots as temporaries.

use crate::meta::TensorMeta;
use crate::optim::rule::{OptimRule, StepRecipe, StepWriter};
use crate::optim::{Adagrad, Implementation};

impl OptimRule for Adagrad {
    fn construct(&self, parameters: &[TensorMeta]) -> StepRecipe {
        let mut w = StepWriter::new();
        parameters.iter().for_each(|p| w.state(p.bytes()));
        w.finish()
    }

    fn step(&self, parameters: &[TensorMeta], _: u64) -> StepRecipe {
        let mut w = StepWriter::new();
        if self.implementation == Implementation::ForLoop {
            // `std` of one parameter lives until the next one's exists.
            let mut std = None;
            for p in parameters {
                let root = w.like(p);
                w.assign(&mut std, Some(root));
            }
            w.assign(&mut std, None);
        } else {
            let roots = w.list(parameters);
            let scaled = w.list(parameters);
            w.free_list(roots);
            w.free_list(scaled);
        }
        w.finish()
    }
}
