//! GPT-2.

use super::config::Config;
use super::head::decoder_head;
use super::layers::{activation, attention, dropout, embedding, linear, positions, quoted, repeated, residual};
use super::network::{Input, Network};
use super::translate::Result;

pub(super) fn gpt2(config: &Config) -> Result<Network> {
    let (features, heads) = (config.number("n_embd")?, config.number("n_head")?);
    let most = config.optional("n_positions")?.or(config.optional("n_ctx")?).map_or_else(|| config.number("n_positions"), Ok)?;
    let vocabulary = config.number("vocab_size")?;
    let inner = config.optional("n_inner")?.unwrap_or(4 * features);
    let mut missing = Vec::new();
    let head = decoder_head(config, vocabulary, true, &mut missing)?;
    let act = activation(config, "activation_function", "gelu_new", &mut missing);
    let dropped = dropout(config.share("resid_pdrop", 0.1));
    let attended = attention(heads, heads, true, true, config.share("attn_pdrop", 0.1));
    let layers = [embedding(vocabulary, features), positions(most)].into_iter().chain(dropout(config.share("embd_pdrop", 0.1)));
    let layers = layers.chain([repeated(config.number("n_layer")?), quoted("layer_norm")]).chain(head.layers).collect();
    let part = |of: Vec<String>| residual(&[quoted("layer_norm")].into_iter().chain(of).chain(dropped.clone()).collect::<Vec<_>>());
    let block = vec![part(vec![attended]), part(vec![linear(inner, true), act, linear(features, true)])];
    Ok(Network { input: Input::Tokens { most, vocabulary }, layers, block, loss: head.loss, missing })
}
