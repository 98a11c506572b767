//! Where cases run: the device, the source of its segments, and a fresh allocator for each case.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::alloc::{Allocator, AllocatorConfig, Backing, Placement};
use crate::device::Device;
use crate::device::cuda::Cuda;
use crate::device::host::{Host, HostBacking};
use crate::exec::Exec;
use crate::gpu::Gpu;
use crate::measure::device_memory;
use crate::model::Work;
use crate::ops::RuleContext;
use crate::record::{DeviceMemory, Measured, MicroStep};
use crate::scratch::{Asked, Scratch};
use crate::tensor::{Memory, SharedWatcher};
use crate::train::{self, Observer, Outfit, Stop};

use super::args::DeviceName;
use super::console;
use super::exit::{Exit, Failure};

/// A device that is there.
pub(super) struct Place {
    kind: Kind,
    gpu: Gpu,
    scratch: Rc<Asked>,
}

/// What is to be said of a device, without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// `cuda`, `host` or `virtual`.
    pub(super) device: &'static str,
    /// The GPU it is or stands in for.
    pub(super) gpu: Gpu,
    /// In words, for the table's head.
    pub(super) place: String,
}

enum Kind {
    Cuda(Rc<Cuda>),
    Host,
    Virtual,
}

impl Place {
    /// The device asked for. `gpu` is the one that host and virtual stand in for, and `scratch` what its libraries ask for; a GPU is what it is.
    ///
    /// # Errors
    /// There is none such.
    pub(super) fn choose(name: DeviceName, gpu: &'static Gpu, scratch: Rc<dyn Scratch>) -> Result<Self, Failure> {
        let stand_in = |kind| Self { kind, gpu: gpu.clone(), scratch: Rc::new(Asked::new(Rc::clone(&scratch))) };
        let real = |cuda: Rc<Cuda>| {
            let libraries: Rc<dyn Scratch> = Rc::<Cuda>::clone(&cuda);
            Self { gpu: cuda.facts().gpu.clone(), kind: Kind::Cuda(cuda), scratch: Rc::new(Asked::new(libraries)) }
        };
        match name {
            DeviceName::Virtual => Ok(stand_in(Kind::Virtual)),
            DeviceName::Host => Ok(stand_in(Kind::Host)),
            DeviceName::Cuda(ordinal) => Cuda::open(ordinal).map(real).map_err(|e| Failure::new(Exit::NoDevice, e)),
            DeviceName::Auto => Ok(Cuda::open(0).map_or_else(
                |reason| {
                    console::note(&format!(
                        "running on the host, for no GPU can be used ({}); `runner devices` says more",
                        reason.in_short()
                    ));
                    stand_in(Kind::Host)
                },
                real,
            )),
        }
    }

    /// Nothing that computes, with memory without end: whatever is asked for can be had.
    pub(super) fn boundless(gpu: &'static Gpu, scratch: Rc<dyn Scratch>) -> Self {
        Self::virtual_as(Gpu { total_memory: 1 << 46, ..gpu.clone() }, scratch)
    }

    /// The virtual device, standing in for any GPU and its libraries.
    pub(super) fn virtual_as(gpu: Gpu, scratch: Rc<dyn Scratch>) -> Self {
        Self { kind: Kind::Virtual, gpu, scratch: Rc::new(Asked::new(scratch)) }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Cuda(_) => "cuda",
            Kind::Host => "host",
            Kind::Virtual => "virtual",
        }
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// What it is.
    pub(super) fn facts(&self) -> Facts {
        let place = match &self.kind {
            Kind::Cuda(cuda) => format!("cuda:{}, {}", cuda.facts().ordinal, self.gpu.full_name),
            Kind::Host | Kind::Virtual => format!("{} device as {}", self.name(), self.gpu.name),
        };
        Facts { device: self.name(), gpu: self.gpu.clone(), place }
    }

    /// An execution context with an allocator of its own.
    pub(super) fn exec(&self, config: AllocatorConfig) -> Exec {
        let numbers = || Placement::new(config.stand_in_memory(self.gpu.total_memory));
        let (device, backing): (Device, Box<dyn Backing>) = match &self.kind {
            Kind::Cuda(cuda) => (Device::Cuda(Rc::clone(cuda)), Box::new(cuda.segments())),
            Kind::Host => {
                let backing = HostBacking::new(numbers());
                (Device::Host(Host::new(backing.arena())), Box::new(backing))
            }
            Kind::Virtual => (Device::Virtual, Box::new(numbers())),
        };
        Exec::new(self.gpu.clone(), device, Memory::new(Allocator::new(config, backing))).with_scratch(self.scratch.clone())
    }

    /// What predictions go by.
    pub(super) fn rules(&self) -> RuleContext<'_> {
        RuleContext { gpu: &self.gpu, scratch: &*self.scratch }
    }

    /// What a GPU's libraries asked for since this was last called, by the request's key, in bytes; nothing where none takes part.
    pub(super) fn asked(&self) -> BTreeMap<String, u64> {
        match self.kind {
            Kind::Cuda(_) => self.scratch.take(),
            Kind::Host | Kind::Virtual => BTreeMap::new(),
        }
    }

    /// Waits for the device, and asks whether it is well.
    ///
    /// # Errors
    /// It has failed.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match &self.kind {
            Kind::Cuda(cuda) => cuda.synchronize().map_err(|e| Failure::new(Exit::Failed, e)),
            Kind::Host | Kind::Virtual => Ok(()),
        }
    }

    /// Lets `perform` go through what will run, on execution contexts that compute nothing, and compiles all kernels that it asks for, several
    /// at a time. (Else each would be compiled when it is first launched, one after another.) Where no GPU computes, nothing is done.
    pub(super) fn rehearse(&self, perform: impl FnOnce(&dyn Fn() -> Exec)) {
        if let (Kind::Cuda(cuda), Some(rehearsal)) = (&self.kind, self.rehearsal(perform)) {
            cuda.prepare(&rehearsal);
        }
    }

    /// The kernels that what `perform` goes through launches, by their source and its types; `None` where no GPU computes.
    pub(super) fn kernels(&self, perform: impl FnOnce(&dyn Fn() -> Exec)) -> Option<BTreeMap<String, BTreeSet<&'static str>>> {
        self.rehearsal(perform).map(|rehearsal| rehearsal.noted())
    }

    fn rehearsal(&self, perform: impl FnOnce(&dyn Fn() -> Exec)) -> Option<Rc<Cuda>> {
        let Kind::Cuda(cuda) = &self.kind else { return None };
        let rehearsal = cuda.rehearsal();
        perform(&|| {
            let allocator = Allocator::new(AllocatorConfig::default(), Box::new(Placement::new(self.gpu.total_memory)));
            Exec::new(self.gpu.clone(), Device::Cuda(Rc::clone(&rehearsal)), Memory::new(allocator))
        });
        Some(rehearsal)
    }

    /// Rehearses a few steps of the first cases: those of one experiment launch much the same.
    pub(super) fn rehearse_cases<'a>(&self, works: impl Iterator<Item = &'a Work>) {
        const CASES: usize = 16;
        const STEPS: u64 = 2;
        self.rehearse(|exec| {
            for work in works.take(CASES) {
                // Out of memory is an end: nothing more will be launched.
                let _ = match work {
                    Work::Train(plan) => {
                        let mut short = (**plan).clone();
                        short.settings.done = 0;
                        short.settings.steps = short.settings.steps.min(STEPS);
                        train::train(&Rc::new(short), &exec(), &mut Nobody)
                    }
                    Work::Script(script) => train::follow(script, &exec(), &mut Nobody),
                };
            }
        });
    }

    /// Runs a case to its end, and tells what a GPU held then. Out of memory is an end: its row has been given to the observer.
    /// `watcher` is told what happens to memory.
    ///
    /// # Errors
    /// The device has failed; rows given to the observer mean nothing.
    pub(super) fn run(
        &self,
        work: Work,
        config: AllocatorConfig,
        outfit: &Outfit<'_>,
        observer: &mut dyn Observer,
        watcher: SharedWatcher,
    ) -> Result<Ended, Failure> {
        let exec = self.exec(config);
        exec.memory().watch(watcher);
        let result = match work {
            Work::Train(plan) => train::train_with(&Rc::from(plan), &exec, outfit, observer),
            Work::Script(script) => train::follow(&script, &exec, observer).map_err(Stop::from),
        };
        // Where memory ran out, the last row says so.
        let stopped = result.err().filter(|stop| !matches!(stop, Stop::OutOfMemory(_))).map(|stop| stop.to_string());
        let device_memory = match &self.kind {
            Kind::Cuda(cuda) => Some(device_memory(cuda, exec.memory()).map_err(|e| Failure::new(Exit::Failed, e))?),
            Kind::Host | Kind::Virtual => None,
        };
        Ok(Ended { device_memory, stopped })
    }
}

/// How a case ended.
pub(super) struct Ended {
    /// What a GPU held.
    pub(super) device_memory: Option<DeviceMemory>,
    /// Why it ended before its last step, where it did for another reason than memory.
    pub(super) stopped: Option<String>,
}

/// Listens to a rehearsal.
struct Nobody;

impl Observer for Nobody {
    fn row(&mut self, _row: &Measured) {}

    fn micro_step(&mut self, _done: &MicroStep) {}
}
