//! `runner calibrate -o TREES`: asks a GPU's cuDNN what its convolutions work in, and grows from the answers what predictions go by.
//!
//! Invariant: a file is written once all of it is there, and whole.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget};

use crate::device::cuda::{Cuda, CudaError, Library, facts};
use crate::gpu::{self, CATALOGUE, Gpu};
use crate::report::files::{try_place, write_whole};
use crate::report::number::thousands;
use crate::report::words::count;
use crate::scratch::convolution::{Accuracy, Answer, accuracy, grid, grow, part, read_answers, write_answers};

use super::args::{DeviceName, gpu_named};
use super::exit::{Exit, Failure};
use super::{console, places};

const EXAMPLES: &str = "\
Examples:
  runner calibrate -o t4.trees --answers t4.csv        asks GPU 0, some minutes
  runner calibrate --from t4.csv --gpu t4 -o t4.trees  the same trees from its answers, without a GPU
  runner predict resnet.toml --gpu t4 --calibration t4.trees

cuDNN chooses a convolution's algorithm, and with it the workspace. What comes with the program was grown from an H200's answers. \
Printed is how well trees foresee layers that they have not seen: a fifth of all layers is left out of growing, and \
then foreseen. The file is grown from all.

Ctrl-C leaves no half file; answers that are complete stay. Exit code: 0 done; 1 the GPU gave no answers; 2 bad file or arguments; 3 no such device.";

/// Ask a GPU's cuDNN what convolutions work in, and write what predictions for that GPU go by: see --calibration
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The GPU to ask: cuda, cuda:1, …
    #[arg(long, value_name = "DEVICE", default_value = "cuda", conflicts_with = "from")]
    device: DeviceName,
    /// Answers of an earlier calibration, in place of a GPU's
    #[arg(long, value_name = "ANSWERS.csv", conflicts_with = "answers")]
    from: Option<PathBuf>,
    /// With --from, the GPU that gave the answers
    #[arg(long, value_name = "NAME", default_value = gpu::DEFAULT, value_parser = gpu_named(), requires = "from")]
    gpu: &'static Gpu,
    /// Write the GPU's answers too
    #[arg(long, value_name = "ANSWERS.csv")]
    answers: Option<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "TREES")]
    output: PathBuf,
}

/// Asks or reads, grows, writes, and says how well it foresees.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    places::check(args.from.as_deref(), args.answers.as_deref().into_iter().chain([args.output.as_path()]))?;
    // Minutes of work are not lost on a folder that takes no file.
    for path in [Some(&args.output), args.answers.as_ref()].into_iter().flatten() {
        try_place(path)?;
    }
    let (gpu, remarks, answers) = match &args.from {
        Some(path) => read(path, args.gpu)?,
        None => ask(args.device)?,
    };
    if let Some(path) = &args.answers {
        write_whole(path, &write_answers(&remarks, &answers))?;
    }
    console::note(&format!("growing from {}", count(answers.len(), "answer")));
    let (left_out, kept): (Vec<Answer>, Vec<Answer>) = answers.iter().partition(|answer| part(&answer.call, PARTS) == 0);
    let unseen = accuracy(&grow(gpu, Vec::new(), &kept), gpu, &left_out);
    drop((left_out, kept));
    let trees = grow(gpu, remarks, &answers);
    write_whole(&args.output, trees.text().as_bytes())?;
    let leaves = count(trees.leaves(), "leaf").replace("leafs", "leaves");
    console::print(&format!(
        "{}: {leaves} from {} of {}\n{}",
        args.output.display(),
        count(answers.len(), "answer"),
        gpu.name,
        told(&unseen)
    ))?;
    Ok(Exit::Done)
}

/// Of so many layers one is left out.
const PARTS: u64 = 5;

fn told(of: &Accuracy) -> String {
    if of.workspaces == 0 {
        return "too few layers to leave some out of growing, and to say how well others are foreseen\n".to_owned();
    }
    let share = |n: u64, all: u64| format!("{:.1} %", n as f64 * 100.0 / all as f64);
    let off = (of.foreseen as f64 / (of.answered.max(1)) as f64 - 1.0) * 100.0;
    format!(
        "of layers left out of growing: {} of {} to the byte, {} of {} in all directions; their sum is {off:+.1} % off\n",
        share(of.exact, of.workspaces),
        count(of.workspaces as usize, "workspace"),
        share(of.whole, of.convolutions),
        count(of.convolutions as usize, "convolution"),
    )
}

fn read(path: &Path, gpu: &'static Gpu) -> Result<(&'static Gpu, Vec<String>, Vec<Answer>), Failure> {
    let (remarks, answers) = read_answers(path).map_err(Failure::usage)?;
    if answers.is_empty() {
        return Err(Failure::usage(format!("{}: holds no answers", path.display())));
    }
    Ok((gpu, remarks, answers))
}

/// Asks a GPU for all of the grid, from as many threads as there are cores.
fn ask(device: DeviceName) -> Result<(&'static Gpu, Vec<String>, Vec<Answer>), Failure> {
    let DeviceName::Cuda(ordinal) = device else {
        return Err(Failure::usage("it is a GPU that answers: --device cuda, cuda:1, …; without one, --from takes answers that one gave"));
    };
    let no_device = |e: CudaError| Failure::new(Exit::NoDevice, e);
    let facts = facts(ordinal).map_err(no_device)?;
    let Some(gpu) = CATALOGUE.iter().find(|gpu| gpu.name == facts.gpu.name) else {
        let name = facts.gpu.full_name;
        return Err(Failure::usage(format!("{name} is not in the catalogue, so that nothing could be predicted for it; see --gpu")));
    };
    let calls = grid();
    let bar = ProgressBar::with_draw_target(
        Some(calls.len() as u64),
        if console::is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() },
    );
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Answer)>, CudaError> {
        let cuda = Cuda::open(ordinal)?;
        let mut answers = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(call, weight)) = calls.get(number) else { return Ok(answers) };
            match cuda.ask_convolution(&call) {
                Ok((bytes, settings)) => answers.push((number, Answer { call, bytes, settings, weight })),
                Err(missing @ CudaError::Missing(_)) => return Err(missing),
                // What the library cannot compute is no question; a lost GPU says so here.
                Err(_) => cuda.synchronize()?,
            }
            bar.inc(1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all: Result<Vec<_>, CudaError> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        asking.into_iter().map(|thread| thread.join().expect("asking does not panic")).collect()
    });
    bar.finish_and_clear();
    let mut answers: Vec<(usize, Answer)> = all.map_err(no_device)?.into_iter().flatten().collect();
    answers.sort_unstable_by_key(|(number, _)| *number);
    if answers.is_empty() {
        return Err(Failure::new(Exit::Failed, "cuDNN answered none of the questions"));
    }
    let version = Library::Cudnn.version().unwrap_or_default();
    console::note(&format!(
        "{} answers to {} questions in {}",
        thousands(answers.len() as u128),
        thousands(calls.len() as u128),
        HumanDuration(bar.elapsed())
    ));
    let remarks = vec![format!("{}, cuDNN {version}", gpu.full_name)];
    Ok((gpu, remarks, answers.into_iter().map(|(_, answer)| answer).collect()))
}
