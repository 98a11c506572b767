//! `--set key=value[,value…]`: one value replaces what the file says, several are an axis of the sweep. `4..64:4` is a range.
//! `--unset key`: what the file says of it does not count.

use super::diagnostic::{Diagnostic, Span};
use super::document::{Data, Node, parse_value};
use super::read::Reader;
use super::sweep::{self, Axis, Key, SWEPT, distinct, set, swept, swept_names};
use super::train::MOST_VALUES;
use super::words::short;
use crate::model::field::{Kind, Presence};

/// Applies one argument, whose text is source number `source`, to a document and its axes.
pub(super) fn apply(source: u32, argument: &str, root: &mut Node, axes: &mut Vec<Axis>, mistakes: &mut Vec<Diagnostic>) {
    let place = |start: usize, end: usize| Span { source, start, end };
    let Some((key, values)) = argument.split_once('=') else {
        let message = "an override is `key=value`, or `key=value,value` for an axis";
        mistakes.push(Diagnostic::new(place(0, argument.len()), message).hint("for example `--set train.batch_size=8,16`"));
        return;
    };
    let Some(path) = path(source, key, mistakes) else { return };
    let offset = key.len() + 1;
    let Some(nodes) = elements(source, values, offset, mistakes) else { return };
    let Some(nodes) = distinct(key, place(offset, argument.len()), nodes, mistakes) else { return };
    let name = name(&path);
    match axes.iter_mut().find(|axis| axis.name() == name) {
        Some(axis) => *axis = Axis { path, values: nodes },
        None if nodes.len() == 1 => {
            if let Err(mistake) = set(root, &path, &nodes[0]) {
                mistakes.push(mistake);
            }
        }
        None => axes.push(Axis { path, values: nodes }),
    }
}

/// Takes the key that is argument number `source` away from a document and from its axes.
pub(super) fn unset(source: u32, key: &str, root: &mut Node, axes: &mut Vec<Axis>, mistakes: &mut Vec<Diagnostic>) {
    let whole = Span { source, start: 0, end: key.len() };
    if key.contains('=') {
        let message = "what is unset is a key, without a value";
        mistakes.push(Diagnostic::new(whole, message).hint("for example `--unset train.amp`; `--set` gives a key a value"));
        return;
    }
    let Some(path) = path(source, key, mistakes) else { return };
    let name = name(&path);
    if is_required(&path) {
        let message = format!("`{}` is required and cannot be unset", short(&name));
        mistakes.push(Diagnostic::new(whole, message).hint(format!("`--set {}=…` changes it", short(&name))));
        return;
    }
    let axes_before = axes.len();
    axes.retain(|axis| axis.name() != name);
    let was_written = sweep::unset(root, &path);
    if !was_written && axes.len() == axes_before {
        mistakes.push(Diagnostic::new(whole, format!("`{}` is not set, so that there is nothing to unset", short(&name))));
    }
}

/// Whether a table of the language must have the field at the end of that path.
fn is_required(path: &[Key]) -> bool {
    let mut fields = swept(&path[0].0);
    let mut is_required = false;
    for (key, _) in &path[1..] {
        let Some(field) = fields.and_then(|fields| fields.iter().find(|field| field.name == key)) else { return false };
        is_required = matches!(field.presence, Presence::Required);
        fields = if let Kind::Table(fields) = field.kind { Some(fields) } else { None };
    }
    is_required
}

/// A path as it is written.
fn name(path: &[Key]) -> String {
    path.iter().map(|(part, _)| part.as_str()).collect::<Vec<_>>().join(".")
}

/// The path that `key`, at the beginning of argument number `source`, is; `None` where nothing there can be overridden.
fn path(source: u32, key: &str, mistakes: &mut Vec<Diagnostic>) -> Option<Vec<Key>> {
    let place = |start: usize, end: usize| Span { source, start, end };
    let mut path: Vec<Key> = Vec::new();
    let mut start = 0;
    for part in key.split('.') {
        path.push((part.trim().to_owned(), place(start, start + part.len())));
        start += part.len() + 1;
    }
    let (first, span) = &path[0];
    if swept(first).is_none() || path.len() < 2 || path.iter().any(|(part, _)| part.is_empty()) {
        let mut reader = Reader::default();
        if swept(first).is_some() {
            reader.mistake(
                Diagnostic::new(place(0, key.len()), format!("`{}` names no field", short(key))).hint("for example `train.batch_size=8`"),
            );
        } else if let Some((table, _)) = SWEPT.iter().find(|(_, fields)| path.len() == 1 && fields.iter().any(|f| f.name == first)) {
            let message = format!("`{first}` cannot be overridden");
            reader.mistake(Diagnostic::new(*span, message).hint(format!("did you mean `{table}.{first}`?")));
        } else {
            reader.unknown(*span, &format!("`{}` cannot be overridden", short(first)), first, &swept_names());
        }
        mistakes.append(&mut reader.mistakes);
        return None;
    }
    Some(path)
}

/// The values between top-level commas.
fn elements(source: u32, text: &str, offset: usize, mistakes: &mut Vec<Diagnostic>) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    let mut complete = true;
    for (start, part) in split(text) {
        let lead = part.len() - part.trim_start().len();
        let span = Span { source, start: offset + start + lead, end: offset + start + lead + part.trim().len() };
        let part = part.trim();
        if let Some(range) = range(part) {
            match range {
                Ok(values) => nodes.extend(values.into_iter().map(|n| Node { span, data: Data::Integer(Some(n)) })),
                Err(message) => {
                    mistakes.push(Diagnostic::new(span, message));
                    complete = false;
                }
            }
        } else if let Some(node) = parse_value(source, part, span.start) {
            nodes.push(node);
        } else if !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) {
            nodes.push(Node { span, data: Data::Text(part.to_owned()) });
        } else if part.is_empty() {
            mistakes.push(Diagnostic::new(span, "there is no value here"));
            complete = false;
        } else {
            mistakes.push(
                Diagnostic::new(span, format!("`{}` is no value", short(part)))
                    .hint("values are written as in TOML; words may stand without quotes"),
            );
            complete = false;
        }
    }
    complete.then_some(nodes)
}

/// `from..to` or `from..to:by`, `to` included.
fn range(text: &str) -> Option<Result<Vec<i64>, String>> {
    let (from, rest) = text.split_once("..")?;
    let (to, by) = rest.split_once(':').unwrap_or((rest, "1"));
    let [from, to, by] = [from, to, by].map(|n| n.trim().parse::<i64>().ok());
    let (from, to, by) = (from?, to?, by?);
    if by < 1 || from > to {
        return Some(Err(format!("a range goes up, by at least 1: {text}")));
    }
    let count = to.abs_diff(from) / by.unsigned_abs() + 1;
    if count > MOST_VALUES {
        return Some(Err(format!("{text} has {count} values; at most {MOST_VALUES} are possible")));
    }
    Some(Ok((0..).map(|i| from.saturating_add(by.saturating_mul(i))).take(usize::try_from(count).unwrap_or_default()).collect()))
}

/// Parts between commas that stand in no brackets and no quotes, each with its first byte.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut depth, mut quote) = (0, 0i32, None);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push((start, &text[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push((start, &text[start..]));
    parts
}
