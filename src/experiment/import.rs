//! Experiments from a Hugging Face `config.json`: the network in its true sizes, as text in the experiment language, and what the language
//! cannot say of it. It knows architectures, not weights.
//!
//! The network ends in the head of the architecture that is named: over the vocabulary, over labels, or none.
//!
//! Invariant: what is not expressed is told, nothing is left out in silence; and what is made can be loaded.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::load::load_str;

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
    #[error("no experiment can be made of a {0:?}: gpt2, llama, mistral, qwen2, bert and vit are known")]
    Architecture(String),
    #[error("{0}")]
    Unlike(String),
    #[error("the experiment that it describes is refused: {0}")]
    Refused(String),
}

type Result<T> = std::result::Result<T, ImportError>;

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
        let method = quantised.get("quant_method").and_then(Value::as_str).map(|m| format!(" by {m}")).unwrap_or_default();
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
        missing.push(format!("positions are embedded as {kind}; here each has an embedding of its own"));
    }
}

struct Config {
    fields: Map<String, Value>,
}

impl Config {
    fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|v| !v.is_null())
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.get(field)?.as_str()
    }

    fn optional(&self, field: &'static str) -> Result<Option<u64>> {
        let number = |v: &Value| {
            v.as_u64().filter(|n| (1..=u64::from(u32::MAX)).contains(n)).ok_or_else(|| ImportError::Number { field, value: v.to_string() })
        };
        self.get(field).map(number).transpose()
    }

    fn number(&self, field: &'static str) -> Result<u64> {
        self.optional(field)?.ok_or(ImportError::Missing(field))
    }

    fn share(&self, field: &str, default: f64) -> f64 {
        self.get(field).and_then(Value::as_f64).unwrap_or(default)
    }

    fn flag(&self, field: &str, default: bool) -> bool {
        self.get(field).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The experiment's `dtype`.
    fn dtype(&self, missing: &mut Vec<String>) -> &'static str {
        match self.text("dtype").or_else(|| self.text("torch_dtype")) {
            Some("float16") => "f16",
            Some("bfloat16") => "bf16",
            Some("float64") => "f64",
            None | Some("float32" | "auto") => "f32",
            Some(other) => {
                missing.push(format!("the type {other}; here it is f32"));
                "f32"
            }
        }
    }

    /// The architecture's name, as in `BertForMaskedLM`.
    fn architecture(&self) -> Option<&str> {
        self.get("architectures")?.get(0)?.as_str()
    }

    /// What it is for; `default` where no architecture is named.
    fn task(&self, default: Task) -> Task {
        let Some(name) = self.architecture() else { return default };
        let ends = |endings: &[&str]| endings.iter().any(|e| name.ends_with(e));
        if ends(&["LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForPreTraining"]) {
            Task::Language
        } else if ends(&["ForSequenceClassification", "ForImageClassification"]) {
            Task::Samples
        } else if ends(&["ForTokenClassification"]) {
            Task::Positions
        } else if ends(&["ForQuestionAnswering"]) {
            Task::Spans
        } else {
            Task::None
        }
    }

    /// How many labels there are.
    fn labels(&self) -> Result<u64> {
        match self.get("id2label") {
            Some(Value::Object(labels)) if !labels.is_empty() => Ok(labels.len() as u64),
            _ => Ok(self.optional("num_labels")?.unwrap_or(2)),
        }
    }

    /// The loss of samples with so many labels: one label is a number to be met.
    fn loss(&self, labels: u64) -> &'static str {
        match self.text("problem_type") {
            Some("regression") => "mse",
            Some("multi_label_classification") => "bce_with_logits",
            None if labels == 1 => "mse",
            _ => "cross_entropy",
        }
    }
}

/// What a network's output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// A word at each position.
    Language,
    /// Labels of a sample.
    Samples,
    /// Labels of each position.
    Positions,
    /// Whether each position begins or ends an answer.
    Spans,
    /// Hidden states.
    None,
}

/// The layers at a network's end, and the loss.
struct Head {
    layers: Vec<String>,
    loss: &'static str,
}

impl Head {
    fn new(layers: impl IntoIterator<Item = String>, loss: &'static str) -> Self {
        Self { layers: layers.into_iter().collect(), loss }
    }

    /// Of hidden states nothing is learnt; a sum has a gradient.
    fn none(config: &Config, missing: &mut Vec<String>) -> Self {
        let name = config.architecture().unwrap_or_default();
        if !name.ends_with("Model") || name.ends_with("DoubleHeadsModel") {
            missing.push(format!("the head of {name}; here the network ends before it, and its loss is a sum"));
        } else {
            missing.push("a head and a loss: there are none; here the loss is the sum of the hidden states".to_owned());
        }
        Self::new([], "sum")
    }

    fn spans(missing: &mut Vec<String>) -> Self {
        missing.push("the loss is over positions, for beginnings and ends; here it is over those two at each position".to_owned());
        Self::new([linear(2, true)], "cross_entropy")
    }
}

/// A network, as lines of the experiment language.
struct Network {
    /// `{ tokens = … }` where it has a vocabulary, else the features of a sample.
    input: Input,
    layers: Vec<String>,
    block: Vec<String>,
    loss: &'static str,
    missing: Vec<String>,
}

enum Input {
    Tokens { most: u64, vocabulary: u64 },
    Features(Vec<u64>),
}

impl Network {
    fn write(&self, architecture: &str, dtype: &str, choices: Choices) -> String {
        let mut text = format!("description = \"{architecture}, from a config.json\"\n");
        for missing in &self.missing {
            writeln!(text, "# not expressed: {missing}").expect("text takes text");
        }
        let input = match &self.input {
            Input::Tokens { most, vocabulary } => {
                let length = choices.length.unwrap_or((*most).min(2048));
                format!("{{ tokens = {{ length = {length}, vocabulary = {vocabulary} }} }}")
            }
            Input::Features(sizes) => format!("{{ features = {sizes:?} }}"),
        };
        writeln!(text, "\n[model]\ninput = {input}\nlayers = [").expect("text takes text");
        let lines = |text: &mut String, lines: &[String]| lines.iter().for_each(|l| writeln!(text, "  {l},").expect("text takes text"));
        lines(&mut text, &self.layers);
        text.push_str("]\n\n[model.blocks]\nlayer = [\n");
        lines(&mut text, &self.block);
        let batch = choices.batch_size;
        let loss = self.loss;
        writeln!(text, "]\n\n[train]\nbatch_size = {batch}\ndtype = \"{dtype}\"\nloss = \"{loss}\"\noptimizer = \"adamw\"")
            .expect("text takes text");
        text
    }
}

fn linear(out: u64, bias: bool) -> String {
    format!("{{ linear = {{ out_features = {out}{} }} }}", if bias { "" } else { ", bias = false" })
}

fn embedding(rows: u64, features: u64) -> String {
    format!("{{ embedding = {{ num_embeddings = {rows}, embedding_dim = {features} }} }}")
}

fn positions(most: u64) -> String {
    format!("{{ position_embedding = {{ max_length = {most} }} }}")
}

fn repeated(times: u64) -> String {
    format!("{{ repeat = {{ times = {times}, layers = [{{ block = \"layer\" }}] }} }}")
}

fn residual(layers: &[String]) -> String {
    format!("{{ residual = {{ layers = [{}] }} }}", layers.join(", "))
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Nothing where nothing is dropped.
fn dropout(p: f64) -> Option<String> {
    (p > 0.0).then(|| format!("{{ dropout = {{ p = {p:?} }} }}"))
}

fn activation(config: &Config, field: &str, default: &str, missing: &mut Vec<String>) -> String {
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
            missing.push(format!("the activation {name}; a gelu stands in for it"));
            quoted("gelu")
        }
    }
}

fn attention(heads: u64, kv_heads: u64, causal: bool, bias: bool, p: f64) -> String {
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

fn tied(config: &Config, default: bool, missing: &mut Vec<String>) {
    if config.flag("tie_word_embeddings", default) {
        missing.push("the output shares the embedding's matrix; here it has one of its own".to_owned());
    }
}

/// The head of a decoder, behind its last norm.
fn decoder_head(config: &Config, vocabulary: u64, tie: bool, missing: &mut Vec<String>) -> Result<Head> {
    let labels = config.labels()?;
    Ok(match config.task(Task::Language) {
        Task::Language => {
            tied(config, tie, missing);
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

fn gpt2(config: &Config) -> Result<Network> {
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

fn llama(config: &Config, architecture: &str) -> Result<Network> {
    let (features, heads) = (config.number("hidden_size")?, config.number("num_attention_heads")?);
    let kv_heads = config.optional("num_key_value_heads")?.unwrap_or(heads);
    let (most, vocabulary) = (config.number("max_position_embeddings")?, config.number("vocab_size")?);
    if let Some(head) = config.optional("head_dim")?.filter(|head| head * heads != features) {
        return Err(ImportError::Unlike(format!(
            "{heads} heads of {head} features are not the {features} features that the language divides among them"
        )));
    }
    let mut missing = vec!["rotary embeddings, and the copies of queries and keys that they make".to_owned()];
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

/// The layers that BERT and ViT have in common, norms in front or behind.
fn encoder(config: &Config, norm_first: bool, missing: &mut Vec<String>) -> Result<Vec<String>> {
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

fn bert(config: &Config) -> Result<Network> {
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

fn vit(config: &Config) -> Result<Network> {
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
