//! `[log]`, `[save]` and `--resume-from`: what is printed, what is kept, and that going on is as if nothing had happened.

use std::process::{Command, Stdio};
use std::time::Duration;

use runner::meta::DType;
use runner::save::{About, Snapshot, Stored};

use crate::data::files::write_samples;
use crate::support::{Sandbox, rows, runner};

/// A training on files, with dropout and momentum, 12 steps.
fn training(train: &str, more: &str) -> String {
    format!(
        "[model]\ninput = {{ features = [4] }}\nlayers = [{{ linear = {{ out_features = 16 }} }}, \"dropout\", {{ linear = {{ out_features = 3 }} }}]\n\n\
         [train]\nbatch_size = 5\nsteps = 12\nloss = \"cross_entropy\"\n{train}\n\n\
         [data]\nsource = {{ npy = {{ input = \"x.npy\", target = \"y.npy\" }} }}\nshuffle = 9\n{more}\n"
    )
}

fn run(s: &Sandbox, file: &str, out: &str, arguments: &[&str]) {
    s.run(&[&[file, "--device", "host", "--quiet", "--out", out], arguments].concat()).exits(0);
}

#[test]
fn a_run_goes_on_with_the_same_losses_and_the_memory_of_a_fresh_one() {
    let s = Sandbox::new();
    write_samples(&s);
    for train in [
        "optimizer = \"sgd\"",
        "optimizer = { sgd = { momentum = 0.9 } }",
        "optimizer = \"adam\"\naccumulation_steps = 2",
        "optimizer = { adamw = { amsgrad = true, implementation = \"fused\" } }",
        "optimizer = \"adagrad\"",
        "optimizer = { rmsprop = { momentum = 0.5, centered = true, implementation = \"for_loop\" } }",
        "optimizer = \"adam\"\namp = \"f16\"",
        "optimizer = \"adam\"\ndtype = \"bf16\"",
    ] {
        s.write("a.toml", &training(train, "device_prefetch = true\n[save]\nevery = 5"));
        run(&s, "a.toml", "whole", &[]);
        // A run that ends after ten steps leaves a save of the tenth.
        run(&s, "a.toml", "part", &["--set", "train.steps=10"]);
        run(&s, "a.toml", "rest", &["--resume-from", "part/a.safetensors"]);
        let losses = |out: &str| {
            let all = rows(&s.read(&format!("{out}/a.training.csv")));
            all.into_iter().map(|r| (r["step"].clone(), r["micro_step"].clone(), r["loss"].clone())).collect::<Vec<_>>()
        };
        let whole = losses("whole");
        let rest = losses("rest");
        assert_eq!(rest, whole[whole.len() - rest.len()..], "{train}");
        assert_eq!(rest[0].0, "11", "{train}");
        // The same memory as a fresh run of two steps, and foreseen.
        run(&s, "a.toml", "fresh", &["--set", "train.steps=2"]);
        let memory = |out: &str, done: u64| {
            let all = rows(&s.read(&format!("{out}/a.csv")));
            let of = |r: &std::collections::BTreeMap<String, String>| {
                assert_eq!((&*r["error_allocated"], &*r["error_peak"], &*r["error_reserved"]), ("0", "0", "0"), "{train}");
                let step = r["step"].parse::<u64>().unwrap().saturating_sub(done);
                (step, r["phase"].clone(), r["measured_allocated"].clone(), r["measured_peak"].clone(), r["measured_reserved"].clone())
            };
            all.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(memory("rest", 10), memory("fresh", 0), "{train}");
    }
}

#[test]
fn losses_are_told_every_so_many_steps_and_none_is_lost() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("plain.toml", &training("optimizer = \"adam\"", "")).write("log.toml", &training("optimizer = \"adam\"", "[log]\nevery = 4"));
    let out = s.run(&["log.toml", "--device", "host", "--out", "log"]).exits(0);
    let told: Vec<&str> = out.stderr.lines().collect();
    run(&s, "plain.toml", "plain", &[]);
    let (plain, log) = (rows(&s.read("plain/plain.training.csv")), rows(&s.read("log/log.training.csv")));
    let losses = |all: &[std::collections::BTreeMap<String, String>]| all.iter().map(|r| r["loss"].clone()).collect::<Vec<_>>();
    assert_eq!(losses(&plain), losses(&log));
    let expected = [4, 8, 12].map(|step| format!("step {step}: loss {}", log[step - 1]["loss"]));
    assert_eq!(told, expected);
    assert!(out.stdout.contains("device busy ") && out.stdout.contains(" % of the time"), "{}", out.stdout);
    assert_eq!(s.run(&["log.toml", "--device", "host", "--quiet"]).exits(0).stderr, "");
}

#[test]
fn what_the_time_went_to_is_written_where_a_pipeline_is_used() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &training("optimizer = \"adam\"", "prepare = [{ cost = \"2ms\" }]\nprefetch = 0\n[save]\nevery = 3"));
    run(&s, "a.toml", "out", &[]);
    let text = s.read("out/a.training.csv");
    let header = "step,micro_step,loss,skipped,seconds,waiting,preparing,copying,busy,logging,saving,\
                  began,computing_from,prepared_from,prepared_to,utilisation,memory,power,cpu";
    assert_eq!(text.lines().next().unwrap(), header);
    for row in rows(&text) {
        let of = |column: &str| row[column].parse::<f64>().unwrap();
        let parts = ["waiting", "copying", "busy", "logging", "saving"].map(of);
        assert!(parts.iter().all(|p| *p >= 0.0) && parts.iter().sum::<f64>() <= of("seconds") + 1e-5, "{row:?}");
        assert!(of("prepared_to") - of("prepared_from") >= 0.010 && of("computing_from") >= of("prepared_to"), "{row:?}");
        assert!(of("preparing") >= 0.010 && of("waiting") >= 0.010, "five samples of 2 ms: {row:?}");
        assert_eq!(of("saving") > 0.0, of("step") % 3.0 == 0.0, "{row:?}");
    }
}

#[test]
fn a_save_of_another_experiment_is_refused() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &training("optimizer = \"adam\"", "[save]\nevery = 12"));
    run(&s, "a.toml", "out", &[]);
    let resume =
        |arguments: &[&str]| s.run(&[&["a.toml", "--device", "host", "--resume-from", "out/a.safetensors"], arguments].concat()).exits(2);
    resume(&[]).complains(&["out/a.safetensors", "12 steps done", "nothing is left"]);
    resume(&["--set", "train.steps=20", "--set", "train.optimizer=sgd"]).complains(&["adam", "sgd"]);
    resume(&["--set", "train.steps=20", "--set", "train.dtype=bf16"]).complains(&["f32", "bf16", "0.weight"]);
    resume(&["--set", "train.steps=20,30"]).complains(&["2"]);
    s.write("no.safetensors", "no");
    s.run(&["a.toml", "--resume-from", "no.safetensors"]).exits(2).complains(&["no.safetensors", "safetensors"]);
    s.run(&["a.toml", "--resume-from", "absent"]).exits(2).complains(&["absent", "No such file"]);
    // Virtual goes on too: its rows are the host's.
    let more = ["--set", "train.steps=14", "--resume-from", "out/a.safetensors", "--quiet"];
    for device in ["host", "virtual"] {
        s.run(&[&["a.toml", "--device", device, "--out", device], &more[..]].concat()).exits(0);
    }
    assert_eq!(s.read("host/a.csv"), s.read("virtual/a.csv"));
}

#[test]
fn a_save_that_cannot_be_written_ends_the_run_with_its_rows() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &training("optimizer = \"adam\"", "[save]\nevery = 2")).write("results/a.safetensors/x", "");
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["cannot write the save", "a.safetensors"]);
    assert!(rows(&s.read("results/a.csv")).len() > 12);
}

#[test]
fn a_killed_run_leaves_the_save_before_whole() {
    let s = Sandbox::new();
    // Weights and momentum of 2.6 MB, so that a save takes a while.
    s.write(
        "a.toml",
        "[model]\ninput = { features = [128] }\nlayers = [{ linear = { out_features = 512 } }, { linear = { out_features = 512 } }]\n\
         [train]\nbatch_size = 1\nsteps = 100000\noptimizer = { sgd = { momentum = 0.9, lr = 1e-6 } }\n[save]\nevery = 1\n",
    );
    for milliseconds in [0, 7, 19, 40] {
        let mut child = Command::new(runner())
            .args(["a.toml", "--device", "host", "--quiet"])
            .current_dir(s.path(""))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !s.path("results/a.safetensors").exists() {
            assert!(child.try_wait().unwrap().is_none(), "it runs on");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        let save = runner::save::read(&s.path("results/a.safetensors")).unwrap();
        assert!(save.about.step >= 1);
        assert_eq!(save.tensors.len(), 8, "four parameters and their momentum");
        std::fs::remove_file(s.path("results/a.safetensors")).unwrap();
    }
}

#[test]
fn what_is_written_is_read_and_what_is_cut_is_refused() {
    const DTYPES: [DType; 7] = [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::U8, DType::Bool];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    let tensors = DTYPES.iter().map(|&dtype| {
        let bytes = vec![1; 6 * usize::try_from(dtype.bytes()).unwrap()];
        Stored { name: dtype.name().to_owned(), dtype, shape: vec![2, 3], bytes }
    });
    let about = About { step: 7, random: 3, optimizer: Some("adam".to_owned()), optimizer_steps: vec![7, 6], scaler: Some((0.1, 5)) };
    let mut snapshot = Snapshot { about, tensors: tensors.collect() };
    runner::save::write(&snapshot, &path).unwrap();
    let mut back = runner::save::read(&path).unwrap();
    back.tensors.sort_by(|a, b| a.name.cmp(&b.name));
    snapshot.tensors.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(back, snapshot);
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 4, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(runner::save::read(&path).is_err(), "cut at {cut}");
    }
    // Length and padding of the header tell nothing; every other bit is under the checksum.
    let changed = (8..whole.len()).filter(|&at| {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        runner::save::read(&path).is_ok_and(|mut read| {
            read.tensors.sort_by(|a, b| a.name.cmp(&b.name));
            read != snapshot
        })
    });
    assert_eq!(changed.collect::<Vec<_>>(), Vec::<usize>::new());
}
