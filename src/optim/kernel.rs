//! What an optimizer does by deed: its state and its steps over tensors, with the temporaries and the lifetimes of PyTorch's Python
//! code (`torch/optim/*.py`). As with operators, a kernel never asks its rule.

use std::collections::BTreeMap;

use super::optimizer::Optimizer;
use crate::device::cuda::{Arg, Cuda, Entry, Kernel, Source};
use crate::device::host::map;
use crate::exec::{Exec, Result};
use crate::meta::{DType, TensorMeta};
use crate::record::{About, Category, Running};
use crate::save::Stored;
use crate::tensor::Tensor;

/// A trained tensor and the gradient that backward left, if it left one: without, it is not updated.
#[derive(Debug)]
pub struct Trained {
    /// What is updated.
    pub parameter: Tensor,
    /// By what.
    pub grad: Option<Tensor>,
}

/// What a gradient scaler hands to an optimizer that unscales by itself (the fused ones).
#[derive(Debug)]
pub struct Scaling {
    /// What the gradients are multiplied by: a scalar.
    pub grad_scale: Tensor,
    /// Not 0 where a gradient is infinite or not a number: a scalar.
    pub found_inf: Tensor,
}

impl Scaling {
    /// What a fused step does first: whether it goes on, with its gradients divided by the scale.
    ///
    /// On a GPU it always goes on: its kernels look at both scalars themselves, so that nobody waits for them.
    fn unscale(&self, exec: &Exec, trained: &[Trained]) -> bool {
        let mut goes_on = true;
        exec.on_host(|host| {
            goes_on = host.values::<f32>(self.found_inf.operand())[0] == 0.0;
            for grad in trained.iter().filter_map(|t| t.grad.as_ref()).filter(|_| goes_on) {
                map!(host, [grad, self.grad_scale] => [grad], |grad, scale| [grad / scale]);
            }
        });
        goes_on
    }

    /// The two scalars' addresses as arguments of a kernel; 0 where there is no scaler.
    pub(super) fn arguments(scaling: Option<&Self>) -> [Arg<'static>; 2] {
        let address = |t: fn(&Self) -> &Tensor| Arg::from(scaling.map_or(0, |s| t(s).operand().address));
        [address(|s| &s.grad_scale), address(|s| &s.found_inf)]
    }
}

/// What a save holds of an optimizer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SavedState {
    /// The state of each parameter, by PyTorch's names.
    pub parameters: Vec<BTreeMap<String, Stored>>,
    /// Steps made, by parameter, where the optimizer counts them.
    pub steps: Vec<u64>,
}

impl SavedState {
    /// Fills a parameter's state, where the save has it.
    fn fill(&self, exec: &Exec, parameter: usize, state: &[(&str, Option<&Tensor>)]) {
        let Some(saved) = self.parameters.get(parameter).filter(|_| exec.computes()) else { return };
        for (name, tensor) in state {
            if let (Some(stored), Some(tensor)) = (saved.get(*name), tensor)
                && stored.bytes.len() as u64 == tensor.meta().bytes()
            {
                exec.upload(&stored.bytes, tensor);
            }
        }
    }
}

/// A parameter's state, taken from the device.
fn taken(exec: &Exec, state: &[(&str, Option<&Tensor>)]) -> BTreeMap<String, Stored> {
    let stored = |(name, tensor): &(&str, Option<&Tensor>)| {
        let tensor = (*tensor)?;
        let (dtype, shape) = (tensor.dtype(), tensor.shape().dims().to_vec());
        Some(((*name).to_owned(), Stored { name: (*name).to_owned(), dtype, shape, bytes: exec.download(tensor) }))
    };
    state.iter().filter_map(stored).collect()
}

/// An optimizer with its state.
pub trait Stepper {
    /// Its state as it is now; what a save gave it and it has not taken over yet, as that.
    fn save(&self, exec: &Exec) -> SavedState;

    /// Goes on from a save: takes its values over as soon as there is room for them, which is made when it would be without.
    fn restore(&mut self, saved: SavedState);

    /// One step. State that is not there yet is created on the way. `trained` has the same parameters in the same order each time.
    ///
    /// # Errors
    /// Out of memory.
    fn step(&mut self, exec: &Exec, trained: &[Trained], scaling: Option<&Scaling>) -> Result<()>;
}

impl Optimizer {
    /// The optimizer over these parameters, as its constructor leaves it.
    ///
    /// # Errors
    /// Out of memory (Adagrad creates its state here).
    pub fn stepper(&self, exec: &Exec, parameters: &[Tensor]) -> Result<Box<dyn Stepper>> {
        let count = parameters.len();
        Ok(match *self {
            Self::Sgd(sgd) => Resumable::boxed(super::sgd::kernel::Steps::new(sgd, count), count),
            Self::Adam(adam) => Resumable::boxed(super::adam::kernel::Steps::new(adam, count), count),
            Self::Adagrad(adagrad) => Resumable::boxed(super::adagrad::kernel::Steps::new(adagrad, exec, parameters)?, count),
            Self::RmsProp(rmsprop) => Resumable::boxed(super::rmsprop::kernel::Steps::new(rmsprop, count), count),
        })
    }
}

/// A parameter's state by PyTorch's names; of what is absent, nothing.
pub(super) type NamedState<'a> = Vec<(&'static str, Option<&'a Tensor>)>;

/// What is an optimizer's own about its steps.
pub(super) trait Steps {
    /// The state of a parameter, by its number; empty where it has none yet.
    fn state(&self, parameter: usize) -> NamedState<'_>;

    /// Steps made, by parameter; empty where it does not count them on the host.
    fn counts(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Goes on counting from these.
    fn count_from(&mut self, _counts: &[u64]) {}

    /// What a step allocates: state that is not there yet, and temporaries, which have died when it returns.
    ///
    /// # Errors
    /// Out of memory.
    fn allocate(&mut self, exec: &Exec, trained: &[Trained]) -> Result<()>;

    /// Updates the parameters.
    fn update(&mut self, exec: &Exec, trained: &[Trained], scaling: Option<&Scaling>);
}

/// An optimizer that can go on from a save.
struct Resumable<S> {
    steps: S,
    parameters: usize,
    /// What it goes on from, until it has taken that over.
    saved: Option<SavedState>,
}

impl<S: Steps + 'static> Resumable<S> {
    fn boxed(steps: S, parameters: usize) -> Box<dyn Stepper> {
        Box::new(Self { steps, parameters, saved: None })
    }
}

impl<S: Steps> Stepper for Resumable<S> {
    fn save(&self, exec: &Exec) -> SavedState {
        let parameters = || (0..self.parameters).map(|i| taken(exec, &self.steps.state(i))).collect();
        self.saved.clone().unwrap_or_else(|| SavedState { parameters: parameters(), steps: self.steps.counts() })
    }

    fn restore(&mut self, saved: SavedState) {
        self.saved = Some(saved);
    }

    fn step(&mut self, exec: &Exec, trained: &[Trained], scaling: Option<&Scaling>) -> Result<()> {
        self.steps.allocate(exec, trained)?;
        if let Some(saved) = self.saved.take() {
            (0..self.parameters).for_each(|i| saved.fill(exec, i, &self.steps.state(i)));
            self.steps.count_from(&saved.steps);
        }
        if scaling.is_none_or(|s| s.unscale(exec, trained)) {
            self.steps.update(exec, trained, scaling);
        }
        Ok(())
    }
}

/// Where a tensor is; 0 if there is none.
pub(super) fn address(t: Option<&Tensor>) -> u64 {
    t.map_or(0, |t| t.operand().address)
}

/// Launches a multi-tensor kernel over all entries, those of one type and one number of steps together: `kernel(lists, args…)`.
pub(super) fn launch<const L: usize>(
    cuda: &Cuda,
    source: &'static Source,
    entry: &'static str,
    entries: impl Iterator<Item = (DType, u64, Entry<L>)>,
    args: impl Fn(u64) -> Vec<u8>,
    more: &[Arg<'_>],
) {
    let mut groups: BTreeMap<(DType, u64), Vec<Entry<L>>> = BTreeMap::new();
    for (dtype, steps, entry) in entries {
        groups.entry((dtype, steps)).or_default().push(entry);
    }
    for ((dtype, steps), entries) in groups {
        let settings = args(steps);
        let args = [&[Arg::Struct(&settings)], more].concat();
        cuda.many(Kernel { source, entry, types: &[dtype] }, &entries, &args);
    }
}

/// A new tensor of zeros for state of that name, laid out as its parameter.
pub(super) fn state_like(exec: &Exec, parameter: &Tensor, name: &'static str) -> Result<Tensor> {
    about(exec, About::StateOf(parameter.operand().address, name));
    let state = exec.empty_as(parameter.shared_meta(), Category::OptimizerState)?;
    exec.fill(&state, 0.0);
    Ok(state)
}

/// Says which parameter that is for which is allocated next.
fn about(exec: &Exec, about: About) {
    exec.memory().begin(Running { about, ..exec.memory().running() });
}

/// A fused optimizer's step counter for a parameter, which lives on the device.
pub(super) fn step_counter(exec: &Exec, parameter: &Tensor) -> Result<Tensor> {
    about(exec, About::StateOf(parameter.operand().address, "step"));
    let counter = exec.empty_as(TensorMeta::scalar(DType::F32), Category::OptimizerState)?;
    exec.fill(&counter, 0.0);
    Ok(counter)
}

/// What a `_foreach_` function returns: a list of temporaries, all alive together. A Python list drops its last item first.
#[derive(Debug, Default)]
pub(super) struct Temporaries(Vec<Tensor>);

impl std::ops::Deref for Temporaries {
    type Target = [Tensor];

    fn deref(&self) -> &[Tensor] {
        &self.0
    }
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// A temporary for each tensor. Where memory runs out, a list that is not whole dies, and those that variables hold stay.
pub(super) fn temporaries<'a>(exec: &Exec, like: impl IntoIterator<Item = &'a Tensor>) -> Result<Temporaries> {
    about(exec, About::Nothing);
    all_or_none(exec, like).inspect_err(|_| exec.memory().settle_failure())
}

fn all_or_none<'a>(exec: &Exec, like: impl IntoIterator<Item = &'a Tensor>) -> Result<Temporaries> {
    let mut list = Temporaries::default();
    for tensor in like {
        list.0.push(exec.empty_like(tensor)?);
    }
    Ok(list)
}
