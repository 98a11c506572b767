//! Where gradients meet: at a node with several consumers, and at a leaf that has a gradient already. Both follow PyTorch's rules for
//! when a sum needs memory.

use super::variable::Leaf;
use crate::exec::{Exec, Result};
use crate::record::Category;
use crate::tensor::Tensor;

/// Adds `new` to what has arrived before (`InputBuffer::accumulate`): in place where nobody else sees the older one, else in a new tensor.
pub(super) fn join(exec: &Exec, slot: &mut Option<Tensor>, new: Tensor) -> Result<()> {
    *slot = Some(match slot.take() {
        None => new,
        Some(old) if old.meta().is_dense() && old.is_unique() => {
            exec.add_in_place(&old, &new);
            old
        }
        Some(old) => exec.add(&old, &new)?,
    });
    Ok(())
}

/// Gives a leaf its gradient (`AccumulateGrad`). The first is taken over where nobody else holds it and its layout is the leaf's, else
/// copied; later ones are added in place.
pub(super) fn to_leaf(exec: &Exec, leaf: &Leaf, new: Tensor) -> Result<()> {
    let mut slot = leaf.grad.borrow_mut();
    if let Some(grad) = &*slot {
        exec.add_in_place(grad, &new);
        return Ok(());
    }
    let grad = if new.use_count() == 1 && obeys_layout_contract(&new, &leaf.tensor) {
        new
    } else {
        let layout = if leaf.tensor.meta().is_dense() { leaf.tensor.shared_meta() } else { leaf.tensor.meta().like().into() };
        exec.clone_as(&new, layout)?
    };
    grad.set_category(Category::Gradients);
    *slot = Some(grad);
    Ok(())
}

/// Strides as the leaf's where the leaf is dense (sides of size 1 do not count), else contiguous.
fn obeys_layout_contract(grad: &Tensor, leaf: &Tensor) -> bool {
    let (grad, leaf) = (grad.meta(), leaf.meta());
    if !leaf.is_dense() {
        return grad.is_contiguous();
    }
    leaf.shape.dims().iter().zip(grad.strides.iter().zip(&leaf.strides)).all(|(&d, (a, b))| d == 1 || a == b)
}
