//! What `conv2d` does to memory. cuDNN computes it in a workspace of its own choice; convolutions of one channel a group are PyTorch's own,
//! and need none.

use crate::gpu::Gpu;
use crate::meta::{Shape, TensorMeta};
use crate::ops::recipe::Recipe;
use crate::ops::reduction::Reduction;
use crate::ops::rule::{Backward, Forward, Gradient, OpRule, Output, RuleContext, Saved, ShapeError};
use crate::scratch::{Convolution, Direction, Request};

/// Two-dimensional convolution. Inputs: x, weight (out, in / groups, height, width), bias if `bias`. Pairs are height, width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conv2d {
    /// Steps of the window.
    pub stride: [u64; 2],
    /// Zeros on each side.
    pub padding: [u64; 2],
    /// Distances of the window's elements.
    pub dilation: [u64; 2],
    /// Groups of channels.
    pub groups: u64,
    /// Whether there is a bias: the third input.
    pub bias: bool,
}

impl Conv2d {
    /// One of the three computations, for inputs that `infer` took.
    ///
    /// # Panics
    /// `infer` refuses them.
    #[must_use]
    pub fn call(&self, direction: Direction, x: &TensorMeta, weight: &TensorMeta) -> Convolution {
        let four = |t: &TensorMeta| <[u64; 4]>::try_from(t.shape.dims()).expect("infer has succeeded");
        let Self { stride, padding, dilation, groups, .. } = *self;
        Convolution { direction, dtype: x.dtype, input: four(x), weight: four(weight), stride, padding, dilation, groups }
    }

    fn is_native(&self, inputs: &[TensorMeta]) -> bool {
        self.call(Direction::Forward, &inputs[0], &inputs[1]).is_native()
    }
}

impl OpRule for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
        let (x, weight) = (&inputs[0], &inputs[1]);
        let (&[batch, channels, _, _], &[out, of_group, _, _]) = (x.shape.dims(), weight.shape.dims()) else {
            return Err(ShapeError { message: format!("conv2d needs four dimensions, got {} and a weight of {}", x.shape, weight.shape) });
        };
        if of_group * self.groups != channels || out % self.groups != 0 {
            return Err(ShapeError {
                message: format!(
                    "conv2d of weight {} in {} groups does not go with an input of shape {}",
                    weight.shape, self.groups, x.shape
                ),
            });
        }
        if self.bias && inputs[2].shape.dims() != [out] {
            return Err(ShapeError {
                message: format!("conv2d of weight {} needs a bias of shape [{out}], got {}", weight.shape, inputs[2].shape),
            });
        }
        let mut dims = vec![batch, out];
        for axis in 0..2 {
            let padded = x.shape.dims()[axis + 2] + 2 * self.padding[axis];
            let reach = self.dilation[axis] * (weight.shape.dims()[axis + 2] - 1) + 1;
            let Some(room) = padded.checked_sub(reach) else {
                return Err(ShapeError {
                    message: format!("conv2d of weight {} reaches over the input of shape {}", weight.shape, x.shape),
                });
            };
            dims.push(room / self.stride[axis] + 1);
        }
        Ok(vec![TensorMeta::contiguous(Shape::new(dims)?, x.dtype)])
    }

    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward {
        let needed = needs.contains(&true);
        let mut r = Recipe::new();
        r.keep(Saved::Input(0), needed);
        r.keep(Saved::Input(1), needed);
        let out = self.infer(inputs).expect("infer has succeeded").remove(0);
        let slot = r.tensor(&out);
        if !self.is_native(inputs) {
            self.workspace(&mut r, cx, Direction::Forward, inputs);
        }
        r.forward(vec![Output::New(slot, out)])
    }

    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward {
        let mut r = Recipe::new();
        let mut gradients = vec![Gradient::None; inputs.len()];
        let Some(incoming) = &grads[0] else { return r.backward(gradients) };
        // A gradient that is spread with stride 0 is written out: once by PyTorch's own kernels, for each of cuDNN's two anew.
        let spread = !incoming.is_contiguous();
        let copy = |r: &mut Recipe| spread.then(|| r.tensor(&incoming.like()));
        let like = |r: &mut Recipe, i: usize| Gradient::New(r.tensor(&inputs[i].like()), inputs[i].like());
        let free = |r: &mut Recipe, copy: Option<usize>| copy.into_iter().for_each(|c| r.free(c));
        if self.is_native(inputs) {
            let written = if needs[0] || needs[1] { copy(&mut r) } else { None };
            for i in [1, 0] {
                if needs[i] {
                    gradients[i] = like(&mut r, i);
                }
            }
            free(&mut r, written);
        } else {
            if needs[0] {
                gradients[0] = like(&mut r, 0);
                let written = copy(&mut r);
                self.workspace(&mut r, cx, Direction::GradInput, inputs);
                free(&mut r, written);
            }
            if needs[1] {
                let written = copy(&mut r);
                gradients[1] = like(&mut r, 1);
                self.workspace(&mut r, cx, Direction::GradWeight, inputs);
                free(&mut r, written);
            }
        }
        if self.bias && needs[2] {
            gradients[2] = Gradient::New(bias_gradient(&mut r, cx.gpu, incoming), inputs[2].like());
        }
        r.backward(gradients)
    }
}

impl Conv2d {
    fn workspace(&self, r: &mut Recipe, cx: RuleContext<'_>, direction: Direction, inputs: &[TensorMeta]) {
        let request = Request::Convolution(self.call(direction, &inputs[0], &inputs[1]));
        r.temporary(cx.scratch.bytes(cx.gpu, &request));
    }
}

fn bias_gradient(r: &mut Recipe, gpu: &Gpu, incoming: &TensorMeta) -> usize {
    Reduction::new(incoming, &[true, false, true, true], incoming.dtype).run(r, gpu)
}
