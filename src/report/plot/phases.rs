//! Memory over the phases of one case: categories stacked as columns, peak and reserved as lines above, predictions dashed.
//!
//! A column is a row of the file. Where there are more rows than columns can be told apart, a column is several rows, and shows
//! the highest of each figure.
//! Invariant: the stack of a column is as high as what was allocated; the callout names the row of the case's highest peak.

use std::fmt::Write as _;

use crate::record::{Category, Memory, Status};
use crate::report::read::{Case, Row};
use crate::report::words::{count, place};

use super::chart::{Chart, Frame, Swatch, Width, cross, escape, label, legend, round, strong_width, text_width};
use super::palette::STACK;
use super::scale::ByteAxis;
use super::words;

/// Room above the data for the callout of the peak and the note of a failure.
const HEADROOM: f64 = 52.0;

/// Draws `case`; `heading` is empty where the page says what it is.
#[must_use]
pub fn draw(case: &Case, heading: &str, width: Width) -> Chart {
    let pixels = width.pixels();
    let columns = columns(&case.rows, (pixels / 2.6) as usize);
    let picture = Picture { case, columns: &columns, measured: case.rows.iter().any(|r| r.measured.is_some()) };
    let mut body = String::new();
    let mut top = 8.0;
    if !heading.is_empty() {
        label(&mut body, "head", "start", 16.0, 24.0, heading);
        top = 40.0;
    }
    top = legend(&mut body, 16.0, top, pixels - 32.0, &picture.legend());

    let frame =
        Frame { left: 76.0, top: top + HEADROOM, width: pixels - 76.0 - 20.0, height: if width == Width::Wide { 380.0 } else { 320.0 } };
    let axis = ByteAxis::to(columns.iter().map(Column::highest).max().unwrap_or(0));
    frame.grid(&mut body, &axis);
    picture.stacks(&mut body, &frame, &axis);
    picture.lines(&mut body, &frame, &axis);
    let below = picture.phases(&mut body, &frame);
    picture.steps(&mut body, &frame, below);
    picture.hits(&mut body, &frame);
    picture.callouts(&mut body, &frame, &axis);

    let mut bottom = below + 30.0;
    if let [Column { rows: [_, _, ..] }, ..] = columns[..] {
        let text = format!("each column is {} and shows the highest of each figure", count(columns[0].rows.len(), "row"));
        label(&mut body, "faint", "start", frame.left, bottom + 6.0, &text);
        bottom += 20.0;
    }
    let mut description = format!("Columns of allocated memory by category after each phase; {}", words::attributed(case));
    let agreement = words::agreement(std::iter::once(case));
    if !agreement.is_empty() {
        let _ = write!(description, "; {agreement}");
    }
    Chart { width: pixels, height: bottom, title: format!("Memory over the phases: {heading}"), description, body }
}

/// Rows drawn as one column.
struct Column<'a> {
    rows: &'a [Row],
}

fn columns(rows: &[Row], most: usize) -> Vec<Column<'_>> {
    rows.chunks(rows.len().div_ceil(most).max(1)).map(|rows| Column { rows }).collect()
}

impl<'a> Column<'a> {
    /// The row that is stacked: the one with most allocated.
    fn row(&self) -> &'a Row {
        self.rows.iter().rev().max_by_key(|r| r.memory().allocated).expect("a column has rows")
    }

    fn most(&self, side: fn(&Row) -> Option<Memory>, figure: fn(&Memory) -> u64) -> Option<u64> {
        self.rows.iter().filter_map(side).map(|m| figure(&m)).max()
    }

    fn highest(&self) -> u64 {
        let of = |m: Option<Memory>| m.map_or(0, |m| m.peak.max(m.reserved));
        self.rows.iter().map(|r| of(r.measured).max(of(r.predicted))).max().unwrap_or(0)
    }
}

/// A line over the columns: its class, the side and the figure.
type Line = (&'static str, fn(&Row) -> Option<Memory>, fn(&Memory) -> u64);

struct Picture<'a> {
    case: &'a Case,
    columns: &'a [Column<'a>],
    measured: bool,
}

impl Picture<'_> {
    fn categories(&self) -> impl Iterator<Item = Category> {
        STACK.into_iter().filter(|&c| self.case.rows.iter().any(|r| r.categories.is_some_and(|all| all[c] > 0)))
    }

    fn predicted(&self) -> bool {
        self.case.rows.iter().any(|r| r.predicted.is_some())
    }

    fn legend(&self) -> Vec<(Swatch, String)> {
        let mut entries: Vec<_> = self.categories().map(|c| (Swatch::Area(format!("c-{}", c.name())), c.name().to_string())).collect();
        let side = if self.measured { "" } else { " (predicted)" };
        if entries.is_empty() {
            entries.push((Swatch::Area("c-allocated".to_string()), format!("allocated{side}")));
        }
        entries.push((Swatch::Line("l-peak".to_string()), format!("peak{side}")));
        entries.push((Swatch::Line("l-reserved".to_string()), format!("reserved{side}")));
        if self.measured && self.predicted() {
            entries.push((Swatch::Line("predicted".to_string()), "predicted".to_string()));
        }
        entries
    }

    /// Left edge and width of column `i`, its gap left out.
    fn span(&self, frame: &Frame, i: usize) -> (f64, f64) {
        let pitch = frame.width / self.columns.len() as f64;
        let gap = if pitch >= 6.0 { (pitch * 0.16).min(8.0) } else { 0.0 };
        (frame.left + i as f64 * pitch + gap / 2.0, pitch - gap)
    }

    fn stacks(&self, body: &mut String, frame: &Frame, axis: &ByteAxis) {
        let categories: Vec<Category> = self.categories().collect();
        let mut paths = vec![String::new(); categories.len().max(1)];
        for (i, column) in self.columns.iter().enumerate() {
            let row = column.row();
            if self.measured && row.measured.is_none() {
                continue;
            }
            let (x, width) = self.span(frame, i);
            let mut rectangle = |path: usize, from: u64, to: u64| {
                let (y, bottom) = (frame.y(axis, to), frame.y(axis, from));
                if y < bottom {
                    let _ = write!(paths[path], "M{} {y}h{}V{bottom}h-{}z", round(x), round(width), round(width));
                }
            };
            match row.categories {
                Some(held) => {
                    let mut from = 0;
                    for (path, &category) in categories.iter().enumerate() {
                        rectangle(path, from, from + held[category]);
                        from += held[category];
                    }
                }
                None => rectangle(0, 0, row.memory().allocated),
            }
        }
        for (path, data) in paths.iter().enumerate() {
            let class = categories.get(path).map_or("allocated", |c| c.name());
            let _ = writeln!(body, "<path class=\"c-{class}\" d=\"{data}\"/>");
        }
    }

    fn lines(&self, body: &mut String, frame: &Frame, axis: &ByteAxis) {
        let measured: [Line; 2] = [("l-reserved", |r| r.measured, |m| m.reserved), ("l-peak", |r| r.measured, |m| m.peak)];
        let alone: [Line; 2] = [("l-reserved", |r| r.predicted, |m| m.reserved), ("l-peak", |r| r.predicted, |m| m.peak)];
        let beside: [Line; 3] = [
            ("predicted", |r| r.predicted, |m| m.allocated),
            ("predicted", |r| r.predicted, |m| m.reserved),
            ("predicted", |r| r.predicted, |m| m.peak),
        ];
        let (main, second): (_, &[Line]) = if self.measured { (measured, &beside) } else { (alone, &[]) };
        for &(class, side, figure) in main.iter().chain(second) {
            let mut path = String::new();
            let mut before: Option<f64> = None;
            for (i, column) in self.columns.iter().enumerate() {
                let (x, width) = self.span(frame, i);
                let y = column.most(side, figure).map(|bytes| frame.y(axis, bytes));
                if let Some(y) = y {
                    let _ = match before {
                        Some(before) if before == y => write!(path, "H{}", round(x + width)),
                        Some(_) => write!(path, "L{} {y}h{}", round(x), round(width)),
                        None => write!(path, "M{} {y}h{}", round(x), round(width)),
                    };
                }
                before = y;
            }
            let _ = writeln!(body, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }

    /// The phases' names below the columns, upright where there is room; gives where they end.
    fn phases(&self, body: &mut String, frame: &Frame) -> f64 {
        let pitch = frame.width / self.columns.len() as f64;
        let name = |c: &Column<'_>| c.rows[0].at.phase.name();
        let longest = self.columns.iter().map(|c| text_width(name(c))).fold(0.0, f64::max);
        if self.columns.iter().any(|c| c.rows.len() > 1) || pitch < 13.0 {
            return frame.bottom() + 4.0;
        }
        let upright = longest + 6.0 <= pitch;
        for (i, column) in self.columns.iter().enumerate() {
            let (x, width) = self.span(frame, i);
            let (x, y) = (round(x + width / 2.0), frame.bottom());
            if upright {
                label(body, "", "middle", x, y + 18.0, name(column));
            } else {
                let (x, y) = (round(x + 4.0), y + 12.0);
                let text = escape(name(column));
                let _ = writeln!(
                    body,
                    "<text text-anchor=\"end\" transform=\"translate({x} {y}) rotate(-{})\">{text}</text>",
                    if pitch < 20.0 { 90 } else { 50 }
                );
            }
        }
        frame.bottom() + if upright { 24.0 } else { 14.0 + longest * if pitch < 20.0 { 1.0 } else { 0.77 } }
    }

    /// Steps, or micro-steps where there are several a step: lines between them, and names at round numbers.
    fn steps(&self, body: &mut String, frame: &Frame, top: f64) {
        let micro_steps = self.case.rows.iter().any(|r| r.at.micro_step > 1);
        let key = |r: &Row| (r.at.step, if micro_steps { r.at.micro_step } else { 0 });
        let pitch = frame.width / self.columns.len() as f64;
        let last = self.case.rows.iter().map(|r| r.at.step).max().unwrap_or(0);
        let apart = frame.width / last.max(1) as f64;
        let stride = (0..).flat_map(|p| [1, 2, 5].map(|m| m * 10u64.saturating_pow(p)));
        let widest = strong_width(&format!("step {last}")) + 14.0;
        let stride = stride.into_iter().find(|&s| s as f64 * apart >= widest || s > last).unwrap_or(1);
        let (mut first, mut free) = (0, f64::MIN);
        for group in self.columns.chunk_by(|a, b| key(&a.rows[0]) == key(&b.rows[0])) {
            let (left, right) = (frame.left + first as f64 * pitch, frame.left + (first + group.len()) as f64 * pitch);
            first += group.len();
            if left > frame.left && pitch * group.len() as f64 >= 6.0 {
                let _ = writeln!(body, "<path class=\"between\" d=\"M{} {}V{}\"/>", round(left), frame.top, round(top + 18.0));
            }
            let rows = group.iter().flat_map(|c| c.rows).map(key);
            let text = match rows.into_iter().find(|(step, _)| *step > 0 && step % stride == 0) {
                None => continue,
                Some((step, 0)) => format!("step {step}"),
                Some((step, micro)) => format!("step {step}.{micro}"),
            };
            let (middle, half) = ((left + right) / 2.0, strong_width(&text) / 2.0);
            if middle - half >= free && middle + half <= frame.right() + 16.0 {
                label(body, "faint strong", "middle", middle, top + 14.0, &text);
                free = middle + half + 6.0;
            }
        }
    }

    /// A field over each column that shows its figures, with a script or without.
    fn hits(&self, body: &mut String, frame: &Frame) {
        let pitch = frame.width / self.columns.len() as f64;
        for (i, column) in self.columns.iter().enumerate() {
            let tip = match column.rows {
                [row] => words::tip(row),
                [first, .., last] => {
                    let top = column.rows.iter().rev().max_by_key(|r| r.memory().peak).unwrap_or(first);
                    format!("{} to {}, highest in {}", place(first.at), place(last.at), words::tip(top))
                }
                [] => continue,
            };
            let (x, width, top) = (round(frame.left + i as f64 * pitch), round(pitch), frame.top);
            let _ = writeln!(
                body,
                "<rect class=\"hit\" x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{}\"><title>{}</title></rect>",
                frame.height,
                escape(&tip)
            );
        }
    }

    fn callouts(&self, body: &mut String, frame: &Frame, axis: &ByteAxis) {
        let peak = self.case.peak();
        let column = |row: &Row| self.columns.iter().position(|c| c.rows.iter().any(|r| r.at == row.at)).unwrap_or(0);
        let middle = |column: usize| {
            let (x, width) = self.span(frame, column);
            round(x + width / 2.0)
        };
        let failed = self.case.rows.iter().find(|r| r.status == Status::Oom);
        let (x, y) = (middle(column(peak)), frame.y(axis, peak.memory().peak));
        let _ = writeln!(body, "<path class=\"l-peak\" style=\"stroke-width:1\" d=\"M{x} {}V{y}\"/>", frame.top - HEADROOM + 20.0);
        // One mark where memory ran out at the peak, two where it did not.
        let together = failed.is_some_and(|row| column(row) == column(peak));
        let end = if together { ", then out of memory" } else { "" };
        body.push_str(&if together { cross(x, y) } else { format!("<circle class=\"f-peak\" cx=\"{x}\" cy=\"{y}\" r=\"4.5\"/>\n") });
        let texts = [format!("highest {}{end}", words::attributed(self.case)), format!("highest {}{end}", words::peak(self.case))];
        let text = texts.iter().find(|t| strong_width(t) <= frame.width).unwrap_or(&texts[1]);
        let half = strong_width(text) / 2.0;
        let inside = x.min(frame.right() - half).max(frame.left + half);
        label(body, "t-peak strong", "middle", inside, frame.top - HEADROOM + 15.0, text);
        if let Some(row) = failed.filter(|_| !together) {
            let x = middle(column(row));
            body.push_str(&cross(x, frame.top - 8.0));
            let text = format!("out of memory in {}", place(row.at));
            let right = x + 10.0 + strong_width(&text) <= frame.right();
            let (anchor, x) = if right { ("start", x + 10.0) } else { ("end", x - 10.0) };
            label(body, "t-peak strong", anchor, x, frame.top - 4.0, &text);
        }
    }
}
