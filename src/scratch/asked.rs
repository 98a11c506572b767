//! A source of scratch that remembers what it was asked, so that a run can write it down.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Request, Scratch};
use crate::gpu::Gpu;

/// Another source's answers, remembered.
#[derive(Debug)]
pub struct Asked {
    of: Rc<dyn Scratch>,
    answers: RefCell<BTreeMap<Request, u64>>,
}

impl Asked {
    /// Nothing asked yet.
    #[must_use]
    pub fn new(of: Rc<dyn Scratch>) -> Self {
        Self { of, answers: RefCell::new(BTreeMap::new()) }
    }

    /// Requests by their keys, with the answers in bytes.
    #[must_use]
    pub fn answers(&self) -> BTreeMap<String, u64> {
        self.answers.borrow().iter().map(|(request, &bytes)| (request.to_string(), bytes)).collect()
    }
}

impl Scratch for Asked {
    fn bytes(&self, gpu: &Gpu, request: &Request) -> u64 {
        if let Some(&known) = self.answers.borrow().get(request) {
            return known;
        }
        let bytes = self.of.bytes(gpu, request);
        self.answers.borrow_mut().insert(*request, bytes);
        bytes
    }
}
