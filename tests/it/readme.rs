//! The README, held to its word: its commands run, and its figures are in the results.

use std::fs::read_to_string;

use crate::support::{Sandbox, repository, rows};

fn readme() -> String {
    read_to_string(repository().join("README.md")).unwrap()
}

/// The blocks in that language.
fn blocks(language: &str) -> Vec<String> {
    let opened = format!("```{language}\n");
    readme().split(&opened).skip(1).map(|b| b.split("```").next().unwrap().to_string()).collect()
}

/// The lines of all `sh` blocks, and the exit code that each is said to have.
fn commands() -> Vec<(String, i32)> {
    let text = blocks("sh").concat();
    let lines = text.lines().map(|l| l.split_once(" #").unwrap_or((l, "")));
    let commands = lines.map(|(command, note)| (command.trim().to_string(), i32::from(note.contains("exits 1"))));
    commands.filter(|(command, _)| !command.is_empty()).collect()
}

/// A folder with the experiments, and the program as `runner` on its path.
fn clone() -> Sandbox {
    let s = Sandbox::new();
    for folder in ["experiments", "experiments/data"] {
        std::fs::create_dir_all(s.path(folder)).unwrap();
        for entry in std::fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                std::fs::copy(&path, s.path(folder).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    s.shell("mkdir -p target bin && ln -s \"$RUNNER\" bin/runner").exits(0);
    s
}

#[test]
fn its_commands_run() {
    let s = clone();
    let mut ran = 0;
    for (command, code) in commands() {
        // This test is part of `cargo test`; and what `cargo run` would build is built.
        if command.starts_with("cargo test") || command.starts_with("cargo bench") || command == ".ci/run" {
            continue;
        }
        let rest = command.strip_prefix("cargo run --release -- ").or(command.strip_prefix("runner "));
        let rest = rest.unwrap_or_else(|| panic!("the README names a command that this test does not know: {command}"));
        s.shell(&format!("\"$RUNNER\" {rest}")).exits(code);
        ran += 1;
    }
    assert!(ran >= 3, "the README names {ran} commands");
    assert_eq!(untidy(&s), Vec::<String>::new(), "a clean clone is clean after the README's commands");
}

/// Files outside `target` that a clone has not, or has otherwise; `.gitignore` hides what lies beside results and is no CSV.
fn untidy(s: &Sandbox) -> Vec<String> {
    let listed = s.shell("find . -type f ! -path './target/*' ! -path './bin/*'").exits(0).stdout;
    let hidden = [".training.csv", ".run.toml", ".journal.jsonl", ".html"];
    let seen = |name: &&str| !(name.starts_with("./results/") && hidden.iter().any(|end| name.ends_with(end)));
    let same = |name: &str| std::fs::read(repository().join(name)).is_ok_and(|bytes| bytes == std::fs::read(s.path(name)).unwrap());
    listed.lines().filter(seen).filter(|name| !same(name)).map(str::to_owned).collect()
}

#[test]
fn its_job_array_is_the_sweep_in_shares() {
    let s = clone();
    let scripts = blocks("bash");
    assert_eq!(scripts.len(), 1);
    s.write("job.sh", &scripts[0]);
    // The second time everything is done.
    for _ in 0..2 {
        for task in 1..=4 {
            s.shell(&format!("PATH=$PWD/bin:$PATH SLURM_ARRAY_TASK_ID={task} sh job.sh")).exits(0);
        }
    }
    s.shell("\"$RUNNER\" merge all.csv target/array/batch_sweep.shard-*.csv").exits(0);
    assert_eq!(s.read("all.csv"), read_to_string(repository().join("results/batch_sweep.csv")).unwrap());
}

#[test]
fn its_workflow_checks_what_is_committed() {
    let s = clone();
    let steps = blocks("yaml").concat();
    let step = steps.lines().find_map(|l| l.trim().strip_prefix("- run: ").filter(|l| l.starts_with("runner check"))).unwrap();
    let run = || s.shell(&format!("PATH=$PWD/bin:$PATH GITHUB_STEP_SUMMARY=summary.md sh -c '{step}'"));
    s.shell(&format!("cp -r {} results", repository().join("results").display())).exits(0);
    run().exits(0);
    s.shell("sed -i 's/out_features = 1024/out_features = 2048/' experiments/adamw.toml").exits(0);
    run().exits(1);
    assert!(s.read("summary.md").contains("adamw"));
}

#[test]
fn its_pictures_are_there() {
    let text = readme();
    let pictures: Vec<&str> = text.split(['(', ')', '"']).filter(|l| l.ends_with(".png")).collect();
    assert!(pictures.iter().filter(|p| p.ends_with(".dark.png")).count() >= 2, "a run and a sweep in the dark: {pictures:?}");
    for picture in pictures {
        assert!(repository().join(picture).exists(), "{picture}");
    }
}

#[test]
fn it_names_every_layer_loss_and_optimizer() {
    let text = readme();
    let layers = runner::model::layer::KINDS.iter().map(|kind| kind.name);
    let optimizers = runner::experiment::tables::OPTIMIZERS.iter().map(|optimizer| optimizer.name);
    let fields = runner::experiment::tables::TRAIN.iter().map(|field| field.name);
    for name in layers.chain(optimizers).chain(fields).chain(runner::model::Loss::NAMES.iter().copied()) {
        assert!(text.contains(&format!("`{name}`")) || text.contains(&format!("{name} = ")), "{name}");
    }
}

#[test]
fn its_experiments_load() {
    let text = readme();
    let s = Sandbox::new();
    for name in ["digits-images.idx", "digits-labels.idx"] {
        let data = std::fs::read(repository().join("experiments/data").join(name)).unwrap();
        s.write_bytes(&format!("experiments/data/{name}"), &data);
    }
    for (number, block) in text.split("```toml\n").skip(1).map(|b| b.split("```").next().unwrap()).enumerate() {
        let name = format!("experiments/example_{number}.toml");
        s.write(&name, block).run(&["predict", &name]).exits(0);
    }
}

#[test]
fn its_table_is_what_is_printed() {
    let folder = repository().join("experiments/adamw.toml");
    let printed = Sandbox::new().run(&[folder.to_str().unwrap(), "--device", "host"]).exits(0).stdout;
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
