//! The workers of a run: threads that take cases from one queue, each with a device of its own, and tell what became of them.
//!
//! Nothing is written here. Cases know nothing of each other, so their rows do not depend on how many workers there are.
//! Invariant: of each case that a worker takes, exactly one report comes back, unless its device fails.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::experiment::Case;
use crate::predict::predict;
use crate::record::{DeviceMemory, Measured, MicroStep, Predicted};
use crate::report::number::shortest;
use crate::report::progress::Progress;
use crate::save::{SaveError, Saver, Snapshot};
use crate::train::{Observer, Outfit};

use super::args::{DeviceName, Files, Told};
use super::device::{Facts, Place};
use super::exit::{Exit, Failure};
use super::names::Names;
use super::{console, dump, fit, load, out_of_memory, record};

/// A case to run.
pub(super) struct Job {
    /// Which: the run's own number for it.
    pub(super) number: usize,
    pub(super) experiment: String,
    /// The experiment and the sweep point, for people.
    pub(super) title: String,
    pub(super) case: Case,
    /// Whether a memory snapshot is wanted of it.
    pub(super) history: bool,
    /// Whether it is measured what its time goes to.
    pub(super) timed: bool,
    /// Where it saves to, where it saves.
    pub(super) save: PathBuf,
    /// The save that it goes on from.
    pub(super) going_on: Option<Arc<Snapshot>>,
    /// Whether losses are not to be printed.
    pub(super) quiet: bool,
    /// Whether there are other cases, so that what is printed says whose it is.
    pub(super) is_one_of_many: bool,
}

/// What became of a case.
pub(super) struct Outcome {
    pub(super) number: usize,
    pub(super) predicted: Vec<Predicted>,
    pub(super) rows: Vec<Measured>,
    pub(super) micro_steps: Vec<MicroStep>,
    pub(super) device_memory: Option<DeviceMemory>,
    /// What the GPU's libraries have asked for up to its end, as [`Place::asked`] tells.
    pub(super) scratch: BTreeMap<String, u64>,
    /// Why memory ran out, in words, where it did.
    pub(super) out_of_memory: Option<String>,
    /// Its memory snapshot, where one was wanted.
    pub(super) snapshot: Option<Vec<u8>>,
    /// Why it did not come to an end; out of memory is an end.
    pub(super) failure: Option<String>,
}

/// What the run hears.
pub(super) enum Report {
    /// A worker has its device.
    Ready(Box<Facts>),
    /// A worker has none.
    Absent(Failure),
    /// A case has ended.
    Case(Box<Outcome>),
    /// A device has failed; its worker has stopped, and what it ran is not done.
    Broken(Failure),
    /// A worker has found the queue empty.
    Idle,
    /// The user wants it to end.
    Interrupted,
}

type Queue = Arc<Mutex<VecDeque<Job>>>;

/// Workers that wait for their queue.
pub(super) struct Crew {
    facts: Facts,
    workers: Vec<Sender<(Queue, Progress)>>,
    tell: Sender<Report>,
    reports: Receiver<Report>,
}

/// Cases that a GPU prepares its kernels for, before it runs any.
const REHEARSED: usize = 16;
/// As much stack as a program's main thread has on Linux.
const STACK: usize = 8 << 20;

impl Crew {
    /// Opens the devices, with a worker each.
    ///
    /// # Errors
    /// A device is not there, GPUs are of different models, or `jobs` does not go with a GPU.
    pub(super) fn open(devices: &[DeviceName], jobs: Option<usize>, files: &Files) -> Result<Self, Failure> {
        let (tell, reports) = channel();
        let mut workers = Vec::new();
        let mut found: Option<Facts> = None;
        // One after another, so that each sees what a GPU held before its own context.
        for &name in devices {
            let facts = hire(name, files, &mut workers, &tell, &reports)?;
            match &found {
                Some(first) if first.gpu != facts.gpu => {
                    let (a, b) = (&first.place, &facts.place);
                    return Err(Failure::usage(format!("{a} and {b}: rows depend on the GPU's model, so a sweep takes GPUs of one model")));
                }
                Some(_) => {}
                None => found = Some(facts),
            }
        }
        let facts = found.expect("at least one device is named");
        if let ("cuda", Some(jobs)) = (facts.device, jobs.filter(|&jobs| jobs > 1)) {
            let hint = "`--devices cuda:0,cuda:1` spreads cases over several";
            return Err(Failure::usage(format!("--jobs {jobs}: a GPU runs one case at a time, for each is to have all of it; {hint}")));
        }
        Ok(Self { facts, workers, tell, reports })
    }

    /// More workers on the host or the virtual device, up to `jobs` and to the number of cases. A GPU runs one case at a time.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn enlarge(&mut self, jobs: Option<usize>, cases: usize, files: &Files) -> Result<(), Failure> {
        let (name, usual) = match self.facts.device {
            "virtual" => (DeviceName::Virtual, thread::available_parallelism().map_or(1, usize::from)),
            "host" => (DeviceName::Host, 1),
            _ => return Ok(()),
        };
        while self.workers.len() < jobs.unwrap_or(usual).min(cases) {
            hire(name, files, &mut self.workers, &self.tell, &self.reports)?;
        }
        Ok(())
    }

    /// What the devices are.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How many cases run at once.
    pub(super) fn size(&self) -> usize {
        self.workers.len()
    }

    /// For whoever has something to add to the reports.
    pub(super) fn sender(&self) -> Sender<Report> {
        self.tell.clone()
    }

    /// Begins; what comes of it is told through the receiver.
    pub(super) fn start(self, jobs: VecDeque<Job>, progress: &Progress) -> Receiver<Report> {
        let queue: Queue = Arc::new(Mutex::new(jobs));
        for worker in self.workers {
            worker.send((Arc::clone(&queue), progress.clone())).expect("a worker waits for its queue");
        }
        self.reports
    }
}

/// Another worker.
fn hire(
    name: DeviceName,
    files: &Files,
    workers: &mut Vec<Sender<(Queue, Progress)>>,
    tell: &Sender<Report>,
    reports: &Receiver<Report>,
) -> Result<Facts, Failure> {
    let (start, started) = channel();
    let tell = tell.clone();
    let builder = thread::Builder::new().name(format!("case {}", workers.len())).stack_size(STACK);
    let files = files.clone();
    let work = move || work(name, &files, &tell, &started);
    builder.spawn(work).map_err(|e| Failure::new(Exit::Failed, format!("cannot start a thread: {e}")))?;
    match reports.recv() {
        Ok(Report::Ready(facts)) => {
            workers.push(start);
            Ok(*facts)
        }
        Ok(Report::Absent(failure)) => Err(failure),
        _ => unreachable!("a worker's first word is whether it has its device"),
    }
}

/// A worker's life. Nobody may be left to hear what it says: the run may have ended without it.
fn work(name: DeviceName, files: &Files, tell: &Sender<Report>, start: &Receiver<(Queue, Progress)>) {
    let opened = files.scratch().and_then(|scratch| Ok((Place::choose(name, files.gpu, Rc::<Told>::clone(&scratch))?, scratch)));
    let (place, scratch) = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            let _ = tell.send(Report::Absent(failure));
            return;
        }
    };
    let _ = tell.send(Report::Ready(Box::new(place.facts())));
    let Ok((queue, progress)) = start.recv() else { return };
    if place.name() == "cuda" {
        let works: Vec<_> = lock(&queue).iter().take(REHEARSED).map(|job| job.case.work.clone()).collect();
        place.rehearse_cases(works.iter());
    }
    let last_word = loop {
        let Some(job) = lock(&queue).pop_front() else { break Report::Idle };
        match perform(job, (&place, &*scratch), &progress) {
            Ok(outcome) => {
                let _ = tell.send(Report::Case(Box::new(outcome)));
            }
            Err(failure) => break Report::Broken(failure),
        }
    };
    // The process may end as soon as the last word is heard: by then the device has everything back.
    drop(place);
    let _ = tell.send(last_word);
}

fn lock(queue: &Mutex<VecDeque<Job>>) -> MutexGuard<'_, VecDeque<Job>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a case to its end. A panic is this case's failure and no other's: nothing of a case outlives it.
fn perform(job: Job, (place, scratch): (&Place, &Told), progress: &Progress) -> Result<Outcome, Failure> {
    let Job { number, experiment, title, case, history, timed, save, going_on, quiet, is_one_of_many } = job;
    let micro_steps = load::micro_steps(&case.work);
    let saver = case.save.map(|_| Saver::new(save));
    let mut heard = Heard { rows: Vec::new(), micro_steps: Vec::new(), progress, title: &title, quiet, is_one_of_many, saver };
    let mut predicted = Vec::new();
    let mut out_of_memory = None;
    let ended = catch_unwind(AssertUnwindSafe(|| -> Result<_, Failure> {
        predicted = predict(&case.work, place.rules(), case.allocator.clone());
        heard.rows.reserve(predicted.len());
        let outfit = Outfit { feed: case.feed.as_ref(), log: case.log, save: case.save, timed, resume: going_on.as_deref() };
        let (recorder, mut ended) = record::run(place, &case, &outfit, history, &mut heard)?;
        // Of the machine's memory the case's failure tells.
        let failure = recorder.failure().filter(|failure| !failure.error.machine_is_full);
        out_of_memory = failure.zip(heard.rows.last()).map(|(failure, row)| {
            // Of a sweep one point is not worth the time: `runner fit` looks at all.
            let fitting = case.key.is_empty().then(|| {
                let room = failure.error.free.saturating_add(failure.error.reserved);
                fit::cheapest(&experiment, &case, (place.gpu(), scratch), failure.error.limit.map_or(room, |limit| limit.min(room)))
            });
            out_of_memory::explain(&title, row.at, failure, &Names::of(&case.work), fitting.as_deref())
        });
        let unsaved = heard.saver.as_mut().and_then(|saver| saver.finish().err());
        ended.stopped = ended.stopped.or(unsaved.map(|e| e.to_string()));
        Ok((history.then(|| dump::of_run(&recorder, &case, &experiment).to_pickle()), ended))
    }));
    progress.skip(micro_steps.saturating_sub(heard.micro_steps.len() as u64));
    let Heard { rows, micro_steps, .. } = heard;
    let (snapshot, device_memory, failure) = match ended {
        Ok(ended) => ended.map(|(snapshot, ended)| (snapshot, ended.device_memory, ended.stopped))?,
        Err(panic) => (None, None, Some(words(&*panic))),
    };
    Ok(Outcome { number, predicted, rows, micro_steps, device_memory, scratch: place.asked(), out_of_memory, snapshot, failure })
}

/// What a panic says.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_string()
}

/// Keeps what a run says, and moves the bar.
struct Heard<'a> {
    rows: Vec<Measured>,
    micro_steps: Vec<MicroStep>,
    progress: &'a Progress,
    title: &'a str,
    quiet: bool,
    is_one_of_many: bool,
    saver: Option<Saver>,
}

impl Observer for Heard<'_> {
    fn row(&mut self, row: &Measured) {
        self.rows.push(*row);
        self.progress.at(self.title, row.at.phase);
    }

    fn micro_step(&mut self, done: &MicroStep) {
        self.micro_steps.push(*done);
        self.progress.advance();
    }

    fn log(&mut self, step: u64, loss: Option<f64>) {
        // Where nothing is computed there is nothing to tell.
        let Some(loss) = loss.filter(|_| !self.quiet).map(shortest) else { return };
        let whose = if self.is_one_of_many { format!("{}: ", self.title) } else { String::new() };
        self.progress.suspend(|| console::tell(format_args!("{whose}step {step}: loss {loss}")));
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<(), SaveError> {
        self.saver.as_mut().map_or(Ok(()), |saver| saver.save(snapshot))
    }
}
