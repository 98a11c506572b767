//! The script: the cases as Python values on top, and below them what is the same for every experiment, `torch.py`.
//!
//! A layer is a call of the function of its name there, its fields the arguments: layers that the language gains need a function, and
//! nothing here.
//! Invariant: what comes from a file stands in the script as a quoted literal or a comment of one line, never as code.

use std::fmt::Write as _;

use toml::{Table, Value};

use crate::cli::load::labels;
use crate::experiment::{Case, Experiment};
use crate::model::field::Kind;
use crate::model::layer;

const MACHINERY: &str = include_str!("torch.py");

/// The whole script.
pub(super) fn script(experiment: &Experiment) -> String {
    let mut text = String::from("#!/usr/bin/env python3\n");
    let line = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let description = experiment.description.as_deref().map_or_else(String::new, |d| format!(": {}", line(d)));
    let _ = writeln!(text, "# {}{description}", line(&experiment.name));
    text.push_str("# Trains in PyTorch, and prints as CSV what its allocator holds at the end of each phase, in bytes.\n\nCASES = [\n");
    for case in &experiment.cases {
        self::case(&mut text, case);
    }
    text.push_str("]\n\n");
    text + MACHINERY
}

fn case(text: &mut String, case: &Case) {
    text.push_str("    {\n");
    let mut entry = |key: &str, value: &str| {
        let _ = writeln!(text, "        {}: {value},", literal(&Value::from(key)));
    };
    let labels = labels(case);
    let mut names = vec![labels.case];
    names.extend(match labels.training {
        Some(t) => vec![
            t.batch_size.to_string(),
            t.dtype.to_string(),
            t.optimizer.unwrap_or_default().to_string(),
            t.accumulation_steps.to_string(),
            t.checkpointing,
            t.no_grad.to_string(),
        ],
        None => vec![String::new(); 6],
    });
    entry("labels", &literal(&Value::from(names)));
    let table = |key: &str| case.resolved.get(key).and_then(Value::as_table);
    let mut allocator: Table = table("allocator").cloned().unwrap_or_default();
    allocator.retain(|_, value| *value != Value::Boolean(false));
    if let Some(limit) = case.allocator.memory_limit.and_then(|l| i64::try_from(l).ok()) {
        allocator.insert("memory_limit".to_string(), Value::Integer(limit));
    }
    if !allocator.is_empty() {
        entry("allocator", &literal(&Value::Table(allocator)));
    }
    if let Some(steps) = table("allocations").and_then(|a| a.get("steps")) {
        entry("steps", &literal(steps));
    }
    if let Some(train) = table("train") {
        entry("train", &literal(&Value::Table(train.clone())));
    }
    if let Some(model) = table("model") {
        let input = model.get("input").and_then(Value::as_table);
        let tokens = input.and_then(|i| i.get("tokens"));
        let shape = match tokens {
            Some(tokens) => Value::Array(tokens.get("length").cloned().into_iter().collect()),
            None => input.and_then(|i| i.get("features")).cloned().unwrap_or(Value::Array(Vec::new())),
        };
        entry("input", &literal(&shape));
        entry("vocabulary", &tokens.and_then(|t| t.get("vocabulary")).map_or("None".to_string(), literal));
        let blocks = model.get("blocks").and_then(Value::as_table).cloned().unwrap_or_default();
        let blocks: String = blocks
            .iter()
            .map(|(name, list)| format!("            {}: lambda block: {},\n", literal(&Value::from(name.as_str())), layers(list, 3)))
            .collect();
        entry("blocks", &if blocks.is_empty() { "{}".to_string() } else { format!("{{\n{blocks}        }}") });
        entry("layers", &format!("lambda block: {}", model.get("layers").map_or("[]".to_string(), |list| layers(list, 2))));
    }
    text.push_str("    },\n");
}

/// A list of layers, one a line.
fn layers(list: &Value, depth: usize) -> String {
    let indent = "    ".repeat(depth);
    let lines = list.as_array().into_iter().flatten().map(|item| format!("{indent}    {},\n", call(item, depth + 1)));
    format!("[\n{}{indent}]", lines.collect::<String>())
}

/// `{ linear = { out_features = 10 } }` as `linear(out_features=10)`.
fn call(item: &Value, depth: usize) -> String {
    let (name, body) = match (item.as_str(), item.as_table().and_then(|t| t.iter().next())) {
        (Some(name), _) => (name, None),
        (None, Some((name, body))) => (name.as_str(), Some(body)),
        (None, None) => unreachable!("a layer is a name or a table with one key"),
    };
    let kind = layer::kind(name).expect("the file was read without a mistake");
    let arguments: Vec<String> = match body {
        Some(Value::Table(fields)) => kind
            .fields
            .iter()
            .filter_map(|field| {
                let value = fields.get(field.name)?;
                let value = if matches!(field.kind, Kind::Layers) { layers(value, depth) } else { literal(value) };
                Some(format!("{}={value}", field.name))
            })
            .collect(),
        Some(other) => vec![literal(other)],
        None => Vec::new(),
    };
    format!("{name}({})", arguments.join(", "))
}

/// A value as Python writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Boolean(true) => "True".to_string(),
        Value::Boolean(false) => "False".to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::String(text) => quoted(text),
        Value::Datetime(moment) => quoted(&moment.to_string()),
        Value::Array(list) => format!("[{}]", list.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let entries = table.iter().map(|(key, value)| format!("{}: {}", quoted(key), literal(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
