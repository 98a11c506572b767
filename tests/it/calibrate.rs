//! Trees of convolutions: grown from answers, written, read again, and gone by. `tests/fixtures/scratch/answers.csv` holds 500
//! convolutions, as an H200 answered.

use std::collections::BTreeSet;

use runner::gpu::Gpu;
use runner::meta::DType;
use runner::scratch::convolution::{Answer, Settings, Trees, accuracy, grid, grow, read_answers, write_answers};
use runner::scratch::{Calibrated, Convolution, Direction, Request, Scratch};

use crate::support::{Sandbox, repository, rows};

fn answers() -> String {
    std::fs::read_to_string(repository().join("tests/fixtures/scratch/answers.csv")).unwrap()
}

const NETWORK: &str = r#"
[model]
input = { features = [64, 56, 56] }
layers = [{ conv2d = { out_channels = 64, kernel_size = 3, padding = 1 } }, "flatten", { linear = { out_features = 2 } }]

[train]
batch_size = 4
steps = 1
loss = "mean"
optimizer = "sgd"
"#;

#[test]
fn trees_grow_from_answers_and_are_gone_by() {
    let s = Sandbox::new();
    s.write("answers.csv", &answers()).write("net.toml", NETWORK);
    let told = s.run(&["calibrate", "--from", "answers.csv", "-o", "a.trees"]).exits(0).stdout;
    assert!(told.starts_with("a.trees: ") && told.contains("from 1 500 answers of h200\nof layers left out of growing: "), "{told}");
    // The file says where it comes from and whose it is.
    let trees = s.read("a.trees");
    assert!(trees.starts_with("# NVIDIA H200, cuDNN 9.19.0\ngpu h200\ntree forward windows\n"), "{}", &trees[..200]);
    // What was answered is known again, nearly all of it: some sizes no formula gives.
    let gpu = Gpu::named("h200").unwrap();
    let (_, answers) = read_answers(&s.path("answers.csv")).unwrap();
    let of = accuracy(&Trees::read(&s.path("a.trees"), gpu).unwrap(), gpu, &answers);
    assert!(of.exact * 100 >= of.workspaces * 88, "{of:?}");
    // Both sides go by it, as the CSV shows.
    for command in [&["net.toml", "--device", "virtual", "--quiet"][..], &["net.toml", "--device", "host", "--quiet"]] {
        s.run(&[command, &["--calibration", "a.trees"]].concat()).exits(0);
        assert!(rows(&s.read("results/net.csv")).iter().all(|row| row["error_peak"] == "0"));
    }
    for command in ["predict", "explain", "summary"] {
        s.run(&[command, "net.toml", "--calibration", "a.trees"]).exits(0);
    }
}

/// A file of trees, with these words for wide windows.
fn trees(windows: &str) -> String {
    let kinds = ["forward", "grad_input", "grad_weight"].map(|d| format!("tree {d} windows\n{windows}\ntree {d} products\nnone\n"));
    format!("gpu h200\n{}", kinds.concat())
}

/// A folder with the network, trees by which its convolution asks for nothing, and such by which it asks for 100 MiB.
fn none_and_much() -> Sandbox {
    let s = Sandbox::new();
    // The convolution has 64 channels of 56×56 pixels; a plan of counters is 256 bytes and these.
    s.write("none.trees", &trees("none"))
        .write("much.trees", &trees("channels<=63 none height<=100 counters:104857600 none"))
        .write("net.toml", NETWORK);
    s
}

#[test]
fn a_plan_in_the_file_is_what_is_asked_for() {
    let s = none_and_much();
    let peak = |file: &str| {
        s.run(&["net.toml", "--device", "virtual", "--quiet", "--calibration", file]).exits(0);
        rows(&s.read("results/net.csv")).iter().map(|r| r["measured_peak"].parse::<u64>().unwrap()).max().unwrap()
    };
    assert!(peak("much.trees") > peak("none.trees") + (95 << 20));
}

#[test]
fn every_command_that_predicts_goes_by_it() {
    let s = none_and_much();
    let said = |command: &[&str], trees: &str, code: i32| s.run(&[command, &["--calibration", trees]].concat()).exits(code).stdout;
    let of = |command: &[&str]| ["none.trees", "much.trees"].map(|trees| said(command, trees, 0));
    for command in ["predict", "explain", "summary", "replay", "plot"] {
        let output: &[&str] = if command == "plot" { &["-o", "-"] } else { &[] };
        let [none, much] = of(&[&[command, "net.toml"], output].concat());
        assert!(none != much, "{command}");
    }
    // What fit says holds on a device that goes by the same file, and the answers lie apart.
    let fit = ["fit", "net.toml", "--memory", "400MiB", "--verify", "--json"];
    let largest = of(&fit).map(|text| {
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        answer["cases"][0]["switches"][0]["largest"].as_u64().unwrap_or_else(|| panic!("{text}"))
    });
    assert!(largest[0] > largest[1], "{largest:?}");
    // Where memory runs out, so do the switches that are named as fitting.
    let short = ["net.toml", "--device", "virtual", "--set", "allocator.memory_limit=100MiB"];
    let run_out = |trees: &str| s.run(&[&short[..], &["--calibration", trees]].concat()).exits(1).stderr;
    assert!(run_out("much.trees").contains("fits with no switch that is known"), "{}", run_out("much.trees"));
}

#[test]
fn it_is_for_what_runs() {
    let s = none_and_much();
    s.write("trace.csv", "op,id,bytes\nalloc,1,512\n").run(&["net.toml", "--device", "virtual", "--quiet"]).exits(0);
    for command in [["replay", "trace.csv"], ["plot", "trace.csv"], ["plot", "results/net.csv"]] {
        let refused = s.run(&[&command[..], &["--calibration", "none.trees"]].concat()).exits(2);
        refused.complains(&[&format!("--calibration is for experiments, and {} is none", command[1])]);
    }
    for command in [["replay", "net.toml"], ["plot", "net.toml"], ["fit", "net.toml"]] {
        let other = s.run(&[&command[..], &["--gpu", "t4", "--calibration", "none.trees"]].concat()).exits(2);
        other.complains(&["none.trees:1: its convolutions are those of h200, not of t4; say `--gpu h200`"]);
    }
}

#[test]
fn cases_done_under_another_calibration_are_not_done() {
    let s = none_and_much();
    let sweep = ["net.toml", "--device", "virtual", "--set", "train.batch_size=4,8"];
    let resumed = |more: &[&str]| s.run(&[&sweep[..], &["--resume"], more].concat()).exits(0).stderr.trim_end().to_owned();
    let (none, all) = ("note: 0 of 2 cases done before", "note: 2 of 2 cases done before");
    // Without, with one, with another, without again.
    let ways: [&[&str]; 4] = [&[], &["--calibration", "none.trees"], &["--calibration", "much.trees"], &[]];
    for more in ways {
        for expected in [none, all] {
            assert_eq!(resumed(more), expected, "{more:?}");
        }
        s.run(&[&sweep[..], &["--out", "whole", "--quiet"], more].concat()).exits(0);
        assert_eq!(s.read("results/net.csv"), s.read("whole/net.csv"), "{more:?}");
        assert_eq!(s.read("results/net.run.toml").contains("\nscratch_from = \"calibration "), !more.is_empty());
    }
    // The same content under another name, laid out otherwise, is the same; other content under the same name is not.
    resumed(&["--calibration", "none.trees"]);
    s.write("again.trees", &s.read("none.trees").replace("\nnone", "\n\n  none"));
    assert_eq!(resumed(&["--calibration", "again.trees"]), all);
    s.write("again.trees", &trees("counters:512"));
    assert_eq!(resumed(&["--calibration", "again.trees"]), none);
}

#[test]
fn a_journal_of_another_calibration_counts_for_nothing() {
    let s = none_and_much();
    let sweep = ["net.toml", "--device", "virtual", "--set", "train.batch_size=4,8"];
    s.run(&[&sweep[..], &["--calibration", "none.trees", "--quiet"]].concat()).exits(0);
    // What a run that was killed would have left: its first case.
    let run: toml::Table = s.read("results/net.run.toml").parse().unwrap();
    let text = |key: &str| run[key].as_str().unwrap();
    let head = serde_json::json!({
        "version": text("version"), "sources": text("sources"), "device": "virtual", "gpu": "h200", "scratch_from": text("scratch_from"),
    });
    let rows: Vec<String> =
        s.read("results/net.csv").lines().filter(|line| !line.starts_with("train.batch_size=8")).map(str::to_owned).collect();
    let training = s
        .read("results/net.training.csv")
        .lines()
        .filter(|line| !line.contains("=8"))
        .map(|line| line.split_once(',').unwrap().1)
        .collect::<Vec<_>>()
        .join("\n");
    let experiment = &run["case"][0]["experiment"];
    let line = serde_json::json!({ "experiment": experiment, "rows": rows.join("\n").replace("train.batch_size=4,", ",") + "\n", "training": training + "\n" });
    let done = |trees: &str| {
        for left in s.list("results") {
            std::fs::remove_file(s.path(&format!("results/{left}"))).unwrap();
        }
        s.write("results/net.journal.jsonl", &format!("{head}\n{line}\n"));
        s.run(&[&sweep[..], &["--resume", "--calibration", trees]].concat()).exits(0).stderr.trim_end().to_owned()
    };
    assert_eq!(done("none.trees"), "note: 1 of 2 cases done before");
    assert_eq!(done("much.trees"), "note: 0 of 2 cases done before");
}

#[test]
fn the_same_answers_in_any_order_grow_the_same_trees() {
    let s = Sandbox::new();
    let text = answers();
    let mut lines: Vec<&str> = text.lines().collect();
    let (head, body) = lines.split_at_mut(2);
    body.reverse();
    body.rotate_left(77);
    // One that is there twice counts once.
    let shuffled = format!("{}\n{}\n{}\n", head.join("\n"), body.join("\n"), body[5]);
    s.write("a.csv", &text).write("b.csv", &shuffled);
    for name in ["a", "b"] {
        s.run(&["calibrate", "--from", &format!("{name}.csv"), "-o", &format!("{name}.trees"), "--quiet"]).exits(0);
    }
    assert!(s.read("a.trees") == s.read("b.trees"));
}

#[test]
fn files_read_as_they_are_written() {
    let s = Sandbox::new();
    let gpu = Gpu::named("h200").unwrap();
    let built_in = Trees::built_in().text();
    assert!(built_in == std::fs::read_to_string(repository().join("src/scratch/convolution/h200.trees")).unwrap());
    s.write("answers.csv", &answers());
    let (remarks, answers) = read_answers(&s.path("answers.csv")).unwrap();
    s.write_bytes("again.csv", &write_answers(&remarks, &answers));
    assert!(read_answers(&s.path("again.csv")).unwrap() == (remarks.clone(), answers.clone()));
    let grown = grow(gpu, remarks, &answers);
    s.write("a.trees", &grown.text());
    let read = Calibrated::read(&s.path("a.trees"), gpu).unwrap();
    for answer in &answers {
        let alone = accuracy(&grown, gpu, std::slice::from_ref(answer)).foreseen;
        assert_eq!(u128::from(read.bytes(gpu, &Request::Convolution(answer.call))), alone);
    }
}

#[test]
fn what_is_no_answer_is_told_with_its_line() {
    let s = Sandbox::new();
    let text = answers();
    let (head, line) = (text.lines().nth(1).unwrap(), text.lines().nth(2).unwrap());
    let refused = |content: &str| {
        s.write("bad.csv", content);
        s.run(&["calibrate", "--from", "bad.csv", "-o", "out.trees"]).exits(2)
    };
    let without = |at: usize| {
        let cells: Vec<&str> = line.split(',').enumerate().map(|(i, cell)| if i == at { "x" } else { cell }).collect();
        format!("# a\n# b\n{head}\n{line}\n{}\n", cells.join(","))
    };
    refused(&without(0)).complains(&["bad.csv:5: `x` is no direction"]);
    refused(&without(1)).complains(&["bad.csv:5: `x` is no dtype"]);
    refused(&without(2)).complains(&["bad.csv:5: `x` is no whole number"]);
    refused(&without(19)).complains(&["bad.csv:5: `x` is no whole number"]);
    refused(&without(20)).complains(&["bad.csv:5: `x` is no weight"]);
    refused("direction,dtype\n").complains(&["bad.csv:1: no column `bytes`"]);
    refused(&format!("{head}\n")).complains(&["bad.csv: holds no answers"]);
    refused(&format!("{head}\nforward,f32,1\n")).complains(&["bad.csv:2: "]);
    refused(&format!("{head}\nforward,f32,1,8,4,4,8,7,7,1,1,1,1,0,,,,,,,\n")).complains(&["bad.csv:2: a window of 7 does not fit in 4"]);
    refused(&format!("{head}\nforward,f32,1,8,4,4,8,1,1,1,1,1,3,0,,,,,,,\n"))
        .complains(&["bad.csv:2: 8 and 8 channels do not part into 3"]);
    refused(&format!("{head}\nforward,f32,0,8,4,4,8,1,1,1,1,1,1,0,,,,,,,\n")).complains(&["bad.csv:2: batch is 0"]);
    s.run(&["calibrate", "--from", "absent.csv", "-o", "out.trees"]).exits(2).complains(&["absent.csv: No such file"]);
    s.run(&["calibrate", "--from", "bad.csv", "-o", "no/out.trees"]).exits(2).complains(&["cannot write no/out.trees"]);
    s.run(&["calibrate", "--device", "host", "-o", "out.trees"]).exits(2).complains(&["it is a GPU that answers", "--from"]);
    assert_eq!(s.list("."), ["bad.csv"]);
}

/// A chain: each comparison has one leaf and the rest of the tree, on one side or the other.
#[test]
fn a_tree_may_be_as_deep_as_it_has_leaves() {
    let s = none_and_much();
    const LEAVES: usize = 10_000;
    let many = |word: &dyn Fn(usize) -> String| (1..LEAVES).map(|n| word(n) + " ").collect::<String>();
    // 64 channels go right 63 times, or left in all comparisons but the last 63.
    let right = many(&|n| format!("channels<={n} {}", if n == 64 { "counters:104857600" } else { "none" })) + "none";
    let left = many(&|n| format!("channels<={}", LEAVES - n)) + &many(&|_| "none".to_owned()) + "none";
    s.write("right.trees", &trees(&right)).write("left.trees", &trees(&left));
    let peak = |file: &str| s.run(&["predict", "net.toml", "--calibration", file]).exits(0).stdout;
    assert_ne!(peak("right.trees"), peak("none.trees"));
    assert_eq!(peak("left.trees"), peak("none.trees"));
}

/// Answers that go to and fro are parted one by one from the end.
#[test]
fn deep_trees_grow() {
    let gpu = Gpu::named("h200").unwrap();
    let call = |n| Convolution {
        direction: Direction::Forward,
        dtype: DType::F32,
        input: [n, 8, 9, 9],
        weight: [8, 8, 1, 1],
        stride: [1; 2],
        padding: [0; 2],
        dilation: [1; 2],
        groups: 1,
    };
    let answer = |n| Answer { call: call(n), bytes: 272 * (n % 2), settings: Settings::default(), weight: 1 };
    let answers: Vec<Answer> = (1..=2000).map(answer).collect();
    let trees = grow(gpu, Vec::new(), &answers);
    assert_eq!(trees.leaves(), 2000 + 5);
    let of = accuracy(&trees, gpu, &answers);
    assert_eq!((of.exact, of.workspaces), (2000, 2000));
    let heavy: Vec<Answer> = answers[..2].iter().map(|answer| Answer { weight: u32::MAX, ..*answer }).collect();
    let refused = std::panic::catch_unwind(|| grow(gpu, Vec::new(), &heavy)).unwrap_err();
    assert!(refused.downcast_ref::<&str>().unwrap().contains("squared in 64 bits"));
}

#[test]
fn what_is_no_tree_is_told_with_its_line() {
    let s = Sandbox::new();
    s.write("answers.csv", &answers()).write("net.toml", NETWORK).write("run.toml", "gpu = \"h200\"\n");
    s.run(&["calibrate", "--from", "answers.csv", "--gpu", "t4", "-o", "t4.trees", "--quiet"]).exits(0);
    let whole = s.read("t4.trees").replace("gpu t4", "gpu h200");
    let refused = |content: &str| {
        s.write("bad.trees", content);
        s.run(&["predict", "net.toml", "--calibration", "bad.trees"]).exits(2)
    };
    let lines = whole.lines().count();
    refused("").complains(&["bad.trees:1: no line says which `gpu`", "runner calibrate"]);
    refused("gpu h200\n").complains(&["bad.trees:1: there is no `tree forward windows`"]);
    refused("gpu h200\nnone\n").complains(&["bad.trees:2: `none` stands before any `tree`"]);
    refused("gpu h200\ngpu h200\n").complains(&["bad.trees:2: the GPU is named twice"]);
    refused("gpu h200\ntree up windows\n").complains(&["bad.trees:2: `tree` is followed by one of forward, grad_input, grad_weight"]);
    refused("gpu h200 t4\n").complains(&["bad.trees:1: `t4`: nothing follows the name of the GPU on its line"]);
    refused("gpu h200\ntree forward windows none\n")
        .complains(&["bad.trees:2: `none`: the words of a tree begin on the line after `tree forward windows`"]);
    refused("gpu h200\ntree forward windows\nnone none\n").complains(&["bad.trees:3: the tree has ended before `none`"]);
    refused("gpu h200\ntree forward windows\n\nbatch<=4 none\n").complains(&["bad.trees:4: the tree has no end here"]);
    refused("gpu h200\ntree forward windows\nbatches<=4 none none\n")
        .complains(&["bad.trees:3: `batches<=4`: nothing that is measured is called `batches`"]);
    refused("gpu h200\ntree forward windows\nbatch<=many none none\n")
        .complains(&["bad.trees:3: `batch<=many`: `many` is no whole number"]);
    refused("gpu h200\ntree forward windows\nlayout:0x1\n").complains(&["bad.trees:3: `layout:0x1` is neither a comparison nor a plan"]);
    refused(&format!("{whole}tree forward windows\nnone\n")).complains(&[&format!("bad.trees:{}: this tree is there twice", lines + 1)]);
    let predict = |options: &[&str]| s.run(&[&["predict", "net.toml"], options].concat());
    predict(&["--calibration", "t4.trees"])
        .exits(2)
        .complains(&["t4.trees:2: its convolutions are those of t4, not of h200; say `--gpu t4`"]);
    predict(&["--calibration", "t4.trees", "--gpu", "t4"]).exits(0);
    predict(&["--calibration", "absent.trees"]).exits(2).complains(&["absent.trees: No such file"]);
    predict(&["--calibration", "t4.trees", "--scratch", "run.toml"]).exits(2).complains(&["cannot be used with"]);
}

/// What is asked is the same list in every process, and nothing in it is asked twice or is answered without trees.
#[test]
fn the_questions_are_a_list_without_repeats() {
    let calls = grid();
    assert!((300_000..1_000_000).contains(&calls.len()), "{}", calls.len());
    let all: BTreeSet<Convolution> = calls.iter().map(|(call, _)| *call).collect();
    assert_eq!(all.len(), calls.len());
    assert!(calls.iter().all(|(call, weight)| !call.is_native() && (1..=100).contains(weight)));
    assert!(all.iter().all(|call| call.dtype != DType::F64 && (call.groups == 1 || call.weight[1] > 1)));
    assert_eq!(calls, grid());
}
