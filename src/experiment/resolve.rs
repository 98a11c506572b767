//! From a document to what runs: `[allocator]`, and `[model]` with `[train]` or `[allocations]`. Everything that can be told without
//! running is told here, as mistakes.

use std::path::Path;

use super::diagnostic::{Diagnostic, Span};
use super::document::Node;
use super::read::Reader;
use super::tables::{ALLOCATOR, EXPERIMENT, LOG, MODEL, SAVE, TRAIN};
use super::{data, script, train, words};
use crate::alloc::{AllocatorConfig, ConfigError, Divisions};
use crate::data::Feed;
use crate::gpu::Gpu;
use crate::meta::bytes::decimal;
use crate::model::Work;
use crate::model::field::{Kind, Value};

/// What one document comes to.
#[derive(Debug)]
pub(super) struct Run {
    /// The allocator's settings.
    pub(super) allocator: AllocatorConfig,
    /// What runs.
    pub(super) work: Work,
    /// Where its batches come from.
    pub(super) feed: Option<Feed>,
    /// Steps between two losses that are told.
    pub(super) log: Option<u64>,
    /// Steps between two saves.
    pub(super) save: Option<u64>,
}

/// What one document says.
#[derive(Debug)]
pub(super) struct Resolved {
    /// For people.
    pub(super) description: Option<String>,
    /// What it comes to; only where there are no mistakes.
    pub(super) case: Option<Run>,
    /// Everything that is wrong.
    pub(super) mistakes: Vec<Diagnostic>,
}

/// Resolves one document (its `[sweep]` aside) for a GPU. `tolerate_missing` where the file's syntax is broken; `folder` is what paths in
/// it are relative to.
#[must_use]
pub(super) fn resolve(root: &Node, folder: &Path, gpu: &Gpu, tolerate_missing: bool) -> Resolved {
    let mut reader = Reader::default();
    reader.tolerate_missing = tolerate_missing;
    reader.capability = gpu.capability;
    top_level(root, &mut reader);
    let description = root.get("description").and_then(|d| reader.value("`description`", d, &Kind::Text));
    // It is printed in a line: nothing in it is a command for a terminal.
    let in_a_line = |text: String| text.trim().replace(char::is_control, " ");
    let description = if let Some(Value::Text(text)) = description { Some(in_a_line(text)) } else { None };
    let allocator = allocator(root, &mut reader);
    let mut work = work(root, &mut reader);
    let feed = data::resolve(root, folder, work.as_mut(), &mut reader);
    let [log, save] = [("log", LOG), ("save", SAVE)].map(|(name, fields)| data::every(root, name, fields, &mut reader));
    let case = work.filter(|_| reader.mistakes.is_empty()).map(|work| Run { allocator, work, feed, log, save });
    Resolved { description, case, mistakes: reader.mistakes }
}

fn top_level(root: &Node, reader: &mut Reader) {
    let known: Vec<&'static str> = EXPERIMENT.iter().map(|f| f.name).collect();
    for entry in root.table().unwrap_or_default() {
        if !known.contains(&entry.key.as_str()) {
            let message = format!("an experiment has no `{}`", words::short(&entry.key));
            let nearest = reader.unknown(entry.key_span, &message, &entry.key, &known);
            reader.misspelt.extend(nearest);
        }
    }
}

fn work(root: &Node, reader: &mut Reader) -> Option<Work> {
    let script = root.entry("allocations");
    for table in ["model", "train"] {
        let entry = root.entry(table);
        if let (Some(entry), Some(_)) = (entry, script) {
            reader.mistake(Diagnostic::new(entry.key_span, format!("`[{table}]` and `[allocations]` exclude each other")));
        }
    }
    let missing = ["model", "train"].into_iter().filter(|t| root.entry(t).is_none() && !reader.misspelt.contains(t));
    let missing = words::list(missing.map(|t| format!("`[{t}]`")));
    if !missing.is_empty() && script.is_none() && !reader.tolerate_missing {
        let hint = "an experiment has `[model]` and `[train]`, or `[allocations]`";
        reader.mistake(Diagnostic::new(root.span, format!("an experiment needs {missing}")).hint(hint));
    }
    if let Some(script) = script {
        return script::resolve(script, reader).map(Work::Script);
    }
    let model = root.entry("model").and_then(|e| {
        if let Some(blocks) = e.value.get("blocks") {
            reader.declare_blocks(blocks);
        }
        let model = reader.partial("[model]", e.key_span, &e.value, MODEL).map(|m| (m.0, e));
        reader.read_blocks();
        model
    });
    let train = root.entry("train").and_then(|e| reader.partial("[train]", e.key_span, &e.value, TRAIN).map(|t| (t.0, e)));
    let (model, train) = (model?, train?);
    train::resolve(&model.0, model.1, &train.0, train.1, reader).map(|plan| Work::Train(Box::new(plan)))
}

fn allocator(root: &Node, reader: &mut Reader) -> AllocatorConfig {
    let mut config = AllocatorConfig::default();
    let Some(entry) = root.entry("allocator") else { return config };
    let Some((values, _)) = reader.partial("[allocator]", entry.key_span, &entry.value, ALLOCATOR) else { return config };
    let span = |name: &str| entry.value.get(name).map_or(entry.key_span, |n| n.span);
    let mut note = |name: &str, result: Result<(), String>| {
        if let Err(message) = result {
            reader.mistake(Diagnostic::new(span(name), message));
        }
    };
    if let Some(Value::Text(text)) = values.get("settings") {
        match text.parse() {
            Ok(settings) => config = settings,
            Err(e) => note("settings", Err(ConfigError::to_string(&e))),
        }
    }
    if let Some(mb) = values.optional_integer("large_segment_size_mb") {
        note("large_segment_size_mb", config.set_large_segment_size_mb(mb).map_err(|e| e.to_string()));
    }
    if let Some(mb) = values.optional_integer("max_split_size_mb") {
        note("max_split_size_mb", config.set_max_split_size_mb(mb).map_err(|e| e.to_string()));
    }
    if let Some(mb) = values.optional_integer("max_non_split_rounding_mb") {
        note("max_non_split_rounding_mb", config.set_max_non_split_rounding_mb(mb).map_err(|e| e.to_string()));
    }
    if values.has("garbage_collection_threshold") {
        let share = values.number("garbage_collection_threshold");
        note("garbage_collection_threshold", config.set_garbage_collection_threshold(share).map_err(|e| e.to_string()));
    }
    let divisions = match values.get("roundup_power2_divisions") {
        Some(Value::Integer(n)) => Some(Divisions::uniform(*n)),
        Some(Value::Text(text)) => Some(text.parse::<Divisions>()),
        _ => None,
    };
    match divisions {
        Some(Ok(divisions)) => config.set_roundup_power2_divisions(divisions),
        Some(Err(e)) => note("roundup_power2_divisions", Err(e.to_string())),
        None => {}
    }
    if values.has("expandable_segments") {
        config.expandable_segments = values.bool("expandable_segments");
    }
    match values.get("memory_limit") {
        Some(Value::Integer(bytes)) => config.memory_limit = Some(*bytes),
        Some(Value::Text(text)) => match bytes(text) {
            Some(bytes) => config.memory_limit = Some(bytes),
            None => note(
                "memory_limit",
                Err(format!(
                    "`memory_limit` cannot be {text:?}: write bytes as a number, or a text such as \"512MiB\" with B, KiB, MiB, GiB or TiB"
                )),
            ),
        },
        _ => {}
    }
    config
}

/// `512MiB` or `23.14GiB` in bytes, rounded down; at least 1. Bytes themselves have no fraction.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let unit: u64 = match text[digits..].trim_start() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    let (bytes, is_exact) = decimal(&text[..digits], unit)?;
    (bytes > 0 && i64::try_from(bytes).is_ok() && (unit > 1 || is_exact)).then_some(bytes)
}

/// Where an entry's field is written, or else the entry's name.
pub(super) fn place(entry: &super::document::Entry, field: &str) -> Span {
    entry.value.get(field).map_or(entry.key_span, |n| n.span)
}
