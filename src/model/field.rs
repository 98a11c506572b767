//! Fields: what an experiment file may say, as data. One table serves reading, hints and the JSON Schema, so that the three
//! cannot differ. Nothing here reads a file; values arrive checked against their kinds.

use std::collections::BTreeMap;

use super::layer::Sequence;

/// One `key = value` of a table.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// What it means, in one sentence.
    pub doc: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// What holds where it is absent.
    pub presence: Presence,
}

/// What holds where a field is absent.
#[derive(Debug, Clone, Copy)]
pub enum Presence {
    /// It must be given.
    Required,
    /// It may be absent; in words, what that means.
    Optional(&'static str),
    /// This value.
    Default(Literal),
}

/// A default.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // the names say it
pub enum Literal {
    Integer(u64),
    Number(f64),
    Bool(bool),
    Text(&'static str),
    /// A list without elements.
    Empty,
}

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A whole number in this range, both ends included.
    Integer {
        /// The smallest.
        least: u64,
        /// The largest; at most `i64::MAX`.
        most: u64,
    },
    /// A finite number.
    Number(Interval),
    /// `true` or `false`.
    Bool,
    /// Free text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Elements of one kind.
    List {
        /// Of what.
        of: &'static Kind,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A table with these fields.
    Table(&'static [Field]),
    /// `{ name = body }`, or just `"name"` where the body is a table without required fields.
    Tagged(&'static [Variant]),
    /// The first of these that fits.
    OneOf(&'static [Kind]),
    /// A list of layers.
    Layers,
    /// The name of a block in `[model.blocks]`.
    Block,
    /// Tables of layers by name.
    Blocks,
}

/// A sizes's usual range: 1 to `i64::MAX`.
pub const SIZE: Kind = Kind::Integer { least: 1, most: i64::MAX as u64 };

/// A whole number from 0.
pub const COUNT: Kind = Kind::Integer { least: 0, most: i64::MAX as u64 };

/// `n` or `[height, width]`.
pub const PAIR: Kind = Kind::OneOf(&[SIZE, Kind::List { of: &SIZE, least: 2, most: 2 }]);

/// `n` or `[height, width]`, from 0.
pub const PAIR_FROM_ZERO: Kind = Kind::OneOf(&[COUNT, Kind::List { of: &COUNT, least: 2, most: 2 }]);

/// A range of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub from: f64,
    /// Whether the lower end itself is inside.
    pub from_included: bool,
    /// The upper end.
    pub to: f64,
    /// Whether the upper end itself is inside.
    pub to_included: bool,
}

impl Interval {
    /// From 0, without an upper end.
    pub const NOT_NEGATIVE: Self = Self { from: 0.0, from_included: true, to: f64::INFINITY, to_included: false };
    /// From 0 to 1, both included.
    pub const UNIT: Self = Self { from: 0.0, from_included: true, to: 1.0, to_included: true };
    /// Between 0 and 1, both excluded.
    pub const INSIDE_UNIT: Self = Self { from: 0.0, from_included: false, to: 1.0, to_included: false };

    /// Whether `x` lies inside.
    #[must_use]
    pub fn contains(&self, x: f64) -> bool {
        let above = if self.from_included { x >= self.from } else { x > self.from };
        let below = if self.to_included { x <= self.to } else { x < self.to };
        above && below
    }
}

/// A named alternative.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub doc: &'static str,
    /// What stands behind its name: `Kind::Table` mostly, and then the name alone will do where no field is required.
    pub body: Kind,
}

impl Variant {
    /// Its fields, where a table stands behind its name.
    #[must_use]
    pub const fn fields(&self) -> Option<&'static [Field]> {
        if let Kind::Table(fields) = self.body { Some(fields) } else { None }
    }
}

impl Field {
    /// A field that must be given.
    #[must_use]
    pub const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, doc, kind, presence: Presence::Required }
    }

    /// A field that may be absent; `absent` says what that means.
    #[must_use]
    pub const fn optional(name: &'static str, kind: Kind, absent: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind, presence: Presence::Optional(absent) }
    }

    /// A field with a default.
    #[must_use]
    pub const fn with_default(name: &'static str, kind: Kind, default: Literal, doc: &'static str) -> Self {
        Self { name, doc, kind, presence: Presence::Default(default) }
    }

    /// A whole-number field with a default.
    #[must_use]
    pub const fn integer(name: &'static str, kind: Kind, default: u64, doc: &'static str) -> Self {
        Self::with_default(name, kind, Literal::Integer(default), doc)
    }

    /// A true-or-false field with a default.
    #[must_use]
    pub const fn bool(name: &'static str, default: bool, doc: &'static str) -> Self {
        Self::with_default(name, Kind::Bool, Literal::Bool(default), doc)
    }

    /// A number field with a default.
    #[must_use]
    pub const fn number(name: &'static str, interval: Interval, default: f64, doc: &'static str) -> Self {
        Self::with_default(name, Kind::Number(interval), Literal::Number(default), doc)
    }

    /// A choice of words with a default.
    #[must_use]
    pub const fn choice(name: &'static str, words: &'static [&'static str], default: &'static str, doc: &'static str) -> Self {
        Self::with_default(name, Kind::Choice(words), Literal::Text(default), doc)
    }
}

/// A value that fits its kind.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the kinds are documented
pub enum Value {
    Integer(u64),
    Number(f64),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
    Table(Values),
    Tagged(&'static str, Box<Value>),
    Layers(Sequence),
}

impl Value {
    /// The fields, where it is a table.
    #[must_use]
    pub fn as_table(&self) -> Option<&Values> {
        if let Self::Table(values) = self { Some(values) } else { None }
    }

    /// The whole numbers, where it is a list of them.
    #[must_use]
    pub fn as_integers(&self) -> Option<Vec<u64>> {
        let Self::List(list) = self else { return None };
        list.iter().map(|v| if let Self::Integer(n) = v { Some(*n) } else { None }).collect()
    }
}

/// The fields of one table: given, or their defaults. Fields that are optional and absent are absent here.
///
/// The getters panic on a field that the table does not have in that kind: the table and its reader stand in one file.
#[derive(Debug, Clone, Default)]
pub struct Values(BTreeMap<&'static str, Value>);

impl Values {
    /// Sets a field.
    pub fn insert(&mut self, name: &'static str, value: Value) {
        self.0.insert(name, value);
    }

    /// A field's value, where it has one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Whether the field has a value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn expect<'a, T>(&'a self, name: &str, pick: impl FnOnce(&'a Value) -> Option<T>) -> T {
        self.get(name).and_then(pick).unwrap_or_else(|| panic!("field `{name}` is not in its table with this kind"))
    }

    /// A whole number.
    #[must_use]
    pub fn integer(&self, name: &str) -> u64 {
        self.expect(name, |v| if let Value::Integer(n) = v { Some(*n) } else { None })
    }

    /// A whole number, where given.
    #[must_use]
    pub fn optional_integer(&self, name: &str) -> Option<u64> {
        self.has(name).then(|| self.integer(name))
    }

    /// A number.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.expect(name, |v| if let Value::Number(x) = v { Some(*x) } else { None })
    }

    /// True or false.
    #[must_use]
    pub fn bool(&self, name: &str) -> bool {
        self.expect(name, |v| if let Value::Bool(b) = v { Some(*b) } else { None })
    }

    /// A word or free text.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.expect(name, |v| if let Value::Text(t) = v { Some(t.as_str()) } else { None })
    }

    /// A word or free text, where given.
    #[must_use]
    pub fn optional_text(&self, name: &str) -> Option<&str> {
        self.has(name).then(|| self.text(name))
    }

    /// A list.
    #[must_use]
    pub fn list(&self, name: &str) -> &[Value] {
        self.expect(name, |v| if let Value::List(l) = v { Some(l.as_slice()) } else { None })
    }

    /// A list of whole numbers.
    #[must_use]
    pub fn integers(&self, name: &str) -> Vec<u64> {
        self.expect(name, Value::as_integers)
    }

    /// `n` or `[height, width]`.
    #[must_use]
    pub fn pair(&self, name: &str) -> [u64; 2] {
        match self.get(name) {
            Some(Value::Integer(n)) => [*n, *n],
            _ => self.integers(name).try_into().unwrap_or_else(|_| panic!("field `{name}` is not in its table as a pair")),
        }
    }

    /// A list of layers (or a block's).
    #[must_use]
    pub fn layers(&self, name: &str) -> Sequence {
        self.expect(name, |v| if let Value::Layers(l) = v { Some(l.clone()) } else { None })
    }
}
