//! How fast an answer is there: a prediction alone, of a small model and of large ones, and the whole program from its start to its files.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use runner::experiment::load;
use runner::gpu::{self, Gpu};
use runner::predict::predict;

const EXPERIMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/cases/h200/mlp_adam/experiment.toml");
const NETWORKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/networks");

fn prediction(c: &mut Criterion) {
    let experiment = load(Path::new(EXPERIMENT)).expect("the fixture is an experiment");
    let case = &experiment.cases[0];
    let gpu = Gpu::named(gpu::DEFAULT).expect("the default is in the catalogue");
    c.bench_function("predict mlp_adam", |b| b.iter(|| predict(black_box(&case.work), gpu, case.allocator.clone())));
    for name in ["gpt2_small", "gpt3"] {
        let file = Path::new(NETWORKS).join(name).with_extension("toml");
        let experiment = load(&file).expect("the shipped file is an experiment");
        let case = &experiment.cases[0];
        c.bench_function(&format!("predict {name}"), |b| b.iter(|| predict(black_box(&case.work), gpu, case.allocator.clone())));
    }
    c.bench_function("load mlp_adam", |b| b.iter(|| load(black_box(Path::new(EXPERIMENT)))));
}

fn process(c: &mut Criterion) {
    let out = tempfile::tempdir().expect("there is a temporary folder");
    let mut group = c.benchmark_group("process");
    group.sample_size(50);
    group.bench_function("mlp_adam on the virtual device", |b| {
        b.iter(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_runner"));
            command.args([EXPERIMENT, "--device", "virtual", "--quiet", "--out"]).arg(out.path());
            assert!(command.status().expect("the program starts").success());
        });
    });
    group.finish();
}

criterion_group!(benches, prediction, process);
criterion_main!(benches);
