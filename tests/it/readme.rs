//! The README, held to its word: its commands run, and its figures are in the results.

use std::fs::read_to_string;

use crate::support::{Sandbox, repository, rows};

fn readme() -> String {
    read_to_string(repository().join("README.md")).unwrap()
}

/// The lines of all `sh` blocks.
fn commands() -> Vec<String> {
    let text = readme();
    let blocks = text.split("```sh\n").skip(1).map(|b| b.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(|l| l.split(" #").next().unwrap().trim().to_string()).filter(|l| !l.is_empty()).collect()
}

#[test]
fn its_commands_run() {
    let s = Sandbox::new();
    for entry in std::fs::read_dir(repository().join("experiments")).unwrap() {
        let path = entry.unwrap().path();
        s.write(&format!("experiments/{}", path.file_name().unwrap().to_str().unwrap()), &read_to_string(&path).unwrap());
    }
    let mut ran = 0;
    for command in commands() {
        // This test is part of `cargo test`; and what `cargo run` would build is built.
        if command.starts_with("cargo test") || command.starts_with("cargo bench") || command == ".ci/run" {
            continue;
        }
        let rest = command.strip_prefix("cargo run --release -- ").or(command.strip_prefix("runner "));
        let rest = rest.unwrap_or_else(|| panic!("the README names a command that this test does not know: {command}"));
        s.shell(&format!("\"$RUNNER\" {rest}")).exits(0);
        ran += 1;
    }
    assert!(ran >= 3, "the README names {ran} commands");
}

#[test]
fn its_experiments_load() {
    let text = readme();
    let s = Sandbox::new();
    for (number, block) in text.split("```toml\n").skip(1).map(|b| b.split("```").next().unwrap()).enumerate() {
        let name = format!("example_{number}.toml");
        s.write(&name, block).run(&["predict", &name]).exits(0);
    }
}

#[test]
fn its_table_is_what_is_printed() {
    let folder = repository().join("experiments/adamw.toml");
    let printed = Sandbox::new().run(&[folder.to_str().unwrap(), "--device", "virtual"]).exits(0).stdout;
    let table = printed.split("-> ").next().unwrap().trim_end();
    assert!(readme().contains(table), "the README's table is not this one:\n{table}");
}

#[test]
fn its_figures_for_adamw_are_in_the_results() {
    let csv = read_to_string(repository().join("results/adamw.csv")).unwrap();
    let rows = rows(&csv);
    let at = |step: &str, phase: &str, column: &str| -> i64 {
        rows.iter().find(|r| r["step"] == step && r["phase"] == phase).unwrap()[column].parse().unwrap()
    };
    // What the README says, and where it is read: phase, category, and its growth over the phase before.
    let paragraph = [
        ("4194304", at("0", "model", "parameters")),
        ("4096", at("1", "input", "inputs")),
        ("4096", at("1", "forward", "activations")),
        ("512", at("1", "loss", "activations") - at("1", "forward", "activations")),
        ("4194304", at("1", "backward", "gradients")),
        ("8388608", at("1", "optimizer", "optimizer_state")),
        ("0", at("2", "optimizer", "optimizer_state") - at("1", "zero_grad", "optimizer_state")),
        ("33554432", at("1", "forward", "workspace")),
        ("33554432", at("1", "backward", "workspace") - at("1", "forward", "workspace")),
    ];
    let readme = readme();
    for (said, found) in paragraph {
        assert_eq!(said, found.to_string());
        assert!(readme.replace(',', "").contains(said), "the README does not say {said}");
    }
}
