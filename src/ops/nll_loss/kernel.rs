//! `nll_loss` keeps the log-probabilities, the targets and the total weight of the rows.

use super::rule::NllLoss;
use crate::device::Operand;
use crate::device::cuda::{Arg, Grid, Kernel, Source, View};
use crate::device::host::{Host, Real, sum, with_real};
use crate::exec::{Exec, Result};
use crate::meta::TensorMeta;
use crate::ops::kernel::{Backward, Forward, OpKernel};
use crate::tensor::Tensor;

fn nll_loss<R: Real>(host: &Host, x: Operand<'_>, targets: Operand<'_>, [out, total_weight]: [Operand<'_>; 2]) {
    let terms: Vec<R> = host.lend([x, targets], [], |[x, targets], []| {
        let targets = targets.indices();
        let classes = x.len() / targets.len();
        let at = |(row, &target): (usize, &i64)| {
            let mut value = [R::ZERO];
            x.load(row * classes + class(target, classes), &mut value);
            value[0]
        };
        targets.iter().enumerate().map(at).collect()
    });
    let weight = R::of_count(terms.len());
    host.store(out, &[-sum(terms.len(), |i| terms[i]) / weight]);
    host.store(total_weight, &[weight]);
}

fn nll_loss_backward<R: Real>(host: &Host, [grad, total_weight]: [Operand<'_>; 2], targets: Operand<'_>, out: Operand<'_>) {
    let value = -host.values::<R>(grad)[0] / host.values::<R>(total_weight)[0];
    host.generate(out, |_, zeros: &mut [R]| zeros.fill(R::ZERO));
    host.lend([targets], [out], |[targets], [mut out]| {
        let targets = targets.indices();
        let classes = out.len() / targets.len();
        for (row, &target) in targets.iter().enumerate() {
            out.store(row * classes + class(target, classes), &[value]);
        }
    });
}

fn class(target: i64, classes: usize) -> usize {
    usize::try_from(target).ok().filter(|&t| t < classes).expect("a target is one of the classes")
}

static SOURCE: Source = Source { name: "nll_loss", text: include_str!("kernel.cu") };

impl OpKernel for NllLoss {
    fn save_inputs(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(inputs[0].clone()), Some(inputs[1].clone())])
    }

    fn forward(&self, exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        let out = exec.empty(TensorMeta::scalar(inputs[0].dtype()))?;
        let total_weight = exec.empty(out.shared_meta())?;
        exec.on_host(|host| with_real!([out], R => nll_loss::<R>(host, inputs[0].operand(), inputs[1].operand(), [out.operand(), total_weight.operand()])));
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "nll_loss_forward", types: &[out.dtype()] };
            let (rows, columns) = (inputs[0].shape().rows(), inputs[0].shape().last());
            let (x, target) = (View::of(inputs[0].operand()), inputs[1].operand());
            let args = [rows.into(), columns.into(), out.operand().into(), total_weight.operand().into(), (&x).into(), target.into()];
            gpu.launch(kernel, Grid::line(1, 512), &args);
        });
        Ok(Forward::saving(out, [total_weight]))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let out = exec.empty(at.input())?;
        exec.on_host(|host| {
            let scalars = [at.grad().operand(), at.saved(2).operand()];
            with_real!([out], R => nll_loss_backward::<R>(host, scalars, at.saved(1).operand(), out.operand()));
        });
        exec.on_cuda(|gpu| {
            let kernel = Kernel { source: &SOURCE, entry: "nll_loss_backward", types: &[out.dtype()] };
            let (rows, columns) = (out.shape().rows(), out.shape().last());
            let tensors = [&out, at.grad(), at.saved(1), at.saved(2)].map(|t| Arg::from(t.operand()));
            gpu.fill(out.operand().address, 0, out.meta().bytes());
            gpu.launch(kernel, Grid::each(rows), &[&[rows.into(), columns.into()], &tensors[..]].concat());
        });
        Ok(vec![Some(out), None])
    }
}
