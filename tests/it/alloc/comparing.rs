//! `runner replay` over several settings and every kind of source.

use crate::support::{Sandbox, repository, rows};

const RMM: &str = "\
Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000001,allocate,0x7f0000000000,3000000,0x0
1,10:00:00.000002,allocate,0x7f0000400000,1000,0x0
1,10:00:00.000003,free,0x7f0000000000,3000000,0x0
1,10:00:00.000004,allocate failure,0x0,4000000,0x0
2,10:00:00.000005,allocate,0x7f0000000000,2000000,0x1
";

#[test]
fn several_settings_are_a_row_each() {
    let s = Sandbox::new();
    let trace = repository().join("tests/fixtures/replays/activations/trace.csv");
    let trace = trace.to_str().unwrap();
    let outcome = s.run(&[
        "replay",
        trace,
        "--allocator",
        "",
        "--allocator",
        "max_split_size_mb:32",
        "--allocator",
        "expandable_segments:True",
        "--csv",
        "out.csv",
    ]);
    let table = outcome.exits(0).stdout;
    assert!(
        table.starts_with("settings ") && table.contains("\nPyTorch's defaults ") && table.contains("\nmax_split_size_mb:32 "),
        "{table}"
    );
    let rows = rows(&s.read("out.csv"));
    assert_eq!(rows.iter().map(|r| r["settings"].as_str()).collect::<Vec<_>>(), ["", "max_split_size_mb:32", "expandable_segments:True"]);
    // Each is what that setting gives alone.
    for row in &rows {
        s.run(&["replay", trace, "--allocator", &row["settings"], "--stats", "stats.csv"]).exits(0);
        let end = crate::support::rows(&s.read("stats.csv")).pop().unwrap();
        assert_eq!(row["peak_allocated"], end["allocated_bytes.all.peak"]);
        assert_eq!(row["peak_reserved"], end["reserved_bytes.all.peak"]);
        assert_eq!(row["device_allocations"], end["num_device_alloc"]);
        assert_eq!(row["status"], "ok");
    }
    s.run(&["replay", trace, "--allocator", "", "--allocator", "", "--stats", "x.csv"]).exits(2).complains(&["--stats"]);
}

#[test]
fn an_experiment_replays_as_it_runs() {
    let s = Sandbox::new();
    let toml = repository().join("tests/fixtures/snapshots/mlp.toml");
    let toml = toml.to_str().unwrap();
    let ran = s.run(&["summary", toml]).exits(0).stdout;
    let replayed = s.run(&["replay", toml]).exits(0).stdout;
    let fragmentation = replayed.strip_prefix(&ran).unwrap_or_else(|| panic!("{replayed}"));
    // The share that a comparison tells.
    let table = s.run(&["replay", toml, "--allocator", "", "--allocator", ""]).exits(0).stdout;
    let share = fragmentation.strip_prefix("fragmentation: ").and_then(|line| line.split_once(',')).unwrap().0;
    assert!(table.lines().nth(1).unwrap().contains(&format!("  {share}  ")), "{fragmentation}{table}");
    s.run(&["replay", toml, "--set", "train.batch_size=1,2"])
        .exits(2)
        .complains(&["one case is taken, and there are 2", "train.batch_size=2"]);
    let tight = s.run(&["replay", toml, "--memory-limit", "60000000"]).exits(0);
    tight.complains(&["(output, relu of layer 3.relu): CUDA out of memory. Tried to allocate 2.00 MiB."]);
}

#[test]
fn logs_of_rmm_are_replayed() {
    let s = Sandbox::new();
    s.write("rmm.log", RMM);
    let outcome = s.run(&["replay", "rmm.log", "--csv", "out.csv"]).exits(0).complains(&["2 streams took part"]);
    assert!(outcome.stdout.contains("|       from large pool |       1    |       1    |       3    |"), "{}", outcome.stdout);
    assert_eq!(rows(&s.read("out.csv"))[0]["peak_allocated"], "4001280");
    for (line, message) in [
        ("1,t,alloc,0x1,1,0x0", "line 7: `alloc` is no action"),
        ("1,t,free,0x1,1,0x0", "line 7: 0x1 is freed but not allocated"),
        ("1,t,allocate,0x7f0000400000,1,0x0", "line 7: 0x7f0000400000 is allocated already, on line 3"),
        ("1,t,allocate,17,1,0x0", "line 7: `17` is no pointer"),
        ("1,t,allocate,0x1,-1,0x0", "line 7: `-1` is no number of bytes"),
        ("1,t,allocate,0x1", "line 7: expected six fields, found 4"),
    ] {
        s.write("bad.log", &format!("{RMM}{line}\n")).run(&["replay", "bad.log"]).exits(2).complains(&[message]);
    }
}

#[test]
fn what_is_no_history_is_told_as_such() {
    let s = Sandbox::new();
    s.write("x.csv", "a,b\n1,2\n").run(&["replay", "x.csv"]).exits(2).complains(&["x.csv: line 1: expected the header `op,id,bytes`"]);
    std::fs::write(s.path("x.pickle"), b"\x80\x04cos\nsystem\n.").unwrap();
    s.run(&["replay", "x.pickle"]).exits(2).complains(&["x.pickle: byte 2: `GLOBAL` makes Python objects or runs code"]);
}

#[test]
fn requests_that_fail_are_counted_and_the_first_is_told() {
    let s = Sandbox::new();
    let requests: String = (0..100).map(|id| format!("alloc,{id},2000000\n")).collect();
    // The last is refused before anything is tried.
    s.write("many.csv", &format!("op,id,bytes\n{requests}alloc,100,9223372036854775807\n"));
    let limit = ["replay", "many.csv", "--memory-limit", "20MiB", "--csv", "out.csv"];
    let told = s.run(&limit).exits(0).stderr;
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.starts_with("many.csv: line 12: CUDA out of memory. "), "{told}");
    assert!(told.ends_with("\n90 more requests failed, the last of them many.csv: line 102\n"), "{told}");
    let row = &rows(&s.read("out.csv"))[0];
    assert_eq!((row["ooms"].as_str(), row["status"].as_str()), ("91", "oom"));
}
