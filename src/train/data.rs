//! What a run computes on: initial weights and synthetic batches, as elements in the program's own memory.
//!
//! `init = "reference"` gives closed forms that are the same in any framework; random values come from the seed alone. Weights are
//! made in f32 and then converted, as modules are constructed in f32 and then moved. Invariant: values depend on the plan and on
//! position, never on what was asked for before.

use crate::device::host::{Encoded, Philox};
use crate::exec::{Exec, Staged};
use crate::meta::{DType, TensorMeta};
use crate::model::{Init, Plan, Program, StateKind, ValueId};

/// Streams of the seed that operators' own streams, numbered from 0, do not reach.
const WEIGHTS: u64 = 1 << 62;
const INPUTS: u64 = 2 << 62;
const TARGETS: u64 = 3 << 62;

/// The initial values of every parameter and buffer, in the plan's order.
pub(super) fn state(plan: &Plan) -> impl Iterator<Item = Encoded> {
    let mut parameters = 0;
    plan.state.iter().zip(0..).map(move |(tensor, number)| {
        let rank = tensor.meta.shape.rank();
        let parameter = parameters;
        parameters += u64::from(tensor.kind == StateKind::Parameter);
        if !plan.settings.reference_init || tensor.kind == StateKind::Buffer {
            return random_weights(&tensor.meta, tensor.init, Philox::new(plan.settings.seed, WEIGHTS + number));
        }
        let name = tensor.name.rsplit('.').next().unwrap_or(&tensor.name);
        match tensor.init {
            _ if rank >= 2 => reference_weights(&tensor.meta, parameter),
            _ if name.contains("bias") => constant(&tensor.meta, 0.0),
            init => random_weights(&tensor.meta, init, Philox::new(plan.settings.seed, WEIGHTS + number)),
        }
    })
}

fn constant(meta: &TensorMeta, value: f64) -> Encoded {
    Encoded::new(meta.dtype, elements(meta), |_, out: &mut [f64]| out.fill(value))
}

fn random_weights(meta: &TensorMeta, init: Init, philox: Philox) -> Encoded {
    match init {
        Init::Constant(value) => constant(meta, value),
        Init::Uniform(bound) => draw(meta, move |group| philox.uniform(group).map(|u| (f64::from(u) * 2.0 - 1.0) * bound)),
        Init::Normal(deviation) => draw(meta, move |group| philox.normal(group).map(|n| f64::from(n) * deviation)),
    }
}

/// Weights number `parameter`: a sine over the elements, scaled by the root of the elements that feed one output.
fn reference_weights(meta: &TensorMeta, parameter: u64) -> Encoded {
    let fan = meta.shape.dims()[1..].iter().product::<u64>() as f64;
    Encoded::new(meta.dtype, elements(meta), move |start, out: &mut [f64]| {
        for (i, out) in (start..).zip(out) {
            *out = f64::from(((1.0 + 0.5 * i as f64 + parameter as f64).sin() / fan.sqrt()) as f32);
        }
    })
}

/// An input and, where the loss has any, targets.
pub(super) struct Batch<E = Staged> {
    pub(super) input: E,
    pub(super) target: Option<E>,
}

/// The synthetic batches of a run. Random ones are made once for each program, as a script makes its synthetic data once.
pub(super) struct Synthetic<'a> {
    plan: &'a Plan,
    exec: &'a Exec,
    last: Option<(usize, u64, Batch)>,
}

impl<'a> Synthetic<'a> {
    pub(super) fn new(plan: &'a Plan, exec: &'a Exec) -> Self {
        Self { plan, exec, last: None }
    }

    /// The batch for micro-step number `number`, from 0, which runs that program.
    pub(super) fn next(&mut self, program: usize, number: u64) -> &Batch {
        let number = if self.plan.settings.reference_init { number } else { 0 };
        if self.last.as_ref().is_none_or(|&(p, n, _)| (p, n) != (program, number)) {
            // The old one goes first: two may not fit.
            self.last = None;
            let Batch { input, target } = self.make(&self.plan.programs[program], number);
            let staged = Batch { input: self.exec.stage(input), target: target.map(|t| self.exec.stage(t)) };
            self.last = Some((program, number, staged));
        }
        &self.last.as_ref().expect("it was just made").2
    }

    fn make(&self, program: &Program, number: u64) -> Batch<Encoded> {
        let meta = |id: ValueId| program.meta(id);
        let input = meta(program.input);
        let classes = meta(program.forward.result).shape.last();
        if self.plan.settings.reference_init {
            let input = match self.plan.vocabulary {
                Some(vocabulary) => integers(input, move |i| i.wrapping_mul(7919).wrapping_add(number * 104_729) % vocabulary),
                None => floats(input, move |i| (0.1 * i + number as f64).sin()),
            };
            let target = program.target.map(meta).map(|target| match target.dtype {
                DType::I64 => integers(target, move |i| (i * 31 + 17 * number) % classes),
                _ => floats(target, move |i| 0.5 + 0.5 * (0.3 * i + number as f64).sin()),
            });
            return Batch { input, target };
        }
        let seed = self.plan.settings.seed;
        let (inputs, targets) = (Philox::new(seed, INPUTS), Philox::new(seed, TARGETS));
        let below = |n: u64, philox: Philox| move |group| philox.bits(group).map(|b| ((u64::from(b) * n) >> 32) as f64);
        Batch {
            input: match self.plan.vocabulary {
                Some(vocabulary) => draw(input, below(vocabulary, inputs)),
                None => draw(input, move |group| inputs.normal(group).map(f64::from)),
            },
            target: program.target.map(meta).map(|target| match target.dtype {
                DType::I64 => draw(target, below(classes, targets)),
                _ => draw(target, move |group| targets.uniform(group).map(f64::from)),
            }),
        }
    }
}

/// Elements four at a time.
fn draw(meta: &TensorMeta, group: impl Fn(u64) -> [f64; 4] + Sync) -> Encoded {
    Encoded::new(meta.dtype, elements(meta), |start, out: &mut [f64]| {
        for (number, out) in (start as u64 / 4..).zip(out.chunks_mut(4)) {
            out.copy_from_slice(&group(number)[..out.len()]);
        }
    })
}

fn integers(meta: &TensorMeta, value: impl Fn(u64) -> u64 + Sync) -> Encoded {
    Encoded::new(meta.dtype, elements(meta), |start, out: &mut [f64]| {
        (start as u64..).zip(out).for_each(|(i, out)| *out = value(i) as f64);
    })
}

fn floats(meta: &TensorMeta, value: impl Fn(f64) -> f64 + Sync) -> Encoded {
    Encoded::new(meta.dtype, elements(meta), |start, out: &mut [f64]| {
        (start..).zip(out).for_each(|(i, out)| *out = value(i as f64));
    })
}

fn elements(meta: &TensorMeta) -> usize {
    usize::try_from(meta.numel()).expect("the host addresses what it makes")
}
