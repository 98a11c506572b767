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

/// One new gradient for the first input, contiguous; the other inputs get none.
#[must_use]
pub fn backward(inputs: &[TensorMeta], needs: &[bool]) -> Backward {
    backward_as(inputs[0].like(), inputs, needs)
}

/// One new gradient for the first input that lies as an elementwise formula over these operands leaves it.
#[must_use]
pub fn backward_over(operands: &[&TensorMeta], inputs: &[TensorMeta], needs: &[bool]) -> Backward {
    backward_as(TensorMeta::over(inputs[0].shape.clone(), inputs[0].dtype, operands), inputs, needs)
}

fn backward_as(gradient: TensorMeta, inputs: &[TensorMeta], needs: &[bool]) -> Backward {
    let mut r = Recipe::new();
    let mut gradients = vec![Gradient::None; inputs.len()];
    if needs[0] {
        let out = r.tensor(&gradient);
        gradients[0] = Gradient::New(out, gradient);
    }
    r.backward(gradients)
}

/// The gradient that has come in for the only output.
///
/// # Panics
/// None has: an operator's formulas run only once one has arrived.
#[must_use]
pub fn incoming(grads: &[Option<TensorMeta>]) -> &TensorMeta {
    grads[0].as_ref().expect("formulas run once a gradient has arrived")
}

/// A formula of three steps of the gradient's size over the gradient and what was kept: two temporaries, then the gradient, and the
/// temporaries die in reverse.
#[must_use]
pub fn backward_of_three(operands: &[&TensorMeta], inputs: &[TensorMeta], needs: &[bool]) -> Backward {
    let mut r = Recipe::new();
    if !needs[0] {
        return r.backward(vec![Gradient::None]);
    }
    let out = TensorMeta::over(inputs[0].shape.clone(), inputs[0].dtype, operands);
    let (first, second) = (r.tensor(&out), r.tensor(&out));
    let slot = r.tensor(&out);
    r.free(second);
    r.free(first);
    r.backward(vec![Gradient::New(slot, out)])
}
