//! Every class of mistake has a file in `tests/fixtures/mistakes` and, beside it, the messages it gives. `BLESS=1` writes them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use runner::experiment::{Overrides, load_with};

/// The folder, relative to the package, so that messages name no machine's paths.
const FOLDER: &str = "tests/fixtures/mistakes";

#[test]
fn every_mistake_has_its_message() {
    let mut failures = String::new();
    for file in files() {
        let expected_file = file.with_extension("txt");
        let overrides = overrides(&file);
        let found = match load_with(&file, &overrides, runner::gpu::Gpu::default_model()) {
            Ok(experiment) => format!("no mistake: {} cases\n", experiment.cases.len()),
            Err(mistakes) => mistakes.to_string(),
        };
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected_file, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_file).unwrap_or_default();
        if found != expected || found.starts_with("no mistake") {
            write!(failures, "== {}\nexpected:\n{expected}\nfound:\n{found}\n", file.display()).unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(FOLDER).unwrap().map(|e| Path::new(FOLDER).join(e.unwrap().file_name())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// A fixture may begin with lines `#! key=value`, what `--set` adds, and `#! --unset key`.
fn overrides(file: &Path) -> Overrides {
    let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
    let mut overrides = Overrides::default();
    for line in text.lines().map_while(|l| l.strip_prefix("#! ")) {
        match line.strip_prefix("--unset ") {
            Some(key) => overrides.unset.push(key.to_owned()),
            None => overrides.set.push(line.to_owned()),
        }
    }
    overrides
}
