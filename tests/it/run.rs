//! `runner FILE…` as a user meets it: what goes in, what comes out, how it ends.

use crate::support::{SMALL, Sandbox, repository, rows};

const COLUMNS: &str = "case,batch_size,dtype,optimizer,accumulation_steps,checkpointing,no_grad,step,micro_step,phase,\
    predicted_allocated,measured_allocated,error_allocated,predicted_peak,measured_peak,error_peak,\
    predicted_reserved,measured_reserved,error_reserved,\
    parameters,buffers,gradients,optimizer_state,activations,inputs,workspace,other,status";

#[test]
fn a_run_prints_a_table_and_writes_three_files() {
    let s = Sandbox::new();
    let out = s.write("small.toml", SMALL).run(&["small.toml", "--device", "virtual"]).exits(0);
    assert_eq!(out.stderr, "");
    assert!(out.stdout.contains("predicted = measured in all 7 rows"), "{}", out.stdout);
    assert!(!out.stdout.contains('\u{1b}'), "no colours in a pipe");
    assert_eq!(s.list("results"), ["small.csv", "small.run.toml", "small.training.csv"]);

    let csv = s.read("results/small.csv");
    assert_eq!(csv.lines().next().unwrap(), COLUMNS);
    let phases: Vec<_> = rows(&csv).iter().map(|r| format!("{}.{} {}", r["step"], r["micro_step"], r["phase"])).collect();
    assert_eq!(phases, ["0.0 model", "1.1 input", "1.1 forward", "1.1 loss", "1.1 backward", "1.1 optimizer", "1.1 zero_grad"]);
    for row in rows(&csv) {
        let number = |column: &str| row[column].parse::<i64>().unwrap();
        let categories = ["parameters", "buffers", "gradients", "optimizer_state", "activations", "inputs", "workspace", "other"];
        assert_eq!(categories.iter().map(|c| number(c)).sum::<i64>(), number("measured_allocated"));
        for figure in ["allocated", "peak", "reserved"] {
            let (predicted, measured) = (number(&format!("predicted_{figure}")), number(&format!("measured_{figure}")));
            assert_eq!(number(&format!("error_{figure}")), predicted - measured);
        }
        assert_eq!((&*row["case"], &*row["batch_size"], &*row["dtype"], &*row["optimizer"]), ("", "2", "f32", "sgd"));
        assert_eq!((&*row["accumulation_steps"], &*row["checkpointing"], &*row["no_grad"], &*row["status"]), ("1", "false", "false", "ok"));
    }
}

#[test]
fn the_host_computes_losses_and_the_virtual_device_none() {
    let s = Sandbox::new();
    s.write("small.toml", &SMALL.replace("steps = 1", "steps = 2\naccumulation_steps = 2"));
    s.run(&["small.toml", "--device", "host", "--out", "host"]).exits(0);
    s.run(&["small.toml", "--device", "virtual", "--out", "virtual"]).exits(0);
    assert_eq!(s.read("host/small.csv"), s.read("virtual/small.csv"));
    let training = s.read("host/small.training.csv");
    assert_eq!(training.lines().next().unwrap(), "step,micro_step,loss,skipped,seconds");
    let host = rows(&training);
    assert_eq!(host.iter().map(|r| (&*r["step"], &*r["micro_step"])).collect::<Vec<_>>(), [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")]);
    for row in &host {
        assert!(row["loss"].parse::<f64>().unwrap().is_finite());
        assert!(row["seconds"].parse::<f64>().unwrap() >= 0.0);
        assert_eq!(row["skipped"], "false");
    }
    assert!(rows(&s.read("virtual/small.training.csv")).iter().all(|r| r["loss"].is_empty()));
}

#[test]
fn two_runs_write_the_same_bytes() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).run(&["small.toml", "--out", "a"]).exits(0);
    s.run(&["small.toml", "--out", "b"]).exits(0);
    assert_eq!(s.read("a/small.csv"), s.read("b/small.csv"));
}

#[test]
fn the_run_file_says_what_ran_where() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).run(&["small.toml", "--device", "virtual", "--gpu", "t4", "--set", "train.batch_size=3"]).exits(0);
    let run: toml::Table = s.read("results/small.run.toml").parse().unwrap();
    assert_eq!(run["name"].as_str(), Some("small"));
    assert_eq!(run["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(run["device"].as_str(), Some("virtual"));
    assert_eq!(run["gpu"].as_str(), Some("t4"));
    assert_eq!(run["set"].as_array().unwrap()[0].as_str(), Some("train.batch_size=3"));
    assert!(run["started"].as_datetime().unwrap() <= run["ended"].as_datetime().unwrap());
    assert!(run["machine"]["threads"].as_integer().unwrap() >= 1);
    // Linux counts in units of 1024 bytes.
    if let Ok(text) = std::fs::read_to_string("/proc/meminfo") {
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")).unwrap();
        assert_eq!(run["machine"]["memory"].as_integer(), Some(total.trim().parse::<i64>().unwrap() * 1024));
    }
}

#[test]
fn a_sweep_names_its_cases_in_axis_order() {
    let s = Sandbox::new();
    s.write("sweep.toml", &format!("{SMALL}\n[sweep]\ntrain.batch_size = [1, 2]\ntrain.dtype = [\"f32\", \"bf16\"]\n"));
    let out = s.run(&["sweep.toml", "--device", "virtual"]).exits(0);
    let mut cases: Vec<_> = rows(&s.read("results/sweep.csv")).iter().map(|r| r["case"].clone()).collect();
    cases.dedup();
    assert_eq!(
        cases,
        [
            "train.batch_size=1 train.dtype=f32",
            "train.batch_size=1 train.dtype=bf16",
            "train.batch_size=2 train.dtype=f32",
            "train.batch_size=2 train.dtype=bf16"
        ]
    );
    assert!(out.stdout.contains("train.batch_size=2 train.dtype=bf16"), "{}", out.stdout);
    assert!(s.read("results/sweep.training.csv").starts_with("case,step,micro_step,"));
}

#[test]
fn a_key_set_on_the_command_line_overrides_or_sweeps() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).run(&["small.toml", "--device", "virtual", "--set", "train.batch_size=1,2,4"]).exits(0);
    let mut batches: Vec<_> = rows(&s.read("results/small.csv")).iter().map(|r| r["batch_size"].clone()).collect();
    batches.dedup();
    assert_eq!(batches, ["1", "2", "4"]);
}

/// What PyTorch's allocator held, and at most, when an optimizer's step on adam.toml's network ran out of 90 MiB: what an operator was
/// about to return is gone, and what Python's variables held is not.
#[test]
fn memory_that_runs_out_in_an_optimizer_leaves_what_variables_hold() {
    let recorded = [
        ("{adam={implementation=\"foreach\"}}", 79_282_688, 80_890_368),
        ("{adam={implementation=\"for_loop\"}}", 79_284_736, 82_493_952),
        ("{adam={weight_decay=0.1,amsgrad=true}}", 80_844_288, 80_844_288),
        ("{adagrad={implementation=\"foreach\"}}", 76_603_392, 78_211_072),
        ("{adagrad={implementation=\"for_loop\"}}", 76_605_440, 78_211_072),
        ("{rmsprop={momentum=0.9}}", 79_282_688, 80_890_368),
        ("{sgd={momentum=0.9,nesterov=true,weight_decay=0.1,implementation=\"for_loop\"}}", 77_628_928, 78_740_992),
    ];
    let s = Sandbox::new();
    let file = repository().join("experiments/adam.toml");
    for (optimizer, allocated, peak) in recorded {
        let set = format!("train.optimizer={optimizer}");
        let limit = "allocator.memory_limit=94371840";
        s.run(&[file.to_str().unwrap(), "--device", "virtual", "--set", &set, "--set", limit]).exits(1);
        let rows = rows(&s.read("results/adam.csv"));
        let last = rows.last().unwrap();
        assert_eq!((&*last["phase"], &*last["status"]), ("optimizer", "oom"), "{optimizer}");
        for side in ["measured", "predicted"] {
            let found = ["allocated", "peak"].map(|figure| last[&format!("{side}_{figure}")].parse::<u64>().unwrap());
            assert_eq!(found, [allocated, peak], "{side} of {optimizer}");
        }
    }
}

#[test]
fn a_loss_that_is_no_number_is_told_and_is_no_failure() {
    let s = Sandbox::new();
    let diverging = SMALL.replace("steps = 1", "steps = 4").replace("\"sgd\"", "{ sgd = { lr = 1e308 } }");
    let out = s.write("a.toml", &diverging).run(&["a.toml", "--device", "host"]).exits(0);
    let losses: Vec<String> = rows(&s.read("results/a.training.csv")).iter().map(|r| r["loss"].clone()).collect();
    assert!(losses[0].parse::<f64>().unwrap().is_finite(), "{losses:?}");
    assert!(out.stdout.contains("the loss is ") && out.stdout.contains(" from step 2 on\n"), "{}", out.stdout);
    let out = s.run(&["a.toml", "--device", "host", "--set", "train.optimizer={sgd={lr=1e-3}}"]).exits(0);
    assert!(!out.stdout.contains("the loss is"), "{}", out.stdout);
}

/// What ends is this machine's memory: of the GPU's there is enough, and nothing is said of it.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_this_machine_lacks_is_a_failure_and_no_row() {
    let s = Sandbox::new();
    let steps = r#"{ alloc = { name = "a", shape = [256] } }, { alloc = { name = "b", shape = [536870912] } }, { free = "b" }"#;
    s.write("a.toml", &format!("[allocations]\nsteps = [{steps}]\n"));
    for expandable in ["", " --set allocator.expandable_segments=true"] {
        let line = format!("ulimit -v 1800000; \"$RUNNER\" a.toml --device host{expandable}");
        let out = s.shell(&line).exits(1).complains(&["this machine has not enough memory for it", "asked"]);
        for told in [&out.stdout, &out.stderr] {
            assert!(!told.contains("CUDA") && !told.contains("GPU 0") && !told.contains("fits with"), "{told}");
        }
        let all = rows(&s.read("results/a.csv"));
        assert_eq!(all.iter().map(|r| &*r["status"]).collect::<Vec<_>>(), ["ok"]);
    }
}

#[test]
fn out_of_memory_is_a_row_and_exit_1_and_a_sweep_goes_on() {
    let s = Sandbox::new();
    let sweep = "[allocator]\nmemory_limit = \"128MiB\"\n[sweep]\ntrain.batch_size = [8388608, 1]\n";
    let out = s.write("tight.toml", &format!("{SMALL}{sweep}")).run(&["tight.toml", "--device", "virtual"]).exits(1);
    assert!(out.stdout.contains("out of memory in train.batch_size=8388608 step 1 input"), "{}", out.stdout);
    let all = rows(&s.read("results/tight.csv"));
    let (large, small): (Vec<_>, Vec<_>) = all.iter().partition(|r| r["batch_size"] == "8388608");
    assert_eq!(large.iter().map(|r| (&*r["phase"], &*r["status"])).collect::<Vec<_>>(), [("model", "ok"), ("input", "oom")]);
    assert_eq!(large[1]["error_allocated"], "0", "the failure is predicted too");
    assert_eq!(small.len(), 7);
    assert!(small.iter().all(|r| r["status"] == "ok"));
}

#[test]
fn allocations_leave_the_training_columns_empty() {
    let s = Sandbox::new();
    let text = "[allocations]\nsteps = [{ alloc = { name = \"a\", shape = [100] } }, { free = \"a\" }, \"empty_cache\"]\n";
    s.write("by_hand.toml", text).run(&["by_hand.toml", "--device", "virtual"]).exits(0);
    let all = rows(&s.read("results/by_hand.csv"));
    assert_eq!(
        all.iter().map(|r| (&*r["step"], &*r["micro_step"], &*r["phase"])).collect::<Vec<_>>(),
        [("1", "0", "alloc"), ("2", "0", "free"), ("3", "0", "empty_cache")]
    );
    for column in ["batch_size", "dtype", "optimizer", "accumulation_steps", "checkpointing", "no_grad"] {
        assert_eq!(all[0][column], "");
    }
    assert_eq!((&*all[0]["other"], &*all[2]["measured_reserved"]), ("512", "0"));
}

#[test]
fn a_folder_runs_all_its_experiments() {
    let s = Sandbox::new();
    s.write("e/a.toml", SMALL).write("e/b.toml", SMALL).write("e/notes.txt", "not an experiment");
    s.run(&["e", "--device", "virtual", "--quiet"]).exits(0);
    let csvs: Vec<_> = s.list("results").into_iter().filter(|n| n.ends_with(".csv") && !n.contains("training")).collect();
    assert_eq!(csvs, ["a.csv", "b.csv"]);
}

#[test]
fn what_no_view_makes_a_row_of_is_copied() {
    let s = Sandbox::new();
    s.write(
        "rows.toml",
        "[model]\ninput = { features = [12, 8] }\nlayers = [{ lstm = { hidden_size = 6 } }, \"flatten\", { linear = { out_features = 3 } }]\n\
         [train]\nbatch_size = 4\nsteps = 2\nloss = \"cross_entropy\"\noptimizer = \"adam\"\n",
    );
    for device in ["virtual", "host"] {
        let out = s.run(&["rows.toml", "--device", device]).exits(0);
        assert!(out.stdout.contains("predicted = measured in all 13 rows"), "{device}: {}", out.stdout);
    }
}

#[test]
fn quiet_prints_nothing() {
    let s = Sandbox::new();
    let out = s.write("small.toml", SMALL).run(&["small.toml", "--device", "virtual", "--quiet"]).exits(0);
    assert_eq!((out.stdout.as_str(), out.stderr.as_str()), ("", ""));
}

#[test]
fn colours_can_be_forced_and_refused() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    assert!(s.run(&["small.toml", "--device", "virtual", "--color", "always"]).exits(0).stdout.contains('\u{1b}'));
    assert!(!s.run(&["small.toml", "--device", "virtual", "--color", "never"]).exits(0).stdout.contains('\u{1b}'));
}

#[test]
fn a_reader_that_leaves_early_does_not_stop_the_run() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).shell("\"$RUNNER\" small.toml --device virtual | true").exits(0);
    assert!(s.list("results").contains(&"small.csv".to_string()));
}

#[test]
fn mistakes_in_all_files_are_reported_and_nothing_is_written() {
    let s = Sandbox::new();
    s.write("good.toml", SMALL).write("bad.toml", &SMALL.replace("linear", "linaer")).write("worse.toml", &SMALL.replace("steps", "stepz"));
    s.run(&["good.toml", "bad.toml", "worse.toml", "--device", "virtual"]).exits(2).complains(&[
        "bad.toml",
        "linaer",
        "linear",
        "worse.toml",
        "stepz",
        "steps",
    ]);
    assert!(s.list("results").is_empty());
}

#[test]
fn a_file_that_is_not_there() {
    Sandbox::new().run(&["absent.toml"]).exits(2).complains(&["absent.toml", "No such file"]);
}

#[test]
fn a_folder_without_experiments() {
    let s = Sandbox::new();
    s.write("e/notes.txt", "").run(&["e"]).exits(2).complains(&["no .toml file"]);
}

#[test]
fn two_inputs_that_would_write_the_same_file() {
    let s = Sandbox::new();
    s.write("a/small.toml", SMALL).write("b/small.toml", SMALL);
    s.run(&["a/small.toml", "b/small.toml"]).exits(2).complains(&["a/small.toml", "b/small.toml", "small.csv"]);
    s.write("small.training.toml", SMALL).run(&["a/small.toml", "small.training.toml"]).exits(2).complains(&["small.training.csv"]);
    assert!(s.list("results").is_empty());
}

#[test]
fn an_unknown_gpu_is_answered_with_the_nearest_and_all() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).run(&["small.toml", "--gpu", "rtx309"]).exits(2).complains(&["'rtx3090'", "h200", "t4"]);
}

#[test]
fn no_arguments_are_a_mistake_and_help_is_none() {
    let s = Sandbox::new();
    s.run(&[]).exits(2);
    let help = s.run(&["--help"]).exits(0);
    for word in
        ["runner experiments/adamw.toml", "--device", "--gpu", "--out", "--set", "--quiet", "--color", "replay", "schema", "predict"]
    {
        assert!(help.stdout.contains(word), "help does not say {word}");
    }
}

#[test]
fn a_folder_that_takes_no_files_is_found_out_before_anything_runs() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).write("a_file", "");
    for folder in ["a_file", "a_file/below", "/proc/results"] {
        s.run(&["small.toml", "--device", "virtual", "--out", folder]).exits(2).complains(&[folder]);
    }
    let file = s.run(&["small.toml", "--device", "virtual", "--out", "a_file"]).exits(2);
    file.complains(&["cannot make the folder a_file: a file has that name"]);
}

#[test]
fn a_full_disk_leaves_no_half_file() {
    // Files may not grow beyond nothing: the folder takes files, and every write to one fails.
    let s = Sandbox::new();
    s.write("small.toml", SMALL).write("results/small.csv", "from before");
    s.shell("trap '' XFSZ; ulimit -f 0; exec \"$RUNNER\" small.toml --device virtual").exits(1).complains(&["cannot write", "small.csv"]);
    assert_eq!(s.list("results"), ["small.csv"]);
    assert_eq!(s.read("results/small.csv"), "from before");
}

#[test]
fn a_results_file_that_is_a_folder() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).write("results/small.csv/x", "");
    s.run(&["small.toml", "--device", "virtual"]).exits(2).complains(&["cannot write", "small.csv"]);
    assert_eq!(s.list("results"), ["small.csv"]);
}

#[test]
fn a_run_that_the_machine_cannot_hold_is_refused_before_it_starts() {
    // 115 GB, which the GPU has: on a machine that has them too there is nothing to refuse.
    if std::fs::read_to_string("/proc/meminfo").is_ok_and(|m| m.lines().next().unwrap().len() > "MemTotal:       99999999 kB".len()) {
        return;
    }
    let s = Sandbox::new();
    s.write("huge.toml", &SMALL.replace("batch_size = 2", "batch_size = 3500000").replace("[8]", "[8192]"));
    s.run(&["huge.toml", "--device", "host"]).exits(1).complains(&["huge", "GiB", "--device virtual"]);
    assert!(s.list("results").is_empty());
    s.run(&["huge.toml", "--device", "virtual"]).exits(0);
}

#[test]
fn what_a_newcomer_mistypes_is_answered_with_what_to_write() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let with = |setting: &str| s.run(&["small.toml", "--device", "virtual", "--set", setting]).exits(2);
    with("batch_size=4").complains(&["did you mean `train.batch_size`?"]);
    with("layers=4").complains(&["did you mean `model.layers`?"]);
    with("train.batch_size=\"4\"").complains(&["write 4 without quotes"]);
    with("train.dtype=float16").complains(&["did you mean `f16`?"]);
    with("train.dtype=torch.bfloat16").complains(&["did you mean `bf16`?"]);
    with("model.layers.0.linear.out_features=4").complains(&["a list is set as a whole"]);
    s.run(&["predct", "small.toml"]).exits(2).complains(&["did you mean the command `predict`?"]);
    s.run(&["predict", "small.toml", "--memory", "24G"]).exits(2).complains(&["is 24G meant as 24GiB or as 24GB?"]);
}

#[test]
fn no_gpu_is_told_in_a_line_and_not_at_all_where_nobody_wants_to_hear() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    let out = s.run(&["small.toml"]).exits(0);
    if let Some(note) = out.stderr.lines().next() {
        assert!(note.starts_with("note: running on the host") && note.len() < 200, "{note}");
    }
    assert_eq!(s.run(&["small.toml", "--quiet"]).exits(0).stderr, "");
}

#[test]
fn a_page_or_a_snapshot_that_cannot_be_written_is_a_mistake_of_the_arguments() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).write("config.json", "{}");
    for arguments in [
        &["small.toml", "--device", "virtual", "--snapshot", "small.toml/x.pickle"][..],
        &["export", "torch", "small.toml", "-o", "small.toml/x.py"],
        &["plot", "small.toml", "-o", "small.toml/x.html"],
    ] {
        s.run(arguments).exits(2).complains(&["cannot"]);
    }
}

#[test]
fn steps_that_the_scaler_skipped_are_named_where_rows_differ() {
    let s = Sandbox::new();
    // The gradient of the sum, times the first scale, is more than f16 holds. Adam has no state yet where its first step is skipped.
    s.write("scaled.toml", &SMALL.replace("optimizer = \"sgd\"", "optimizer = \"adam\"\namp = \"f16\""));
    let out = s.run(&["scaled.toml", "--device", "host"]).exits(1);
    assert!(out.stdout.contains("predicted ≠ measured in "), "{}", out.stdout);
    assert!(out.stdout.contains("\nstep 1 was skipped by the gradient scaler, as gradients were not finite: "), "{}", out.stdout);
    let out = s.run(&["scaled.toml", "--device", "host", "--set", "train.batch_size=2,4"]).exits(1);
    assert!(out.stdout.contains("\ntrain.batch_size=4: step 1 was skipped "), "{}", out.stdout);
    let out = s.run(&["scaled.toml", "--device", "virtual"]).exits(0);
    assert!(!out.stdout.contains("skipped"), "{}", out.stdout);
}

#[test]
fn losses_say_whose_they_are_among_several_cases_and_are_told_only_where_computed() {
    let s = Sandbox::new();
    let logged = format!("{SMALL}\n[log]\nevery = 1\n");
    s.write("e/a.toml", &logged).write("e/b.toml", &logged);
    assert_eq!(s.run(&["e", "--device", "virtual"]).exits(0).stderr, "");
    s.run(&["e", "--device", "host"]).exits(0).complains(&["a: step 1: loss ", "b: step 1: loss "]);
    let alone = s.run(&["e/a.toml", "--device", "host"]).exits(0);
    assert!(alone.stderr.starts_with("step 1: loss "), "{}", alone.stderr);
}
