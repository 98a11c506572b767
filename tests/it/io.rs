//! Files as strangers hand them over: outputs on inputs and on one another, pipes and devices, names of temporary files, and how much of a
//! text is repeated.

use crate::data::files::{classifier, write_samples};
use crate::support::{SMALL, Sandbox, repository};

/// A sandbox with an experiment, one with data, and a configuration.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.write("a.toml", SMALL).write("npy.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }"));
    s.write("c.json", &std::fs::read_to_string(repository().join("tests/fixtures/import/gpt2.json")).unwrap());
    write_samples(&s);
    s
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let s = sandbox();
    s.write("t.csv", "op,id,bytes\nalloc,1,512\n").write("x.toml", SMALL).write("x.run.toml", SMALL).write("here/x", "");
    let files = ["a.toml", "npy.toml", "x.npy", "y.npy", "c.json", "t.csv", "x.run.toml"];
    let bytes = |name: &str| std::fs::read(s.path(name)).unwrap();
    let before = files.map(bytes);
    let commands: [&[&str]; 12] = [
        &["a.toml", "--device", "virtual", "--snapshot", "a.toml"],
        &["a.toml", "--device", "virtual", "--snapshot", "here/../a.toml"],
        &["npy.toml", "--device", "virtual", "--snapshot", "x.npy"],
        &["x.toml", "x.run.toml", "--device", "virtual", "--out", "."],
        &["export", "torch", "a.toml", "-o", "./a.toml"],
        &["replay", "a.toml", "--csv", "a.toml"],
        &["replay", "t.csv", "--events", "./t.csv"],
        &["replay", "t.csv", "--stats", "t.csv"],
        &["import", "c.json", "-o", "./c.json"],
        &["pack", "npy.toml", "npy.toml"],
        &["pack", "npy.toml", "x.npy"],
        &["pack", "npy.toml", "./y.npy"],
    ];
    for command in commands {
        s.run(command).exits(2).complains(&["would be written over, and is read"]);
    }
    assert_eq!(files.map(bytes), before);
    assert!(s.list("results").is_empty(), "{:?}", s.list("results"));
}

#[cfg(unix)]
#[test]
fn a_link_to_what_is_read_is_what_is_read() {
    let s = sandbox();
    std::os::unix::fs::symlink("a.toml", s.path("link.py")).unwrap();
    s.run(&["export", "torch", "a.toml", "-o", "link.py"]).exits(2).complains(&["link.py would be written over, and is read, as a.toml"]);
    assert_eq!(s.read("a.toml"), SMALL);
}

#[test]
fn no_two_outputs_go_to_one_place() {
    let s = sandbox();
    let commands: [&[&str]; 5] = [
        &["replay", "a.toml", "--csv", "x", "--stats", "x"],
        &["replay", "a.toml", "--stats", "x", "--events", "./x"],
        &["a.toml", "--device", "virtual", "--out", "o1", "--snapshot", "o1/a.csv"],
        &["a.toml", "--device", "virtual", "--out", "./o1", "--snapshot", "o1/a.run.toml"],
        &["a.toml", "--device", "virtual", "--snapshot", "results/a.safetensors", "--set", "save.every=1"],
    ];
    for command in commands {
        s.run(command).exits(2).complains(&["would be written twice"]);
    }
    assert!(!s.path("x").exists() && !s.path("o1").exists() && !s.path("results").exists());
    #[cfg(unix)]
    s.run(&["replay", "a.toml", "--stats", "/dev/null", "--events", "/dev/null"]).exits(0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_named_pipe_is_no_output() {
    let s = sandbox();
    s.shell("mkfifo pipe && mkdir -p results && mkfifo results/b.csv && cp a.toml b.toml").exits(0);
    for command in [
        "a.toml --device virtual --snapshot pipe",
        "b.toml --device virtual",
        "export torch a.toml -o pipe",
        "replay a.toml --csv pipe",
        "import c.json -o pipe",
        "pack npy.toml pipe",
    ] {
        s.shell(&format!("timeout 60 \"$RUNNER\" {command}")).exits(2).complains(&["it is a named pipe or a socket"]);
    }
    let through = s.shell("\"$RUNNER\" export torch a.toml --quiet -o /dev/stdout | cat").exits(0).stdout;
    assert!(through.contains("import torch"), "{through}");
}

#[cfg(target_os = "linux")]
#[test]
fn readers_neither_wait_for_a_pipe_nor_read_without_end() {
    let s = sandbox();
    s.write("t.csv", "op,id,bytes\nalloc,1,512\n");
    s.run(&["a.toml", "--device", "virtual", "--quiet"]).exits(0);
    s.shell("mkfifo pipe pipe.csv").exits(0);
    for command in [
        "predict a.toml --scratch pipe",
        "predict a.toml --calibration pipe",
        "a.toml --device virtual --resume-from pipe",
        "replay pipe",
        "replay t.csv --addresses pipe",
        "diff pipe results/a.csv",
        "merge out.csv pipe",
        "plot pipe.csv",
        "import pipe",
        "calibrate --from pipe -o trees",
    ] {
        s.shell(&format!("timeout 60 \"$RUNNER\" {command}")).exits(2).complains(&["it is a named pipe or a socket"]);
    }
    for command in [
        "predict a.toml --scratch /dev/zero",
        "a.toml --device virtual --resume-from /dev/zero",
        "replay /dev/zero",
        "merge out.csv /dev/zero",
        "import /dev/zero",
    ] {
        s.shell(&format!("timeout 60 \"$RUNNER\" {command}")).exits(2).complains(&["it has more than"]);
    }
    // What this process is handed is read.
    s.shell("cat t.csv | \"$RUNNER\" replay /dev/stdin").exits(0);
    s.shell("\"$RUNNER\" diff /dev/stdin results/a.csv < results/a.csv").exits(0);
    s.shell("cat c.json | \"$RUNNER\" import /dev/fd/0").exits(0);
}

#[cfg(target_os = "linux")]
#[test]
fn messages_do_not_name_temporary_files() {
    let s = sandbox();
    let elsewhere = s.run(&["export", "torch", "a.toml", "-o", "/proc/a.py"]);
    assert!(elsewhere.code != 0 && elsewhere.stderr.contains("cannot write /proc/a.py"), "{}", elsewhere.stderr);
    let full = s.shell("trap '' XFSZ; ulimit -f 1; \"$RUNNER\" export torch a.toml -o a.py").exits(1).complains(&["cannot write a.py"]);
    let pack = "trap '' XFSZ; ulimit -f 0; \"$RUNNER\" pack npy.toml out.tfrecord";
    let packed = s.shell(pack).complains(&["cannot write out.tfrecord"]);
    for told in [elsewhere.stderr, full.stderr, packed.stderr] {
        assert!(!told.contains(".runner-") && !told.contains("at path"), "{told}");
    }
    assert!(!s.list(".").iter().any(|name| name.starts_with(".runner-")), "{:?}", s.list("."));
}

#[test]
fn of_a_long_text_the_beginning_is_repeated() {
    let s = Sandbox::new();
    let long = format!("I{}", "9".repeat(3_000_000));
    let told = |command: &[&str], words: &[&str]| {
        let outcome = s.run(command).exits(2).complains(words);
        assert!(outcome.stderr.len() < 1500, "{command:?}: {} bytes", outcome.stderr.len());
    };
    s.write("t", &long).write("op", &format!("op,id,bytes\n{long},1,2\n")).write("id", &format!("op,id,bytes\nalloc,{long},2\n"));
    s.write("rmm", &format!("Thread,Time,Action,Pointer,Size,Stream\n1,1,{long},0x1,1,0\n"));
    for (file, words) in [("t", "expected the header"), ("op", "is no operation"), ("id", "needs an id"), ("rmm", "is no action")] {
        told(&["replay", file], &[words, "I9999", "…"]);
    }
    s.write("bytes", "op,id,bytes\nalloc,1,2\n").write("events", &format!("action,bytes,address\nsegment_alloc,{long},0x0\n"));
    told(&["replay", "bytes", "--addresses", "events"], &["is no number of bytes", "…"]);
    s.write("results.csv", &format!("case,step,micro_step,phase,status\n,{long},1,forward,ok\n"));
    told(&["diff", "results.csv", "results.csv"], &["is not a whole number", "…"]);
    s.write("x.csv", &format!("a,b,c,d,label\n1,2,3,{long},0\n"));
    s.write("csv.toml", &classifier("source = { csv = { file = \"x.csv\", target = \"label\" } }"));
    told(&["pack", "csv.toml", "out"], &["which is no number", "…"]);
    s.write("x.csv", "a,b,c,d,label\n1,2,3,4,1e300\n");
    told(&["pack", "csv.toml", "out"], &["1e300 is out of range"]);
    // An escape is no command for a terminal.
    s.write("t", "\u{1b}[31m");
    told(&["replay", "t"], &["\\u{1b}[31m"]);
}

#[test]
fn of_many_devices_the_first_are_named() {
    let text = |text: &str| [b"X", &u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    let number = |name: &str| [text(name), b"K\x01".to_vec()].concat();
    let entry = [text("action"), text("alloc"), number("addr"), number("size")].concat();
    let device = [b"]}(", &entry[..], b"ua"].concat();
    let head = [b"\x80\x02}(".to_vec(), text("segments"), b"]".to_vec(), text("device_traces"), b"](".to_vec()].concat();
    let pickle = [head, device.repeat(20_000), b"eu.".to_vec()].concat();
    let s = Sandbox::new();
    s.write_bytes("many.pickle", &pickle);
    let told = s.run(&["replay", "many.pickle"]).exits(2).complains(&["the snapshot has devices 0, 1, 2", "…; name one"]).stderr;
    assert!(told.len() < 300, "{} bytes", told.len());
}
