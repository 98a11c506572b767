//! The state of a run between two steps, taken out of it for a save and put back into another.

use std::collections::BTreeMap;

use super::scaler::Scaler;
use crate::exec::{Exec, Stream};
use crate::model::{Plan, StateKind};
use crate::optim::kernel::{SavedState, Stepper};
use crate::save::{About, Snapshot, Stored};
use crate::tensor::Tensor;

use super::interpreter::Model;

/// Names in a save begin so where they are the optimizer's.
const OPTIMIZER: &str = "optimizer.";

/// What a save would lack or have otherwise for this plan: a sentence each.
#[must_use]
pub fn misfits(plan: &Plan, snapshot: &Snapshot) -> Vec<String> {
    let mut wrong = Vec::new();
    for tensor in &plan.state {
        let (name, shape, dtype) = (&tensor.name, tensor.meta.shape.dims(), tensor.meta.dtype);
        match snapshot.tensor(name) {
            None => wrong.push(format!("it has no `{name}`")),
            Some(stored) if stored.shape != shape || stored.dtype != dtype => {
                wrong.push(format!("its `{name}` is {:?} {}, and the model's {shape:?} {dtype}", stored.shape, stored.dtype));
            }
            Some(_) => {}
        }
    }
    let optimizer = plan.settings.optimizer.map(|o| o.name().to_owned());
    if optimizer != snapshot.about.optimizer {
        let name = |o: &Option<String>| o.clone().unwrap_or_else(|| "no optimizer".to_owned());
        wrong.push(format!("it is of a run with {}, and the experiment has {}", name(&snapshot.about.optimizer), name(&optimizer)));
    }
    wrong
}

/// Takes the state after `step`.
pub(super) fn take(exec: &Exec, model: &Model, step: u64, stepper: Option<&(dyn Stepper + 'static)>, scaler: Option<&Scaler>) -> Snapshot {
    let plan = &model.plan;
    let stored = |name: String, tensor: &Tensor| Stored {
        name,
        dtype: tensor.dtype(),
        shape: tensor.shape().dims().to_vec(),
        bytes: exec.download(tensor),
    };
    let mut tensors: Vec<Stored> = plan.state.iter().zip(&model.state).map(|(s, v)| stored(s.name.clone(), v.tensor())).collect();
    let saved = stepper.map(|s| s.save(exec)).unwrap_or_default();
    let parameters = plan.state.iter().filter(|s| s.kind == StateKind::Parameter);
    for (parameter, state) in parameters.zip(saved.parameters) {
        let named = state.into_iter().map(|(name, tensor)| Stored { name: format!("{OPTIMIZER}{name}.{}", parameter.name), ..tensor });
        tensors.extend(named);
    }
    let about = About {
        step,
        random: exec.generator().state().number,
        optimizer: plan.settings.optimizer.map(|o| o.name().to_owned()),
        optimizer_steps: saved.steps,
        scaler: scaler.and_then(|s| s.save(exec)),
    };
    Snapshot { about, tensors }
}

/// Puts the rest of a save back, once the weights are on the device: the optimizer's and the scaler's state come to the device when those
/// make room for it, as in a fresh run.
pub(super) fn put_back(
    exec: &Exec,
    plan: &Plan,
    snapshot: &Snapshot,
    stepper: Option<&mut (dyn Stepper + 'static)>,
    scaler: Option<&mut Scaler>,
) {
    exec.generator().set_state(Stream { seed: plan.settings.seed, number: snapshot.about.random });
    if let Some(stepper) = stepper {
        let mut by_parameter: BTreeMap<&str, BTreeMap<String, Stored>> = BTreeMap::new();
        for stored in &snapshot.tensors {
            let named = stored.name.strip_prefix(OPTIMIZER).and_then(|n| n.split_once('.'));
            if let Some((state, parameter)) = named {
                by_parameter.entry(parameter).or_default().insert(state.to_owned(), stored.clone());
            }
        }
        let parameters = plan.state.iter().filter(|s| s.kind == StateKind::Parameter);
        let parameters = parameters.map(|p| by_parameter.remove(p.name.as_str()).unwrap_or_default()).collect();
        stepper.restore(SavedState { parameters, steps: snapshot.about.optimizer_steps.clone() });
    }
    if let (Some(scaler), Some(saved)) = (scaler, snapshot.about.scaler) {
        scaler.restore(saved);
    }
}
