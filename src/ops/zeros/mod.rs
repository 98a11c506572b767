//! `zeros`: A tensor of zeros, such as a first hidden state.

mod kernel;
pub mod rule;
