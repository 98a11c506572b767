//! The words that all forms of a comparison share.

use crate::meta::bytes::format_bytes;
use crate::record::Status;
use crate::report::number::{signed_bytes, thousands};
pub use crate::report::words::{count, place};

use super::compare::{CaseChange, Change, Diff, SettingChange, Side, Sides};
use super::fold::Line;

/// `adamw`, or `adamw train.batch_size=2`.
#[must_use]
pub fn case_name(experiment: &str, label: &str) -> String {
    if label.is_empty() { experiment.to_string() } else { format!("{experiment} {label}") }
}

/// `+4 194 304`.
#[must_use]
pub fn signed(bytes: i128) -> String {
    format!("{}{}", if bytes < 0 { '-' } else { '+' }, thousands(bytes.unsigned_abs()))
}

/// `+7.76%`; empty where it grew from nothing.
#[must_use]
pub fn percent(change: Change) -> String {
    match change.percent() {
        None => String::new(),
        Some(p) if p.abs() < 0.01 => "<0.01%".to_string(),
        Some(p) => format!("{p:+.2}%"),
    }
}

/// `127.65 MiB → 131.78 MiB (+3.24%)`; `127.65 MiB -512 B (<0.01%)` where both would read the same.
#[must_use]
pub fn from_to(change: Change) -> String {
    let percent = percent(change);
    let percent = if percent.is_empty() { percent } else { format!(" ({percent})") };
    let (before, after) = (format_bytes(change.before), format_bytes(change.after));
    if before == after {
        return format!("{before} {}{percent}", signed_bytes(change.bytes()));
    }
    format!("{before} → {after}{percent}")
}

/// What became of a case's highest peak: where it went, or that memory ran out.
#[must_use]
pub fn peak(peak: Option<Change>, end: Option<(Status, Status)>, side: Side) -> String {
    let side = if side == Side::Predicted { "predicted " } else { "" };
    match (end, peak) {
        (Some((_, Status::Oom)), _) => "runs out of memory now".to_string(),
        (Some((_, Status::Ok)), _) => "no longer runs out of memory".to_string(),
        (None, None) => format!("{side}peak unchanged"),
        (None, Some(change)) => format!("{side}peak {}", from_to(change)),
    }
}

/// The highest peaks of what is not compared.
#[must_use]
pub fn peaks((before, after): (u64, u64)) -> String {
    format!("peak {} and {}", format_bytes(before), format_bytes(after))
}

/// What a line that stands for others says.
#[must_use]
pub fn folded(line: &Line<'_>, step: u64) -> Option<String> {
    let range = |a: &u64, b: &u64| if a == b { format!(" {a}") } else { format!("s {a}–{b}") };
    match line {
        Line::Row(_) => None,
        Line::Steps(a, b) => Some(format!("step{}: same change", range(a, b))),
        Line::MicroSteps(a, b) => Some(format!("micro-step{} of step {step}: same change", range(a, b))),
        Line::Rows(first, last, n) => Some(format!("{} to {}: same change in {}", first.phase, last.phase, count(*n, "row"))),
        Line::OneSided { what, first, last, rows } => {
            Some(format!("{} {what}: {} to {}", count(*rows, "row"), place(*first), place(*last)))
        }
    }
}

/// `batch_size 32 → 64`.
#[must_use]
pub fn setting(change: &SettingChange) -> String {
    let or_none = |text: &str| if text.is_empty() { "none".to_string() } else { text.to_string() };
    format!("{} {} → {}", change.name, or_none(&change.before), or_none(&change.after))
}

/// What was compared and how much of it changed, in one line.
#[must_use]
pub fn summary(diff: &Diff) -> String {
    let all = &diff.compared;
    let compared = format!("{}, {}, {}", count(all.experiments, "experiment"), count(all.cases, "case"), count(all.rows, "row"));
    if diff.same() {
        return format!("no difference in {compared}");
    }
    let (mut changed, mut gone, mut new, mut other) = (0, 0, 0, 0);
    let mut widest: Option<(i128, String)> = None;
    for experiment in &diff.experiments {
        match &experiment.sides {
            Sides::Before => gone += experiment.cases,
            Sides::After => new += experiment.cases,
            Sides::Both(cases) => {
                for case in cases {
                    match &case.sides {
                        Sides::Before => gone += 1,
                        Sides::After => new += 1,
                        Sides::Both(CaseChange::NotComparable { .. }) => other += 1,
                        Sides::Both(CaseChange::Rows { peak, .. }) => {
                            changed += 1;
                            if let Some(peak) = peak
                                && widest.as_ref().is_none_or(|(bytes, _)| peak.bytes().abs() > bytes.abs())
                            {
                                widest = Some((peak.bytes(), format!("{}: {}", case_name(&experiment.name, &case.label), from_to(*peak))));
                            }
                        }
                    }
                }
            }
        }
    }
    let parts = [(changed, "changed"), (gone, "gone"), (new, "new"), (other, "not comparable")];
    let parts: Vec<_> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", thousands(n as u128))).collect();
    let widest = widest.map_or_else(String::new, |(_, text)| format!("; the peak moved most in {text}"));
    format!("{}: {}{widest}", count(all.cases, "case"), parts.join(", "))
}
