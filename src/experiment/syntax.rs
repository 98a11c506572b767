//! Reading text as TOML although parts of it are broken: each broken section is told once, at its first real break, and set aside,
//! so that the rest of the file is still read and its mistakes are found in the same run.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::de::DeTable;

use super::diagnostic::{Diagnostic, Span};
use super::document::{Node, from_table};
use super::words;

/// Reads a text as far as it is TOML; what is none is added to `mistakes`.
pub(super) fn parse(source: u32, text: &str, mistakes: &mut Vec<Diagnostic>) -> Node {
    let (root, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return from_table(source, root.get_ref());
    }
    let mut sound = text.as_bytes().to_vec();
    for section in sections(text) {
        let errors = DeTable::parse_recoverable(&text[section.clone()]).1;
        if errors.is_empty() {
            continue;
        }
        let (told, whole) = told(source, &text[section.clone()], section.start, &errors);
        mistakes.extend(told);
        if !whole {
            sound[section].iter_mut().filter(|b| !matches!(b, b'\n' | b'\r')).for_each(|b| *b = b' ');
        }
    }
    let sound = String::from_utf8_lossy(&sound).into_owned();
    let (root, errors) = DeTable::parse_recoverable(&sound);
    // Sections may be sound one by one but not together, where a table stands twice.
    let (together, _) = told(source, text, 0, &errors);
    let known: BTreeSet<Option<Span>> = mistakes.iter().map(|m| m.span).collect();
    mistakes.extend(together.into_iter().filter(|m| !known.contains(&m.span)));
    from_table(source, root.get_ref())
}

/// From one header of a table to the next.
fn sections(text: &str) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && is_header(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// `[name]` alone on its line. An element of a list that looks like it begins with a digit, a quote or a bracket.
fn is_header(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default().trim_end();
    let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) else { return false };
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// The errors up to the first after which nothing can be told apart any more; and whether there is none such, so that what the
/// parser made of the text can be relied on.
fn told(source: u32, text: &str, offset: usize, errors: &[toml::de::Error]) -> (Vec<Diagnostic>, bool) {
    let mut diagnostics = Vec::new();
    let mut errors: Vec<&toml::de::Error> = errors.iter().collect();
    errors.sort_by_key(|e| e.span().map_or(usize::MAX, |s| s.start));
    for error in errors {
        let range = error.span().unwrap_or(text.len()..text.len());
        let span = Span { source, start: offset + range.start, end: offset + range.end };
        let (what, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
        let found = words::short(text.get(range).unwrap_or_default());
        let local = ["duplicate key", "string values must be quoted", "invalid"].iter().any(|l| what.starts_with(l));
        let diagnostic = match what {
            "string values must be quoted" if found.trim().is_empty() => Diagnostic::new(span, "not TOML: there is no value here"),
            "string values must be quoted" => Diagnostic::new(span, format!("not TOML: {found} is no value")).hint("text stands in quotes"),
            "duplicate key" => Diagnostic::new(span, format!("not TOML: `{found}` stands here twice")),
            _ if what.starts_with("cannot recurse further") => Diagnostic::new(span, "lists and tables nest too deep to be read")
                .hint("name inner layers: `[model.blocks]`, then `name = [ … ]`, and `{ block = \"name\" }` where they go"),
            _ => Diagnostic::new(span, format!("not TOML: {what}"))
                .maybe_hint((!expected.is_empty()).then(|| format!("expected {expected}"))),
        };
        diagnostics.push(diagnostic);
        if !local {
            return (diagnostics, false);
        }
    }
    (diagnostics, true)
}
