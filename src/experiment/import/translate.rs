//! From a configuration to an experiment, whatever the architecture.

use serde_json::Value;

use super::bert::bert;
use super::config::Config;
use super::gpt2::gpt2;
use super::llama::llama;
use super::vit::vit;
use crate::experiment::load::load_str;
use crate::meta::{plain, short};

/// What became of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The experiment file.
    pub text: String,
    /// What the network has that the file has not, a sentence each.
    pub missing: Vec<String>,
}

/// Sizes that a configuration leaves to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    /// Positions of a sequence; the model's most, up to 2048, where not said.
    pub length: Option<u64>,
    /// Samples a micro-step.
    pub batch_size: u64,
}

/// A configuration that no experiment can be made of.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)] // the messages say what each field is
pub enum ImportError {
    #[error("not a configuration: {0}")]
    Parse(String),
    #[error("the configuration has no `{0}`")]
    Missing(&'static str),
    #[error("`{field}` cannot be {value}: a whole number from 1 to 4294967295 is wanted")]
    Number { field: &'static str, value: String },
    #[error("no experiment can be made of a {:?}: gpt2, llama, mistral, qwen2, bert and vit are known", short(.0))]
    Architecture(String),
    #[error("{0}")]
    Unlike(String),
    #[error("the experiment that it describes is refused: {0}")]
    Refused(String),
}

/// What making an experiment gives.
pub(super) type Result<T> = std::result::Result<T, ImportError>;

/// Makes an experiment of a configuration.
///
/// # Errors
/// [`ImportError`].
pub fn import(config: &str, choices: Choices) -> Result<Imported> {
    let value: Value = serde_json::from_str(config).map_err(|e| ImportError::Parse(e.to_string()))?;
    let Value::Object(fields) = value else { return Err(ImportError::Parse("it is no table".to_owned())) };
    let config = Config { fields };
    let architecture = config.text("model_type").ok_or(ImportError::Missing("model_type"))?.to_owned();
    let mut network = match architecture.as_str() {
        "gpt2" => gpt2(&config)?,
        "llama" | "mistral" | "qwen2" => llama(&config, &architecture)?,
        "bert" => bert(&config)?,
        "vit" => vit(&config)?,
        _ => return Err(ImportError::Architecture(architecture)),
    };
    let dtype = config.dtype(&mut network.missing);
    settings(&config, dtype, &mut network.missing);
    let text = network.write(&architecture, dtype, choices);
    // Sizes that do not go together are told here, and not by whatever reads the file.
    load_str(&architecture, &text, &[]).map_err(|mistakes| {
        let mut messages: Vec<&str> = mistakes.iter().map(|m| m.message.as_str()).collect();
        messages.dedup();
        ImportError::Refused(messages.join("; "))
    })?;
    Ok(Imported { text, missing: network.missing })
}

/// Settings of any architecture that change memory and that no file says.
fn settings(config: &Config, dtype: &str, missing: &mut Vec<String>) {
    if let Some(quantised) = config.get("quantization_config") {
        let method = quantised.get("quant_method").and_then(Value::as_str).map(|m| format!(" by {}", plain(m))).unwrap_or_default();
        missing.push(format!("weights are quantised{method}; here they are {dtype}"));
    }
    for (field, what) in [
        ("add_cross_attention", "attention to an encoder's output"),
        ("gradient_checkpointing", "checkpointing; `checkpointing = true` in `[train]` is much like it"),
        ("output_attentions", "the attention of every layer is an output there, and stays"),
        ("output_hidden_states", "the hidden states of every layer are outputs there, and stay"),
        ("reorder_and_upcast_attn", "scores of attention are computed in f32"),
    ] {
        if config.flag(field, false) {
            missing.push(what.to_owned());
        }
    }
    if config.get("chunk_size_feed_forward").and_then(Value::as_u64).is_some_and(|n| n > 0) {
        missing.push("feed-forward layers take the positions in chunks".to_owned());
    }
    if config.get("pruned_heads").and_then(Value::as_object).is_some_and(|heads| !heads.is_empty()) {
        missing.push("heads that were pruned; here all are there".to_owned());
    }
    if let Some(kind) = config.text("position_embedding_type").filter(|kind| *kind != "absolute") {
        missing.push(format!("positions are embedded as {}; here each has an embedding of its own", plain(kind)));
    }
}
