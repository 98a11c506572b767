//! Gives the program a digest of its own sources, so that it can tell its results from those of another one.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let mut files = vec![PathBuf::from("Cargo.lock")];
    collect(Path::new("src"), &mut files);
    files.sort();
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    for file in &files {
        let text = fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        digest.add(file.to_string_lossy().replace('\\', "/").as_bytes());
        digest.add(&text);
    }
    println!("cargo::rustc-env=RUNNER_SOURCES={:016x}", digest.0);
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-changed=src");
}

/// Every file below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// FNV-1a over parts, each with its length in front.
struct Digest(u64);

impl Digest {
    fn add(&mut self, part: &[u8]) {
        let length = (part.len() as u64).to_le_bytes();
        for &byte in length.iter().chain(part) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
