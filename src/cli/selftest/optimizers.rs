//! One optimizer case: a few steps on a device in one type, and on the host in f64. What is compared is how far parameters moved.

use crate::autograd::{Tape, Variable};
use crate::exec::Exec;
use crate::meta::{DType, TensorMeta, relative_distance};
use crate::optim::kernel::{Scaling, Trained};
use crate::optim::{Adagrad, Adam, Implementation, Optimizer, RmsProp, Sgd};
use crate::record::Category;
use crate::tensor::Tensor;
use crate::train::Scaler;

use super::codec::{TYPES, rounded, uniform};
use super::operators::{read, upload};

/// Steps a case takes: state is new, then is moved on.
const STEPS: u64 = 3;
/// So large that a step moves parameters by about their own size, and rounding does not hide it.
const LR: f64 = 0.1;
/// Sizes around chunks and packs, and then so many small tensors that one launch does not take all.
const SIZES: &[u64] = &[1, 3, 512, 4096, 4097, 10_000];
const SMALL: &[u64] = &[5, 64, 33];
const TENSORS: usize = 110;
/// Gradients are this far from 0 at least: f16 does not hold the square of a smaller one.
const LEAST_GRADIENT: f64 = 0.25;

/// An optimizer, and whether it works on scaled gradients.
pub(super) struct Case {
    pub(super) name: String,
    /// The types it is for.
    pub(super) types: &'static [DType],
    optimizer: Optimizer,
    scale: Option<Scale>,
    /// Whether a gradient scaler steps it, which unscales and skips by itself.
    scaler: bool,
}

/// What a gradient scaler hands over.
#[derive(Clone, Copy)]
struct Scale {
    factor: f64,
    /// The step, from 1, in which something infinite is found.
    found_in: u64,
}

/// Types of gradients that a gradient scaler takes.
const SCALED: &[DType] = &[DType::F64, DType::F32];

/// Every case.
pub(super) fn all() -> Vec<Case> {
    use Implementation::{ForLoop, Foreach, Fused};
    let mut cases = Vec::new();
    let mut add = |name: &str, implementations: &[Implementation], optimizer: &dyn Fn(Implementation) -> Optimizer| {
        for &implementation in implementations {
            let how = match implementation {
                ForLoop => "for_loop",
                Foreach => "foreach",
                Fused => "fused",
            };
            let case = |scale: Option<Scale>| Case {
                name: format!("{name} {how}{}", if scale.is_some() { " scaled" } else { "" }),
                optimizer: optimizer(implementation),
                types: &TYPES,
                scale,
                scaler: false,
            };
            cases.push(case(None));
            if implementation == Fused {
                cases.push(case(Some(Scale { factor: 64.0, found_in: 2 })));
            }
            if name == "sgd" && implementation != ForLoop {
                // As the scaler begins.
                let scale = Some(Scale { factor: 65_536.0, found_in: 2 });
                cases.push(Case { name: format!("{} by a scaler", case(None).name), types: SCALED, scaler: true, ..case(scale) });
            }
        }
    };
    let all = [ForLoop, Foreach, Fused];
    for (name, momentum, nesterov, weight_decay) in
        [("sgd", 0.0, false, 0.0), ("sgd momentum", 0.9, false, 0.1), ("sgd nesterov", 0.9, true, 0.1)]
    {
        add(name, &all, &|implementation| Optimizer::Sgd(Sgd { lr: LR, momentum, nesterov, weight_decay, implementation }));
    }
    for (name, decoupled, weight_decay, amsgrad) in
        [("adam", false, 0.0, false), ("adam decay", false, 0.1, false), ("adamw", true, 0.1, false), ("adamw amsgrad", true, 0.1, true)]
    {
        add(name, &all, &|implementation| Optimizer::Adam(Adam { decoupled, lr: LR, weight_decay, amsgrad, implementation }));
    }
    add("adagrad", &[ForLoop, Foreach], &|implementation| Optimizer::Adagrad(Adagrad { lr: LR, implementation }));
    for (name, momentum, centered) in [("rmsprop", 0.0, false), ("rmsprop momentum centered", 0.9, true)] {
        add(name, &[ForLoop, Foreach], &|implementation| Optimizer::RmsProp(RmsProp { lr: LR, momentum, centered, implementation }));
    }
    cases
}

impl Case {
    /// How far the device's movement of all parameters is from that of the host's f64.
    ///
    /// # Errors
    /// Memory ran out, in words.
    pub(super) fn distance(&self, device: &Exec, reference: &Exec, dtype: DType) -> Result<f64, String> {
        Ok(relative_distance(&self.movement(device, dtype, dtype)?, &self.movement(reference, DType::F64, dtype)?))
    }

    /// Runs the case where nothing is computed.
    pub(super) fn rehearse(&self, exec: &Exec, dtype: DType) {
        let _ = self.movement(exec, dtype, dtype); // a failure comes again when it counts
    }

    /// By how much each element of all parameters moved.
    fn movement(&self, exec: &Exec, dtype: DType, rounded_to: DType) -> Result<Vec<f64>, String> {
        // A rehearsal needs no values.
        let uniform = |n: u64, low, high, number| if exec.computes() { uniform(n, low, high, number) } else { vec![0.0; n as usize] };
        let sizes = SIZES.iter().chain(SMALL.iter().cycle()).take(TENSORS);
        let starts: Vec<Vec<f64>> = (0..).zip(sizes).map(|(i, &n)| rounded(&uniform(n, -0.5, 0.5, i), rounded_to)).collect();
        let tensor = |values: &[f64]| upload(exec, &[values.len() as u64], dtype, values);
        let parameters = starts.iter().map(|values| tensor(values)).collect::<Result<Vec<Tensor>, _>>()?;
        let (mut scaler, tape) = (Scaler::default(), Tape::new(false));
        let mut stepper = self.optimizer.stepper(exec, &parameters).map_err(|e| e.to_string())?;
        for step in 1..=STEPS {
            // A scaler that found something infinite goes on with half the scale.
            let backed_off = self.scaler && self.scale.is_some_and(|s| step > s.found_in);
            let factor = self.scale.map_or(1.0, |s| s.factor) * if backed_off { 0.5 } else { 1.0 };
            let infinite = |i: u64| i == 0 && self.scaler && self.scale.is_some_and(|s| step == s.found_in);
            let grads = starts.iter().zip(0..).map(|(start, i)| {
                let mut values = uniform(start.len() as u64, LEAST_GRADIENT - 1.0, 1.0 - LEAST_GRADIENT, 1000 * step + i);
                values.iter_mut().for_each(|v| *v += LEAST_GRADIENT.copysign(*v));
                let values = rounded(&values, rounded_to);
                // A power of two scales without rounding.
                let scaled = |v: &f64| if infinite(i) { f64::INFINITY } else { v * factor };
                tensor(&values.iter().map(scaled).collect::<Vec<_>>())
            });
            let trained = parameters
                .iter()
                .zip(grads)
                .map(|(parameter, grad)| Ok(Trained { parameter: parameter.clone(), grad: Some(grad?) }))
                .collect::<Result<Vec<_>, String>>()?;
            if self.scaler {
                let loss = upload(exec, &[], DType::F32, &[1.0])?;
                scaler.scale(exec, &tape, &Variable::constant(loss)).map_err(|e| e.to_string())?;
                let implementation = self.optimizer.implementation();
                scaler.step(exec, implementation, &mut *stepper, &trained).map_err(|e| e.to_string())?;
                continue;
            }
            let scaling = self.scale.map(|scale| scaling(exec, scale, step)).transpose()?;
            stepper.step(exec, &trained, scaling.as_ref()).map_err(|e| e.to_string())?;
        }
        let mut moved = Vec::new();
        for (parameter, start) in parameters.iter().zip(&starts) {
            moved.extend(read(exec, parameter)?.iter().zip(start).map(|(end, start)| end - start));
        }
        Ok(moved)
    }
}

fn scaling(exec: &Exec, scale: Scale, step: u64) -> Result<Scaling, String> {
    let scalar = |value: f64| {
        let t = exec.empty_as(TensorMeta::scalar(DType::F32), Category::Other).map_err(|e| e.to_string())?;
        exec.fill(&t, value);
        Ok::<Tensor, String>(t)
    };
    Ok(Scaling { grad_scale: scalar(scale.factor)?, found_inf: scalar(if step == scale.found_in { 1.0 } else { 0.0 })? })
}
