//! What `batch_norm` computes on the host. All of PyTorch's implementations compute the same.

use super::rule::BatchNorm;
use crate::device::host::{Host, Real, View, map, map_views, with_real};
use crate::device::{Operand, Spread};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::Backward;
use crate::tensor::Tensor;

impl BatchNorm {
    /// Normalises by the batch's statistics, which go to `mean` and `invstd`, and takes them into the running ones.
    pub(super) fn train_on_host(&self, host: &Host, inputs: &[&Tensor], out: &Tensor, mean: &Tensor, invstd: &Tensor) {
        let x = inputs[0];
        let running = [inputs[3].operand(), inputs[4].operand()];
        with_real!([x], R => self.statistics::<R>(host, x.operand(), [mean.operand(), invstd.operand()], running));
        map!(host, [inputs[5]] => [inputs[5]], |batches| [batches + 1.0]);
        let [weight, bias, mean, invstd] = [inputs[1], inputs[2], mean, invstd].map(|t| over_channels(t.operand(), x.shape()));
        map!(host, [x, weight, bias, mean, invstd] => [out], |x, weight, bias, mean, invstd| [(x - mean) * invstd * weight + bias]);
    }

    /// Normalises by the running statistics.
    pub(super) fn evaluate_on_host(&self, host: &Host, inputs: &[&Tensor], out: &Tensor) {
        let x = inputs[0];
        let [weight, bias, mean, variance] = [1, 2, 3, 4].map(|i| over_channels(inputs[i].operand(), x.shape()));
        map!(host, (eps = self.eps), [x, weight, bias, mean, variance] => [out], |x, weight, bias, mean, variance| [{
            (x - mean) * (1.0 / (variance + eps).sqrt()) * weight + bias
        }]);
    }

    /// Gradients of x, weight and bias, those that are wanted.
    pub(super) fn backward_on_host(&self, host: &Host, at: &Backward<'_>, gradients: &[Option<Tensor>]) {
        with_real!([at.saved(0)], R => self.gradients::<R>(host, at, [0, 1, 2].map(|i| gradients[i].as_ref())));
    }

    /// The batch's mean and reciprocal deviation of each channel, and their share in the running statistics.
    fn statistics<R: Real>(&self, host: &Host, x: Operand<'_>, statistics: [Operand<'_>; 2], running: [Operand<'_>; 2]) {
        let sides = sides(x);
        let count = sides[0] * sides[2];
        let over = |sums: &[R], n: usize| sums.iter().map(|&s| s / R::of_count(n)).collect::<Vec<R>>();
        let [sums] = host.sums(sides, [x], |[x]: [R; 1]| [x]);
        let mean = over(&sums, count);
        host.store(statistics[0], &mean);
        let seen = over_channels(statistics[0], &x.meta.shape);
        let [squares] = host.sums(sides, [x, seen.operand()], |[x, mean]: [R; 2]| [(x - mean) * (x - mean)]);
        let eps = R::from_f64(self.eps);
        let invstd: Vec<R> = over(&squares, count).into_iter().map(|v| R::ONE / (v + eps).sqrt()).collect();
        host.store(statistics[1], &invstd);
        // What is kept running is the unbiased variance.
        for (to, batch) in running.into_iter().zip([mean, over(&squares, count - 1)]) {
            let momentum = R::from_f64(self.momentum);
            let mut values = host.values::<R>(to);
            values.iter_mut().zip(batch).for_each(|(r, b)| *r = (R::ONE - momentum) * *r + momentum * b);
            host.store(to, &values);
        }
    }

    /// Gradients of x, weight and bias, those that are wanted.
    fn gradients<R: Real>(&self, host: &Host, at: &Backward<'_>, gradients: [Option<&Tensor>; 3]) {
        let [of_x, of_weight, of_bias] = gradients.map(|g| g.map(Tensor::operand));
        let (x, grad) = (at.saved(0).operand(), at.grad().operand());
        let seen = |saved: usize| over_channels(at.saved(saved).operand(), &x.meta.shape);
        let (training, eps) = (self.training, R::from_f64(self.eps));
        let (mean, spread) = if training { (seen(4), seen(5)) } else { (seen(2), seen(3)) };
        // Evaluation normalised by the running variance.
        let invstd = move |spread: R| if training { spread } else { R::ONE / (spread + eps).sqrt() };
        let sides = sides(x);
        let sums = host.sums(sides, [x, grad, mean.operand(), spread.operand()], |[x, grad, mean, spread]: [R; 4]| {
            [grad * (x - mean) * invstd(spread), grad]
        });
        if let Some(of_x) = of_x {
            // What a change of x changes through the batch's statistics: nothing in evaluation.
            let share = if training { R::ONE / R::of_count(sides[0] * sides[2]) } else { R::ZERO };
            let shares = sums.each_ref().map(|sums| sums.iter().map(|&s| s * share).collect::<Vec<R>>());
            let channel = TensorMeta::contiguous(Shape::new([sides[1] as u64]).expect("no more than x has"), R::DTYPE);
            let channel = over_channels(Operand { address: 0, meta: &channel }, &x.meta.shape);
            let weight = seen(1);
            host.lend([x, grad, mean.operand(), spread.operand(), weight.operand()], [of_x], |[x, grad, mean, spread, weight], out| {
                let [slope, offset] = shares.each_ref().map(|s| View::over(s, channel.operand().meta));
                map_views([x, grad, mean, spread, weight, slope, offset], out, |[x, grad, mean, spread, weight, slope, offset]: [R; 7]| {
                    let invstd = invstd(spread);
                    [(grad - offset - (x - mean) * invstd * slope) * invstd * weight]
                });
            });
        }
        let [products, grads] = sums;
        for (to, sums) in [(of_weight, products), (of_bias, grads)] {
            if let Some(to) = to {
                host.store(to, &sums);
            }
        }
    }
}

/// Samples, channels, and elements of a channel in a sample.
fn sides(x: Operand<'_>) -> [usize; 3] {
    let dims = x.meta.shape.dims();
    [dims[0], dims[1], dims[2..].iter().product()].map(|d| d as usize)
}

/// A figure a channel, seen from every element.
fn over_channels(statistic: Operand<'_>, shape: &Shape) -> Spread {
    let mut dims = vec![1; shape.rank() - 1];
    dims[0] = statistic.meta.numel();
    let column = TensorMeta::contiguous(Shape::new(dims).expect("as many elements as before"), statistic.meta.dtype);
    statistic.with(&column).spread(shape)
}
