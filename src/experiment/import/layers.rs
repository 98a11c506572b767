//! Layers as the experiment language writes them.

use std::fmt::Write as _;

use super::config::Config;
use crate::meta::plain;

pub(super) fn linear(out: u64, bias: bool) -> String {
    format!("{{ linear = {{ out_features = {out}{} }} }}", if bias { "" } else { ", bias = false" })
}

pub(super) fn embedding(rows: u64, features: u64) -> String {
    format!("{{ embedding = {{ num_embeddings = {rows}, embedding_dim = {features} }} }}")
}

pub(super) fn positions(most: u64) -> String {
    format!("{{ position_embedding = {{ max_length = {most} }} }}")
}

pub(super) fn repeated(times: u64) -> String {
    format!("{{ repeat = {{ times = {times}, layers = [{{ block = \"layer\" }}] }} }}")
}

pub(super) fn residual(layers: &[String]) -> String {
    format!("{{ residual = {{ layers = [{}] }} }}", layers.join(", "))
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Nothing where nothing is dropped.
pub(super) fn dropout(p: f64) -> Option<String> {
    (p > 0.0).then(|| format!("{{ dropout = {{ p = {p:?} }} }}"))
}

pub(super) fn activation(config: &Config, field: &str, default: &str, missing: &mut Vec<String>) -> String {
    let name = config.text(field).unwrap_or(default);
    match name {
        "gelu" => quoted("gelu"),
        "gelu_new" | "gelu_pytorch_tanh" => {
            if name == "gelu_new" {
                missing.push(
                    "gelu_new is written out in several operators, each with a tensor of its own; here it is one, `gelu` with tanh"
                        .to_owned(),
                );
            }
            "{ gelu = { approximate = \"tanh\" } }".to_owned()
        }
        "relu" | "silu" | "tanh" | "sigmoid" => quoted(name),
        "swish" => quoted("silu"),
        _ => {
            missing.push(format!("the activation {}; a gelu stands in for it", plain(name)));
            quoted("gelu")
        }
    }
}

pub(super) fn attention(heads: u64, kv_heads: u64, causal: bool, bias: bool, p: f64) -> String {
    let mut text = format!("{{ attention = {{ num_heads = {heads}");
    if kv_heads != heads {
        write!(text, ", num_kv_heads = {kv_heads}").expect("text takes text");
    }
    text.push_str(if causal { ", causal = true" } else { "" });
    text.push_str(if bias { "" } else { ", bias = false" });
    if p > 0.0 {
        write!(text, ", dropout = {p:?}").expect("text takes text");
    }
    text + " } }"
}
