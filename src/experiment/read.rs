//! Reads values by their field tables, noting every mistake and going on. What only whole experiments can tell (shapes, what
//! PyTorch refuses) is not looked at here.
//!
//! Invariant: a returned [`Values`] holds every required field and every default; a field that was wrong holds its default where
//! it has one, so that checking can go on behind a mistake.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::diagnostic::{Diagnostic, Span};
use super::document::{Data, Entry, Node};
use super::words;
use crate::model::field::{Field, Kind, Literal, Presence, Value, Values, Variant};
use crate::model::layer::{self, Check, Item, Layer, Origin, Sequence, Signal};

/// Layers nest at most this deep, blocks included: deep enough for any network, shallow enough for any stack.
pub(super) const DEEPEST: usize = 64;

/// Mistakes after which unknown names are no longer held against those known, which takes long.
const MOST_COMPARED: usize = 1000;

/// Where a layer is written: its name, and the table of its fields where it has one.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The layer's name.
    pub(super) name: Span,
    /// Its fields.
    pub(super) body: Node,
}

impl Place {
    /// Where a field's value is written, or else the layer's name.
    #[must_use]
    pub(super) fn field(&self, field: Option<&str>) -> Span {
        field.and_then(|f| self.body.get(f)).map_or(self.name, |n| n.span)
    }
}

/// A block: as written, under way, or read (`None` where mistakes leave nothing).
#[derive(Debug, Clone)]
enum Block {
    Written(Node),
    UnderWay,
    Read(Option<Sequence>),
}

/// Collects mistakes while reading.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What was found.
    pub(super) mistakes: Vec<Diagnostic>,
    /// Where each layer is written, by [`Origin`].
    pub(super) places: Vec<Place>,
    /// Whether a missing field is a mistake of its own; not after a syntax error, which may have swallowed it.
    pub(super) tolerate_missing: bool,
    /// Fields that are there under a name that is nearly theirs.
    pub(super) misspelt: Vec<&'static str>,
    /// Compute capability of the GPU that the experiment is for.
    pub(super) capability: (u32, u32),
    blocks: BTreeMap<String, Block>,
    depth: usize,
}

impl Reader {
    /// Notes a mistake.
    pub(super) fn mistake(&mut self, diagnostic: Diagnostic) {
        self.mistakes.push(diagnostic);
    }

    /// Makes the blocks' names known; each is read at its first use or by [`read_blocks`](Self::read_blocks).
    pub(super) fn declare_blocks(&mut self, blocks: &Node) {
        for entry in blocks.table().unwrap_or_default() {
            self.blocks.insert(entry.key.clone(), Block::Written(entry.value.clone()));
        }
    }

    /// Reads what blocks are left: those that nothing uses.
    pub(super) fn read_blocks(&mut self) {
        for name in self.blocks.keys().cloned().collect::<Vec<_>>() {
            self.block(&name);
        }
    }

    /// Reads a table by its fields; `None` where a required one is missing or wrong. `what` names the table in messages, and
    /// `span` is pointed at where a field is missing.
    pub(super) fn table(&mut self, what: &str, span: Span, node: &Node, fields: &'static [Field]) -> Option<Values> {
        let (values, complete) = self.partial(what, span, node, fields)?;
        complete.then_some(values)
    }

    /// Reads a table by its fields, as far as it goes, and says whether every required one is there; `None` for what is no table.
    pub(super) fn partial(&mut self, what: &str, span: Span, node: &Node, fields: &'static [Field]) -> Option<(Values, bool)> {
        let Some(entries) = node.table() else {
            let hint = format!("write {}", words::code(&words::table_form(fields)));
            self.mistake(Diagnostic::new(node.span, format!("{what} is a table, found {}", node.describe())).hint(hint));
            return None;
        };
        Some(self.entries(what, span, entries, fields))
    }

    fn entries(&mut self, what: &str, span: Span, entries: &[Entry], fields: &'static [Field]) -> (Values, bool) {
        let names: Vec<&str> = fields.iter().map(|f| f.name).collect();
        let mut misspelt = Vec::new();
        for entry in entries.iter().filter(|e| !names.contains(&e.key.as_str())) {
            let message = format!("{what} has no `{}`", words::short(&entry.key));
            misspelt.extend(self.unknown(entry.key_span, &message, &entry.key, &names));
        }
        let mut values = Values::default();
        self.misspelt.extend(&misspelt);
        let mut complete = true;
        for field in fields {
            let value = match entries.iter().find(|e| e.key == field.name) {
                Some(entry) => self.value(&format!("`{}`", field.name), &entry.value, &field.kind),
                None => {
                    if matches!(field.presence, Presence::Required) && !misspelt.contains(&field.name) {
                        self.missing(what, span, field);
                    }
                    None
                }
            };
            match (value, field.presence) {
                (Some(value), _) => values.insert(field.name, value),
                (None, Presence::Default(literal)) => values.insert(field.name, default(literal)),
                (None, Presence::Optional(_)) => {}
                (None, Presence::Required) => complete = false,
            }
        }
        (values, complete)
    }

    fn missing(&mut self, what: &str, span: Span, field: &Field) {
        if !self.tolerate_missing {
            let hint = format!("`{}` is {}. {}", field.name, words::kind(&field.kind), field.doc);
            self.mistake(Diagnostic::new(span, format!("{what} needs `{}`", field.name)).hint(hint));
        }
    }

    /// Notes an unknown name, with the nearest known one, which comes back.
    pub(super) fn unknown<'k>(&mut self, span: Span, message: &str, name: &str, known: &[&'k str]) -> Option<&'k str> {
        self.unknown_of(span, message, name, known, known.len())
    }

    /// The same, where those known are the first of `count`.
    fn unknown_of<'k>(&mut self, span: Span, message: &str, name: &str, known: &[&'k str], count: usize) -> Option<&'k str> {
        if self.mistakes.len() >= MOST_COMPARED {
            self.mistake(Diagnostic::new(span, message));
            return None;
        }
        let nearest = words::nearest(name, known);
        let hint = match (nearest, known) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, []) => "it takes no fields".to_owned(),
            (None, [only]) => format!("there is only `{only}`"),
            (None, _) if count > words::MOST_NAMES => format!("there are {count} names, none of them like it"),
            (None, known) => format!("there are {}", words::list(known.iter().map(|k| words::code(k)))),
        };
        self.mistake(Diagnostic::new(span, message).hint(hint));
        nearest
    }

    fn wrong(&mut self, what: &str, node: &Node, kind: &Kind) {
        let quoted = match kind {
            Kind::Integer { .. } | Kind::Number(_) | Kind::Bool => node.text(),
            _ => None,
        };
        let bare = quoted.filter(|text| text.parse::<f64>().is_ok() || matches!(*text, "true" | "false"));
        let mistake = Diagnostic::new(node.span, format!("{what} is {}, found {}", words::kind(kind), node.describe()));
        self.mistake(mistake.maybe_hint(bare.map(|text| format!("write {text} without quotes"))));
    }

    /// Reads one value. `what` names it in messages.
    pub(super) fn value(&mut self, what: &str, node: &Node, kind: &Kind) -> Option<Value> {
        match (kind, &node.data) {
            (Kind::OneOf(kinds), _) => match kinds.iter().find(|k| fits(node, k)) {
                Some(kind) => return self.value(what, node, kind),
                None => self.wrong(what, node, kind),
            },
            (Kind::Integer { least, most }, Data::Integer(Some(n))) => match u64::try_from(*n) {
                Ok(n) if (*least..=*most).contains(&n) => return Some(Value::Integer(n)),
                _ => self.wrong(what, node, kind),
            },
            (Kind::Number(interval), Data::Integer(Some(_)) | Data::Float(_)) => {
                let x = match node.data {
                    Data::Float(x) => x,
                    Data::Integer(Some(n)) => n as f64,
                    _ => f64::NAN,
                };
                if x.is_finite() && interval.contains(x) {
                    return Some(Value::Number(x));
                }
                self.wrong(what, node, kind);
            }
            (Kind::Bool, Data::Bool(b)) => return Some(Value::Bool(*b)),
            (Kind::Text, Data::Text(t)) => return Some(Value::Text(t.clone())),
            (Kind::Choice(choices), Data::Text(t)) => {
                if choices.contains(&t.as_str()) {
                    return Some(Value::Text(t.clone()));
                }
                self.unknown(node.span, &format!("{what} cannot be {:?}", words::short(t)), t, choices);
            }
            (Kind::List { of, least, most }, Data::Array(elements)) => {
                if !(*least..=*most).contains(&elements.len()) {
                    let found = format!("{what} is {}, found {} of them", words::kind(kind), elements.len());
                    self.mistake(Diagnostic::new(node.span, found));
                    return None;
                }
                let values: Vec<Value> = elements.iter().filter_map(|e| self.value(&format!("an element of {what}"), e, of)).collect();
                return (values.len() == elements.len()).then_some(Value::List(values));
            }
            (Kind::Table(fields), _) => return self.table(what, node.span, node, fields).map(Value::Table),
            (Kind::Tagged(variants), _) => return self.tagged(what, node, variants),
            (Kind::Layers, Data::Array(elements)) => return Some(Value::Layers(self.layers(elements))),
            (Kind::Block, Data::Text(name)) => return self.block_use(name, node.span).map(Value::Layers),
            (Kind::Blocks, Data::Table(_)) => return Some(Value::Table(Values::default())),
            _ => self.wrong(what, node, kind),
        }
        None
    }

    /// `{ name = { fields } }`, or `"name"`.
    fn tagged(&mut self, what: &str, node: &Node, variants: &'static [Variant]) -> Option<Value> {
        if !matches!(node.data, Data::Text(_) | Data::Table(_)) {
            self.wrong(what, node, &Kind::Tagged(variants));
            return None;
        }
        let names: Vec<&str> = variants.iter().map(|v| v.name).collect();
        let (name, span, body) = self.tag(what, node, &names)?;
        let Some(variant) = variants.iter().find(|v| v.name == name) else {
            self.unknown(span, &format!("{what} cannot be `{}`", words::short(&name)), &name, &names);
            return None;
        };
        let value = match (&body, variant.fields()) {
            (Some(body), Some(fields)) => self.table(&format!("`{name}`"), span, body, fields).map(Value::Table),
            (Some(body), None) => self.value(&format!("`{name}`"), body, &variant.body),
            (None, Some(fields)) => self.bare(&name, span, fields).map(Value::Table),
            (None, None) => {
                let hint = format!("write `{{ {name} = … }}`");
                self.mistake(Diagnostic::new(span, format!("`{name}` needs {}", words::kind(&variant.body))).hint(hint));
                None
            }
        };
        value.map(|v| Value::Tagged(variant.name, Box::new(v)))
    }

    /// The name, its place and the body of `{ name = body }` or `"name"`.
    fn tag(&mut self, what: &str, node: &Node, known: &[&str]) -> Option<(String, Span, Option<Node>)> {
        match &node.data {
            Data::Text(name) => Some((name.clone(), node.span, None)),
            Data::Table(entries) if entries.len() == 1 => {
                let entry = &entries[0];
                Some((entry.key.clone(), entry.key_span, Some(entry.value.clone())))
            }
            Data::Table(entries) => {
                let typed = entries.iter().find(|e| e.key == "type" || e.key == "name").and_then(|e| e.value.text());
                let known = entries.iter().map(|e| e.key.as_str()).find(|k| known.contains(k));
                let hint = match (typed, known) {
                    (Some(name), _) => format!("write `{{ {} = {{ … }} }}`", words::short(name)),
                    (None, Some(name)) => format!("write `{{ {name} = … }}` alone"),
                    (None, None) => "write `{ name = { … } }`, or just `\"name\"`".to_owned(),
                };
                let found = if entries.is_empty() { "an empty table".to_owned() } else { format!("{} keys", entries.len()) };
                self.mistake(Diagnostic::new(node.span, format!("{what} is a table with one key, its name; found {found}")).hint(hint));
                None
            }
            _ => {
                let message = format!("{what} is a name or a table with one key, its name; found {}", node.describe());
                self.mistake(Diagnostic::new(node.span, message));
                None
            }
        }
    }

    /// `"name"` alone: every field holds its default.
    fn bare(&mut self, name: &str, span: Span, fields: &'static [Field]) -> Option<Values> {
        let missing: Vec<&Field> = fields.iter().filter(|f| matches!(f.presence, Presence::Required)).collect();
        if missing.is_empty() {
            return Some(self.entries(name, span, &[], fields).0);
        }
        let names = words::list(missing.iter().map(|f| format!("`{}`", f.name)));
        let form = missing.iter().map(|f| format!("{} = …", f.name)).collect::<Vec<_>>().join(", ");
        if name == layer::BLOCK {
            self.mistake(Diagnostic::new(span, "`block` needs the name of a block").hint("write `{ block = \"name\" }`"));
        } else {
            let hint = format!("write `{{ {name} = {{ {form} }} }}`");
            self.mistake(Diagnostic::new(span, format!("`{name}` needs {names}")).hint(hint));
        }
        None
    }

    /// Reads a list of layers. One that cannot be made is there as [`Unknown`].
    fn layers(&mut self, elements: &[Node]) -> Sequence {
        if self.depth == DEEPEST {
            if let Some(first) = elements.first() {
                self.too_deep(first.span);
            }
            return Sequence::new(Vec::new());
        }
        self.depth += 1;
        let items = elements.iter().map(|e| self.layer(e).unwrap_or_else(unknown)).collect();
        self.depth -= 1;
        Sequence::new(items)
    }

    fn too_deep(&mut self, span: Span) {
        self.mistake(Diagnostic::new(span, format!("layers nest more than {DEEPEST} deep here")));
    }

    fn layer(&mut self, node: &Node) -> Option<Item> {
        let names: Vec<&str> = layer::KINDS.iter().map(|k| k.name).collect();
        let (name, span, body) = self.tag("a layer", node, &names)?;
        let Some(kind) = layer::kind(&name) else {
            self.unknown(span, &format!("there is no layer `{}`", words::short(&name)), &name, &names);
            return None;
        };
        let values = match &body {
            None => self.bare(&name, span, kind.fields)?,
            Some(body) if kind.name == layer::BLOCK => {
                let mut values = Values::default();
                values.insert(layer::BLOCK, self.value("a block", body, &Kind::Block)?);
                values
            }
            Some(body) => self.table(&format!("`{name}`"), span, body, kind.fields)?,
        };
        self.places.push(Place { name: span, body: body.unwrap_or_else(|| node.clone()) });
        let origin = Origin(u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX));
        Some(Item { name: kind.name, layer: (kind.build)(&values), origin })
    }

    fn block_use(&mut self, name: &str, span: Span) -> Option<Sequence> {
        let shown = words::short(name);
        match self.blocks.get(name) {
            None => {
                let (known, count): (Vec<String>, _) = (self.blocks.keys().take(words::MOST_NAMES).cloned().collect(), self.blocks.len());
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                if known.is_empty() {
                    let hint = format!("name a list of layers: `[model.blocks]`, then `{shown} = [ … ]`");
                    self.mistake(Diagnostic::new(span, format!("there is no block `{shown}`")).hint(hint));
                } else {
                    self.unknown_of(span, &format!("there is no block `{shown}`"), name, &known, count);
                }
                None
            }
            Some(Block::UnderWay) => {
                self.mistake(Diagnostic::new(span, format!("block `{shown}` contains itself")));
                None
            }
            Some(_) => {
                let sequence = self.block(name)?;
                if self.depth + sequence.depth() > DEEPEST {
                    self.too_deep(span);
                    return None;
                }
                Some(sequence)
            }
        }
    }

    /// Reads a block, once.
    fn block(&mut self, name: &str) -> Option<Sequence> {
        let node = match self.blocks.get(name)? {
            Block::Read(sequence) => return sequence.clone(),
            Block::UnderWay => return None,
            Block::Written(node) => node.clone(),
        };
        self.blocks.insert(name.to_owned(), Block::UnderWay);
        let sequence = match self.value(&format!("block `{}`", words::short(name)), &node, &Kind::Layers) {
            Some(Value::Layers(sequence)) => Some(sequence),
            _ => None,
        };
        self.blocks.insert(name.to_owned(), Block::Read(sequence.clone()));
        sequence
    }
}

/// A layer that a mistake has left unknown: shapes are not followed past it.
#[derive(Debug)]
struct Unknown;

impl Layer for Unknown {
    fn check(&self, _: &Signal, _: &mut Check) -> Option<Signal> {
        None
    }
}

fn unknown() -> Item {
    Item { name: "unknown", layer: Rc::new(Unknown), origin: Origin::default() }
}

/// Whether a value is of the TOML kind that this kind reads.
pub(super) fn fits(node: &Node, kind: &Kind) -> bool {
    match kind {
        Kind::Integer { .. } => matches!(node.data, Data::Integer(_)),
        Kind::Number(_) => matches!(node.data, Data::Integer(_) | Data::Float(_)),
        Kind::Bool => matches!(node.data, Data::Bool(_)),
        Kind::Text | Kind::Choice(_) | Kind::Block => matches!(node.data, Data::Text(_)),
        Kind::List { .. } | Kind::Layers => matches!(node.data, Data::Array(_)),
        Kind::Table(_) | Kind::Blocks => matches!(node.data, Data::Table(_)),
        Kind::Tagged(_) => matches!(node.data, Data::Table(_) | Data::Text(_)),
        Kind::OneOf(kinds) => kinds.iter().any(|k| fits(node, k)),
    }
}

fn default(literal: Literal) -> Value {
    match literal {
        Literal::Integer(n) => Value::Integer(n),
        Literal::Number(x) => Value::Number(x),
        Literal::Bool(b) => Value::Bool(b),
        Literal::Text(t) => Value::Text(t.to_owned()),
        Literal::Empty => Value::Layers(Sequence::new(Vec::new())),
    }
}
