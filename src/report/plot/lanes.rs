//! What a measured run did with its time: lanes of preparing, waiting and training for some micro-steps of it, so that gaps are seen, and
//! under them how busy the device was, and what memory held, over the whole run.
//!
//! Invariant: lengths are the file's own times. Where in a micro-step the loop waited, the file does not tell: before its work, or after it
//! where the device had begun by then.

use std::fmt::Write as _;

use crate::meta::bytes::format_bytes;
use crate::record::MicroStep;
use crate::report::number::thousands;
use crate::report::pace::busy_share;

use super::chart::{Chart, Frame, Swatch, Width, escape, fitted, label, legend, round};
use super::scale::{ByteAxis, NumberAxis, number};

/// Pixels from one lane to the next.
const PITCH: f64 = 26.0;
/// Batches that are prepared at a time have a lane each, up to this many.
const PREPARING: usize = 4;

/// What a stretch of a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Preparing,
    Waiting,
    Copying,
    Logging,
    Saving,
    Training,
}

impl Work {
    const ALL: [Self; 6] = [Self::Preparing, Self::Waiting, Self::Copying, Self::Logging, Self::Saving, Self::Training];

    const fn class(self) -> &'static str {
        match self {
            Self::Preparing => "c-inputs",
            Self::Waiting => "c-workspace",
            Self::Copying => "c-optimizer_state",
            Self::Logging => "c-gradients",
            Self::Saving => "c-other",
            Self::Training => "c-activations",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Preparing => "preparing a batch",
            Self::Waiting => "waiting for a batch",
            Self::Copying => "copying to the device",
            Self::Logging => "reading the loss",
            Self::Saving => "saving",
            Self::Training => "device busy",
        }
    }
}

/// A stretch of a lane, in seconds.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    work: Work,
    from: f64,
    to: f64,
}

/// Draws the micro-steps of a case; `heading` is empty where the page says what it is.
#[must_use]
pub fn draw(steps: &[MicroStep], heading: &str, width: Width) -> Chart {
    let pixels = width.pixels();
    let mut body = String::new();
    let mut top = 8.0;
    if !heading.is_empty() {
        label(&mut body, "head", "start", 16.0, 24.0, &fitted(heading, pixels - 32.0));
        top = 40.0;
    }
    let shown = window(steps, if width == Width::Wide { 24 } else { 12 });
    let lanes = lanes(shown);
    let used = |work: Work| lanes.iter().flat_map(|(_, all)| all).any(|s| s.work == work);
    let mut entries: Vec<(Swatch, String)> = Work::ALL
        .into_iter()
        .filter(|&work| used(work) || work == Work::Training)
        .map(|work| (Swatch::Area(work.class().to_owned()), work.name().to_owned()))
        .collect();
    if steps.iter().any(|m| m.load.utilisation.is_some()) {
        entries.push((Swatch::Curve("class=\"s0\"".to_owned()), "NVML's utilisation".to_owned()));
    }
    if steps.iter().any(|m| m.load.cpu.is_some()) {
        entries.push((Swatch::Curve("class=\"s1\"".to_owned()), "processor, of one core".to_owned()));
    }
    top = legend(&mut body, 16.0, top, pixels - 32.0, &entries);
    let frame = |top: f64, height: f64| Frame { left: 76.0, top, width: pixels - 96.0, height };

    let first = frame(top + 24.0, lanes.len() as f64 * PITCH);
    draw_lanes(&mut body, &first, shown, &lanes);
    let whole = Run::of(steps, &frame(first.bottom() + 68.0, 120.0));
    whole.utilisation(&mut body);
    let mut bottom = whole.frame.bottom();
    let memory = Frame { top: bottom + 68.0, ..whole.frame };
    if whole.memory(&mut body, &memory) {
        bottom = memory.bottom();
    }
    let description = format!("Lanes of {} of {} micro-steps; {}", shown.len(), steps.len(), sentences(steps).join("; "));
    Chart { width: pixels, height: bottom + 40.0, title: format!("What the time went to: {heading}"), description, body }
}

/// What there is to say, in sentences without their capitals and stops. The first micro-step, which pays for what is made once, is left
/// out.
#[must_use]
pub fn sentences(steps: &[MicroStep]) -> Vec<String> {
    let rest = if steps.len() > 1 { &steps[1..] } else { steps };
    let sum = |of: fn(&MicroStep) -> f64| rest.iter().map(of).sum::<f64>();
    let whole = sum(|m| m.seconds);
    if whole <= 0.0 {
        return Vec::new();
    }
    let percent = |part: f64| format!("{:.0} %", 100.0 * part / whole);
    let parts: [(&str, f64); 4] = [
        ("waiting for batches", sum(|m| m.times.waiting)),
        ("copying them", sum(|m| m.times.copying)),
        ("reading and telling losses", sum(|m| m.times.logging)),
        ("saving", sum(|m| m.times.saving)),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(_, part)| *part >= 0.005 * whole).map(|(name, part)| format!("{} {name}", percent(*part))).collect();
    let busy = format!("device busy {:.0} % of the time", 100.0 * busy_share(rest));
    let rate = rest.len() as f64 / whole;
    let digits = if rate < 100.0 { 10.0 } else { 1.0 };
    let rate = format!("{} micro-steps a second", number((rate * digits).round() / digits));
    let loop_ = if parts.is_empty() { None } else { Some(format!("the loop spent {}", parts.join(", "))) };
    [Some(busy), loop_, Some(rate)].into_iter().flatten().collect()
}

/// Consecutive micro-steps, at most that many, as near to the middle of a run as all of them were measured; the first is not among them
/// where there are others.
fn window(steps: &[MicroStep], most: usize) -> &[MicroStep] {
    let rest = steps.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(steps);
    let count = rest.len().min(most);
    let middle = (rest.len() - count) / 2;
    let measured = |part: &[MicroStep]| part.iter().all(|m| m.times.computing.is_some());
    let all = rest.windows(count.max(1)).enumerate().filter(|(_, part)| measured(part));
    let from = all.map(|(from, _)| from).min_by_key(|from| from.abs_diff(middle)).unwrap_or(middle);
    &rest[from..from + count]
}

/// When a micro-step was over, for the program and for the device.
fn end(m: &MicroStep) -> f64 {
    m.times.computing.map_or(0.0, |(_, to)| to).max(m.times.began + m.seconds)
}

/// The lanes from top to bottom, each with its name.
fn lanes(steps: &[MicroStep]) -> Vec<(String, Vec<Stretch>)> {
    let mut preparing: Vec<Vec<Stretch>> = Vec::new();
    for (from, to) in steps.iter().filter_map(|m| m.times.prepared) {
        let stretch = Stretch { work: Work::Preparing, from, to };
        let free = |lane: &Vec<Stretch>| lane.last().is_none_or(|last| last.to <= from);
        match preparing.iter().position(free) {
            Some(lane) => preparing[lane].push(stretch),
            None if preparing.len() < PREPARING => preparing.push(vec![stretch]),
            None => {}
        }
    }
    let mut all: Vec<(String, Vec<Stretch>)> =
        preparing.into_iter().enumerate().map(|(i, lane)| (if i == 0 { "prepare".to_owned() } else { String::new() }, lane)).collect();
    all.push(("loop".to_owned(), steps.iter().flat_map(of_loop).collect()));
    let training = |(from, to)| Stretch { work: Work::Training, from, to };
    all.push(("train".to_owned(), steps.iter().filter_map(|m| m.times.computing).map(training).collect()));
    all
}

/// What the loop spent a micro-step on besides its work.
fn of_loop(m: &MicroStep) -> Vec<Stretch> {
    let times = &m.times;
    let end = times.began + m.seconds;
    let ahead = times.computing.is_some_and(|(from, _)| from < times.began + times.waiting);
    let told = end - times.saving - times.logging;
    let start = if ahead { told - times.waiting - times.copying } else { times.began };
    let mut at = start;
    let mut all = Vec::new();
    let mut next = |at: &mut f64, work: Work, seconds: f64| {
        if seconds > 0.0 {
            all.push(Stretch { work, from: *at, to: *at + seconds });
            *at += seconds;
        }
    };
    next(&mut at, Work::Waiting, times.waiting);
    next(&mut at, Work::Copying, times.copying);
    at = told;
    next(&mut at, Work::Logging, times.logging);
    next(&mut at, Work::Saving, times.saving);
    all
}

fn draw_lanes(body: &mut String, frame: &Frame, steps: &[MicroStep], lanes: &[(String, Vec<Stretch>)]) {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return };
    let from = first.times.computing.map_or(first.times.began, |(from, _)| from.min(first.times.began));
    let to = end(last);
    let span = (to - from).max(1e-9);
    let x = |seconds: f64| round(frame.left + ((seconds - from) / span).clamp(0.0, 1.0) * frame.width);
    let words = format!("micro-steps {} to {}", name(first), name(last));
    label(body, "strong", "start", frame.left, frame.top - 8.0, &words);
    // Under what is drawn of them, which may be no wider than these.
    for m in steps {
        let _ = writeln!(body, "<path class=\"between\" d=\"M{} {}V{}\"/>", x(m.times.began), frame.top, frame.bottom());
    }
    for (i, (name, stretches)) in lanes.iter().enumerate() {
        let y = frame.top + i as f64 * PITCH;
        label(body, "faint", "end", frame.left - 8.0, y + PITCH / 2.0 + 4.0, name);
        let _ = writeln!(body, "<path class=\"grid\" d=\"M{} {}H{}\"/>", frame.left, round(y + PITCH), frame.right());
        for stretch in stretches.iter().filter(|s| s.to > from && s.from < to) {
            let (left, right) = (x(stretch.from), x(stretch.to));
            // What is shorter than a pixel can be seen is seen as one.
            let wide = round((right - left).max(0.6));
            let class = stretch.work.class();
            let _ = writeln!(body, "<rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{wide}\" height=\"{}\"/>", y + 5.0, PITCH - 8.0);
        }
    }
    times(body, frame, span, "time");
    for (m, next) in steps.iter().zip(steps.iter().skip(1).map(|m| m.times.began).chain([to])) {
        let (left, right) = (x(m.times.began), x(next));
        let _ = writeln!(
            body,
            "<rect class=\"hit\" x=\"{left}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            frame.top,
            round((right - left).max(0.0)),
            frame.height,
            escape(&tip(m))
        );
    }
}

/// `12`, or `12.3` for the third micro-step of step 12.
fn name(m: &MicroStep) -> String {
    if m.micro_step > 1 { format!("{}.{}", m.step, m.micro_step) } else { m.step.to_string() }
}

/// A micro-step's figures, a line each.
fn tip(m: &MicroStep) -> String {
    let milliseconds = |seconds: f64| format!("{} ms", number((seconds * 1e6).round() / 1e3));
    let mut lines = vec![format!("step {}", name(m)), format!("whole: {}", milliseconds(m.seconds))];
    for (what, seconds) in [
        ("device busy", m.times.busy().unwrap_or_default()),
        ("waiting", m.times.waiting),
        ("preparing, all workers", m.times.preparing),
        ("copying", m.times.copying),
        ("reading the loss", m.times.logging),
        ("saving", m.times.saving),
    ] {
        if seconds > 0.0 {
            lines.push(format!("{what}: {}", milliseconds(seconds)));
        }
    }
    lines.extend(loads(m));
    lines.join("\n")
}

fn loads(m: &MicroStep) -> Vec<String> {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    [
        m.load.utilisation.map(|share| format!("NVML's utilisation: {}", percent(share))),
        m.load.memory.map(|bytes| format!("memory: {} B ({})", thousands(u128::from(bytes)), format_bytes(bytes))),
        m.load.power.map(|watts| format!("power: {watts:.0} W")),
        m.load.cpu.map(|share| format!("processor, of one core: {}", percent(share))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Ticks of time below a frame whose width is `span` seconds.
fn times(body: &mut String, frame: &Frame, span: f64, what: &str) {
    let (unit, factor) = if span < 2.0 { ("ms", 1e3) } else { ("s", 1.0) };
    let axis = NumberAxis::of((0..=100).map(|i| span * factor * f64::from(i) / 100.0));
    let gap = 72.0 / frame.width;
    for tick in axis.ticks(gap) {
        let x = round(frame.left + axis.place(tick) * frame.width);
        let _ = writeln!(body, "<path class=\"axis\" d=\"M{x} {}v5\"/>", frame.bottom());
        label(body, "faint", "middle", x, frame.bottom() + 18.0, &number(tick));
    }
    label(body, "faint", "end", frame.right(), frame.bottom() + 34.0, &format!("{what}, {unit}"));
}

/// The whole run, cut into stretches of equal time.
struct Run<'a> {
    steps: &'a [MicroStep],
    frame: Frame,
    span: f64,
    /// The share of each stretch in which the device was busy.
    busy: Vec<f64>,
}

impl<'a> Run<'a> {
    fn of(steps: &'a [MicroStep], frame: &Frame) -> Self {
        let span = steps.iter().map(end).fold(1e-9, f64::max);
        let count = (frame.width / 6.0) as usize;
        let each = span / count as f64;
        let bins = |from: f64, to: f64, sums: &mut [f64]| {
            let last = ((to / each) as usize).min(count - 1);
            for (i, sum) in sums.iter_mut().enumerate().take(last + 1).skip((from / each) as usize) {
                let (start, end) = (i as f64 * each, (i + 1) as f64 * each);
                *sum += (to.min(end) - from.max(start)).max(0.0);
            }
        };
        // Of each stretch: how long the device computed, and how much of it belongs to micro-steps of which that was not measured.
        let (mut busy, mut unknown) = (vec![0.0; count], vec![0.0; count]);
        for (m, next) in steps.iter().zip(steps.iter().skip(1).map(|m| m.times.began).chain([span])) {
            match m.times.computing {
                Some((from, to)) => bins(from, to, &mut busy),
                None => bins(m.times.began, next, &mut unknown),
            }
        }
        let mut share = 0.0;
        for (busy, unknown) in busy.iter_mut().zip(unknown) {
            // Where next to nothing was measured, the share is what it was before.
            if unknown < 0.5 * each {
                share = *busy / (each - unknown);
            }
            *busy = share;
        }
        Self { steps, frame: *frame, span, busy }
    }

    fn x(&self, seconds: f64) -> f64 {
        round(self.frame.left + (seconds / self.span).clamp(0.0, 1.0) * self.frame.width)
    }

    fn utilisation(&self, body: &mut String) {
        let frame = &self.frame;
        let most = self.steps.iter().filter_map(|m| m.load.cpu).fold(1.0, f64::max).ceil();
        let y = |share: f64| round(frame.bottom() - (share / most).clamp(0.0, 1.0) * frame.height);
        label(body, "strong", "start", frame.left, frame.top - 8.0, "utilisation, the whole run");
        for i in 0..=4 {
            let share = most * f64::from(i) / 4.0;
            let class = if i == 0 { "axis" } else { "grid" };
            let _ = writeln!(body, "<path class=\"{class}\" d=\"M{} {}H{}\"/>", frame.left, y(share), frame.right());
            label(body, "faint", "end", frame.left - 8.0, y(share) + 4.0, &format!("{:.0} %", 100.0 * share));
        }
        // One outline: bars side by side would show a seam between every two.
        let each = frame.width / self.busy.len() as f64;
        let mut outline = format!("M{} {}", frame.left, frame.bottom());
        for (i, share) in self.busy.iter().enumerate() {
            let _ = write!(outline, "V{}H{}", y(share.min(1.0)), round(frame.left + (i + 1) as f64 * each));
        }
        let _ = writeln!(body, "<path class=\"{}\" d=\"{outline}V{}Z\"/>", Work::Training.class(), frame.bottom());
        self.line(body, "s0", |m| m.load.utilisation.map(y));
        self.line(body, "s1", |m| m.load.cpu.map(y));
        times(body, frame, self.span, "time");
        self.hits(body, frame);
    }

    /// Memory as sampled; false where nobody gave it.
    fn memory(&self, body: &mut String, frame: &Frame) -> bool {
        let Some(most) = self.steps.iter().filter_map(|m| m.load.memory).max() else { return false };
        let axis = ByteAxis::to(most);
        label(body, "strong", "start", frame.left, frame.top - 8.0, "memory in use, as sampled");
        frame.grid(body, &axis);
        self.line(body, "s0", |m| m.load.memory.map(|bytes| frame.y(&axis, bytes)));
        times(body, frame, self.span, "time");
        self.hits(body, frame);
        true
    }

    /// A line through samples, a point only where it bends.
    fn line(&self, body: &mut String, class: &str, y: impl Fn(&MicroStep) -> Option<f64>) {
        let mut path = String::new();
        let mut last: Option<(f64, f64)> = None;
        for m in self.steps {
            let Some(y) = y(m) else { continue };
            let x = self.x(m.times.began + m.seconds);
            match last {
                None => drop(write!(path, "M{x} {y}")),
                Some((_, before)) if (before - y).abs() >= 0.05 => drop(write!(path, "H{x}V{y}")),
                Some(_) => {}
            }
            last = Some((x, y));
        }
        if let Some((x, _)) = last {
            let _ = writeln!(body, "<g class=\"{class}\"><path class=\"curve\" fill=\"none\" d=\"{path}H{x}\"/></g>");
        }
    }

    /// Fields over some stretches together, that show the figures there.
    fn hits(&self, body: &mut String, frame: &Frame) {
        let groups = 40;
        let each = self.span / f64::from(groups);
        let mut rest = self.steps.iter().peekable();
        for group in 0..groups {
            let (from, to) = (f64::from(group) * each, f64::from(group + 1) * each);
            let mut last = None;
            let mut count = 0usize;
            while let Some(m) = rest.next_if(|m| m.times.began < to) {
                last = Some(m);
                count += 1;
            }
            let Some(last) = last else { continue };
            let bins = |seconds: f64| (seconds / self.span * self.busy.len() as f64) as usize;
            let part = &self.busy[bins(from).min(self.busy.len() - 1)..bins(to).clamp(bins(from) + 1, self.busy.len())];
            let busy = part.iter().sum::<f64>() / part.len().max(1) as f64;
            let mut lines = vec![format!("to step {}", name(last)), format!("micro-steps begun: {count}")];
            lines.push(format!("device busy: {:.0} %", 100.0 * busy.min(1.0)));
            lines.extend(loads(last));
            let (left, right) = (self.x(from), self.x(to));
            let _ = writeln!(
                body,
                "<rect class=\"hit\" x=\"{left}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
                frame.top,
                round(right - left),
                frame.height,
                escape(&lines.join("\n"))
            );
        }
    }
}
