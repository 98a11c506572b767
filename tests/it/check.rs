//! `runner check`, `completions`, `man`, and what all commands have in common.

use crate::support::{SMALL, Sandbox};

#[test]
fn what_is_the_same_passes_and_what_differs_does_not() {
    let s = Sandbox::new();
    s.write("e/small.toml", SMALL).write("e/other.toml", &SMALL.replace("\"sgd\"", "\"adam\""));
    let out = s.run(&["check", "e"]).exits(1);
    assert!(out.stdout.contains("accept with --update"), "{}", out.stdout);
    assert!(s.list("results").is_empty(), "a check writes nothing");
    let out = s.run(&["check", "e", "--update"]).exits(0);
    assert!(out.stdout.contains("-> results/small.csv"), "{}", out.stdout);
    assert_eq!(s.list("results"), ["other.csv", "small.csv"]);
    s.run(&["check", "e"]).exits(0);
    let before = s.read("results/other.csv");
    s.run(&["e", "--device", "virtual", "--quiet", "--out", "run"]).exits(0);
    assert_eq!(s.read("run/other.csv"), before);

    s.write("e/small.toml", &SMALL.replace("out_features = 4", "out_features = 400000"));
    let out = s.run(&["check", "e"]).exits(1);
    assert!(out.stdout.contains("small") && !out.stdout.contains("other"), "{}", out.stdout);
    assert!(s.run(&["check", "e", "--markdown"]).exits(1).stdout.contains('|'));
    serde_json::from_str::<serde_json::Value>(&s.run(&["check", "e", "--json"]).exits(1).stdout).unwrap();
    assert_eq!(s.run(&["check", "e", "--quiet"]).exits(1).stdout, "");
    let small = s.read("results/small.csv");
    s.run(&["check", "e/other.toml"]).exits(0);
    assert_eq!(s.read("results/small.csv"), small);
    s.run(&["check", "e", "--update"]).exits(0);
    assert_ne!(s.read("results/small.csv"), small);
    s.run(&["check", "e"]).exits(0);
}

#[test]
fn out_of_memory_that_is_expected_passes() {
    let s = Sandbox::new();
    s.write("tight.toml", &format!("{SMALL}\n[allocator]\nmemory_limit = \"1MiB\"\n"));
    s.run(&["check", "tight.toml", "--update"]).exits(0);
    assert!(s.read("results/tight.csv").contains(",oom"));
    s.run(&["check", "tight.toml"]).exits(0);
}

#[test]
fn mistakes_end_a_check_before_it_runs() {
    let s = Sandbox::new();
    s.write("bad.toml", &SMALL.replace("linear", "linaer"));
    s.run(&["check", "bad.toml"]).exits(2).complains(&["linaer"]);
    s.write("small.toml", SMALL).write("results/small.csv", "nonsense\n");
    s.run(&["check", "small.toml"]).exits(2).complains(&["small.csv"]);
    s.run(&["check", "small.toml", "--device", "cuda:999"]).exits(3);
}

#[test]
fn shells_and_man_learn_every_command() {
    let s = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = s.run(&["completions", shell]).exits(0).stdout;
        for word in ["predict", "fit", "explain", "check", "diff", "--shard", "resume"] {
            assert!(script.contains(word.trim_start_matches('-')), "{shell} does not complete {word}");
        }
    }
    s.shell("\"$RUNNER\" completions bash > c.bash && bash -n c.bash").exits(0);
    s.run(&["completions", "tcl"]).exits(2);
    let page = s.run(&["man"]).exits(0).stdout;
    assert!(page.contains(".TH runner") && page.contains("runner experiments/adamw.toml"), "{page}");
    assert!(s.run(&["man", "diff"]).exits(0).stdout.contains("fail"));
    s.run(&["man", "dif"]).exits(2).complains(&["there is no command `dif`", "diff"]);
}

#[test]
fn every_command_has_help_with_examples() {
    let s = Sandbox::new();
    let commands = [
        "predict",
        "fit",
        "explain",
        "check",
        "export torch",
        "diff",
        "plot",
        "merge",
        "replay",
        "schema",
        "devices",
        "selftest",
        "completions",
        "man",
    ];
    for command in commands {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = s.run(&words).exits(0).stdout;
        assert!(help.contains("Example") && help.contains(&format!("runner {command}")), "{command} has no example:\n{help}");
    }
}
