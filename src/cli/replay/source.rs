//! Where a history comes from: a PyTorch snapshot, a trace of our own, a log of RMM's, or an experiment; which of them a file is, its
//! content says. All become requests in order, each with a name where the source has one.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use crate::alloc::{AllocatorConfig, Dump, Frame, Op, RMM_HEADER, RmmLog, Trace, call_site};
use crate::experiment::{self, Case, Overrides};
use crate::gpu::Gpu;
use crate::measure::Entry;
use crate::meta::{cut, plain};
use crate::record::Category;
use crate::train::Outfit;
use crate::whole;

use super::super::args::{Calibration, Told};
use super::super::device::Place;
use super::super::dump::category_of;
use super::super::exit::Failure;
use super::super::names::Names;
use super::super::record::{self, Nobody};

/// Larger files are read by nobody in one piece.
pub(super) const MOST_BYTES: u64 = 4 << 30;

/// A history, ready to be replayed.
pub(in super::super) struct Source {
    pub(in super::super) trace: Trace,
    /// Of each operation that allocates what it is for: an index into `names`, and its role.
    pub(in super::super) labels: Vec<Label>,
    pub(in super::super) names: Vec<String>,
    /// What it ran under, where the source says so.
    pub(in super::super) own: AllocatorConfig,
    /// The line of the source that an operation is on, counted from 1, where it has lines.
    pub(in super::super) line: fn(usize) -> Option<usize>,
    /// Whether a small request came and went before it began, as before every recording of that kind.
    pub(in super::super) warmed_up: bool,
    /// What a person should know of it.
    pub(in super::super) notes: Vec<String>,
}

/// What an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Label {
    pub(in super::super) name: u32,
    pub(in super::super) category: Option<Category>,
}

/// What a file is.
pub(in super::super) enum Content {
    Pickle(Vec<u8>),
    Trace(String),
    Rmm(String),
    Experiment,
}

/// What `path` is, read.
///
/// # Errors
/// It cannot be read, or is none of them.
pub(in super::super) fn content(path: &Path) -> Result<Content, Failure> {
    if path.extension().is_some_and(|e| e == "toml") {
        return Ok(Content::Experiment);
    }
    let bytes = whole::read(path, MOST_BYTES).map_err(|e| of_file(path, e))?;
    if bytes.first() == Some(&0x80) {
        return Ok(Content::Pickle(bytes));
    }
    let text = String::from_utf8(bytes).map_err(|e| of_file(path, e))?;
    let header = text.lines().next().unwrap_or_default().trim_end();
    Ok(if header == RMM_HEADER { Content::Rmm(text) } else { Content::Trace(text) })
}

/// Reads the history in `path`. An experiment runs for it, on nothing, with `set` applied; of a snapshot, `device` is the GPU.
///
/// # Errors
/// The file has a mistake, an experiment several cases, or the calibration is of another GPU or for nothing.
pub(in super::super) fn read(
    path: &Path,
    overrides: &Overrides,
    (gpu, calibration): (&'static Gpu, &Calibration),
    device: Option<usize>,
) -> Result<Source, Failure> {
    let content = content(path)?;
    if !matches!(content, Content::Experiment) {
        calibration.none_of(path)?;
    }
    match content {
        Content::Pickle(bytes) => {
            let dump = Dump::from_pickle(&bytes).map_err(|e| of_file(path, e))?;
            snapshot(&dump, gpu, device).map_err(|e| of_file(path, e))
        }
        Content::Trace(text) => {
            let trace = Trace::parse(&text).map_err(|e| of_file(path, e))?;
            Ok(numbered(trace, |op| Some(op + 2), true, Vec::new()))
        }
        Content::Rmm(text) => {
            let log = RmmLog::parse(&text).map_err(|e| of_file(path, e))?;
            Ok(numbered(log.trace, |_| None, false, streams(log.streams)))
        }
        Content::Experiment => run(path, overrides, gpu, calibration.scratch(gpu)?),
    }
}

/// The device of a snapshot that was asked for, or its first.
///
/// # Errors
/// There are several, and none was asked for.
pub(in super::super) fn device_of(dump: &Dump, asked: Option<usize>) -> Result<usize, String> {
    match (asked, &dump.devices()[..]) {
        (Some(device), _) => Ok(device),
        (None, []) => Ok(0),
        (None, [device]) => Ok(*device),
        (None, several) => Err(format!(
            "the snapshot has devices {}; name one with --device-number",
            cut(&several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "), 80)
        )),
    }
}

/// What each stack of a snapshot is called: in this program's own the tensor or layer and the operator, in others their call site.
pub(in super::super) fn stack_names(dump: &Dump) -> Vec<String> {
    let name = |stack: &Vec<Rc<Frame>>| match (&stack[..], category_of(stack)) {
        ([operator, ..], Some(_)) if operator.filename == "-" => operator.name.clone(),
        ([operator, ..], Some(_)) => format!("{}, {}", operator.filename, operator.name),
        _ => call_site(stack),
    };
    dump.stacks.iter().map(name).collect()
}

fn snapshot(dump: &Dump, gpu: &Gpu, device: Option<usize>) -> Result<Source, String> {
    let device = device_of(dump, device)?;
    let history = dump.history(device, gpu.total_memory).map_err(|e| e.to_string())?;
    let mut names = stack_names(dump);
    let unnamed = u32::try_from(names.len()).expect("fewer stacks than 2^32");
    names.push(String::new());
    let roles: Vec<Option<Category>> = dump.stacks.iter().map(|s| category_of(s)).collect();
    let label = |stack: &Option<u32>| Label { name: stack.unwrap_or(unnamed), category: stack.and_then(|s| roles[s as usize]) };
    let labels = history.stacks.iter().map(label).collect();
    let mut notes = streams(history.streams);
    if !history.blocks_before.is_empty() {
        let many = history.blocks_before.len();
        notes.push(format!("the history begins with {many} blocks in use; they are allocated first, by address"));
    }
    let own = dump.settings.parse().unwrap_or_else(|mistake| {
        notes.push(format!("the snapshot's own settings, `{}`, are not used: {mistake}", plain(&dump.settings)));
        AllocatorConfig::default()
    });
    Ok(Source { trace: history.trace, labels, names, own, line: |_| None, warmed_up: false, notes })
}

/// A trace without names: each block is called by its number.
fn numbered(trace: Trace, line: fn(usize) -> Option<usize>, warmed_up: bool, notes: Vec<String>) -> Source {
    let labels = (0..).zip(&trace.ops).map(|(n, _)| Label { name: n, category: None }).collect();
    let mut count = 0u64;
    let name = |op: &Op| match op {
        Op::Alloc { .. } => {
            count += 1;
            format!("allocation {count}")
        }
        _ => String::new(),
    };
    let names = trace.ops.iter().map(name).collect();
    Source { trace, labels, names, own: AllocatorConfig::default(), line, warmed_up, notes }
}

fn streams(streams: usize) -> Vec<String> {
    let note = || format!("{streams} streams took part; PyTorch keeps a cache for each, this replays them as one");
    if streams > 1 { vec![note()] } else { Vec::new() }
}

/// The one case of an experiment.
///
/// # Errors
/// The file has mistakes, or several cases.
pub(in super::super) fn one_case(path: &Path, overrides: &Overrides, gpu: &Gpu) -> Result<Case, Failure> {
    let styled = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let mut cases = experiment::load_with(path, overrides, gpu).map_err(|mistakes| Failure::usage(mistakes.render(styled)))?.cases;
    if cases.len() != 1 {
        let keys: Vec<&str> = cases.iter().map(|c| c.key.as_str()).collect();
        let message = format!("one case is taken, and there are {}; choose one with --set:\n  {}", keys.len(), keys.join("\n  "));
        return Err(of_file(path, message));
    }
    Ok(cases.swap_remove(0))
}

/// Runs an experiment on a device that is never full, and takes down what it asks for.
fn run(path: &Path, overrides: &Overrides, gpu: &'static Gpu, scratch: Rc<Told>) -> Result<Source, Failure> {
    let case = one_case(path, overrides, gpu)?;
    let mut unlimited = case.clone();
    unlimited.allocator = AllocatorConfig::default();
    let (recorder, _) = record::run(
        &Place::boundless(gpu, scratch),
        &unlimited,
        &Outfit { feed: case.feed.as_ref(), ..Outfit::default() },
        true,
        &mut Nobody,
    )?;
    let names = Names::of(&case.work);
    let mut writer = Requests::default();
    let mut in_the_end = recorder.in_the_end().into_iter();
    for entry in recorder.history() {
        match entry {
            Entry::Alloc(_) => {
                let held = in_the_end.next().expect("each block is something in the end");
                let name = writer.name(names.tensor(&held));
                let slot = writer.slot();
                writer.slots.insert(held.address, slot);
                writer.push(Op::Alloc { slot, bytes: held.requested }, Label { name, category: Some(held.category) });
            }
            Entry::Free(held) => {
                let slot = writer.slots.remove(&held.address).expect("what is freed was allocated");
                writer.vacant.push(slot);
                let name = writer.name(String::new());
                writer.push(Op::Free { slot }, Label { name, category: None });
            }
            Entry::EmptyCache => {
                let name = writer.name(String::new());
                writer.push(Op::EmptyCache, Label { name, category: None });
            }
            Entry::Becomes(_) | Entry::Segment(_) | Entry::Row(_) => {}
        }
    }
    Ok(Source {
        trace: Trace { ops: writer.ops, slots: writer.most as usize },
        labels: writer.labels,
        names: writer.names,
        own: case.allocator.clone(),
        line: |_| None,
        warmed_up: false,
        notes: Vec::new(),
    })
}

/// Requests being taken down.
#[derive(Default)]
struct Requests {
    ops: Vec<Op>,
    labels: Vec<Label>,
    names: Vec<String>,
    known: HashMap<String, u32>,
    slots: HashMap<u64, u32>,
    vacant: Vec<u32>,
    most: u32,
}

impl Requests {
    fn slot(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.most += 1;
            self.most - 1
        })
    }

    fn push(&mut self, op: Op, label: Label) {
        self.ops.push(op);
        self.labels.push(label);
    }

    fn name(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.names.len()).expect("fewer names than 2^32");
        *self.known.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

pub(in super::super) fn of_file(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::usage(format_args!("{}: {what}", path.display()))
}
