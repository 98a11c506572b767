//! Ctrl-C and SIGTERM: what is left behind, what is kept, and the exit code.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::data::files::{classifier, write_samples};
use crate::support::{SMALL, Sandbox, runner};

/// Runs the program in the background.
fn start(s: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = Command::new(runner());
    command.args(arguments).current_dir(s.path("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(child: &Child, names: &[&str]) {
    let line = names.iter().map(|name| format!("kill -{name} {};", child.id())).collect::<String>();
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn temporary(s: &Sandbox, folder: &str) -> Vec<String> {
    s.list(folder).into_iter().filter(|name| name.starts_with(".runner-")).collect()
}

#[test]
fn a_run_that_is_interrupted_while_it_saves_leaves_no_temporary_file() {
    let s = Sandbox::new();
    s.write(
        "a.toml",
        "[model]\ninput = { features = [128] }\nlayers = [{ linear = { out_features = 512 } }, { linear = { out_features = 512 } }]\n\
         [train]\nbatch_size = 1\nsteps = 100000\noptimizer = { sgd = { momentum = 0.9, lr = 1e-6 } }\n[save]\nevery = 1\n",
    );
    let sweep = ["a.toml", "--device", "host", "-j", "2", "--set", "train.seed=1,2", "--quiet"];
    for signals in [&["INT"][..], &["TERM", "TERM"]] {
        let mut child = start(&s, &sweep);
        wait_for("nothing is being saved", || {
            assert!(child.try_wait().unwrap().is_none(), "it runs on");
            !temporary(&s, "results").is_empty()
        });
        signal(&child, signals);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(temporary(&s, "results"), [""; 0]);
    }
}

#[test]
fn other_commands_leave_none_either_and_exit_alike() {
    let s = Sandbox::new();
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }\nprepare = [{ cost = \"100ms\" }]"));
    write_samples(&s);
    std::fs::create_dir_all(s.path("out")).unwrap();
    let child = start(&s, &["pack", "a.toml", "out/a.tfrecord"]);
    wait_for("nothing is being packed", || !temporary(&s, "out").is_empty());
    signal(&child, &["INT"]);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(s.list("out"), [""; 0]);
}

/// A pipe in an experiment's place shows that the program has begun and holds it there.
#[test]
fn an_interruption_before_anything_runs_is_one_too() {
    let s = Sandbox::new();
    let line = "mkfifo a.toml; \"$RUNNER\" predict a.toml & exec 3>a.toml; kill -TERM $!; wait $!";
    s.shell(line).exits(130);
}

#[test]
fn signals_that_come_together_are_one() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL);
    for signals in [["TERM", "TERM"], ["INT", "TERM"], ["TERM", "CONT"]] {
        let child = start(&s, &["small.toml", "--device", "virtual", "--set", "train.batch_size=1..2000", "--out", "cut"]);
        wait_for("the run writes no journal", || {
            std::fs::read_to_string(s.path("cut/small.journal.jsonl")).is_ok_and(|text| text.lines().count() > 20)
        });
        signal(&child, &signals);
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(130));
        assert_eq!(s.list("cut"), ["small.journal.jsonl", "small.partial.csv"], "{}", String::from_utf8_lossy(&out.stderr));
        std::fs::remove_dir_all(s.path("cut")).unwrap();
    }
}

#[test]
fn what_a_killed_run_left_is_removed_a_day_later() {
    let s = Sandbox::new();
    let names = [".runner-aB3dE6", ".runner-aB3dE7", ".runner-mine", "a.safetensors"];
    s.write("small.toml", SMALL);
    for name in names {
        s.write(&format!("results/{name}"), "");
    }
    let long_ago = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
    for old in [names[0], names[2], names[3]] {
        std::fs::File::options().write(true).open(s.path("results").join(old)).unwrap().set_modified(long_ago).unwrap();
    }
    s.run(&["small.toml", "--device", "virtual"]).exits(0);
    assert_eq!(s.list("results"), [names[1], names[2], names[3], "small.csv", "small.run.toml", "small.training.csv"]);
}
