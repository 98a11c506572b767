//! Fidelity: recorded PyTorch runs in `tests/fixtures/cases/GPU/NAME`, held against what is predicted and what is measured on the
//! virtual device, byte for byte, every row. Where a case has a `scratch.toml`, that is what cuDNN asked for there.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use runner::alloc::{Allocator, Placement};
use runner::device::Device;
use runner::exec::Exec;
use runner::gpu::Gpu;
use runner::model::Work;
use runner::ops::RuleContext;
use runner::record::{Measured, MicroStep, Status};
use runner::scratch::{Recorded, Rules, Scratch};
use runner::tensor::Memory;
use runner::train::{Observer, follow, train};

use super::corpus::{Rows, differences, predicted, recorded};

fn folders(path: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    folders
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Every fixture, with its GPU.
pub(crate) fn fixtures() -> Vec<(&'static Gpu, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cases");
    let gpus = folders(&root).into_iter();
    gpus.flat_map(|folder| folders(&folder).into_iter().map(move |case| (Gpu::named(&name(&folder)).unwrap(), case))).collect()
}

/// What libraries ask for in a fixture: as recorded there, or as the rules have it.
pub(crate) fn scratch_of(case: &Path, gpu: &Gpu) -> Rc<dyn Scratch> {
    let recorded = case.join("scratch.toml");
    if recorded.exists() { Rc::new(Recorded::read(&recorded, gpu).unwrap()) } else { Rc::new(Rules) }
}

/// Under which a failure goes among the rows.
fn failed() -> (u64, u64, String) {
    (0, 0, "oom".to_owned())
}

#[derive(Default)]
struct Log(Rows);

impl Observer for Log {
    fn row(&mut self, row: &Measured) {
        if row.status == Status::Oom {
            self.0.insert(failed(), row.memory);
            return;
        }
        self.0.insert((row.at.step, row.at.micro_step, row.at.phase.name().to_owned()), row.memory);
    }

    fn micro_step(&mut self, _: &MicroStep) {}
}

fn measured(path: &Path, gpu: &Gpu, scratch: Rc<dyn Scratch>) -> Rows {
    let case = runner::experiment::load_with(path, &Default::default(), gpu).unwrap().cases.swap_remove(0);
    let allocator = Allocator::new(case.allocator, Box::new(Placement::new(gpu.total_memory)));
    let exec = Exec::new(gpu.clone(), Device::Virtual, Memory::new(allocator)).with_scratch(scratch);
    let mut log = Log::default();
    // A failure is a row.
    let _ = match case.work {
        Work::Train(plan) => train(&Rc::from(plan), &exec, &mut log),
        Work::Script(script) => follow(&script, &exec, &mut log),
    };
    log.0
}

/// Holds one side against PyTorch over all fixtures and tells of every difference.
fn hold(side: impl Fn(&Path, &Gpu, Rc<dyn Scratch>) -> Rows) {
    let mut off = Vec::new();
    for (gpu, case) in fixtures() {
        let got = side(&case.join("experiment.toml"), gpu, scratch_of(&case, gpu));
        let mut want = recorded(&case.join("probes.csv"));
        // What a script finds that catches the exception.
        let failure = case.join("at_oom.csv");
        if failure.exists() {
            want.extend(recorded(&failure));
        }
        let lines = differences(&want, &got, 5);
        if !lines.is_empty() {
            off.push(format!("{} on {}:\n  {}", name(&case), gpu.name, lines.join("\n  ")));
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
}

#[test]
fn predicted_rows_are_pytorchs() {
    hold(|case, gpu, scratch| {
        let (mut rows, failure) = predicted(case, RuleContext { gpu, scratch: &*scratch }).unwrap();
        rows.extend(failure.map(|memory| (failed(), memory)));
        rows
    });
}

#[test]
fn measured_rows_are_pytorchs() {
    hold(measured);
}
