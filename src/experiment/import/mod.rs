//! Experiments from a Hugging Face `config.json`: the network in its true sizes, as text in the experiment language, and what the language
//! cannot say of it. It knows architectures, not weights.
//!
//! The network ends in the head of the architecture that is named: over the vocabulary, over labels, or none.
//!
//! Invariant: what is not expressed is told, nothing is left out in silence; and what is made can be loaded.
//!
//! Reading order: `translate` (the whole), `config` (fields of the file), `layers` (the language's words), `head`, `network` (the text);
//! then one file an architecture: `gpt2`, `llama`, `bert` and `vit`, the last two over `encoder`.

mod bert;
mod config;
mod encoder;
mod gpt2;
mod head;
mod layers;
mod llama;
mod network;
mod translate;
mod vit;

pub use translate::{Choices, ImportError, Imported, import};
