//! The threads. Workers take pieces of batches, read and prepare their samples, and hand over bytes; whoever trains asks for one batch
//! after the other, and asks ahead for as many as `prefetch` says. Nothing is ever held but those.
//!
//! Invariant: no stage waits for another that is gone. A worker that fails, or panics, hands that over in place of its piece; one that
//! nobody asks any more ends; whoever trains finds the failure when it comes to that batch.

use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use super::batch::Batch;
use super::error::DataError;
use super::order::Order;
use super::random::Random;
use super::settings::Feed;
use super::source::Source;

const PREPARE: u64 = 2;

/// What all workers share.
struct Shared {
    source: Box<dyn Source>,
    feed: Feed,
    /// Nobody wants anything any more.
    over: AtomicBool,
}

/// Samples of one batch, to be prepared: their positions in the run, and their numbers in the source.
struct Piece {
    batch: u64,
    piece: usize,
    samples: Vec<(u64, u64)>,
}

type Done = (u64, usize, Result<Batch, DataError>);

/// A running pipeline: batches, one after the other.
pub struct Pipeline {
    shared: Arc<Shared>,
    order: Order,
    /// The next sample's position in the run.
    position: u64,
    /// `None` once it is closed.
    jobs: Option<Sender<Piece>>,
    done: Receiver<Done>,
    workers: Vec<JoinHandle<()>>,
    /// Batches that were asked for and not given: number, and pieces.
    asked: VecDeque<(u64, usize)>,
    finished: BTreeMap<(u64, usize), Result<Batch, DataError>>,
    next: u64,
    /// Where batches end.
    end: u64,
}

impl Pipeline {
    /// Opens the feed's files and starts its workers. Batches `first..end` of the run will be asked for.
    ///
    /// # Errors
    /// A file is not what it was, or there are too few samples.
    pub fn open(feed: &Feed, first: u64, end: u64) -> Result<Self, DataError> {
        let source = super::open(&feed.settings.files)?;
        let (file, _) = source.place(0);
        feed.check(source.layout()).map_err(|refusal| DataError::of_file(file, refusal.what))?;
        let needed = end.saturating_mul(feed.batch);
        if source.samples() == 0 || (!feed.settings.repeat && source.samples() < needed) {
            let what = format!("has {} samples, and the run takes {needed}; `repeat = true` begins anew after the last", source.samples());
            return Err(DataError::of_file(file, what));
        }
        Ok(Self::over(source, feed, first, end))
    }

    /// The same over any source.
    #[must_use]
    pub fn over(source: Box<dyn Source>, feed: &Feed, first: u64, end: u64) -> Self {
        let settings = &feed.settings;
        let position = first.saturating_mul(feed.batch);
        let order = Order::new(source.samples(), settings.shuffle, settings.repeat, settings.seed, position);
        let workers = settings.workers.max(1);
        let shared = Arc::new(Shared { source, feed: feed.clone(), over: AtomicBool::new(false) });
        let (jobs, todo) = channel();
        let (give, done) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let workers = (0..workers).map(|_| {
            let (shared, todo, give) = (Arc::clone(&shared), Arc::clone(&todo), give.clone());
            std::thread::spawn(move || work(&shared, &todo, &give))
        });
        Self {
            workers: workers.collect(),
            shared,
            order,
            position,
            jobs: Some(jobs),
            done,
            asked: VecDeque::new(),
            finished: BTreeMap::new(),
            next: first,
            end,
        }
    }

    /// The next batch, once it is ready.
    ///
    /// # Errors
    /// A sample of it cannot be read or prepared. The pipeline is then of no more use.
    pub fn next_batch(&mut self) -> Result<Batch, DataError> {
        let ahead = self.shared.feed.settings.prefetch;
        while self.asked.len() <= ahead && self.next < self.end {
            self.ask();
        }
        let (number, pieces) = self.asked.pop_front().expect("no more batches are taken than were said");
        let mut batch: Option<Batch> = None;
        for piece in 0..pieces {
            let part = self.piece(number, piece)?;
            match &mut batch {
                None => batch = Some(part),
                Some(batch) => {
                    batch.input.extend(part.input);
                    if let (Some(all), Some(part)) = (&mut batch.target, part.target) {
                        all.extend(part);
                    }
                    batch.preparing += part.preparing;
                    batch.when = batch.when.zip(part.when).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
                }
            }
        }
        Ok(batch.expect("a batch has a piece"))
    }

    fn ask(&mut self) {
        let size = self.shared.feed.batch;
        let pieces = self.workers.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        let jobs = self.jobs.as_ref().expect("it is not closed while it is used");
        for piece in 0..pieces {
            let (from, to) = (size * piece as u64 / pieces as u64, size * (piece as u64 + 1) / pieces as u64);
            let samples = (from..to).map(|_| {
                let number = self.order.next().expect("there are as many samples as were counted");
                self.position += 1;
                (self.position - 1, number)
            });
            let job = Piece { batch: self.next, piece, samples: samples.collect() };
            // Where all workers are gone, `piece` finds it out.
            let _ = jobs.send(job);
        }
        self.asked.push_back((self.next, pieces));
        self.next += 1;
    }

    fn piece(&mut self, batch: u64, piece: usize) -> Result<Batch, DataError> {
        loop {
            if let Some(done) = self.finished.remove(&(batch, piece)) {
                return done;
            }
            match self.done.recv() {
                Ok((b, p, result)) => drop(self.finished.insert((b, p), result)),
                Err(_) => return Err(DataError::of_file(self.shared.source.place(0).0, "the threads that prepare it are gone")),
            }
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.jobs = None;
        for worker in self.workers.drain(..) {
            // A worker's panic was handed over in place of its piece.
            let _ = worker.join();
        }
    }
}

/// A worker's life.
fn work(shared: &Shared, todo: &Mutex<Receiver<Piece>>, give: &Sender<Done>) {
    loop {
        // A worker that panicked did so while it held no lock.
        let job = match todo.lock() {
            Ok(todo) => todo.recv(),
            Err(poisoned) => poisoned.into_inner().recv(),
        };
        let Ok(job) = job else { return };
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        // The sample it is at, for the message of a panic.
        let at = Cell::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| prepare(shared, &job, &at))).unwrap_or_else(|panic| {
            let (file, place) = shared.source.place(at.get());
            Err(DataError::new(file, place, format!("a worker panicked: {}", words(&*panic))))
        });
        if give.send((job.batch, job.piece, result)).is_err() {
            return;
        }
    }
}

fn prepare(shared: &Shared, job: &Piece, at: &Cell<u64>) -> Result<Batch, DataError> {
    let started = Instant::now();
    let Feed { settings, input, target, .. } = &shared.feed;
    let room = |bytes: usize| Vec::with_capacity(bytes.saturating_mul(job.samples.len()));
    let mut batch = Batch { input: room(input.bytes()), target: target.as_ref().map(|t| room(t.bytes())), ..Batch::default() };
    for &(position, number) in &job.samples {
        at.set(number);
        if shared.over.load(Ordering::Relaxed) {
            break;
        }
        let mut sample = shared.source.read(number)?;
        let refuse = |what: String| {
            let (file, place) = shared.source.place(number);
            DataError::new(file, place, what)
        };
        let mut random = Random::new(settings.seed, PREPARE, position);
        for step in &settings.prepare {
            step.apply(&mut sample, &mut random).map_err(refuse)?;
        }
        input.append(&sample.input, &mut batch.input).map_err(refuse)?;
        if let (Some(slot), Some(bytes)) = (target, &mut batch.target) {
            let array = sample.target.as_ref().ok_or_else(|| refuse("has no target".to_owned()))?;
            slot.append(array, bytes).map_err(refuse)?;
        }
    }
    let done = Instant::now();
    batch.preparing = done - started;
    batch.when = Some((started, done));
    Ok(batch)
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}
