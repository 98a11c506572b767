//! A page of its own: the pictures of one results file, their numbers, and nothing from anywhere else.
//!
//! The page says to the browser itself that it loads nothing. Tooltips are the pictures' own titles; a script of a few lines
//! draws them better where scripts run.
//! Invariant: text from files is escaped; the same results give the same bytes.

use std::fmt::Write as _;

use crate::meta::bytes::format_bytes;
use crate::record::{Category, Status};
use crate::report::number::{signed_bytes, thousands};
use crate::report::read::{Case, Results, Row};
use crate::report::words::{count, errors, place, settings};

use super::chart::{Chart, Width, escape};
use super::sweep::{self, Curves, Limits, Outcome};
use super::{cases, curves, palette, phases, words};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Most cases whose phases are all drawn.
const ALL_DRAWN: usize = 16;
/// Most lines of a table.
const LINES: usize = 1200;

/// What to draw.
#[derive(Debug, Clone)]
pub struct Plot<'a> {
    /// The experiment's name.
    pub name: &'a str,
    /// Its results; at least one case.
    pub results: &'a Results,
    /// What GPUs can give.
    pub limits: Limits,
    /// The sweep's axis to draw along; the one with most values where none is asked for.
    pub axis: Option<&'a str>,
}

/// An axis that cannot be drawn along.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the results cannot be drawn along `{asked}`: {}", if known.is_empty() { "they have no axis of several numbers".to_owned() } else { format!("their axes of numbers are {known}") })]
pub struct Unknown {
    asked: String,
    known: String,
}

/// What is in the file.
enum Content<'a> {
    Phases(&'a Case),
    Sweep { outcomes: &'a [Outcome<'a>], curves: Option<Curves<'a>> },
}

impl Content<'_> {
    fn draw(&self, plot: &Plot<'_>, heading: &str, width: Width) -> Chart {
        match self {
            Self::Phases(case) => phases::draw(case, heading, width),
            Self::Sweep { curves: Some(curves), .. } => curves::draw(curves, &plot.limits, heading, width),
            Self::Sweep { outcomes, curves: None } => cases::draw(outcomes, &plot.limits, heading, width),
        }
    }
}

impl Plot<'_> {
    /// The picture alone: an SVG file.
    ///
    /// # Errors
    /// [`Unknown`] where the axis asked for is none.
    pub fn svg(&self) -> Result<String, Unknown> {
        let outcomes: Vec<Outcome<'_>> = self.results.cases.iter().map(Outcome::of).collect();
        Ok(self.content(&outcomes)?.draw(self, self.name, Width::Wide).file())
    }

    /// The page.
    ///
    /// # Errors
    /// [`Unknown`] where the axis asked for is none.
    pub fn html(&self) -> Result<String, Unknown> {
        let outcomes: Vec<Outcome<'_>> = self.results.cases.iter().map(Outcome::of).collect();
        let content = self.content(&outcomes)?;
        let mut page = Page::default();
        match &content {
            Content::Phases(case) => page.run(self, case, &content),
            Content::Sweep { outcomes, curves } => page.sweep(self, outcomes, curves.as_ref(), &content),
        }
        Ok(document(self.name, "memory", &page))
    }

    fn content<'a>(&self, outcomes: &'a [Outcome<'a>]) -> Result<Content<'a>, Unknown> {
        if let ([outcome], None) = (outcomes, self.axis) {
            return Ok(Content::Phases(outcome.case));
        }
        let curves = sweep::curves(outcomes, self.axis);
        match (self.axis, &curves) {
            (Some(asked), None) => {
                let keys = outcomes.first().map(|o| o.point.keys.as_slice()).unwrap_or_default();
                let known = keys.iter().filter(|key| sweep::curves(outcomes, Some(key)).is_some()).cloned().collect::<Vec<_>>().join(", ");
                Err(Unknown { asked: asked.to_string(), known })
            }
            _ => Ok(Content::Sweep { outcomes, curves }),
        }
    }
}

/// The whole file of a page about that, `memory` say, of something called `name`.
pub(super) fn document(name: &str, about: &str, page: &Page) -> String {
    let name = escape(name);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{name}: {about}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n{}</main>\n\
         <div id=\"tip\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        palette::style(),
        page.body
    )
}

/// What is between a page's head and its foot, as it grows.
#[derive(Default)]
pub(super) struct Page {
    pub(super) body: String,
    pictures: usize,
}

impl Page {
    /// A picture in both widths, of which the style sheet shows one.
    pub(super) fn figure(&mut self, draw: impl Fn(Width) -> Chart) {
        self.body.push_str("<figure>\n");
        for (width, class) in [(Width::Wide, "chart wide"), (Width::Narrow, "chart narrow")] {
            self.pictures += 1;
            self.body.push_str(&draw(width).element(&format!("c{}", self.pictures), class));
        }
        self.body.push_str("</figure>\n");
    }

    fn run(&mut self, plot: &Plot<'_>, case: &Case, content: &Content<'_>) {
        let about = [case.label.clone(), settings(&case.settings), count(case.rows.len(), "row")];
        self.lead(&about.into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" · "), &case_sentences(case));
        self.figure(|width| content.draw(plot, "", width));
        self.rows_table(case);
    }

    fn sweep(&mut self, plot: &Plot<'_>, outcomes: &[Outcome<'_>], curves: Option<&Curves<'_>>, content: &Content<'_>) {
        let heaviest = outcomes.iter().rev().max_by_key(|o| o.main.peak).map(|o| o.case);
        let mut sentences = Vec::new();
        if let Some(case) = heaviest {
            sentences.push(format!("the highest {} of {}", words::attributed(case), case.label));
        }
        sentences.push(words::agreement(outcomes.iter().map(|o| o.case)));
        let failed = outcomes.iter().filter(|o| o.oom).count();
        if failed > 0 {
            sentences.push(format!("{} ran out of memory", count(failed, "case")));
        }
        let rows = outcomes.iter().map(|o| o.case.rows.len()).sum();
        self.lead(&format!("{} · {}", count(outcomes.len(), "case"), count(rows, "row")), &sentences);
        self.figure(|width| content.draw(plot, "", width));
        self.limits(plot, outcomes, curves);
        self.cases_table(outcomes);
        if outcomes.len() <= ALL_DRAWN {
            self.body.push_str("<h2>Phases of each case</h2>\n");
            for outcome in outcomes {
                let peak = format_bytes(outcome.main.peak);
                let open = if heaviest.is_some_and(|c| std::ptr::eq(c, outcome.case)) { " open" } else { "" };
                let _ = writeln!(
                    self.body,
                    "<details{open}><summary>{} <span class=\"quiet\">{peak}</span></summary>",
                    escape(&outcome.case.label)
                );
                self.figure(|width| phases::draw(outcome.case, "", width));
                self.body.push_str("</details>\n");
            }
        } else if let Some(case) = heaviest {
            let _ = writeln!(self.body, "<h2>Phases of {}, the case with the highest peak</h2>", escape(&case.label));
            self.figure(|width| phases::draw(case, "", width));
        }
    }

    /// What it is about, and what there is to say: sentences without their capitals and stops.
    pub(super) fn lead(&mut self, about: &str, sentences: &[String]) {
        let _ = writeln!(self.body, "<p class=\"quiet\">{}</p>", escape(about));
        let sentences = sentences.iter().filter(|s| !s.is_empty()).map(|s| {
            let mut letters = s.chars();
            letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
        });
        let text = unbroken(&sentences.collect::<Vec<_>>().join(" "));
        let _ = writeln!(self.body, "<p>{}</p>", escape(&text));
    }

    /// What fits under each limit that is drawn or was asked for.
    fn limits(&mut self, plot: &Plot<'_>, outcomes: &[Outcome<'_>], curves: Option<&Curves<'_>>) {
        let highest = outcomes.iter().map(|o| o.main.top()).max().unwrap_or(0);
        let mut limits = plot.limits.drawn(highest);
        limits.extend(plot.limits.beyond(highest));
        if limits.is_empty() {
            return;
        }
        self.body.push_str(
            "<p>Cases that reserve no more than a GPU has; its context, and a desktop where there is one, need some of that:</p>\n<ul>\n",
        );
        for limit in limits {
            let fits = match curves {
                Some(curves) => sweep::fits(curves, limit).join("; "),
                None => {
                    let held = outcomes.iter().filter(|o| !o.oom && o.main.reserved <= limit.bytes).count();
                    format!("{} of {}", thousands(held as u128), count(outcomes.len(), "case"))
                }
            };
            let _ = writeln!(self.body, "<li><b>{}</b> ({}): {}</li>", escape(&limit.name), format_bytes(limit.bytes), escape(&fits));
        }
        self.body.push_str("</ul>\n");
    }

    /// The first of `all` lines, as many as a table takes.
    pub(super) fn table(&mut self, summary: &str, head: &[&str], lines: impl Iterator<Item = Vec<String>>, all: usize) {
        let left_out = all.saturating_sub(LINES);
        let _ = writeln!(
            self.body,
            "<details class=\"numbers\"><summary>{}</summary>\n<div class=\"scroll\"><table>\n<thead><tr>",
            escape(summary)
        );
        for name in head {
            let _ = write!(self.body, "<th scope=\"col\">{}</th>", escape(name));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for line in lines.take(LINES) {
            self.body.push_str("<tr>");
            for cell in line {
                let _ = write!(self.body, "<td>{}</td>", escape(&cell));
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
        if left_out > 0 {
            let _ = writeln!(self.body, "<p class=\"quiet\">{} in the CSV.</p>", escape(&count(left_out, "more line")));
        }
        self.body.push_str("</details>\n");
    }

    fn rows_table(&mut self, case: &Case) {
        let held: Vec<Category> =
            Category::ALL.into_iter().filter(|&c| case.rows.iter().any(|r| r.categories.is_some_and(|all| all[c] > 0))).collect();
        let mut head = vec!["row", "allocated", "peak", "reserved", "predicted"];
        head.extend(held.iter().map(|c| c.name()));
        let lines = case.rows.iter().map(|row| {
            let memory = row.memory();
            let name = if row.status == Status::Oom { format!("{}, out of memory", place(row.at)) } else { place(row.at) };
            let mut cells = vec![name];
            cells.extend([memory.allocated, memory.peak, memory.reserved].map(|b| thousands(u128::from(b))));
            cells.push(predicted(row));
            cells.extend(held.iter().map(|&c| row.categories.map_or_else(String::new, |all| thousands(u128::from(all[c])))));
            cells
        });
        self.table("Every row, in bytes", &head, lines, case.rows.len());
    }

    fn cases_table(&mut self, outcomes: &[Outcome<'_>]) {
        let head = ["case", "highest peak", "in", "mostly", "most reserved", "predicted"];
        let lines = outcomes.iter().map(|o| {
            let peak = o.case.peak();
            let mostly = words::largest(o.case)
                .map_or_else(String::new, |(c, bytes, when)| format!("{} {} {when}", c.name(), thousands(u128::from(bytes))));
            let at = if o.oom { format!("{}, then out of memory", place(peak.at)) } else { place(peak.at) };
            let off = o.predicted.map(|p| {
                let errors = [("peak", p.peak, o.main.peak), ("reserved", p.reserved, o.main.reserved)];
                let errors = errors.into_iter().filter(|(_, p, m)| p != m);
                let text = errors
                    .map(|(name, p, m)| format!("{name} {}", signed_bytes(i128::from(p) - i128::from(m))))
                    .collect::<Vec<_>>()
                    .join(", ");
                if text.is_empty() { "the same".to_string() } else { text }
            });
            let bytes = |b: u64| thousands(u128::from(b));
            vec![o.case.label.clone(), bytes(o.main.peak), at, mostly, bytes(o.main.reserved), off.unwrap_or_default()]
        });
        self.table("Every case, in bytes", &head, lines, outcomes.len());
    }
}

/// What there is to say about a case, in sentences without their capitals and stops.
fn case_sentences(case: &Case) -> Vec<String> {
    let mut sentences = vec![format!("highest {}", words::attributed(case)), words::agreement(std::iter::once(case))];
    if let Some(row) = case.rows.iter().find(|r| r.status == Status::Oom) {
        sentences.push(format!("out of memory in {}", place(row.at)));
    }
    sentences
}

/// Text whose figures stay on one line with their thousands and units.
fn unbroken(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let digit = |i: usize| letters.get(i).is_some_and(char::is_ascii_digit);
    let unit = |i: usize| [['B', ' '], ['B', '.'], ['K', 'i'], ['M', 'i'], ['G', 'i']].iter().any(|u| letters.get(i..i + 2) == Some(u));
    let kept = |(i, &c): (usize, &char)| if c == ' ' && i > 0 && digit(i - 1) && (digit(i + 1) || unit(i + 1)) { '\u{a0}' } else { c };
    letters.iter().enumerate().map(kept).collect()
}

/// How a row's prediction differs from what was measured.
fn predicted(row: &Row) -> String {
    match (row.measured, row.predicted) {
        (None, _) => "only predicted".to_string(),
        (_, None) => String::new(),
        (Some(m), Some(p)) if m == p => "the same".to_string(),
        (Some(m), Some(p)) => errors(&p, &m).join(", "),
    }
}
