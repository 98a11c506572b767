//! A convolution's sizes, as the formulas need them. Not what is done with them.
//!
//! Invariant: 128 bits, in which no product of three tensors' sizes overflows.

use crate::scratch::{Convolution, Direction};

/// Sizes of one convolution. Channels of `w` are those of a group.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    pub(super) direction: Direction,
    /// Bytes of an element.
    pub(super) element: u128,
    /// Whether it is bf16, f16's sister.
    pub(super) bf16: bool,
    pub(super) n: u128,
    pub(super) c: u128,
    pub(super) h: u128,
    pub(super) w: u128,
    pub(super) k: u128,
    /// Input channels of a group.
    pub(super) group_c: u128,
    /// Kernel's height and width.
    pub(super) r: u128,
    pub(super) s: u128,
    pub(super) out_h: u128,
    pub(super) out_w: u128,
    pub(super) stride: u128,
    pub(super) padding: u128,
    pub(super) groups: u128,
}

impl Geometry {
    pub(super) fn new(request: &Convolution) -> Self {
        let [n, c, h, w] = request.input.map(u128::from);
        let [k, group_c, r, s] = request.weight.map(u128::from);
        let [_, _, out_h, out_w] = request.output().map(u128::from);
        Self {
            direction: request.direction,
            element: request.dtype.bytes().into(),
            bf16: request.dtype == crate::meta::DType::BF16,
            n,
            c,
            h,
            w,
            k,
            group_c,
            r,
            s,
            out_h,
            out_w,
            stride: request.stride[0].into(),
            padding: request.padding[0].into(),
            groups: request.groups.into(),
        }
    }

    pub(super) const fn is_f32(&self) -> bool {
        self.element == 4
    }

    /// Output channels of a group.
    pub(super) fn group_k(&self) -> u128 {
        self.k / self.groups
    }

    pub(super) fn pixels_in(&self) -> u128 {
        self.h * self.w
    }

    pub(super) fn pixels_out(&self) -> u128 {
        self.out_h * self.out_w
    }

    /// Elements of the kernel's window.
    pub(super) fn window(&self) -> u128 {
        self.r * self.s
    }

    /// Elements of the weight.
    pub(super) fn weight(&self) -> u128 {
        self.k * self.group_c * self.window()
    }

    /// Whether it is a matrix product for each sample: one pixel of the kernel, each pixel of the input.
    pub(super) fn is_product(&self) -> bool {
        self.window() == 1 && self.stride == 1 && self.groups == 1
    }

    /// Rows and columns of its result as a matrix, and elements of a sum: of one sample where it is a product, but where a sample has one pixel.
    pub(super) fn matrix(&self) -> [u128; 3] {
        let samples = if self.is_product() && self.h > 1 { 1 } else { self.n };
        match self.direction {
            Direction::Forward => [samples * self.pixels_out(), self.k, self.group_c * self.window()],
            Direction::GradInput => [samples * self.pixels_in(), self.c, self.group_k() * self.window()],
            Direction::GradWeight => [self.k, self.group_c * self.window(), samples * self.pixels_out()],
        }
    }

    /// Rows, columns and depth of the matrix product that a 1×1 convolution of one sample is; all samples together where there is one pixel.
    pub(super) fn product(&self) -> [u128; 3] {
        let rows = if self.h == 1 { self.n } else { self.pixels_in() };
        match self.direction {
            Direction::Forward => [rows, self.k, self.c],
            Direction::GradInput => [rows, self.c, self.k],
            Direction::GradWeight => [self.k, self.c, self.pixels_in()],
        }
    }

    /// Elements of its result.
    pub(super) fn product_result(&self) -> u128 {
        let [rows, columns, _] = self.product();
        rows * columns
    }

    /// Tensor cores take 16 bytes of channels at a time: so many channels.
    fn lane(&self) -> u128 {
        16 / self.element
    }

    /// Elements of the input with its channels padded.
    pub(super) fn padded_input(&self) -> u128 {
        self.n * self.c.next_multiple_of(self.lane()) * self.pixels_in()
    }

    /// Elements of the output with its channels padded.
    pub(super) fn padded_output(&self) -> u128 {
        self.n * self.k.next_multiple_of(self.lane()) * self.pixels_out()
    }

    /// Input channels of a group, padded.
    pub(super) fn padded_group_c(&self) -> u128 {
        self.group_c.next_multiple_of(self.lane())
    }

    /// Elements of the weight with its channels padded.
    pub(super) fn padded_weight(&self) -> u128 {
        self.k.next_multiple_of(self.lane()) * self.padded_group_c() * self.window()
    }

    /// Whether a weight in channels-last order differs from the one there is.
    pub(super) fn weight_moves(&self) -> bool {
        self.r > 1 || !self.group_c.is_multiple_of(self.lane()) || !self.group_k().is_multiple_of(self.lane())
    }
}
