//! A sweep as pictures need it: each case by its highest figures, and the axis to draw them along.
//!
//! Invariant: of a case that ran out of memory no figure counts as what it needs; it needs more.

use crate::meta::bytes::format_bytes;
use crate::record::{Memory, Status};
use crate::report::point::Point;
use crate::report::read::{Case, Row};

/// The most that a GPU can give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What it is called.
    pub name: String,
    /// All of its memory, in bytes.
    pub bytes: u64,
}

/// Limits, and what to do with those far above the data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// The limits, in any order.
    pub all: Vec<Limit>,
    /// Whether somebody asked for these: then all are shown or spoken of, else only those among the data.
    pub asked: bool,
}

impl Limits {
    /// Those to draw where the data reach up to `highest`, ascending.
    #[must_use]
    pub fn drawn(&self, highest: u64) -> Vec<&Limit> {
        let far = if self.asked { highest.saturating_mul(5) / 2 } else { highest };
        let mut near: Vec<&Limit> = self.all.iter().filter(|l| l.bytes <= far).collect();
        near.sort_by_key(|l| (l.bytes, l.name.clone()));
        near
    }

    /// Those that were asked for and lie too far above the data to be drawn.
    #[must_use]
    pub fn beyond(&self, highest: u64) -> Vec<&Limit> {
        let mut far: Vec<&Limit> = self.all.iter().filter(|l| self.asked && l.bytes > highest.saturating_mul(5) / 2).collect();
        far.sort_by_key(|l| (l.bytes, l.name.clone()));
        far
    }
}

/// The highest figures over a case's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct High {
    /// The highest peak.
    pub peak: u64,
    /// The most reserved.
    pub reserved: u64,
}

impl High {
    fn of(case: &Case, side: fn(&Row) -> Option<Memory>) -> Option<Self> {
        let memory = || case.rows.iter().filter_map(side);
        Some(Self { peak: memory().map(|m| m.peak).max()?, reserved: memory().map(|m| m.reserved).max()? })
    }

    /// The larger of the two.
    #[must_use]
    pub fn top(self) -> u64 {
        self.peak.max(self.reserved)
    }
}

/// A case in short.
#[derive(Debug, Clone)]
pub struct Outcome<'a> {
    /// The case.
    pub case: &'a Case,
    /// Its place in the sweep.
    pub point: Point,
    /// As measured, or as predicted where nothing was measured.
    pub main: High,
    /// As predicted, beside a measurement.
    pub predicted: Option<High>,
    /// Whether it ran out of memory.
    pub oom: bool,
}

impl<'a> Outcome<'a> {
    /// `case` in short.
    #[must_use]
    pub fn of(case: &'a Case) -> Self {
        let measured = High::of(case, |r| r.measured);
        let predicted = High::of(case, |r| r.predicted);
        let main = measured.or(predicted).expect("a case was read with at least one side");
        let predicted = measured.and(predicted);
        Self { case, point: Point::of(&case.label), main, predicted, oom: case.end() == Status::Oom }
    }

    /// The sweep point in few words: values alone along one axis, else without the tables of their keys.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.point.keys[..], &self.point.values[..]) {
            ([], _) => "the one case".to_string(),
            ([_], [value]) => value.clone(),
            (keys, values) => keys.iter().zip(values).map(|(k, v)| format!("{}={v}", last_word(k))).collect::<Vec<_>>().join(" "),
        }
    }
}

/// A key without the tables it stands in, where a picture has no room for them: `train.dtype` → `dtype`.
fn last_word(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Curves along one axis of numbers.
#[derive(Debug, Clone)]
pub struct Curves<'a> {
    /// The axis' key.
    pub key: String,
    /// The curves, in the order in which they first come, each ascending along the axis: its name and its cases.
    pub curves: Vec<(String, Vec<(f64, &'a Outcome<'a>)>)>,
}

/// Puts `outcomes` along the axis `asked`, or the axis of numbers with most values; `None` where there is no such axis.
#[must_use]
pub fn curves<'a>(outcomes: &'a [Outcome<'a>], asked: Option<&str>) -> Option<Curves<'a>> {
    let keys = &outcomes.first()?.point.keys;
    if outcomes.iter().any(|o| o.point.keys != *keys) {
        return None;
    }
    let number = |o: &Outcome<'_>, axis: usize| o.point.values[axis].parse::<f64>().ok().filter(|v| v.is_finite());
    let distinct = |axis: usize| {
        let mut values = outcomes.iter().map(|o| number(o, axis)).collect::<Option<Vec<f64>>>()?;
        values.sort_by(f64::total_cmp);
        values.dedup();
        (values.len() > 1).then_some(values.len())
    };
    let axis = match asked {
        Some(key) => keys.iter().position(|k| k == key).filter(|&axis| distinct(axis).is_some())?,
        None => (0..keys.len()).rev().filter_map(|axis| Some((distinct(axis)?, axis))).max_by_key(|(n, _)| *n)?.1,
    };
    let mut curves: Vec<(String, Vec<(f64, &Outcome<'_>)>)> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for outcome in outcomes {
        let others = keys.iter().zip(&outcome.point.values).enumerate().filter(|(i, _)| *i != axis);
        let name = others.map(|(_, (k, v))| format!("{}={v}", last_word(k))).collect::<Vec<_>>().join(" ");
        let place = *known.entry(name.clone()).or_insert(curves.len());
        if place == curves.len() {
            curves.push((name, Vec::new()));
        }
        curves[place].1.push((number(outcome, axis)?, outcome));
    }
    for (_, points) in &mut curves {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Some(Curves { key: keys[axis].clone(), curves })
}

/// A case's highest figures, a line each, for a tooltip.
#[must_use]
pub fn tip(outcome: &Outcome<'_>) -> String {
    let peak = outcome.case.peak();
    let mut lines = vec![outcome.case.label.clone()];
    if outcome.oom {
        lines[0].push_str(", out of memory");
    }
    for (name, main, predicted) in [
        ("highest peak", outcome.main.peak, outcome.predicted.map(|p| p.peak)),
        ("most reserved", outcome.main.reserved, outcome.predicted.map(|p| p.reserved)),
    ] {
        let predicted = match predicted {
            Some(p) if p == main => ", as predicted".to_string(),
            Some(p) => format!(", predicted {}", format_bytes(p)),
            None if peak.measured.is_none() => ", predicted".to_string(),
            None => String::new(),
        };
        lines.push(format!("{name}: {}{predicted}", super::words::exact(main)));
    }
    lines.push(format!("highest in: {}", crate::report::words::place(peak.at)));
    lines.extend(
        super::words::largest(outcome.case).map(|(c, bytes, when)| format!("mostly: {} ({} {when})", c.name(), format_bytes(bytes))),
    );
    lines.join("\n")
}

/// Which of a curve's cases each limit holds, in words: `rtx3090 (23.69 GiB): up to batch_size 2048`.
#[must_use]
pub fn fits(curves: &Curves<'_>, limit: &Limit) -> Vec<String> {
    let key = last_word(&curves.key);
    let within = |o: &Outcome<'_>| !o.oom && o.main.reserved <= limit.bytes;
    let held = |points: &[(f64, &Outcome<'_>)]| {
        // Up to the first that does not fit: above it nothing counts, even where it fits again.
        let held = points.iter().take_while(|(_, o)| within(o)).count();
        match held.checked_sub(1).map(|last| points[last].0) {
            None => "none".to_string(),
            Some(_) if held == points.len() => "all".to_string(),
            Some(value) => format!("up to {key} {}", super::scale::number(value)),
        }
    };
    let all: Vec<(&str, String)> = curves.curves.iter().map(|(name, points)| (name.as_str(), held(points))).collect();
    match all.split_first() {
        Some(((_, first), rest)) if rest.iter().all(|(_, other)| other == first) => vec![first.clone()],
        _ => all.into_iter().map(|(name, text)| format!("{name}: {text}")).collect(),
    }
}
