//! `torch.nn.Linear` over the last dimension.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::meta::Shape;
use crate::model::Init;
use crate::model::field::{Field, SIZE, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::add::rule::Add;
use crate::ops::linear::rule::Linear;
use crate::ops::view::rule::View;

pub(super) const KIND: LayerKind = LayerKind {
    name: "linear",
    doc: "`x · weightᵀ + bias` over the last dimension.",
    fields: &[
        Field::required("out_features", SIZE, "Size of the last dimension of the output."),
        Field::bool("bias", true, "Whether it adds a bias."),
    ],
    build: |values: &Values| Rc::new(LinearLayer { out_features: values.integer("out_features"), bias: values.bool("bias") }),
};

#[derive(Debug)]
struct LinearLayer {
    out_features: u64,
    bias: bool,
}

impl Layer for LinearLayer {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        check(input, self.out_features, "linear", cx)
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        lower(input, self.out_features, self.bias, cx)
    }
}

/// The check of a linear map, for layers that hold one.
pub(super) fn check(input: &Signal, out_features: u64, name: &str, cx: &mut Check) -> Option<Signal> {
    if !cx.floating(name, input) || !cx.rank(name, input, 1..=usize::MAX, "[…, features]") {
        return None;
    }
    let (in_features, lead) = input.sample.split_last()?;
    cx.tensor("a weight", &[out_features, *in_features]);
    let mut sample = lead.to_vec();
    sample.push(out_features);
    cx.output(input.with_sample(sample))
}

/// `nn.Linear`: under autocast all of its arguments are cast down. PyTorch draws weight and bias from ±1/√in.
pub(super) fn lower(input: Var, out_features: u64, bias: bool, cx: &mut Lowering) -> Var {
    let in_features = cx.meta(input).shape.last();
    let bound = Init::Uniform(1.0 / (in_features as f64).sqrt());
    let weight = cx.parameter("weight", [out_features, in_features], bound);
    let bias_value = bias.then(|| cx.parameter("bias", [out_features], bound));
    let inputs: Vec<Var> = [input, weight].into_iter().chain(bias_value).collect();
    cx.low(&inputs, linear)
}

/// `F.linear`: one product of rows, but where the input has more than two dimensions and is not contiguous, as the output of an LSTM:
/// `matmul`, then the bias in place.
fn linear(cx: &mut Lowering, inputs: &[Var]) -> Var {
    let x = cx.meta(inputs[0]);
    if x.shape.rank() <= 2 || x.is_contiguous() {
        return cx.run(Linear { bias: inputs.len() > 2 }, inputs);
    }
    let out = matmul(cx, inputs[0], inputs[1]);
    if let Some(&bias) = inputs.get(2) {
        cx.update(Add { inplace: true }, &[out, bias]);
    }
    out
}

/// `matmul(x, weight.t())` of an x that no strides make a matrix of: it is copied. The weight is transposed before that, by a node of its
/// own, which backward therefore comes to only after the copy's.
fn matmul(cx: &mut Lowering, x: Var, weight: Var) -> Var {
    let x_shape = cx.meta(x).shape.clone();
    let columns = cx.meta(weight).shape.dims()[0];
    let transposed = cx.run(View::plain(cx.meta(weight).shape.clone()), &[weight]);
    let rows = cx.reshape(x, Shape::new([x_shape.rows(), x_shape.last()]).expect(FITS));
    let product = cx.run(Linear { bias: false }, &[rows, transposed]);
    cx.drop(rows);
    cx.drop(transposed);
    let shape = x_shape.with_last(columns).expect(FITS);
    let out = cx.run(View { shape, hidden: true }, &[product]);
    cx.drop(product);
    out
}

const FITS: &str = "the layer's check refuses outputs that are too large";
