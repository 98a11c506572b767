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

/// The rows of the table of layers: what is called how, and its figures but for scratch.
fn layers(text: &str) -> Vec<(String, Vec<u64>)> {
    let lines = text.lines().skip_while(|line| !line.starts_with("layer ")).skip(1).take_while(|line| !line.is_empty());
    let figure = |cell: &str| cell.trim().replace(' ', "").parse().unwrap();
    // Cells are two spaces apart, and thousands one.
    let cells = |line: &str| line.split("  ").filter(|cell| !cell.trim().is_empty()).map(str::to_owned).collect::<Vec<_>>();
    lines.map(cells).map(|cells| (cells[0].clone(), cells[1..7].iter().map(|cell| figure(cell)).collect())).collect()
}

#[test]
fn equal_iterations_are_one_and_add_up() {
    let s = Sandbox::new();
    let mut whole = 0;
    for name in ["gpt2_small", "gpt2_small_checkpointed", "gpt3", "bert_base_like", "llama_like"] {
        let file = repository().join(format!("experiments/networks/{name}.toml"));
        let said = |more: &[&str]| s.run(&[&["explain", file.to_str().unwrap()], more].concat()).stdout;
        let (folded, all) = (said(&[]), said(&["--all"]));
        let (short, long) = (layers(&folded), layers(&all));
        assert!(short.len() < 50 && long.len() > 80, "{name}: {} of {}", short.len(), long.len());
        assert_eq!(short.last(), long.last(), "{name}");
        // Every line but those of each, whose sum stands below, adds up to the last.
        let (mut sums, mut each, mut gone) = (vec![0; 6], vec![0; 6], 0);
        for (layer, figures) in &short[..short.len() - 1] {
            let add = |to: &mut Vec<u64>, times: u64| to.iter_mut().zip(figures).for_each(|(sum, n)| *sum += n * times);
            if let Some((times, layer)) = layer.split_once(" × ") {
                let times = times.parse::<u64>().unwrap();
                add(&mut each, times);
                gone += times - 1;
                assert!(long.contains(&(layer.to_owned(), figures.clone())), "{name}: {layer}");
            } else {
                add(&mut sums, 1);
                if layer.ends_with("sum") {
                    assert_eq!(*figures, std::mem::replace(&mut each, vec![0; 6]), "{name}: {layer}");
                    gone -= 1;
                }
            }
        }
        assert_eq!(sums, short.last().unwrap().1, "{name}");
        assert!(gone > 60 && (long.len() - short.len()) as u64 == gone, "{name}: no line is lost");
        // At the peak nothing is lost either.
        let peak = |text: &str| {
            let lines = text.lines().skip_while(|line| !line.starts_with("peak: ")).skip(2).take_while(|line| !line.is_empty());
            lines.map(|line| line.split("  ").next().unwrap().replace(' ', "").parse::<u64>().unwrap()).collect::<Vec<_>>()
        };
        assert!(folded.contains("alike") && !all.contains('…'), "{name}");
        if !folded.contains('…') {
            whole += 1;
            assert!(peak(&folded).len() < peak(&all).len(), "{name}");
            assert_eq!(peak(&folded).iter().sum::<u64>(), peak(&all).iter().sum::<u64>(), "{name}");
        }
    }
    assert!(whole >= 2, "long lists lose their middle, and {whole} were short");
}

#[test]
fn only_equal_neighbours_are_one() {
    let s = Sandbox::new();
    let text = r#"
[model]
input = { features = [16] }
layers = [
  { repeat = { times = 5, layers = [{ linear = { out_features = 32 } }, "relu"] } },
  { linear = { out_features = 32 } },
  "tanh",
  { linear = { out_features = 32 } },
]

[train]
batch_size = 2
optimizer = "sgd"
"#;
    s.write("net.toml", text);
    let names = |more: &[&str]| -> Vec<String> {
        let text = s.run(&[&["explain", "net.toml"], more].concat()).exits(0).stdout;
        layers(&text).into_iter().map(|(name, _)| name).collect()
    };
    // The first layer of the first iteration has fewer weights.
    let folded = ["0.linear", "1.relu", "4 × 2.linear", "4 × 3.relu", "2 to 9, sum", "10.linear", "11.tanh", "12.linear", "loss", "all"];
    assert_eq!(names(&[]), folded);
    let numbers = (0..10).map(|n| format!("{n}.{}", if n % 2 == 0 { "linear" } else { "relu" }));
    let all: Vec<String> = numbers.chain(["10.linear", "11.tanh", "12.linear", "loss", "all"].map(str::to_owned)).collect();
    assert_eq!(names(&["--all"]), all);
    s.run(&["explain", "net.toml", "--all", "--json"]).exits(2).complains(&["cannot be used with"]);
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
