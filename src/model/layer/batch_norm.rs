//! `torch.nn.BatchNorm1d` and `BatchNorm2d`, by the input's dimensions.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::meta::{DType, TensorMeta};
use crate::model::Init;
use crate::model::lowering::{Lowering, Var};
use crate::ops::{batch_norm, contiguous};

pub(super) const KIND: LayerKind = LayerKind {
    name: "batch_norm",
    doc: "Normalises each channel over the batch (and the positions in it), then scales and shifts; keeps running statistics.",
    fields: &[],
    build: |_| Rc::new(BatchNorm),
};

#[derive(Debug)]
struct BatchNorm;

impl Layer for BatchNorm {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        let fits = cx.floating("batch_norm", input)
            && cx.rank("batch_norm", input, 1..=3, "[channels], [channels, length] or [channels, height, width]");
        let positions = || input.sample[1..].iter().product::<u64>();
        if fits && cx.training && input.batch == Some(1) && positions() == 1 {
            cx.mistake_with_hint(
                format!("batch_norm in training needs more than one value a channel, but a batch of 1 of {} has one", input.describe()),
                "PyTorch refuses it: `Expected more than 1 value per channel when training`; use a larger `batch_size`",
            );
        }
        fits.then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let channels = cx.meta(input).shape.dims()[1];
        let weight = cx.parameter("weight", [channels], Init::Constant(1.0));
        let bias = cx.parameter("bias", [channels], Init::Constant(0.0));
        let mean = cx.buffer("running_mean", [channels], None, Init::Constant(0.0));
        let variance = cx.buffer("running_var", [channels], None, Init::Constant(1.0));
        let batches = cx.buffer("num_batches_tracked", [], Some(DType::I64), Init::Constant(0.0));
        let op = batch_norm::rule::BatchNorm { training: cx.settings().training, momentum: 0.1, eps: 1e-5 };
        let state = [weight, bias, mean, variance, batches];
        let metas: Vec<TensorMeta> = [input].iter().chain(&state).map(|&v| cx.meta(v).clone()).collect();
        // cuDNN is handed contiguous images.
        let x = if op.is_cudnn(&metas) && !metas[0].is_contiguous() { cx.run(contiguous::rule::Contiguous, &[input]) } else { input };
        let out = cx.run(op, &[&[x], &state[..]].concat());
        if x != input {
            cx.drop(x);
        }
        out
    }
}
