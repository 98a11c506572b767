//! `rnn`: LSTM and GRU over a batch of sequences, layers and directions in one call.

mod kernel;
mod kernel_host;
pub mod rule;
