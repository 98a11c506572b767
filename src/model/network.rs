//! A network with its training settings, and the plan it becomes: `torch_oracle`'s loop body, once per distinct input shape.

use std::collections::BTreeMap;

use super::layer::{At, Item, Origin, Sequence, sequential};
use super::loss::Loss;
use super::lowering::{Lowering, Settings, Var};
use super::plan::{Checkpointing, Layer, LayerId, Loop, Plan, Program, StateTensor};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::div_scalar::rule::DivScalar;

/// What is trained, checked: shapes fit, sizes are in range, all operators exist.
#[derive(Debug, Clone)]
pub struct Network {
    /// The layers.
    pub layers: Sequence,
    /// Shape of the sample that the model is built for.
    pub sample: Vec<u64>,
    /// Shape of one sample, for each step; one entry where all steps are alike.
    pub samples: Vec<Vec<u64>>,
    /// Vocabulary size of token inputs; `None` for features.
    pub vocabulary: Option<u64>,
    /// The loss; its name counts in `no_grad` too, where targets are still copied.
    pub loss: Loss,
    /// The loop.
    pub settings: Loop,
}

/// What a network becomes.
#[derive(Debug)]
pub struct Lowered {
    /// What is run.
    pub plan: Plan,
    /// Of each of its layers: where it is written.
    pub origins: Vec<Origin>,
    /// What keeps the plan from running.
    pub misfits: Vec<Misfit>,
}

/// A tensor of the model that samples of another shape would need in another shape than it is built in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Whose tensor.
    pub layer: LayerId,
    /// PyTorch's name.
    pub name: String,
    /// The shape that it is built in.
    pub built: Shape,
    /// The other samples.
    pub sample: Vec<u64>,
    /// The shape that they need.
    pub needed: Shape,
}

/// What all programs of a plan have in common.
#[derive(Debug)]
struct Model {
    state: Vec<StateTensor>,
    layers: Vec<Layer>,
    origins: Vec<Origin>,
}

impl Model {
    /// What another model, lowered from the same layers for samples of another shape, has otherwise.
    fn misfits(&self, other: &Self, sample: &[u64]) -> impl Iterator<Item = Misfit> {
        let unlike = self.state.iter().zip(&other.state).filter(|(built, needed)| built.meta.shape != needed.meta.shape);
        unlike.map(|(built, needed)| Misfit {
            layer: built.layer,
            name: built.name.clone(),
            built: built.meta.shape.clone(),
            sample: sample.to_vec(),
            needed: needed.meta.shape.clone(),
        })
    }
}

impl Network {
    /// The plan.
    ///
    /// # Panics
    /// If the network was not checked.
    #[must_use]
    pub fn lower(&self) -> Lowered {
        let mut distinct: Vec<&Vec<u64>> = Vec::new();
        let mut numbers = BTreeMap::new();
        let schedule = self.samples.iter().map(|sample| {
            *numbers.entry(sample).or_insert_with(|| {
                distinct.push(sample);
                distinct.len() - 1
            })
        });
        let schedule = schedule.collect();
        let (program, built) = self.program(&self.sample);
        let mut program = Some(program);
        let mut misfits = Vec::new();
        let programs = distinct.into_iter().map(|sample| {
            if let Some(program) = program.take_if(|_| *sample == self.sample) {
                return program;
            }
            let (program, model) = self.program(sample);
            misfits.extend(built.misfits(&model, sample));
            program
        });
        let programs = programs.collect();
        let Model { state, layers, origins } = built;
        let plan = Plan { layers, state, programs, schedule, vocabulary: self.vocabulary, settings: self.settings };
        Lowered { plan, origins, misfits }
    }

    /// The program for samples of that shape, and the model that it needs.
    fn program(&self, sample: &[u64]) -> (Program, Model) {
        let s = &self.settings;
        let mut cx = Lowering::new(Settings { numerics: s.numerics(), training: s.trains(), tape: !s.no_grad });
        let dims: Vec<u64> = std::iter::once(s.batch_size).chain(sample.iter().copied()).collect();
        let shape = Shape::new(dims).expect("the batch was checked");
        let batch = TensorMeta::contiguous(shape, if self.vocabulary.is_some() { DType::I64 } else { s.dtype });
        let input = cx.argument(batch);
        let argument = cx.value(input);
        let output = self.forward(input, &mut cx);
        if output != input && cx.value(input) != argument {
            cx.drop(input); // written in place: the batch lives on under its new value
        }
        let forward = cx.body(output);
        let target = self.loss.target(&cx.meta(output).shape.clone(), s.dtype).map(|meta| cx.argument(meta));
        cx.outside("loss");
        let loss = (!s.no_grad).then(|| self.loss.lower(output, target, &mut cx));
        let criterion = loss.map(|loss| cx.body(loss));
        let divided = loss.filter(|_| s.accumulation_steps > 1 && !s.no_grad);
        let divide = divided.map(|loss| {
            let divided = cx.run(DivScalar { divisor: s.accumulation_steps as f64 }, &[loss]);
            cx.body(divided)
        });
        let target = target.map(|t| cx.value(t));
        let finished = cx.finish();
        let numbering = finished.numbering;
        let model = Model { state: finished.state, layers: finished.layers, origins: finished.origins };
        let program = Program {
            values: finished.values,
            input: numbering.of(argument),
            target: target.map(|t| numbering.of(t)),
            forward: numbering.body(forward),
            criterion: criterion.map(|b| numbering.body(b)),
            autocast_cache: finished.autocast_cache,
            divide: divide.map(|b| numbering.body(b)),
        };
        (program, model)
    }

    /// `output = net(input)`, with the top-level modules in checkpointed regions as `checkpointing` asks.
    fn forward(&self, input: Var, cx: &mut Lowering) -> Var {
        let modules: Vec<&Item> = self.layers.modules().collect();
        match self.settings.checkpointing {
            Checkpointing::Off => self.layers.lower(input, cx),
            Checkpointing::EveryLayer => sequential(modules.iter().enumerate(), input, cx, |(i, module), x, cx| {
                cx.layer(At::both(i), module, |cx| cx.checkpoint(x, |cx| module.layer.lower(x, cx)))
            }),
            Checkpointing::Segments(n) => {
                let regions = usize::try_from(n).expect("no more segments than layers") - 1;
                let size = modules.len() / (regions + 1);
                let (checkpointed, plain) = modules.split_at(regions * size);
                let segments = checkpointed.chunks(size).map(|c| (c, true)).chain(plain.chunks(1).map(|c| (c, false)));
                sequential(segments.enumerate(), input, cx, |(i, (part, region)), x, cx| {
                    if region {
                        cx.module(&i.to_string(), |cx| cx.checkpoint(x, |cx| segment(part, i * size, x, cx)))
                    } else {
                        part[0].lower(At { module: i, layer: i - regions + regions * size }, x, cx)
                    }
                })
            }
        }
    }
}

/// A segment: an `nn.Sequential` of its own, whose layers reports count on from `first`.
fn segment(modules: &[&Item], first: usize, input: Var, cx: &mut Lowering) -> Var {
    sequential(modules.iter().enumerate(), input, cx, |(i, module), x, cx| module.lower(At { module: i, layer: first + i }, x, cx))
}
