//! `runner import`: what becomes of configurations of well-known models, down to the number of their parameters.

use runner::experiment::import::{Choices, ImportError, Imported, import};
use runner::experiment::load_str;
use runner::model::{StateKind, Work};

use crate::support::{Sandbox, repository};

const CHOICES: Choices = Choices { length: Some(64), batch_size: 2 };

fn config(name: &str) -> String {
    std::fs::read_to_string(repository().join("tests/fixtures/import").join(format!("{name}.json"))).unwrap()
}

fn imported(name: &str) -> Imported {
    import(&config(name), CHOICES).unwrap()
}

/// Parameters of the experiment that is made.
fn parameters(name: &str) -> u64 {
    let text = imported(name).text;
    let case = load_str(name, &text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}")).cases.swap_remove(0);
    let Work::Train(plan) = case.work else { panic!("a network") };
    plan.state.iter().filter(|s| s.kind == StateKind::Parameter).map(|s| s.meta.numel()).sum()
}

#[test]
fn networks_have_their_true_sizes() {
    // As published, and what the file has more (the output's own matrix, attention's output bias) or fewer (segments, the class token).
    assert_eq!(parameters("gpt2"), 124_439_808 + 50_257 * 768);
    assert_eq!(parameters("llama"), 6_738_415_616);
    assert_eq!(parameters("mistral"), 7_241_732_096);
    assert_eq!(parameters("qwen2"), 7_615_616_512 + 28 * 3584);
    assert_eq!(parameters("vit"), 86_567_656 - 768);
    let pooler_and_segments = 768 * 768 + 768 + 2 * 768;
    assert_eq!(parameters("bert"), 109_482_240 - pooler_and_segments + 768 * 30_522 + 30_522);
}

#[test]
fn what_is_not_expressed_is_told() {
    let told = |name: &str, word: &str| {
        let imported = imported(name);
        assert!(imported.missing.iter().any(|m| m.contains(word)), "{name}: {:?}", imported.missing);
        assert!(imported.missing.iter().all(|m| imported.text.contains(&format!("# not expressed: {m}\n"))));
    };
    told("gpt2", "embedding's matrix");
    told("llama", "rotary");
    told("llama", "norms");
    told("llama", "each of the 32000 logits");
    told("gpt2", "cache");
    told("mistral", "sliding window");
    told("qwen2", "bias");
    told("bert", "segments");
    told("vit", "class token");
}

#[test]
fn what_is_no_known_network_is_refused() {
    let refused = |text: &str| import(text, CHOICES).unwrap_err();
    assert!(matches!(refused("{"), ImportError::Parse(_)));
    assert!(matches!(refused("[]"), ImportError::Parse(_)));
    assert_eq!(refused("{}"), ImportError::Missing("model_type"));
    assert_eq!(refused(r#"{"model_type": "t5"}"#), ImportError::Architecture("t5".to_owned()));
    assert_eq!(refused(r#"{"model_type": "gpt2"}"#), ImportError::Missing("n_embd"));
    let zero = r#"{"model_type": "gpt2", "n_embd": 0}"#;
    assert_eq!(refused(zero), ImportError::Number { field: "n_embd", value: "0".to_owned() });
    let wide = config("llama").replacen("\"hidden_act\"", "\"head_dim\": 256, \"hidden_act\"", 1);
    assert!(matches!(refused(&wide), ImportError::Unlike(_)));
}

#[test]
fn the_command_writes_an_experiment_that_is_predicted() {
    let s = Sandbox::new();
    s.write("config.json", &config("gpt2"));
    let outcome = s.run(&["import", "config.json", "--length", "128", "--out", "gpt2.toml"]).exits(0);
    assert_eq!(outcome.stdout, "gpt2.toml\n");
    let printed = s.run(&["import", "config.json", "--length", "128", "-o", "-"]).exits(0).stdout;
    assert_eq!(printed, s.read("gpt2.toml"));
    assert!(outcome.stderr.contains("not expressed: the output shares the embedding's matrix"));
    s.run(&["predict", "gpt2.toml"]).exits(0);
    s.run(&["import", "gone.json"]).exits(2).complains(&["gone.json"]);
}

/// The configuration of that name with other fields.
fn changed(name: &str, fields: &str) -> Result<Imported, ImportError> {
    import(&config(name).replacen('{', &format!("{{ {fields},"), 1), CHOICES)
}

#[test]
fn the_head_is_the_architectures() {
    let ends = |name: &str, fields: &str, layers: &str, loss: &str| {
        let Imported { text, missing } = changed(name, fields).unwrap_or_else(|e| panic!("{name} {fields}: {e}"));
        let layers = format!("{layers}\n]\n\n[model.blocks]");
        assert!(text.contains(&layers) && text.contains(&format!("loss = \"{loss}\"\n")), "{name} {fields}:\n{text}");
        missing.join("\n")
    };
    let samples = r#""architectures": ["BertForSequenceClassification"], "num_labels": 3"#;
    let pooled = "\"last\",\n  { linear = { out_features = 768 } },\n  \"tanh\",\n  { dropout = { p = 0.1 } },\n";
    let told = ends("bert", samples, &format!("{pooled}  {{ linear = {{ out_features = 3 }} }},"), "cross_entropy");
    assert!(told.contains("the first position") && !told.contains("transform") && !told.contains("embedding's matrix"), "{told}");
    let multiple = r#""architectures": ["BertForSequenceClassification"], "problem_type": "multi_label_classification""#;
    ends("bert", multiple, "{ linear = { out_features = 2 } },", "bce_with_logits");
    let tokens = r#""architectures": ["BertForTokenClassification"], "id2label": {"0": "a", "1": "b", "2": "c", "3": "d"}"#;
    ends("bert", tokens, "{ dropout = { p = 0.1 } },\n  { linear = { out_features = 4 } },", "cross_entropy");
    ends("bert", r#""architectures": ["BertForQuestionAnswering"]"#, "{ linear = { out_features = 2 } },", "cross_entropy");
    assert!(ends("bert", r#""architectures": ["BertForMultipleChoice"]"#, "", "sum").contains("the head of BertForMultipleChoice"));
    let number = r#""architectures": ["LlamaForSequenceClassification"], "num_labels": 1"#;
    let told = ends("llama", number, "{ linear = { out_features = 1, bias = false } },\n  \"last\",", "mse");
    assert!(told.contains("no padding"), "{told}");
    assert!(ends("gpt2", r#""architectures": ["GPT2Model"]"#, "\"layer_norm\",", "sum").contains("a head and a loss"));
    assert!(ends("vit", r#""architectures": ["ViTModel"]"#, "\"layer_norm\",", "sum").contains("a head and a loss"));
}

#[test]
fn settings_that_change_memory_are_told() {
    for (name, field, word) in [
        ("llama", r#""quantization_config": {"quant_method": "gptq", "bits": 4}"#, "quantised by gptq"),
        ("llama", r#""sliding_window": 32"#, "sliding window"),
        ("bert", r#""gradient_checkpointing": true"#, "checkpointing"),
        ("bert", r#""position_embedding_type": "relative_key""#, "relative_key"),
    ] {
        let imported = changed(name, field).unwrap_or_else(|e| panic!("{field}: {e}"));
        assert!(imported.missing.iter().any(|m| m.contains(word)), "{field}: {:?}", imported.missing);
    }
}

#[test]
fn a_type_that_is_not_known_is_told() {
    let imported = changed("bert", r#""dtype": "float8_e4m3fn""#).unwrap();
    assert!(imported.missing.contains(&"the type float8_e4m3fn; here it is f32".to_owned()) && imported.text.contains("dtype = \"f32\""));
}

#[test]
fn what_could_not_be_predicted_is_refused() {
    let s = Sandbox::new();
    let refused = |arguments: &[&str], fields: &[(&str, &str)], words: &[&str]| {
        let text = fields.iter().fold(config("bert"), |text, (from, to)| text.replacen(from, to, 1));
        s.write("bert.json", &text);
        let arguments = [&["import", "bert.json", "-o", "bert.toml"], arguments].concat();
        s.run(&arguments).exits(2).complains(&["bert.json"]).complains(words);
        assert!(!s.path("bert.toml").exists());
    };
    refused(&["--length", "4096"], &[], &["refused", "512"]);
    let heads = [("\"hidden_size\": 768", "\"hidden_size\": 100"), ("\"num_attention_heads\": 12", "\"num_attention_heads\": 3")];
    refused(&[], &heads, &["refused", "100", "3"]);
    refused(&[], &[("\"hidden_dropout_prob\": 0.1", "\"hidden_dropout_prob\": 2")], &["refused", "`p`"]);
    let groups = r#""num_key_value_heads": 3"#;
    let llama = config("llama").replacen("\"num_key_value_heads\"", "\"other\"", 1).replacen('{', &format!("{{ {groups},"), 1);
    assert!(matches!(import(&llama, CHOICES), Err(ImportError::Refused(_))));
}

#[test]
fn nothing_of_a_configuration_is_more_than_a_comment() {
    let fields = r#""model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 100"#;
    let evil = r"Foo\n[save]\nevery = 1\n#\r\u001b[31m\u0085\u2028\u202e";
    let long = "x".repeat(1_000_000);
    let s = Sandbox::new();
    let mut plain = None;
    for text in [evil, &long] {
        let named = |name: &str| format!("{{{fields}, {}}}", name.replace('@', &format!("\"{text}\"")));
        for config in [
            r#""architectures": [@]"#,
            r#""activation_function": @"#,
            r#""torch_dtype": @"#,
            r#""dtype": @"#,
            r#""position_embedding_type": @"#,
            r#""quantization_config": {"quant_method": @}"#,
        ]
        .map(named)
        {
            s.write("config.json", &config);
            let outcome = s.run(&["import", "config.json"]).exits(0);
            assert!(outcome.stdout.contains("# not expressed: "), "{}", outcome.stdout);
            for text in [&outcome.stdout, &outcome.stderr] {
                assert!(text.len() < 5000 && !text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
                assert!(text.lines().all(|line| !line.starts_with("[save]") && !line.contains("every = 1\n")), "{text}");
            }
            assert!(outcome.stderr.lines().all(|line| line.starts_with("not expressed: ")), "{}", outcome.stderr);
            // All of it is in comments: what is left is the same whatever the texts are, but for the layers an activation brings.
            let tables: toml::Table = outcome.stdout.parse().unwrap();
            let tables: Vec<String> = tables.keys().cloned().collect();
            assert_eq!(plain.get_or_insert_with(|| tables.clone()), &tables);
        }
        for config in [format!("{{\"model_type\": \"{text}\"}}"), format!("{{{fields}, \"n_inner\": \"{text}\"}}")] {
            s.write("config.json", &config);
            let told = s.run(&["import", "config.json"]).exits(2).stderr;
            assert!(told.len() < 500 && told.trim_end().lines().count() == 1, "{told}");
        }
    }
}
