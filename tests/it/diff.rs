//! `runner diff` as a user meets it: two files, two folders, a commit; text, Markdown, JSON; exit codes.

use std::process::Command;

use crate::results::{expect, fixture};
use crate::support::Sandbox;

/// A folder with `before` and `after`, each a folder of results.
fn folders() -> Sandbox {
    let s = Sandbox::new();
    for side in ["before", "after"] {
        for entry in std::fs::read_dir(fixture(side)).unwrap() {
            let path = entry.unwrap().path();
            s.write(&format!("{side}/{}", path.file_name().unwrap().to_str().unwrap()), &std::fs::read_to_string(&path).unwrap());
        }
    }
    s
}

fn git(s: &Sandbox, line: &str) {
    let setup = "git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main -c commit.gpgsign=false";
    s.shell(&line.replace("git ", &format!("{setup} "))).exits(0);
}

#[test]
fn folders_are_compared_experiment_by_experiment() {
    let s = folders();
    expect("diff.txt", &s.run(&["diff", "before", "after"]).exits(1).stdout);
    expect("diff.md", &s.run(&["diff", "before", "after", "--markdown"]).exits(1).stdout);
    let json: serde_json::Value = serde_json::from_str(&s.run(&["diff", "before", "after", "--json"]).exits(1).stdout).unwrap();
    let changes = json["experiments"].as_array().unwrap().iter().map(|e| format!("{} {}", e["experiment"], e["change"]).replace('"', ""));
    assert_eq!(
        changes.collect::<Vec<_>>(),
        [
            "gpt2_small changed",
            "lenet gone",
            "lenet5 new",
            "lengths_train changed",
            "linear_adamw changed",
            "mlp_accumulation_4 changed",
            "mlp_adam changed",
            "vgg11 changed"
        ]
    );
    expect("diff.json", &s.run(&["diff", "before/mlp_adam.csv", "after/mlp_adam.csv", "--json"]).exits(1).stdout);
}

#[test]
fn the_same_results_are_the_same_in_every_form() {
    let s = folders();
    let out = s.run(&["diff", "before", "before"]).exits(0);
    assert_eq!((&*out.stdout, &*out.stderr), ("no difference in 7 experiments, 7 cases, 175 rows\n", ""));
    s.run(&["diff", "before", "before", "--markdown"]).exits(0);
    let json: serde_json::Value = serde_json::from_str(&s.run(&["diff", "before", "before", "--json"]).exits(0).stdout).unwrap();
    assert_eq!((&json["same"], &json["experiments"]), (&true.into(), &serde_json::json!([])));
    // Nobody's training times are results.
    s.write("after2/mlp_adam.training.csv", "step,micro_step\n").write("after2/.hidden.csv", "x\n");
    s.write("after2/mlp_adam.csv", &s.read("before/mlp_adam.csv"));
    s.run(&["diff", "before/mlp_adam.csv", "after2/mlp_adam.csv"]).exits(0);
    assert!(!s.run(&["diff", "before", "after2"]).exits(1).stdout.contains("training"));
}

#[test]
fn colours_come_where_they_are_asked_for() {
    let s = folders();
    assert!(!s.run(&["diff", "before", "after"]).exits(1).stdout.contains('\u{1b}'));
    assert!(s.run(&["diff", "before", "after", "--color", "always"]).exits(1).stdout.contains("\u{1b}[31m+1 048 576"));
}

#[test]
fn growth_is_held_against_thresholds() {
    let s = folders();
    let pair = ["diff", "before/mlp_adam.csv", "after/mlp_adam.csv"];
    let with = |limits: &[&str]| s.run(&[&pair[..], limits].concat());
    with(&[]).exits(1);
    with(&["--fail-on", "peak:2%"]).exits(0);
    with(&["--fail-on", "peak:2%", "--fail-on", "reserved:2MiB", "--fail-on", "allocated:1048576"]).exits(0);
    with(&["--fail-on", "allocated:1048575"]).exits(1);
    let out = with(&["--fail-on", "peak:1%", "--fail-on", "reserved:2MiB"]).exits(1);
    assert!(
        out.stdout.ends_with(
            "peak:1%: 2 rows over it; most in mlp_adam step 1 forward: 52.56 MiB → 53.56 MiB (+1.90%)\nreserved:2MiB: no row is over it\n"
        ),
        "{}",
        out.stdout
    );
    // What shrank passes, whatever the limit.
    s.run(&["diff", "after/mlp_adam.csv", "before/mlp_adam.csv", "--fail-on", "reserved:0"]).exits(0);
    // What cannot be held against anything does not pass.
    let out = s.run(&["diff", "before", "after", "--fail-on", "peak:50%"]).exits(1);
    for reason in ["gpt2_small is not comparable", "lenet is gone", "vgg11 runs out of memory in step 1 loss", "vgg11: 15 rows gone"] {
        assert!(out.stdout.contains(&format!("fails: {reason}\n")), "{}", out.stdout);
    }
    let json = s.run(&["diff", "before", "after", "--fail-on", "peak:50%", "--json"]).exits(1).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["fail_on"]["passes"], json["fail_on"]["unchecked"].as_array().unwrap().len()), (&false.into(), 4));
    // New experiments pass.
    s.write("more/mlp_adam.csv", &s.read("before/mlp_adam.csv")).write("more/lenet.csv", &s.read("before/lenet.csv"));
    s.write("less/mlp_adam.csv", &s.read("before/mlp_adam.csv"));
    s.run(&["diff", "less", "more", "--fail-on", "peak:0"]).exits(0);
    s.run(&["diff", "more", "less", "--fail-on", "peak:0"]).exits(1);
}

#[test]
fn figures_that_one_side_lacks_are_left_out() {
    let s = folders();
    let text = s.read("before/mlp_adam.csv");
    let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let without = |what: &[&str]| -> String {
        let blank = |line: &str| -> String {
            let cells = line.split(',').zip(&head).map(|(c, h)| if what.iter().any(|w| h.starts_with(w)) { "" } else { c });
            cells.collect::<Vec<_>>().join(",") + "\n"
        };
        text.lines().enumerate().map(|(i, l)| if i == 0 { format!("{l}\n") } else { blank(l) }).collect()
    };
    let categories = ["parameters", "buffers", "gradients", "optimizer_state", "activations", "inputs", "workspace", "other"];
    s.write("torch.csv", &without(&[&["predicted", "error"], &categories[..]].concat()));
    s.write("predicted.csv", &without(&[&["measured", "error"], &categories[..]].concat()));
    s.run(&["diff", "before/mlp_adam.csv", "torch.csv"]).exits(0);
    s.run(&["diff", "predicted.csv", "before/mlp_adam.csv"]).exits(0);
    let words = ["nothing to compare: torch.csv has only measured figures and predicted.csv has none of them"];
    s.run(&["diff", "torch.csv", "predicted.csv"]).exits(2).complains(&words);
    let out = s.run(&["diff", "predicted.csv", "after/mlp_adam.csv", "--fail-on", "peak:1%"]).exits(1);
    assert!(out.stdout.contains("predicted peak 135.79 MiB -512 B (<0.01%)"), "{}", out.stdout);
}

#[test]
fn cases_with_one_change_are_shown_once() {
    let s = Sandbox::new();
    let text = std::fs::read_to_string(fixture("sweep.csv")).unwrap();
    let grown = |line: &str| {
        let mut cells: Vec<String> = line.split(',').map(String::from).collect();
        if cells[9] == "optimizer" && cells[2] == "f32" {
            for i in [10, 11, 13, 14, 22] {
                cells[i] = (cells[i].parse::<u64>().unwrap() + 4096).to_string();
            }
        }
        cells.join(",") + "\n"
    };
    let text_after: String = text.lines().map(grown).collect();
    s.write("a.csv", &text).write("b.csv", &text_after.replace("batch_size=512 train.dtype=bf16", "batch_size=256 train.dtype=bf16"));
    expect("diff_sweep.txt", &s.run(&["diff", "a.csv", "b.csv"]).exits(1).stdout);
}

#[test]
fn the_working_tree_is_compared_with_a_commit() {
    let s = folders();
    s.shell("mv before results").exits(0);
    git(&s, "git init -q && git add results && git commit -qm one && git tag v1");
    s.run(&["diff", "--base", "HEAD"]).exits(0);
    s.shell("rm -r results && mv after results").exits(0);
    let diff = s.run(&["diff", "--base", "HEAD"]).exits(1).stdout;
    let due = std::fs::read_to_string(fixture("diff.txt"))
        .unwrap()
        .replace("not in after", "not in results")
        .replace("not in before", "not in HEAD:results");
    assert_eq!(diff, due);
    s.run(&["diff", "--base", "v1", "results/linear_adamw.csv"]).exits(1);
    assert!(s.run(&["diff", "--base", "v1", "results/mlp_adam.csv"]).exits(1).stdout.starts_with("mlp_adam  peak"));
    // From a folder below, and for results that are only in the commit.
    s.shell("cd results && $RUNNER diff --base HEAD . > ../below.txt; test $? = 1").exits(0);
    assert!(s.read("below.txt").contains("lenet  gone: 1 case, not in ."));
    s.shell("rm -r results").exits(0);
    let gone = s.run(&["diff", "--base", "HEAD", "results"]).exits(1).stdout;
    assert!(gone.ends_with("7 cases: 7 gone\n"), "{gone}");
}

#[test]
fn git_is_asked_for_nothing_but_what_is_meant() {
    let s = folders();
    let outside = Command::new("git").arg("-C").arg(s.path("")).args(["rev-parse", "--git-dir"]).output().unwrap();
    if !outside.status.success() {
        s.run(&["diff", "--base", "HEAD", "before"]).exits(2).complains(&["before is in no git repository"]);
    }
    git(&s, "git init -q");
    s.run(&["diff", "--base", "HEAD", "before"]).exits(2).complains(&["`HEAD` names no commit"]);
    git(&s, "git add before && git commit -qm one");
    for revision in ["nothing", "--help", "--output=stolen", "HEAD:before", "$(touch stolen)"] {
        s.run(&["diff", &format!("--base={revision}"), "before"]).exits(2).complains(&["names no commit"]);
    }
    s.run(&["diff", "--base", "HEAD", "nowhere"]).exits(2).complains(&["nowhere"]);
    assert!(!s.path("stolen").exists());
}

#[test]
fn mistakes_end_in_two() {
    let s = folders();
    s.write("foreign.csv", "a,b\n1,2\n").write("empty/readme.txt", "");
    for (arguments, words) in [
        (&["diff"][..], &["two results files or two folders"][..]),
        (&["diff", "before"], &["two results files or two folders"]),
        (&["diff", "before", "after", "--base", "HEAD"], &["two results files or two folders"]),
        (&["diff", "before", "nowhere"], &["nowhere: No such file"]),
        (&["diff", "before", "before/lenet.csv"], &["before is a folder and before/lenet.csv is none"]),
        (&["diff", "before/lenet.csv", "foreign.csv"], &["foreign.csv:1: is not a results file"]),
        (&["diff", "empty", "empty"], &["no results in empty and none in empty"]),
        (
            &["diff", "before", "after", "--fail-on", "speed:1%"],
            &["`speed:1%` is not a threshold: the figure is one of allocated, peak, reserved"],
        ),
        (&["diff", "before", "after", "--json", "--markdown"], &["cannot be used with"]),
    ] {
        s.run(arguments).exits(2).complains(words);
    }
}
