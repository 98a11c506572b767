//! BERT.

use super::config::{Config, Task};
use super::encoder::encoder;
use super::head::{Head, tied};
use super::layers::{dropout, embedding, linear, positions, quoted, repeated};
use super::network::{Input, Network};
use super::translate::Result;

fn bert_head(config: &Config, features: u64, vocabulary: u64, missing: &mut Vec<String>) -> Result<Head> {
    let labels = config.labels()?;
    let dropped = dropout(config.share("classifier_dropout", config.share("hidden_dropout_prob", 0.1)));
    Ok(match config.task(Task::Language) {
        Task::Language => {
            missing.push("the head's transform before the output; a linear layer over the vocabulary is all of it here".to_owned());
            if config.architecture().is_some_and(|name| name.ends_with("ForPreTraining")) {
                missing.push("the head that tells whether two sentences follow one another, and the pooler before it".to_owned());
            }
            tied(config, true, missing);
            Head::new([linear(vocabulary, true)], "cross_entropy")
        }
        Task::Samples => {
            missing.push("the first position gives the labels; here it is the last".to_owned());
            let pooled = [quoted("last"), linear(features, true), quoted("tanh")].into_iter();
            Head::new(pooled.chain(dropped).chain([linear(labels, true)]), config.loss(labels))
        }
        Task::Positions => Head::new(dropped.into_iter().chain([linear(labels, true)]), "cross_entropy"),
        Task::Spans => Head::spans(missing),
        Task::None => Head::none(config, missing),
    })
}

pub(super) fn bert(config: &Config) -> Result<Network> {
    let (features, vocabulary) = (config.number("hidden_size")?, config.number("vocab_size")?);
    let most = config.number("max_position_embeddings")?;
    let mut missing = vec!["the embedding of segments, which is added to that of words".to_owned()];
    let head = bert_head(config, features, vocabulary, &mut missing)?;
    let block = encoder(config, false, &mut missing)?;
    let layers = [embedding(vocabulary, features), positions(most), quoted("layer_norm")].into_iter();
    let layers = layers.chain(dropout(config.share("hidden_dropout_prob", 0.1)));
    let layers = layers.chain([repeated(config.number("num_hidden_layers")?)]).chain(head.layers).collect();
    Ok(Network { input: Input::Tokens { most, vocabulary }, layers, block, loss: head.loss, missing })
}
