//! A source of scratch that remembers what it was asked, so that a run can write it down.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Request, Scratch};
use crate::gpu::Gpu;

/// Another source's answers, remembered.
#[derive(Debug)]
pub struct Asked {
    of: Rc<dyn Scratch>,
    answers: RefCell<BTreeMap<Request, u64>>,
    /// Asked since somebody last wanted to know.
    since: RefCell<BTreeSet<Request>>,
}

impl Asked {
    /// Nothing asked yet.
    #[must_use]
    pub fn new(of: Rc<dyn Scratch>) -> Self {
        Self { of, answers: RefCell::default(), since: RefCell::default() }
    }

    /// What was asked since this was last called: requests by their keys, with the answers in bytes.
    #[must_use]
    pub fn take(&self) -> BTreeMap<String, u64> {
        let answers = self.answers.borrow();
        self.since.take().into_iter().map(|request| (request.to_string(), answers[&request])).collect()
    }
}

impl Scratch for Asked {
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64 {
        self.since.borrow_mut().insert(*request);
        if let Some(&known) = self.answers.borrow().get(request) {
            return known;
        }
        let bytes = self.of.bytes(gpu, request);
        self.answers.borrow_mut().insert(*request, bytes);
        bytes
    }

    fn origin(&self) -> String {
        self.of.origin()
    }
}
