//! Every registered operator on the host: gradients against central differences in f64, and the narrower types against f64.

use std::collections::BTreeSet;

use runner::autograd::{Parameter, Tape, Variable, backward};
use runner::device::host::Encoded;
use runner::exec::{Exec, Stream};
use runner::meta::{DType, Shape, TensorMeta};
use runner::ops::Operator;
use runner::ops::kernel::OpKernel;
use runner::scratch::Cell;
use runner::tensor::Tensor;

use crate::bench::host;

/// An operator and its inputs.
struct Sample {
    op: Operator,
    inputs: Vec<Input>,
    /// Whether the first input is written to: it must be no parameter then.
    in_place: bool,
}

/// An input: what it holds in row-major order.
#[derive(Clone)]
struct Input {
    shape: Vec<u64>,
    values: Vec<f64>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Requires a gradient.
    Trained,
    /// A float without a gradient.
    Constant,
    /// Integers.
    Indices,
}

/// Multiples of 1/64 in -1.5..1.5, none of them 0, so that every type holds them and no kink is near.
fn floats(shape: &[u64], salt: usize) -> Input {
    let elements = shape.iter().product::<u64>() as usize;
    let values = (0..elements).map(|i| (2 * ((i * 37 + salt * 23) % 96)) as f64 / 64.0 - 1.5 + 1.0 / 64.0).collect();
    Input { shape: shape.to_vec(), values, kind: Kind::Trained }
}

fn positive(shape: &[u64], salt: usize) -> Input {
    let mut input = floats(shape, salt);
    input.values.iter_mut().for_each(|v| *v = v.abs() + 0.5);
    input
}

/// No two of them equal, so that a step never changes which is largest.
fn distinct(shape: &[u64]) -> Input {
    let mut input = floats(shape, 1);
    let elements = input.values.len();
    input.values = (0..elements).map(|i| ((i * 37) % elements) as f64 / 64.0 - 0.5).collect();
    input
}

impl Input {
    fn constant(mut self) -> Self {
        self.kind = Kind::Constant;
        self
    }
}

fn indices(values: &[i64]) -> Input {
    Input { shape: vec![values.len() as u64], values: values.iter().map(|&v| v as f64).collect(), kind: Kind::Indices }
}

fn samples() -> Vec<Sample> {
    use runner::ops::*;
    let mut samples = Vec::new();
    let mut add = |op: Operator, inputs: &[Input], in_place: bool| samples.push(Sample { op, inputs: inputs.to_vec(), in_place });
    let x = || floats(&[3, 5], 1);
    for bias in [true, false] {
        for x in [floats(&[3, 5], 1), floats(&[2, 3, 5], 1), floats(&[1, 5], 1)] {
            let inputs = [x, floats(&[7, 5], 2), floats(&[7], 3)];
            add(linear::rule::Linear { bias }.into(), &inputs[..if bias { 3 } else { 2 }], false);
        }
        let inputs = [floats(&[2, 3, 5], 1), floats(&[5], 2), floats(&[5], 3)];
        add(layer_norm::rule::LayerNorm { bias, eps: 1e-5 }.into(), &inputs[..if bias { 3 } else { 2 }], false);
    }
    for inplace in [false, true] {
        add(relu::rule::Relu { inplace }.into(), &[x()], inplace);
        add(silu::rule::Silu { inplace }.into(), &[x()], inplace);
        add(add::rule::Add { inplace }.into(), &[x(), floats(&[3, 5], 2)], inplace);
        for p in [0.0, 0.3, 1.0] {
            add(dropout::rule::Dropout { p, inplace, training: true }.into(), &[floats(&[13, 17], 1)], inplace);
        }
    }
    add(dropout::rule::Dropout { p: 0.3, inplace: false, training: false }.into(), &[x()], false);
    for tanh in [false, true] {
        add(gelu::rule::Gelu { tanh }.into(), &[x()], false);
    }
    add(sigmoid::rule::Sigmoid.into(), &[x()], false);
    add(tanh::rule::Tanh.into(), &[x()], false);
    add(softmax::rule::Softmax::plain(false).into(), &[floats(&[2, 3, 5], 1)], false);
    add(log_softmax::rule::LogSoftmax.into(), &[floats(&[3, 5], 1)], false);
    add(view::rule::View::plain(Shape::new([5, 3]).unwrap()).into(), &[x()], false);
    add(mul::rule::Mul.into(), &[x(), floats(&[3, 5], 2)], false);
    add(mul::rule::Mul.into(), &[x(), floats(&[3, 1], 2)], false);
    add(mul::rule::Mul.into(), &[floats(&[2, 3, 5], 1), floats(&[5], 2)], false);
    add(mul::rule::Mul.into(), &[floats(&[], 1), floats(&[], 2)], false);
    add(div_scalar::rule::DivScalar { divisor: 3.0 }.into(), &[x()], false);
    add(add_scalar::rule::AddScalar { value: 0.25 }.into(), &[x()], true);
    add(square::rule::Square.into(), &[x()], false);
    add(rsqrt::rule::Rsqrt.into(), &[positive(&[3, 5], 1)], false);
    add(mean_last::rule::MeanLast.into(), &[floats(&[2, 3, 5], 1)], false);
    add(to_copy::rule::ToCopy { dtype: DType::F64 }.into(), &[x()], false);
    add(rms_norm::rule::RmsNorm { eps: 1e-6 }.into(), &[floats(&[2, 3, 5], 1), floats(&[5], 2)], false);
    for training in [true, false] {
        for shape in [&[7, 3][..], &[4, 3, 5], &[3, 3, 2, 3]] {
            let statistics = [floats(&[3], 4).constant(), positive(&[3], 5).constant(), indices(&[0])];
            let mut inputs = vec![floats(shape, 1), floats(&[3], 2), floats(&[3], 3)];
            inputs.extend(statistics);
            inputs[5].shape.clear();
            add(batch_norm::rule::BatchNorm { training, momentum: 0.1, eps: 1e-5 }.into(), &inputs, false);
        }
    }
    for (bias, groups, channels, [stride, padding, dilation]) in [
        (true, 1, 2, [[1, 1], [1, 1], [1, 1]]),
        (true, 2, 4, [[2, 1], [0, 2], [1, 1]]),
        (false, 1, 3, [[2, 2], [2, 1], [2, 1]]),
        (true, 3, 3, [[1, 2], [1, 1], [1, 1]]),
    ] {
        let inputs = [floats(&[2, channels, 5, 4], 1), floats(&[6, channels / groups, 3, 2], 2), floats(&[6], 3)];
        let op = conv2d::rule::Conv2d { stride, padding, dilation, groups, bias };
        add(op.into(), &inputs[..if bias { 3 } else { 2 }], false);
    }
    let plain = conv2d::rule::Conv2d { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1, bias: false };
    add(plain.into(), &[floats(&[1, 4, 3, 2], 1), floats(&[5, 4, 1, 1], 2)], false);
    for (kernel, stride, padding) in [([2, 2], [2, 2], [0, 0]), ([3, 2], [2, 1], [1, 1]), ([2, 3], [3, 2], [0, 1])] {
        let window = window::Window { size: kernel, stride, padding };
        add(max_pool2d::rule::MaxPool2d { window }.into(), &[distinct(&[2, 2, 5, 4])], false);
        add(avg_pool2d::rule::AvgPool2d { window }.into(), &[floats(&[2, 2, 5, 4], 1)], false);
    }
    for output in [[1, 1], [3, 2], [1, 3], [7, 4]] {
        add(adaptive_avg_pool2d::rule::AdaptiveAvgPool2d { output }.into(), &[floats(&[2, 2, 5, 4], 1)], false);
    }
    for cell in [Cell::Lstm, Cell::Gru] {
        for (layers, bidirectional, flat) in [(1, false, false), (2, true, false), (2, false, true)] {
            let op = rnn::rule::Rnn { cell, hidden: 3, layers, bidirectional, training: true };
            let state = op.state_shape(2).unwrap();
            let mut inputs = vec![floats(&[2, 4, 2], 1)];
            inputs.extend((0..op.states()).map(|i| floats(state.dims(), 2 + i).constant()));
            let weights = op.weights(2).unwrap();
            if flat {
                inputs.push(floats(&[weights.iter().map(|w| w.shape.numel()).sum()], 4));
            } else {
                inputs.extend(weights.iter().enumerate().map(|(i, w)| floats(w.shape.dims(), 4 + i)));
            }
            add(op.into(), &inputs, false);
        }
    }
    add(copy_into::rule::CopyInto { offset: 2 }.into(), &[floats(&[9], 1).constant(), floats(&[3, 2], 2)], false);
    add(zeros::rule::Zeros { shape: Shape::new([2, 3]).unwrap(), dtype: DType::F64 }.into(), &[], false);
    add(sum::rule::Sum { to_f32: false }.into(), &[x()], false);
    add(mean::rule::Mean.into(), &[x()], false);
    let targets = || positive(&[3, 5], 2).constant();
    add(mse_loss::rule::MseLoss.into(), &[x(), targets()], false);
    add(bce_with_logits::rule::BceWithLogits.into(), &[x(), targets()], false);
    add(nll_loss::rule::NllLoss.into(), &[x(), indices(&[4, 0, 2])], false);
    for shape in [&[3, 8][..], &[2, 4, 3], &[2, 4, 3, 2]] {
        let inputs = [floats(shape, 1), floats(&shape[1..2], 2), floats(&shape[1..2], 3)];
        add(group_norm::rule::GroupNorm { groups: 2, eps: 1e-5 }.into(), &inputs, false);
    }
    add(embedding::rule::Embedding.into(), &[floats(&[6, 4], 1), indices(&[4, 0, 4, 2])], false);
    add(slice::rule::Slice { dim: 1, length: 3 }.into(), &[floats(&[2, 5, 3], 1)], false);
    add(select::rule::Select { dim: 1, index: 3 }.into(), &[floats(&[2, 4, 3], 1)], false);
    add(split::rule::Split { sizes: vec![2, 3] }.into(), &[floats(&[2, 4, 5], 1)], false);
    add(transpose::rule::Transpose { first: 1, second: 2 }.into(), &[floats(&[2, 4, 3], 1)], false);
    add(contiguous::rule::Contiguous.into(), &[x()], false);
    add(expand::rule::Expand { shape: Shape::new([4, 3, 5]).unwrap() }.into(), &[floats(&[3, 1], 1)], false);
    add(mul_scalar::rule::MulScalar { factor: 0.75 }.into(), &[x()], false);
    add(bmm::rule::Bmm.into(), &[floats(&[2, 3, 4], 1), floats(&[2, 4, 5], 2)], false);
    add(causal_mask::rule::CausalMask { length: 5, dtype: DType::F32 }.into(), &[], false);
    add(pad_last::rule::PadLast { size: 8 }.into(), &[x()], false);
    add(softmax::rule::Softmax { to_f32: false, safe: true }.into(), &[floats(&[2, 3, 5], 1)], false);
    use scaled_dot_product_attention::backend::Backend;
    for (backend, kv_heads, causal, dropout) in [
        (Backend::Efficient, 2, false, 0.0),
        (Backend::Flash, 1, true, 0.0),
        (Backend::Cudnn, 2, true, 0.3),
        (Backend::Flash, 2, false, 0.3),
    ] {
        let op = scaled_dot_product_attention::rule::ScaledDotProductAttention { backend, causal, dropout, features: 4 };
        add(op.into(), &[floats(&[2, 2, 5, 4], 1), floats(&[2, kv_heads, 5, 4], 2), floats(&[2, kv_heads, 5, 4], 3)], false);
    }
    samples
}

#[test]
fn every_operator_has_a_sample() {
    let sampled: BTreeSet<&str> = samples().iter().map(|s| s.op.rule().name()).collect();
    let registered: BTreeSet<&str> = Operator::NAMES.iter().copied().collect();
    assert_eq!(sampled, registered);
}

fn place(exec: &Exec, input: &Input, dtype: DType) -> Tensor {
    let dtype = if input.kind == Kind::Indices { DType::I64 } else { dtype };
    let tensor = exec.empty(TensorMeta::contiguous(Shape::new(input.shape.clone()).unwrap(), dtype)).unwrap();
    let values = Encoded::new(dtype, input.values.len(), |start, out: &mut [f64]| {
        out.copy_from_slice(&input.values[start..start + out.len()]);
    });
    exec.upload(values.bytes(), &tensor);
    tensor
}

fn values(exec: &Exec, tensor: &Tensor) -> Vec<f64> {
    let mut values = Vec::new();
    exec.on_host(|host| values = host.values(tensor.operand()));
    values
}

/// The output, and, where `weights` say what a change of each of its elements is worth, the gradients of the trained inputs.
fn run(sample: &Sample, inputs: &[Input], dtype: DType, weights: Option<&[f64]>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let exec = host();
    exec.generator().set_state(Stream { seed: 1, number: 0 });
    let tape = Tape::new(weights.is_some());
    let tensors: Vec<Tensor> = inputs.iter().map(|i| place(&exec, i, dtype)).collect();
    let parameters: Vec<Option<Parameter>> =
        inputs.iter().zip(&tensors).map(|(i, t)| (i.kind == Kind::Trained).then(|| Parameter::new(t.clone()))).collect();
    let mut variables: Vec<Variable> = parameters
        .iter()
        .zip(&tensors)
        .map(|(p, t)| p.as_ref().map_or_else(|| Variable::constant(t.clone()), Parameter::variable))
        .collect();
    if sample.in_place {
        let unchanged = runner::ops::div_scalar::rule::DivScalar { divisor: 1.0 }.into();
        variables[0] = tape.apply(&exec, &unchanged, &[&variables[0]]).unwrap().swap_remove(0);
    }
    let output = tape.apply(&exec, &sample.op, &variables.iter().collect::<Vec<_>>()).unwrap().swap_remove(0);
    drop(variables);
    let result = values(&exec, output.tensor());
    let Some(weights) = weights.filter(|_| parameters.iter().any(Option::is_some)) else { return (result, Vec::new()) };
    let grad = Input { shape: output.tensor().shape().dims().to_vec(), values: weights.to_vec(), kind: Kind::Constant };
    let grad = place(&exec, &grad, output.tensor().dtype());
    backward(&exec, &tape, &output, &grad).unwrap();
    let gradients = parameters.iter().flatten().map(|p| values(&exec, &p.grad().unwrap())).collect();
    (result, gradients)
}

/// What a change of each element of the output is worth: any numbers that every type holds.
fn weights(elements: usize) -> Vec<f64> {
    floats(&[elements as u64], 7).values
}

#[test]
fn gradients_are_slopes() {
    const STEP: f64 = 1e-5;
    for sample in samples() {
        let weights = weights(run(&sample, &sample.inputs, DType::F64, None).0.len());
        let worth = |inputs: &[Input]| -> f64 { run(&sample, inputs, DType::F64, None).0.iter().zip(&weights).map(|(y, w)| y * w).sum() };
        let (_, gradients) = run(&sample, &sample.inputs, DType::F64, Some(&weights));
        let trained = (0..sample.inputs.len()).filter(|&i| sample.inputs[i].kind == Kind::Trained);
        for (i, gradient) in trained.zip(&gradients) {
            assert_eq!(gradient.len(), sample.inputs[i].values.len());
            for (element, &gradient) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut inputs = sample.inputs.clone();
                    inputs[i].values[element] += by;
                    worth(&inputs)
                };
                let slope = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let error = (gradient - slope).abs() / slope.abs().max(1.0);
                assert!(error < 1e-8, "{:?}: input {i}, element {element}: {gradient} against {slope}", sample.op);
            }
        }
    }
}

#[test]
fn narrower_types_agree_with_f64() {
    // A few roundings of each type: its unit is 2⁻²⁴, 2⁻¹¹ and 2⁻⁸.
    for (dtype, bound) in [(DType::F32, 2e-6), (DType::F16, 3e-3), (DType::BF16, 2.4e-2)] {
        for sample in samples().iter().filter(|s| s.op.rule().name() != "to_copy") {
            let weights = weights(run(sample, &sample.inputs, DType::F64, None).0.len());
            let (exact, exact_gradients) = run(sample, &sample.inputs, DType::F64, Some(&weights));
            let (result, gradients) = run(sample, &sample.inputs, dtype, Some(&weights));
            for (exact, narrow) in exact_gradients.iter().zip(&gradients).chain([(&exact, &result)]) {
                // Sums may cancel, so errors are measured by the largest element.
                let scale = exact.iter().fold(1e-3, |most: f64, v| most.max(v.abs()));
                for (e, n) in exact.iter().zip(narrow) {
                    assert!(e == n || (e - n).abs() <= bound * scale, "{dtype} {:?}: {n} against {e}", sample.op);
                }
            }
        }
    }
}

/// PyTorch's `bernoulli_` goes through the noise as it lies in memory, which is as its input lies.
#[test]
fn dropout_in_place_draws_in_the_order_of_memory() {
    let exec = host();
    let op: Operator = runner::ops::dropout::rule::Dropout { p: 0.4, inplace: true, training: true }.into();
    let (rows, columns) = (11usize, 5usize);
    let plain = TensorMeta::contiguous(Shape::new([rows as u64, columns as u64]).unwrap(), DType::F32);
    let dropped = |meta: TensorMeta| {
        exec.generator().set_state(Stream { seed: 3, number: 0 });
        let x = exec.empty(meta).unwrap();
        exec.fill(&x, 1.0);
        OpKernel::forward(op.kernel(), &exec, &[&x], &[false]).unwrap();
        exec.values(&x)
    };
    let (straight, turned) = (dropped(plain.clone()), dropped(plain.transposed(0, 1)));
    assert!(straight.contains(&0.0) && straight.iter().any(|v| *v > 1.0));
    for (place, value) in straight.iter().enumerate() {
        let (row, column) = (place / columns, place % columns);
        assert_eq!(turned[column * rows + row], *value, "element {row}, {column}");
    }
}
