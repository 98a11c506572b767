//! Adam and AdamW by deed (`torch/optim/adam.py`).

use bytemuck::{Pod, Zeroable};

use crate::device::Operand;
use crate::device::cuda::{Cuda, Entry, Kernel, Source};
use crate::device::host::{Host, Real, with_real};
use crate::exec::{Exec, Result};
use crate::meta::DType;
use crate::optim::kernel::{self, NamedState, Scaling, Trained, address, launch, state_like, step_counter, temporaries};
use crate::optim::{Adam, Implementation};
use crate::tensor::Tensor;

/// PyTorch's `betas` and `eps`.
const BETAS: [f64; 2] = [0.9, 0.999];
const EPS: f64 = 1e-8;

static SOURCE: Source = Source { name: "adam", text: include_str!("kernel.cu") };

/// As the kernel declares it.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Settings {
    lr: f64,
    betas: [f64; 2],
    eps: f64,
    weight_decay: f64,
    step: f64,
    decoupled: u32,
    amsgrad: u32,
}

/// Adam with its moments.
pub(in crate::optim) struct Steps {
    adam: Adam,
    state: Vec<Option<State>>,
}

/// One parameter's state, in the order of its creation. Without `fused` the step counts on the host.
struct State {
    step: Option<Tensor>,
    steps: i32,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Option<Tensor>,
}

impl State {
    fn new(adam: &Adam, exec: &Exec, parameter: &Tensor) -> Result<Self> {
        let fused = adam.implementation == Implementation::Fused;
        Ok(Self {
            step: if fused { Some(step_counter(exec, parameter)?) } else { None },
            steps: 0,
            exp_avg: state_like(exec, parameter, "exp_avg")?,
            exp_avg_sq: state_like(exec, parameter, "exp_avg_sq")?,
            max_exp_avg_sq: if adam.amsgrad { Some(state_like(exec, parameter, "max_exp_avg_sq")?) } else { None },
        })
    }

    /// What the update is divided by the root of.
    fn second_moment(&self) -> &Tensor {
        self.max_exp_avg_sq.as_ref().unwrap_or(&self.exp_avg_sq)
    }
}

impl Steps {
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

    fn count_step(&mut self, exec: &Exec, trained: &[Trained]) {
        for (state, _) in self.state.iter_mut().zip(trained).filter(|(_, t)| t.grad.is_some()) {
            let Some(state) = state else { continue };
            state.steps += 1;
            if let Some(step) = &state.step {
                exec.on_host(|host| host.fill(step.operand(), state.steps.into()));
            }
        }
    }

    fn update_on_host(&self, host: &Host, trained: &[Trained]) {
        for (t, state) in trained.iter().zip(&self.state) {
            if let (Some(grad), Some(state)) = (&t.grad, state) {
                with_real!([grad], R => update::<R>(host, self.adam, grad.operand(), t.parameter.operand(), state));
            }
        }
    }

    fn update_on_cuda(&self, cuda: &Cuda, trained: &[Trained], scaling: Option<&Scaling>) {
        let fused = self.adam.implementation == Implementation::Fused;
        let scaling = Scaling::arguments(scaling);
        if fused {
            let counters = self.updated(trained).map(|(s, _)| Entry { addresses: [address(s.step.as_ref())], elements: 1 });
            let counters: Vec<_> = counters.collect();
            cuda.many(Kernel { source: &SOURCE, entry: "adam_count", types: &[DType::F32] }, &counters, &[scaling[1]]);
        }
        let entries = trained.iter().zip(&self.state).filter_map(|(t, state)| {
            let (p, grad, state) = (&t.parameter, t.grad.as_ref()?, state.as_ref()?);
            let most = address(state.max_exp_avg_sq.as_ref());
            let moments = [&state.exp_avg, &state.exp_avg_sq].map(|t| address(Some(t)));
            let addresses = [address(Some(p)), address(Some(grad)), moments[0], moments[1], most, address(state.step.as_ref())];
            // A fused optimizer counts on the device.
            let steps = if fused { 0 } else { u64::from(state.steps.unsigned_abs()) };
            Some((p.dtype(), steps, Entry { addresses, elements: p.meta().numel() }))
        });
        let settings = |steps: u64| {
            let settings = Settings {
                lr: self.adam.lr,
                betas: BETAS,
                eps: EPS,
                weight_decay: self.adam.weight_decay,
                step: steps as f64,
                decoupled: self.adam.decoupled.into(),
                amsgrad: self.adam.amsgrad.into(),
            };
            bytemuck::bytes_of(&settings).to_vec()
        };
        launch(cuda, &SOURCE, "adam", entries, settings, &scaling);
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
            _denom = divided(exec, root).inspect_err(|_| exec.memory().settle_failure())?;
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

/// A quotient; what is divided is nobody's afterwards.
fn divided(exec: &Exec, root: Tensor) -> Result<Tensor> {
    let quotient = exec.empty_like(&root);
    drop(root);
    quotient
}

fn update<R: Real>(host: &Host, adam: Adam, grad: Operand<'_>, p: Operand<'_>, state: &State) {
    let corrections = BETAS.map(|beta| 1.0 - beta.powi(state.steps));
    let [step_size, correction, eps] = [adam.lr / corrections[0], corrections[1].sqrt(), EPS].map(R::from_f64);
    let (shrink, decay) = if adam.decoupled { (1.0 - adam.lr * adam.weight_decay, 0.0) } else { (1.0, adam.weight_decay) };
    let [shrink, decay, beta1, beta2, gamma2] = [shrink, decay, 1.0 - BETAS[0], BETAS[1], 1.0 - BETAS[1]].map(R::from_f64);
    let moments = move |grad: R, p: R, exp_avg: R, exp_avg_sq: R| {
        let p = p * shrink;
        let grad = grad + decay * p;
        (p, exp_avg + beta1 * (grad - exp_avg), beta2 * exp_avg_sq + gamma2 * (grad * grad))
    };
    let step = move |p: R, exp_avg: R, second_moment: R| p - step_size * (exp_avg / (second_moment.sqrt() / correction + eps));
    let (exp_avg, exp_avg_sq) = (state.exp_avg.operand(), state.exp_avg_sq.operand());
    match &state.max_exp_avg_sq {
        None => host.map([grad, p, exp_avg, exp_avg_sq], [p, exp_avg, exp_avg_sq], |[grad, p, m, v]: [R; 4]| {
            let (p, m, v) = moments(grad, p, m, v);
            [step(p, m, v), m, v]
        }),
        Some(most) => {
            let most = most.operand();
            host.map([grad, p, exp_avg, exp_avg_sq, most], [p, exp_avg, exp_avg_sq, most], |[grad, p, m, v, most]: [R; 5]| {
                let (p, m, v) = moments(grad, p, m, v);
                let most = if v > most { v } else { most };
                [step(p, m, most), m, v, most]
            });
        }
    }
}

impl kernel::Steps for Steps {
    fn state(&self, parameter: usize) -> NamedState<'_> {
        let Some(state) = &self.state[parameter] else { return Vec::new() };
        vec![
            ("exp_avg", Some(&state.exp_avg)),
            ("exp_avg_sq", Some(&state.exp_avg_sq)),
            ("max_exp_avg_sq", state.max_exp_avg_sq.as_ref()),
            ("step", state.step.as_ref()),
        ]
    }

    fn counts(&self) -> Vec<u64> {
        self.state.iter().map(|state| state.as_ref().map_or(0, |s| u64::from(s.steps.unsigned_abs()))).collect()
    }

    fn count_from(&mut self, counts: &[u64]) {
        for (i, state) in self.state.iter_mut().enumerate() {
            if let Some(state) = state {
                state.steps = counts.get(i).and_then(|&n| i32::try_from(n).ok()).unwrap_or(0);
            }
        }
    }

    fn allocate(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()> {
        self.create_state(exec, trained)?;
        match self.adam.implementation {
            Implementation::ForLoop => self.for_loop(exec, trained),
            Implementation::Foreach => self.foreach(exec, trained),
            // One kernel, no temporaries.
            Implementation::Fused => Ok(()),
        }
    }

    fn update(&mut self, exec: &Exec, trained: &[Trained], scaling: Option<&Scaling>) {
        self.count_step(exec, trained);
        exec.on_host(|host| self.update_on_host(host, trained));
        exec.on_cuda(|gpu| self.update_on_cuda(gpu, trained, scaling));
    }
}
