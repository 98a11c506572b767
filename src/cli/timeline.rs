//! Histories as pictures draw them: of a run that was written down, of a trace under some settings, of a snapshot as it was recorded.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::alloc::{Action, Allocator, AllocatorConfig, Dump, Event, Op, Placement, TraceAction, replay, warm_up};
use crate::measure::{Entry, Recorder};
use crate::record::{Category, Change, Moment, Timeline};

use super::dump::category_of;
use super::names::Names;
use super::replay::{Source, stack_names};

/// Blocks of PyTorch's are multiples of this.
const BLOCK: u64 = 512;

/// A run.
pub(super) fn of_run(recorder: &Recorder, names: &Names) -> Timeline {
    let mut writer = Writer::default();
    let mut begun = 0;
    for entry in recorder.history() {
        match entry {
            Entry::Alloc(held) | Entry::Becomes(held) => {
                let change = if matches!(entry, Entry::Alloc(_)) { Change::Alloc } else { Change::Becomes };
                let name = writer.name(&names.tensor(held));
                writer.push(Moment { change, address: held.address, bytes: held.bytes, name, category: Some(held.category) });
            }
            Entry::Free(held) => {
                let name = writer.name(&names.tensor(held));
                writer.push(Moment { change: Change::Free, address: held.address, bytes: held.bytes, name, category: Some(held.category) });
            }
            Entry::Segment(event) => writer.segment(event),
            Entry::Row(at) => {
                let phase = if at.micro_step > 0 {
                    format!("step {} micro-step {} {}", at.step, at.micro_step, at.phase)
                } else {
                    format!("step {} {}", at.step, at.phase)
                };
                writer.timeline.phases.push((begun, phase));
                begun = writer.timeline.moments.len();
            }
            Entry::EmptyCache => {}
        }
    }
    writer.timeline
}

/// A source's requests under some settings, on a device of `total` bytes.
pub(super) fn of_replay(source: &Source, config: &AllocatorConfig, total: u64) -> Timeline {
    let mut allocator = Allocator::new(config.clone(), Box::new(Placement::new(total)));
    if source.warmed_up {
        warm_up(&mut allocator);
    }
    let events = Rc::new(RefCell::new(Vec::new()));
    let listener = Rc::clone(&events);
    allocator.listen(Box::new(move |event| listener.borrow_mut().push(event)));
    replay(&source.trace, &mut allocator, |_, _| {});
    let events = events.borrow();
    // A request is answered by one event, whether it succeeds or fails; those for nothing, or for more than there can be, by none.
    let asks = |op: &Op| matches!(op, Op::Alloc { bytes, .. } if (1..1 << 60).contains(bytes));
    let mut labels = source.trace.ops.iter().zip(&source.labels).filter(|(op, _)| asks(op)).map(|(_, label)| *label);
    let mut writer = Writer::default();
    let mut held: HashMap<u64, (u32, Option<Category>)> = HashMap::new();
    for event in events.iter() {
        match event.action {
            Action::Alloc | Action::Oom => {
                let label = labels.next().expect("each request is answered once");
                let name = writer.name(&source.names[label.name as usize]);
                let (change, category) = (if event.action == Action::Alloc { Change::Alloc } else { Change::Oom }, label.category);
                if change == Change::Alloc {
                    held.insert(event.address, (name, category));
                }
                writer.push(Moment { change, address: event.address, bytes: event.block, name, category });
            }
            Action::Free => {
                let (name, category) = held.remove(&event.address).expect("what is freed was allocated");
                writer.push(Moment { change: Change::Free, address: event.address, bytes: event.block, name, category });
            }
            _ => writer.segment(event),
        }
    }
    writer.timeline
}

/// A device's part of a snapshot, as it was recorded.
///
/// # Errors
/// The history cannot have been.
pub(super) fn of_dump(dump: &Dump, device: usize, total: u64) -> Result<Timeline, String> {
    let history = dump.history(device, total).map_err(|e| e.to_string())?;
    let stacks = stack_names(dump);
    let mut writer = Writer::default();
    let unnamed = writer.name("");
    let stack_numbers: Vec<u32> = stacks.iter().map(|s| writer.name(s)).collect();
    let of_stack = |stack: Option<u32>| stack.map_or(unnamed, |s| stack_numbers[s as usize]);
    let roles: Vec<Option<Category>> = dump.stacks.iter().map(|s| category_of(s)).collect();
    let role = |stack: Option<u32>| stack.and_then(|s| roles[s as usize]);
    let block = |requested: u64| requested.max(1).checked_next_multiple_of(BLOCK).unwrap_or(requested);
    let mut held: HashMap<u64, (u64, u32, Option<Category>)> = HashMap::new();
    for &(address, bytes) in &history.segments_before {
        writer.push(Moment { change: Change::Reserve, address, bytes, name: unnamed, category: None });
    }
    for before in &history.blocks_before {
        let (bytes, name, category) = (block(before.requested), of_stack(before.stack), role(before.stack));
        held.insert(before.address, (bytes, name, category));
        writer.push(Moment { change: Change::Alloc, address: before.address, bytes, name, category });
    }
    let mut times = Vec::new();
    for entry in dump.traces.get(device).into_iter().flatten() {
        times.push((entry.time_us, writer.timeline.moments.len()));
        let (name, category) = (of_stack(entry.stack), role(entry.stack));
        let (change, (bytes, name, category)) = match entry.action {
            TraceAction::Alloc => {
                let made = (block(entry.bytes), name, category);
                held.insert(entry.address, made);
                (Change::Alloc, made)
            }
            TraceAction::FreeCompleted => (Change::Free, held.remove(&entry.address).unwrap_or((block(entry.bytes), name, category))),
            TraceAction::SegmentAlloc | TraceAction::SegmentMap => (Change::Reserve, (entry.bytes, name, None)),
            TraceAction::SegmentFree | TraceAction::SegmentUnmap => (Change::Release, (entry.bytes, name, None)),
            TraceAction::Oom => (Change::Oom, (entry.bytes, name, category)),
            TraceAction::FreeRequested | TraceAction::Snapshot => continue,
        };
        writer.timeline.mapped |= entry.action == TraceAction::SegmentMap;
        let address = if change == Change::Oom { 0 } else { entry.address };
        writer.push(Moment { change, address, bytes, name, category });
    }
    writer.timeline.phases = phases(dump, device, &times);
    Ok(writer.timeline)
}

/// Of a snapshot's annotations what is open, from which moment on: the one that began last, and nothing (an empty name) where none is open.
/// `times` are those of the history's entries, each with the moment it begins.
fn phases(dump: &Dump, device: usize, times: &[(u64, usize)]) -> Vec<(usize, String)> {
    let mut annotations: Vec<_> = dump.annotations.iter().filter(|a| a.device as usize == device).collect();
    annotations.sort_by_key(|a| a.time_us);
    let mut open: Vec<&str> = Vec::new();
    let mut phases: Vec<(usize, String)> = Vec::new();
    for annotation in annotations {
        if annotation.start {
            open.push(&annotation.name);
        } else if let Some(begun) = open.iter().rposition(|name| *name == annotation.name) {
            open.remove(begun);
        }
        let first = times.partition_point(|(time, _)| *time < annotation.time_us);
        let Some(&(_, moment)) = times.get(first) else { break };
        let now = open.last().copied().unwrap_or_default();
        match phases.last_mut() {
            Some((since, name)) if *since == moment => now.clone_into(name),
            last if last.as_ref().map_or("", |(_, name)| name.as_str()) == now => {}
            _ => phases.push((moment, now.to_owned())),
        }
    }
    phases
}

#[derive(Default)]
struct Writer {
    timeline: Timeline,
    known: HashMap<String, u32>,
}

impl Writer {
    fn push(&mut self, moment: Moment) {
        self.timeline.moments.push(moment);
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.known.get(name) {
            return known;
        }
        let number = u32::try_from(self.timeline.names.len()).expect("fewer names than 2^32");
        self.timeline.names.push(name.to_owned());
        self.known.insert(name.to_owned(), number);
        number
    }

    /// An event of a segment, or a failure.
    fn segment(&mut self, event: &Event) {
        let change = match event.action {
            Action::SegmentAlloc | Action::SegmentMap => Change::Reserve,
            Action::SegmentFree | Action::SegmentUnmap => Change::Release,
            Action::Oom => Change::Oom,
            Action::Alloc | Action::Free => return,
        };
        self.timeline.mapped |= event.action == Action::SegmentMap;
        let name = self.name("");
        self.push(Moment { change, address: event.address, bytes: event.bytes, name, category: None });
    }
}
