//! A case spelled out: its document with every default written, as an experiment file of its own.

use super::document::{Entry, Node};
use super::read::fits;
use super::tables::EXPERIMENT;
use crate::model::Work;
use crate::model::field::{Field, Kind, Literal, Presence};
use crate::model::layer;
use toml::{Table, Value};

/// Spells the document of `work`, which is without mistakes, out.
#[must_use]
pub(super) fn out(root: &Node, work: &Work) -> Table {
    let mut table = fields(root.table().unwrap_or_default(), EXPERIMENT);
    // The one default that another field decides: there is a step for each of `lengths`.
    if let (Work::Train(plan), Some(Value::Table(train))) = (work, table.get_mut("train"))
        && train.contains_key("lengths")
        && let Ok(steps) = i64::try_from(plan.settings.steps)
    {
        train.insert("steps".to_owned(), Value::Integer(steps));
    }
    table
}

fn fields(entries: &[Entry], known: &[Field]) -> Table {
    let mut table = Table::new();
    for field in known {
        let written = entries.iter().find(|e| e.key == field.name).map(|e| value(&e.value, &field.kind));
        let default = if let Presence::Default(literal) = field.presence { Some(self::literal(literal)) } else { None };
        if let Some(value) = written.or(default) {
            table.insert(field.name.to_owned(), value);
        }
    }
    table
}

fn value(node: &Node, kind: &Kind) -> Value {
    match kind {
        Kind::Table(known) => Value::Table(fields(node.table().unwrap_or_default(), known)),
        Kind::OneOf(kinds) => kinds.iter().find(|k| fits(node, k)).map_or_else(|| node.to_toml(), |k| value(node, k)),
        Kind::Tagged(variants) => tagged(node, |name| variants.iter().find(|v| v.name == name).map(|v| v.body)),
        Kind::List { of, .. } => Value::Array(node.array().unwrap_or_default().iter().map(|n| value(n, of)).collect()),
        Kind::Layers => Value::Array(node.array().unwrap_or_default().iter().map(layer).collect()),
        Kind::Blocks => {
            let blocks = node.table().unwrap_or_default().iter();
            Value::Table(blocks.map(|e| (e.key.clone(), value(&e.value, &Kind::Layers))).collect())
        }
        _ => node.to_toml(),
    }
}

fn layer(node: &Node) -> Value {
    tagged(node, |name| match layer::kind(name) {
        Some(kind) if kind.name != layer::BLOCK => Some(Kind::Table(kind.fields)),
        _ => Some(Kind::Block),
    })
}

/// `"name"` and `{ name = body }` alike become `{ name = body }`, but for a name with nothing to say.
fn tagged(node: &Node, body: impl Fn(&str) -> Option<Kind>) -> Value {
    let (name, written) = match (node.text(), node.table().and_then(<[Entry]>::first)) {
        (Some(name), _) => (name, None),
        (None, Some(entry)) => (entry.key.as_str(), Some(&entry.value)),
        (None, None) => return node.to_toml(),
    };
    let spelled = match (body(name), written) {
        (Some(Kind::Table(known)), written) => Value::Table(fields(written.and_then(Node::table).unwrap_or_default(), known)),
        (Some(kind), Some(written)) => value(written, &kind),
        _ => return node.to_toml(),
    };
    match spelled {
        Value::Table(table) if table.is_empty() => Value::String(name.to_owned()),
        spelled => Value::Table(std::iter::once((name.to_owned(), spelled)).collect()),
    }
}

#[allow(clippy::cast_possible_wrap)] // defaults are small
fn literal(literal: Literal) -> Value {
    match literal {
        Literal::Integer(n) => Value::Integer(n as i64),
        Literal::Number(x) => Value::Float(x),
        Literal::Bool(b) => Value::Boolean(b),
        Literal::Text(t) => Value::String(t.to_owned()),
        Literal::Empty => Value::Array(Vec::new()),
    }
}
