//! Words for messages: what a kind of value is called, lists, nearest names.

pub(super) use crate::meta::short;
use crate::model::field::{Field, Interval, Kind, Presence, Variant};

/// What a value of this kind is, e.g. `a whole number of at least 1`.
#[must_use]
pub(super) fn kind(kind: &Kind) -> String {
    const MOST: u64 = i64::MAX as u64;
    match kind {
        Kind::Integer { least, most: MOST } => format!("a whole number of at least {least}"),
        Kind::Integer { least, most } => format!("a whole number from {least} to {most}"),
        Kind::Number(interval) => number(interval),
        Kind::Bool => "true or false".to_owned(),
        Kind::Text => "a text".to_owned(),
        Kind::Choice(choices) => alternatives(choices.iter().map(|c| format!("{c:?}"))),
        Kind::List { of, least, most } if least == most => format!("a list of {least} elements, each {}", self::kind(of)),
        Kind::List { of, least: 0, .. } => format!("a list, each element {}", self::kind(of)),
        Kind::List { of, least, .. } => format!("a list of at least {least}, each element {}", self::kind(of)),
        Kind::Table(fields) => format!("a table {}", table_form(fields)),
        Kind::Tagged(variants) => alternatives(variants.iter().map(variant)),
        Kind::OneOf(kinds) => alternatives(kinds.iter().map(self::kind)),
        Kind::Layers => "a list of layers".to_owned(),
        Kind::Block => "the name of a block".to_owned(),
        Kind::Blocks => "a table of named lists of layers".to_owned(),
    }
}

fn variant(variant: &Variant) -> String {
    match variant.fields() {
        Some(fields) if !fields.iter().any(|f| matches!(f.presence, Presence::Required)) => format!("{:?}", variant.name),
        Some(fields) => format!("{{ {} = {} }}", variant.name, table_form(fields)),
        None => format!("{{ {} = … }}", variant.name),
    }
}

fn number(i: &Interval) -> String {
    match (i.from, i.to) {
        (from, to) if from == f64::NEG_INFINITY && to == f64::INFINITY => "a number".to_owned(),
        (from, to) if to == f64::INFINITY => format!("a number {} {from}", if i.from_included { "of at least" } else { "above" }),
        (from, to) if i.from_included && i.to_included => format!("a number from {from} to {to}"),
        (from, to) => format!("a number between {from} and {to}, both excluded"),
    }
}

/// How many fields a table's form names.
const MOST_SHOWN: usize = 3;

/// A table's form: `{ from = …, to = …, by = … }`.
#[must_use]
pub(super) fn table_form(fields: &[Field]) -> String {
    let required: Vec<&Field> = fields.iter().filter(|f| matches!(f.presence, Presence::Required)).collect();
    let shown = if required.is_empty() { fields.iter().collect() } else { required };
    let shown: Vec<String> = shown.iter().take(MOST_SHOWN).map(|f| format!("{} = …", f.name)).collect();
    match (shown.len(), fields.len()) {
        (0, _) => "{}".to_owned(),
        (MOST_SHOWN, n) if n > MOST_SHOWN => format!("{{ {}, … }}", shown.join(", ")),
        _ => format!("{{ {} }}", shown.join(", ")),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn alternatives(items: impl IntoIterator<Item = String>) -> String {
    join(items, " or ")
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    join(items, " and ")
}

fn join(items: impl IntoIterator<Item = String>, last: &str) -> String {
    let items: Vec<String> = items.into_iter().collect();
    match items.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((end, lead)) => format!("{}{last}{end}", lead.join(", ")),
    }
}

/// The most names that a hint lists, and that one is compared with: a file may have any number of blocks.
pub(super) const MOST_NAMES: usize = 100;

/// Bytes of the longest name that is held against others.
const LONGEST: usize = 200;

/// The known name that is most like this one, where one is like it at all.
#[must_use]
pub(super) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // To hold long names against each other takes the product of their lengths.
    if name.len() > LONGEST {
        return None;
    }
    // As PyTorch writes its types.
    let longer = [
        ("float64", "f64"),
        ("double", "f64"),
        ("float32", "f32"),
        ("float", "f32"),
        ("float16", "f16"),
        ("half", "f16"),
        ("bfloat16", "bf16"),
    ];
    let written = name.strip_prefix("torch.").unwrap_or(name);
    let short = longer.iter().find(|(long, _)| *long == written).and_then(|(_, short)| known.iter().find(|k| *k == short));
    if short.is_some() {
        return short.copied();
    }
    let plain = |s: &str| s.to_lowercase().replace(['-', ' ', '_'], "");
    let mut best: Option<(f64, &str)> = None;
    let name = plain(name);
    let length = |s: &str| s.chars().count() as f64;
    for &candidate in known.iter().take(MOST_NAMES).filter(|k| k.len() <= LONGEST) {
        let least = best.map_or(0.75, |(b, _)| b);
        let other = plain(candidate);
        // Names whose lengths alone tell them apart are not held against each other letter by letter, which takes long.
        let (shorter, longer) = (length(&name).min(length(&other)), length(&name).max(length(&other)));
        let edits = if shorter > least * longer { strsim::normalized_damerau_levenshtein(&name, &other) } else { 0.0 };
        let likeness = strsim::jaro_winkler(&name, &other).max(edits);
        if likeness > least {
            best = Some((likeness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// As code.
#[must_use]
pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}
