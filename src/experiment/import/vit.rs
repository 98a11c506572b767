//! The vision transformer.

use super::config::{Config, Task};
use super::encoder::encoder;
use super::head::Head;
use super::layers::{dropout, linear, positions, quoted, repeated};
use super::network::{Input, Network};
use super::translate::Result;

pub(super) fn vit(config: &Config) -> Result<Network> {
    let features = config.number("hidden_size")?;
    let (image, patch) = (config.optional("image_size")?.unwrap_or(224), config.optional("patch_size")?.unwrap_or(16));
    let channels = config.optional("num_channels")?.unwrap_or(3);
    let side = image / patch;
    let length = side * side + 1;
    let mut missing = vec![
        "patches are taken by a convolution there; here they are the input, and a linear layer of the same size projects them".to_owned(),
        "the class token, which is a learned position of its own; here it is one patch more".to_owned(),
    ];
    let head = match config.task(Task::Samples) {
        Task::Samples => {
            let labels = config.labels()?;
            missing.push("the class token gives the labels; here it is the last position".to_owned());
            Head::new([quoted("last"), linear(labels, true)], config.loss(labels))
        }
        _ => Head::none(config, &mut missing),
    };
    let block = encoder(config, true, &mut missing)?;
    let layers = [linear(features, true), positions(length)].into_iter().chain(dropout(config.share("hidden_dropout_prob", 0.0)));
    let layers = layers.chain([repeated(config.number("num_hidden_layers")?), quoted("layer_norm")]).chain(head.layers).collect();
    let features = vec![length, channels.saturating_mul(patch * patch)];
    Ok(Network { input: Input::Features(features), layers, block, loss: head.loss, missing })
}
