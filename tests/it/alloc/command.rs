//! `runner replay` as a person meets it: arguments, files, output and exit code.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::Sandbox;

const FIXTURE: &str = "tests/fixtures/replays/small";

fn replay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_runner")).arg("replay").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_recorded_trace_gives_pytorchs_summary_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (trace, addresses) = (format!("{FIXTURE}/trace.csv"), format!("{FIXTURE}/max_split_32/events.csv"));
    let (stats, events) = (file("stats.csv"), file("events.csv"));
    let args = [&trace, "--allocator", "max_split_size_mb:32", "--addresses", &addresses, "--stats", &stats, "--events", &events];
    let output = replay(&args);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let expected = |name: &str| fs::read_to_string(Path::new(FIXTURE).join("max_split_32").join(name)).unwrap();
    let (summary, fragmentation) = text(&output.stdout).split_at(expected("summary.txt").len());
    assert_eq!(summary, expected("summary.txt"));
    assert!(fragmentation.starts_with("fragmentation: ") && fragmentation.lines().count() == 1, "{fragmentation}");
    let last = |text: &str| text.lines().last().unwrap().to_owned();
    assert_eq!(last(&fs::read_to_string(stats).unwrap()), last(&expected("stats.csv")));
    let found = fs::read_to_string(events).unwrap();
    assert_eq!(found.lines().filter(|l| l.starts_with("alloc")).count(), expected("events.csv").matches("\nalloc").count());
}

#[test]
fn a_request_that_fails_is_told_with_its_line_and_the_trace_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "op,id,bytes\nalloc,1,1048576\nalloc,2,4000000\nfree,2,\nfree,1,\n").unwrap();
    let output = replay(&[trace.to_str().unwrap(), "--memory-limit", "4194304"]);
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stderr);
    assert!(told.starts_with(&format!("{}: line 3: CUDA out of memory. Tried to allocate 20.00 MiB.", trace.display())), "{told}");
    assert!(told.contains("4.00 MiB allowed; "), "{told}");
    assert!(text(&output.stdout).contains("CUDA OOMs: 1 "));
}

#[test]
fn mistakes_end_with_2_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.csv").display().to_string();
    fs::write(&bad, "op,id,bytes\nfree,1,\n").unwrap();
    let stats = folder.path().join("stats.csv").display().to_string();
    let (trace, other) = (format!("{FIXTURE}/trace.csv"), format!("{FIXTURE}/expandable/events.csv"));
    for (args, message) in [
        (vec![bad.as_str(), "--stats", &stats], "bad.csv: line 2: 1 is freed but not allocated"),
        (vec!["absent.csv"], "absent.csv: No such file"),
        (vec![&trace, "--stats", &stats, "--addresses", &bad], "bad.csv: there is no column `action`"),
        (vec![&trace, "--stats", &stats, "--addresses", &other], "segment 1 was recorded as 2097152 bytes mapped"),
        (vec![&trace, "--stats", &stats, "--allocator", "max_split_size_mb:5"], "must be at least 20 (MiB)"),
        (vec![&trace, "--stats", &stats, "--gpu", "h201"], "h200"),
        (vec![&trace, "--stats", "/absent/stats.csv"], "/absent/stats.csv"),
    ] {
        let output = replay(&args);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(message), "{args:?}: {told}");
        assert_eq!(text(&output.stdout), "");
        assert!(!Path::new(&stats).exists());
    }
}

const SCRIPT: &str = r#"
[allocations]
steps = [
  { alloc = { name = "a", shape = [1024, 1024] } },
  { alloc = { name = "b", shape = [3000, 1000] } },
  { add = { left = "a", right = "a", into = "c" } },
  { free = "a" },
]
"#;

#[test]
fn a_summary_has_the_peaks_of_the_whole_run() {
    let s = Sandbox::new();
    s.write("script.toml", SCRIPT);
    let summary = s.run(&["summary", "script.toml"]).exits(0).stdout;
    assert!(summary.contains("| Allocated memory      |  16384 KiB |  20480 KiB |  20480 KiB |   4096 KiB |"), "{summary}");
    let two = s.run(&["summary", "script.toml", "--set", "allocator.max_split_size_mb=20,32"]).exits(0).stdout;
    assert!(two.starts_with("script allocator.max_split_size_mb=20\n|====="), "{two}");
}

#[test]
fn a_run_takes_pytorchs_settings_from_the_command_line_the_file_or_the_environment() {
    let s = Sandbox::new();
    let reserved = |summary: String| summary.lines().find(|l| l.contains("GPU reserved memory")).unwrap().to_owned();
    s.write("plain.toml", SCRIPT);
    s.write("own.toml", &format!("[allocator]\nsettings = \"large_segment_size_mb:64\"\n{SCRIPT}"));
    let plain = reserved(s.run(&["summary", "plain.toml"]).exits(0).stdout);
    let own = reserved(s.run(&["summary", "own.toml"]).exits(0).stdout);
    assert!(plain.contains("|  20480 KiB |") && own.contains("|  65536 KiB |"), "{plain}\n{own}");
    assert_eq!(reserved(s.run(&["summary", "plain.toml", "--allocator", "large_segment_size_mb:64"]).exits(0).stdout), own);
    let env = "$RUNNER summary plain.toml --allocator env";
    assert_eq!(reserved(s.shell(&format!("PYTORCH_ALLOC_CONF=large_segment_size_mb:64 {env}")).exits(0).stdout), own);
    let both = "PYTORCH_CUDA_ALLOC_CONF=large_segment_size_mb:64 PYTORCH_ALLOC_CONF=large_segment_size_mb:32";
    assert_eq!(reserved(s.shell(&format!("{both} {env}")).exits(0).stdout), own);
    s.shell(&format!("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:1 {env}"))
        .exits(2)
        .complains(&["PYTORCH_CUDA_ALLOC_CONF: max_split_size_mb is 1, but must be at least 20 (MiB)"]);
}
