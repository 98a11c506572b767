//! Why memory ran out, beyond what PyTorch's message says: which phase and layer asked, what was free and why it was no use, what holds
//! the rest, and which switches would make it fit.

use std::fmt::Write as _;

use crate::alloc::{BlockState, Segment};
use crate::measure::{Failure, Held};
use crate::meta::format_bytes;
use crate::predict::room::Shortage;
use crate::record::{At, Categories, Category};
use crate::report::words;

use super::names::Names;

/// Tensors that are named.
const LARGEST: usize = 5;

/// What a failure met, for a person; `at` is the row of the phase, `title` the experiment and case. `fitting` are switches that would make
/// it fit, each with what it needs, where they were looked for.
pub(super) fn explain(title: &str, at: At, failure: &Failure, names: &Names, fitting: Option<&[String]>) -> String {
    let mut text = format!("{title}: out of memory in {}\n", place(at));
    let error = &failure.error;
    let _ = writeln!(text, "  {}", error.message(0));
    let asked = Held {
        address: 0,
        requested: error.requested,
        bytes: 0,
        running: failure.running,
        category: failure.category,
        state: failure.state,
    };
    let mut line = |name: &str, what: &str| {
        let _ = writeln!(text, "  {name:<9} {what}");
    };
    let segment = error.segment.map(|s| format!("; a segment of {} could not be had", format_bytes(s))).unwrap_or_default();
    line("asked", &format!("{} for {} ({}){segment}", format_bytes(error.requested), names.tensor(&asked), failure.category.name()));
    line("free", &free(&failure.snapshot.segments));
    line("held", &held(&failure.held));
    let mut largest: Vec<&Held> = failure.held.iter().collect();
    largest.sort_by_key(|h| (std::cmp::Reverse(h.bytes), h.address));
    for (n, held) in largest.into_iter().take(LARGEST).enumerate() {
        let what = format!("{:>11}  {} ({})", format_bytes(held.bytes), names.tensor(held), held.category.name());
        line(if n == 0 { "largest" } else { "" }, &what);
    }
    match fitting {
        None => {}
        Some([]) => line("fits with", "no switch that is known"),
        Some(switches) => (0..).zip(switches).for_each(|(n, switch)| line(if n == 0 { "fits with" } else { "" }, switch)),
    }
    text
}

/// Where memory is foreseen to run out: what is asked for there, and what is to be had.
pub(super) fn foreseen(Shortage { at, failure }: &Shortage) -> String {
    let segment = failure.segment.filter(|&s| s != failure.requested);
    let segment = segment.map(|s| format!(" (a segment of {})", format_bytes(s))).unwrap_or_default();
    let left = failure.limit.map_or(failure.free, |limit| limit.saturating_sub(failure.reserved).min(failure.free));
    format!(
        "out of memory in {}, asking for {}{segment} with {} left to reserve and {} reserved but unused",
        words::place(*at),
        format_bytes(failure.requested),
        format_bytes(left),
        format_bytes(failure.reserved - failure.allocated),
    )
}

fn place(at: At) -> String {
    match (at.step, at.micro_step) {
        (0, _) => format!("{}", at.phase),
        (step, 0) => format!("step {step}, {}", at.phase),
        (step, micro_step) => format!("step {step}, micro-step {micro_step}, {}", at.phase),
    }
}

/// What was reserved and not in use, and how much of it lay beside blocks in use, which is why it could not be given back.
fn free(segments: &[Segment]) -> String {
    let holes = |s: &Segment| -> Vec<u64> { s.blocks.iter().filter(|b| b.state == BlockState::Inactive).map(|b| b.bytes).collect() };
    let all: Vec<u64> = segments.iter().flat_map(holes).collect();
    if all.is_empty() {
        return "nothing that is reserved was free".to_owned();
    }
    let lost: u64 = segments.iter().filter(|s| s.blocks.len() > 1).flat_map(holes).sum();
    let blocks = if all.len() == 1 { "1 block".to_owned() } else { format!("{} blocks", all.len()) };
    format!(
        "{} reserved and free in {blocks}, the largest {}; {} of it is lost to fragmentation: beside blocks in use",
        format_bytes(all.iter().sum()),
        format_bytes(all.iter().copied().max().unwrap_or(0)),
        format_bytes(lost),
    )
}

fn held(held: &[Held]) -> String {
    let mut categories = Categories::default();
    for h in held {
        categories[h.category] += h.bytes;
    }
    let mut parts: Vec<(Category, u64)> = Category::ALL.into_iter().map(|c| (c, categories[c])).filter(|(_, b)| *b > 0).collect();
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let parts: Vec<String> = parts.into_iter().map(|(c, bytes)| format!("{} {}", c.name(), format_bytes(bytes))).collect();
    if parts.is_empty() { "nothing".to_owned() } else { format!("{}: {}", format_bytes(categories.total()), parts.join(", ")) }
}
