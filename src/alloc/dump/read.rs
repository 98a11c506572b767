//! Reading a dump from a pickle: PyTorch's, of any release that has `segments` and `device_traces`, or our own. Keys that are not asked for
//! are passed over; one that is missing or of another kind is a mistake with its place.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use super::types::{Annotation, Dump, DumpBlock, DumpSegment, DumpState, Frame, TraceAction, TraceEntry};
use crate::alloc::pickle::{Pickle, PickleError, Value};
use crate::meta::plain;

/// Why a file is no dump.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum DumpError {
    #[error(transparent)]
    Pickle(#[from] PickleError),
    #[error("this pickle is no memory snapshot: {place} has no `{key}`")]
    Missing { place: String, key: &'static str },
    #[error("this pickle is no memory snapshot: {place} is no {kind}")]
    Kind { place: String, kind: &'static str },
    #[error("{place}: PyTorch has no `{}`", plain(found))]
    Word { place: String, found: String },
    #[error("this pickle is no memory snapshot: it says more than it has room to say, by naming lists again and again")]
    Repeated,
}

impl Dump {
    /// Reads a pickle.
    ///
    /// # Errors
    /// It is none, or no dump.
    pub fn from_pickle(bytes: &[u8]) -> Result<Self, DumpError> {
        let pickle = Pickle::parse(bytes)?;
        let mut reader = Reader { pickle: &pickle, left: Cell::new(bytes.len()), stacks: Stacks::default() };
        let whole = || "the snapshot".to_owned();
        let root = reader.dict(pickle.root(), whole)?;
        let mut segments = Vec::new();
        let list = reader.list(reader.get(root, "segments", whole)?, || "`segments`".to_owned())?;
        for (n, &value) in list.iter().enumerate() {
            segments.push(reader.segment(value, &|| format!("segment {n}"))?);
        }
        let mut traces = Vec::new();
        let devices = reader.list(reader.get(root, "device_traces", whole)?, || "`device_traces`".to_owned())?;
        for (device, &value) in devices.iter().enumerate() {
            let entries = reader.list(value, || format!("the trace of device {device}"))?;
            let mut trace = Vec::with_capacity(entries.len());
            for (n, &value) in entries.iter().enumerate() {
                trace.push(reader.entry(value, &|| format!("entry {n} of device {device}'s trace"))?);
            }
            traces.push(trace);
        }
        let settings = match pickle.get(root, "allocator_settings") {
            Some(Value::Dict(d)) => pickle.get(d, "PYTORCH_CUDA_ALLOC_CONF").and_then(|t| pickle.text(t)).unwrap_or_default(),
            _ => "",
        };
        let annotations = match pickle.get(root, "external_annotations") {
            Some(Value::List(list)) => pickle.items(list).iter().filter_map(|v| reader.annotation(*v)).collect(),
            _ => Vec::new(),
        };
        Ok(Self { segments, traces, stacks: reader.stacks.all, settings: settings.to_owned(), config: None, annotations })
    }
}

struct Reader<'a> {
    pickle: &'a Pickle<'a>,
    /// Items that can still come: none takes less than a byte, unless a list is named twice, which no writer of snapshots does.
    left: Cell<usize>,
    stacks: Stacks,
}

/// Stacks that were read. PyTorch writes a list of its own for every event, but few stacks differ: each is kept once, and so is each frame.
#[derive(Default)]
struct Stacks {
    all: Vec<Vec<Rc<Frame>>>,
    /// Of a list of frames its number among the stacks.
    lists: HashMap<u32, Option<u32>>,
    /// Of frames by their numbers the stack that they make.
    known: HashMap<Vec<u32>, u32>,
    frames: Vec<Rc<Frame>>,
    /// Of a dict the number of its frame.
    dicts: HashMap<u32, Option<u32>>,
    by_frame: HashMap<Rc<Frame>, u32>,
}

impl Stacks {
    fn frame(&mut self, frame: Frame) -> u32 {
        let next = u32::try_from(self.frames.len()).expect("pickles have fewer dicts");
        let frame = Rc::new(frame);
        *self.by_frame.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(Rc::clone(frame));
            next
        })
    }

    fn stack(&mut self, numbers: Vec<u32>) -> u32 {
        let next = u32::try_from(self.all.len()).expect("pickles have fewer lists");
        *self.known.entry(numbers).or_insert_with_key(|numbers| {
            self.all.push(numbers.iter().map(|n| Rc::clone(&self.frames[*n as usize])).collect());
            next
        })
    }
}

type Read<T> = Result<T, DumpError>;

impl<'a> Reader<'a> {
    fn dict(&self, value: Value, place: impl Fn() -> String) -> Read<u32> {
        if let Value::Dict(dict) = value { Ok(dict) } else { Err(DumpError::Kind { place: place(), kind: "dict" }) }
    }

    fn list(&self, value: Value, place: impl Fn() -> String) -> Read<&'a [Value]> {
        match value {
            Value::List(list) | Value::Tuple(list) => {
                let items = self.pickle.items(list);
                self.left.set(self.left.get().checked_sub(items.len()).ok_or(DumpError::Repeated)?);
                Ok(items)
            }
            _ => Err(DumpError::Kind { place: place(), kind: "list" }),
        }
    }

    fn get(&self, dict: u32, key: &'static str, place: impl Fn() -> String) -> Read<Value> {
        self.pickle.get(dict, key).ok_or_else(|| DumpError::Missing { place: place(), key })
    }

    fn number(&self, dict: u32, key: &'static str, place: &dyn Fn() -> String) -> Read<u64> {
        let value = self.get(dict, key, place)?;
        let number = self.pickle.integer(value).and_then(|n| u64::try_from(n).ok());
        number.ok_or_else(|| DumpError::Kind { place: format!("`{key}` of {}", place()), kind: "number of bytes, address or time" })
    }

    fn optional(&self, dict: u32, key: &'static str, place: &dyn Fn() -> String) -> Read<u64> {
        if self.pickle.get(dict, key).is_some() { self.number(dict, key, place) } else { Ok(0) }
    }

    fn word(&self, dict: u32, key: &'static str, place: &dyn Fn() -> String) -> Read<&'a str> {
        let value = self.get(dict, key, place)?;
        self.pickle.text(value).ok_or_else(|| DumpError::Kind { place: format!("`{key}` of {}", place()), kind: "text" })
    }

    fn segment(&mut self, value: Value, place: &dyn Fn() -> String) -> Read<DumpSegment> {
        let dict = self.dict(value, place)?;
        let blocks = self.list(self.get(dict, "blocks", place)?, || format!("`blocks` of {}", place()))?;
        let mut segment = DumpSegment {
            device: u32::try_from(self.optional(dict, "device", place)?).unwrap_or(u32::MAX),
            address: self.number(dict, "address", place)?,
            bytes: self.number(dict, "total_size", place)?,
            stream: self.optional(dict, "stream", place)?,
            large: self.word(dict, "segment_type", place)? == "large",
            expandable: self.pickle.get(dict, "is_expandable") == Some(Value::Bool(true)),
            blocks: Vec::with_capacity(blocks.len()),
        };
        let mut address = segment.address;
        for (n, &value) in blocks.iter().enumerate() {
            let place: &dyn Fn() -> String = &|| format!("block {n} of {}", place());
            let dict = self.dict(value, place)?;
            let bytes = self.number(dict, "size", place)?;
            let word = self.word(dict, "state", place)?;
            let state = DumpState::ALL.into_iter().find(|s| s.name() == word);
            let state = state.ok_or_else(|| DumpError::Word { place: place(), found: word.to_owned() })?;
            // Older dumps give no address: blocks tile their segment.
            let requested =
                if self.pickle.get(dict, "requested_size").is_some() { self.number(dict, "requested_size", place)? } else { bytes };
            segment.blocks.push(DumpBlock { address, bytes, requested, state, stack: self.stack(dict) });
            address = address.saturating_add(bytes);
        }
        Ok(segment)
    }

    fn entry(&mut self, value: Value, place: &dyn Fn() -> String) -> Read<TraceEntry> {
        let dict = self.dict(value, place)?;
        let word = self.word(dict, "action", place)?;
        let action = TraceAction::ALL.into_iter().find(|a| a.name() == word);
        let action = action.ok_or_else(|| DumpError::Word { place: place(), found: word.to_owned() })?;
        let address = if action == TraceAction::Oom { "device_free" } else { "addr" };
        Ok(TraceEntry {
            action,
            address: self.number(dict, address, place)?,
            bytes: self.number(dict, "size", place)?,
            stream: self.optional(dict, "stream", place)?,
            time_us: self.optional(dict, "time_us", place)?,
            stack: self.stack(dict),
        })
    }

    /// The stack under `frames`. What is no list of frames is none: it changes no figure.
    fn stack(&mut self, dict: u32) -> Option<u32> {
        let Some(Value::List(list) | Value::Tuple(list)) = self.pickle.get(dict, "frames") else { return None };
        if let Some(&stack) = self.stacks.lists.get(&list) {
            return stack;
        }
        let numbers: Vec<u32> = self.pickle.items(list).iter().filter_map(|v| self.frame_number(*v)).collect();
        let stack = (!numbers.is_empty()).then(|| self.stacks.stack(numbers));
        self.stacks.lists.insert(list, stack);
        stack
    }

    fn frame_number(&mut self, value: Value) -> Option<u32> {
        let Value::Dict(dict) = value else { return None };
        if let Some(&number) = self.stacks.dicts.get(&dict) {
            return number;
        }
        let number = self.frame(dict).map(|frame| self.stacks.frame(frame));
        self.stacks.dicts.insert(dict, number);
        number
    }

    fn frame(&self, dict: u32) -> Option<Frame> {
        let text = |key| self.pickle.get(dict, key).and_then(|t| self.pickle.text(t)).map(str::to_owned);
        let line = self.pickle.get(dict, "line").and_then(|n| self.pickle.integer(n)).and_then(|n| u64::try_from(n).ok());
        Some(Frame { name: text("name")?, filename: text("filename").unwrap_or_default(), line: line.unwrap_or(0) })
    }

    /// What is no whole annotation is none: it changes no figure.
    fn annotation(&self, value: Value) -> Option<Annotation> {
        let Value::Dict(dict) = value else { return None };
        let text = |key| self.pickle.get(dict, key).and_then(|t| self.pickle.text(t));
        let time_us = self.pickle.integer(self.pickle.get(dict, "time_us")?).and_then(|n| u64::try_from(n).ok())?;
        let device = self.pickle.get(dict, "device").and_then(|n| self.pickle.integer(n)).and_then(|n| u32::try_from(n).ok());
        let start = match text("stage")? {
            "START" => true,
            "END" => false,
            _ => return None,
        };
        Some(Annotation { device: device.unwrap_or(0), start, name: text("name")?.to_owned(), time_us })
    }
}
