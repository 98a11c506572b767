//! Element types: what is stored, and what computing happens in. Values are widened on the way in and rounded once on the way out.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use crate::meta::DType;

/// A type that computing happens in: `f64` for what is stored as f64, `f32` for the narrower floating types.
pub trait Real:
    Pod
    + Send
    + Sync
    + Debug
    + PartialOrd
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Below every number.
    const LOWEST: Self;
    /// The type it is stored as without rounding.
    const DTYPE: DType;

    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    /// The nearest value.
    fn from_f32(value: f32) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// The nearest value.
    fn to_f32(self) -> f32;
    /// e to the power of it.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// The error function.
    fn error_function(self) -> Self;
    /// A number of elements.
    fn of_count(n: usize) -> Self {
        Self::from_f64(n as f64)
    }
}

macro_rules! real {
    ($real:ident, $dtype:ident, $erf:path) => {
        impl Real for $real {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = Self::NEG_INFINITY;
            const DTYPE: DType = DType::$dtype;

            fn from_f64(value: f64) -> Self {
                value as Self
            }
            fn from_f32(value: f32) -> Self {
                value as Self
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn ln(self) -> Self {
                self.ln()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn error_function(self) -> Self {
                $erf(self)
            }
        }
    };
}
real!(f32, F32, libm::erff);
real!(f64, F64, libm::erf);

/// A type that elements are stored as.
trait Stored: Pod {
    fn widen<R: Real>(self) -> R;
    fn narrow<R: Real>(value: R) -> Self;
}

macro_rules! stored {
    ($($stored:ty: |$s:ident| $widen:expr, |$r:ident| $narrow:expr;)+) => {
        $(impl Stored for $stored {
            #[inline]
            fn widen<R: Real>(self) -> R {
                let $s = self;
                $widen
            }
            #[inline]
            fn narrow<R: Real>($r: R) -> Self {
                $narrow
            }
        })+
    };
}
stored! {
    f64: |s| R::from_f64(s), |r| r.to_f64();
    f32: |s| R::from_f32(s), |r| r.to_f32();
    // By way of f32 even from f64, as in PyTorch, whose half types are made from a float.
    f16: |s| R::from_f32(s.to_f32()), |r| Self::from_f32(r.to_f32());
    bf16: |s| R::from_f32(s.to_f32()), |r| Self::from_f32(r.to_f32());
    i64: |s| R::from_f64(s as f64), |r| r.to_f64() as Self;
    u8: |s| R::from_f32(f32::from(s)), |r| r.to_f32() as Self;
}

/// Runs `$body` with `$T` the type that `$dtype` is stored as.
macro_rules! with_stored {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F16 => {
                type $T = f16;
                $body
            }
            DType::BF16 => {
                type $T = bf16;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::Bool | DType::U8 => {
                type $T = u8;
                $body
            }
        }
    };
}

/// Reads `out.len()` elements, `stride` elements apart, beginning with the first of `bytes`.
pub(crate) fn load<R: Real>(dtype: DType, bytes: &[u8], stride: usize, out: &mut [R]) {
    if out.is_empty() {
        return;
    }
    with_stored!(dtype, T => {
        let from: &[T] = bytemuck::cast_slice(bytes);
        match stride {
            0 => out.fill(from[0].widen()),
            1 => load_dense(dtype, &from[..out.len()], out),
            _ => from.iter().step_by(stride).zip(out).for_each(|(s, o)| *o = s.widen()),
        }
    });
}

fn load_dense<T: Stored, R: Real>(dtype: DType, from: &[T], out: &mut [R]) {
    if dtype == R::DTYPE {
        out.copy_from_slice(bytemuck::cast_slice(from));
    } else if dtype.is_half() && R::DTYPE == DType::F32 {
        let out: &mut [f32] = bytemuck::cast_slice_mut(out);
        if dtype == DType::F16 {
            bytemuck::cast_slice::<T, f16>(from).convert_to_f32_slice(out);
        } else {
            bytemuck::cast_slice::<T, bf16>(from).convert_to_f32_slice(out);
        }
    } else {
        from.iter().zip(out).for_each(|(s, o)| *o = s.widen());
    }
}

/// Writes all of `values`, `stride` elements apart, beginning with the first of `bytes`. The conversion rounds to nearest, ties to even.
pub(crate) fn store<R: Real>(dtype: DType, bytes: &mut [u8], stride: usize, values: &[R]) {
    with_stored!(dtype, T => {
        let to: &mut [T] = bytemuck::cast_slice_mut(bytes);
        if stride == 1 {
            store_dense(dtype, &mut to[..values.len()], values);
        } else {
            to.iter_mut().step_by(stride.max(1)).zip(values).for_each(|(o, &v)| *o = T::narrow(v));
        }
    });
}

fn store_dense<T: Stored, R: Real>(dtype: DType, to: &mut [T], values: &[R]) {
    if dtype == R::DTYPE {
        to.copy_from_slice(bytemuck::cast_slice(values));
    } else if dtype.is_half() && R::DTYPE == DType::F32 {
        let values: &[f32] = bytemuck::cast_slice(values);
        if dtype == DType::F16 {
            bytemuck::cast_slice_mut::<T, f16>(to).convert_from_f32_slice(values);
        } else {
            bytemuck::cast_slice_mut::<T, bf16>(to).convert_from_f32_slice(values);
        }
    } else {
        to.iter_mut().zip(values).for_each(|(o, &v)| *o = T::narrow(v));
    }
}

/// Elements as they are stored, in the program's own memory.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// Words, so that every element type is aligned.
    words: Vec<u64>,
    bytes: usize,
}

impl Encoded {
    /// Elements from their numbers: `fill(start, out)` gives the elements from `start` on, `start` a multiple of 4.
    pub fn new<R: Real>(dtype: DType, elements: usize, fill: impl Fn(usize, &mut [R]) + Sync) -> Self {
        const BLOCK: usize = 512;
        let width = dtype.bytes() as usize;
        let bytes = elements * width;
        let mut words = vec![0u64; bytes.div_ceil(size_of::<u64>())];
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        all[..bytes].par_chunks_mut(BLOCK * width).enumerate().for_each(|(block, chunk)| {
            let mut values = [R::ZERO; BLOCK];
            let values = &mut values[..chunk.len() / width];
            fill(block * BLOCK, values);
            store(dtype, chunk, 1, values);
        });
        Self { words, bytes }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }
}
