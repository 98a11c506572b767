//! Experiments from a Hugging Face `config.json`: the network in its true sizes, as text in the experiment language, and what the language
//! cannot say of it. It knows architectures, not weights.
//!
//! Invariant: what is not expressed is told; nothing is left out in silence.

use std::fmt::Write as _;

use serde_json::{Map, Value};

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
    #[error("`{field}` cannot be {value}: a whole number is wanted")]
    Number { field: &'static str, value: String },
    #[error("no experiment can be made of a {0:?}: gpt2, llama, mistral, qwen2, bert and vit are known")]
    Architecture(String),
    #[error("{0}")]
    Unlike(String),
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
    let network = match architecture.as_str() {
        "gpt2" => gpt2(&config)?,
        "llama" | "mistral" | "qwen2" => llama(&config, &architecture)?,
        "bert" => bert(&config)?,
        "vit" => vit(&config)?,
        _ => return Err(ImportError::Architecture(architecture)),
    };
    let text = network.write(&architecture, config.dtype(), choices);
    Ok(Imported { text, missing: network.missing })
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
        let number = |v: &Value| v.as_u64().filter(|&n| n > 0).ok_or_else(|| ImportError::Number { field, value: v.to_string() });
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
    fn dtype(&self) -> &'static str {
        match self.text("dtype").or_else(|| self.text("torch_dtype")) {
            Some("float16") => "f16",
            Some("bfloat16") => "bf16",
            Some("float64") => "f64",
            _ => "f32",
        }
    }
}

/// A network, as lines of the experiment language.
struct Network {
    /// `{ tokens = … }` where it has a vocabulary, else the features of a sample.
    input: Input,
    layers: Vec<String>,
    block: Vec<String>,
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
        writeln!(text, "]\n\n[train]\nbatch_size = {batch}\ndtype = \"{dtype}\"\nloss = \"cross_entropy\"\noptimizer = \"adamw\"")
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

fn gpt2(config: &Config) -> Result<Network> {
    let (features, heads) = (config.number("n_embd")?, config.number("n_head")?);
    let most = config.optional("n_positions")?.or(config.optional("n_ctx")?).map_or_else(|| config.number("n_positions"), Ok)?;
    let vocabulary = config.number("vocab_size")?;
    let inner = config.optional("n_inner")?.unwrap_or(4 * features);
    let mut missing = Vec::new();
    tied(config, true, &mut missing);
    let act = activation(config, "activation_function", "gelu_new", &mut missing);
    let dropped = dropout(config.share("resid_pdrop", 0.1));
    let attended = attention(heads, heads, true, true, config.share("attn_pdrop", 0.1));
    let layers = [embedding(vocabulary, features), positions(most)].into_iter().chain(dropout(config.share("embd_pdrop", 0.1)));
    let layers = layers.chain([repeated(config.number("n_layer")?), quoted("layer_norm"), linear(vocabulary, false)]).collect();
    let part = |of: Vec<String>| residual(&[quoted("layer_norm")].into_iter().chain(of).chain(dropped.clone()).collect::<Vec<_>>());
    let block = vec![part(vec![attended]), part(vec![linear(inner, true), act, linear(features, true)])];
    Ok(Network { input: Input::Tokens { most, vocabulary }, layers, block, missing })
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
    tied(config, false, &mut missing);
    if config.get("sliding_window").is_some() && config.flag("use_sliding_window", architecture == "mistral") {
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
    let layers =
        vec![embedding(vocabulary, features), repeated(config.number("num_hidden_layers")?), norm.clone(), linear(vocabulary, false)];
    let block = vec![residual(&[norm.clone(), attended]), residual(&[norm, gated])];
    Ok(Network { input: Input::Tokens { most, vocabulary }, layers, block, missing })
}

/// The layers that BERT and ViT have in common, norms in front or behind.
fn encoder(config: &Config, norm_first: bool, missing: &mut Vec<String>) -> Result<Vec<String>> {
    let (features, heads) = (config.number("hidden_size")?, config.number("num_attention_heads")?);
    let act = activation(config, "hidden_act", "gelu", missing);
    let default = if norm_first { 0.0 } else { 0.1 };
    let dropped = dropout(config.share("hidden_dropout_prob", default));
    let attended = attention(heads, heads, false, true, config.share("attention_probs_dropout_prob", default));
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

fn bert(config: &Config) -> Result<Network> {
    let (features, vocabulary) = (config.number("hidden_size")?, config.number("vocab_size")?);
    let most = config.number("max_position_embeddings")?;
    let mut missing = vec![
        "the embedding of segments, which is added to that of words".to_owned(),
        "the head's transform before the output; a linear layer over the vocabulary is all of it here".to_owned(),
    ];
    tied(config, true, &mut missing);
    let block = encoder(config, false, &mut missing)?;
    let layers = [embedding(vocabulary, features), positions(most), quoted("layer_norm")].into_iter();
    let layers = layers.chain(dropout(config.share("hidden_dropout_prob", 0.1)));
    let layers = layers.chain([repeated(config.number("num_hidden_layers")?), linear(vocabulary, true)]).collect();
    Ok(Network { input: Input::Tokens { most, vocabulary }, layers, block, missing })
}

fn vit(config: &Config) -> Result<Network> {
    let features = config.number("hidden_size")?;
    let (image, patch) = (config.optional("image_size")?.unwrap_or(224), config.optional("patch_size")?.unwrap_or(16));
    let channels = config.optional("num_channels")?.unwrap_or(3);
    let side = image / patch;
    let length = side * side + 1;
    let mut missing = vec![
        "patches are taken by a convolution there; here they are the input, and a linear layer of the same size projects them".to_owned(),
        "the class token, which is a learned position of its own; here it is one patch more, and the last position is classified"
            .to_owned(),
    ];
    let classes = match config.get("id2label") {
        Some(Value::Object(labels)) => labels.len() as u64,
        _ => config.optional("num_labels")?.unwrap_or(2),
    };
    let block = encoder(config, true, &mut missing)?;
    let layers = [linear(features, true), positions(length)].into_iter().chain(dropout(config.share("hidden_dropout_prob", 0.0)));
    let layers = layers
        .chain([repeated(config.number("num_hidden_layers")?), quoted("layer_norm"), quoted("last"), linear(classes, true)])
        .collect();
    Ok(Network { input: Input::Features(vec![length, channels * patch * patch]), layers, block, missing })
}
