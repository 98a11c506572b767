//! Llama, Mistral and Qwen2.

use serde_json::Value;

use super::config::Config;
use super::head::decoder_head;
use super::layers::{attention, embedding, quoted, repeated, residual};
use super::network::{Input, Network};
use super::translate::{ImportError, Result};

pub(super) fn llama(config: &Config, architecture: &str) -> Result<Network> {
    let (features, heads) = (config.number("hidden_size")?, config.number("num_attention_heads")?);
    let kv_heads = config.optional("num_key_value_heads")?.unwrap_or(heads);
    let (most, vocabulary) = (config.number("max_position_embeddings")?, config.number("vocab_size")?);
    if let Some(head) = config.optional("head_dim")?.filter(|head| head * heads != features) {
        return Err(ImportError::Unlike(format!(
            "{heads} heads of {head} features are not the {features} features that the language divides among them"
        )));
    }
    let mut missing = vec![
        "rotary embeddings, and the copies of queries and keys that they make".to_owned(),
        "its norms, written out in f32 operator by operator: backward keeps more of them than of an rms_norm".to_owned(),
    ];
    let head = decoder_head(config, vocabulary, false, &mut missing)?;
    let sliding = |layers: &Vec<Value>| layers.iter().any(|l| l.as_str() == Some("sliding_attention"));
    let some_slide = config.get("layer_types").and_then(Value::as_array).is_some_and(sliding);
    if some_slide || (config.get("sliding_window").is_some() && config.flag("use_sliding_window", architecture != "qwen2")) {
        missing.push("the sliding window: attention is over all positions before".to_owned());
    }
    if config.text("hidden_act").is_some_and(|act| act != "silu") {
        missing.push("the gate's activation; a silu stands in for it".to_owned());
    }
    let bias = config.flag("attention_bias", architecture == "qwen2");
    if architecture == "qwen2" {
        missing.push("only queries, keys and values have a bias there; here attention's output has one too".to_owned());
    }
    let bias_inside = if config.flag("mlp_bias", false) { ", bias = true" } else { "" };
    let norm = match config.get("rms_norm_eps").and_then(Value::as_f64) {
        Some(eps) if (eps - 1e-6).abs() > 1e-12 => format!("{{ rms_norm = {{ eps = {eps:?} }} }}"),
        _ => quoted("rms_norm"),
    };
    let attended = attention(heads, kv_heads, true, bias, config.share("attention_dropout", 0.0));
    let gated = format!("{{ swiglu = {{ hidden_features = {}{bias_inside} }} }}", config.number("intermediate_size")?);
    let layers = [embedding(vocabulary, features), repeated(config.number("num_hidden_layers")?), norm.clone()];
    let layers = layers.into_iter().chain(head.layers).collect();
    let block = vec![residual(&[norm.clone(), attended]), residual(&[norm, gated])];
    Ok(Network { input: Input::Tokens { most, vocabulary }, layers, block, loss: head.loss, missing })
}
