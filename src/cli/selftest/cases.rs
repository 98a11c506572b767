//! The cases: for every registered operator at least one, with sizes that are odd, small, and large enough for every way its kernels go.

use crate::meta::{DType, Shape};
use crate::ops::Operator;
use crate::ops::{
    adaptive_avg_pool2d::rule::AdaptiveAvgPool2d, add::rule::Add, add_scalar::rule::AddScalar, avg_pool2d::rule::AvgPool2d,
    batch_norm::rule::BatchNorm, bce_with_logits::rule::BceWithLogits, bmm::rule::Bmm, causal_mask::rule::CausalMask,
    contiguous::rule::Contiguous, conv2d::rule::Conv2d, copy_into::rule::CopyInto, div_scalar::rule::DivScalar, dropout::rule::Dropout,
    embedding::rule::Embedding, expand::rule::Expand, gelu::rule::Gelu, group_norm::rule::GroupNorm, layer_norm::rule::LayerNorm,
    linear::rule::Linear, log_softmax::rule::LogSoftmax, max_pool2d::rule::MaxPool2d, mean::rule::Mean, mean_last::rule::MeanLast,
    mse_loss::rule::MseLoss, mul::rule::Mul, mul_scalar::rule::MulScalar, nll_loss::rule::NllLoss, pad_last::rule::PadLast,
    relu::rule::Relu, rms_norm::rule::RmsNorm, rnn::rule::Rnn, rsqrt::rule::Rsqrt, scaled_dot_product_attention::backend::Backend,
    scaled_dot_product_attention::rule::ScaledDotProductAttention, select::rule::Select, sigmoid::rule::Sigmoid, silu::rule::Silu,
    slice::rule::Slice, softmax::rule::Softmax, split::rule::Split, square::rule::Square, sum::rule::Sum, tanh::rule::Tanh,
    to_copy::rule::ToCopy, transpose::rule::Transpose, view::rule::View, window::Window, zeros::rule::Zeros,
};
use crate::scratch::Cell;

use super::codec::TYPES;
use super::operators::{Case, From, Input, Kind, Step, Values};

const HALVES: &[DType] = &[DType::F16, DType::BF16];
const F16: &[DType] = &[DType::F16];
/// What the fused attention kernels compute in.
const FUSED: &[DType] = &[DType::F32, DType::F16, DType::BF16];
const EPS: f64 = 1e-5;
const MEAN_SCALE: f64 = 4096.0;

fn input(kind: Kind, shape: &[u64], values: Values) -> Input {
    Input { shape: shape.to_vec(), values, kind }
}

/// Trained values around 0.
fn x(shape: &[u64]) -> Input {
    input(Kind::Trained, shape, Values::Uniform(-2.0, 2.0))
}

/// One operator over its inputs.
fn one(name: &str, op: impl Into<Operator>, inputs: Vec<Input>) -> Case {
    let shape: Vec<String> = inputs.first().map(|i| i.shape.iter().map(u64::to_string).collect()).unwrap_or_default();
    let from = (0..inputs.len()).map(From::Input).collect();
    Case {
        name: format!("{name} {}", shape.join("×")),
        inputs,
        steps: vec![Step { op: op.into(), from }],
        types: &TYPES,
        backward: true,
        scale: 1.0,
    }
}

impl Case {
    /// A further operator over what came last.
    fn then(mut self, op: impl Into<Operator>) -> Self {
        let op = op.into();
        self.name = format!("{}, {}", self.name, op.rule().name());
        self.steps.push(Step { op, from: vec![From::Step(self.steps.len() - 1)] });
        self
    }

    /// First the same values as something that may be changed in place.
    fn of_intermediate(mut self) -> Self {
        for step in &mut self.steps {
            step.from.iter_mut().filter(|f| matches!(f, From::Input(0))).for_each(|f| *f = From::Step(0));
        }
        self.steps.insert(0, Step { op: DivScalar { divisor: 1.0 }.into(), from: vec![From::Input(0)] });
        self
    }

    fn scaled(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    fn only(mut self, types: &'static [DType]) -> Self {
        self.types = types;
        self
    }

    fn forward_only(mut self) -> Self {
        self.backward = false;
        self
    }
}

/// Every case.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    linear(&mut cases);
    elementwise(&mut cases);
    rows(&mut cases);
    batches(&mut cases);
    images(&mut cases);
    groups(&mut cases);
    recurrent(&mut cases);
    reductions(&mut cases);
    losses(&mut cases);
    views(&mut cases);
    sequences(&mut cases);
    cases
}

fn linear(cases: &mut Vec<Case>) {
    let weights = |n: u64, k: u64| input(Kind::Trained, &[n, k], Values::Uniform(-0.5, 0.5));
    // The last two: more rows than columns by far, whose bias is summed in parts; and a side of 1.
    for (rows, n, k) in [(3, 5, 7), (64, 128, 96), (4096, 32, 16), (17, 1, 9)] {
        cases.push(one("linear", Linear { bias: true }, vec![x(&[rows, k]), weights(n, k), x(&[n])]));
        cases.push(one("linear without bias", Linear { bias: false }, vec![x(&[rows, k]), weights(n, k)]));
    }
    cases.push(one("linear", Linear { bias: true }, vec![x(&[4, 6, 8]), weights(10, 8), x(&[10])]).then(Sum { to_f32: false }));
}

fn elementwise(cases: &mut Vec<Case>) {
    let positive = |shape: &[u64]| input(Kind::Trained, shape, Values::Uniform(0.5, 2.0));
    let each: [(&str, Operator); 7] = [
        ("relu", Relu { inplace: false }.into()),
        ("gelu", Gelu { tanh: false }.into()),
        ("gelu tanh", Gelu { tanh: true }.into()),
        ("silu", Silu { inplace: false }.into()),
        ("sigmoid", Sigmoid.into()),
        ("tanh", Tanh.into()),
        ("square", Square.into()),
    ];
    for (name, op) in each {
        cases.push(one(name, op.clone(), vec![x(&[1003])]));
        cases.push(one(name, op.clone(), vec![x(&[64, 512])]));
        // Its gradient is one number spread over all elements.
        cases.push(one(name, op.clone(), vec![x(&[33, 7])]).then(Sum { to_f32: false }));
        // What lies with its sides exchanged, as a recurrent network's output does, gives what lies so too.
        cases.push(one("transpose", Transpose { first: 0, second: 1 }, vec![x(&[9, 5, 16])]).then(op));
    }
    for p in [0.3, 1.0] {
        let op = Dropout { p, inplace: false, training: true };
        cases.push(one(&format!("dropout {p} of a transpose"), Transpose { first: 0, second: 1 }, vec![x(&[9, 5, 16])]).then(op));
    }
    let turned = one("dropout 0.3 in place of what lies as a transpose", Transpose { first: 0, second: 1 }, vec![x(&[9, 5, 16])]);
    cases.push(turned.then(DivScalar { divisor: 1.0 }).then(Dropout { p: 0.3, inplace: true, training: true }));
    cases.push(one("rsqrt", Rsqrt, vec![positive(&[999])]));
    cases.push(one("relu in place", Relu { inplace: true }, vec![x(&[77, 3])]).of_intermediate());
    cases.push(one("silu in place", Silu { inplace: true }, vec![x(&[77, 3])]).of_intermediate());
    cases.push(one("add", Add { inplace: false }, vec![x(&[65, 31]), x(&[65, 31])]));
    cases.push(one("add in place", Add { inplace: true }, vec![x(&[65, 31]), x(&[65, 31])]).of_intermediate());
    cases.push(one("mul", Mul, vec![x(&[65, 31]), x(&[65, 31])]));
    cases.push(one("mul by rows", Mul, vec![x(&[65, 31]), x(&[65, 1])]));
    cases.push(one("mul by columns", Mul, vec![x(&[3000, 64]), x(&[64])]));
    // Few rows of many columns: a thread sums a column.
    cases.push(one("mul by columns", Mul, vec![x(&[12, 20_000]), x(&[20_000])]));
    // The scalar's gradient is a sum, of which nothing may cancel.
    cases.push(one("mul by a scalar", Mul, vec![positive(&[65, 31]), x(&[])]).then(Sum { to_f32: false }));
    cases.push(one("div_scalar", DivScalar { divisor: 3.0 }, vec![x(&[130])]));
    cases.push(one("add_scalar", AddScalar { value: 0.75 }, vec![x(&[130])]).of_intermediate());
    let shape = Shape::new([6, 35]).expect("small");
    cases.push(one("view", View::plain(shape), vec![x(&[2, 3, 35])]).then(Tanh));
    for dtype in TYPES {
        cases.push(one(&format!("to_copy {dtype}"), ToCopy { dtype }, vec![x(&[1001])]));
    }
    for (p, inplace) in [(0.3, false), (0.3, true), (1.0, false), (0.0, false)] {
        let op = Dropout { p, inplace, training: true };
        let case = one(&format!("dropout {p}{}", if inplace { " in place" } else { "" }), op, vec![x(&[61, 67])]);
        cases.push(if inplace || p == 0.0 { case.of_intermediate() } else { case });
    }
    cases.push(one("dropout in evaluation", Dropout { p: 0.3, inplace: false, training: false }, vec![x(&[67])]).of_intermediate());
}

fn rows(cases: &mut Vec<Case>) {
    // Rows for a warp each, and for a block each.
    for shape in [&[37, 10][..], &[8, 9, 1024], &[5, 3001]] {
        cases.push(one("softmax", Softmax::plain(false), vec![x(shape)]));
        cases.push(one("log_softmax", LogSoftmax, vec![x(shape)]));
        let columns = *shape.last().expect("not empty");
        let (weight, bias) = (input(Kind::Trained, &[columns], Values::Uniform(0.5, 1.5)), x(&[columns]));
        cases.push(one("layer_norm", LayerNorm { bias: true, eps: EPS }, vec![x(shape), weight.clone(), bias]));
        cases.push(one("layer_norm without bias", LayerNorm { bias: false, eps: EPS }, vec![x(shape), weight.clone()]));
        cases.push(one("rms_norm", RmsNorm { eps: EPS }, vec![x(shape), weight]));
    }
    cases.push(one("softmax to f32", Softmax::plain(true), vec![x(&[37, 10])]).only(F16));
    cases.push(one("softmax", Softmax::plain(false), vec![x(&[37, 10])]).then(Square));
    // So many rows that the parameters' gradients are summed by way of parts.
    let weight = input(Kind::Trained, &[16], Values::Uniform(0.5, 1.5));
    cases.push(one("layer_norm", LayerNorm { bias: true, eps: EPS }, vec![x(&[66_000, 16]), weight.clone(), x(&[16])]));
    cases.push(one("rms_norm", RmsNorm { eps: EPS }, vec![x(&[66_000, 16]), weight]));
}

fn batches(cases: &mut Vec<Case>) {
    // Few rows, many rows (shared by blocks), and planes.
    // The last in packs of every type.
    for shape in [&[30, 20][..], &[5000, 40], &[6, 5, 12], &[6, 5, 4, 4]] {
        for (kinds, types, amp) in
            [([Kind::Trained, Kind::Buffer], &TYPES[..], ""), ([Kind::TrainedF32, Kind::BufferF32], HALVES, " with f32 parameters")]
        {
            let channel = |kind, low, high| input(kind, &[shape[1]], Values::Uniform(low, high));
            let inputs = |training: bool| {
                vec![
                    if training { x(shape) } else { input(Kind::Constant, shape, Values::Uniform(-2.0, 2.0)) },
                    channel(kinds[0], 0.5, 1.5),
                    channel(kinds[0], -1.0, 1.0),
                    channel(kinds[1], -0.5, 0.5),
                    channel(kinds[1], 0.5, 1.5),
                    input(Kind::Integers, &[], Values::Below(1)),
                ]
            };
            let op = |training| BatchNorm { training, momentum: 0.1, eps: EPS };
            cases.push(one(&format!("batch_norm{amp}"), op(true), inputs(true)).only(types));
            cases.push(one(&format!("batch_norm in evaluation{amp}"), op(false), inputs(false)).only(types).forward_only());
            if shape.len() == 3 && amp.is_empty() {
                let mut turned = one("batch_norm of a transpose", Transpose { first: 0, second: 1 }, inputs(true)).only(HALVES);
                turned.inputs[0].shape.swap(0, 1);
                turned.steps[0].from.truncate(1);
                let from = std::iter::once(From::Step(0)).chain((1..6).map(From::Input)).collect();
                turned.steps.push(Step { op: op(true).into(), from });
                cases.push(turned);
            }
        }
    }
}

fn images(cases: &mut Vec<Case>) {
    let pair = |n: u64| [n, n];
    // By cuDNN: a plain one, a large one, one in groups, windows of one element; and one channel a group.
    for (shape, out, window, stride, padding, groups) in [
        (&[3, 3, 9, 8][..], 4, 3, 1, 1, 1),
        (&[4, 32, 20, 20], 64, 3, 2, 1, 1),
        (&[2, 8, 11, 7], 12, 3, 1, 0, 4),
        (&[5, 16, 6, 6], 24, 1, 1, 0, 1),
        (&[2, 10, 13, 12], 20, 3, 1, 1, 10),
    ] {
        let op = |bias| Conv2d { stride: pair(stride), padding: pair(padding), dilation: pair(1), groups, bias };
        let weight = input(Kind::Trained, &[out, shape[1] / groups, window, window], Values::Uniform(-0.5, 0.5));
        cases.push(one("conv2d", op(true), vec![x(shape), weight.clone(), x(&[out])]));
        cases.push(one("conv2d without bias", op(false), vec![x(shape), weight]));
    }
    for (kernel, stride, padding) in [(2, 2, 0), (3, 2, 1), (3, 1, 0)] {
        let window = Window { size: pair(kernel), stride: pair(stride), padding: pair(padding) };
        cases.push(one("max_pool2d", MaxPool2d { window }, vec![x(&[3, 5, 21, 18])]));
        cases.push(one("avg_pool2d", AvgPool2d { window }, vec![x(&[3, 5, 21, 18])]).then(Sum { to_f32: false }));
    }
    for output in [[1, 1], [7, 7], [3, 5]] {
        cases.push(one("adaptive_avg_pool2d", AdaptiveAvgPool2d { output }, vec![x(&[3, 5, 14, 12])]));
    }
}

fn groups(cases: &mut Vec<Case>) {
    for shape in [&[9, 24][..], &[3, 24, 70], &[2, 24, 20, 30]] {
        let (weight, bias) = (input(Kind::Trained, &[24], Values::Uniform(0.5, 1.5)), x(&[24]));
        cases.push(one("group_norm", GroupNorm { groups: 4, eps: EPS }, vec![x(shape), weight, bias]));
    }
}

fn recurrent(cases: &mut Vec<Case>) {
    // A buffer of all weights, and weights that lie apart.
    for cell in [Cell::Lstm, Cell::Gru] {
        for (layers, bidirectional, flat) in [(1, false, true), (2, true, true), (2, false, false)] {
            let op = Rnn { cell, hidden: 24, layers, bidirectional, training: true };
            let weights = op.weights(16).expect("small");
            let weight = |shape: &[u64]| input(Kind::Trained, shape, Values::Uniform(-0.3, 0.3));
            let mut inputs = vec![x(&[5, 9, 16])];
            let state = op.state_shape(5).expect("small");
            inputs.extend((0..op.states()).map(|_| input(Kind::Constant, state.dims(), Values::Uniform(-1.0, 1.0))));
            if flat {
                inputs.push(weight(&[weights.iter().map(|w| w.shape.numel()).sum()]));
            } else {
                inputs.extend(weights.iter().map(|w| weight(w.shape.dims())));
            }
            cases.push(one(&format!("{} of {layers} layers", cell.name()), op, inputs));
        }
    }
    let buffer = input(Kind::Constant, &[11], Values::Uniform(-1.0, 1.0));
    cases.push(one("copy_into", CopyInto { offset: 5 }, vec![buffer, x(&[3, 2])]));
    let shape = Shape::new([4, 5]).expect("small");
    cases.push(one("zeros", Zeros { shape, dtype: DType::F32 }, vec![]).only(&[DType::F32]).forward_only());
}

fn reductions(cases: &mut Vec<Case>) {
    // By one block, and by many.
    for shape in [&[7, 11][..], &[600, 1000]] {
        cases.push(one("sum", Sum { to_f32: false }, vec![input(Kind::Trained, shape, Values::Uniform(0.0, 0.1))]));
        cases.push(one("mean", Mean, vec![x(shape)]).scaled(MEAN_SCALE));
    }
    cases.push(one("sum to f32", Sum { to_f32: true }, vec![x(&[600, 100])]).only(HALVES));
    cases.push(one("mean_last", MeanLast, vec![x(&[40, 100])]));
    cases.push(one("mean_last", MeanLast, vec![x(&[6, 5000])]));
}

fn losses(cases: &mut Vec<Case>) {
    let target = |shape: &[u64]| input(Kind::Constant, shape, Values::Uniform(0.0, 1.0));
    for shape in [&[9, 5][..], &[512, 300]] {
        cases.push(one("mse_loss", MseLoss, vec![x(shape), target(shape)]).scaled(MEAN_SCALE));
        cases.push(one("bce_with_logits", BceWithLogits, vec![x(shape), target(shape)]).scaled(MEAN_SCALE));
        let classes = input(Kind::Integers, &shape[..1], Values::Below(shape[1]));
        cases.push(one("nll_loss", NllLoss, vec![x(shape), classes]));
    }
    let classes = input(Kind::Integers, &[20], Values::Below(2000));
    cases.push(one("nll_loss", NllLoss, vec![x(&[20, 2000]), classes]));
}

fn views(cases: &mut Vec<Case>) {
    cases.push(one("slice", Slice { dim: 1, length: 7 }, vec![x(&[5, 9, 13])]).then(Tanh));
    cases.push(one("select", Select { dim: 1, index: 8 }, vec![x(&[5, 9, 13])]).then(Tanh));
    cases.push(one("split", Split { sizes: vec![5, 3, 5] }, vec![x(&[5, 9, 13])]).then(Tanh));
    cases.push(one("transpose", Transpose { first: 1, second: 2 }, vec![x(&[5, 9, 13])]).then(Contiguous).then(Tanh));
    cases.push(one("transpose", Transpose { first: 0, second: 1 }, vec![x(&[65, 33])]).then(MulScalar { factor: 0.3 }));
    cases.push(one("expand", Expand { shape: Shape::new([3, 5, 9, 13]).expect("small") }, vec![x(&[5, 1, 13])]).then(Contiguous));
    cases.push(one("pad_last", PadLast { size: 24 }, vec![x(&[5, 9, 20])]));
    for (n, rows, inner, columns) in [(3, 5, 7, 9), (12, 64, 32, 48)] {
        cases.push(one("bmm", Bmm, vec![x(&[n, rows, inner]), x(&[n, inner, columns])]));
    }
}

fn sequences(cases: &mut Vec<Case>) {
    // Few indices, and so many that they are sorted.
    for n in [50, 4000] {
        let indices = input(Kind::Integers, &[n], Values::Below(300));
        cases.push(one("embedding", Embedding, vec![x(&[300, 70]), indices]));
    }
    let mask = one("causal_mask", Add { inplace: false }, vec![x(&[2, 33, 33])]).then(Softmax { to_f32: false, safe: true });
    let from = vec![From::Input(0), From::Step(0)];
    let [Step { op, .. }, softmax] = <[Step; 2]>::try_from(mask.steps).unwrap_or_else(|_| unreachable!("two steps"));
    let steps = vec![
        Step { op: CausalMask { length: 33, dtype: DType::F32 }.into(), from: Vec::new() },
        Step { op, from },
        Step { from: vec![From::Step(1)], ..softmax },
    ];
    cases.push(Case { steps, ..mask }.only(&[DType::F32]));
    // For every size of heads that kernels are compiled for, and lengths that are no multiple of a tile.
    for (head, length) in [(16, 7), (32, 100), (64, 200), (80, 130), (128, 96), (256, 70)] {
        for (backend, kv_heads, causal) in
            [(Backend::Efficient, 4, true), (Backend::Flash, 2, true), (Backend::Cudnn, 4, false), (Backend::Cudnn, 2, true)]
        {
            let op = ScaledDotProductAttention { backend, causal, dropout: 0.0, features: head };
            let kv = || x(&[2, kv_heads, length, head]);
            cases.push(one(&format!("attention {}", backend.name()), op, vec![x(&[2, 4, length, head]), kv(), kv()]).only(FUSED));
        }
    }
    let op = ScaledDotProductAttention { backend: Backend::Flash, causal: true, dropout: 0.2, features: 64 };
    let qkv = || x(&[2, 2, 90, 64]);
    cases.push(one("attention with dropout", op, vec![qkv(), qkv(), qkv()]).only(FUSED));
}
