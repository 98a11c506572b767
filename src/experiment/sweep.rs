//! `[sweep]`: axes over the values of a document, and the documents that are their product.

use super::diagnostic::{Diagnostic, Span};
use super::document::{Data, Entry, Node};
use super::read::Reader;
use super::tables::{ALLOCATOR, DATA, LOG, MODEL, RANGE, SAVE, TRAIN};
use super::train::{MOST_VALUES, range_of};
use super::words::short;
use crate::model::field::Field;

use std::rc::Rc;

/// One step of a path: a key and where it is written.
pub(super) type Key = (String, Span);

/// A place in the document and the values it takes.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// Keys from the top.
    pub(super) path: Vec<Key>,
    /// The values, at least one.
    pub(super) values: Vec<Node>,
}

impl Axis {
    /// The path as `--set` and a case's key write it.
    #[must_use]
    pub(super) fn name(&self) -> String {
        self.path.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(".")
    }
}

/// Tables that a sweep may mirror, and whose keys can be overridden.
pub(super) const SWEPT: &[(&str, &[Field])] =
    &[("model", MODEL), ("train", TRAIN), ("data", DATA), ("log", LOG), ("save", SAVE), ("allocator", ALLOCATOR)];

/// The fields of a table that a sweep may mirror.
pub(super) fn swept(table: &str) -> Option<&'static [Field]> {
    SWEPT.iter().find(|(name, _)| *name == table).map(|(_, fields)| *fields)
}

/// The names of those tables.
pub(super) fn swept_names() -> Vec<&'static str> {
    SWEPT.iter().map(|(name, _)| *name).collect()
}

/// The axes of `[sweep]`, in the order of the file.
pub(super) fn axes(root: &Node, mistakes: &mut Vec<Diagnostic>) -> Vec<Axis> {
    let mut axes = Vec::new();
    let Some(entry) = root.entry("sweep") else { return axes };
    let Some(entries) = entry.value.table() else {
        mistakes.push(Diagnostic::new(entry.value.span, format!("[sweep] is a table, found {}", entry.value.describe())));
        return axes;
    };
    for entry in entries {
        if swept(&entry.key).is_some() {
            collect(entry, &mut Vec::new(), &mut axes, mistakes);
        } else {
            let mut reader = Reader::default();
            reader.unknown(entry.key_span, &format!("[sweep] has no `{}`", short(&entry.key)), &entry.key, &swept_names());
            mistakes.append(&mut reader.mistakes);
        }
    }
    axes.sort_by_key(|axis| axis.path.last().map(|(_, span)| *span));
    axes
}

fn collect(entry: &Entry, path: &mut Vec<Key>, axes: &mut Vec<Axis>, mistakes: &mut Vec<Diagnostic>) {
    path.push((entry.key.clone(), entry.key_span));
    let is_range = entry.value.table().is_some_and(|t| !t.is_empty() && t.iter().all(|e| RANGE.iter().any(|f| f.name == e.key)));
    match &entry.value.data {
        Data::Table(entries) if !is_range => {
            for inner in entries.iter() {
                collect(inner, path, axes, mistakes);
            }
        }
        _ => {
            if let Some(values) = values(&path.iter().map(|(k, _)| k.as_str()).collect::<Vec<_>>().join("."), &entry.value, mistakes) {
                axes.push(Axis { path: path.clone(), values });
            }
        }
    }
    path.pop();
}

/// A leaf: a list, or `{ from, to, by }`.
fn values(name: &str, node: &Node, mistakes: &mut Vec<Diagnostic>) -> Option<Vec<Node>> {
    let values = match &node.data {
        Data::Array(values) => values.to_vec(),
        Data::Table(_) => {
            let mut reader = Reader::default();
            let range = reader.table("a range", node.span, node, RANGE);
            mistakes.append(&mut reader.mistakes);
            match range_of(&range?) {
                Ok(range) => range.into_iter().map(|n| Node { span: node.span, data: Data::Integer(i64::try_from(n).ok()) }).collect(),
                Err(message) => {
                    mistakes.push(Diagnostic::new(node.span, format!("`{name}`: {message}")));
                    return None;
                }
            }
        }
        _ => {
            let message = format!("an axis is a list or a range, found {}", node.describe());
            mistakes.push(Diagnostic::new(node.span, message).hint("write `[ … ]`, or `{ from = …, to = …, by = … }`"));
            return None;
        }
    };
    distinct(name, node.span, values, mistakes)
}

/// An axis has at least one value, and none twice.
pub(super) fn distinct(name: &str, span: Span, values: Vec<Node>, mistakes: &mut Vec<Diagnostic>) -> Option<Vec<Node>> {
    if values.is_empty() {
        mistakes.push(Diagnostic::new(span, format!("`{name}` has no values, so that there would be no cases")));
        return None;
    }
    let mut seen = std::collections::BTreeSet::new();
    for value in &values {
        if !seen.insert(value.compact()) {
            mistakes.push(Diagnostic::new(value.span, format!("`{name}` has {} twice", value.compact())));
        }
    }
    Some(values)
}

/// How many cases there are, where not too many.
pub(super) fn count(axes: &[Axis]) -> Result<u64, String> {
    let count = axes.iter().try_fold(1u64, |n, axis| n.checked_mul(axis.values.len() as u64));
    match count {
        Some(n) if n <= MOST_VALUES => Ok(n),
        Some(n) => Err(format!("the sweep has {n} cases; at most {MOST_VALUES} are possible")),
        None => Err(format!("the sweep has more than 64 bits of cases; at most {MOST_VALUES} are possible")),
    }
}

/// Case number `index`: its key and its document, without the sweep.
pub(super) fn case(root: &Node, axes: &[Axis], mut index: u64, mistakes: &mut Vec<Diagnostic>) -> (String, Node) {
    let mut root = without(root, "sweep");
    let mut picks = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        let n = axis.values.len() as u64;
        picks.push((axis, &axis.values[usize::try_from(index % n).unwrap_or_default()]));
        index /= n;
    }
    picks.reverse();
    for (axis, value) in &picks {
        if let Err(mistake) = set(&mut root, &axis.path, value) {
            mistakes.push(mistake);
        }
    }
    let key = picks.iter().map(|(axis, value)| format!("{}={}", axis.name(), value.compact())).collect::<Vec<_>>().join(" ");
    (key, root)
}

/// Takes away what is written at that path; whether something was.
pub(super) fn unset(node: &mut Node, path: &[Key]) -> bool {
    let (Some(((key, _), rest)), Data::Table(entries)) = (path.split_first(), &mut node.data) else { return false };
    let Some(at) = entries.iter().position(|e| e.key == *key) else { return false };
    let entries = Rc::make_mut(entries);
    if rest.is_empty() {
        entries.remove(at);
        return true;
    }
    unset(&mut entries[at].value, rest)
}

fn without(node: &Node, key: &str) -> Node {
    let entries = node.table().unwrap_or_default().iter().filter(|e| e.key != key).cloned().collect();
    Node { span: node.span, data: Data::Table(Rc::new(entries)) }
}

/// Sets the value at a path, making tables on the way. A bare name on the way, such as `"adamw"`, becomes `{ adamw = {} }`.
pub(super) fn set(node: &mut Node, path: &[Key], value: &Node) -> Result<(), Diagnostic> {
    let Some(((key, span), rest)) = path.split_first() else {
        *node = value.clone();
        return Ok(());
    };
    let empty = || Data::Table(Rc::new(Vec::new()));
    if node.text() == Some(key) {
        let entry = Entry { key: key.clone(), key_span: node.span, value: Node { span: node.span, data: empty() } };
        node.data = Data::Table(Rc::new(vec![entry]));
    }
    let found = node.describe();
    let Data::Table(entries) = &mut node.data else {
        let mistake = Diagnostic::new(*span, format!("`{key}` cannot be set here, where there is {found}"));
        let list = matches!(node.data, Data::Array(_)).then(|| "a list is set as a whole, as in `model.layers=[\"relu\"]`".to_owned());
        return Err(mistake.maybe_hint(list));
    };
    let entries = Rc::make_mut(entries);
    let at = entries.iter().position(|e| e.key == *key).unwrap_or_else(|| {
        entries.push(Entry { key: key.clone(), key_span: *span, value: Node { span: *span, data: empty() } });
        entries.len() - 1
    });
    set(&mut entries[at].value, rest, value)
}
