//! RMSprop by deed (`torch/optim/rmsprop.py`).

use bytemuck::{Pod, Zeroable};

use crate::device::Operand;
use crate::device::cuda::{Cuda, Entry, Source};
use crate::device::host::{Host, Real, with_real};
use crate::exec::{Exec, Result};
use crate::optim::kernel::{self, NamedState, Scaling, Trained, address, launch, state_like, temporaries};
use crate::optim::{Implementation, RmsProp};
use crate::tensor::Tensor;

/// PyTorch's `alpha`, the weight of the old average.
const ALPHA: f64 = 0.99;
const EPS: f64 = 1e-8;

static SOURCE: Source = Source { name: "rmsprop", text: include_str!("kernel.cu") };

/// As the kernel declares it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Settings {
    lr: f64,
    alpha: f64,
    eps: f64,
    momentum: f64,
    has_momentum: u32,
    centered: u32,
}

/// RMSprop with its averages.
pub(in crate::optim) struct Steps {
    rmsprop: RmsProp,
    state: Vec<Option<State>>,
}

/// One parameter's state, in the order of its creation.
struct State {
    square_avg: Tensor,
    momentum_buffer: Option<Tensor>,
    grad_avg: Option<Tensor>,
}

impl Steps {
    pub(in crate::optim) fn new(rmsprop: RmsProp, parameters: usize) -> Self {
        Self { rmsprop, state: (0..parameters).map(|_| None).collect() }
    }

    fn create_state(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        let RmsProp { momentum, centered, .. } = self.rmsprop;
        for (state, t) in self.state.iter_mut().zip(trained) {
            if state.is_none() && t.grad.is_some() {
                let new = |wanted: bool, name| if wanted { state_like(exec, &t.parameter, name).map(Some) } else { Ok(None) };
                *state = Some(State {
                    square_avg: state_like(exec, &t.parameter, "square_avg")?,
                    momentum_buffer: new(momentum > 0.0, "momentum_buffer")?,
                    grad_avg: new(centered, "grad_avg")?,
                });
            }
        }
        Ok(())
    }

    fn update_on_cuda(&self, cuda: &Cuda, trained: &[Trained]) {
        let entries = trained.iter().zip(&self.state).filter_map(|(t, state)| {
            let (p, grad, state) = (&t.parameter, t.grad.as_ref()?, state.as_ref()?);
            let kept = [state.momentum_buffer.as_ref(), state.grad_avg.as_ref()].map(address);
            let addresses = [address(Some(p)), address(Some(grad)), address(Some(&state.square_avg)), kept[0], kept[1]];
            Some((p.dtype(), 0, Entry { addresses, elements: p.meta().numel() }))
        });
        let RmsProp { lr, momentum, centered, .. } = self.rmsprop;
        let has_momentum = (momentum > 0.0).into();
        let settings = Settings { lr, alpha: ALPHA, eps: EPS, momentum, has_momentum, centered: centered.into() };
        launch(cuda, &SOURCE, "rmsprop", entries, |_| bytemuck::bytes_of(&settings).to_vec(), &[]);
    }

    fn update_on_host(&self, host: &Host, trained: &[Trained]) {
        for (t, state) in trained.iter().zip(&self.state) {
            if let (Some(grad), Some(state)) = (&t.grad, state) {
                with_real!([grad], R => update::<R>(host, self.rmsprop, grad.operand(), t.parameter.operand(), state));
            }
        }
    }

    fn square_avgs(&self) -> impl Iterator<Item = &Tensor> {
        self.state.iter().flatten().map(|s| &s.square_avg)
    }
}

fn update<R: Real>(host: &Host, rmsprop: RmsProp, grad: Operand<'_>, p: Operand<'_>, state: &State) {
    let [lr, momentum, alpha, beta, eps] = [rmsprop.lr, rmsprop.momentum, ALPHA, 1.0 - ALPHA, EPS].map(R::from_f64);
    let square_avg = state.square_avg.operand();
    host.map([grad, square_avg], [square_avg], |[grad, square]: [R; 2]| [alpha * square + beta * (grad * grad)]);
    let grad_avg = state.grad_avg.as_ref().map(Tensor::operand);
    if let Some(grad_avg) = grad_avg {
        host.map([grad, grad_avg], [grad_avg], |[grad, mean]: [R; 2]| [mean + beta * (grad - mean)]);
    }
    // Without a mean nothing is taken off the square; what stands in for it is not looked at.
    let (centered, mean) = (grad_avg.is_some(), grad_avg.unwrap_or(square_avg));
    let quotient = move |grad: R, square: R, mean: R| {
        let variance = if centered { square - mean * mean } else { square };
        grad / (variance.sqrt() + eps)
    };
    match &state.momentum_buffer {
        None => host.map([grad, p, square_avg, mean], [p], |[grad, p, square, mean]: [R; 4]| [p - lr * quotient(grad, square, mean)]),
        Some(buffer) => {
            let buffer = buffer.operand();
            host.map([grad, p, square_avg, mean, buffer], [p, buffer], |[grad, p, square, mean, buffer]: [R; 5]| {
                let buffer = momentum * buffer + quotient(grad, square, mean);
                [p - lr * buffer, buffer]
            });
        }
    }
}

impl kernel::Steps for Steps {
    fn state(&self, parameter: usize) -> NamedState<'_> {
        let Some(state) = &self.state[parameter] else { return Vec::new() };
        vec![
            ("square_avg", Some(&state.square_avg)),
            ("momentum_buffer", state.momentum_buffer.as_ref()),
            ("grad_avg", state.grad_avg.as_ref()),
        ]
    }

    fn allocate(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
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
            Implementation::Foreach | Implementation::Fused => drop(temporaries(exec, self.square_avgs())?),
        }
        Ok(())
    }

    fn update(&mut self, exec: &Exec, trained: &[Trained], _scaling: Option<&Scaling>) {
        exec.on_host(|host| self.update_on_host(host, trained));
        exec.on_cuda(|gpu| self.update_on_cuda(gpu, trained));
    }
}
