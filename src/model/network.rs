//! A network with its training settings, and the plan it becomes: `torch_oracle`'s loop body, once per distinct input shape.

use std::collections::BTreeMap;

use super::layer::{At, Item, Origin, Sequence, sequential};
use super::loss::Loss;
use super::lowering::{Lowering, Settings, Var};
use super::plan::{Checkpointing, Layer, Loop, Plan, Program, StateTensor};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::div_scalar::rule::DivScalar;

/// What is trained, checked: shapes fit, sizes are in range, all operators exist.
#[derive(Debug, Clone)]
pub struct Network {
    /// The layers.
    pub layers: Sequence,
    /// Shape of one sample, for each step; one entry where all steps are alike.
    pub samples: Vec<Vec<u64>>,
    /// Vocabulary size of token inputs; `None` for features.
    pub vocabulary: Option<u64>,
    /// The loss; its name counts in `no_grad` too, where targets are still copied.
    pub loss: Loss,
    /// The loop.
    pub settings: Loop,
}

/// What all programs of a plan have in common.
#[derive(Debug, Default)]
struct Model {
    state: Vec<StateTensor>,
    layers: Vec<Layer>,
    origins: Vec<Origin>,
}

impl Network {
    /// The plan, and for each of its layers where it is written.
    ///
    /// # Panics
    /// If the network was not checked.
    #[must_use]
    pub fn lower(&self) -> (Plan, Vec<Origin>) {
        let mut distinct: Vec<&Vec<u64>> = Vec::new();
        let mut numbers = BTreeMap::new();
        let schedule = self.samples.iter().map(|sample| {
            *numbers.entry(sample).or_insert_with(|| {
                distinct.push(sample);
                distinct.len() - 1
            })
        });
        let schedule = schedule.collect();
        let mut model = Model::default();
        let programs = distinct.iter().map(|sample| self.program(sample, &mut model)).collect();
        let plan =
            Plan { layers: model.layers, state: model.state, programs, schedule, vocabulary: self.vocabulary, settings: self.settings };
        (plan, model.origins)
    }

    fn program(&self, sample: &[u64], model: &mut Model) -> Program {
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
        *model = Model { state: finished.state, layers: finished.layers, origins: finished.origins };
        Program {
            values: finished.values,
            input: numbering.of(argument),
            target: target.map(|t| numbering.of(t)),
            forward: numbering.body(forward),
            criterion: criterion.map(|b| numbering.body(b)),
            autocast_cache: finished.autocast_cache,
            divide: divide.map(|b| numbering.body(b)),
        }
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
