//! `[allocations]`: tensors made and dropped by hand. Names are Python variables, and a name that is not there is a mistake.

use std::collections::BTreeMap;

use super::diagnostic::{Diagnostic, Span};
use super::document::{Entry, Node};
use super::read::Reader;
use super::tables::ALLOCATIONS;
use super::train::dtype;
use super::words::{MOST_NAMES, short};
use crate::meta::{Shape, TensorMeta};
use crate::model::field::{Value, Values};
use crate::model::{Script, ScriptStep};
use crate::ops::rule::{broadcast, promote};

/// Reads the steps and follows the variables; `None` where there are mistakes.
pub(super) fn resolve(entry: &Entry, reader: &mut Reader) -> Option<Script> {
    let values = reader.table("[allocations]", entry.key_span, &entry.value, ALLOCATIONS)?;
    let nodes = entry.value.get("steps")?.array()?;
    let mut variables = Variables { live: BTreeMap::new(), reader };
    let steps: Vec<ScriptStep> = values.list("steps").iter().zip(nodes).filter_map(|(step, node)| variables.step(step, node)).collect();
    (steps.len() == nodes.len()).then_some(Script { steps })
}

struct Variables<'a> {
    live: BTreeMap<String, TensorMeta>,
    reader: &'a mut Reader,
}

impl Variables<'_> {
    fn step(&mut self, step: &Value, node: &Node) -> Option<ScriptStep> {
        let Value::Tagged(name, body) = step else { return None };
        let span = |field: &str| node.get(name).and_then(|b| b.get(field)).map_or(node.span, |n| n.span);
        match (*name, &**body) {
            ("alloc", Value::Table(fields)) => self.alloc(fields, span("shape")),
            ("free", Value::Text(variable)) => {
                self.known(variable, node.get("free").map_or(node.span, |n| n.span))?;
                self.live.remove(variable);
                Some(ScriptStep::Free(variable.clone()))
            }
            ("add", Value::Table(fields)) => self.add(fields, (span("left"), span("right"))),
            _ => Some(ScriptStep::EmptyCache),
        }
    }

    fn alloc(&mut self, fields: &Values, shape: Span) -> Option<ScriptStep> {
        let name = fields.text("name").to_owned();
        match Shape::new(fields.integers("shape")) {
            Ok(shape) => {
                let meta = TensorMeta::contiguous(shape, dtype(fields.text("dtype")));
                self.live.insert(name.clone(), meta.clone());
                Some(ScriptStep::Alloc { name, meta })
            }
            Err(e) => {
                self.reader.mistake(Diagnostic::new(shape, e.to_string()));
                None
            }
        }
    }

    fn add(&mut self, fields: &Values, spans: (Span, Span)) -> Option<ScriptStep> {
        let (left, right, into) = (fields.text("left").to_owned(), fields.text("right").to_owned(), fields.text("into").to_owned());
        let a = self.known(&left, spans.0);
        let b = self.known(&right, spans.1);
        let (a, b) = (a?, b?);
        match broadcast("add", &a.shape, &b.shape) {
            Ok(shape) => {
                let meta = TensorMeta::contiguous(shape, promote(a.dtype, b.dtype));
                self.live.insert(into.clone(), meta.clone());
                Some(ScriptStep::Add { left, right, into, meta })
            }
            Err(e) => {
                self.reader.mistake(Diagnostic::new(spans.1, e.to_string()));
                None
            }
        }
    }

    fn known(&mut self, name: &str, span: Span) -> Option<TensorMeta> {
        let found = self.live.get(name).cloned();
        if found.is_none() {
            let live: Vec<String> = self.live.keys().take(MOST_NAMES).cloned().collect();
            if live.is_empty() {
                self.reader.mistake(
                    Diagnostic::new(span, format!("there is no tensor `{}` here", short(name))).hint("no tensor is alive at this step"),
                );
            } else {
                let live: Vec<&str> = live.iter().map(String::as_str).collect();
                self.reader.unknown(span, &format!("there is no tensor `{}` here", short(name)), name, &live);
            }
        }
        found
    }
}
