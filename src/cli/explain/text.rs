//! An explanation for a person with a pencil: every figure in bytes, with what it is made of.

use std::fmt::Write as _;

use anstyle::Style;

use super::fold::{Items, Iterations, Lines, numbered};
use crate::gpu::Gpu;
use crate::predict::explain::{Explanation, Item, LayerLine, Moment, RuleOfThumb, Thumb};
use crate::record::Category;
use crate::report::fold::shorten;
use crate::report::number::{signed_bytes, thousands};
use crate::report::table::{BAD, Cell, FAINT, HEAD, PLAIN, align};
use crate::report::words::place;

/// Most items of one sum that are written out.
const MOST: usize = 6;

/// How much of it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Of equal iterations one, and of long lists the beginning and the end.
    Folded,
    /// Every line.
    All,
}

/// The whole text.
pub(super) fn render(name: &str, description: &str, gpu: &Gpu, explanation: &Explanation, extent: Extent) -> String {
    let iterations = if extent == Extent::All { Iterations::default() } else { Iterations::of(&explanation.layers) };
    let colon = if description.is_empty() { "" } else { ": " };
    let mut text = format!("{HEAD}{name}{HEAD:#}{colon}{description}\n{FAINT}predicted for {}; figures in bytes{FAINT:#}\n", gpu.name);
    if !explanation.layers.is_empty() {
        layers(&mut text, &explanation.layers, &iterations, extent);
    }
    phases(&mut text, &explanation.phases, &iterations);
    if let Some(at) = explanation.out_of_memory() {
        let _ = writeln!(
            text,
            "\n{BAD}out of memory in {}{BAD:#}: what comes after it is not explained; `runner fit` says what would fit",
            place(at)
        );
    }
    peak(&mut text, &explanation.peak, &iterations, extent);
    if !explanation.rules.is_empty() {
        rules(&mut text, &explanation.rules);
    }
    text.push('\n');
    text
}

fn plain(text: String) -> Cell {
    (text, PLAIN)
}

fn bytes(n: u64) -> String {
    thousands(u128::from(n))
}

fn heads<const N: usize>(heads: [&str; N]) -> Vec<Cell> {
    heads.map(|h| (h.to_string(), HEAD)).to_vec()
}

/// Lines as they are, or without the middle of a long list.
fn shown(rows: Vec<Vec<Cell>>, extent: Extent) -> Vec<Vec<Cell>> {
    match extent {
        Extent::All => rows,
        Extent::Folded => shorten(rows, |n| vec![(format!("… {n} lines; --all has them"), FAINT)]),
    }
}

/// `12 × ` where something stands for so many.
fn often(times: u64) -> String {
    if times > 1 { format!("{} × ", bytes(times)) } else { String::new() }
}

fn layers(text: &mut String, layers: &[LayerLine], iterations: &Iterations, extent: Extent) {
    text.push('\n');
    let mut rows = vec![heads(["layer", "parameters", "bytes", "buffers", "output", "bytes", "kept", "scratch forward", "backward"])];
    let mut lines = Vec::new();
    for Lines { of, times, last } in iterations.lines(layers) {
        lines.extend(of.iter().map(|l| -> Vec<Cell> {
            let figures =
                [l.parameters, l.parameter_bytes, l.buffer_bytes, l.outputs, l.output_bytes, l.kept, l.scratch_forward, l.scratch_backward];
            std::iter::once(plain(format!("{}{}", often(times), l.path))).chain(figures.map(|n| plain(bytes(n)))).collect()
        }));
        if let (true, Some((first, _)), Some((last, _))) = (times > 1, numbered(&of[0].path), numbered(&last.path)) {
            lines.push(total(format!("{first} to {last}, sum"), PLAIN, of, times));
        }
    }
    rows.extend(shown(lines, extent));
    rows.push(total("all".to_string(), HEAD, layers, 1));
    align(text, &rows);
}

/// The sums of these lines, so many times; scratch comes and goes and has none.
fn total(name: String, style: Style, lines: &[LayerLine], times: u64) -> Vec<Cell> {
    let sum = |of: fn(&LayerLine) -> u64| (bytes(times * lines.iter().map(of).sum::<u64>()), style);
    vec![
        (name, style),
        sum(|l| l.parameters),
        sum(|l| l.parameter_bytes),
        sum(|l| l.buffer_bytes),
        sum(|l| l.outputs),
        sum(|l| l.output_bytes),
        sum(|l| l.kept),
    ]
}

/// The sums of each row of the first step, category by category; what has not changed is not written out again.
fn phases(text: &mut String, phases: &[Moment], iterations: &Iterations) {
    let mut before: Option<&Moment> = None;
    for moment in phases {
        let _ = writeln!(text, "\n{HEAD}{}{HEAD:#}: {} allocated", place(moment.at), bytes(moment.allocated));
        let mut rows = Vec::new();
        for category in Category::ALL {
            let items = of(moment, category);
            let total: u64 = items.iter().map(|i| i.bytes).sum();
            let same = before.is_some_and(|b| of(b, category) == items);
            if total == 0 {
                continue;
            }
            let sum = if same { "as before".to_string() } else { sum(iterations.items(items)) };
            rows.push(vec![
                plain(format!("  {}", category.name())),
                plain(bytes(total)),
                (format!("= {sum}"), if same { FAINT } else { PLAIN }),
            ]);
        }
        align(text, &rows);
        before = Some(moment);
    }
}

fn of(moment: &Moment, category: Category) -> Vec<&Item> {
    moment.items.iter().filter(|i| i.category == category).collect()
}

/// `4 × 1 024 (0.linear) + …`, the largest first.
fn sum(mut items: Vec<Items<'_>>) -> String {
    items.sort_by_key(|i| std::cmp::Reverse(i.bytes()));
    let rest = items.split_off(items.len().min(MOST));
    let mut terms: Vec<String> = items.iter().map(|i| format!("{} ({})", product(i), maker(i))).collect();
    if !rest.is_empty() {
        terms.push(format!("{} more: {}", rest.len(), bytes(rest.iter().map(Items::bytes).sum())));
    }
    terms.join(" + ")
}

/// How many, of what size, in what blocks.
fn product(items: &Items<'_>) -> String {
    let (item, count) = (items.of, often(items.count()));
    let size = match item.element {
        Some(element) => format!("{element} × {}", bytes(item.requested / element)),
        None => bytes(item.requested),
    };
    let is_whole = items.count() * item.requested == items.bytes();
    let blocks = if is_whole { String::new() } else { format!(" → {}", bytes(items.bytes())) };
    format!("{count}{size}{blocks}")
}

fn maker(items: &Items<'_>) -> String {
    let item = items.of;
    let maker = match &item.layer {
        // Where a layer is one operator, its name says both.
        Some(layer) if layer.ends_with(item.source) || item.source == "to" => layer.clone(),
        Some(layer) => format!("{layer} {}", item.source),
        None => if item.source == "to" { "batch" } else { item.source }.to_string(),
    };
    if items.times > 1 { format!("{maker} and {} alike", bytes(items.times - 1)) } else { maker }
}

fn peak(text: &mut String, peak: &Moment, iterations: &Iterations, extent: Extent) {
    let running = match &peak.running {
        Some((Some(layer), operator)) => format!(", when {operator} of {layer} has allocated"),
        Some((None, operator)) => format!(", when {operator} has allocated"),
        None => String::new(),
    };
    let _ = writeln!(text, "\n{HEAD}peak{HEAD:#}: {} allocated in {}{running}", bytes(peak.allocated), place(peak.at));
    let mut items = iterations.items(&peak.items);
    items.sort_by_key(|i| std::cmp::Reverse(i.bytes()));
    let lines = items.iter().map(|i| {
        let share = i.bytes() as f64 / peak.allocated.max(1) as f64 * 100.0;
        vec![
            plain(bytes(i.bytes())),
            plain(format!("{share:.1} %")),
            plain(i.of.category.name().to_string()),
            plain(maker(i)),
            plain(product(i)),
        ]
    });
    let mut rows = vec![heads(["bytes", "share", "category", "from", "size"])];
    rows.extend(shown(lines.collect(), extent));
    align(text, &rows);
}

fn rules(text: &mut String, rules: &[RuleOfThumb]) {
    let _ = writeln!(text, "\n{HEAD}rules of thumb{HEAD:#} against the predicted peak");
    let mut rows = vec![heads(["rule", "says", "error", "", "with these numbers"])];
    rows.extend(rules.iter().map(|rule| {
        let share = rule.error() as f64 / rule.peak.max(1) as f64 * 100.0;
        vec![
            plain(words(rule.thumb)),
            plain(bytes(rule.bytes)),
            plain(signed_bytes(rule.error())),
            plain(format!("{share:+.1} %")),
            plain(rule.formula.clone()),
        ]
    }));
    align(text, &rows);
}

/// What a rule is called.
pub(super) fn words(thumb: Thumb) -> String {
    match thumb {
        Thumb::Copies { n } => format!("{n} × parameters + 2 × outputs + input"),
        Thumb::TwentyBytes => "20 bytes a parameter (foreach Adam)".to_string(),
        Thumb::SixteenBytes => "16 bytes a parameter".to_string(),
        Thumb::TensorSum => "every tensor once".to_string(),
    }
}
