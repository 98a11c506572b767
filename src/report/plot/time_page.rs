//! A page of its own about what a run did with its time: the lanes of each case, and their numbers.
//!
//! Invariant: text from files is escaped; the same file gives the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::record::MicroStep;
use crate::report::number::shortest;
use crate::report::words::count;

use super::chart::{Width, escape};
use super::lanes;
use super::page::{Page, document};

/// Most cases that are drawn.
const DRAWN: usize = 16;

/// The micro-steps of each case, by its name.
pub type Cases = BTreeMap<String, Vec<MicroStep>>;

/// The page; at least one case has a micro-step.
#[must_use]
pub fn html(name: &str, cases: &Cases) -> String {
    let mut page = Page::default();
    for (number, (case, steps)) in cases.iter().filter(|(_, steps)| !steps.is_empty()).enumerate() {
        if number == DRAWN {
            let _ = writeln!(page.body, "<p class=\"quiet\">{} in the CSV.</p>", escape(&count(cases.len() - DRAWN, "more case")));
            break;
        }
        if !case.is_empty() {
            let _ = writeln!(page.body, "<h2>{}</h2>", escape(case));
        }
        page.lead(&count(steps.len(), "micro-step"), &lanes::sentences(steps));
        page.figure(|width| lanes::draw(steps, "", width));
        table(&mut page, steps);
    }
    document(name, "time", &page)
}

/// The picture of the first case alone: an SVG file.
#[must_use]
pub fn svg(name: &str, cases: &Cases) -> String {
    let first = cases.iter().find(|(_, steps)| !steps.is_empty());
    let (case, steps) = first.map_or(("", &[][..]), |(case, steps)| (case.as_str(), &steps[..]));
    lanes::draw(steps, format!("{name} {case}").trim_end(), Width::Wide).file()
}

fn table(page: &mut Page, steps: &[MicroStep]) {
    let head = ["step", "loss", "whole", "device busy", "waiting", "preparing", "copying", "reading the loss", "saving"];
    let lines = steps.iter().map(|m| {
        let step = if m.micro_step > 1 { format!("{}.{}", m.step, m.micro_step) } else { m.step.to_string() };
        let times = &m.times;
        let rest = [times.waiting, times.preparing, times.copying, times.logging, times.saving].map(Some);
        let seconds = [Some(m.seconds), times.busy()].into_iter().chain(rest);
        let seconds = seconds.map(|seconds| seconds.map(|seconds| format!("{:.3}", 1e3 * seconds)).unwrap_or_default());
        [step, m.loss.map(shortest).unwrap_or_default()].into_iter().chain(seconds).collect()
    });
    page.table("Every micro-step, in milliseconds", &head, lines, steps.len());
}
