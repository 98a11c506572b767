//! Mistakes in an experiment: all of them, each with its place, its source line and, where one can be given, a hint. Nothing here
//! decides what is a mistake.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

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

    /// The same mistakes, made by the `number`th argument of the command line, from 1, which is shown by the name of its flag, each with a hint.
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

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Line and column, from 1, of a mistake's first character; the column counts characters.
    #[must_use]
    pub fn position(&self, span: Span) -> (usize, usize) {
        let (number, line, within) = self.line(span);
        (number, line[..within.start].chars().count() + 1)
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

    /// Draws all mistakes, with colours where `styled`.
    #[must_use]
    pub fn render(&self, styled: bool) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let mut drawn = String::new();
        for diagnostic in &self.list {
            drawn += &renderer.render(&[self.group(diagnostic)]);
            drawn += "\n\n";
        }
        match self.list.len() {
            0 => {}
            1 => drawn += "1 mistake\n",
            n => drawn += &format!("{n} mistakes\n"),
        }
        drawn
    }

    fn group<'a>(&'a self, diagnostic: &'a Diagnostic) -> annotate_snippets::Group<'a> {
        let title = Level::ERROR.primary_title(diagnostic.message.as_str());
        let group = match diagnostic.span {
            None => annotate_snippets::Group::with_title(title),
            Some(span) => {
                let source = &self.sources[span.source as usize];
                let (number, line, within) = self.line(span);
                let snippet =
                    Snippet::source(line).path(source.name.as_str()).line_start(number).annotation(AnnotationKind::Primary.span(within));
                title.element(snippet)
            }
        };
        group.elements(diagnostic.hints.iter().map(|h| Level::HELP.message(h.as_str())))
    }
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
