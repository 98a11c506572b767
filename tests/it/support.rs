//! A folder of its own for each test, and the built program run in it as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An experiment of one layer that trains in no time.
pub(crate) const SMALL: &str = r#"
[model]
input = { features = [8] }
layers = [{ linear = { out_features = 4 } }]

[train]
batch_size = 2
steps = 1
optimizer = "sgd"
"#;

/// A temporary folder, gone when the test ends.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

/// What the program printed and returned.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        self.write_bytes(name, text.as_bytes())
    }

    pub(crate) fn write_bytes(&self, name: &str, text: &[u8]) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Names of what lies in a folder, sorted; empty where there is none.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(name)) else { return Vec::new() };
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs the program in this folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(Command::new(runner()).args(arguments), self.folder.path())
    }

    /// Runs a shell line in this folder; `$RUNNER` is the program.
    pub(crate) fn shell(&self, line: &str) -> Outcome {
        outcome(Command::new("sh").arg("-c").arg(line).env("RUNNER", runner()), self.folder.path())
    }
}

impl Outcome {
    /// Asserts the exit code, showing what was printed where it is another.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\n-- stdout\n{}\n-- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that stderr says all of this.
    #[track_caller]
    pub(crate) fn complains(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "stderr does not say {word:?}:\n{}", self.stderr);
        }
        self
    }
}

/// The built program.
pub(crate) fn runner() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_runner"))
}

/// The repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The experiments of the repository: the small ones, or those of networks, by name.
pub(crate) fn experiments(folder: &str) -> Vec<PathBuf> {
    let folder = repository().join("experiments").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    files
}

/// The rows of a CSV, each as its columns by name.
pub(crate) fn rows(csv_text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    csv::Reader::from_reader(csv_text.as_bytes()).deserialize().map(Result::unwrap).collect()
}

fn outcome(command: &mut Command, folder: &Path) -> Outcome {
    let Output { status, stdout, stderr } = command.current_dir(folder).env_remove("NO_COLOR").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}
