//! Cases that lie along no axis of numbers: a bar each, as long as its highest peak, with what was reserved and what GPUs can give.
//!
//! Invariant: cases stand in the file's order, from top to bottom.

use std::fmt::Write as _;

use crate::meta::bytes::format_bytes;

use super::chart::{Chart, Frame, Swatch, Width, cross, escape, fitted, label, legend, ring, round, text_width};
use super::scale::{ByteAxis, tick};
use super::sweep::{Limits, Outcome, tip};

/// Pixels from one case to the next.
const PITCH: f64 = 24.0;

/// Draws `outcomes`; `heading` is empty where the page says what it is.
#[must_use]
pub fn draw(outcomes: &[Outcome<'_>], limits: &Limits, heading: &str, width: Width) -> Chart {
    let pixels = width.pixels();
    let highest = outcomes.iter().map(|o| o.main.top().max(o.predicted.map_or(0, |p| p.top()))).max().unwrap_or(0);
    let drawn = limits.drawn(highest);
    let mut body = String::new();
    let mut top = 8.0;
    if !heading.is_empty() {
        label(&mut body, "head", "start", 16.0, 24.0, &fitted(heading, pixels - 32.0));
        top = 40.0;
    }
    top = legend(&mut body, 16.0, top, pixels - 32.0, &entries(outcomes));
    let longest = outcomes.iter().map(|o| text_width(&o.name())).fold(0.0, f64::max);
    let names = longest.min(pixels * 0.4) + 24.0;
    let limits_above = drawn.len() as f64 * 16.0;
    let figures = 116.0;
    let frame =
        Frame { left: names, top: top + 10.0 + limits_above, width: pixels - names - figures, height: outcomes.len() as f64 * PITCH };
    let axis = ByteAxis::to(drawn.last().map_or(0, |l| l.bytes).max(highest));
    let along = |bytes: u64| round(frame.left + bytes as f64 / axis.top as f64 * frame.width);
    let widest = axis.ticks().map(|b| text_width(&tick(b))).fold(0.0, f64::max) + 12.0;
    let every = (widest / (frame.width * axis.step as f64 / axis.top as f64)).ceil().max(1.0) as usize;
    for (i, bytes) in axis.ticks().enumerate() {
        let x = along(bytes);
        let _ =
            writeln!(body, "<path class=\"{}\" d=\"M{x} {}V{}\"/>", if bytes == 0 { "axis" } else { "grid" }, frame.top, frame.bottom());
        if i % every == 0 {
            label(&mut body, "faint", "middle", x, frame.bottom() + 17.0, &tick(bytes));
        }
    }
    label(&mut body, "faint", "end", pixels - 16.0, frame.bottom() + 17.0, "peak");
    for (i, limit) in drawn.iter().enumerate() {
        let (x, y) = (along(limit.bytes), frame.top - limits_above + i as f64 * 16.0);
        let _ = writeln!(body, "<path class=\"limit\" d=\"M{x} {}V{}\"/>", round(y), frame.bottom());
        let text = format!("{} {}", limit.name, format_bytes(limit.bytes));
        let left = x - text_width(&text) - 6.0 > 16.0;
        let (anchor, x) = if left { ("end", x - 6.0) } else { ("start", x + 6.0) };
        label(&mut body, "f-limit", anchor, x, y + 8.0, &text);
    }
    for (i, outcome) in outcomes.iter().enumerate() {
        let middle = frame.top + (i as f64 + 0.5) * PITCH;
        label(&mut body, "", "end", frame.left - 10.0, middle + 4.0, &fitted(&outcome.name(), names - 24.0));
        let (peak, reserved) = (along(outcome.main.peak), along(outcome.main.reserved));
        let (y, long) = (round(middle - 7.0), round(peak - frame.left));
        let _ =
            writeln!(body, "<rect class=\"c-allocated\" x=\"{}\" y=\"{y}\" width=\"{long}\" height=\"14\" rx=\"2\"/>", round(frame.left));
        let _ = writeln!(body, "<path class=\"l-reserved\" d=\"M{reserved} {}v18\"/>", round(middle - 9.0));
        if let Some(predicted) = outcome.predicted {
            body.push_str(&ring(along(predicted.peak), middle));
        }
        if outcome.oom {
            body.push_str(&cross(peak, middle));
        }
        label(&mut body, "", "end", pixels - 16.0, middle + 4.0, &format_bytes(outcome.main.peak));
        let _ = writeln!(
            body,
            "<rect class=\"hit\" x=\"0\" y=\"{}\" width=\"{pixels}\" height=\"{PITCH}\"><title>{}</title></rect>",
            round(middle - PITCH / 2.0),
            escape(&tip(outcome))
        );
    }
    let description = format!("A bar for each of {} cases; the highest peak is {}", outcomes.len(), format_bytes(highest));
    Chart { width: pixels, height: frame.bottom() + 30.0, title: format!("Memory of each case: {heading}"), description, body }
}

fn entries(outcomes: &[Outcome<'_>]) -> Vec<(Swatch, String)> {
    let mut entries = vec![
        (Swatch::Area("c-allocated".to_string()), "highest peak".to_string()),
        (Swatch::Line("l-reserved".to_string()), "most reserved".to_string()),
    ];
    if outcomes.iter().any(|o| o.predicted.is_some()) {
        entries.push((Swatch::Ring, "predicted peak".to_string()));
    }
    if outcomes.iter().any(|o| o.oom) {
        entries.push((Swatch::Cross, "out of memory".to_string()));
    }
    entries
}
