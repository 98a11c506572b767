//! The table: a line a case, a column a type, and what is over its bound marked.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::codec::TYPES;

const BAD: Style = AnsiColor::Red.on_default().bold();
const HEAD: Style = Style::new().bold();
const WIDTH: usize = 11;

/// The relative norms of a case, a type each; `None` where it is not for that type.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) norms: [Option<f64>; TYPES.len()],
}

/// Lines under one heading, with their bounds.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) bounds: [f64; TYPES.len()],
    pub(super) lines: Vec<Line>,
}

impl Section {
    /// How many norms are over their bound.
    pub(super) fn failures(&self) -> usize {
        let over = |line: &Line| line.norms.iter().zip(self.bounds).filter(|(norm, bound)| norm.is_some_and(|n| n > *bound)).count();
        self.lines.iter().map(over).sum()
    }

    /// The text, lines ended by `\n`.
    pub(super) fn render(&self) -> String {
        let width = self.lines.iter().map(|l| l.name.chars().count()).max().unwrap_or(0).max(self.title.len());
        let mut text = format!("{HEAD}{:width$}", self.title);
        for dtype in TYPES {
            let _ = write!(text, "{dtype:>WIDTH$}");
        }
        let _ = write!(text, "{HEAD:#}\n{:width$}", "bound");
        for bound in self.bounds {
            let _ = write!(text, "{bound:>WIDTH$.0e}");
        }
        text.push('\n');
        for line in &self.lines {
            let _ = write!(text, "{:width$}", line.name);
            for (norm, bound) in line.norms.iter().zip(self.bounds) {
                match norm {
                    None => {
                        let _ = write!(text, "{:>WIDTH$}", "-");
                    }
                    Some(norm) if *norm > bound => {
                        let _ = write!(text, "{BAD}{norm:>WIDTH$.1e}{BAD:#}");
                    }
                    Some(norm) => {
                        let _ = write!(text, "{norm:>WIDTH$.1e}");
                    }
                }
            }
            text.push('\n');
        }
        text
    }
}
