//! Steps that repeat: what is foreseen with them left out is what is foreseen step by step, row by row, and reads the same.

use std::path::Path;

use runner::alloc::AllocatorConfig;
use runner::experiment::{Case, Overrides, load_with};
use runner::gpu::Gpu;
use runner::ops::RuleContext;
use runner::predict::room::{most, room, tried};
use runner::predict::{foresee, predict_with};
use runner::record::Status;
use runner::report::{CaseReport, Labels, Table, join};
use runner::scratch::{Rules, Scratch};

use super::fidelity::{fixtures, scratch_of};
use super::support::{SMALL, Sandbox, experiments};

/// Settings that decide in other ways which block a request gets, and when memory runs out.
const SETTINGS: [&str; 6] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.5",
    "max_split_size_mb:24,roundup_power2_divisions:2",
];

/// Holds a case to it under these settings and several limits; says how many rows were left out in all.
fn hold(name: &str, case: &Case, (gpu, scratch): (&Gpu, &dyn Scratch), settings: &[&str]) -> usize {
    let cx = RuleContext { gpu, scratch };
    let mut left_out = 0;
    for settings in settings {
        let config: AllocatorConfig = settings.parse().unwrap();
        let (_, reserved) = most(foresee(&case.work, cx, config.clone()).once());
        // Room for all, for a little less, and for much less.
        for limit in [None, Some(reserved.saturating_sub(2 << 20)), Some(reserved / 4 * 3)] {
            let config = config.with_limit(limit);
            let what = format!("{name}, `{settings}`, {limit:?}");
            let whole = predict_with(&case.work, cx, config.clone(), None);
            let foreseen = foresee(&case.work, cx, config.clone());
            left_out += whole.len() - foreseen.once().len();
            assert_eq!(most(foreseen.once()), most(&whole), "{what}");
            assert!(foreseen.clone().all() == whole, "{what}");
            let (rows, shortage) = tried(&case.work, cx, config);
            assert!(rows == foreseen && shortage.is_some() == whole.iter().any(|row| row.status == Status::Oom), "{what}");
            let (rows, missing) = foreseen.level();
            let text = |rows, left_out| {
                let cases = [CaseReport { labels: Labels::default(), rows: join(&[], rows), left_out }];
                Table { name: "", description: "", place: "", measured: false, cases: &cases, verdicts: &[] }.render()
            };
            assert_eq!(text(&rows, missing), text(&whole, 0), "{what}");
        }
    }
    left_out
}

fn setting(set: Vec<String>) -> Overrides {
    Overrides { set, ..Overrides::default() }
}

/// A file's cases with so many steps.
fn cases(file: &Path, steps: u64, gpu: &Gpu) -> Vec<Case> {
    load_with(file, &setting(vec![format!("train.steps={steps}")]), gpu).map(|experiment| experiment.cases).unwrap_or_default()
}

#[test]
fn recorded_runs_made_longer_are_foreseen_alike() {
    let (mut left_out, mut held) = (0, 0);
    // A different number of steps for each, so that rounds of any length end anywhere.
    for (number, (gpu, folder)) in fixtures().into_iter().enumerate() {
        for case in cases(&folder.join("experiment.toml"), 7 + number as u64 % 9, gpu) {
            let settings = ["", SETTINGS[1 + number % (SETTINGS.len() - 1)]];
            left_out += hold(&folder.display().to_string(), &case, (gpu, &*scratch_of(&folder, gpu)), &settings[..1 + number % 2]);
            held += 1;
        }
    }
    assert!(held > 50 && left_out > 1000, "{left_out} rows were left out of {held} cases");
}

#[test]
fn experiments_made_longer_are_foreseen_alike() {
    let gpu = Gpu::named("h200").unwrap();
    for file in experiments("") {
        for case in cases(&file, 11, gpu) {
            hold(&file.display().to_string(), &case, (gpu, &Rules), &SETTINGS[..2]);
        }
    }
}

const NETWORK: &str = r#"
[model]
input = { tokens = { length = 16, vocabulary = 100 } }
layers = [
  { embedding = { num_embeddings = 100, embedding_dim = 32 } },
  { repeat = { times = 2, layers = [
    { checkpoint = { layers = [{ residual = { layers = ["layer_norm", { attention = { num_heads = 2, causal = true } }] } }] } },
    { residual = { layers = ["layer_norm", { linear = { out_features = 64 } }, { relu = { inplace = true } }, { linear = { out_features = 32 } }] } },
  ] } },
  { linear = { out_features = 100 } },
]

[train]
batch_size = 4
loss = "cross_entropy"
optimizer = "adamw"
"#;

#[test]
fn whatever_a_loop_does_besides() {
    let gpu = Gpu::named("h200").unwrap();
    let s = Sandbox::new();
    s.write("net.toml", NETWORK);
    let ways: [&[&str]; 15] = [
        &[],
        &["train.accumulation_steps=3"],
        &["train.optimizer=adagrad"],
        &["train.optimizer={ adamw = { implementation = \"fused\" } }", "train.amp=f16"],
        &["train.amp=bf16"],
        &["train.keep_loss=list"],
        &["train.keep_loss=total"],
        &["train.keep_loss=item", "train.optimizer={ sgd = { momentum = 0.9, nesterov = true } }"],
        &["train.empty_cache=true"],
        &["train.mode=eval"],
        &["train.mode=eval", "train.keep_loss=total"],
        &["train.no_grad=true", "train.loss=sum"],
        &["train.lengths=[16, 8, 12, 4]"],
        &["train.checkpointing=true"],
        &["data.source=synthetic", "data.device_prefetch=true"],
    ];
    for way in ways {
        for steps in [1, 2, 3, 4, 5, 6, 8, 70] {
            let set: Vec<String> = way.iter().map(|s| (*s).to_owned()).chain([format!("train.steps={steps}")]).collect();
            let Ok(experiment) = load_with(&s.path("net.toml"), &setting(set.clone()), gpu) else {
                assert!(!way.is_empty() && way[0].contains("lengths") && steps != 4, "{set:?} is refused");
                continue;
            };
            let settings = if steps == 8 { &SETTINGS[..] } else { &SETTINGS[..1] };
            let left_out = hold(&format!("{set:?}"), &experiment.cases[0], (gpu, &Rules), settings);
            // What grows with every step never repeats; without it a training does at once.
            let grows = way.iter().any(|s| s.contains("keep_loss=list"));
            // A sum of losses may hold their graphs; and what works in place holds its own where no backward lets it go.
            let may_grow = way.iter().any(|s| s.contains("keep_loss=total") || s.contains("mode=eval"));
            assert!(steps < 70 || may_grow || (left_out == 0) == grows, "{set:?}: {left_out} left out");
        }
    }
}

#[test]
fn room_is_the_same_for_any_number_of_steps() {
    let gpu = Gpu::named("h200").unwrap();
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let of = |steps| {
        let case = cases(&s.path("small.toml"), steps, gpu).swap_remove(0);
        room(&case.work, gpu, &case.allocator, 1 << 30).0
    };
    assert_eq!(of(5), of(10_000_000));
}
