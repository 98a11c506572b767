//! One operator case: run on a device in one type, and on the host in f64.

use crate::autograd::{Parameter, Tape, Variable, backward};
use crate::exec::{Exec, Stream};
use crate::meta::{DType, Shape, TensorMeta, relative_distance};
use crate::ops::Operator;
use crate::record::Category;
use crate::tensor::Tensor;

use super::codec::{encode, rounded, uniform};

/// A few operators in a row over given inputs.
pub(super) struct Case {
    /// For the table.
    pub(super) name: String,
    /// The inputs.
    pub(super) inputs: Vec<Input>,
    /// The operators; the last one's first output is where backward begins.
    pub(super) steps: Vec<Step>,
    /// The types it is for.
    pub(super) types: &'static [DType],
    /// Whether gradients are compared.
    pub(super) backward: bool,
    /// What the gradient that backward begins with is multiplied by, as a gradient scaler does: a mean's gradients are else too small for f16.
    pub(super) scale: f64,
}

/// An operator and where its inputs come from.
pub(super) struct Step {
    pub(super) op: Operator,
    pub(super) from: Vec<From>,
}

/// The source of an operator's input.
#[derive(Clone, Copy)]
pub(super) enum From {
    /// An input of the case.
    Input(usize),
    /// The first output of an earlier step.
    Step(usize),
}

/// An input of a case.
#[derive(Clone)]
pub(super) struct Input {
    pub(super) shape: Vec<u64>,
    pub(super) values: Values,
    pub(super) kind: Kind,
}

/// What an input holds.
#[derive(Clone, Copy)]
pub(super) enum Values {
    Uniform(f64, f64),
    /// Whole numbers from 0 to below this.
    Below(u64),
}

/// What an input is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of the type under test, with a gradient.
    Trained,
    /// Of the type under test, without one.
    Constant,
    /// f32 whatever is tested, with a gradient: parameters under autocast.
    TrainedF32,
    /// f32 whatever is tested, and changed by the operator: running statistics under autocast.
    BufferF32,
    /// Of the type under test, and changed by the operator.
    Buffer,
    /// i64.
    Integers,
}

impl Input {
    fn dtype(&self, tested: DType) -> DType {
        match self.kind {
            Kind::Trained | Kind::Constant | Kind::Buffer => tested,
            Kind::TrainedF32 | Kind::BufferF32 if tested == DType::F64 => DType::F64,
            Kind::TrainedF32 | Kind::BufferF32 => DType::F32,
            Kind::Integers => DType::I64,
        }
    }

    fn generate(&self, number: u64) -> Vec<f64> {
        let n = self.shape.iter().product();
        match self.values {
            Values::Uniform(low, high) => uniform(n, low, high, number),
            Values::Below(most) => uniform(n, 0.0, most as f64, number).into_iter().map(f64::floor).collect(),
        }
    }
}

/// What a run gave: outputs, changed buffers, gradients.
struct Outcome(Vec<Vec<f64>>);

impl Case {
    /// Whether a GPU computes f32 in TF32 here.
    pub(super) fn takes_tf32(&self) -> bool {
        self.steps.iter().any(|s| matches!(s.op, Operator::Conv2d(_) | Operator::Rnn(_)))
    }

    /// How far the device is from the host's f64: the worst of all outputs and gradients.
    ///
    /// # Errors
    /// Memory ran out, in words.
    pub(super) fn distance(&self, device: &Exec, reference: &Exec, dtype: DType) -> Result<f64, String> {
        let values: Vec<Vec<f64>> = (0..).zip(&self.inputs).map(|(i, input)| rounded(&input.generate(i), input.dtype(dtype))).collect();
        let got = self.outcome(device, &values, dtype, dtype)?;
        let want = self.outcome(reference, &values, DType::F64, dtype)?;
        assert_eq!(got.0.len(), want.0.len(), "both runs give the same outputs and gradients");
        Ok(got.0.iter().zip(&want.0).map(|(g, w)| relative_distance(g, w)).fold(0.0, f64::max))
    }

    /// Runs the case where nothing is computed.
    pub(super) fn rehearse(&self, exec: &Exec, dtype: DType) {
        let values: Vec<Vec<f64>> = self.inputs.iter().map(|input| vec![0.0; input.shape.iter().product::<u64>() as usize]).collect();
        let _ = self.outcome(exec, &values, dtype, dtype); // a failure comes again when it counts
    }

    /// Runs the case in `dtype`, on values that `rounded_to` holds.
    fn outcome(&self, exec: &Exec, values: &[Vec<f64>], dtype: DType, rounded_to: DType) -> Result<Outcome, String> {
        let failed = |e: crate::alloc::OutOfMemory| e.to_string();
        exec.generator().set_state(Stream { seed: 7, number: 0 });
        let tape = Tape::new(self.backward);
        let mut parameters = Vec::new();
        let mut buffers = Vec::new();
        let mut variables = Vec::new();
        for (input, values) in self.inputs.iter().zip(values) {
            let t = upload(exec, &input.shape, input.dtype(dtype), values)?;
            variables.push(match input.kind {
                Kind::Trained | Kind::TrainedF32 => {
                    let parameter = Parameter::new(t);
                    let variable = parameter.variable();
                    parameters.push(parameter);
                    variable
                }
                Kind::Constant | Kind::Integers => Variable::constant(t),
                Kind::Buffer | Kind::BufferF32 => {
                    buffers.push(t.clone());
                    Variable::constant(t)
                }
            });
        }
        let mut outputs: Vec<Variable> = Vec::new();
        for step in &self.steps {
            let inputs: Vec<&Variable> = step
                .from
                .iter()
                .map(|from| match *from {
                    From::Input(i) => &variables[i],
                    From::Step(i) => &outputs[i],
                })
                .collect();
            let op = in_type(&step.op, dtype, rounded_to);
            let mut results = tape.apply(exec, &op, &inputs).map_err(|halt| failed(halt.out_of_memory()))?;
            outputs.push(results.swap_remove(0));
        }
        let root = outputs.last().expect("a case has a step");
        let mut outcome = vec![read(exec, root.tensor())?];
        for buffer in buffers.iter().filter(|b| b.dtype().is_float()) {
            outcome.push(read(exec, buffer)?);
        }
        if self.backward {
            let meta = root.tensor().meta();
            let random = || rounded(&uniform(meta.numel(), -self.scale, self.scale, 1000), rounded_to);
            let grad = if exec.computes() { random() } else { vec![0.0; meta.numel() as usize] };
            let grad = upload(exec, meta.shape.dims(), meta.dtype, &grad)?;
            backward(exec, &tape, root, &grad).map_err(failed)?;
            for parameter in &parameters {
                outcome.push(read(exec, &parameter.grad().expect("backward reaches every parameter of a case"))?);
            }
        }
        Ok(Outcome(outcome))
    }
}

/// Where f64 is tested nothing is cast: a cast goes to f64 too. The reference of another type rounds as that does, by casts, but computes in f64.
fn in_type(op: &Operator, dtype: DType, tested: DType) -> Operator {
    match op {
        Operator::ToCopy(_) if tested == DType::F64 => crate::ops::to_copy::rule::ToCopy { dtype }.into(),
        Operator::Softmax(softmax) if dtype == DType::F64 => {
            let mut softmax = *softmax;
            softmax.to_f32 = false;
            softmax.into()
        }
        other => other.clone(),
    }
}

/// A new tensor with these values.
pub(super) fn upload(exec: &Exec, shape: &[u64], dtype: DType, values: &[f64]) -> Result<Tensor, String> {
    let meta = TensorMeta::contiguous(Shape::new(shape).map_err(|e| e.to_string())?, dtype);
    let t = exec.empty_as(meta, Category::Other).map_err(|e| e.to_string())?;
    exec.upload(&encode(values, dtype), &t);
    Ok(t)
}

/// A tensor's values in row-major order.
pub(super) fn read(exec: &Exec, t: &Tensor) -> Result<Vec<f64>, String> {
    let contiguous = exec.contiguous(t).map_err(|e| e.to_string())?;
    Ok(exec.values(&contiguous))
}
