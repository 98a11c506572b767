//! The pipeline with each of its stages killed: nothing hangs, and whoever trains hears why.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use runner::data::{Array, DataError, Feed, Files, Layout, Part, Pipeline, Place, Sample, Settings, Slot, Source, Step};
use runner::meta::DType;

/// Samples of one number each, its own; what reading one does besides is the test's business.
struct Numbers {
    layout: Layout,
    read: Box<dyn Fn(u64) -> Result<(), DataError> + Send + Sync>,
    reads: Arc<AtomicU64>,
}

impl Source for Numbers {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn samples(&self) -> u64 {
        1000
    }
    fn read(&self, number: u64) -> Result<Sample, DataError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        (self.read)(number)?;
        Ok(Sample { input: Array { shape: vec![], values: vec![number as f64] }, target: None })
    }
    fn place(&self, number: u64) -> (&Path, Place) {
        assert_ne!(number, 666, "nobody knows where that is");
        (Path::new("numbers"), Place::Record(number + 1))
    }
}

fn feed(workers: usize, prefetch: usize) -> Feed {
    let files = Files::Text { file: "numbers".into(), length: 1 };
    let settings = Settings { files, prepare: vec![], shuffle: None, repeat: true, workers, prefetch, pinned: false, seed: 0 };
    Feed { settings, batch: 8, input: Slot { name: "the model's input", shape: vec![], dtype: DType::F32, below: None }, target: None }
}

fn pipeline(feed: &Feed, read: impl Fn(u64) -> Result<(), DataError> + Send + Sync + 'static) -> (Pipeline<Vec<u8>>, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let layout = Layout { input: Part { shape: vec![], whole: true }, target: None };
    let source = Numbers { layout, read: Box::new(read), reads: Arc::clone(&reads) };
    (Pipeline::over(Box::new(source), feed, 0, u64::MAX), reads)
}

fn memory(sizes: &[Vec<usize>]) -> Vec<Vec<Vec<u8>>> {
    sizes.iter().map(|pieces| pieces.iter().map(|&bytes| vec![0; bytes]).collect()).collect()
}

fn numbers(pieces: &[Vec<u8>]) -> Vec<f32> {
    pieces.concat().chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn batches_come_in_order() {
    for (workers, prefetch) in [(1, 0), (1, 3), (3, 0), (20, 5)] {
        let (mut pipeline, _) = pipeline(&feed(workers, prefetch), |n| {
            std::thread::sleep(Duration::from_micros(n * 37 % 400));
            Ok(())
        });
        let all: Vec<f32> = (0..20).flat_map(|_| numbers(&pipeline.next_batch(memory).unwrap().input)).collect();
        assert_eq!(all, (0..160).map(|n| n as f32).collect::<Vec<_>>(), "{workers} workers, prefetch {prefetch}");
    }
}

#[test]
fn no_more_is_prepared_than_prefetch_says() {
    let (mut pipeline, reads) = pipeline(&feed(2, 3), |_| Ok(()));
    for batch in 1..=5 {
        pipeline.next_batch(memory).unwrap();
        let expected = (batch + 3) * 8;
        // What is asked for comes without anybody waiting for it; then nothing more.
        let started = Instant::now();
        while reads.load(Ordering::Relaxed) < expected && started.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(reads.load(Ordering::Relaxed), expected);
    }
}

#[test]
fn a_source_that_fails_is_heard_at_its_batch() {
    for (workers, prefetch) in [(1, 0), (2, 4), (8, 1)] {
        let (mut pipeline, _) = pipeline(&feed(workers, prefetch), |n| match n {
            21 => Err(DataError { file: "numbers".into(), place: Place::Record(22), what: "is gone".into() }),
            _ => Ok(()),
        });
        assert!(pipeline.next_batch(memory).is_ok() && pipeline.next_batch(memory).is_ok());
        assert_eq!(pipeline.next_batch(memory).unwrap_err().to_string(), "numbers: record 22: is gone");
    }
}

#[test]
fn a_workers_panic_is_heard_with_its_message() {
    for (workers, prefetch) in [(1, 0), (3, 2)] {
        let (mut pipeline, _) = pipeline(&feed(workers, prefetch), |n| {
            assert_ne!(n, 13, "unlucky");
            Ok(())
        });
        assert!(pipeline.next_batch(memory).is_ok());
        let message = pipeline.next_batch(memory).unwrap_err().to_string();
        assert!(message.contains("record 14") && message.contains("panicked") && message.contains("unlucky"), "{message}");
        // The others go on.
        assert!(pipeline.next_batch(memory).is_ok());
    }
}

#[test]
fn a_worker_that_dies_is_missed() {
    // A panic while a panic is told of ends the thread itself.
    for (workers, prefetch) in [(1, 0), (3, 2), (3, 100)] {
        let (mut pipeline, _) = pipeline(&feed(workers, prefetch), |n| {
            assert_ne!(n, 666, "no such sample");
            Ok(())
        });
        for _ in 0..83 {
            pipeline.next_batch(memory).unwrap();
        }
        let message = pipeline.next_batch(memory).unwrap_err().to_string();
        assert!(message.contains("numbers: ") && message.contains("gone"), "{message}");
        // Where there are others, they go on.
        assert_eq!(pipeline.next_batch(memory).is_ok(), workers > 1);
    }
}

#[test]
fn a_pipeline_that_nobody_wants_any_more_ends_soon() {
    for taken in [0, 1, 3] {
        let mut slow = feed(4, 50);
        slow.settings.prepare = vec![Step::Cost { time: Duration::from_millis(5) }];
        let (mut pipeline, reads) = pipeline(&slow, |_| Ok(()));
        (0..taken).for_each(|_| drop(pipeline.next_batch(memory).unwrap()));
        let started = Instant::now();
        drop(pipeline);
        assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
        assert!(reads.load(Ordering::Relaxed) < 400);
    }
}

#[test]
fn preparing_is_added_up_over_workers() {
    // Four workers are in their second sample at once, or the run would hang: each has two of the eight.
    let together = Barrier::new(4);
    let (mut pipeline, _) = pipeline(&feed(4, 0), move |n| {
        if n % 2 == 1 {
            together.wait();
            std::thread::sleep(Duration::from_millis(10));
            together.wait();
        }
        Ok(())
    });
    let batch = pipeline.next_batch(memory).unwrap();
    let (from, to) = batch.when;
    // Between the two meetings are 10 ms of each; and no more is counted than four workers have of the time that passed.
    assert!(batch.preparing >= Duration::from_millis(40), "{:?}", batch.preparing);
    assert!(batch.preparing <= 4 * (to - from), "{:?} of {:?}", batch.preparing, to - from);
}

#[test]
fn a_worker_that_naps_is_woken_when_somebody_waits_for_it() {
    // After a while without work a worker naps for up to 10 ms. Where nobody wakes it, a batch waits for half of that, mostly.
    let (mut pipeline, _) = pipeline(&feed(1, 0), |_| Ok(()));
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(30));
        let started = Instant::now();
        pipeline.next_batch(memory).unwrap();
        fastest = fastest.min(started.elapsed());
    }
    assert!(fastest < Duration::from_millis(4), "{fastest:?}");
}

#[test]
fn batches_are_ready_before_they_are_asked_for_though_nobody_wakes_a_worker() {
    let (mut pipeline, reads) = pipeline(&feed(1, 4), |_| Ok(()));
    pipeline.next_batch(memory).unwrap();
    let started = Instant::now();
    for batch in 2..=10 {
        while reads.load(Ordering::Relaxed) < (batch + 3) * 8 {
            assert!(started.elapsed() < Duration::from_secs(20), "batch {batch} was asked for ahead, and nobody makes it");
            std::thread::yield_now();
        }
        pipeline.next_batch(memory).unwrap();
    }
}
