//! Adam and AdamW by deed (`torch/optim/adam.py`).

use crate::exec::{Exec, Result};
use crate::optim::kernel::{self, Scaling, Trained, state_like, step_counter, temporaries};
use crate::optim::{Adam, Implementation};
use crate::tensor::Tensor;

/// Adam with its moments.
pub(in crate::optim) struct Stepper {
    adam: Adam,
    state: Vec<Option<State>>,
}

/// One parameter's state, in the order of its creation. Without `fused` the step counts on the host.
struct State {
    _step: Option<Tensor>,
    _exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Option<Tensor>,
}

impl State {
    fn new(adam: &Adam, exec: &Exec, parameter: &Tensor) -> Result<Self> {
        let fused = adam.implementation == Implementation::Fused;
        Ok(Self {
            _step: if fused { Some(step_counter(exec)?) } else { None },
            _exp_avg: state_like(exec, parameter)?,
            exp_avg_sq: state_like(exec, parameter)?,
            max_exp_avg_sq: if adam.amsgrad { Some(state_like(exec, parameter)?) } else { None },
        })
    }

    /// What the update is divided by the root of.
    fn second_moment(&self) -> &Tensor {
        self.max_exp_avg_sq.as_ref().unwrap_or(&self.exp_avg_sq)
    }
}

impl Stepper {
    pub(in crate::optim) fn new(adam: Adam, parameters: usize) -> Self {
        Self { adam, state: (0..parameters).map(|_| None).collect() }
    }

    /// Whether weight decay is added to the gradient, in a temporary.
    fn decays_gradient(&self) -> bool {
        self.adam.weight_decay != 0.0 && !self.adam.decoupled
    }

    fn create_state(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        for (state, t) in self.state.iter_mut().zip(trained) {
            if state.is_none() && t.grad.is_some() {
                *state = Some(State::new(&self.adam, exec, &t.parameter)?);
            }
        }
        Ok(())
    }

    fn updated<'a>(&'a self, trained: &'a [Trained]) -> impl Iterator<Item = (&'a State, &'a Tensor)> {
        self.state.iter().zip(trained).filter_map(|(state, t)| Some((state.as_ref()?, t.grad.as_ref()?)))
    }

    fn for_loop(&self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        // Python's variables `grad` and `denom`: the last parameter's temporaries live until they are assigned anew.
        let (mut _grad, mut _denom);
        for (state, grad) in self.updated(trained) {
            _grad = grad.clone();
            if self.decays_gradient() {
                _grad = exec.empty_like(grad)?;
            }
            let root = exec.empty_like(state.second_moment())?;
            let quotient = exec.empty_like(&root)?;
            drop(root);
            _denom = quotient;
        }
        Ok(())
    }

    fn foreach(&self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        if self.decays_gradient() {
            drop(temporaries(exec, self.updated(trained).map(|(_, grad)| grad))?);
        }
        let roots = temporaries(exec, self.updated(trained).map(|(state, _)| state.second_moment()))?;
        drop(roots);
        Ok(())
    }
}

impl kernel::Stepper for Stepper {
    fn step(&mut self, exec: &Exec, trained: &[Trained], _scaling: Option<&Scaling>) -> Result<()> {
        self.create_state(exec, trained)?;
        match self.adam.implementation {
            Implementation::ForLoop => self.for_loop(exec, trained),
            Implementation::Foreach => self.foreach(exec, trained),
            // One kernel, no temporaries.
            Implementation::Fused => Ok(()),
        }
    }
}
