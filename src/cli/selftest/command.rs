//! The command: runs all cases, prints the table, and fails on any norm over its bound.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::alloc::AllocatorConfig;
use crate::exec::Exec;
use crate::gpu::Gpu;
use crate::meta::DType;
use crate::ops::Operator;
use crate::scratch::Rules;

use super::codec::TYPES;
use super::report::{Line, Section};
use super::{cases, optimizers};
use crate::cli::args::DeviceName;
use crate::cli::console;
use crate::cli::device::Place;
use crate::cli::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  runner selftest
  runner selftest --device host
  runner selftest --device cuda:1 --only softmax
  runner selftest --kernels --only batch_norm

Each operator and optimizer runs in every type on random values, and on the host in f64. What is printed is the \
relative norm of the difference, the worst of all outputs and gradients. Exit code 1: one is over its bound.";

/// Check every operator and optimizer of a device against the host's f64
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// What is checked: auto, cuda (or cuda:1, …), host
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceName,
    /// Only cases whose name contains this word
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// Print the kernels that the cases launch on a GPU, by source and types, and compute nothing
    #[arg(long)]
    kernels: bool,
}

/// A few units in the last place of each type: f64, f32, f16, bf16. The f32 bound leaves room for sums of some thousand terms.
const OPERATOR_BOUNDS: [f64; 4] = [1e-12, 1e-5, 4e-3, 3e-2];
/// Of convolutions and recurrent networks, where a GPU rounds the factors of f32 products to TF32, as PyTorch has it by default.
const TF32_BOUNDS: [f64; 4] = [1e-12, 3e-3, 4e-3, 3e-2];
/// Of a movement that parameters of the same type round at every step.
const OPTIMIZER_BOUNDS: [f64; 4] = [1e-12, 1e-5, 1e-2, 8e-2];

/// Runs the command.
pub(in crate::cli) fn run(args: &Args) -> Result<Exit, Failure> {
    if args.device == DeviceName::Virtual {
        return Err(Failure::usage("the virtual device computes nothing; check `host` or `cuda`"));
    }
    let gpu = Gpu::default_model();
    let (place, host) = (Place::choose(args.device, gpu, Rc::new(Rules))?, Place::choose(DeviceName::Host, gpu, Rc::new(Rules))?);
    let exec = || (place.exec(AllocatorConfig::default()), host.exec(AllocatorConfig::default()));
    let failed = |e: String| Failure::new(Exit::Failed, e);
    let (operators, optimizers) = (cases::all(), optimizers::all());
    let wanted = |name: &str| name.contains(&args.only);
    if !operators.iter().map(|c| &c.name).chain(optimizers.iter().map(|c| &c.name)).any(|name| wanted(name)) {
        return Err(Failure::usage(format!("--only {}: no case has such a name; without --only all are listed", args.only)));
    }
    let rehearse = |exec: &dyn Fn() -> Exec| {
        for case in operators.iter().filter(|c| wanted(&c.name)) {
            case.types.iter().for_each(|&dtype| case.rehearse(&exec(), dtype));
        }
        for case in optimizers.iter().filter(|c| wanted(&c.name)) {
            case.types.iter().for_each(|&dtype| case.rehearse(&exec(), dtype));
        }
    };
    if args.kernels {
        let kernels = place.kernels(rehearse).ok_or_else(|| Failure::usage("the host has no kernels; list those of `--device cuda`"))?;
        for (source, entries) in kernels {
            console::print(&format!("{source}: {}\n", entries.into_iter().collect::<Vec<_>>().join(" ")))?;
        }
        return Ok(Exit::Done);
    }
    console::print(&format!("{} against the host's f64: relative norms\n\n", place.facts().place))?;

    let untested = untested(&operators);
    place.rehearse(rehearse);
    let mut sections = Vec::new();
    let operator = |name: &str, types: &[DType], distance: &dyn Fn(&Exec, &Exec, DType) -> Result<f64, String>| {
        let mut norms = [None; TYPES.len()];
        for (norm, dtype) in norms.iter_mut().zip(TYPES).filter(|(_, dtype)| types.contains(dtype)) {
            let (device, reference) = exec();
            let found = distance(&device, &reference, dtype);
            place.check()?; // a GPU that is lost also has no memory
            *norm = Some(found.map_err(|e| failed(format!("{name} in {dtype}: {e}")))?);
        }
        Ok::<Line, Failure>(Line { name: name.to_owned(), norms })
    };
    for (title, bounds, tf32) in [("operator", OPERATOR_BOUNDS, false), ("operator of cuDNN", TF32_BOUNDS, true)] {
        let lines = operators.iter().filter(|c| wanted(&c.name) && c.takes_tf32() == tf32);
        let lines = lines.map(|c| operator(&c.name, c.types, &|d, r, t| c.distance(d, r, t)));
        sections.push(Section { title, bounds, lines: lines.collect::<Result<_, _>>()? });
    }
    let lines = optimizers.iter().filter(|c| wanted(&c.name)).map(|c| operator(&c.name, c.types, &|d, r, t| c.distance(d, r, t)));
    sections.push(Section { title: "optimizer", bounds: OPTIMIZER_BOUNDS, lines: lines.collect::<Result<_, _>>()? });

    for section in sections.iter().filter(|s| !s.lines.is_empty()) {
        console::print(&format!("{}\n", section.render()))?;
    }
    let norms = sections.iter().flat_map(|s| &s.lines).map(|l| l.norms.iter().flatten().count()).sum::<usize>();
    let failures = sections.iter().map(Section::failures).sum::<usize>();
    for name in &untested {
        console::print(&format!("no case for the operator {name}\n"))?;
    }
    if failures + untested.len() > 0 {
        console::print(&format!("{failures} of {norms} norms are over their bound\n"))?;
        return Ok(Exit::Failed);
    }
    console::print(&format!("all {norms} norms are within their bounds\n"))?;
    Ok(Exit::Done)
}

/// Registered operators that no case runs.
fn untested(cases: &[super::operators::Case]) -> Vec<&'static str> {
    let tested: BTreeSet<&str> = cases.iter().flat_map(|c| c.steps.iter().map(|s| s.op.rule().name())).collect();
    Operator::NAMES.iter().copied().filter(|name| !tested.contains(name)).collect()
}
