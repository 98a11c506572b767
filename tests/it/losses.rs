//! Training on the host against PyTorch 2.11: closed-form weights and batches, and the loss of every micro-step. Fixtures named `ref_` were
//! recorded on an H200; the others are the same script in f64 on a CPU.

use std::path::Path;

use crate::bench::{host, run, virtual_device};

fn read(case: &str, file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/losses").join(case);
    std::fs::read_to_string(folder.join(file)).unwrap()
}

fn experiment(case: &str) -> String {
    read(case, "experiment.toml")
}

/// The largest relative difference of the first ten losses.
fn difference(case: &str) -> f64 {
    let losses = run(&experiment(case), &host()).losses();
    let expected: Vec<f64> = read(case, "losses.csv").lines().skip(1).map(|l| l.split_once(',').unwrap().1.parse().unwrap()).collect();
    assert_eq!(losses.len(), expected.len());
    losses.iter().zip(&expected).take(10).map(|(l, e)| (l - e).abs() / e.abs()).fold(0.0, f64::max)
}

#[test]
fn f32() {
    for case in ["ref_mlp_adamw", "ref_mlp_checkpointing", "ref_mlp_sgd_accumulation", "ref_gpt", "ref_gpt_checkpoint_math", "ref_llama"] {
        let difference = difference(case);
        assert!(difference <= 1e-5, "{case}: {difference:e}");
    }
}

/// cuDNN rounds the factors of the weights' gradients to TF32, which takes the losses apart from the third step on.
#[test]
fn convolutions() {
    let losses = run(&experiment("ref_cnn"), &host()).losses();
    let expected = read("ref_cnn", "losses.csv");
    let expected = expected.lines().skip(1).map(|l| l.split_once(',').unwrap().1.parse::<f64>().unwrap());
    for ((step, loss), expected) in (1..).zip(&losses).zip(expected) {
        let difference = (loss - expected).abs() / expected;
        let bound = if step <= 3 { 1e-5 } else { 1e-3 };
        assert!(difference <= bound, "{step}: {difference:e}");
    }
}

#[test]
fn recurrent() {
    // cuDNN's LSTM rounds factors to TF32, which takes the losses apart after some steps.
    for (case, steps) in [("ref_lstm", 3), ("ref_gru", 10)] {
        let losses = run(&experiment(case), &host()).losses();
        let expected = read(case, "losses.csv");
        let expected = expected.lines().skip(1).map(|l| l.split_once(',').unwrap().1.parse::<f64>().unwrap());
        for (loss, expected) in losses.iter().zip(expected).take(steps) {
            let difference = (loss - expected).abs() / expected;
            assert!(difference <= 1e-4, "{case}: {difference:e}");
        }
    }
}

#[test]
fn f64() {
    let difference = difference("ref_mlp_f64_rmsprop");
    assert!(difference <= 1e-10, "{difference:e}");
}

/// Every layer's and every optimizer's settings.
#[test]
fn f64_on_a_cpu() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/losses");
    let cases = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let cases: Vec<String> = cases.filter(|c| !c.starts_with("ref_")).collect();
    assert_eq!(cases.len(), 15);
    for case in cases {
        let difference = difference(&case);
        assert!(difference <= 1e-12, "{case}: {difference:e}");
    }
}

#[test]
fn amp_f16() {
    let difference = difference("ref_mlp_amp_f16");
    assert!(difference <= 2e-3, "{difference:e}");
}

#[test]
fn memory_is_what_it_is_without_values() {
    for case in ["ref_mlp_adamw", "ref_mlp_checkpointing", "ref_mlp_sgd_accumulation", "ref_mlp_f64_rmsprop", "ref_mlp_amp_f16", "ref_cnn"]
    {
        let text = experiment(case);
        assert_eq!(run(&text, &host()).rows, run(&text, &virtual_device()).rows, "{case}");
    }
}

#[test]
fn the_same_bits_twice_and_with_any_number_of_threads() {
    for case in ["ref_mlp_adamw", "ref_mlp_amp_f16", "ref_cnn"] {
        let text = experiment(case);
        let losses = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run(&text, &host()).losses().into_iter().map(f64::to_bits).collect::<Vec<_>>())
        };
        let one = losses(1);
        assert_eq!(one, losses(1), "{case}");
        assert_eq!(one, losses(4), "{case}");
    }
}

/// Dropout in checkpointed regions: recomputed masks are the first ones, and later draws do not notice.
#[test]
fn recomputation_repeats_dropout() {
    let text = |checkpointing: &str| {
        format!(
            r#"
[model]
input = {{ features = [24] }}
layers = [{{ linear = {{ out_features = 32 }} }}, {{ dropout = {{ p = 0.4 }} }}, "tanh", {{ linear = {{ out_features = 32 }} }}, "dropout", {{ linear = {{ out_features = 5 }} }}]

[train]
batch_size = 8
steps = 4
loss = "cross_entropy"
optimizer = {{ sgd = {{ lr = 0.5 }} }}
checkpointing = {checkpointing}
"#
        )
    };
    let plain = run(&text("false"), &host()).losses();
    assert_eq!(plain, run(&text("true"), &host()).losses());
    assert_eq!(plain, run(&text("{ segments = 2 }"), &host()).losses());
    assert_eq!(plain.iter().map(|l| l.to_bits()).collect::<std::collections::BTreeSet<_>>().len(), 4, "each step has another loss");
}
