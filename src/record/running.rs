//! What was running when something happened to memory: what a history's frames name, and the role that a tensor begins in.

use super::Category;

/// An operator at work, and what for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Running {
    /// Its name, or a word for what is none.
    pub operator: &'static str,
    /// The layer that it belongs to, by its number in the plan.
    pub layer: Option<u32>,
    /// Which way.
    pub pass: Pass,
    /// The tensor that it works for, where that is one of the model's.
    pub about: About,
}

/// Which way an operator runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Forward: for the first time, or again for a checkpoint.
    #[default]
    Forward,
    /// Backward.
    Backward,
    /// Neither: the optimizer steps, or the gradient scaler.
    Step,
}

impl Pass {
    /// The role of a tensor that an operator makes, until somebody gives it another one. What a step makes and does not keep as state
    /// lives no longer than the step, and nothing is differentiated through it.
    #[must_use]
    pub const fn role(self) -> Category {
        match self {
            Self::Forward | Self::Backward => Category::Activations,
            Self::Step => Category::Other,
        }
    }
}

/// A tensor of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum About {
    /// None in particular.
    #[default]
    Nothing,
    /// That one of the plan's state, on its way to the device.
    State(u32),
    /// The one at this address: it gets a gradient.
    At(u64),
    /// The one at this address gets state of the optimizer, of that name.
    StateOf(u64, &'static str),
}

impl Running {
    /// An optimizer that is set up, or steps.
    #[must_use]
    pub const fn step(operator: &'static str) -> Self {
        Self { pass: Pass::Step, ..Self::outside(operator) }
    }

    /// Something that is no layer's.
    #[must_use]
    pub const fn outside(operator: &'static str) -> Self {
        Self { operator, layer: None, pass: Pass::Forward, about: About::Nothing }
    }
}
