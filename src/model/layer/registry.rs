//! The registry of layers. Reading files, hints and the JSON Schema all go through it.

use std::rc::Rc;

use super::Layer;
use crate::model::field::{Field, Presence, Values};

/// A layer of the language.
#[derive(Debug, Clone, Copy)]
pub struct LayerKind {
    /// Its name in experiment files: PyTorch's, in snake case.
    pub name: &'static str,
    /// What it computes, in one sentence.
    pub doc: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
    /// Makes the layer of its fields, all of which fit their kinds.
    pub build: fn(&Values) -> Rc<dyn Layer>,
}

impl LayerKind {
    /// Whether its name alone stands for it.
    #[must_use]
    pub fn needs_no_field(&self) -> bool {
        !self.fields.iter().any(|f| matches!(f.presence, Presence::Required))
    }
}

/// Every layer, in the order of the documentation.
pub const KINDS: &[&LayerKind] = &[
    &super::linear::KIND,
    &super::conv2d::KIND,
    &super::batch_norm::KIND,
    &super::layer_norm::KIND,
    &super::rms_norm::KIND,
    &super::group_norm::KIND,
    &super::embedding::KIND,
    &super::position_embedding::KIND,
    &super::relu::KIND,
    &super::gelu::KIND,
    &super::silu::KIND,
    &super::sigmoid::KIND,
    &super::tanh::KIND,
    &super::softmax::KIND,
    &super::dropout::KIND,
    &super::max_pool2d::KIND,
    &super::avg_pool2d::KIND,
    &super::adaptive_avg_pool2d::KIND,
    &super::flatten::KIND,
    &super::last::KIND,
    &super::recurrent::LSTM,
    &super::recurrent::GRU,
    &super::attention::KIND,
    &super::swiglu::KIND,
    &super::residual::KIND,
    &super::repeat::KIND,
    &super::checkpoint::KIND,
    &super::block::KIND,
];

/// The layer of that name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static LayerKind> {
    KINDS.iter().copied().find(|k| k.name == name)
}

/// The one layer that is not a table of fields: `{ block = "name" }`. Its only field is called like itself.
pub const BLOCK: &str = super::block::KIND.name;
