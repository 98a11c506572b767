//! Losses: what targets they take, what outputs they need, and their operators.

use super::layer::Signal;
use super::lowering::{Lowering, Var};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::{bce_with_logits, log_softmax, mean, mse_loss, nll_loss, sum, view};

/// `loss = criterion(output, target)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// `output.sum()`.
    Sum,
    /// `output.mean()`.
    Mean,
    /// `F.mse_loss`.
    Mse,
    /// `F.binary_cross_entropy_with_logits`.
    BceWithLogits,
    /// `F.cross_entropy` over the last dimension; targets are class indices.
    CrossEntropy,
}

impl Loss {
    /// Names in experiment files, in the order of the documentation.
    pub const NAMES: &'static [&'static str] = &["sum", "mean", "mse", "bce_with_logits", "cross_entropy"];

    /// The loss of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Sum, Self::Mean, Self::Mse, Self::BceWithLogits, Self::CrossEntropy];
        Self::NAMES.iter().position(|n| *n == name).map(|i| all[i])
    }

    /// The targets for an output of this shape (batch in front): none, floats of that shape, or int64 without the last dimension.
    #[must_use]
    pub fn target(self, output: &Shape, dtype: DType) -> Option<TensorMeta> {
        match self {
            Self::Sum | Self::Mean => None,
            Self::Mse | Self::BceWithLogits => Some(TensorMeta::contiguous(output.clone(), dtype)),
            Self::CrossEntropy => {
                let lead = output.dims().split_last().map_or(&[][..], |(_, lead)| lead);
                Some(TensorMeta::contiguous(Shape::new(lead).expect("smaller than the output"), DType::I64))
            }
        }
    }

    /// What is wrong with this output for this loss, if anything.
    #[must_use]
    pub fn refuses(self, output: &Signal) -> Option<String> {
        if output.vocabulary.is_some() {
            return Some(format!("the loss needs floating-point values, but the model's output is {}", output.describe()));
        }
        (self == Self::CrossEntropy && output.sample.is_empty())
            .then(|| "cross_entropy needs an output of shape […, classes], but each sample's output is a single number".to_owned())
    }

    /// Whether it can view an output that lies so: cross_entropy takes it as rows of classes.
    #[must_use]
    pub fn can_view(self, output: &TensorMeta) -> bool {
        self != Self::CrossEntropy || output.viewed(&rows_of_classes(&output.shape)).is_some()
    }

    /// The operators.
    pub(super) fn lower(self, output: Var, target: Option<Var>, cx: &mut Lowering) -> Var {
        let with_target = || target.expect("this loss has targets");
        match self {
            Self::Sum => {
                let to_f32 = cx.autocast_to_f32(output).is_some();
                cx.run(sum::rule::Sum { to_f32 }, &[output])
            }
            Self::Mean => cx.run(mean::rule::Mean, &[output]),
            Self::Mse => cx.run_f32(mse_loss::rule::MseLoss, &[output, with_target()]),
            Self::BceWithLogits => cx.run_f32(bce_with_logits::rule::BceWithLogits, &[output, with_target()]),
            Self::CrossEntropy => cross_entropy(output, with_target(), cx),
        }
    }
}

/// The shape that cross_entropy sees an output in.
fn rows_of_classes(output: &Shape) -> Shape {
    Shape::new([output.rows(), output.last()]).expect("as many elements as the output")
}

/// `F.cross_entropy(output.view(-1, classes), target.view(-1))`. Autocast does not cast for `log_softmax`, whose type is given
/// there, but it does for `nll_loss`.
fn cross_entropy(output: Var, target: Var, cx: &mut Lowering) -> Var {
    let flat = rows_of_classes(&cx.meta(output).shape);
    let rows = Shape::new([flat.rows()]).expect("smaller than the output");
    // Where the output has no such view the plan copies it, and is refused for that: PyTorch does not.
    let logits = cx.reshape(output, flat);
    let classes = cx.run(view::rule::View::plain(rows), &[target]);
    let log_probabilities = cx.run(log_softmax::rule::LogSoftmax, &[logits]);
    let loss = cx.run_f32(nll_loss::rule::NllLoss, &[log_probabilities, classes]);
    for temporary in [log_probabilities, classes, logits] {
        cx.drop(temporary);
    }
    loss
}
