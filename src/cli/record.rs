//! Running a case while writing down what it does to memory.

use std::cell::RefCell;
use std::rc::Rc;

use crate::experiment::Case;
use crate::measure::Recorder;
use crate::record::{Measured, MicroStep};
use crate::save::{SaveError, Snapshot};
use crate::tensor::{Memory, SharedWatcher};
use crate::train::{Observer, Outfit};

use super::device::{Ended, Place};
use super::exit::Failure;

/// Runs a case; `history` says whether every event is written down.
///
/// # Errors
/// The device has failed.
pub(super) fn run(
    place: &Place,
    case: &Case,
    outfit: &Outfit<'_>,
    history: bool,
    observer: &mut dyn Observer,
) -> Result<(Recorder, Ended), Failure> {
    let recorder = Rc::new(RefCell::new(Recorder::new(history)));
    let watcher: SharedWatcher = Rc::clone(&recorder) as SharedWatcher;
    let mut observer = Both { recorder: Rc::clone(&recorder), other: observer };
    let ended = place.run(case.work.clone(), case.allocator.clone(), outfit, &mut observer, watcher)?;
    drop(observer);
    let recorder = Rc::into_inner(recorder).expect("the case and its allocator are gone").into_inner();
    Ok((recorder, ended))
}

/// An observer that only watches memory.
pub(super) struct Nobody;

impl Observer for Nobody {
    fn row(&mut self, _row: &Measured) {}

    fn micro_step(&mut self, _done: &MicroStep) {}
}

/// The recorder, and whoever else wants to know.
struct Both<'a> {
    recorder: Rc<RefCell<Recorder>>,
    other: &'a mut dyn Observer,
}

impl Observer for Both<'_> {
    fn row(&mut self, row: &Measured) {
        self.recorder.borrow_mut().row(row.at);
        self.other.row(row);
    }

    fn micro_step(&mut self, done: &MicroStep) {
        self.other.micro_step(done);
    }

    fn log(&mut self, step: u64, loss: Option<f64>) {
        self.other.log(step, loss);
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<(), SaveError> {
        self.other.save(snapshot)
    }

    fn end(&mut self, memory: &Memory) {
        self.recorder.borrow_mut().end(memory);
        self.other.end(memory);
    }
}
