//! One history under several settings: a row of figures each, as a table for people and as CSV.

use crate::alloc::{Allocator, AllocatorConfig, Placement, Stats, replay, warm_up};
use crate::meta::format_bytes;

use super::source::Source;

/// What became of a history under some settings.
pub(super) struct Outcome {
    /// The settings as they were given; empty are PyTorch's defaults.
    pub(super) settings: String,
    pub(super) memory_limit: Option<u64>,
    pub(super) stats: Stats,
    /// Requests that failed. PyTorch's own count leaves out those that it refuses before it tries.
    pub(super) failures: usize,
}

/// Replays `source` on a device of `total` bytes.
pub(super) fn outcome(source: &Source, settings: &str, config: &AllocatorConfig, total: u64) -> Outcome {
    let mut allocator = Allocator::new(config.clone(), Box::new(Placement::new(total)));
    if source.warmed_up {
        warm_up(&mut allocator);
    }
    let failures = replay(&source.trace, &mut allocator, |_, _| {});
    Outcome {
        settings: settings.to_owned(),
        memory_limit: allocator.config().memory_limit,
        stats: *allocator.stats(),
        failures: failures.len(),
    }
}

impl Outcome {
    fn peak_allocated(&self) -> u64 {
        self.stats.allocated_bytes.all().peak
    }

    fn peak_reserved(&self) -> u64 {
        self.stats.reserved_bytes.all().peak
    }

    fn fragmentation(&self) -> u64 {
        thousandths(self.peak_allocated(), self.peak_reserved())
    }

    /// Whether memory ran out.
    fn is_oom(&self) -> bool {
        self.failures > 0
    }
}

/// The share of the most that was reserved that the most that was allocated would not have needed, in thousandths.
fn thousandths(allocated: u64, reserved: u64) -> u64 {
    let unused = u128::from(reserved - allocated);
    let share = (unused * 1000 + u128::from(reserved / 2)).checked_div(u128::from(reserved));
    u64::try_from(share.unwrap_or(0)).unwrap_or(1000)
}

fn percent(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// That share in a line, for a single setting.
pub(super) fn fragmentation(stats: &Stats) -> String {
    let (allocated, reserved) = (stats.allocated_bytes.all().peak, stats.reserved_bytes.all().peak);
    let share = percent(thousandths(allocated, reserved));
    format!("fragmentation: {share}, peak allocated {} of peak reserved {}", format_bytes(allocated), format_bytes(reserved))
}

const COLUMNS: [&str; 10] = [
    "settings",
    "memory_limit",
    "peak_allocated",
    "peak_reserved",
    "fragmentation",
    "segments",
    "device_allocations",
    "retries",
    "ooms",
    "status",
];

/// The rows as CSV; bytes, and fragmentation as a share of 1.
pub(super) fn csv(outcomes: &[Outcome]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |row: [String; 10]| writer.write_record(row).expect("memory takes every byte");
    write(COLUMNS.map(str::to_owned));
    for o in outcomes {
        write([
            o.settings.clone(),
            o.memory_limit.map(|l| l.to_string()).unwrap_or_default(),
            o.peak_allocated().to_string(),
            o.peak_reserved().to_string(),
            format!("0.{:03}", o.fragmentation().min(999)),
            o.stats.segment.all().peak.to_string(),
            o.stats.num_device_alloc.to_string(),
            o.stats.num_alloc_retries.to_string(),
            o.failures.to_string(),
            if o.is_oom() { "oom" } else { "ok" }.to_owned(),
        ]);
    }
    writer.into_inner().expect("memory takes every byte")
}

/// The rows for a person.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let head = ["settings", "peak allocated", "peak reserved", "fragmentation", "segments", "device allocs", "retries", "ooms"];
    let mut rows = vec![head.map(str::to_owned)];
    for o in outcomes {
        rows.push([
            if o.settings.is_empty() { "PyTorch's defaults".to_owned() } else { o.settings.clone() },
            format_bytes(o.peak_allocated()),
            format_bytes(o.peak_reserved()),
            percent(o.fragmentation()),
            o.stats.segment.all().peak.to_string(),
            o.stats.num_device_alloc.to_string(),
            o.stats.num_alloc_retries.to_string(),
            o.failures.to_string(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(i, (cell, &width))| if i == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
