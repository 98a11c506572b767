//! `torch.nn.RMSNorm` over the last dimension.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::meta::DType;
use crate::model::Init;
use crate::model::field::{Field, Interval, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::{add_scalar, contiguous, mean_last, mul, rms_norm, rsqrt, square};

pub(super) const KIND: LayerKind = LayerKind {
    name: "rms_norm",
    doc: "Divides by the root mean square over the last dimension, then scales.",
    fields: &[Field::number("eps", Interval::NOT_NEGATIVE, 1e-6, "Added to the mean square.")],
    build: |values: &Values| Rc::new(RmsNorm { eps: values.number("eps") }),
};

#[derive(Debug)]
struct RmsNorm {
    eps: f64,
}

impl Layer for RmsNorm {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        (cx.floating("rms_norm", input) && cx.rank("rms_norm", input, 1..=usize::MAX, "[…, features]")).then(|| input.clone())
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let features = cx.meta(input).shape.last();
        let weight = cx.parameter("weight", [features], Init::Constant(1.0));
        if cx.meta(input).dtype == cx.meta(weight).dtype {
            return cx.run(rms_norm::rule::RmsNorm { eps: self.eps }, &[input, weight]);
        }
        self.lower_unfused(input, weight, cx)
    }
}

impl RmsNorm {
    /// What PyTorch computes where input and weight differ in type, which happens under autocast: operator by operator, in at least f32.
    fn lower_unfused(&self, input: Var, weight: Var, cx: &mut Lowering) -> Var {
        let dtype = cx.meta(input).dtype;
        let wide = cx.cast(input, if dtype.is_half() { DType::F32 } else { dtype });
        let squared = cx.run(square::rule::Square, &[wide]);
        let mean = cx.run(mean_last::rule::MeanLast, &[squared]);
        cx.update(add_scalar::rule::AddScalar { value: self.eps }, &[mean]);
        let scale = cx.run(rsqrt::rule::Rsqrt, &[mean]);
        cx.drop(mean);
        cx.drop(squared);
        let normalised = cx.run(mul::rule::Mul, &[wide, scale]);
        let mut weighted = cx.run(mul::rule::Mul, &[normalised, weight]);
        cx.drop(normalised);
        if !cx.meta(weighted).is_contiguous() {
            let rows = cx.run(contiguous::rule::Contiguous, &[weighted]);
            cx.drop(weighted);
            weighted = rows;
        }
        if wide != input {
            cx.drop(wide);
        }
        let output = cx.cast(weighted, dtype);
        if weighted != output {
            cx.drop(weighted);
        }
        cx.drop(scale);
        output
    }
}
