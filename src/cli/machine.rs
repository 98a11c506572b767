//! What this machine is, and how much memory it still has. Read from Linux's own files; elsewhere nothing is known.

use std::fs::read_to_string;

use crate::meta::format_bytes;
use crate::report::run_file::Machine;

/// For the run file.
pub(super) fn machine() -> Machine {
    Machine {
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        processor: processor(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory: total_memory(),
    }
}

/// Bytes that a new process could take before the machine swaps or its control group ends it; `None` where nobody says.
pub(super) fn available_memory() -> Option<u64> {
    let free = field_in_kib(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    Some(control_group_room().map_or(free, |room| room.min(free)))
}

/// Why a run on the host that takes `needed` bytes is not begun on a machine with that many available; `None` where it is.
pub(super) fn lacks(title: &str, needed: u64, available: u64) -> Option<String> {
    let of = |bytes| format_bytes(bytes);
    let message = || format!("{title}: needs {} of memory on the host, of which {} are available", of(needed), of(available));
    (needed > available).then(message)
}

/// What the control group of a container leaves (version 2); `None` without a limit.
fn control_group_room() -> Option<u64> {
    let number = |file: &str| read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

fn field_in_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(crate::meta::bytes::KIB)
}

/// The processor's name as the system gives it.
pub(super) fn processor() -> Option<String> {
    let text = read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_string())
}

/// All the memory there is, in bytes.
pub(super) fn total_memory() -> Option<u64> {
    field_in_kib(&read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}
