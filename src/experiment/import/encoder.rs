//! What BERT and ViT have in common.

use super::config::Config;
use super::layers::{activation, attention, dropout, linear, quoted, residual};
use super::translate::Result;

/// The layers that BERT and ViT have in common, norms in front or behind.
pub(super) fn encoder(config: &Config, norm_first: bool, missing: &mut Vec<String>) -> Result<Vec<String>> {
    let (features, heads) = (config.number("hidden_size")?, config.number("num_attention_heads")?);
    let act = activation(config, "hidden_act", "gelu", missing);
    let default = if norm_first { 0.0 } else { 0.1 };
    let dropped = dropout(config.share("hidden_dropout_prob", default));
    let causal = config.flag("is_decoder", false);
    let attended = attention(heads, heads, causal, true, config.share("attention_probs_dropout_prob", default));
    let inside = [linear(config.number("intermediate_size")?, true), act, linear(features, true)];
    let mut block = Vec::new();
    for part in [vec![attended], inside.to_vec()] {
        let norm = Some(quoted("layer_norm"));
        let (before, behind) = if norm_first { (norm, None) } else { (None, norm) };
        block.push(residual(&before.into_iter().chain(part).chain(dropped.clone()).collect::<Vec<_>>()));
        block.extend(behind);
    }
    Ok(block)
}
