//! An experiment file as written: a tree of values, each with its place in the text. It knows TOML and nothing of experiments.
//!
//! Invariant: entries of a table stand in the order of the text, and cloning a tree shares what is not changed.

use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::Span;

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Where it is written.
    pub(super) span: Span,
    /// What is written.
    pub(super) data: Data,
}

/// What is written.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // TOML's own kinds
pub(super) enum Data {
    Bool(bool),
    /// `None`: it does not fit 64 bits.
    Integer(Option<i64>),
    Float(f64),
    Text(String),
    Datetime(String),
    Array(Rc<Vec<Node>>),
    Table(Rc<Vec<Entry>>),
}

/// `key = value`.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The key.
    pub(super) key: String,
    /// Where it is written.
    pub(super) key_span: Span,
    /// The value.
    pub(super) value: Node,
}

impl Node {
    /// The entries, where it is a table.
    #[must_use]
    pub(super) fn table(&self) -> Option<&[Entry]> {
        if let Data::Table(entries) = &self.data { Some(entries) } else { None }
    }

    /// The elements, where it is an array.
    #[must_use]
    pub(super) fn array(&self) -> Option<&[Node]> {
        if let Data::Array(elements) = &self.data { Some(elements) } else { None }
    }

    /// The text, where it is one.
    #[must_use]
    pub(super) fn text(&self) -> Option<&str> {
        if let Data::Text(text) = &self.data { Some(text) } else { None }
    }

    /// The entry of that key, where it is a table that has one.
    #[must_use]
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.table()?.iter().find(|e| e.key == key)
    }

    /// The value of that key, where it is a table that has one.
    #[must_use]
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value)
    }

    /// The value's kind and, where short, the value itself, for messages: `text "relu"`, `a table`.
    #[must_use]
    pub(super) fn describe(&self) -> String {
        match &self.data {
            Data::Bool(b) => format!("{b}"),
            Data::Integer(Some(n)) => format!("the whole number {n}"),
            Data::Integer(None) => "a whole number beyond 64 bits".to_owned(),
            Data::Float(x) => format!("the number {x:?}"),
            Data::Text(t) if t.chars().count() <= 40 => format!("the text {t:?}"),
            Data::Text(_) => "a long text".to_owned(),
            Data::Datetime(_) => "a date or time".to_owned(),
            Data::Array(_) => "a list".to_owned(),
            Data::Table(_) => "a table".to_owned(),
        }
    }

    /// The value as a case's key shows it: words bare, the rest as TOML without spaces.
    #[must_use]
    pub(super) fn compact(&self) -> String {
        match &self.data {
            Data::Bool(b) => b.to_string(),
            Data::Integer(Some(n)) => n.to_string(),
            Data::Integer(None) => "?".to_owned(),
            Data::Float(x) => format!("{x:?}"),
            Data::Text(t) | Data::Datetime(t) => t.clone(),
            Data::Array(a) => format!("[{}]", a.iter().map(Self::compact).collect::<Vec<_>>().join(",")),
            Data::Table(t) => {
                format!("{{{}}}", t.iter().map(|e| format!("{}={}", e.key, e.value.compact())).collect::<Vec<_>>().join(","))
            }
        }
    }

    /// The tree without its places. Values that no reader accepts (datetimes, numbers beyond 64 bits) become text.
    #[must_use]
    pub(super) fn to_toml(&self) -> toml::Value {
        match &self.data {
            Data::Bool(b) => (*b).into(),
            Data::Integer(Some(n)) => (*n).into(),
            Data::Integer(None) => toml::Value::String("?".to_owned()),
            Data::Float(x) => (*x).into(),
            Data::Text(t) | Data::Datetime(t) => toml::Value::String(t.clone()),
            Data::Array(a) => toml::Value::Array(a.iter().map(Self::to_toml).collect()),
            Data::Table(t) => toml::Value::Table(t.iter().map(|e| (e.key.clone(), e.value.to_toml())).collect()),
        }
    }
}

/// The tree of a whole text.
pub(super) fn from_table(source: u32, root: &DeTable<'_>) -> Node {
    let place = |range: std::ops::Range<usize>| Span { source, start: range.start, end: range.end };
    Node { span: place(0..0), data: table(root, &place) }
}

/// Reads a text as one TOML value.
pub(super) fn parse_value(source: u32, text: &str, offset: usize) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    let place = |range: std::ops::Range<usize>| Span { source, start: range.start + offset, end: range.end + offset };
    Some(node(&value, &place))
}

fn table(entries: &DeTable<'_>, place: &impl Fn(std::ops::Range<usize>) -> Span) -> Data {
    let mut entries: Vec<Entry> = entries
        .iter()
        .map(|(key, value)| Entry { key: key.get_ref().to_string(), key_span: place(key.span()), value: node(value, place) })
        .collect();
    entries.sort_by_key(|e| e.key_span);
    Data::Table(Rc::new(entries))
}

fn node(value: &Spanned<DeValue<'_>>, place: &impl Fn(std::ops::Range<usize>) -> Span) -> Node {
    let data = match value.get_ref() {
        DeValue::Boolean(b) => Data::Bool(*b),
        DeValue::Integer(n) => Data::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()),
        DeValue::Float(x) => Data::Float(x.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::String(t) => Data::Text(t.to_string()),
        DeValue::Datetime(d) => Data::Datetime(d.to_string()),
        DeValue::Array(elements) => Data::Array(Rc::new(elements.iter().map(|e| node(e, place)).collect())),
        DeValue::Table(entries) => table(entries, place),
    };
    Node { span: place(value.span()), data }
}
