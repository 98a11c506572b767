//! Running an experiment's text on a device, without files or a command line.

use std::rc::Rc;

use runner::alloc::{Allocator, Placement};
use runner::device::Device;
use runner::device::host::{Host, HostBacking};
use runner::exec::Exec;
use runner::experiment::load_str;
use runner::gpu::{DEFAULT, Gpu};
use runner::model::Work;
use runner::record::{Measured, MicroStep};
use runner::tensor::Memory;
use runner::train::{Observer, follow, train};

/// Everything that a run told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) rows: Vec<Measured>,
    pub(crate) micro_steps: Vec<MicroStep>,
}

impl Told {
    /// Losses in order, of the micro-steps that had one.
    pub(crate) fn losses(&self) -> Vec<f64> {
        self.micro_steps.iter().filter_map(|m| m.loss).collect()
    }
}

impl Observer for Told {
    fn row(&mut self, row: &Measured) {
        self.rows.push(*row);
    }

    fn micro_step(&mut self, done: &MicroStep) {
        self.micro_steps.push(*done);
    }
}

/// A host that stands in for the default GPU.
pub(crate) fn host() -> Exec {
    let gpu = Gpu::named(DEFAULT).unwrap();
    let backing = HostBacking::new(Placement::new(gpu.total_memory));
    let device = Device::Host(Host::new(backing.arena()));
    Exec::new(gpu.clone(), device, Memory::new(Allocator::new(Default::default(), Box::new(backing))))
}

/// Nothing computes, on the same addresses.
pub(crate) fn virtual_device() -> Exec {
    let gpu = Gpu::named(DEFAULT).unwrap();
    let backing = Placement::new(gpu.total_memory);
    Exec::new(gpu.clone(), Device::Virtual, Memory::new(Allocator::new(Default::default(), Box::new(backing))))
}

/// Runs the only case of an experiment. Running out of memory is told by the last row.
pub(crate) fn run(text: &str, exec: &Exec) -> Told {
    let experiment = load_str("experiment.toml", text, &[]).unwrap_or_else(|e| panic!("{}", e.render(false)));
    let [case] = &experiment.cases[..] else { panic!("one case, not a sweep") };
    let mut told = Told::default();
    let ended = match &case.work {
        Work::Train(plan) => train(&Rc::new((**plan).clone()), exec, &mut told),
        Work::Script(script) => follow(script, exec, &mut told),
    };
    assert_eq!(ended.is_err(), told.rows.last().is_some_and(|r| r.status == runner::record::Status::Oom));
    told
}
