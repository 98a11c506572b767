//! A tensor as kernels take it: by value, whatever its layout. The same struct as `View` of the prelude.

use bytemuck::{Pod, Zeroable};

use crate::device::Operand;

/// Most dimensions that remain when those that lie one in the other are merged.
const MOST: usize = 6;

/// Where the elements of a tensor are, in row-major order.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub struct View {
    address: u64,
    step: u64,
    rank: u64,
    size: [u64; MOST],
    stride: [u64; MOST],
}

impl View {
    /// Of an operand.
    ///
    /// # Panics
    /// More than six dimensions remain after merging; no layer makes such a tensor.
    #[must_use]
    pub fn of(operand: Operand<'_>) -> Self {
        let mut view = Self::line(operand.address);
        if operand.meta.is_contiguous() {
            return view;
        }
        let (sizes, strides) = (operand.meta.shape.dims(), &operand.meta.strides);
        let mut rank = 0;
        for (&size, &stride) in sizes.iter().zip(strides).rev().filter(|&(&size, _)| size != 1) {
            if rank > 0 && view.stride[rank - 1] * view.size[rank - 1] == stride {
                view.size[rank - 1] *= size;
            } else {
                assert!(rank < MOST, "a tensor of {} has more than {MOST} dimensions apart", operand.meta.shape);
                (view.size[rank], view.stride[rank]) = (size, stride);
                rank += 1;
            }
        }
        match rank {
            0 => {}
            1 => view.step = view.stride[0],
            _ => view.rank = rank as u64,
        }
        view
    }

    /// Elements one after another.
    #[must_use]
    pub const fn line(address: u64) -> Self {
        Self { address, step: 1, rank: 0, size: [0; MOST], stride: [0; MOST] }
    }

    /// Its bytes, as an argument.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }
}
