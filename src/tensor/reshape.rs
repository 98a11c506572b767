//! Views in another shape: PyTorch's rule for when strides allow one.

use super::Tensor;
use crate::meta::{Shape, TensorMeta};

impl Tensor {
    /// This tensor's elements in another shape without a copy; `None` where its strides do not allow it.
    ///
    /// Dimensions are taken from the last: those that lie dense in one another form a group, and the new dimensions must tile each
    /// group exactly (`at::detail::computeStride`).
    #[must_use]
    pub fn reshaped(&self, shape: &Shape) -> Option<Self> {
        let meta = self.meta();
        if meta.is_contiguous() {
            return Some(self.view(TensorMeta::contiguous(shape.clone(), meta.dtype)));
        }
        let strides = strides_of_view(meta.shape.dims(), &meta.strides, shape.dims())?;
        Some(self.view(TensorMeta { shape: shape.clone(), dtype: meta.dtype, strides }))
    }

    /// A matrix with its sides exchanged, over the same storage.
    ///
    /// # Panics
    /// It is not a matrix.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let TensorMeta { shape, dtype, strides } = self.meta();
        let (&[rows, columns], &[row_step, column_step]) = (shape.dims(), &strides[..]) else {
            panic!("only a matrix can be transposed, not {shape}");
        };
        let shape = Shape::new([columns, rows]).expect("as many elements as before");
        self.view(TensorMeta { shape, dtype: *dtype, strides: vec![column_step, row_step] })
    }
}

fn strides_of_view(old: &[u64], strides: &[u64], new: &[u64]) -> Option<Vec<u64>> {
    let mut result = vec![0; new.len()];
    let mut left = new.len();
    let Some(mut base) = strides.last().copied() else {
        return Some(vec![1; new.len()]);
    };
    let (mut elements, mut tiled) = (1, 1);
    for d in (0..old.len()).rev() {
        elements *= old[d];
        let group_ends = d == 0 || (old[d - 1] != 1 && strides[d - 1] != elements * base);
        if !group_ends {
            continue;
        }
        while left > 0 && (tiled < elements || new[left - 1] == 1) {
            left -= 1;
            result[left] = tiled * base;
            tiled *= new[left];
        }
        if tiled != elements {
            return None;
        }
        if d > 0 {
            base = strides[d - 1];
            (elements, tiled) = (1, 1);
        }
    }
    (left == 0).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::strides_of_view;

    #[test]
    fn dense_groups_split_and_join() {
        assert_eq!(strides_of_view(&[4, 3, 2], &[6, 2, 1], &[12, 2]), Some(vec![2, 1]));
        assert_eq!(strides_of_view(&[4, 6], &[12, 1], &[4, 2, 3]), Some(vec![12, 3, 1]));
        assert_eq!(strides_of_view(&[2, 3, 4], &[0, 0, 0], &[6, 4]), Some(vec![0, 0]));
        assert_eq!(strides_of_view(&[4, 6], &[12, 1], &[24]), None);
        assert_eq!(strides_of_view(&[], &[], &[1, 1]), Some(vec![1, 1]));
    }
}
