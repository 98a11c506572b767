//! `linear`: a matrix product, with a bias in its epilogue. Each side is kept for the gradient of the other; the bias's gradient is the
//! incoming one, which the engine sums to its shape after the others are there.

use std::rc::Rc;

use super::rule::Linear;
use crate::exec::{Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl OpKernel for Linear {
    fn identity(&self, inputs: &[&Tensor]) -> Identity {
        // With a bias and more than two dimensions PyTorch views the matrix product; without, `matmul` hides the view from autograd.
        if self.bias && inputs[0].shape().rank() > 2 { Identity::ViewOfNew } else { Identity::New }
    }

    fn viewed(&self, inputs: &[&Tensor]) -> Vec<(usize, Rc<TensorMeta>)> {
        let (x, weight) = (inputs[0], (1, inputs[1].shared_meta()));
        if x.shape().rank() == 2 {
            return vec![weight];
        }
        let rows = Shape::new([x.shape().rows(), x.shape().last()]).expect("as many elements as before");
        let folded = (0, Rc::new(TensorMeta::contiguous(rows, x.dtype())));
        // The weight is transposed as `addmm` is called, but before `matmul` sees more than two dimensions.
        if self.bias { vec![folded, weight] } else { vec![weight, folded] }
    }

    fn made(&self, output: &Tensor) -> Option<TensorMeta> {
        let shape = output.shape();
        let rows = || Shape::new([shape.rows(), shape.last()]).expect("as many elements as the output");
        (shape.rank() != 2).then(|| TensorMeta::contiguous(rows(), output.dtype()))
    }

    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let (x, weight) = (needs[1].then(|| inputs[0].clone()), needs[0].then(|| inputs[1].clone()));
        Ok(if self.bias { vec![x, weight] } else { vec![weight, x] })
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let (x, weight) = (exec.matrix(inputs[0])?, inputs[1].transposed());
        let out = if self.bias { exec.addmm(inputs[2], &x, &weight)? } else { exec.mm(&x, &weight)? };
        let shape = inputs[0].shape().with_last(weight.shape().last()).expect("the output's shape was inferred before");
        Ok(Forward::plain(out.alias(TensorMeta::contiguous(shape, out.dtype()))))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let grad = exec.matrix(at.grad())?;
        let (x, weight) = if self.bias { (0, 1) } else { (1, 0) };
        let of_input = || -> Result<Option<Tensor>> {
            if !at.needs[0] {
                return Ok(None);
            }
            Ok(Some(exec.mm(&grad, at.saved(weight))?))
        };
        let of_weight = || -> Result<Option<Tensor>> {
            if !at.needs[1] {
                return Ok(None);
            }
            let x = exec.matrix(at.saved(x))?;
            Ok(Some(exec.mm(&grad.transposed(), &x)?))
        };
        // PyTorch computes gradients in the order of the arguments' names: mat1, mat2 of addmm, but mat2, self of mm.
        if self.bias {
            let (input, weight) = (of_input()?, of_weight()?);
            Ok(vec![input, weight, at.needs[2].then(|| grad.clone())])
        } else {
            let weight = of_weight()?;
            Ok(vec![of_input()?, weight])
        }
    }
}
