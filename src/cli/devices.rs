//! `runner devices`: what there is to run on: GPUs, with their memory, architecture and measured context; the driver and libraries, each with
//! where it was found or looked for; and the host.

use std::fmt::Write as _;

use crate::device::cuda::{Cuda, Facts, Library, driver_version, gpus};
use crate::meta::format_bytes;

use super::args::DeviceName;
use super::exit::{Exit, Failure};
use super::{console, machine};

const EXAMPLES: &str = "\
Examples:
  runner devices
  runner devices cuda && runner experiments/adamw.toml --device cuda

Exit code 3: the device named is not there.";

/// List the devices of this machine and the libraries found
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Ask for one device: auto, cuda (or cuda:1, …), host, virtual
    #[arg(value_name = "DEVICE")]
    device: Option<DeviceName>,
}

/// Lists them.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut text = String::new();
    let found = gpus();
    match &found {
        Ok(gpus) if gpus.is_empty() => text.push_str("no GPU: the driver knows none\n"),
        Ok(gpus) => gpus.iter().for_each(|facts| describe(&mut text, facts)),
        Err(e) => {
            let _ = writeln!(text, "no GPU: {}", e.in_short());
        }
    }
    if let Ok(version) = driver_version() {
        let driver = version.driver.unwrap_or_else(|| "unknown".to_owned());
        let _ = writeln!(text, "driver {driver}, CUDA {}", version.cuda);
    }
    for library in Library::ALL {
        let _ = match library.find() {
            Ok(found) => writeln!(text, "  {:22} {:8} {}", library.title(), library.version().unwrap_or_default(), found.path),
            Err(missing) => writeln!(text, "  {:22} missing; tried {}", library.title(), missing.tried.join(", ")),
        };
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = machine::available_memory().map_or_else(String::new, |m| format!(", {} of memory available", format_bytes(m)));
    let _ = writeln!(text, "host: {}, {threads} threads{memory}", machine::processor().unwrap_or_else(|| "a CPU".to_owned()));
    text.push_str("virtual: always\n");
    console::print(&text)?;

    let there = match args.device {
        Some(DeviceName::Cuda(ordinal)) => Cuda::open(ordinal).is_ok(),
        _ => true,
    };
    Ok(if there { Exit::Done } else { Exit::NoDevice })
}

fn describe(text: &mut String, facts: &Facts) {
    let gpu = &facts.gpu;
    let (major, minor) = gpu.capability;
    let _ = writeln!(text, "cuda:{}: {}", facts.ordinal, gpu.full_name);
    let _ = writeln!(text, "  memory        {} ({} B)", format_bytes(gpu.total_memory), gpu.total_memory);
    let _ = writeln!(
        text,
        "  architecture  sm_{major}{minor}, {} multiprocessors of {} threads",
        gpu.multiprocessors, gpu.threads_per_multiprocessor
    );
    let context = match Cuda::open(facts.ordinal) {
        Ok(cuda) => {
            let start = cuda.start();
            let before = start.before_context.unwrap_or(0);
            let context = start.after_context.saturating_sub(before);
            format!("{} ({context} B), measured; {} in use before it", format_bytes(context), format_bytes(before))
        }
        Err(e) => format!("cannot be made: {e}"),
    };
    let _ = writeln!(text, "  context       {context}");
}
