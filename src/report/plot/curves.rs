//! Peaks and reserved memory of a sweep along one of its axes, with what GPUs can give as lines across.
//!
//! Invariant: a case that ran out of memory is a cross and on no curve.

use std::fmt::Write as _;

use crate::meta::bytes::format_bytes;

use super::chart::{Chart, Frame, Swatch, Width, cross, escape, fitted, label, legend, ring, round, text_width};
use super::palette::{SERIES, ramp};
use super::scale::{ByteAxis, NumberAxis, number};
use super::sweep::{Curves, High, Limit, Limits, Outcome, tip};

/// Most points of a curve that are marked one by one.
const MARKED: usize = 60;
/// Most curves that a legend names.
const NAMED: usize = 12;

/// Draws `curves`; `heading` is empty where the page says what it is.
#[must_use]
pub fn draw(curves: &Curves<'_>, limits: &Limits, heading: &str, width: Width) -> Chart {
    let pixels = width.pixels();
    let points = || curves.curves.iter().flat_map(|(_, points)| points);
    let highest = points().map(|(_, o)| o.main.top().max(o.predicted.map_or(0, |p| p.top()))).max().unwrap_or(0);
    let drawn = limits.drawn(highest);
    let roomy = points().count() <= MARKED;
    let mut body = String::new();
    let mut top = 8.0;
    if !heading.is_empty() {
        label(&mut body, "head", "start", 16.0, 24.0, &fitted(heading, pixels - 32.0));
        top = 40.0;
    }
    top = legend(&mut body, 16.0, top, pixels - 32.0, &entries(curves, roomy));
    let height = if width == Width::Wide { 400.0 } else { 340.0 };
    let frame = Frame { left: 76.0, top: top + 18.0, width: pixels - 76.0 - 28.0, height };
    let axis = ByteAxis::to(drawn.last().map_or(0, |l| l.bytes).max(highest));
    frame.grid(&mut body, &axis);
    let across = NumberAxis::of(points().map(|(x, _)| *x));
    let inner = Inner { frame, axis, across };
    for value in inner.across.ticks(if width == Width::Wide { 0.055 } else { 0.12 }) {
        let x = inner.x(value);
        let _ = writeln!(body, "<path class=\"axis\" d=\"M{x} {}v5\"/>", frame.bottom());
        label(&mut body, "faint", "middle", x, frame.bottom() + 19.0, &number(value));
    }
    label(&mut body, "strong", "middle", frame.left + frame.width / 2.0, frame.bottom() + 40.0, &fitted(&curves.key, frame.width));
    inner.limits(&mut body, &drawn);
    let beyond = limits.beyond(highest).iter().map(|l| format!("{} {}", l.name, format_bytes(l.bytes))).collect::<Vec<_>>().join(", ");
    if !beyond.is_empty() {
        let text = format!("above: {beyond}");
        label(&mut body, "f-limit", "start", frame.left + 8.0, frame.top - 2.0, &fitted(&text, frame.width - 16.0));
    }
    for (i, (_, points)) in curves.curves.iter().enumerate() {
        let _ = writeln!(body, "<g {}>", colour(i, curves.curves.len()));
        inner.curve(&mut body, points);
        body.push_str("</g>\n");
    }
    for (x, outcome) in points() {
        inner.mark(&mut body, *x, outcome, roomy);
    }
    inner.limit_names(&mut body, &drawn, curves);
    let description = format!(
        "The highest peak and the most reserved of each case along {}; {} at most{}",
        curves.key,
        format_bytes(highest),
        drawn.iter().map(|l| format!("; {} has {}", l.name, format_bytes(l.bytes))).collect::<String>()
    );
    Chart { width: pixels, height: frame.bottom() + 54.0, title: format!("Memory along {}: {heading}", curves.key), description, body }
}

fn entries(curves: &Curves<'_>, roomy: bool) -> Vec<(Swatch, String)> {
    let of = curves.curves.len();
    let mut entries = Vec::new();
    if of > 1 {
        // Of many curves every so-manieth is named: their colours are a scale.
        let every = of.div_ceil(NAMED);
        let named = curves.curves.iter().enumerate().filter(|(i, _)| i % every == 0 || i + 1 == of);
        entries.extend(named.map(|(i, (name, _))| (Swatch::Curve(colour(i, of)), name.clone())));
    }
    let plain = if of > 1 { "class=\"s7\"".to_string() } else { colour(0, 1) };
    let outcomes = || curves.curves.iter().flat_map(|(_, points)| points).map(|(_, o)| o);
    let side = if outcomes().all(|o| o.case.rows.iter().all(|r| r.measured.is_none())) { " (predicted)" } else { "" };
    entries.push((Swatch::Curve(plain.clone()), format!("highest peak{side}")));
    entries.push((Swatch::Curve(format!("{plain} stroke-dasharray=\"7 4\"")), format!("most reserved{side}")));
    if outcomes().any(|o| ringed(o, roomy).is_some()) {
        entries.push((Swatch::Ring, "predicted".to_string()));
    }
    if outcomes().any(|o| o.oom) {
        entries.push((Swatch::Cross, "out of memory".to_string()));
    }
    entries
}

/// The prediction of a case where it is shown: where there is room, or it is off.
fn ringed(outcome: &Outcome<'_>, roomy: bool) -> Option<High> {
    outcome.predicted.filter(|p| roomy && !outcome.oom || *p != outcome.main)
}

/// The attributes of a curve's group.
fn colour(i: usize, of: usize) -> String {
    if of <= SERIES { format!("class=\"s{i}\"") } else { format!("stroke=\"{0}\" fill=\"{0}\"", ramp(i, of)) }
}

fn reserved(high: &High) -> u64 {
    high.reserved
}

fn peak(high: &High) -> u64 {
    high.peak
}

/// Where points stand.
struct Inner {
    frame: Frame,
    axis: ByteAxis,
    across: NumberAxis,
}

impl Inner {
    /// Across, a little inside the frame: the first and last points are not on its edges.
    fn x(&self, value: f64) -> f64 {
        round(self.frame.left + 14.0 + self.across.place(value) * (self.frame.width - 28.0))
    }

    fn y(&self, bytes: u64) -> f64 {
        self.frame.y(&self.axis, bytes)
    }

    fn curve(&self, body: &mut String, points: &[(f64, &Outcome<'_>)]) {
        let held = || points.iter().filter(|(_, o)| !o.oom);
        for (class, figure) in [("curve reserved", reserved as fn(&High) -> u64), ("curve", peak)] {
            let mut path = String::new();
            for (x, outcome) in held() {
                let verb = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{verb}{} {}", self.x(*x), self.y(figure(&outcome.main)));
            }
            if !path.is_empty() {
                let _ = writeln!(body, "<path class=\"{class}\" d=\"{path}\"/>");
            }
        }
        if points.len() <= MARKED {
            for (x, outcome) in held() {
                let (x, y) = (self.x(*x), self.y(outcome.main.peak));
                let _ = writeln!(body, "<circle class=\"dot\" stroke=\"none\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>");
            }
        }
    }

    /// What is not on the curve of a case: its prediction, its failure, and the field for its tooltip.
    fn mark(&self, body: &mut String, x: f64, outcome: &Outcome<'_>, roomy: bool) {
        let (x, y) = (self.x(x), self.y(outcome.main.peak));
        if let Some(predicted) = ringed(outcome, roomy) {
            for bytes in [predicted.peak, predicted.reserved] {
                body.push_str(&ring(x, self.y(bytes)));
            }
        }
        if outcome.oom {
            body.push_str(&cross(x, y));
        }
        let title = escape(&tip(outcome)).into_owned();
        let _ = writeln!(body, "<circle class=\"hit\" cx=\"{x}\" cy=\"{y}\" r=\"9\"><title>{title}</title></circle>");
    }

    fn limits(&self, body: &mut String, limits: &[&Limit]) {
        for limit in limits {
            let y = self.y(limit.bytes);
            let _ = writeln!(body, "<path class=\"limit\" d=\"M{} {y}H{}\"/>", self.frame.left, self.frame.right());
        }
    }

    /// The limits' names above their lines, where the fewest curves run.
    fn limit_names(&self, body: &mut String, limits: &[&Limit], curves: &Curves<'_>) {
        let frame = &self.frame;
        // Lines nearer to each other than a line of text share a label.
        let mut groups: Vec<(f64, Vec<&Limit>)> = Vec::new();
        for &limit in limits {
            let y = self.y(limit.bytes);
            match groups.last_mut() {
                Some((last, group)) if *last - y < 18.0 => {
                    *last = y;
                    group.push(limit);
                }
                _ => groups.push((y, vec![limit])),
            }
        }
        let taken = self.taken(curves);
        for (y, group) in groups {
            let text = group.iter().map(|l| format!("{} {}", l.name, format_bytes(l.bytes))).collect::<Vec<_>>().join(", ");
            let text = fitted(&text, frame.width - 16.0);
            let width = text_width(&text);
            let (left, right) = (frame.left + 8.0, frame.right() - width - 8.0);
            let near =
                |x: f64| taken.iter().filter(|(a, b)| (x - 8.0..x + width + 8.0).contains(a) && (y - 24.0..y + 6.0).contains(b)).count();
            let x = (0..=16).map(|i| left + (right - left) * f64::from(i) / 16.0).min_by_key(|&x| near(x)).unwrap_or(left);
            label(body, "f-limit", "start", x, y - 6.0, &text);
        }
    }

    /// Where curves and marks are, a point every few pixels.
    fn taken(&self, curves: &Curves<'_>) -> Vec<(f64, f64)> {
        let mut taken = Vec::new();
        for figure in [reserved, peak] {
            for (_, points) in &curves.curves {
                let at = |(x, o): &(f64, &Outcome<'_>)| (self.x(*x), self.y(figure(&o.main)));
                taken.extend(points.iter().map(at));
                for pair in points.windows(2) {
                    let ((x, y), (to_x, to_y)) = (at(&pair[0]), at(&pair[1]));
                    let parts = ((to_x - x) / 6.0) as usize;
                    taken.extend((1..parts).map(|i| i as f64 / parts as f64).map(|t| (x + (to_x - x) * t, y + (to_y - y) * t)));
                }
            }
        }
        taken
    }
}
