//! RMSprop by deed (`torch/optim/rmsprop.py`).

use crate::exec::{Exec, Result};
use crate::optim::kernel::{self, Scaling, Trained, state_like, temporaries};
use crate::optim::{Implementation, RmsProp};
use crate::tensor::Tensor;

/// RMSprop with its averages.
pub(in crate::optim) struct Stepper {
    rmsprop: RmsProp,
    state: Vec<Option<State>>,
}

/// One parameter's state, in the order of its creation.
struct State {
    square_avg: Tensor,
    _momentum_buffer: Option<Tensor>,
    _grad_avg: Option<Tensor>,
}

impl Stepper {
    pub(in crate::optim) fn new(rmsprop: RmsProp, parameters: usize) -> Self {
        Self { rmsprop, state: (0..parameters).map(|_| None).collect() }
    }

    fn create_state(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        let RmsProp { momentum, centered, .. } = self.rmsprop;
        for (state, t) in self.state.iter_mut().zip(trained) {
            if state.is_none() && t.grad.is_some() {
                let new = |wanted: bool| if wanted { state_like(exec, &t.parameter).map(Some) } else { Ok(None) };
                *state = Some(State {
                    square_avg: state_like(exec, &t.parameter)?,
                    _momentum_buffer: new(momentum > 0.0)?,
                    _grad_avg: new(centered)?,
                });
            }
        }
        Ok(())
    }

    fn square_avgs(&self) -> impl Iterator<Item = &Tensor> {
        self.state.iter().flatten().map(|s| &s.square_avg)
    }
}

impl kernel::Stepper for Stepper {
    fn step(&mut self, exec: &Exec, trained: &[Trained], _scaling: Option<&Scaling>) -> Result<()> {
        self.create_state(exec, trained)?;
        match self.rmsprop.implementation {
            Implementation::ForLoop => {
                // Python's variable `avg`: the last parameter's temporary lives until it is assigned anew.
                let mut _avg;
                for square_avg in self.square_avgs() {
                    _avg = exec.empty_like(square_avg)?;
                }
            }
            // There is no fused one, in PyTorch or in the language.
            Implementation::Foreach | Implementation::Fused => {
                let avg = temporaries(exec, self.square_avgs())?;
                drop(avg);
            }
        }
        Ok(())
    }
}
