//! `select` gives a view; its gradient is zero everywhere else.

use super::rule::Select;
use crate::exec::{Exec, Result};
use crate::meta::{Shape, TensorMeta};
use crate::ops::kernel::{Backward, Forward, Identity, OpKernel};
use crate::tensor::Tensor;

impl Select {
    fn of(self, t: &Tensor) -> Tensor {
        let meta = t.meta();
        let (mut dims, mut strides) = (meta.shape.dims().to_vec(), meta.strides.clone());
        dims.remove(self.dim);
        let step = strides.remove(self.dim);
        let shape = Shape::new(dims).expect("no more elements than before");
        t.view_at(TensorMeta { shape, dtype: meta.dtype, strides }, self.index * step)
    }
}

impl OpKernel for Select {
    fn identity(&self, _inputs: &[&Tensor]) -> Identity {
        Identity::View
    }

    fn forward(&self, _exec: &Exec, inputs: &[&Tensor], _needs: &[bool]) -> Result<Forward> {
        Ok(Forward::plain(self.of(inputs[0])))
    }

    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(at.within_zeros(exec, |whole| self.of(whole))?)])
    }
}
