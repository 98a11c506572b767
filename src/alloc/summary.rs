//! `torch.cuda.memory_summary()`, character for character.

use super::stats::{Stat, StatArray, Stats};

const WIDTH: usize = 75;

/// The table PyTorch prints, for the GPU of that number. Ends in a newline.
#[must_use]
pub fn memory_summary(stats: &Stats, device: u32) -> String {
    let mut table = Table { text: String::new() };
    table.rule('=');
    table.line(&format!(" {:16} PyTorch CUDA memory summary, device ID {device:<17} ", ""));
    table.rule('-');
    let (ooms, retries) = (stats.num_ooms, stats.num_alloc_retries);
    table.line(&format!("  {:9} CUDA OOMs: {ooms:<12} | {:6} cudaMalloc retries: {retries:<8}  ", "", ""));
    table.rule('=');
    table.line("        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ");
    table.metric("Allocated memory", &stats.allocated_bytes, size_cell);
    table.metric("Active memory", &stats.allocated_bytes, size_cell);
    table.metric("Requested memory", &stats.requested_bytes, size_cell);
    table.metric("GPU reserved memory", &stats.reserved_bytes, size_cell);
    table.metric("Non-releasable memory", &stats.inactive_split_bytes, size_cell);
    table.metric("Allocations", &stats.allocation, count_cell);
    table.metric("Active allocs", &stats.allocation, count_cell);
    table.metric("GPU reserved segments", &stats.segment, count_cell);
    table.metric("Non-releasable allocs", &stats.inactive_split, count_cell);
    for (name, stat) in [("Oversize allocations", stats.oversize_allocations), ("Oversize GPU segments", stats.oversize_segments)] {
        table.rule('-');
        table.row(name, stat, stat, count_cell);
    }
    table.rule('=');
    table.text
}

/// Formats a figure in the unit that suits the figure of the row for both pools.
type Cell = fn(u64, u64) -> String;

struct Table {
    text: String,
}

impl Table {
    fn line(&mut self, content: &str) {
        debug_assert_eq!(content.chars().count(), WIDTH, "a line of the summary has another width");
        self.text.push('|');
        self.text.push_str(content);
        self.text.push_str("|\n");
    }

    fn rule(&mut self, c: char) {
        self.line(&c.to_string().repeat(WIDTH));
    }

    fn metric(&mut self, name: &str, stats: &StatArray, cell: Cell) {
        self.rule('-');
        self.row(name, stats.all(), stats.all(), cell);
        self.row("      from large pool", stats.large_pool(), stats.all(), cell);
        self.row("      from small pool", stats.small_pool(), stats.all(), cell);
    }

    fn row(&mut self, name: &str, of: Stat, all: Stat, cell: Cell) {
        let cells = [(of.current, all.current), (of.peak, all.peak), (of.allocated, all.allocated), (of.freed(), all.freed())];
        let cells = cells.map(|(value, scale)| cell(value, scale));
        self.line(&format!(" {name:<21} | {} ", cells.join(" | ")));
    }
}

fn size_cell(value: u64, scale: u64) -> String {
    let (value, unit) = in_unit(value, scale, 1024, 768 * 1024, &["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"]);
    format!("{value:6} {unit}")
}

fn count_cell(value: u64, scale: u64) -> String {
    let (value, unit) = in_unit(value, scale, 1000, 750 * 1000, &[" ", "K", "M"]);
    format!("{value:7} {unit} ")
}

/// `value` in the first unit in which `scale` falls below `threshold`. PyTorch divides the one as whole numbers, the other as doubles.
#[allow(clippy::cast_precision_loss)]
fn in_unit(mut value: u64, scale: u64, step: u64, threshold: u64, units: &[&'static str]) -> (u64, &'static str) {
    let mut scale = scale as f64;
    let mut unit = units[0];
    for larger in &units[1..] {
        if scale < threshold as f64 {
            break;
        }
        unit = larger;
        value /= step;
        scale /= step as f64;
    }
    (value, unit)
}
