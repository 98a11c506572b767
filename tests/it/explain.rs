//! `runner explain`: its figures add up to the CSV's.

use std::collections::BTreeMap;

use runner::gpu::Gpu;
use runner::predict::explain::explain;
use serde_json::Value;

use crate::support::{SMALL, Sandbox, experiments, repository, rows};

#[test]
fn layers_add_up_to_the_committed_categories() {
    layers_add_up_to("");
}

#[test]
fn layers_of_networks_add_up_to_the_committed_categories() {
    layers_add_up_to("networks");
}

fn layers_add_up_to(folder: &str) {
    let h200 = Gpu::named("h200").unwrap();
    for file in experiments(folder) {
        let name = file.file_stem().unwrap().to_str().unwrap().to_string();
        let csv = std::fs::read_to_string(repository().join("results").join(folder).join(format!("{name}.csv"))).unwrap();
        let rows = rows(&csv);
        let mut measured = rows.iter();
        for case in runner::experiment::load(&file).unwrap().cases {
            let explanation = explain(&case.work, h200, &case.allocator);
            assert_eq!(explanation.totals.len(), explanation.rows.len());
            for (totals, predicted) in explanation.totals.iter().zip(&explanation.rows) {
                let row = measured.next().unwrap();
                let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
                for total in totals {
                    *sums.entry(total.category.name()).or_default() += total.bytes;
                }
                for category in runner::record::Category::ALL {
                    let found = sums.get(category.name()).copied().unwrap_or_default().to_string();
                    assert_eq!(found, row[category.name()], "{name} {:?}: {}", predicted.at, category.name());
                }
            }
            let highest = explanation.rows.iter().map(|r| r.memory.peak).max().unwrap();
            assert_eq!(explanation.peak.allocated, highest, "{name}");
            for moment in explanation.phases.iter().chain([&explanation.peak]) {
                assert_eq!(moment.items.iter().map(|i| i.bytes).sum::<u64>(), moment.allocated, "{name} {:?}", moment.at);
            }
            let kept: u64 = explanation.layers.iter().map(|l| l.kept).sum();
            let after = explanation
                .phases
                .iter()
                .rfind(|m| m.at.step == 1 && m.at.micro_step == 1 && ["forward", "loss"].contains(&m.at.phase.name()));
            if let Some(after) = after {
                let activations = |m: &runner::predict::explain::Moment| {
                    m.items.iter().filter(|i| i.category.name() == "activations").map(|i| i.bytes).sum::<u64>()
                };
                assert_eq!(kept, activations(after), "{name}: what layers keep is what is alive after the loss");
            }
        }
        assert!(measured.next().is_none(), "{name}");
    }
}

#[test]
fn a_person_can_check_it_with_a_pencil() {
    let file = repository().join("experiments/adamw.toml");
    let out = Sandbox::new().run(&["explain", file.to_str().unwrap()]).exits(0).stdout;
    for line in [
        "model: 4 194 304 allocated",
        "4 194 304  = 4 × 1 048 576 (0.linear)",
        "4 096  = 4 × 1 024 (batch)",
        "4 608  = 4 × 1 024 (0.linear) + 4 × 1 → 512 (loss sum)",
        "67 108 864  = 2 × 33 554 432 (cublas)",
        "8 388 608  = 2 × 4 × 1 048 576 (adamw)",
        "peak: 88 089 088 allocated in step 1 optimizer",
        "4 × parameters + 2 × outputs + input",
        "20 × 1048576",
        "16 bytes a parameter",
        "every tensor once",
    ] {
        assert!(out.contains(line), "does not say {line:?}:\n{out}");
    }
}

#[test]
fn json_has_the_same_figures() {
    let file = repository().join("experiments/adam.toml");
    let s = Sandbox::new();
    let out = s.run(&["explain", file.to_str().unwrap(), "--json", "--set", "train.batch_size=1,64"]).exits(0).stdout;
    let all: Value = serde_json::from_str(&out).unwrap();
    let cases = all.as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let sum: u64 = case["peak"]["items"].as_array().unwrap().iter().map(|i| i["bytes"].as_u64().unwrap()).sum();
        assert_eq!(sum, case["peak"]["allocated"].as_u64().unwrap());
        let parameters: u64 = case["layers"].as_array().unwrap().iter().map(|l| l["parameters"].as_u64().unwrap()).sum();
        assert_eq!(parameters, 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
        assert_eq!(case["rules_of_thumb"].as_array().unwrap().len(), 4);
    }
    s.run(&["explain", "absent.toml"]).exits(2).complains(&["absent.toml"]);
}

#[test]
fn what_runs_out_of_memory_is_explained_up_to_there() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let large = ["explain", "small.toml", "--set", "train.batch_size=10000000000"];
    let out = s.run(&large).exits(1);
    assert!(out.stdout.contains("out of memory in step 1 input"), "{}", out.stdout);
    let json: serde_json::Value = serde_json::from_str(&s.run(&[&large[..], &["--json"]].concat()).exits(1).stdout).unwrap();
    assert_eq!(json[0]["out_of_memory"]["phase"], "input");
}

/// In evaluation batch_norm keeps statistics of no elements: they hold nothing, and come and go all the same.
#[test]
fn tensors_of_no_elements_are_nobodys() {
    let s = Sandbox::new();
    let text = r#"
[model]
input = { features = [3, 8, 8] }
layers = ["batch_norm", { linear = { out_features = 4 } }]

[train]
batch_size = 2
mode = "eval"
amp = "bf16"
"#;
    s.write("eval.toml", text).run(&["explain", "eval.toml"]).exits(0);
}
