//! Holds predictions against recorded PyTorch runs wherever they lie: `RUNNER_CORPUS=FOLDER[:FOLDER…]`, each with
//! `NAME/experiment.toml` and `NAME/probes.csv`; `RUNNER_GPU` names the GPU they ran on, `RUNNER_ONLY` words that names must have.
//! They are far too many to lie in the repository, so that these tests are run by name, with `--ignored`; the small corpus of the repository
//! is in [`super::fidelity`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use runner::gpu::{self, Gpu};
use runner::ops::RuleContext;
use runner::predict::{Happening, Listener};
use runner::record::{Memory, Status};

/// Rows by step, micro-step and phase.
pub(crate) type Rows = BTreeMap<(u64, u64, String), Memory>;

/// PyTorch's rows of a case.
pub(crate) fn recorded(path: &Path) -> Rows {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|h| h == name).unwrap_or_else(|| panic!("{}: no column {name}", path.display()));
    let (step, micro_step, phase) = (at("step"), at("micro_step"), at("phase"));
    let (allocated, peak, reserved) = (at("allocated"), at("peak"), at("reserved"));
    let rows = reader.records().map(|r| {
        let r = r.unwrap();
        let n = |i: usize| r[i].parse::<u64>().unwrap();
        ((n(step), n(micro_step), r[phase].to_owned()), Memory { allocated: n(allocated), peak: n(peak), reserved: n(reserved) })
    });
    rows.collect()
}

/// The predictor's rows of a case, those of a failure apart.
pub(crate) fn predicted<'a>(path: &Path, cx: impl Into<RuleContext<'a>>) -> Result<(Rows, Option<Memory>), String> {
    let cx = cx.into();
    let experiment = runner::experiment::load_with(path, &Default::default(), cx.gpu).map_err(|e| e.to_string())?;
    let case = &experiment.cases[0];
    let mut failure = None;
    let mut rows = Rows::new();
    for row in runner::predict::predict(&case.work, cx, case.allocator.clone()) {
        match row.status {
            Status::Ok => drop(rows.insert((row.at.step, row.at.micro_step, row.at.phase.name().to_owned()), row.memory)),
            Status::Oom => failure = Some(row.memory),
        }
    }
    Ok((rows, failure))
}

/// What differs, a line a row, at most `most` of them.
pub(crate) fn differences(want: &Rows, got: &Rows, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let order = |key: &(u64, u64, String)| {
        const PHASES: [&str; 8] = ["model", "input", "forward", "loss", "backward", "optimizer", "zero_grad", "empty_cache"];
        (key.0, key.1, PHASES.iter().position(|p| *p == key.2))
    };
    let mut keys: Vec<_> = want.keys().chain(got.keys()).collect();
    keys.sort_by_key(|k| order(k));
    keys.dedup();
    for key in keys {
        let at = format!("{}.{}.{}", key.0, key.1, key.2);
        match (want.get(key), got.get(key)) {
            (Some(w), Some(g)) if w == g => {}
            (Some(w), Some(g)) => {
                let off = |name: &str, w: u64, g: u64| {
                    if w == g { String::new() } else { format!(" {name} {g} for {w} ({:+})", g.cast_signed() - w.cast_signed()) }
                };
                lines.push(format!(
                    "{at}:{}{}{}",
                    off("allocated", w.allocated, g.allocated),
                    off("peak", w.peak, g.peak),
                    off("reserved", w.reserved, g.reserved)
                ));
            }
            (Some(_), None) => lines.push(format!("{at}: missing")),
            (None, _) => lines.push(format!("{at}: not PyTorch's")),
        }
    }
    let rest = lines.len().saturating_sub(most);
    lines.truncate(most);
    if rest > 0 {
        lines.push(format!("… {rest} more"));
    }
    lines
}

fn cases(folder: &Path) -> Vec<PathBuf> {
    let only = std::env::var("RUNNER_ONLY").unwrap_or_default();
    let words: Vec<&str> = only.split(',').filter(|w| !w.is_empty()).collect();
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|e| e.unwrap().path())
        .filter(|p| p.join("probes.csv").exists())
        .filter(|p| words.is_empty() || words.iter().any(|w| p.file_name().unwrap().to_string_lossy().contains(w)))
        .collect();
    cases.sort();
    cases
}

#[test]
#[ignore = "needs folders of recorded runs: RUNNER_CORPUS"]
fn predictions_match_recorded_runs() {
    let folders = std::env::var("RUNNER_CORPUS").expect("RUNNER_CORPUS names folders of recorded runs");
    let gpu = Gpu::named(&std::env::var("RUNNER_GPU").unwrap_or_else(|_| gpu::DEFAULT.to_owned())).expect("RUNNER_GPU is in the catalogue");
    let (mut exact, mut all) = (0, 0);
    for case in folders.split(':').flat_map(|f| cases(Path::new(f))) {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        all += 1;
        let begin = Instant::now();
        let outcome = predicted(&case.join("experiment.toml"), gpu);
        let spent = begin.elapsed();
        let (got, failure) = match outcome {
            Ok(rows) => rows,
            Err(mistakes) => {
                println!("{name}: {}", mistakes.lines().next().unwrap_or_default());
                continue;
            }
        };
        let mut lines = differences(&recorded(&case.join("probes.csv")), &got, 6);
        if let Some(failure) = failure
            && !case.join("oom.txt").exists()
        {
            lines.push(format!("out of memory, {failure:?}"));
        }
        exact += usize::from(lines.is_empty());
        if !lines.is_empty() || std::env::var_os("RUNNER_TIMES").is_some() {
            println!("{name} ({} µs): {}", spent.as_micros(), lines.join("\n    "));
        }
    }
    println!("exact: {exact} of {all}");
    assert_eq!(exact, all);
}

/// Everything that a case allocates and frees: bytes (negative where freed) and what was running.
fn events(path: &Path, gpu: &Gpu) -> Vec<(i64, String)> {
    #[derive(Default)]
    struct Log {
        events: Vec<(i64, String)>,
        live: BTreeMap<u32, u64>,
    }
    impl Listener for Log {
        fn hear(&mut self, happening: &Happening) {
            match *happening {
                Happening::Allocated { storage, requested, origin, .. } => {
                    self.live.insert(storage, requested);
                    let layer = origin.layer.map_or(String::new(), |l| format!(" of layer {}", l.0));
                    self.events.push((requested.cast_signed(), format!("{:?} {}{layer} {:?}", origin.pass, origin.operator, origin.slot)));
                }
                Happening::Freed { storage } => self.events.push((-self.live.remove(&storage).unwrap().cast_signed(), String::new())),
                Happening::Becomes { .. } | Happening::RanOut(_) => {}
                Happening::Row(row) => self.events.push((0, format!("{:?}", row.at))),
            }
        }
    }
    let mut log = Log::default();
    let experiment = runner::experiment::load(path).unwrap_or_else(|e| panic!("{e}"));
    let case = &experiment.cases[0];
    let _ = runner::predict::predict_with(&case.work, gpu, case.allocator.clone(), Some(&mut log));
    log.events.retain(|e| e.0 != 0 || e.1.starts_with("At"));
    log.events
}

/// `RUNNER_EVENTS=CASE`: where a prediction first allocates or frees otherwise than `CASE/events.csv` says. Between two allocations
/// the order of frees is free.
#[test]
#[ignore = "needs a recorded case: RUNNER_EVENTS"]
fn events_match_a_recorded_run() {
    let case = std::env::var("RUNNER_EVENTS").expect("RUNNER_EVENTS names a recorded case");
    let case = Path::new(&case);
    let gpu = Gpu::named(&std::env::var("RUNNER_GPU").unwrap_or_else(|_| gpu::DEFAULT.to_owned())).expect("RUNNER_GPU is in the catalogue");
    let mut reader = csv::Reader::from_path(case.join("events.csv")).unwrap();
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|h| h == name);
    let (action, bytes, op) = (column("action").unwrap(), column("bytes").unwrap(), column("op"));
    let mut want: Vec<(i64, String)> = Vec::new();
    for r in reader.records().map(Result::unwrap) {
        let n: i64 = r[bytes].parse().unwrap();
        match &r[action] {
            "alloc" => want.push((n, op.map_or(String::new(), |i| r[i].to_owned()))),
            "free" | "free_completed" => want.push((-n, String::new())),
            _ => {}
        }
    }
    let got = events(&case.join("experiment.toml"), gpu);
    let runs = |events: &[(i64, String)]| {
        let mut runs: Vec<(i64, String, Vec<i64>)> = vec![(0, String::new(), Vec::new())];
        for (n, label) in events {
            match n {
                0 => {}
                1.. => runs.push((*n, label.clone(), Vec::new())),
                _ => runs.last_mut().unwrap().2.push(*n),
            }
        }
        runs.iter_mut().for_each(|r| r.2.sort_unstable());
        runs
    };
    let (want, got) = (runs(&want), runs(&got));
    let at = want.iter().zip(&got).position(|(w, g)| (w.0, &w.2) != (g.0, &g.2)).unwrap_or(want.len().min(got.len()));
    if at == want.len() && at == got.len() {
        println!("{at} allocations, all alike");
        return;
    }
    for i in at.saturating_sub(4)..(at + 12) {
        println!("{i}{} PyTorch {:?}\n       runner  {:?}", if i == at { " <<<" } else { "" }, want.get(i), got.get(i));
    }
    panic!("they part at allocation {at}");
}
