//! `torch.nn.Conv2d`.

use std::rc::Rc;

use super::window::Window;
use super::{Check, Layer, LayerKind, Signal};
use crate::model::Init;
use crate::model::field::{Field, Kind, Literal, PAIR, PAIR_FROM_ZERO, SIZE, Value, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::conv2d;

pub(super) const KIND: LayerKind = LayerKind {
    name: "conv2d",
    doc: "Two-dimensional convolution over [channels, height, width].",
    fields: &[
        Field::required("out_channels", SIZE, "Channels of the output."),
        Field::required("kernel_size", PAIR, "Size of the window: n or [height, width]."),
        Field::integer("stride", PAIR, 1, "Step of the window: n or [height, width]."),
        Field::integer("padding", PAIR_FROM_ZERO, 0, "Zeros around the input: n or [height, width]."),
        Field::integer("dilation", PAIR, 1, "Distance of the window's elements: n or [height, width]."),
        Field::with_default(
            "groups",
            Kind::OneOf(&[SIZE, Kind::Choice(&["depthwise"])]),
            Literal::Integer(1),
            "Groups of channels; \"depthwise\" is one a channel.",
        ),
        Field::bool("bias", true, "Whether it adds a bias."),
    ],
    build: |values: &Values| {
        Rc::new(Conv2d {
            out_channels: values.integer("out_channels"),
            window: Window {
                kernel: values.pair("kernel_size"),
                stride: values.pair("stride"),
                padding: values.pair("padding"),
                dilation: values.pair("dilation"),
            },
            groups: if let Some(Value::Integer(n)) = values.get("groups") { Some(*n) } else { None },
            bias: values.bool("bias"),
        })
    },
};

#[derive(Debug)]
struct Conv2d {
    out_channels: u64,
    window: Window,
    /// `None` is one a channel.
    groups: Option<u64>,
    bias: bool,
}

impl Layer for Conv2d {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        if !cx.floating("conv2d", input) || !cx.rank("conv2d", input, 3..=3, "[channels, height, width]") {
            return None;
        }
        let channels = input.sample[0];
        let groups = self.groups.unwrap_or(channels);
        if !channels.is_multiple_of(groups) {
            cx.mistake_in("groups", format!("conv2d: {channels} input channels do not divide into {groups} groups"), None);
        }
        if !self.out_channels.is_multiple_of(groups) {
            cx.mistake_in(
                "out_channels",
                format!("conv2d: {} output channels do not divide into {groups} groups", self.out_channels),
                None,
            );
        }
        cx.tensor("a weight", &[self.out_channels, channels.div_ceil(groups), self.window.kernel[0], self.window.kernel[1]]);
        self.window.slide("conv2d", input, self.out_channels, cx)
    }

    /// Under autocast all arguments are cast down. PyTorch draws weight and bias from ±1/√(elements of a window).
    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let channels = cx.meta(input).shape.dims()[1];
        let groups = self.groups.unwrap_or(channels);
        let Window { kernel, stride, padding, dilation } = self.window;
        let of_group = channels / groups;
        let bound = Init::Uniform(1.0 / ((of_group * kernel[0] * kernel[1]) as f64).sqrt());
        let weight = cx.parameter("weight", [self.out_channels, of_group, kernel[0], kernel[1]], bound);
        let bias = self.bias.then(|| cx.parameter("bias", [self.out_channels], bound));
        let inputs: Vec<Var> = [input, weight].into_iter().chain(bias).collect();
        cx.run_low(conv2d::rule::Conv2d { stride, padding, dilation, groups, bias: self.bias }, &inputs)
    }
}
