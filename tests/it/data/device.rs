//! The pipeline in front of a GPU, over libraries that only count: what is copied when, on which stream, and what waits for what.

use std::time::Duration;

use runner::measure::Stretches;

use super::files::{classifier, write_samples};
use crate::fake_cuda::libraries;
use crate::support::{Outcome, Sandbox, rows};

const NPY: &str = "source = { npy = { input = \"x.npy\", target = \"y.npy\" } }";
const NOTHING_HELD: &str = "0 segments, 0 pinned, 0 modules, 0 streams, 0 events\n";

/// Runs `a.toml` on the stand-in with these settings; `None` where that cannot be built.
fn on_cuda(s: &Sandbox, settings: &str, arguments: &str) -> Option<Outcome> {
    let folder = libraries()?.display();
    let settings = format!("FAKE_CUDA_REPORT=report FAKE_CUDA_LOG=log {settings} XDG_CACHE_HOME=$PWD/cache");
    let path = if settings.contains("WITH_NVML") { format!("{folder}:{folder}/nvml") } else { folder.to_string() };
    Some(s.shell(&format!("{settings} LD_LIBRARY_PATH='{path}' timeout 60 $RUNNER a.toml --device cuda {arguments}")))
}

/// A folder with samples, and `a.toml` that trains on them with this `[data]` and what follows it.
fn with_samples(data: &str) -> Sandbox {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &classifier(data));
    s
}

/// What was asked of the streams, without what libraries are timed with before the first step.
fn asked(s: &Sandbox) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    s.read("log").lines().map(words).collect()
}

#[test]
fn the_next_batch_is_copied_beside_the_step_and_waited_for_by_events() {
    let s = Sandbox::new();
    write_samples(&s);
    for (more, kind) in [("", "pinned"), ("\npinned = false", "pageable")] {
        s.write("a.toml", &classifier(&format!("{NPY}\ndevice_prefetch = true{more}\n[log]\nevery = 4")));
        let Some(out) = on_cuda(&s, "", "") else { return };
        out.exits(0);
        assert_eq!(s.read("report"), NOTHING_HELD);
        let log = asked(&s);
        let beside: Vec<usize> = (0..log.len()).filter(|&i| log[i][0] == "copy" && log[i].last().unwrap() != "0").collect();
        // Twelve steps: the first batch is copied where the step computes, eleven ahead, each an input and a target.
        assert_eq!(beside.len(), 22, "{kind}");
        for pair in beside.chunks(2) {
            let stream = log[pair[0]].last().unwrap();
            assert!(pair.iter().all(|&i| log[i][3] == kind && log[i].last().unwrap() == stream));
            // Before: the copying stream waits for an event that the computing one recorded before this step's kernels.
            let wait = (0..pair[0]).rev().find(|&i| log[i][0] == "wait").unwrap();
            assert_eq!(&log[wait][3], stream);
            let record = (0..wait).rev().find(|&i| log[i][0] == "record" && log[i][1] == log[wait][1]).unwrap();
            assert_eq!(log[record][3], "0");
            assert!(log[wait..pair[0]].iter().any(|l| l[0] == "launch"), "the step's kernels were asked for first, and not waited for");
            assert!(!log[record..wait].iter().any(|l| l[0] == "launch"));
            // After: the computing stream waits for an event that the copying one recorded after both copies, before any kernel.
            let held = (pair[1]..log.len()).find(|&i| log[i][0] == "wait" && log[i][3] == "0").unwrap();
            let record = (pair[1]..held).find(|&i| log[i][0] == "record" && log[i][1] == log[held][1]).unwrap();
            assert_eq!(&log[record][3], stream);
            assert!(!log[pair[1]..held].iter().any(|l| l[0] == "launch"));
        }
        let two_places = beside.iter().map(|&i| &log[i][1]).collect::<std::collections::BTreeSet<_>>();
        assert!(two_places.len() >= 4, "two sets of an input and a target: {two_places:?}");
        s.run(&["a.toml", "--device", "virtual", "--out", "virtual"]).exits(0);
        assert_eq!(s.read("results/a.csv"), s.read("virtual/a.csv"), "the second set of inputs is predicted and measured");
    }
}

#[test]
fn pinned_batches_are_not_waited_for_and_memory_is_not_overwritten() {
    let s = with_samples(&format!("{NPY}\n[log]\nevery = 6"));
    let Some(out) = on_cuda(&s, "", "") else { return };
    out.exits(0);
    assert_eq!(s.read("report"), NOTHING_HELD);
    let log = asked(&s);
    let copies: Vec<&Vec<String>> = log.iter().filter(|l| l[0] == "copy").collect();
    assert_eq!(copies.len(), 24);
    assert!(copies.iter().all(|l| l[3] == "pinned" && l.last().unwrap() == "0"));
    // Pageable bytes are copied by a call that waits.
    on_cuda(&s, "", "--set data.pinned=false").unwrap().exits(0);
    assert!(asked(&s).iter().all(|l| l[0] != "copy"));
    // Small batches, which are told of several at a time, and one that is not; on both streams.
    for (batch, steps, device_prefetch) in [(5, 100, false), (5, 100, true), (12_000, 12, true)] {
        let set = format!("--set train.steps={steps} --set train.batch_size={batch} --set data.device_prefetch={device_prefetch}");
        on_cuda(&s, "", &set).unwrap().exits(0);
        assert_eq!(s.read("report"), NOTHING_HELD);
        let log = asked(&s);
        let copies: Vec<usize> = (0..log.len()).filter(|&i| log[i][0] == "copy").collect();
        let mut again = 0;
        for (number, &i) in copies.iter().enumerate() {
            // Whoever last copied from there has been told that it was read.
            let Some(&before) = copies[..number].iter().rev().find(|&&j| log[j][4] == log[i][4]) else { continue };
            again += 1;
            let stream = log[before].last().unwrap();
            let told = (before..i).any(|r| {
                log[r][0] == "record" && log[r].last().unwrap() == stream && log[r..i].iter().any(|l| l[0] == "await" && l[1] == log[r][1])
            });
            assert!(told, "batch {batch}: copy {number} reads what may be written: {:?}", log[i]);
        }
        assert!(again > steps / 2, "memory is used again: {again} of {} copies", copies.len());
    }
}

#[test]
fn what_is_measured_of_a_run_is_whole_stretches() {
    let s = with_samples(&format!("{NPY}\n[log]\nevery = 50"));
    let Some(out) = on_cuda(&s, "", "--set train.steps=300") else { return };
    out.exits(0);
    let told = rows(&s.read("results/a.training.csv"));
    assert_eq!(told.len(), 300);
    let stretches: Vec<&[_]> = told.chunk_by(|a, b| a["busy"].is_empty() == b["busy"].is_empty()).collect();
    assert!(!stretches[0][0]["busy"].is_empty(), "the first is measured");
    for (number, stretch) in stretches.iter().enumerate() {
        assert!(stretch.iter().all(|r| r["busy"].is_empty() == r["computing_from"].is_empty()));
        let is_last = number + 1 == stretches.len();
        assert!(stretch[0]["busy"].is_empty() || stretch.len() % 32 == 0 || is_last, "stretch {number} of {}", stretch.len());
    }
}

#[test]
fn measuring_takes_at_most_a_hundredth_of_the_time() {
    // Steps of so many microseconds, each of which takes four more to measure.
    for (step, share) in [(100, 1.0 / 4.0), (400, 1.0), (5000, 1.0)] {
        let cost = Duration::from_micros(4);
        let mut stretches = Stretches::new(cost);
        let mut now = Duration::ZERO;
        let mut due = Vec::new();
        for _ in 0..128 * 40 {
            due.push(stretches.is_due(now));
            now += Duration::from_micros(step);
        }
        let measured = u32::try_from(due.iter().filter(|d| **d).count()).unwrap();
        assert!(cost * measured * 100 <= now, "{measured} of {} steps of {step} µs", due.len());
        assert!((f64::from(measured) / due.len() as f64 - share).abs() < 0.01, "{measured} of {}", due.len());
        assert!(due[..32].iter().all(|d| *d), "the first are measured");
        let runs: Vec<&[bool]> = due.chunk_by(|a, b| a == b).collect();
        assert!(runs.iter().all(|run| run.len() % 32 == 0), "whole stretches");
    }
}

#[test]
fn one_worker_or_eight_copy_the_same_bytes() {
    let s = with_samples(&format!("{NPY}\nshuffle = 7\n[log]\nevery = 6"));
    let mut copied = Vec::new();
    for set in ["workers=1", "workers=8", "workers=3 --set data.prefetch=7", "workers=2 --set data.device_prefetch=true"] {
        let Some(out) = on_cuda(&s, "", &format!("--set data.{set}")) else { return };
        out.exits(0);
        let copies = asked(&s).into_iter().filter(|l| l[0] == "copy").map(|l| (l[2].clone(), l[5].clone()));
        copied.push(copies.collect::<Vec<_>>());
    }
    // Pieces lie one behind the other, so that a batch takes one copy for its input and one for its target whoever made it.
    assert_eq!(copied[0].len(), 24);
    assert!(copied[0].iter().collect::<std::collections::BTreeSet<_>>().len() > 12, "batches differ");
    assert!(copied.iter().all(|c| *c == copied[0]));
}

#[test]
fn a_copy_that_fails_is_one_line_and_everything_goes_back() {
    for (number, settings) in
        [(1, ""), (2, ""), (3, "\ndevice_prefetch = true"), (9, "\ndevice_prefetch = true\npinned = false"), (14, "\nworkers = 8")]
    {
        let s = with_samples(&format!("{NPY}{settings}\n[log]\nevery = 5\n[save]\nevery = 4"));
        let Some(out) = on_cuda(&s, &format!("FAKE_CUDA_LOSE_COPY={number}"), "--quiet") else { return };
        let out = out.exits(1);
        assert!(out.stderr.starts_with("the GPU is lost: cuMemcpyHtoDAsync"), "{number}: {}", out.stderr);
        assert_eq!(out.stderr.lines().count(), 1, "{number}: {}", out.stderr);
        assert_eq!(s.read("report"), NOTHING_HELD, "{number}");
        assert!(!s.list("results").iter().any(|name| name.ends_with(".csv")), "{number}");
        if number == 14 {
            // It failed in the seventh step: the save of the fourth stands.
            let save = std::fs::read(s.path("results/a.safetensors")).unwrap();
            assert!(String::from_utf8_lossy(&save).contains("\\\"step\\\":4,"));
        }
    }
}

#[test]
fn a_reader_that_fails_in_front_of_a_gpu_ends_the_run_clean() {
    let s = with_samples("source = { csv = { file = \"xy.csv\", target = \"label\" } }\ndevice_prefetch = true\nworkers = 3");
    let text = s.read("xy.csv").replace('\n', "\r\n");
    let mut lines: Vec<&str> = text.split("\r\n").collect();
    lines[13] = "1,2";
    s.write("xy.csv", &lines.join("\n"));
    let Some(out) = on_cuda(&s, "", "") else { return };
    out.exits(1).complains(&["xy.csv", "line 14", "2 fields"]);
    assert_eq!(s.read("report"), NOTHING_HELD);
    // Two batches of five were good; with the third copied ahead, the second step does not come to its end.
    assert!(rows(&s.read("results/a.csv")).iter().all(|r| r["status"] == "ok" && r["error_peak"] == "0"));
}

#[test]
fn what_nvml_shows_is_sampled_and_its_absence_is_said() {
    let s = with_samples(NPY);
    let Some(out) = on_cuda(&s, "", "") else { return };
    let out = out.exits(0);
    assert!(out.stdout.contains("NVML tells nothing here"), "{}", out.stdout);
    let out = on_cuda(&s, "WITH_NVML=1", "").unwrap().exits(0);
    assert!(out.stdout.contains("(NVML: 42 % utilisation, 3.00 GiB, 123 W"), "{}", out.stdout);
    let told = rows(&s.read("results/a.training.csv"));
    assert_eq!(told.len(), 12);
    for row in &told {
        assert_eq!((&*row["utilisation"], &*row["memory"], &*row["power"]), ("42", "3221225472", "123.4"));
        // The stand-in's events lie ten microseconds apart.
        assert_eq!(row["busy"], "0.000010");
    }
    // Without a pipeline nothing is marked, sampled or told.
    let plain =
        "[model]\ninput = { features = [4] }\nlayers = [{ linear = { out_features = 3 } }]\n[train]\nbatch_size = 5\noptimizer = \"sgd\"\n";
    s.write("a.toml", plain);
    let out = on_cuda(&s, "WITH_NVML=1", "--out plain").unwrap().exits(0);
    assert!(!out.stdout.contains("device busy"));
    assert_eq!(s.read("plain/a.training.csv").lines().next(), Some("step,micro_step,loss,skipped,seconds"));
}
