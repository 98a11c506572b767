//! A comparison for a program: every change there is, nothing folded, bytes as integers.
//!
//! Keys are the CSV's column names where there is one. `version` grows when a reader would have to change.
//! Invariant: `same` is true exactly if `experiments` is empty.

use serde_json::{Map, Value, json};

use super::compare::{CaseChange, CaseDiff, Change, Diff, Figure, Figures, RowDiff, Side, Sides};
use super::threshold::{Threshold, Verdict};

/// The whole comparison, with what thresholds say where there are any.
#[must_use]
pub fn render(diff: &Diff, verdict: &Verdict<'_>, thresholds: &[Threshold]) -> String {
    let compared = json!({
        "experiments": diff.compared.experiments,
        "cases": diff.compared.cases,
        "rows": diff.compared.rows,
    });
    let mut all = json!({
        "version": 1,
        "before": diff.before,
        "after": diff.after,
        "same": diff.same(),
        "compared": compared,
        "notes": diff.notes,
        "experiments": diff.experiments.iter().map(|e| {
            let side = if e.side == Side::Measured { "measured" } else { "predicted" };
            match &e.sides {
                Sides::Before => json!({ "experiment": e.name, "change": "gone", "cases": e.cases }),
                Sides::After => json!({ "experiment": e.name, "change": "new", "cases": e.cases }),
                Sides::Both(cases) => json!({
                    "experiment": e.name,
                    "change": "changed",
                    "peak_of": side,
                    "cases": cases.iter().map(case).collect::<Vec<_>>(),
                }),
            }
        }).collect::<Vec<_>>(),
    });
    if !thresholds.is_empty() {
        let over = verdict.over.iter().map(|o| {
            let mut row = json!({
                "threshold": o.threshold.text(),
                "experiment": o.experiment,
                "case": o.case,
                "step": o.at.step,
                "micro_step": o.at.micro_step,
                "phase": o.at.phase.name(),
            });
            row[o.threshold.figure.name()] = change(o.change);
            row
        });
        all["fail_on"] = json!({
            "thresholds": thresholds.iter().map(Threshold::text).collect::<Vec<_>>(),
            "passes": verdict.passes(),
            "over": over.collect::<Vec<_>>(),
            "unchecked": verdict.unchecked,
        });
    }
    let mut text = serde_json::to_string_pretty(&all).expect("strings and integers become JSON");
    text.push('\n');
    text
}

fn case(case: &CaseDiff) -> Value {
    match &case.sides {
        Sides::Before => json!({ "case": case.label, "change": "gone" }),
        Sides::After => json!({ "case": case.label, "change": "new" }),
        Sides::Both(CaseChange::NotComparable { settings, peak: (before, after) }) => {
            let settings: Map<_, _> =
                settings.iter().map(|s| (s.name.to_string(), json!({ "before": s.before, "after": s.after }))).collect();
            json!({ "case": case.label, "change": "not comparable", "settings": settings, "peaks": { "before": before, "after": after } })
        }
        Sides::Both(CaseChange::Rows { peak, end, rows }) => json!({
            "case": case.label,
            "change": "changed",
            "peak": peak.map_or(Value::Null, change),
            "end": end.map_or(Value::Null, |(before, after)| json!({ "before": before.name(), "after": after.name() })),
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        }),
    }
}

fn row(row: &RowDiff) -> Value {
    let mut value = json!({ "step": row.at.step, "micro_step": row.at.micro_step, "phase": row.at.phase.name() });
    value["change"] = match &row.sides {
        Sides::Before => "gone".into(),
        Sides::After => "new".into(),
        Sides::Both(changed) => {
            for (name, side) in [("measured", &changed.measured), ("predicted", &changed.predicted)] {
                if let Some(side) = side {
                    value[name] = figures(side);
                }
            }
            if !changed.categories.is_empty() {
                value["categories"] =
                    changed.categories.iter().map(|(c, ch)| (c.name().to_string(), change(*ch))).collect::<Map<_, _>>().into();
            }
            if let Some((before, after)) = changed.status {
                value["status"] = json!({ "before": before.name(), "after": after.name() });
            }
            "changed".into()
        }
    };
    value
}

fn figures(side: &Sides<Figures>) -> Value {
    match side {
        Sides::Before => "gone".into(),
        Sides::After => "new".into(),
        Sides::Both(figures) => {
            let changes = Figure::ALL.into_iter().filter_map(|f| Some((f.name().to_string(), change(figures.get(f)?))));
            changes.collect::<Map<_, _>>().into()
        }
    }
}

fn change(change: Change) -> Value {
    let percent = change.percent().map(|p| (p * 1e4).round() / 1e4);
    json!({ "before": change.before, "after": change.after, "bytes": i64::try_from(change.bytes()).expect("figures are read as 63 bits"), "percent": percent })
}
