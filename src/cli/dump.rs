//! A recorded run as a memory snapshot that PyTorch's viewers open. Frames name the operator and its layer, the role that the block plays
//! in the end, and the phase with its step.
//!
//! Invariant: [`category_of`] reads the role from what [`of_run`] writes, and from nothing else.

use std::collections::HashMap;
use std::rc::Rc;

use crate::alloc::{
    Action, Annotation, BlockState, Dump, DumpBlock, DumpSegment, DumpState, Frame, PoolKind, Snapshot, TraceAction, TraceEntry,
};
use crate::experiment::Case;
use crate::measure::{Entry, Recorder};
use crate::record::{At, Category, Pass, Phase, Running};

use super::names::Names;

/// The snapshot at the end of a run, or at the failure where memory ran out. Time is counted in events, so that a run repeats to the byte.
pub(super) fn of_run(recorder: &Recorder, case: &Case, experiment: &str) -> Dump {
    let mut writer =
        Writer { names: Names::of(&case.work), experiment, stacks: Vec::new(), known: HashMap::new(), holders: HashMap::new() };
    let (trace, annotations) = writer.trace(recorder);
    let snapshot = recorder.reached_end().map(|e| &e.snapshot).or(recorder.failure().map(|f| &f.snapshot));
    let segments = snapshot.map(|s| writer.segments(s)).unwrap_or_default();
    Dump {
        segments,
        traces: vec![trace],
        stacks: writer.stacks,
        settings: case.allocator.to_string(),
        config: Some(case.allocator.clone()),
        annotations,
    }
}

struct Writer<'a> {
    names: Names,
    experiment: &'a str,
    stacks: Vec<Vec<Rc<Frame>>>,
    known: HashMap<Key, u32>,
    /// Of each address the last client's stack and request. A freed block keeps them, as in PyTorch.
    holders: HashMap<u64, (u32, u64)>,
}

/// What a stack is made of.
type Key = (Running, Category, Option<u32>, At);

impl Writer<'_> {
    fn stack(&mut self, key: Key) -> u32 {
        if let Some(&stack) = self.known.get(&key) {
            return stack;
        }
        let (running, category, state, at) = key;
        let word = if running.operator.is_empty() { "allocate" } else { running.operator };
        let name = match running.pass {
            Pass::Backward => format!("{word} (backward, {})", category.name()),
            Pass::Forward | Pass::Step => format!("{word} ({})", category.name()),
        };
        let filename = match (self.names.layer(&running), state.and_then(|n| self.names.state(n))) {
            (_, Some(tensor)) => tensor.to_owned(),
            (Some(layer), None) => layer.to_owned(),
            (None, None) => "-".to_owned(),
        };
        let phase = Frame { name: at.phase.name().to_owned(), filename: place(at.step, at.micro_step), line: at.step };
        let frames = vec![
            Frame { name, filename, line: 0 },
            phase,
            Frame { name: self.experiment.to_owned(), filename: format!("{}.toml", self.experiment), line: 0 },
        ];
        self.stacks.push(frames.into_iter().map(Rc::new).collect());
        let stack = u32::try_from(self.stacks.len() - 1).expect("fewer stacks than events");
        self.known.insert(key, stack);
        stack
    }

    fn trace(&mut self, recorder: &Recorder) -> (Vec<TraceEntry>, Vec<Annotation>) {
        let history = recorder.history();
        let phases = phases(history);
        let mut in_the_end = recorder.in_the_end().into_iter();
        let mut trace = Vec::new();
        let mut annotations = Vec::new();
        let mut started = 0;
        let last = At { step: 0, micro_step: 0, phase: crate::record::Phase::Model };
        for (entry, at) in history.iter().zip(phases) {
            let at = at.unwrap_or(last);
            let time_us = trace.len() as u64;
            let mut push = |action, address, bytes, stack| {
                trace.push(TraceEntry { action, address, bytes, stream: 0, time_us: trace.len() as u64, stack });
            };
            match entry {
                Entry::Alloc(_) => {
                    let held = in_the_end.next().expect("each block is something in the end");
                    let stack = self.stack((held.running, held.category, held.state, at));
                    self.holders.insert(held.address, (stack, held.requested));
                    push(TraceAction::Alloc, held.address, held.requested, Some(stack));
                }
                Entry::Free(held) => {
                    let stack = self.holders.get(&held.address).map(|(stack, _)| *stack);
                    push(TraceAction::FreeRequested, held.address, held.requested, stack);
                    push(TraceAction::FreeCompleted, held.address, held.requested, stack);
                }
                Entry::Segment(event) => {
                    let action = match event.action {
                        Action::SegmentAlloc => TraceAction::SegmentAlloc,
                        Action::SegmentFree => TraceAction::SegmentFree,
                        Action::SegmentMap => TraceAction::SegmentMap,
                        Action::SegmentUnmap => TraceAction::SegmentUnmap,
                        Action::Oom => TraceAction::Oom,
                        Action::Alloc | Action::Free => continue,
                    };
                    push(action, event.address, event.bytes, None);
                }
                Entry::Row(at) => {
                    let name = format!("{} {}.{}", at.phase.name(), at.step, at.micro_step);
                    annotations.push(Annotation { device: 0, start: true, name: name.clone(), time_us: started });
                    annotations.push(Annotation { device: 0, start: false, name, time_us });
                    started = time_us;
                }
                Entry::Becomes(_) | Entry::EmptyCache => {}
            }
        }
        (trace, annotations)
    }

    fn segments(&self, snapshot: &Snapshot) -> Vec<DumpSegment> {
        let segment = |segment: &crate::alloc::Segment| DumpSegment {
            device: 0,
            address: segment.address,
            bytes: segment.bytes,
            stream: 0,
            large: segment.pool == PoolKind::Large,
            expandable: segment.expandable,
            blocks: segment
                .blocks
                .iter()
                .map(|block| {
                    let (stack, requested) = self.holders.get(&block.address).map_or((None, 0), |(s, r)| (Some(*s), *r));
                    let allocated = block.state == BlockState::Allocated;
                    DumpBlock {
                        address: block.address,
                        bytes: block.bytes,
                        requested: if allocated { block.requested } else { requested },
                        state: if allocated { DumpState::Allocated } else { DumpState::Inactive },
                        stack: stack.filter(|_| allocated),
                    }
                })
                .collect(),
        };
        snapshot.segments.iter().map(segment).collect()
    }
}

/// Where a step's frames say they are.
fn place(step: u64, micro_step: impl std::fmt::Display) -> String {
    format!("step {step}, micro-step {micro_step}")
}

/// The role that a stack of this program's own names. Of any other it says nothing.
pub(super) fn category_of(stack: &[Rc<Frame>]) -> Option<Category> {
    let [operator, phase, experiment] = stack else { return None };
    let known = Phase::ALL.iter().any(|p| p.name() == phase.name);
    let own = phase.filename.starts_with(&place(phase.line, "")) && experiment.filename == format!("{}.toml", experiment.name);
    let (_, role) = operator.name.strip_suffix(')')?.rsplit_once(" (")?;
    let role = role.strip_prefix("backward, ").unwrap_or(role);
    Category::ALL.into_iter().find(|c| known && own && c.name() == role)
}

/// Of each entry the phase that it belongs to: that of the next row.
pub(super) fn phases(history: &[Entry]) -> Vec<Option<At>> {
    let mut phases = vec![None; history.len()];
    let mut next = None;
    for (entry, phase) in history.iter().zip(&mut phases).rev() {
        if let Entry::Row(at) = entry {
            next = Some(*at);
        }
        *phase = next;
    }
    phases
}
