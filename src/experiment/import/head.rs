//! What a network ends in.

use super::config::{Config, Task};
use super::layers::{dropout, linear, quoted};
use super::translate::Result;
use crate::meta::plain;

/// The layers at a network's end, and the loss.
pub(super) struct Head {
    pub(super) layers: Vec<String>,
    pub(super) loss: &'static str,
}

impl Head {
    pub(super) fn new(layers: impl IntoIterator<Item = String>, loss: &'static str) -> Self {
        Self { layers: layers.into_iter().collect(), loss }
    }

    /// Of hidden states nothing is learnt; a sum has a gradient.
    pub(super) fn none(config: &Config, missing: &mut Vec<String>) -> Self {
        let name = config.architecture().unwrap_or_default();
        if !name.ends_with("Model") || name.ends_with("DoubleHeadsModel") {
            missing.push(format!("the head of {}; here the network ends before it, and its loss is a sum", plain(name)));
        } else {
            missing.push("a head and a loss: there are none; here the loss is the sum of the hidden states".to_owned());
        }
        Self::new([], "sum")
    }

    pub(super) fn spans(missing: &mut Vec<String>) -> Self {
        missing.push("the loss is over positions, for beginnings and ends; here it is over those two at each position".to_owned());
        Self::new([linear(2, true)], "cross_entropy")
    }
}

/// Tells of a matrix that is shared.
pub(super) fn tied(config: &Config, default: bool, missing: &mut Vec<String>) {
    if config.flag("tie_word_embeddings", default) {
        missing.push("the output shares the embedding's matrix; here it has one of its own".to_owned());
    }
}

/// The head of a decoder, behind its last norm.
pub(super) fn decoder_head(config: &Config, vocabulary: u64, tie: bool, missing: &mut Vec<String>) -> Result<Head> {
    let labels = config.labels()?;
    if config.flag("use_cache", true) {
        missing.push("the cache of keys and values, which lives until the next forward unless `use_cache` is off in training".to_owned());
    }
    Ok(match config.task(Task::Language) {
        Task::Language => {
            tied(config, tie, missing);
            // The copy and its gradient, where there are two of half a size here: seen on a Llama in bf16.
            missing.push(format!(
                "the loss of half logits is taken in f32: that needs about 6 bytes more for each of the {vocabulary} logits of a position"
            ));
            Head::new([linear(vocabulary, false)], "cross_entropy")
        }
        Task::Samples => {
            missing.push("the last position that is no padding gives the labels; here it is the last".to_owned());
            Head::new([linear(labels, false), quoted("last")], config.loss(labels))
        }
        Task::Positions => {
            let p = config.share("classifier_dropout", config.share("hidden_dropout", 0.1));
            Head::new(dropout(p).into_iter().chain([linear(labels, true)]), "cross_entropy")
        }
        Task::Spans => Head::spans(missing),
        Task::None => Head::none(config, missing),
    })
}
