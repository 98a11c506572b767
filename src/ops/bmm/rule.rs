//! What `bmm` does to memory.

use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::rule::{Backward, Forward, Gradient, Library, OpRule, Output, RuleContext, Saved, ShapeError, Slot};

/// Products of matrices, one a batch entry: `left[i] · right[i]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bmm;

impl OpRule for Bmm {
    fn name(&self) -> &'static str {
        "bmm"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        match (inputs[0].shape.dims(), inputs[1].shape.dims()) {
            (&[n, rows, inner], &[m, inner_too, columns]) if n == m && inner == inner_too => {
                Ok(vec![TensorMeta::contiguous(Shape::new([n, rows, columns])?, inputs[0].dtype)])
            }
            _ => Err(ShapeError { message: format!("bmm cannot multiply {} by {}", inputs[0].shape, inputs[1].shape) }),
        }
    }

    fn forward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let mut r = Recipe::new();
        // By name: `mat2` before `self`.
        r.keep(Saved::Input(1), needs[0]);
        r.keep(Saved::Input(0), needs[1]);
        let (slot, out) = product(&mut r, &inputs[0], &inputs[1]);
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, _: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let Some(incoming) = &grads[0] else { return r.backward(vec![Gradient::None; 2]) };
        // Formulas run by name: `mat2` before `self`.
        let right = needs[1].then(|| product(&mut r, &inputs[0].transposed(1, 2), incoming));
        let left = needs[0].then(|| product(&mut r, incoming, &inputs[1].transposed(1, 2)));
        r.backward([left, right].into_iter().map(|g| g.map_or(Gradient::None, |(slot, meta)| Gradient::New(slot, meta))).collect())
    }
}

/// The output first, then a copy of every side that cuBLAS cannot read where it lies.
fn product(r: &mut Recipe, left: &TensorMeta, right: &TensorMeta) -> (Slot, TensorMeta) {
    let (l, s) = (left.shape.dims(), right.shape.dims());
    let out = TensorMeta::contiguous(Shape::new([l[0], l[1], s[2]]).expect("infer has succeeded"), left.dtype);
    let slot = r.tensor(&out);
    let copies: Vec<Slot> = [left, right].into_iter().filter(|m| !is_readable(m)).map(|m| r.tensor(&m.like())).collect();
    r.library(Library::Cublas);
    copies.into_iter().rev().for_each(|copy| r.free(copy));
    (slot, out)
}

/// Rows or columns of every matrix are dense and do not overlap.
fn is_readable(m: &TensorMeta) -> bool {
    let (d, s) = (m.shape.dims(), &m.strides);
    (s[2] == 1 && s[1] >= d[2].max(1)) || (s[1] == 1 && s[2] >= d[1].max(1))
}
