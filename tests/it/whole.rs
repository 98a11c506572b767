//! Where outputs go that are no ordinary file: links, streams, names that are too long.

use crate::data::files::{classifier, write_samples};
use crate::support::{SMALL, Sandbox, repository};

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_what_it_points_to_is_replaced() {
    let s = Sandbox::new();
    s.write("a.toml", SMALL).write("elsewhere/target.csv", "old").write("results/b", "");
    std::os::unix::fs::symlink(s.path("elsewhere/target.csv"), s.path("results/a.csv")).unwrap();
    s.run(&["a.toml", "--device", "virtual"]).exits(0);
    assert!(std::fs::symlink_metadata(s.path("results/a.csv")).unwrap().is_symlink());
    assert!(s.read("elsewhere/target.csv").contains("measured_allocated"), "{}", s.read("elsewhere/target.csv"));
    assert_eq!(s.list("elsewhere"), ["target.csv"]);
}

#[cfg(unix)]
#[test]
fn a_link_to_what_is_not_there_yet_stays_a_link() {
    let s = Sandbox::new();
    s.write("a.toml", SMALL).write("elsewhere/b", "").write("results/b", "");
    std::os::unix::fs::symlink("../elsewhere/new.csv", s.path("results/a.csv")).unwrap();
    s.run(&["a.toml", "--device", "virtual"]).exits(0);
    assert!(std::fs::symlink_metadata(s.path("results/a.csv")).unwrap().is_symlink());
    assert!(s.read("elsewhere/new.csv").contains("measured_allocated"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_stream_is_written_to_and_not_replaced() {
    let s = Sandbox::new();
    s.write("a.toml", SMALL);
    s.run(&["a.toml", "--device", "virtual", "--quiet"]).exits(0);
    let page = s.run(&["plot", "results/a.csv", "--quiet", "-o", "/dev/stdout"]).exits(0);
    assert!(page.stdout.starts_with("<!") && page.stdout.trim_end().ends_with("</html>"), "{}", page.stdout);
    s.run(&["plot", "results/a.csv", "-o", "/dev/null"]).exits(0);
    // Also where no temporary file can be made.
    let out = s.shell("TMPDIR=/no/such/folder \"$RUNNER\" plot results/a.csv --quiet -o /dev/stdout").exits(0);
    assert_eq!(out.stdout, page.stdout);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

/// A full disk is nobody's wrong argument, and a path that leads nowhere is: every command that writes says so alike.
#[cfg(target_os = "linux")]
#[test]
fn every_command_answers_a_full_disk_alike_and_a_wrong_path_alike() {
    let s = Sandbox::new();
    let config = std::fs::read_to_string(repository().join("tests/fixtures/import/gpt2.json")).unwrap();
    s.write("a.toml", SMALL).write("config.json", &config).write("folder/x", "");
    s.write("npy.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }"));
    write_samples(&s);
    s.run(&["a.toml", "--device", "virtual", "--shard", "1/1", "--quiet"]).exits(0);
    let shard = "results/a.shard-1-of-1.csv";
    let commands: [&[&str]; 8] = [
        &["plot", shard, "-o"],
        &["export", "torch", "a.toml", "-o"],
        &["import", "config.json", "-o"],
        &["a.toml", "--device", "virtual", "--snapshot"],
        &["replay", "a.toml", "--csv"],
        &["replay", "a.toml", "--stats"],
        &["replay", "a.toml", "--events"],
        &["pack", "npy.toml"],
    ];
    let with = |command: &[&str], path: &'static str| s.run(&[command, &[path]].concat());
    for command in commands {
        with(command, "/dev/full").exits(1).complains(&["cannot write /dev/full", "No space left"]);
        with(command, "no/such/folder/file").exits(2).complains(&["cannot write no/such/folder/file"]);
        with(command, "folder").exits(2).complains(&["cannot write folder"]);
    }
    s.run(&["merge", "/dev/full", shard]).exits(1).complains(&["cannot write /dev/full"]);
    s.run(&["merge", "folder", shard]).exits(2).complains(&["cannot write folder"]);
    assert_eq!(s.list("folder"), ["x"]);
}

/// A stderr that takes nothing: notes go nowhere, and the exit code is what it is.
#[cfg(target_os = "linux")]
#[test]
fn a_full_stderr_stops_nobody() {
    let s = Sandbox::new();
    s.write("a.toml", SMALL).write("bad.toml", "[model]");
    s.shell("timeout 60 \"$RUNNER\" a.toml --device host --gpu t4 2>/dev/full").exits(0);
    s.shell("timeout 60 \"$RUNNER\" a.toml 2>/dev/full").exits(0);
    s.shell("timeout 60 \"$RUNNER\" bad.toml 2>/dev/full").exits(2);
}

#[test]
fn a_name_too_long_for_what_lies_beside_it_is_refused_before_anything_is_written() {
    let s = Sandbox::new();
    let name = format!("{}.toml", "n".repeat(250));
    s.write(&name, SMALL);
    s.run(&[&name, "--device", "virtual"]).exits(2).complains(&["name is too long"]);
    assert!(s.list("results").is_empty(), "{:?}", s.list("results"));
}

#[test]
fn counts_that_would_never_end_are_refused() {
    let s = Sandbox::new();
    s.write("a.toml", SMALL).write(
        "b.toml",
        &SMALL.replace("{ linear = { out_features = 4 } }", "{ lstm = { hidden_size = 2, num_layers = 20000 } }").replace("[8]", "[3, 8]"),
    );
    s.run(&["predict", "a.toml", "--set", "train.steps=20000000"]).exits(2).complains(&["20000000", "at most 10000000"]);
    s.run(&["predict", "a.toml", "--set", "train.accumulation_steps=9223372036854775807"]).exits(2).complains(&["accumulation_steps"]);
    s.run(&["predict", "b.toml"]).exits(2).complains(&["num_layers", "at most 10000"]);
}

#[test]
fn nothing_of_a_file_is_a_command_for_a_terminal() {
    let s = Sandbox::new();
    s.write("a\u{1b}[31m.toml", SMALL);
    s.run(&["a\u{1b}[31m.toml", "--device", "virtual"]).exits(2).complains(&["a\u{fffd}[31m.toml: the file's name has a character"]);
    s.write("a.toml", &format!("description = \"\"\"\nfirst\n\\u001B[2Jsecond\"\"\"\n{SMALL}"));
    let out = s.run(&["a.toml", "--device", "virtual", "--color", "always"]).exits(0);
    assert!(out.stdout.contains(": first  [2Jsecond\n"), "{:?}", out.stdout);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_end_is_no_experiment() {
    let s = Sandbox::new();
    s.shell("timeout 60 \"$RUNNER\" /dev/zero").exits(2).complains(&["/dev/zero is no experiment: it has more than 256.00 MiB"]);
}

#[test]
fn a_shard_without_cases_has_no_rows() {
    let s = Sandbox::new();
    s.write("a.toml", SMALL);
    let out = s.run(&["a.toml", "--device", "virtual", "--shard", "2/2"]).exits(0);
    assert!(out.stdout.contains("\nthere are no rows\n"), "{}", out.stdout);
}

/// The exit code of a write that fails is one conversion's, and all that is told goes through the console.
#[test]
fn no_command_answers_for_itself() {
    let mut folders = vec![repository().join("src/cli")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let writes = ["write_whole(", "prepare_folder(", "try_place("].iter().any(|call| line.contains(call));
                assert!(!(writes && line.contains("map_err")), "{}: {line}", path.display());
                assert!(!line.contains("print!(") && !line.contains("println!("), "{}: {line}", path.display());
            }
        }
    }
}
