//! `runner predict` and `runner fit`: what fits, by how much, and what a run says to it.

use runner::experiment::tables::OPTIMIZERS;
use serde_json::Value;

use crate::support::{SMALL, Sandbox, experiments, repository};

#[test]
fn predict_says_whether_it_fits_and_by_how_much() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let out = s.run(&["predict", "small.toml", "--gpu", "a100-40gb"]).exits(0);
    assert!(out.stdout.contains("fits in a100-40gb's 39.39 GiB beside"), "{}", out.stdout);
    assert!(out.stdout.contains("GiB left"), "{}", out.stdout);
    assert!(!out.stdout.contains('='), "nothing is measured: {}", out.stdout);
    // Some 5 GB of batch and output: the context decides.
    let large = ["predict", "small.toml", "--gpu", "t4", "--set", "train.batch_size=1,250000000,320000000"];
    let out = s.run(&large).exits(1);
    assert!(out.stdout.contains("2 of 3 cases do not fit in t4's 14.58 GiB beside"), "{}", out.stdout);
    assert!(out.stdout.contains("; train.batch_size=320000000 runs out of memory in step 1 "), "{}", out.stdout);
    // The table is that of what the sentence speaks of, and says it of each case.
    let line = |case: &str| out.stdout.lines().find(|l| l.starts_with(&format!("train.batch_size={case} "))).unwrap().to_owned();
    assert!(line("1").contains("  fits, ") && line("1").ends_with(" GiB left"), "{}", out.stdout);
    assert!(["250000000", "320000000"].iter().all(|case| line(case).contains("  no: step 1 ")), "{}", out.stdout);
    assert!(out.stdout.contains("predicted for t4 in 14.") && out.stdout.contains(" for the allocator; figures in MiB"), "{}", out.stdout);
    let sweep = ["predict", "small.toml", "--memory", "80MiB", "--set", "train.batch_size=1,2", "--set"];
    let out = s.run(&[&sweep[..], &["train.steps=3"]].concat()).exits(0);
    assert!(out.stdout.contains("all 2 cases fit in 80.00 MiB for the allocator; "), "{}", out.stdout);
    assert!(out.stdout.contains(" reserved at most by train.batch_size=") && out.stdout.contains(" in 3 steps, "), "{}", out.stdout);
    assert_eq!(s.run(&["predict", "small.toml", "--quiet"]).exits(0).stdout, "");
    assert!(s.list("results").is_empty());
}

#[test]
fn the_context_counts() {
    let s = Sandbox::new();
    s.write("t.toml", "[allocations]\nsteps = [{ alloc = { name = \"a\", shape = [3800000000] } }]\n");
    // 15.2 GB are there on a t4, but not beside its context.
    s.run(&["t.toml", "--device", "virtual", "--gpu", "t4"]).exits(0);
    let out = s.run(&["predict", "t.toml", "--gpu", "t4"]).exits(1);
    assert!(out.stdout.contains("does not fit in t4's"), "{}", out.stdout);
}

#[test]
fn fit_names_a_batch_that_runs_where_the_next_does_not() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let out = s.run(&["fit", "small.toml", "--memory", "1GiB", "--verify"]).exits(0);
    let sentence = out.stdout.lines().find(|l| l.starts_with("train.batch_size = ")).unwrap();
    let number = |word: usize| sentence.split_whitespace().nth(word).unwrap().trim_end_matches(',').parse::<u64>().unwrap();
    let (fits, next) = (number(2), number(4));
    assert_eq!(next, fits + 1);
    assert!(sentence.ends_with(" does not, in 10 steps of training"), "{sentence}");
    let run = |batch: u64| {
        let set = format!("train.batch_size={batch}");
        let settings = ["--set", "allocator.memory_limit=\"1GiB\"", "--set", "train.steps=10", "--set", &set];
        s.run(&[&["small.toml", "--device", "virtual"], &settings[..]].concat())
    };
    run(fits).exits(0);
    run(next).exits(1);
    assert!(out.stdout.contains("agree") && !out.stdout.contains("DIFFER"), "{}", out.stdout);
}

#[test]
fn what_fits_is_to_fit_where_training_goes_on() {
    // What PyTorch reserves of it grows until the fifth step.
    let resnet = repository().join("experiments/networks/resnet50.toml");
    let s = Sandbox::new();
    let fit = |more: &[&str]| {
        let args = ["fit", resnet.to_str().unwrap(), "--gpu", "rtx3090", "--json"];
        let out = s.run(&[&args[..], more].concat());
        serde_json::from_str::<Value>(&out.exits(0).stdout).unwrap()["cases"][0]["switches"][0].clone()
    };
    let (short, own) = (fit(&["--set", "train.steps=1"]), fit(&["--set", "train.steps=12"]));
    assert_eq!((short["steps"].as_u64(), own["steps"].as_u64()), (Some(10), Some(12)));
    assert_eq!(short["largest"], own["largest"]);
    let fits = |batch: u64, steps: u64| {
        let (batch, steps) = (format!("train.batch_size={batch}"), format!("train.steps={steps}"));
        let args = ["predict", resnet.to_str().unwrap(), "--gpu", "rtx3090", "-q", "--set", &batch, "--set", &steps];
        s.run(&args).code == 0
    };
    let next = short["largest"].as_u64().unwrap() + 1;
    assert!(fits(next - 1, 10) && !fits(next, 10));
    assert!(fits(next, 2), "with two steps more would seem to fit");
}

#[test]
fn lengths_that_vary_start_over_where_training_goes_on() {
    let s = Sandbox::new();
    let text = "
[model]
input = { tokens = { length = 8, vocabulary = 16 } }
layers = [{ embedding = { num_embeddings = 16, embedding_dim = 4 } }]

[train]
batch_size = 2
lengths = [4, 8, 6]
optimizer = \"sgd\"
";
    let once = text.replace("[4, 8, 6]", "[4, 8, 6, 4, 8, 6, 4, 8, 6, 4]");
    s.write("short.toml", text).write("long.toml", &once);
    let answer = |file: &str| {
        let out = s.run(&["fit", file, "--memory", "100MiB", "--verify"]).exits(0).stdout;
        out.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(answer("short.toml"), answer("long.toml"));
}

#[test]
fn bf16_takes_the_place_of_autocast() {
    let s = Sandbox::new();
    let names = |settings: &[&str]| switches(&s, settings);
    let plain = names(&[]);
    assert!(plain.iter().any(|n| n == "dtype = \"bf16\"") && plain.iter().any(|n| n == "amp = \"bf16\""), "{plain:?}");
    let amp = names(&["--set", "train.amp=bf16"]);
    assert!(amp.iter().any(|n| n == "dtype = \"bf16\", no amp") && !amp.iter().any(|n| n == "amp = \"bf16\""), "{amp:?}");
    let bf16 = names(&["--set", "train.dtype=bf16"]);
    assert!(!bf16.iter().any(|n| n.contains("amp")), "{bf16:?}");
    // It is what such a file needs.
    let needs = |settings: &[&str], switch: &str| {
        let out = s.run(&[&["fit", "small.toml", "--memory", "256MiB", "--json"], settings].concat()).exits(0);
        let answer: Value = serde_json::from_str(&out.stdout).unwrap();
        let all = answer["cases"][0]["switches"].as_array().unwrap().clone();
        all.into_iter().find(|s| s["switch"] == switch).unwrap()["peak"].as_u64().unwrap()
    };
    assert_eq!(needs(&["--set", "train.amp=bf16"], "dtype = \"bf16\", no amp"), needs(&[], "dtype = \"bf16\""));
}

#[test]
fn batch_norm_is_told_to_see_smaller_batches() {
    let s = Sandbox::new();
    s.write("norm.toml", &SMALL.replace("{ linear = { out_features = 4 } }", "{ linear = { out_features = 4 } }, \"batch_norm\""));
    let out = s.run(&["fit", "norm.toml", "--memory", "256MiB", "--set", "train.batch_size=8"]).exits(0);
    assert!(out.stdout.contains("  the same effective batch, but batch_norm sees smaller batches\n"), "{}", out.stdout);
    s.write("small.toml", SMALL);
    let out = s.run(&["fit", "small.toml", "--memory", "256MiB", "--set", "train.batch_size=8"]).exits(0);
    assert!(out.stdout.contains("  the same effective batch\n") && !out.stdout.contains("batch_norm"), "{}", out.stdout);
}

#[test]
fn sizes_may_have_a_fraction() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let limit = |size: &str| {
        let out = s.run(&["fit", "small.toml", "--memory", size, "--json"]).exits(0);
        serde_json::from_str::<Value>(&out.stdout).unwrap()["memory_limit"].as_u64().unwrap()
    };
    // 23.14 × 2³⁰ = 24846385807.36; no binary fraction takes part.
    assert_eq!((limit("23.14GiB"), limit("0.1GB"), limit("1.5 GiB")), (24_846_385_807, 100_000_000, 3 << 29));
    s.run(&["fit", "small.toml", "--memory", "1.5"]).exits(2).complains(&["23.14GiB"]);
    let own = |size: &str| s.run(&["predict", "small.toml", "--set", &format!("allocator.memory_limit=\"{size}\"")]);
    assert!(own("90.25MiB").exits(0).stdout.contains("its memory_limit of 90.25 MiB"));
    own("90.25B").exits(2);
}

#[test]
fn a_key_is_unset_for_every_command_that_sets() {
    let s = Sandbox::new();
    s.write("amp.toml", &SMALL.replace("steps = 1", "steps = 1\namp = \"bf16\"")).write("small.toml", SMALL);
    let of = |command: &[&str], file: &str, more: &[&str]| s.run(&[command, &[file], more].concat()).exits(0).stdout;
    let unset = ["--unset", "train.amp"];
    for command in [&["predict"][..], &["explain"], &["summary"], &["replay"], &["export", "torch"]] {
        let without = of(command, "amp.toml", &unset);
        // But for the file's name, which comes first, it is the file without the key.
        assert_eq!(without.replacen("amp", "small", 1), of(command, "small.toml", &[]), "{command:?}");
    }
    assert_ne!(of(&["explain"], "amp.toml", &[]), of(&["explain"], "amp.toml", &unset));
    s.run(&["amp.toml", "--device", "virtual", "--unset", "train.amp", "-q"]).exits(0);
    assert!(s.read("results/amp.run.toml").contains("unset = [\"train.amp\"]"));
    s.run(&["check", "amp.toml", "--unset", "train.batch_size"])
        .exits(2)
        .complains(&["`train.batch_size` is required and cannot be unset"]);
    s.run(&["check", "amp.toml", "--unset", "train.seed"]).exits(2).complains(&["`train.seed` is not set", "--> --unset:1:1"]);
    // An axis is gone with its key.
    s.write("sweep.toml", &format!("{SMALL}\n[sweep]\ntrain.amp = [\"f16\", \"bf16\"]\n"));
    s.run(&["sweep.toml", "--device", "virtual", "--unset", "train.amp", "-q"]).exits(0);
    assert!(!s.read("results/sweep.csv").contains("train.amp"));
}

/// Every answer on these experiments, each as JSON, after runs of what fits and of what comes next.
fn verified(folder: &str, memory: &str) -> Vec<(String, Value)> {
    let files = experiments(folder).into_iter().filter(|f| std::fs::read_to_string(f).unwrap().contains("[train]"));
    let mut found = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let out = Sandbox::new().run(&["fit", file.to_str().unwrap(), "--memory", memory, "--verify", "--json"]);
        // That nothing fits is an answer too.
        assert!([0, 1].contains(&out.code), "{name}: {out:?}");
        let answer: Value = serde_json::from_str(&out.stdout).unwrap();
        for case in answer["cases"].as_array().unwrap() {
            let switches = case["switches"].as_array().unwrap();
            assert!(switches.len() >= 3, "{name}: {switches:?}");
            assert!(switches.iter().all(|s| s["runs_agree"] == Value::Bool(true)), "{name}: {switches:?}");
            found.push((name.to_string(), switches[0].clone()));
        }
    }
    found
}

#[test]
fn no_run_refutes_what_is_named_for_any_experiment() {
    for (name, as_written) in verified("", "2GiB") {
        assert!(as_written["largest"].as_u64().unwrap() >= 1, "{name}");
    }
}

#[test]
fn no_run_refutes_what_is_named_for_any_network() {
    for (name, as_written) in verified("networks", "24GiB") {
        assert_eq!(as_written["largest"].as_u64() == Some(0), name == "gpt3", "{name}");
    }
}

#[test]
fn switches_say_what_they_gain() {
    let adam = repository().join("experiments/adam.toml");
    let out = Sandbox::new().run(&["fit", adam.to_str().unwrap(), "--gpu", "rtx3090", "--json"]).exits(0);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(
        answer["memory_limit"].as_u64().unwrap()
            + answer["outside"]["context"].as_u64().unwrap()
            + answer["outside"]["libraries"].as_u64().unwrap(),
        answer["total_memory"].as_u64().unwrap()
    );
    let switches = answer["cases"][0]["switches"].as_array().unwrap();
    let of = |name: &str| switches.iter().find(|s| s["switch"].as_str().unwrap().starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
    let base = of("as written");
    let figure = |s: &Value, key: &str| s[key].as_u64().unwrap();
    for name in [
        "amp = \"f16\"",
        "amp = \"bf16\"",
        "dtype = \"bf16\"",
        "checkpointing = true",
        "checkpointing = { segments",
        "batch_size = ",
        "adam: implementation = \"fused\"",
        "adam: implementation = \"for_loop\"",
        "optimizer = \"sgd\"",
        "inplace = true: relu",
        "expandable_segments",
    ] {
        of(name);
    }
    assert!(figure(of("optimizer = \"sgd\""), "peak") < figure(base, "peak"));
    assert!(figure(of("dtype = \"bf16\""), "largest") > figure(base, "largest"));
    assert!(figure(of("inplace = true"), "largest") > figure(base, "largest"));
    assert_eq!((figure(base, "recomputed_bytes"), figure(of("checkpointing = true"), "recomputed_bytes") > 0), (0, true));
    let note = |s: &Value| s["note"].as_str().unwrap().to_string();
    assert_eq!(
        (note(of("optimizer = \"sgd\"")).as_str(), note(of("batch_size = ")).as_str()),
        ("another optimizer", "the same effective batch")
    );
}

#[test]
fn a_sweep_is_answered_case_by_case_without_the_axis() {
    let s = Sandbox::new();
    s.write("sweep.toml", &format!("{SMALL}\n[sweep]\ntrain.batch_size = [1, 2]\ntrain.dtype = [\"f32\", \"bf16\"]\n"));
    let out = s.run(&["fit", "sweep.toml", "--memory", "256MiB", "--json"]).exits(0);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let cases = answer["cases"].as_array().unwrap();
    assert_eq!(
        cases.iter().map(|c| c["case"].as_str().unwrap()).collect::<Vec<_>>(),
        ["train.batch_size=1 train.dtype=f32", "train.batch_size=1 train.dtype=bf16"]
    );
}

#[test]
fn fit_says_what_it_cannot_answer() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).write("script.toml", "[allocations]\nsteps = [\"empty_cache\"]\n");
    s.run(&["fit", "small.toml"]).exits(2).complains(&["--memory", "--gpu"]);
    s.run(&["fit", "small.toml", "--memory", "much"]).exits(2).complains(&["24GiB"]);
    s.run(&["fit", "small.toml", "--gpu", "rtx309"]).exits(2).complains(&["rtx3090"]);
    s.run(&["fit", "small.toml", "--memory", "1GiB", "--axis", "train.batchsize"]).exits(2).complains(&["batch_size"]);
    s.run(&["fit", "small.toml", "--memory", "1GiB", "--axis", "train.dtype"]).exits(2).complains(&["dtype"]);
    s.run(&["fit", "script.toml", "--memory", "1GiB"]).exits(2);
    let out = s.run(&["fit", "small.toml", "--memory", "1KiB"]).exits(1);
    assert!(out.stdout.contains("not even train.batch_size = 1 fits"), "{}", out.stdout);
    let out = s.run(&["fit", "small.toml", "--memory", "1GiB", "--axis", "train.steps"]).exits(0);
    assert!(out.stdout.contains("memory does not depend on train.steps"), "{}", out.stdout);
}

/// The case as it stands, of an answer as JSON.
fn as_written(s: &Sandbox, file: &str, axis: &str) -> Value {
    let out = s.run(&["fit", file, "--memory", "1GiB", "--json", "--axis", axis]);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    answer["cases"][0]["switches"][0].clone()
}

#[test]
fn json_tells_apart_what_depends_on_no_value_and_what_is_level_from_one_on() {
    let s = Sandbox::new();
    // Adam's moments are there from the first step's end on: with one step nothing of the second is seen.
    s.write("small.toml", SMALL).write("adam.toml", &SMALL.replace("\"sgd\"", "\"adam\"").replace("steps = 1", "steps = 3"));
    let of = |file: &str, axis: &str| {
        let found = as_written(&s, file, axis);
        (found["answer"].as_str().unwrap().to_owned(), found["largest"].as_u64(), found["level_from"].as_u64())
    };
    assert_eq!(of("small.toml", "train.steps"), ("indifferent".to_owned(), None, Some(1)));
    assert_eq!(of("adam.toml", "train.accumulation_steps"), ("level".to_owned(), None, Some(2)));
    let (answer, largest, level) = of("small.toml", "train.batch_size");
    assert_eq!((answer.as_str(), largest.is_some(), level), ("largest", true, None));
    let out = s.run(&["fit", "adam.toml", "--memory", "1GiB", "--axis", "train.accumulation_steps", "--verify"]).exits(0);
    assert!(out.stdout.contains("memory does not grow with train.accumulation_steps from 2 on"), "{}", out.stdout);
    assert!(out.stdout.contains("any from 2") && !out.stdout.contains("DIFFER"), "{}", out.stdout);
}

#[test]
fn an_axis_that_the_file_does_not_say_begins_where_the_language_takes_it() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let out = s.run(&["fit", "small.toml", "--memory", "1GiB", "--axis", "allocator.max_split_size_mb"]).exits(0);
    assert!(out.stdout.contains("with allocator.max_split_size_mb = 32"), "{}", out.stdout);
    let refused = s.run(&["fit", "small.toml", "--memory", "1GiB", "--axis", "train.dtype"]).exits(2);
    assert!(refused.stderr.contains("train.dtype=1"), "{}", refused.stderr);
}

#[test]
fn a_switch_that_ends_elsewhere_says_why() {
    let s = Sandbox::new();
    let deep = format!("layers = [{}]", ["{ linear = { out_features = 8 } }"; 5].join(", "));
    s.write(
        "deep.toml",
        &SMALL
            .replace("layers = [{ linear = { out_features = 4 } }]", &deep)
            .replace("steps = 1", "steps = 1\ncheckpointing = { segments = 2 }"),
    );
    let out = s.run(&["fit", "deep.toml", "--memory", "1GiB", "--axis", "train.checkpointing.segments"]).exits(0);
    let sentence = "train.checkpointing.segments = 5 fits, in 10 steps of training, and 6 is refused: 6 segments of a model with 5";
    assert!(out.stdout.contains(sentence), "{}", out.stdout);
    assert!(out.stdout.contains("checkpointing = true: train.checkpointing.segments = 1 is refused: "), "{}", out.stdout);
}

#[test]
fn what_the_machine_cannot_hold_is_not_verified_on_the_host() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    s.run(&["fit", "small.toml", "--memory", "16MiB", "--verify", "--device", "host"]).exits(1).complains(&[]);
    let out = s.run(&["fit", "small.toml", "--memory", "80MiB", "--verify", "--device", "host"]).exits(0);
    assert!(out.stdout.contains("agree") && !out.stdout.contains("DIFFER"), "{}", out.stdout);
    let out = s.run(&["fit", "small.toml", "--memory", "64TiB", "--verify", "--device", "host"]);
    out.exits(1).complains(&["as written: needs", "of memory on the host", "nothing was run"]);
}

#[test]
fn predict_asks_of_so_much_memory_as_fit_does() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let out = s.run(&["predict", "small.toml", "--memory", "80MiB"]).exits(0);
    assert!(out.stdout.contains("fits in 80.00 MiB for the allocator; ") && out.stdout.contains(" at most in 1 step, "), "{}", out.stdout);
    let out = s.run(&["predict", "small.toml", "--memory", "8MiB"]).exits(1);
    let (out, verdict) = (&out, "does not fit in 8.00 MiB for the allocator; out of memory in step 1 forward, asking for ");
    assert!(out.stdout.contains(verdict), "{}", out.stdout);
    assert!(out.stdout.contains(" left to reserve and ") && out.stdout.contains("; without a limit 6"), "{}", out.stdout);
    assert!(out.stdout.contains("out of memory"), "the table is that of a run in so much: {}", out.stdout);
    let out = s.run(&["predict", "small.toml", "--memory", "1B"]).exits(1);
    assert!(out.stdout.contains("predicted 1 row; "), "{}", out.stdout);
    // More than the GPU has, and a limit of the file's own below it.
    let out = s.run(&["predict", "small.toml", "--memory", "1TiB", "--gpu", "t4", "--set", "train.batch_size=320000000"]).exits(0);
    assert!(out.stdout.contains("fits in 1.00 TiB for the allocator") || out.stdout.contains("1024.00 GiB"), "{}", out.stdout);
    let out = s.run(&["predict", "small.toml", "--memory", "1GiB", "--set", "allocator.memory_limit=\"90MiB\""]).exits(0);
    assert!(out.stdout.contains("fits in its memory_limit of 90.00 MiB"), "{}", out.stdout);
    // Expandable segments grow by whole pages.
    let out = s.run(&["predict", "small.toml", "--memory", "78MiB", "--set", "allocator.expandable_segments=true"]).exits(0);
    assert!(out.stdout.contains("82.00 MiB reserved at most in 1 step, whole pages reach 4.00 MiB past the limit"), "{}", out.stdout);
    // What fit finds is what predict says of as many steps.
    let found = as_written(&s, "small.toml", "train.batch_size")["largest"].as_u64().unwrap();
    let with = |batch: u64| {
        s.run(&["predict", "small.toml", "--memory", "1GiB", "--set", "train.steps=10", "--set", &format!("train.batch_size={batch}")])
    };
    with(found).exits(0);
    with(found + 1).exits(1);
}

/// The switches' names.
fn switches(s: &Sandbox, settings: &[&str]) -> Vec<String> {
    s.write("small.toml", SMALL);
    let out = s.run(&[&["fit", "small.toml", "--memory", "256MiB", "--json"], settings].concat()).exits(0);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    answer["cases"][0]["switches"].as_array().unwrap().iter().map(|s| s["switch"].as_str().unwrap().to_string()).collect()
}

#[test]
fn batches_are_cut_by_their_smallest_factor_and_into_samples() {
    let s = Sandbox::new();
    for (batch, expected) in [
        (1, &[][..]),
        (7, &["batch_size = 1, accumulation_steps = 7"]),
        (12, &["batch_size = 6, accumulation_steps = 2", "batch_size = 1, accumulation_steps = 12"]),
        (35, &["batch_size = 7, accumulation_steps = 5", "batch_size = 1, accumulation_steps = 35"]),
    ] {
        let mut cuts = switches(&s, &["--set", &format!("train.batch_size={batch}")]);
        cuts.retain(|name| name.starts_with("batch_size"));
        assert_eq!(cuts, expected);
    }
}

#[test]
fn every_optimizer_has_other_implementations_to_try() {
    let s = Sandbox::new();
    for optimizer in OPTIMIZERS {
        let names = switches(&s, &["--set", &format!("train.optimizer={}", optimizer.name)]);
        let other = format!("{}: implementation = \"for_loop\"", optimizer.name);
        assert!(names.contains(&other), "{names:?}");
    }
    for with_momentum in ["sgd={momentum=0.9,nesterov=true}", "rmsprop={momentum=0.9}"] {
        let names = switches(&s, &["--set", &format!("train.optimizer={{{with_momentum}}}")]);
        assert!(names.iter().any(|name| name.ends_with(": momentum = 0")), "{with_momentum}: {names:?}");
    }
}

#[test]
fn what_the_language_refuses_is_not_said_to_be_too_large() {
    let s = Sandbox::new();
    let text = "
[model]
input = { tokens = { length = 8, vocabulary = 16 } }
layers = [{ embedding = { num_embeddings = 16, embedding_dim = 4 } }, { position_embedding = { max_length = 32 } }]

[train]
batch_size = 2
optimizer = \"sgd\"
";
    s.write("positions.toml", text);
    let fit = ["fit", "positions.toml", "--memory", "1GiB", "--axis", "model.input.tokens.length"];
    let out = s.run(&[&fit[..], &["--verify"]].concat()).exits(0);
    let sentence = "model.input.tokens.length = 32 fits, in 10 steps of training, and 33 is refused: position_embedding knows 32 positions, but its \
                    input has 33";
    assert!(out.stdout.contains(sentence), "{}", out.stdout);
    assert!(!out.stdout.contains("DIFFER"), "{}", out.stdout);
    let json: Value = serde_json::from_str(&s.run(&[&fit[..], &["--json"]].concat()).exits(0).stdout).unwrap();
    let next = json["cases"][0]["switches"][0]["next_is_refused"].as_str().unwrap();
    assert!(sentence.ends_with(next), "{next}");
    // The case as it stands: as a run words it.
    let long = ["--set", "model.input.tokens.length=33"];
    let run = s.run(&[&["positions.toml", "--device", "virtual"], &long[..]].concat()).exits(2);
    let out = s.run(&[&["fit", "positions.toml", "--memory", "1GiB"], &long[..]].concat()).exits(2);
    assert_eq!((out.stdout.as_str(), out.stderr), ("", run.stderr));
}

#[test]
fn micro_steps_are_an_axis_that_comes_to_an_end() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let axis = ["fit", "small.toml", "--memory", "1GiB", "--axis", "train.accumulation_steps"];
    let out = s.run(&[&axis[..], &["--verify"]].concat()).exits(0);
    assert!(out.stdout.contains("memory does not") && out.stdout.contains("train.accumulation_steps"), "{}", out.stdout);
    assert!(!out.stdout.contains("DIFFER"), "{}", out.stdout);
}

#[test]
fn a_mistaken_axis_is_told_as_an_axis() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).write("script.toml", "[allocations]\nsteps = [\"empty_cache\"]\n").write("folder/small.toml", SMALL);
    let fit = |file: &str, axis: &str| s.run(&["fit", file, "--memory", "1GiB", "--axis", axis]).exits(2);
    let out = fit("small.toml", "train.dtype").complains(&["--> --axis:1:13", "an axis is a whole number of the experiment"]);
    assert!(!out.stderr.contains("--set"), "{}", out.stderr);
    fit("small.toml", "batch_size").complains(&["did you mean `train.batch_size`?"]);
    fit("script.toml", "train.batch_size").complains(&["script.toml: [allocations] is a script"]);
    fit("folder", "train.batch_size").complains(&["folder: is a folder"]);
}

#[test]
fn where_nothing_fits_it_says_where_it_runs_out() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let out = s.run(&["fit", "small.toml", "--memory", "1MiB"]).exits(1);
    assert!(
        out.stdout.contains(
            "not even train.batch_size = 1 fits: out of memory in model, asking for 128 B (a segment of 2.00 MiB) with 1.00 MiB left to \
             reserve and 0 B reserved but unused; as written 6"
        ),
        "{}",
        out.stdout
    );
    assert!(out.stdout.contains("peak and reserved: with train.batch_size = 2; largest: of train.batch_size"), "{}", out.stdout);
}

#[test]
fn the_experiments_own_limit_counts_where_it_is_less() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).write("limited.toml", &format!("{SMALL}\n[allocator]\nmemory_limit = \"80MiB\"\n"));
    let largest = |file: &str, memory: &str| {
        let out = s.run(&["fit", file, "--memory", memory, "--json"]).exits(0);
        let case = serde_json::from_str::<Value>(&out.stdout).unwrap()["cases"][0].clone();
        (case["memory_limit"].as_u64().unwrap() >> 20, case["switches"][0]["largest"].as_u64().unwrap())
    };
    assert_eq!(largest("limited.toml", "1GiB"), largest("small.toml", "80MiB"));
    assert_eq!(largest("limited.toml", "70MiB"), largest("small.toml", "70MiB"));
    let sentence = "its own memory_limit of 80.00 MiB is less, and counts\n";
    let said = |memory: &str| s.run(&["fit", "limited.toml", "--memory", memory, "--verify"]).exits(0).stdout;
    let (more, less) = (said("1GiB"), said("70MiB"));
    assert!(more.contains(sentence) && more.contains("agree") && !more.contains("DIFFER"), "{more}");
    assert!(!less.contains("its own memory_limit"), "{less}");
    // It is no axis.
    let axis = ["fit", "limited.toml", "--memory", "1GiB", "--axis", "allocator.memory_limit"];
    s.run(&axis).exits(2).complains(&["--axis allocator.memory_limit: that is what there is", "--memory"]);
}

#[test]
fn a_boundary_is_said_to_be_one() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let boundary = "the boundary that bisection found: larger values may fit again";
    assert!(s.run(&["fit", "small.toml", "--memory", "1GiB"]).exits(0).stdout.contains(boundary));
    let level = s.run(&["fit", "small.toml", "--memory", "1GiB", "--axis", "train.steps"]).exits(0);
    assert!(!level.stdout.contains(boundary), "{}", level.stdout);
}
