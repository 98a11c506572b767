//! What tensors are called: from what a recorder wrote down and the plan that ran.

use crate::measure::Held;
use crate::model::Work;
use crate::record::{About, Category, Pass, Running};

/// The names that a case has to give.
pub(super) struct Names {
    layers: Vec<String>,
    state: Vec<String>,
}

impl Names {
    pub(super) fn of(work: &Work) -> Self {
        match work {
            Work::Script(_) => Self { layers: Vec::new(), state: Vec::new() },
            Work::Train(plan) => Self {
                layers: plan.layers.iter().map(|l| l.path.clone()).collect(),
                state: plan.state.iter().map(|s| s.name.clone()).collect(),
            },
        }
    }

    /// The layer at work, if one is.
    pub(super) fn layer(&self, running: &Running) -> Option<&str> {
        running.layer.and_then(|n| self.layers.get(n as usize)).map(String::as_str)
    }

    /// A tensor of the model.
    pub(super) fn state(&self, number: u32) -> Option<&str> {
        self.state.get(number as usize).map(String::as_str)
    }

    /// What is at work: an operator, and of which layer.
    pub(super) fn at_work(&self, running: &Running) -> String {
        let way = if running.pass == Pass::Backward && running.operator != "accumulate_grad" { " backward" } else { "" };
        match self.layer(running) {
            Some(layer) => format!("{}{way} of layer {layer}", running.operator),
            None => format!("{}{way}", running.operator),
        }
    }

    /// A tensor, by the role it plays: `0.weight`, `the gradient of 0.weight`, `what linear of layer 0.linear made`.
    pub(super) fn tensor(&self, held: &Held) -> String {
        let state = held.state.and_then(|n| self.state.get(n as usize));
        match (held.category, state) {
            (Category::Parameters | Category::Buffers, Some(name)) => name.clone(),
            (Category::Gradients, Some(name)) => format!("{name}.grad"),
            (Category::OptimizerState, Some(name)) => match held.running.about {
                About::StateOf(_, state) => format!("{state} of {name}"),
                _ => format!("{} state of {name}", held.running.operator),
            },
            (Category::Inputs, _) => "batch".to_owned(),
            (Category::Workspace, _) => format!("workspace, {}", self.at_work(&held.running)),
            (Category::Other, _) if held.running.layer.is_none() => held.running.operator.to_owned(),
            _ => format!("output, {}", self.at_work(&held.running)),
        }
    }
}
