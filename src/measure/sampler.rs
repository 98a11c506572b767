//! How busy the machine is, sampled beside a run: what NVML shows of a GPU, and the processor time and memory of this process. It tells
//! times of a machine, nothing of an experiment.
//!
//! Invariant: the thread ends with the [`Sampler`], and whoever trains never waits for it in between.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::device::cuda::Gauge;
use crate::meta::bytes::KIB;
use crate::record::Load;

/// From one sample to the next. NVML's figures change no faster.
const PERIOD: Duration = Duration::from_millis(100);
/// Processor time is counted in hundredths of a second: a shorter stretch would show little but these.
const STRETCH: Duration = Duration::from_millis(450);
/// Linux's unit of processor time in `/proc`, in seconds (`USER_HZ`).
const TICK: f64 = 0.01;

/// A thread that samples.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    last: Load,
    over: bool,
}

impl Sampler {
    /// Begins to sample, now and ten times a second. Without a thread to be had, or on a system that tells nothing, figures are missing.
    #[must_use]
    pub fn start(device: &Device) -> Self {
        let gauge = match device {
            Device::Cuda(gpu) => gpu.gauge(),
            Device::Host(_) | Device::Virtual => None,
        };
        let on_host = matches!(device, Device::Host(_));
        let shared = Arc::new(Mutex::new(Shared::default()));
        let mut reader = Reader { gauge, on_host, ticks: Vec::new() };
        lock(&shared).last = reader.read();
        let own = Arc::clone(&shared);
        let sample = move || {
            loop {
                std::thread::park_timeout(PERIOD);
                if lock(&own).over {
                    return;
                }
                let load = reader.read();
                lock(&own).last = load;
            }
        };
        Self { shared, thread: std::thread::Builder::new().name("sampler".to_owned()).spawn(sample).ok() }
    }

    /// The last sample.
    #[must_use]
    pub fn last(&self) -> Load {
        lock(&self.shared).last
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        lock(&self.shared).over = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Nothing in it panics; if it did, figures are missing.
            let _ = thread.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reader {
    gauge: Option<Gauge>,
    on_host: bool,
    /// When which processor time was read, not longer ago than a stretch, and one before.
    ticks: Vec<(Instant, f64)>,
}

impl Reader {
    fn read(&mut self) -> Load {
        let gpu = self.gauge.map(|gauge| gauge.read()).unwrap_or_default();
        let memory = if self.on_host { resident() } else { gpu.memory };
        Load { utilisation: gpu.utilisation, memory, power: gpu.power, cpu: self.cpu() }
    }

    fn cpu(&mut self) -> Option<f64> {
        let now = (Instant::now(), processor_seconds(&std::fs::read_to_string("/proc/self/stat").ok()?)?);
        while self.ticks.len() > 1 && now.0 - self.ticks[1].0 >= STRETCH {
            self.ticks.remove(0);
        }
        self.ticks.push(now);
        let (then, seconds) = self.ticks[0];
        let passed = (now.0 - then).as_secs_f64();
        // Sooner, one tick would look like much.
        (passed >= 0.9 * PERIOD.as_secs_f64()).then(|| (now.1 - seconds) / passed)
    }
}

/// Processor time of the process, user's and system's, in seconds, from the text of its `stat`.
fn processor_seconds(stat: &str) -> Option<f64> {
    // Its name, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) as f64 * TICK)
}

/// Bytes of this process in memory.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(KIB)
}
