//! `linear`: `x · weightᵀ + bias`: PyTorch's `addmm` with a bias, `mm` without. Inputs: x, weight (out, in), bias if `bias`.

mod kernel;
pub mod rule;
