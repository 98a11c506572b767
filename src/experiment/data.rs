//! `[data]`, `[log]` and `[save]`: where samples come from and what is done to them. Files are opened as far as their headers, so that
//! shapes that do not fit the model are mistakes of the experiment, found before anything runs.

use std::path::Path;
use std::time::Duration;

use super::diagnostic::{Diagnostic, Span};
use super::document::{Entry, Node};
use super::read::Reader;
use super::resolve::place;
use super::tables::DATA;
use crate::data::{Cause, Feed, Files, Glance, Refusal, Settings, Slot, Step, inspect};
use crate::meta::DType;
use crate::model::field::{Field, Value, Values};
use crate::model::{Plan, ValueId, Work};

/// Reads `[data]` and holds it against the plan, whose settings take what is the loop's business. `None` where batches are synthetic,
/// or where there are mistakes. Paths are relative to `folder`.
pub(super) fn resolve(root: &Node, folder: &Path, work: Option<&mut Work>, reader: &mut Reader) -> Option<Feed> {
    let entry = root.entry("data")?;
    let values = reader.table("[data]", entry.key_span, &entry.value, DATA)?;
    let steps = steps(&values, entry, reader)?;
    let Some(Work::Train(plan)) = work else {
        if root.entry("allocations").is_some() {
            reader.mistake(Diagnostic::new(entry.key_span, "`[data]` is for `[train]`, and `[allocations]` trains nothing"));
        }
        return None;
    };
    plan.settings.device_prefetch = values.bool("device_prefetch");
    let feed = feed(&values, steps, folder, plan, entry, reader)?;
    match inspect(&feed.settings.files) {
        Ok(glance) => suits(&feed, &glance, plan, entry, reader).then_some(feed),
        Err(error) => {
            reader.mistake(Diagnostic::new(source_span(entry), error.to_string()));
            None
        }
    }
}

/// Whether the files have the samples that the run takes: enough of them, and such as the model and the loss take.
fn suits(feed: &Feed, glance: &Glance, plan: &Plan, entry: &Entry, reader: &mut Reader) -> bool {
    let batches = plan.settings.steps.saturating_mul(plan.settings.accumulation_steps);
    if let Some((what, hint)) = glance.samples.and_then(|samples| feed.lack(samples, batches)) {
        let message = format!("{}: {what}", feed.settings.files.first().display());
        reader.mistake(Diagnostic::new(source_span(entry), message).maybe_hint(hint.map(str::to_owned)));
        return false;
    }
    let Err(Refusal { cause, what }) = feed.check(&glance.layout) else { return true };
    reader.mistake(match cause {
        Cause::Step(number) => {
            let written = entry.value.get("prepare").and_then(Node::array).and_then(|steps| steps.get(number));
            let message = format!("`{}` cannot be done: {what}", feed.settings.prepare[number].name());
            Diagnostic::new(written.map_or_else(|| source_span(entry), |step| step.span), message)
        }
        Cause::InputShape => Diagnostic::new(source_span(entry), what).hint(format!(
            "`{{ reshape = {:?} }}` as the last of `prepare` gives samples with as many numbers that shape",
            feed.input.shape
        )),
        Cause::Samples => Diagnostic::new(source_span(entry), what),
    });
    false
}

/// `[log]` and `[save]`: every how many steps.
pub(super) fn every(root: &Node, name: &str, fields: &'static [Field], reader: &mut Reader) -> Option<u64> {
    let entry = root.entry(name)?;
    let values = reader.table(&format!("[{name}]"), entry.key_span, &entry.value, fields)?;
    if root.entry("allocations").is_some() {
        reader.mistake(Diagnostic::new(entry.key_span, format!("`[{name}]` is for `[train]`, and `[allocations]` trains nothing")));
    }
    Some(values.integer("every"))
}

/// Where the source is written, or else the table.
fn source_span(entry: &Entry) -> Span {
    place(entry, "source")
}

/// The pipeline that the table describes, and what it is to deliver; `None` where batches are synthetic.
fn feed(values: &Values, prepare: Vec<Step>, folder: &Path, plan: &Plan, entry: &Entry, reader: &mut Reader) -> Option<Feed> {
    let Some(Value::Tagged(format, body)) = values.get("source") else { return None };
    if *format == "synthetic" {
        return None;
    }
    if plan.programs.len() > 1 {
        let message = "`lengths` vary from step to step, and samples of files have one shape";
        reader.mistake(Diagnostic::new(source_span(entry), message).hint("leave `lengths` out, or let batches be synthetic"));
        return None;
    }
    if *format == "text" && plan.vocabulary.is_none() {
        let message = "a text gives tokens, but the model's input is `features`";
        reader.mistake(Diagnostic::new(source_span(entry), message).hint("`input = { tokens = { length = …, vocabulary = 256 } }`"));
        return None;
    }
    let (input, target) = slots(plan);
    let size = |field: &str| usize::try_from(values.integer(field)).unwrap_or(usize::MAX);
    let settings = Settings {
        files: files(format, body.as_table()?, folder, &input),
        prepare,
        shuffle: values.optional_integer("shuffle"),
        repeat: values.bool("repeat"),
        workers: size("workers"),
        prefetch: size("prefetch"),
        pinned: values.bool("pinned"),
        seed: plan.settings.seed,
    };
    Some(Feed { settings, batch: plan.settings.batch_size, input, target })
}

/// What the model takes as its input, and the loss as its target.
fn slots(plan: &Plan) -> (Slot, Option<Slot>) {
    let program = &plan.programs[0];
    let meta = |id: ValueId| program.meta(id);
    let sample = |id| meta(id).shape.dims()[1..].to_vec();
    let input = Slot {
        name: "the model's input",
        shape: sample(program.input),
        dtype: meta(program.input).dtype,
        below: plan.vocabulary.map(|v| ("token", v)),
    };
    let classes = meta(program.forward.result).shape.last();
    let target = program.target.map(|id| Slot {
        name: "the loss's target",
        shape: sample(id),
        dtype: meta(id).dtype,
        below: (meta(id).dtype == DType::I64).then_some(("label", classes)),
    });
    (input, target)
}

/// The files of that format. A text is cut to the length of the input.
fn files(format: &str, fields: &Values, folder: &Path, input: &Slot) -> Files {
    let path = |field: &str| folder.join(fields.text(field));
    match format {
        "npy" | "idx" => {
            let target = fields.optional_text("target").map(|t| folder.join(t));
            let input = path("input");
            if format == "npy" { Files::Npy { input, target } } else { Files::Idx { input, target } }
        }
        "csv" => {
            let (target, scalar) = match fields.get("target") {
                Some(Value::List(list)) => {
                    (list.iter().filter_map(|v| if let Value::Text(t) = v { Some(t.clone()) } else { None }).collect(), false)
                }
                Some(Value::Text(name)) => (vec![name.clone()], true),
                _ => (Vec::new(), false),
            };
            Files::Csv { file: path("file"), target, scalar }
        }
        "text" => Files::Text { file: path("file"), length: input.shape[0] },
        _ => Files::TfRecord { file: path("file"), input: fields.text("input").to_owned(), target: fields.text("target").to_owned() },
    }
}

/// `prepare`; `None` where a step is wrong.
fn steps(values: &Values, entry: &Entry, reader: &mut Reader) -> Option<Vec<Step>> {
    let Some(written) = entry.value.get("prepare") else { return Some(Vec::new()) };
    if !values.has("prepare") {
        return None;
    }
    let nodes = written.array().unwrap_or_default();
    let list = values.list("prepare");
    let steps: Vec<Step> = list.iter().zip(nodes).filter_map(|(value, node)| step(value, node, reader)).collect();
    (steps.len() == list.len()).then_some(steps)
}

fn step(value: &Value, node: &Node, reader: &mut Reader) -> Option<Step> {
    let Value::Tagged(name, body) = value else { return None };
    let numbers = |fields: &Values, name: &str| match fields.get(name) {
        Some(Value::List(list)) => list.iter().filter_map(|v| if let Value::Number(x) = v { Some(*x) } else { None }).collect(),
        _ => vec![fields.number(name)],
    };
    Some(match (*name, &**body) {
        ("scale", Value::Number(factor)) => Step::Scale { factor: *factor },
        ("normalise", Value::Table(fields)) => Step::Normalise { mean: numbers(fields, "mean"), std: numbers(fields, "std") },
        ("random_crop", Value::Table(fields)) => Step::RandomCrop { size: fields.pair("size"), padding: fields.integer("padding") },
        ("flip", Value::Table(fields)) => Step::Flip { probability: fields.number("probability") },
        ("one_hot", Value::Integer(classes)) => Step::OneHot { classes: *classes },
        ("pad", Value::Table(fields)) => Step::Pad { length: fields.integer("length"), value: fields.number("value") },
        ("truncate", Value::Integer(length)) => Step::Truncate { length: *length },
        ("reshape", shape) => Step::Reshape { shape: shape.as_integers()? },
        ("cost", Value::Text(text)) => match duration(text) {
            Some(time) => Step::Cost { time },
            None => {
                let span = node.get("cost").map_or(node.span, |n| n.span);
                let message = format!("`cost` cannot be {text:?}: write a time with its unit, such as \"2ms\"; units are us, ms and s");
                reader.mistake(Diagnostic::new(span, message));
                return None;
            }
        },
        _ => return None,
    })
}

/// `2ms`, at most an hour.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
    let seconds = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(number * seconds).filter(|s| *s <= 3600.0).map(Duration::from_secs_f64)
}
