//! What `linear` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, Gradient, Library, OpRule, Output, RuleContext, Saved, ShapeError};

/// `x · weightᵀ + bias`: PyTorch's `addmm` with a bias, `mm` without. Inputs: x, weight (out, in), bias if `bias`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Linear {
    /// Whether there is a bias: the third input.
    pub bias: bool,
}

impl OpRule for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let (x, weight) = (&inputs[0], &inputs[1]);
        let [out, features] = *weight.shape.dims() else {
            return Err(ShapeError { message: format!("linear needs a weight of two dimensions, got {}", weight.shape) });
        };
        if x.shape.rank() == 0 || x.shape.last() != features {
            return Err(ShapeError {
                message: format!("linear of weight {} needs {features} features last, but its input has shape {}", weight.shape, x.shape),
            });
        }
        if self.bias && inputs[2].shape.dims() != [out] {
            return Err(ShapeError {
                message: format!("linear of weight {} needs a bias of shape [{out}], got {}", weight.shape, inputs[2].shape),
            });
        }
        Ok(vec![TensorMeta::contiguous(x.shape.with_last(out)?, x.dtype)])
    }

    fn views(&self, inputs: &[TensorMeta]) -> Vec<usize> {
        let folds = inputs[0].shape.rank() != 2;
        match (folds, self.bias) {
            (false, _) => vec![1],
            // `linear` folds x itself and transposes the weight last; without a bias `matmul` folds what it is given.
            (true, true) => vec![0, 1],
            (true, false) => vec![1, 0],
        }
    }

    fn makes(&self, inputs: &[TensorMeta]) -> Option<TensorMeta> {
        let (x, rows) = (&inputs[0].shape, inputs[1].shape.dims()[0]);
        let shape = || Shape::new([x.rows(), rows]).expect("infer has succeeded");
        (x.rank() != 2).then(|| TensorMeta::contiguous(shape(), inputs[0].dtype))
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let (x, weight) = (&inputs[0], &inputs[1]);
        let mut r = Recipe::new();
        // By name: `mat1` and `mat2` of addmm; `mat2` and `self` of mm, where x is `self`.
        let keeps = [(0, needs[1]), (1, needs[0])];
        let by_name = if self.bias { [keeps[0], keeps[1]] } else { [keeps[1], keeps[0]] };
        by_name.into_iter().for_each(|(i, needed)| r.keep(Saved::Input(i), needed));
        let out = TensorMeta::contiguous(x.shape.with_last(weight.shape.dims()[0]).expect("infer has succeeded"), x.dtype);
        let slot = r.tensor(&out);
        // cuBLASLt adds the bias as it stores, but PyTorch takes it only where both sides of the weight are longer than 1.
        let epilogue = self.bias && weight.shape.dims().iter().all(|&d| d > 1);
        r.library(if epilogue { Library::CublasLt } else { Library::Cublas });
        // `addmm` makes a matrix, of which one with more dimensions is a view; without a bias the fold is undone unseen.
        let output =
            if self.bias && out.shape.rank() != 2 { Output::NewView(slot, out.clone(), matrix(&out)) } else { Output::New(slot, out) };
        r.forward(vec![output])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(incoming) = &grads[0] else { return r.backward(vec![Gradient::None; inputs.len()]) };
        let incoming = matrix(incoming);
        let mut gradients = vec![Gradient::None; inputs.len()];
        // Formulas run by name: `mat1, mat2, self` (the bias) in addmm; `mat2, self` in mm, where x is `self`.
        for i in if self.bias { [0, 1] } else { [1, 0] } {
            if needs[i] {
                gradients[i] = product(&mut r, &inputs[i], &incoming);
            }
        }
        r.returned();
        if self.bias && needs[2] {
            // The formula of the bias is the gradient itself: the engine sums it over the rows.
            let sum = Reduction::new(&incoming, &[true, false], incoming.dtype).run(&mut r, cx.gpu);
            gradients[2] = Gradient::New(sum, inputs[2].like());
        }
        r.backward(gradients)
    }
}

/// A matrix product into a gradient of `input`'s shape. cuBLAS reads transposed matrices but no others: an incoming gradient
/// that is spread with stride 0 is written out, for each product anew.
fn product(r: &mut Recipe, input: &TensorMeta, incoming: &TensorMeta) -> Gradient {
    let out = r.tensor(&input.like());
    let copy = (!incoming.is_dense()).then(|| r.tensor(&incoming.like()));
    r.library(Library::Cublas);
    if let Some(copy) = copy {
        r.free(copy);
    }
    Gradient::New(out, input.like())
}

/// A tensor as the matrix that the product gave: leading dimensions folded into rows.
fn matrix(incoming: &TensorMeta) -> TensorMeta {
    let shape = Shape::new([incoming.shape.rows(), incoming.shape.last()]).expect("the same number of elements");
    if incoming.is_expanded_scalar() { TensorMeta::expanded(shape, incoming.dtype) } else { TensorMeta::contiguous(shape, incoming.dtype) }
}
