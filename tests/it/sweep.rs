//! Sweeps as a user runs them: the plan, cases at once, a run that is cut short and goes on, shards.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{SMALL, Sandbox, rows, runner};

const MANY: &str = "train.batch_size=1..400";

#[test]
fn the_plan_is_numbered_and_nothing_runs() {
    let s = Sandbox::new();
    s.write("e/one.toml", SMALL);
    s.write("e/sweep.toml", &format!("description = \"two axes\"\n{SMALL}\n[sweep]\ntrain.batch_size = {{ from = 2, to = 6, by = 2 }}\n"));
    let out = s.run(&["e", "--list", "--set", "train.dtype=f32,bf16"]).exits(0);
    assert_eq!(
        out.stdout,
        "\
one
   1  train.dtype=f32
   2  train.dtype=bf16
sweep: two axes
   1  train.batch_size=2 train.dtype=f32
   2  train.batch_size=2 train.dtype=bf16
   3  train.batch_size=4 train.dtype=f32
   4  train.batch_size=4 train.dtype=bf16
   5  train.batch_size=6 train.dtype=f32
   6  train.batch_size=6 train.dtype=bf16
8 cases of 2 experiments
"
    );
    let out = s.run(&["e", "--list", "--set", "train.dtype=f32,bf16", "--shard", "2/3"]).exits(0);
    assert!(out.stdout.ends_with("   2  train.batch_size=2 train.dtype=bf16\n   5  train.batch_size=6 train.dtype=f32\n3 cases of 2 experiments, shard 2/3 of 8 cases\n"), "{}", out.stdout);
    assert_eq!(s.run(&["e/one.toml", "--list"]).exits(0).stdout, "one\n   1  as written\n1 case of 1 experiment\n");
    assert!(s.list("results").is_empty());
}

#[test]
fn lists_and_ranges_make_axes() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).run(&["small.toml", "--device", "virtual", "--set", "train.batch_size=1,2,4..64:20"]).exits(0);
    let mut batches: Vec<_> = rows(&s.read("results/small.csv")).iter().map(|r| r["batch_size"].clone()).collect();
    batches.dedup();
    assert_eq!(batches, ["1", "2", "4", "24", "44", "64"]);
}

#[test]
fn mistaken_axes_are_answered_with_hints() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    for (set, words) in [
        ("train.batchsize=1,2", &["batchsize", "batch_size"][..]),
        ("trian.batch_size=1,2", &["trian", "train"]),
        ("train.batch_size=8..4", &["a range goes up"]),
        ("train.batch_size=1,1", &["twice"]),
        ("train.batch_size=1,,2", &["there is no value here"]),
        ("train.batch_size=1..20000", &["20000 values"]),
        ("train.dtype=f32,b16", &["b16", "bf16"]),
        ("train.batch_size", &["key=value"]),
    ] {
        s.run(&["small.toml", "--device", "virtual", "--set", set]).exits(2).complains(words);
    }
    for shard in ["0/2", "3/2", "2", "a/b"] {
        s.run(&["small.toml", "--shard", shard]).exits(2).complains(&["is not a shard", "2/8"]);
    }
    s.run(&["small.toml", "--jobs", "0"]).exits(2);
    s.run(&["small.toml", "--devices", "virtual,host"]).exits(2).complains(&["--devices takes GPUs", "--jobs"]);
    s.run(&["small.toml", "--devices", "cuda:0,cuda:0"]).exits(2).complains(&["each once"]);
    assert!(s.list("results").is_empty());
}

#[test]
fn a_gpu_that_is_not_there_ends_before_anything_runs() {
    let s = Sandbox::new();
    // No machine has that many GPUs.
    s.write("small.toml", SMALL).run(&["small.toml", "--devices", "cuda:998,cuda:999"]).exits(3);
    assert!(s.list("results").is_empty());
}

#[test]
fn any_number_of_jobs_gives_the_same_bytes() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    for (jobs, device) in [("1", "virtual"), ("2", "virtual"), ("7", "virtual"), ("3", "host")] {
        let out = format!("{device}{jobs}");
        s.run(&["small.toml", "--device", device, "--set", "train.batch_size=1..40", "-j", jobs, "--out", &out, "--quiet"]).exits(0);
        assert_eq!(s.read(&format!("{out}/small.csv")), s.read("virtual1/small.csv"), "{out}");
        assert_eq!(s.list(&out), ["small.csv", "small.run.toml", "small.training.csv"]);
    }
}

#[test]
fn shards_merge_to_the_unsharded_sweep() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let sweep = ["small.toml", "--device", "virtual", "--set", "train.batch_size=1..5", "--set", "train.dtype=f32,bf16"];
    s.run(&sweep).exits(0);
    for shard in ["1/4", "2/4", "3/4", "4/4"] {
        s.run(&[&sweep[..], &["--shard", shard, "--quiet"]].concat()).exits(0);
    }
    s.shell("\"$RUNNER\" merge merged.csv results/small.shard-*.csv").exits(0);
    assert_eq!(s.read("merged.csv"), s.read("results/small.csv"));
    // A share without cases is a header.
    s.run(&["small.toml", "--device", "virtual", "--shard", "2/2", "--quiet"]).exits(0);
    assert_eq!(s.read("results/small.shard-2-of-2.csv").lines().count(), 1);
}

/// A sweep that is long enough to be caught in the middle.
fn under_way(s: &Sandbox) -> Child {
    s.write("small.toml", SMALL);
    let child = Command::new(runner())
        .args(["small.toml", "--device", "virtual", "--set", MANY, "-j", "2", "--out", "cut"])
        .current_dir(s.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let journal = s.path("cut/small.journal.jsonl");
    while std::fs::read_to_string(&journal).map_or(0, |text| text.lines().count()) < 20 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the run writes no journal");
        std::thread::sleep(Duration::from_millis(1));
    }
    child
}

fn whole(s: &Sandbox) -> String {
    s.run(&["small.toml", "--device", "virtual", "--set", MANY, "--out", "whole", "--quiet"]).exits(0);
    s.read("whole/small.csv")
}

fn resume(s: &Sandbox) -> usize {
    let out = s.run(&["small.toml", "--device", "virtual", "--set", MANY, "--out", "cut", "--resume"]).exits(0);
    assert_eq!(s.list("cut"), ["small.csv", "small.run.toml", "small.training.csv"]);
    let note = out.stderr.lines().find(|l| l.starts_with("note: ")).unwrap();
    note.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let s = Sandbox::new();
    let mut child = under_way(&s);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(s.list("cut"), ["small.journal.jsonl"], "a file is there whole or not at all");
    // As a write that was cut would leave it.
    let journal = s.read("cut/small.journal.jsonl");
    s.write("cut/small.journal.jsonl", &format!("{journal}{}", &journal.lines().last().unwrap()[..100]));
    let done = resume(&s);
    assert!((19..400).contains(&done), "{done} cases were done before");
    assert_eq!(s.read("cut/small.csv"), whole(&s));
    assert_eq!(s.read("cut/small.training.csv").lines().count(), 401);
}

#[test]
fn an_interrupted_run_keeps_what_is_done_and_says_how_to_go_on() {
    let s = Sandbox::new();
    let child = under_way(&s);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("of 400 cases done, in cut/small.partial.csv") && said.contains("--resume"), "{said}");
    assert_eq!(s.list("cut"), ["small.journal.jsonl", "small.partial.csv"]);
    let whole = whole(&s);
    let partial = s.read("cut/small.partial.csv");
    assert!(partial.lines().count() > 20 && partial.lines().all(|line| whole.contains(line)));
    assert!(resume(&s) >= 19);
    assert_eq!(s.read("cut/small.csv"), whole);
}

#[test]
fn only_what_is_unchanged_counts_as_done() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let done = |arguments: &[&str]| {
        let fixed = ["small.toml", "--resume", "--device", "virtual"];
        let out = s.run(&[&fixed[..], arguments].concat()).exits(0);
        out.stderr.trim_end().to_string()
    };
    let (three, four) = ("train.batch_size=1,2,3", "train.batch_size=4,3,2,1");
    assert_eq!(done(&["--set", three]), "note: 0 of 3 cases done before");
    assert_eq!(done(&["--set", three]), "note: 3 of 3 cases done before");
    assert_eq!(done(&["--set", four]), "note: 3 of 4 cases done before");
    // The same case under another name.
    assert_eq!(done(&["--set", "train.batch_size=3"]), "note: 1 of 1 case done before");
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 0 of 1 case done before");
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 1 of 1 case done before");
    s.write("small.toml", &SMALL.replace("\"sgd\"", "\"adam\""));
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 0 of 1 case done before");
    s.shell("sed -i 's/^version = .*/version = \"0.0.0\"/' results/small.run.toml").exits(0);
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 0 of 1 case done before");
    // Another build of the same version may measure otherwise.
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 1 of 1 case done before");
    s.shell("sed -i 's/^sources = .*/sources = \"0123456789abcdef\"/' results/small.run.toml").exits(0);
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 0 of 1 case done before");
    s.shell("sed -i '/^sources = /d' results/small.run.toml").exits(0);
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 0 of 1 case done before");
    // Files that do not go together count for nothing, and are written anew.
    s.write("results/small.csv", "not a results file\n");
    assert_eq!(done(&["--set", "train.batch_size=3", "--gpu", "t4"]), "note: 0 of 1 case done before");
    assert_eq!(rows(&s.read("results/small.csv")).len(), 7);
}

#[test]
fn a_case_out_of_memory_is_done_too() {
    let s = Sandbox::new();
    let sweep = "[allocator]\nmemory_limit = \"128MiB\"\n[sweep]\ntrain.batch_size = [8388608, 1]\n";
    s.write("tight.toml", &format!("{SMALL}{sweep}")).run(&["tight.toml", "--device", "virtual"]).exits(1);
    let before = s.read("results/tight.csv");
    let out = s.run(&["tight.toml", "--device", "virtual", "--resume"]).exits(1);
    assert!(out.stderr.contains("2 of 2 cases done before"), "{}", out.stderr);
    assert_eq!(s.read("results/tight.csv"), before);
}

#[test]
fn what_is_done_keeps_all_that_was_written_of_its_time() {
    let s = Sandbox::new();
    s.write("small.toml", &SMALL.replace("steps = 1", "steps = 3"))
        .write("log.toml", &format!("{}\n[log]\nevery = 1\n", s.read("small.toml")));
    let run = |more: &[&str]| s.run(&[&["log.toml", "--device", "host", "--quiet"], more].concat()).exits(0);
    run(&["--set", "train.batch_size=1,2"]);
    let before = s.read("results/log.training.csv");
    let spent =
        |r: &BTreeMap<String, String>| ["waiting", "copying", "busy", "logging"].iter().any(|c| r[*c].parse::<f64>().unwrap() > 0.0);
    assert!(rows(&before).iter().all(spent), "{before}");
    run(&["--set", "train.batch_size=1,2,4", "--resume"]);
    let after = s.read("results/log.training.csv");
    assert_eq!(after.lines().count(), 1 + 3 * 3);
    assert!(after.starts_with(&before), "{before}\nbecame\n{after}");
}
