//! `gelu` keeps its input.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use super::rule::Gelu;
use crate::device::cuda::Source;
use crate::device::host::{Real, map};
use crate::exec::{Exec, Result};
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

/// √(2/π), of the tanh approximation.
const BETA: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
/// Of the tanh approximation: the coefficient of the cube.
const KAPPA: f64 = 0.044715;
/// 1/√(2π): the normal density at 0.
const DENSITY: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5;

static SOURCE: Source = Source { name: "gelu", text: include_str!("kernel.cu") };

impl OpKernel for Gelu {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty_dense(inputs[0])?;
        exec.on_host(|host| {
            if self.tanh {
                map!(host, (beta = BETA, kappa = KAPPA), [inputs[0]] => [out], |x| [0.5 * x * (1.0 + (beta * (x + kappa * x * x * x)).tanh())]);
            } else {
                map!(host, (root = FRAC_1_SQRT_2), [inputs[0]] => [out], |x| [0.5 * x * (1.0 + (x * root).error_function())]);
            }
        });
        exec.on_cuda(|gpu| {
            let entry = if self.tanh { "gelu_tanh_forward" } else { "gelu_none_forward" };
            gpu.map(&SOURCE, entry, out.operand(), [inputs[0].operand()], &[]);
        });
        Ok(Forward::plain(out))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty_over(at.grad(), at.saved(0))?;
        exec.on_host(|host| {
            if self.tanh {
                map!(host, (beta = BETA, kappa = KAPPA), [at.saved(0), at.grad()] => [out], |x, grad| [{
                    let tanh = (beta * (x + kappa * x * x * x)).tanh();
                    let slope = beta * (1.0 + 3.0 * kappa * x * x);
                    grad * (0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)
                }]);
            } else {
                map!(host, (root = FRAC_1_SQRT_2, scale = DENSITY), [at.saved(0), at.grad()] => [out], |x, grad| [{
                    let distribution = 0.5 * (1.0 + (x * root).error_function());
                    grad * (distribution + x * scale * (-0.5 * x * x).exp())
                }]);
            }
        });
        exec.on_cuda(|gpu| {
            let entry = if self.tanh { "gelu_tanh_backward" } else { "gelu_none_backward" };
            gpu.map(&SOURCE, entry, out.operand(), [at.grad().operand(), at.saved(0).operand()], &[]);
        });
        Ok(vec![Some(out)])
    }
}
