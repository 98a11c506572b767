//! The threads. Workers take pieces of batches, read and prepare their samples, and write them into memory that they were given; whoever
//! trains asks for one batch after the other, and asks ahead for as many as `prefetch` says. Nothing is ever held but those.
//!
//! Waking a sleeping thread takes whoever trains longer than all else that is done here. So it wakes workers only where it would have to
//! wait otherwise, now or for the next batch; a worker that has nothing to do looks again by itself after a nap.
//!
//! Invariant: no stage waits for another that is gone. A worker that fails, or panics, hands that over in place of its piece; one that
//! nobody asks any more ends; whoever trains finds the failure when it comes to that batch.

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::batch::{Batch, Slot};
use super::error::DataError;
use super::order::Order;
use super::random::{Purpose, Random};
use super::settings::Feed;
use super::source::Source;

/// A worker's first nap; each that finds nothing to do is twice as long as the one before.
const NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(10);

/// What all threads share.
struct Shared<M> {
    source: Box<dyn Source>,
    /// Its first file.
    file: PathBuf,
    feed: Feed,
    /// Nobody wants anything any more.
    over: AtomicBool,
    /// Where the pieces of a batch begin and end, in samples.
    ends: Vec<u64>,
    desk: Mutex<Desk<M>>,
    /// Workers nap on it.
    todo: Condvar,
    /// Whoever trains waits on it.
    done: Condvar,
}

/// What is to be done, and what was.
struct Desk<M> {
    order: Order,
    /// The next sample's position in the run.
    position: u64,
    /// Pieces that no worker has taken, in order.
    todo: VecDeque<Job<M>>,
    /// Batches that were asked for and not given, in order.
    asked: VecDeque<Asked<M>>,
    /// The number of the first of them.
    first: u64,
    /// Workers that live.
    workers: usize,
    /// Workers that nap.
    napping: usize,
}

/// Samples of one batch, to be prepared, and memory for them.
struct Job<M> {
    batch: u64,
    piece: usize,
    samples: u64,
    input: M,
    target: Option<M>,
}

/// A batch that is being made.
struct Asked<M> {
    pieces: Vec<Option<Result<Piece<M>, DataError>>>,
    /// Pieces that no worker has taken.
    untaken: usize,
    /// Pieces that are not there.
    missing: usize,
}

/// A piece that is done.
struct Piece<M> {
    input: M,
    target: Option<M>,
    from: Instant,
    to: Instant,
}

/// A running pipeline: batches, one after the other, in memory of kind `M`.
pub struct Pipeline<M> {
    shared: Arc<Shared<M>>,
    workers: Vec<JoinHandle<()>>,
    /// Bytes of the pieces of each part of a batch: the input, and the target where there is one.
    sizes: Vec<Vec<usize>>,
    /// The next batch to be given.
    next: u64,
    /// The next batch to be asked for.
    ask: u64,
    /// Where batches end.
    end: u64,
}

impl<M: AsMut<[u8]> + Send + 'static> Pipeline<M> {
    /// Opens the feed's files and starts its workers. Batches `first..end` of the run will be asked for.
    ///
    /// # Errors
    /// A file is not what it was, or there are too few samples.
    pub fn open(feed: &Feed, first: u64, end: u64) -> Result<Self, DataError> {
        let source = super::open(&feed.settings.files)?;
        let (file, _) = source.place(0);
        feed.check(source.layout()).map_err(|refusal| DataError::of_file(file, refusal.what))?;
        if let Some((what, hint)) = feed.lack(source.samples(), end) {
            return Err(DataError::of_file(file, hint.map_or(what.clone(), |hint| format!("{what}; {hint}"))));
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
        let ends = pieces(feed.batch, workers);
        let sizes = |slot: &Slot| {
            let sizes = ends.windows(2).map(|ends| slot.bytes() * usize::try_from(ends[1] - ends[0]).expect("a batch is addressed"));
            sizes.collect::<Vec<_>>()
        };
        let sizes = [Some(&feed.input), feed.target.as_ref()].into_iter().flatten().map(sizes).collect();
        let (todo, asked) = (VecDeque::new(), VecDeque::new());
        let shared = Arc::new(Shared {
            file: source.place(0).0.to_path_buf(),
            source,
            feed: feed.clone(),
            over: AtomicBool::new(false),
            ends,
            desk: Mutex::new(Desk { order, position, todo, asked, first, workers: 0, napping: 0 }),
            todo: Condvar::new(),
            done: Condvar::new(),
        });
        // Where threads run out, those that there are share the work; without any, the first batch tells.
        let workers = (0..workers).filter_map(|number| {
            let own = Arc::clone(&shared);
            shared.desk().workers += 1;
            let worker = std::thread::Builder::new().name(format!("worker {number}")).spawn(move || work(&own));
            worker.inspect_err(|_| shared.desk().workers -= 1).ok()
        });
        Self { workers: workers.collect(), sizes, next: first, ask: first, end, shared }
    }

    /// The next batch, once it is ready. `memory` gives what another one is written into: for each part of a batch, the input first, memory
    /// of these sizes in bytes.
    ///
    /// # Errors
    /// A sample of it cannot be read or prepared. The pipeline is then of no more use.
    ///
    /// # Panics
    /// All batches that were said have been taken.
    pub fn next_batch(&mut self, mut memory: impl FnMut(&[Vec<usize>]) -> Vec<Vec<M>>) -> Result<Batch<M>, DataError> {
        let ahead = u64::try_from(self.shared.feed.settings.prefetch).unwrap_or(u64::MAX);
        let until = (self.next + 1).saturating_add(ahead).min(self.end);
        while self.ask < until {
            let memory = memory(&self.sizes);
            self.shared.ask(self.ask, memory);
            self.ask += 1;
        }
        assert!(self.next < self.end, "no more batches are taken than were said");
        self.next += 1;
        let pieces = self.shared.take()?;
        let mut pieces = pieces.into_iter();
        let Piece { input, target, from, to } = pieces.next().expect("a batch has a piece")?;
        let mut batch = Batch { input: vec![input], target: target.map(|t| vec![t]), preparing: to - from, when: (from, to) };
        for piece in pieces {
            let Piece { input, target, from, to } = piece?;
            batch.input.push(input);
            if let Some(targets) = &mut batch.target {
                targets.extend(target);
            }
            batch.preparing += to - from;
            batch.when = (batch.when.0.min(from), batch.when.1.max(to));
        }
        Ok(batch)
    }
}

impl<M> Drop for Pipeline<M> {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // A worker that has looked and is about to nap holds the lock until it does.
        drop(self.shared.desk());
        self.shared.todo.notify_all();
        for worker in self.workers.drain(..) {
            // A worker's panic was handed over in place of its piece.
            let _ = worker.join();
        }
    }
}

/// Where the pieces of a batch begin and end.
fn pieces(batch: u64, workers: usize) -> Vec<u64> {
    let pieces = u64::try_from(workers).unwrap_or(u64::MAX).min(batch);
    (0..=pieces)
        .map(|piece| u64::try_from(u128::from(batch) * u128::from(piece) / u128::from(pieces)).expect("no more than the batch"))
        .collect()
}

impl<M> Shared<M> {
    /// What is on the desk is whole whenever the lock is free, so that a thread which panicked left nothing amiss.
    fn desk(&self) -> MutexGuard<'_, Desk<M>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch is to be made in this memory, part by part.
    fn ask(&self, batch: u64, memory: Vec<Vec<M>>) {
        let mut parts = memory.into_iter();
        let inputs = parts.next().expect("there is memory for the input");
        let mut targets = parts.next().into_iter().flatten();
        let mut desk = self.desk();
        for ((piece, input), ends) in inputs.into_iter().enumerate().zip(self.ends.windows(2)) {
            desk.todo.push_back(Job { batch, piece, samples: ends[1] - ends[0], input, target: targets.next() });
        }
        let pieces = self.ends.len() - 1;
        desk.asked.push_back(Asked { pieces: (0..pieces).map(|_| None).collect(), untaken: pieces, missing: pieces });
    }

    /// The pieces of the next batch, once all are there.
    fn take(&self) -> Result<Vec<Result<Piece<M>, DataError>>, DataError> {
        let mut desk = self.desk();
        if desk.asked[0].missing > 0 {
            self.wake(&desk);
        }
        while desk.asked[0].missing > 0 && desk.workers > 0 {
            desk = self.done.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        if desk.asked[0].missing > 0 {
            return Err(self.gone());
        }
        let taken = desk.asked.pop_front().expect("it was looked at");
        desk.first += 1;
        if desk.asked.front().is_some_and(|next| next.untaken > 0) {
            self.wake(&desk);
        }
        drop(desk);
        Ok(taken.pieces.into_iter().flatten().collect())
    }

    fn gone(&self) -> DataError {
        DataError::of_file(&self.file, "whoever was to prepare this batch is gone")
    }

    fn wake(&self, desk: &Desk<M>) {
        if desk.napping > 0 && !desk.todo.is_empty() {
            self.todo.notify_all();
        }
    }

    /// A piece for a worker, with its samples: their positions in the run, and their numbers in the source. `None` once it is over.
    fn job(&self, samples: &mut Vec<(u64, u64)>) -> Option<Job<M>> {
        let mut nap = NAP;
        let mut desk = self.desk();
        loop {
            if self.over.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(job) = desk.take(samples) {
                return Some(job);
            }
            desk.napping += 1;
            desk = self.todo.wait_timeout(desk, nap).unwrap_or_else(PoisonError::into_inner).0;
            desk.napping -= 1;
            nap = (2 * nap).min(LONGEST_NAP);
        }
    }

    /// A piece is done.
    fn give(&self, batch: u64, piece: usize, result: Result<Piece<M>, DataError>) {
        let mut desk = self.desk();
        let asked = desk.asked(batch);
        asked.pieces[piece] = Some(result);
        asked.missing -= 1;
        if batch == desk.first && desk.asked[0].missing == 0 {
            self.done.notify_one();
        }
    }
}

impl<M> Desk<M> {
    fn asked(&mut self, batch: u64) -> &mut Asked<M> {
        let at = usize::try_from(batch - self.first).expect("batches that are asked for are held in memory");
        &mut self.asked[at]
    }

    /// Takes the next piece, with its samples: pieces are taken in order, and samples drawn as they are. The piece stays until they are
    /// drawn, so that it is not lost with whoever draws them.
    fn take(&mut self, samples: &mut Vec<(u64, u64)>) -> Option<Job<M>> {
        let count = self.todo.front()?.samples;
        samples.clear();
        for _ in 0..count {
            let number = self.order.next().expect("there are as many samples as were counted");
            samples.push((self.position, number));
            self.position += 1;
        }
        let job = self.todo.pop_front()?;
        self.asked(job.batch).untaken -= 1;
        Some(job)
    }
}

/// A worker, with the piece that it has and has not given: if it ends with one, however that may be, it gives up the piece.
struct Worker<'a, M> {
    shared: &'a Shared<M>,
    piece: Cell<Option<(u64, usize)>>,
}

impl<M> Drop for Worker<'_, M> {
    fn drop(&mut self) {
        if let Some((batch, piece)) = self.piece.get() {
            self.shared.give(batch, piece, Err(self.shared.gone()));
        }
        self.shared.desk().workers -= 1;
        self.shared.done.notify_one();
    }
}

/// A worker's life.
fn work<M: AsMut<[u8]>>(shared: &Shared<M>) {
    let worker = Worker { shared, piece: Cell::new(None) };
    let mut samples = Vec::new();
    while let Some(job) = shared.job(&mut samples) {
        let (batch, piece) = (job.batch, job.piece);
        worker.piece.set(Some((batch, piece)));
        // The sample it is at, for the message of a panic.
        let at = Cell::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| prepare(shared, job, &samples, &at))).unwrap_or_else(|panic| {
            let (file, place) = shared.source.place(at.get());
            Err(DataError::new(file, place, format!("a worker panicked: {}", words(&*panic))))
        });
        worker.piece.set(None);
        shared.give(batch, piece, result);
    }
}

fn prepare<M: AsMut<[u8]>>(shared: &Shared<M>, job: Job<M>, samples: &[(u64, u64)], at: &Cell<u64>) -> Result<Piece<M>, DataError> {
    let from = Instant::now();
    let feed = &shared.feed;
    let Job { mut input, mut target, .. } = job;
    let mut inputs = input.as_mut();
    let mut targets = target.as_mut().map(AsMut::as_mut);
    for &(position, number) in samples {
        at.set(number);
        if shared.over.load(Ordering::Relaxed) {
            break;
        }
        let mut sample = shared.source.read(number)?;
        let refuse = |what: String| {
            let (file, place) = shared.source.place(number);
            DataError::new(file, place, what)
        };
        let mut random = Random::new(feed.settings.seed, Purpose::Preparing, position);
        for step in &feed.settings.prepare {
            step.apply(&mut sample, &mut random).map_err(refuse)?;
        }
        feed.input.write(&sample.input, next(&mut inputs, feed.input.bytes())).map_err(refuse)?;
        if let (Some(slot), Some(targets)) = (&feed.target, &mut targets) {
            let array = sample.target.as_ref().ok_or_else(|| refuse("has no target".to_owned()))?;
            slot.write(array, next(targets, slot.bytes())).map_err(refuse)?;
        }
    }
    Ok(Piece { input, target, from, to: Instant::now() })
}

/// Takes so many bytes off the front.
fn next<'a>(bytes: &mut &'a mut [u8], count: usize) -> &'a mut [u8] {
    bytes.split_off_mut(..count).expect("there is memory for every sample")
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}
