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
