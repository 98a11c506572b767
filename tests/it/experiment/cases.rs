//! What a file without mistakes becomes: cases in order, settings, overrides, and the resolved form that reads back as the same.

use runner::experiment::{Experiment, load_str};
use runner::model::{Checkpointing, Plan, Work};

fn load(text: &str, overrides: &[&str]) -> Experiment {
    let overrides: Vec<String> = overrides.iter().map(|o| (*o).to_owned()).collect();
    load_str("test", text, &overrides).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn plan(experiment: &Experiment, case: usize) -> &Plan {
    match &experiment.cases[case].work {
        Work::Train(plan) => plan,
        Work::Script(_) => panic!("a script is no plan"),
    }
}

const LINEAR: &str = r#"
description = "one layer"

[model]
input = { features = [16] }
layers = [{ linear = { out_features = 8 } }]

[train]
batch_size = 4
optimizer = "adamw"
"#;

#[test]
fn a_file_without_sweep_is_one_case_without_key() {
    let experiment = load(LINEAR, &[]);
    assert_eq!((experiment.name.as_str(), experiment.description.as_deref()), ("test", Some("one layer")));
    assert_eq!(experiment.cases.len(), 1);
    assert_eq!(experiment.cases[0].key, "");
    let plan = plan(&experiment, 0);
    assert_eq!(plan.state.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["0.weight", "0.bias"]);
    assert_eq!(plan.settings.optimizer.map(|o| o.name()), Some("adamw"));
}

#[test]
fn a_sweep_is_the_product_with_the_last_axis_fastest() {
    let text = format!(
        "{LINEAR}\n[sweep]\ntrain.dtype = [\"f32\", \"bf16\"]\nmodel.input.features = [[16], [32]]\ntrain.batch_size = {{ from = 4, to = 9, by = 4 }}\n"
    );
    let experiment = load(&text, &[]);
    let keys: Vec<&str> = experiment.cases.iter().map(|c| c.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "train.dtype=f32 model.input.features=[16] train.batch_size=4",
            "train.dtype=f32 model.input.features=[16] train.batch_size=8",
            "train.dtype=f32 model.input.features=[32] train.batch_size=4",
            "train.dtype=f32 model.input.features=[32] train.batch_size=8",
            "train.dtype=bf16 model.input.features=[16] train.batch_size=4",
            "train.dtype=bf16 model.input.features=[16] train.batch_size=8",
            "train.dtype=bf16 model.input.features=[32] train.batch_size=4",
            "train.dtype=bf16 model.input.features=[32] train.batch_size=8",
        ]
    );
    assert_eq!(plan(&experiment, 3).settings.batch_size, 8);
    assert_eq!(plan(&experiment, 3).state[0].meta.shape.dims(), [8, 32]);
}

#[test]
fn overrides_replace_values_and_make_or_replace_axes() {
    let swept = format!("{LINEAR}\n[sweep]\ntrain.batch_size = [1, 2]\n");
    let experiment = load(&swept, &["train.batch_size=8,16", "train.steps=3", "train.optimizer.adamw.lr=0.5"]);
    assert_eq!(experiment.cases.iter().map(|c| c.key.as_str()).collect::<Vec<_>>(), ["train.batch_size=8", "train.batch_size=16"]);
    assert_eq!(plan(&experiment, 1).settings.steps, 3);
    let experiment =
        load(LINEAR, &["train.batch_size=4..12:4", "train.dtype=f32,bf16", "model.layers=[\"relu\", { linear = { out_features = 2 } }]"]);
    assert_eq!(experiment.cases.len(), 6);
    assert_eq!(experiment.cases[5].key, "train.batch_size=12 train.dtype=bf16");
    assert_eq!(plan(&experiment, 5).state[0].name, "1.weight");
}

#[test]
fn the_resolved_form_reads_back_as_the_same_case() {
    let text = format!(
        "{}\n[model.blocks]\nb = [\"layer_norm\", {{ dropout = {{}} }}, {{ residual = {{ layers = [{{ linear = {{ out_features = 8 }} }}] }} }}]\n\n[allocator]\nmemory_limit = \"512MiB\"\n\n[sweep]\ntrain.checkpointing = [false, true, {{ segments = 2 }}]\n",
        LINEAR.replace("} }]", "} }, { block = \"b\" }]")
    );
    let experiment = load(&text, &[]);
    assert_eq!(plan(&experiment, 2).settings.checkpointing, Checkpointing::Segments(2));
    for case in &experiment.cases {
        let resolved = toml::to_string(&case.resolved).unwrap();
        let again = load(&resolved, &[]);
        assert_eq!(again.cases.len(), 1);
        assert_eq!(again.cases[0].work, case.work);
        assert_eq!(again.cases[0].allocator, case.allocator);
        assert_eq!(again.cases[0].resolved, case.resolved, "spelled out twice is spelled out once");
    }
}
