//! What comes out of the pipeline: samples prepared as the steps say, in the order that the seed says, as the bytes that a device takes.

use std::path::Path;

use runner::data::{Array, Batch, DataError, Feed, Files, Layout, Part, Pipeline, Place, Sample, Settings, Slot, Source, Step};
use runner::meta::DType;

/// Samples that are there already.
struct Given {
    layout: Layout,
    samples: Vec<Sample>,
}

impl Given {
    /// Samples that all look like the first.
    fn new(samples: Vec<Sample>) -> Self {
        let part = |array: &Array| Part { shape: array.shape.clone(), whole: true };
        let first = &samples[0];
        Self { layout: Layout { input: part(&first.input), target: first.target.as_ref().map(part) }, samples }
    }
}

impl Source for Given {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn samples(&self) -> u64 {
        self.samples.len() as u64
    }
    fn read(&self, number: u64) -> Result<Sample, DataError> {
        Ok(self.samples[usize::try_from(number).unwrap()].clone())
    }
    fn place(&self, number: u64) -> (&Path, Place) {
        (Path::new("given"), Place::Record(number + 1))
    }
}

fn slot(shape: &[u64], dtype: DType) -> Slot {
    Slot { name: "the model's input", shape: shape.to_vec(), dtype, below: None }
}

/// One sample a batch.
fn feed(prepare: Vec<Step>, input: Slot, target: Option<Slot>) -> Feed {
    let files = Files::Text { file: "given".into(), length: 1 };
    let settings = Settings { files, prepare, shuffle: None, repeat: true, workers: 1, prefetch: 0, pinned: false, seed: 5 };
    Feed { settings, batch: 1, input, target }
}

/// The first batch.
fn first(source: Given, feed: &Feed) -> Result<Batch<Vec<u8>>, DataError> {
    Pipeline::over(Box::new(source), feed, 0, 1).next_batch(memory)
}

fn memory(sizes: &[Vec<usize>]) -> Vec<Vec<Vec<u8>>> {
    sizes.iter().map(|pieces| pieces.iter().map(|&bytes| vec![0xff; bytes]).collect()).collect()
}

fn numbers(pieces: &[Vec<u8>]) -> Vec<f64> {
    pieces.concat().chunks(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect()
}

/// 0, 1, 2 and so on in a shape.
fn counted(shape: &[u64]) -> Array {
    Array { shape: shape.to_vec(), values: (0..shape.iter().product()).map(|i: u64| i as f64).collect() }
}

/// What a step makes of counted numbers. The slot has the shape that the step says it gives, and takes no other.
fn after(step: &Step, shape: &[u64]) -> (Vec<u64>, Vec<f64>) {
    let source = Given::new(vec![Sample { input: counted(shape), target: None }]);
    let mut layout = source.layout.clone();
    step.layout(&mut layout).unwrap();
    let feed = feed(vec![step.clone()], slot(&layout.input.shape, DType::F64), None);
    let batch = first(source, &feed).unwrap();
    (layout.input.shape, numbers(&batch.input))
}

#[test]
fn steps_do_what_they_say_and_say_what_they_do() {
    let values = |step: &Step, shape: &[u64]| after(step, shape).1;
    assert_eq!(values(&Step::Scale { factor: 0.5 }, &[3]), [0.0, 0.5, 1.0]);
    let normalise = Step::Normalise { mean: vec![0.0, 2.0], std: vec![1.0, 2.0] };
    assert_eq!(values(&normalise, &[2, 2]), [0.0, 1.0, 0.0, 0.5]);
    assert_eq!(values(&Step::Flip { probability: 1.0 }, &[2, 2]), [1.0, 0.0, 3.0, 2.0]);
    assert_eq!(values(&Step::Flip { probability: 0.0 }, &[2]), [0.0, 1.0]);
    assert_eq!(values(&Step::Pad { length: 4, value: 9.0 }, &[2]), [0.0, 1.0, 9.0, 9.0]);
    assert_eq!(values(&Step::Pad { length: 1, value: 9.0 }, &[2]), [0.0, 1.0]);
    assert_eq!(values(&Step::Truncate { length: 1 }, &[2, 2]), [0.0, 1.0]);
    assert_eq!(after(&Step::Reshape { shape: vec![1, 4] }, &[2, 2]), (vec![1, 4], vec![0.0, 1.0, 2.0, 3.0]));
    assert_eq!(values(&Step::RandomCrop { size: [3, 3], padding: 0 }, &[3, 3]), counted(&[3, 3]).values);
    let window = values(&Step::RandomCrop { size: [2, 2], padding: 0 }, &[2, 3, 3]);
    assert_eq!((window[1] - window[0], window[2] - window[0], window[4] - window[0]), (1.0, 3.0, 9.0));
    assert_eq!(values(&Step::RandomCrop { size: [5, 5], padding: 1 }, &[3, 3])[6], 0.0);
}

#[test]
fn a_target_that_runs_along_is_padded_and_cut_too() {
    let target = Array { shape: vec![2], values: vec![1.0, 2.0] };
    for (step, length, expected) in
        [(Step::Pad { length: 3, value: 0.0 }, 3, &[1.0, 2.0, 0.0][..]), (Step::Truncate { length: 1 }, 1, &[1.0])]
    {
        let source = Given::new(vec![Sample { input: counted(&[2]), target: Some(target.clone()) }]);
        let feed = feed(vec![step], slot(&[length], DType::F64), Some(slot(&[length], DType::F64)));
        let batch = first(source, &feed).unwrap();
        assert_eq!(numbers(&batch.target.unwrap()), expected);
    }
}

#[test]
fn labels_become_hot_or_are_refused() {
    let hot = |label: f64| {
        let target = Array { shape: vec![], values: vec![label] };
        let source = Given::new(vec![Sample { input: counted(&[1]), target: Some(target) }]);
        let feed = feed(vec![Step::OneHot { classes: 3 }], slot(&[1], DType::F64), Some(slot(&[3], DType::F64)));
        first(source, &feed).map(|batch| numbers(&batch.target.unwrap()))
    };
    assert_eq!(hot(2.0).unwrap(), [0.0, 0.0, 1.0]);
    for wrong in [3.0, -1.0, 0.5] {
        let message = hot(wrong).unwrap_err().to_string();
        assert!(message.contains("0 to 2"), "{message}");
    }
}

#[test]
fn tokens_are_whole_numbers_below_the_vocabulary() {
    let tokens = Slot { below: Some(("token", 16)), ..slot(&[2], DType::I64) };
    let feed = feed(vec![], tokens, None);
    let layout = |whole| Layout { input: Part { shape: vec![2], whole }, target: None };
    assert!(feed.check(&layout(true)).is_ok());
    assert!(feed.check(&layout(false)).is_err_and(|refusal| refusal.what.contains("fractions")));
    let batch = |values: [f64; 2]| {
        let source = Given::new(vec![Sample { input: Array { shape: vec![2], values: values.to_vec() }, target: None }]);
        first(source, &feed)
    };
    assert!(batch([0.0, 15.0]).is_ok());
    for wrong in [16.0, -1.0, 0.5, f64::NAN] {
        assert!(batch([0.0, wrong]).is_err_and(|e| e.to_string().contains("tokens are 0 to 15")), "{wrong}");
    }
}

#[test]
fn every_type_is_written() {
    for (dtype, width) in [(DType::F64, 8), (DType::F32, 4), (DType::F16, 2), (DType::BF16, 2), (DType::I64, 8), (DType::U8, 1)] {
        let source = Given::new(vec![Sample { input: counted(&[3]), target: None }]);
        let batch = first(source, &feed(vec![], slot(&[3], dtype), None)).unwrap();
        assert_eq!(batch.input.concat().len(), 3 * width, "{dtype}");
    }
}

/// The samples that a run takes from position `from` on.
fn order(samples: u64, shuffle: Option<u64>, from: u64, count: usize) -> Vec<u64> {
    let numbered = (0..samples).map(|i| Sample { input: Array { shape: vec![], values: vec![i as f64] }, target: None });
    let mut feed = feed(vec![], slot(&[], DType::F64), None);
    feed.settings.shuffle = shuffle;
    let mut pipeline = Pipeline::over(Box::new(Given::new(numbered.collect())), &feed, from, u64::MAX);
    (0..count).map(|_| numbers(&pipeline.next_batch(memory).unwrap().input)[0] as u64).collect()
}

#[test]
fn an_epoch_has_each_sample_once_and_epochs_differ() {
    for buffer in [None, Some(1), Some(7), Some(1000)] {
        let order = order(100, buffer, 0, 300);
        for epoch in order.chunks(100) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        }
        assert_eq!(order[..100] != order[100..200], buffer.is_some_and(|b| b > 1), "{buffer:?}");
    }
}

#[test]
fn an_order_can_be_entered_anywhere() {
    for buffer in [None, Some(9)] {
        let whole = order(40, buffer, 0, 150);
        for from in [0, 1, 39, 40, 41, 97] {
            assert_eq!(order(40, buffer, from as u64, 50), whole[from..from + 50], "{buffer:?} from {from}");
        }
    }
}
