//! Mistakes in an experiment: all of them, each with its place, its source line and, where one can be given, a hint. Nothing here
//! decides what is a mistake.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::meta::cut;

/// A stretch of one of the texts that an experiment is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file (0), or an argument of the command line (from 1).
    pub source: u32,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// Where; `None` where the file could not be read at all.
    pub span: Option<Span>,
    /// What to do about it.
    pub hints: Vec<String>,
}

impl Diagnostic {
    /// A mistake at a place.
    #[must_use]
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), span: Some(span), hints: Vec::new() }
    }

    /// With a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With a hint where there is one.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }
}

/// A text with its name: the file's path, or `--set`.
#[derive(Debug, Clone)]
pub struct Source {
    /// As shown.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// All mistakes of one experiment, in the order of the file.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    sources: Vec<Source>,
    /// Of each source, where its lines begin.
    lines: Vec<Vec<usize>>,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Mistakes over the texts they point into; sorted here.
    #[must_use]
    pub fn new(sources: Vec<Source>, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|d| d.span);
        let starts = |s: &Source| std::iter::once(0).chain(s.text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        let lines = sources.iter().map(starts).collect();
        Self { sources, lines, list }
    }

    /// The same mistakes, made by the `number`th argument of the command line, from 1, which is shown by the name of its flag, each with a
    /// hint.
    #[must_use]
    pub fn of_argument(mut self, number: usize, flag: &str, hint: &str) -> Self {
        if let Some(source) = self.sources.get_mut(number) {
            flag.clone_into(&mut source.name);
        }
        for mistake in &mut self.list {
            mistake.hints.push(hint.to_owned());
        }
        self
    }

    /// The mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The line that a span starts in: its number, its text, and the part of the span within it.
    fn line(&self, span: Span) -> (usize, &str, Range<usize>) {
        let text = &self.sources[span.source as usize].text;
        let starts = &self.lines[span.source as usize];
        let start = floor_boundary(text, span.start);
        let number = starts.partition_point(|&line| line <= start);
        let first = starts[number - 1];
        let last = starts.get(number).map_or(text.len(), |next| next - 1);
        let line = text[first..last].trim_end_matches('\r');
        let start = (start - first).min(line.len());
        let end = (floor_boundary(text, span.end).max(first) - first).min(line.len());
        (number, line, start..end.max(start))
    }

    /// Draws the mistakes, of very many the first, with colours where `styled`.
    #[must_use]
    pub fn render(&self, styled: bool) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let mut drawn = String::new();
        let mut columns = Columns::default();
        for diagnostic in self.list.iter().take(MOST_DRAWN) {
            drawn += &self.draw(diagnostic, &renderer, &mut columns);
            drawn += "\n\n";
        }
        if let Some(more) = self.list.len().checked_sub(MOST_DRAWN).filter(|more| *more > 0) {
            drawn += &format!("… and {more} more\n\n");
        }
        match self.list.len() {
            0 => {}
            1 => drawn += "1 mistake\n",
            n => drawn += &format!("{n} mistakes\n"),
        }
        drawn
    }

    fn draw(&self, diagnostic: &Diagnostic, renderer: &Renderer, columns: &mut Columns) -> String {
        let title = Level::ERROR.primary_title(cut(&diagnostic.message, LONGEST));
        let hints = diagnostic.hints.iter().map(|h| Level::HELP.message(cut(h, LONGEST)));
        let Some(span) = diagnostic.span else { return renderer.render(&[Group::with_title(title).elements(hints)]) };
        let name = self.sources[span.source as usize].name.as_str();
        let (number, line, within) = self.line(span);
        let column = columns.of((span.source, number), line, within.start);
        let draw = |name, line, within| {
            let snippet = Snippet::source(line).path(name).line_start(number).annotation(AnnotationKind::Primary.span(within));
            renderer.render(&[title.element(snippet).elements(hints)])
        };
        if line.len() <= 2 * SHOWN {
            return draw(name, line, within);
        }
        // The column that is drawn is that within what is handed over.
        let (excerpt, within) = excerpt(line, within);
        let drawn_column = excerpt[..within.start].chars().count() + 1;
        let name: String = name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
        draw(STAND_IN, excerpt, within).replacen(&format!("{STAND_IN}:{number}:{drawn_column}"), &format!("{name}:{number}:{column}"), 1)
    }
}

/// Mistakes that are drawn; how many there are is said.
const MOST_DRAWN: usize = 50;

/// Characters of a message: more than the language's own words come to, so that what is cut is the file's.
const LONGEST: usize = 2000;

/// The characters before a place in its line. Mistakes come in the order of the text, so that a line with many is gone over once.
#[derive(Debug, Default)]
struct Columns {
    /// The line's source and number.
    line: (u32, usize),
    /// As far as was counted: bytes, and the characters in them.
    bytes: usize,
    characters: usize,
}

impl Columns {
    /// The column, from 1, of byte `start` of a line.
    fn of(&mut self, number: (u32, usize), line: &str, start: usize) -> usize {
        if self.line != number || start < self.bytes {
            *self = Self { line: number, ..Self::default() };
        }
        self.characters += line[self.bytes..start].chars().count();
        self.bytes = start;
        self.characters + 1
    }
}

/// The source's name while its place is not yet right: a character that stands for nothing else.
const STAND_IN: &str = "\u{FFFC}";

/// Bytes of a line that are handed over on either side of where a mistake begins; what is shown is less.
const SHOWN: usize = 400;

/// A part of a long line, and where the mistake lies in it: drawing takes as long as what is handed over, for each of its mistakes.
fn excerpt(line: &str, within: Range<usize>) -> (&str, Range<usize>) {
    let from = floor_boundary(line, within.start.saturating_sub(SHOWN));
    let to = floor_boundary(line, within.start + SHOWN);
    (&line[from..to], within.start - from..within.end.min(to) - from)
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
