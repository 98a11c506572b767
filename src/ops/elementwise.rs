//! Recipes that elementwise operators share: one output, and one gradient of the input's shape. PyTorch allocates both densely,
//! however the other operands lie.

use super::recipe::Recipe;
use super::rule::{Backward, Forward, Gradient, Output, Saved};
use crate::meta::TensorMeta;

/// One new output; `kept` is packed if `needed`, inputs before the operator works and its output after.
#[must_use]
pub fn forward(out: &TensorMeta, kept: &[Saved], needed: bool) -> Forward {
    let mut r = Recipe::new();
    let (after, before): (Vec<_>, Vec<_>) = kept.iter().copied().partition(|s| matches!(s, Saved::Output(_)));
    before.into_iter().for_each(|s| r.keep(s, needed));
    let slot = r.tensor(out);
    after.into_iter().for_each(|s| r.keep(s, needed));
    r.forward(vec![Output::New(slot, out.clone())])
}

/// One new gradient for the first input; the other inputs get none.
#[must_use]
pub fn backward(inputs: &[TensorMeta], needs: &[bool]) -> Backward {
    let mut r = Recipe::new();
    let mut gradients = vec![Gradient::None; inputs.len()];
    if needs[0] {
        let out = r.tensor(&inputs[0].like());
        gradients[0] = Gradient::New(out, inputs[0].like());
    }
    r.backward(gradients)
}

/// A formula of three steps of the gradient's size: two temporaries, then the gradient, and the temporaries die in reverse.
#[must_use]
pub fn backward_of_three(inputs: &[TensorMeta], needs: &[bool]) -> Backward {
    let mut r = Recipe::new();
    if !needs[0] {
        return r.backward(vec![Gradient::None]);
    }
    let like = inputs[0].like();
    let (first, second) = (r.tensor(&like), r.tensor(&like));
    let out = r.tensor(&like);
    r.free(second);
    r.free(first);
    r.backward(vec![Gradient::New(out, like)])
}
