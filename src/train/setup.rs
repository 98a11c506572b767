//! The model on its way to the device: a place for each tensor, and then its values.

use std::rc::Rc;

use super::data;
use super::interpreter::Model;
use super::reference_loop::COPY;
use crate::autograd::{Parameter, Variable};
use crate::exec::{Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::model::{Plan, StateKind};
use crate::record::{About, Category, Running};
use crate::save::Snapshot;
use crate::tensor::Tensor;

/// `net.to(device)`: one tensor after another, from a save where there is one.
pub(super) fn to_device(plan: &Rc<Plan>, exec: &Exec, resume: Option<&Snapshot>) -> Result<(Rc<Model>, Vec<Parameter>)> {
    let mut moved: Vec<Tensor> = Vec::with_capacity(plan.state.len());
    for (number, tensor) in (0..).zip(&plan.state) {
        let (layer, about) = (Some(tensor.layer.0), About::State(number));
        exec.memory().begin(Running { layer, about, ..Running::outside(COPY) });
        let category = match tensor.kind {
            StateKind::Parameter => Category::Parameters,
            StateKind::Buffer => Category::Buffers,
        };
        moved.push(exec.empty_as(tensor.meta.clone(), category)?);
        flatten(plan, exec, &mut moved)?;
    }
    if exec.computes() {
        fill(plan, exec, resume, &moved);
    }
    let mut parameters = Vec::new();
    let state = plan.state.iter().zip(moved).map(|(tensor, moved)| match tensor.kind {
        StateKind::Parameter => {
            let parameter = Parameter::new(moved);
            let variable = parameter.variable();
            parameters.push(parameter);
            variable
        }
        StateKind::Buffer => Variable::constant(moved),
    });
    let state = state.collect();
    Ok((Rc::new(Model { plan: Rc::clone(plan), state }), parameters))
}

/// Gives every parameter and buffer its values, once all of them have their places: a model that is too large says so before anything is
/// drawn.
fn fill(plan: &Plan, exec: &Exec, resume: Option<&Snapshot>, moved: &[Tensor]) {
    let mut drawn = data::state(plan);
    for (tensor, on_device) in plan.state.iter().zip(moved) {
        match resume.and_then(|snapshot| snapshot.tensor(&tensor.name)) {
            Some(stored) => exec.upload(&stored.bytes, on_device),
            None => exec.upload(drawn.next().expect("values for each tensor").bytes(), on_device),
        }
    }
}

/// `flatten_parameters`: once the last of those that share a buffer is there, all become parts of it.
fn flatten(plan: &Plan, exec: &Exec, moved: &mut [Tensor]) -> Result<()> {
    let group = plan.flat_until(moved.len() - 1);
    let members = &plan.state[group.clone()];
    let Some(first) = members.first() else { return Ok(()) };
    let elements = members.iter().map(|s| s.meta.numel()).sum::<u64>();
    let shape = Shape::new([elements]).expect("the layer's check refuses weights that are too large together");
    let flat = exec.empty_as(TensorMeta::contiguous(shape, first.meta.dtype), Category::Parameters)?;
    for (own, member) in moved[group].iter_mut().zip(members) {
        let place = member.flat.expect("members of a buffer have a place in it");
        *own = flat.alias_at(member.meta.clone(), place.offset);
    }
    Ok(())
}
