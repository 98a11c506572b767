//! Where cases run: the device, the source of its segments, and a fresh allocator for each case.

use std::rc::Rc;

use crate::alloc::{Allocator, AllocatorConfig, Backing, Placement};
use crate::device::Device;
use crate::device::host::{Host, HostBacking};
use crate::exec::Exec;
use crate::gpu::Gpu;
use crate::model::Work;
use crate::tensor::Memory;
use crate::train::{self, Observer};

use super::args::DeviceName;
use super::exit::{Exit, Failure};

/// A device that is there.
pub(super) struct Place {
    kind: Kind,
    gpu: &'static Gpu,
    /// Whether nobody asked for it.
    auto: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Host,
    Virtual,
}

impl Place {
    /// The device asked for.
    ///
    /// # Errors
    /// There is none such.
    pub(super) fn choose(name: DeviceName, gpu: &'static Gpu) -> Result<Self, Failure> {
        let kind = match name {
            DeviceName::Virtual => Kind::Virtual,
            DeviceName::Host | DeviceName::Auto => Kind::Host,
            DeviceName::Cuda => {
                return Err(Failure::new(
                    Exit::NoDevice,
                    "`--device cuda` is not built into this version yet; there are `host` (the CPU) and `virtual` (memory only)",
                ));
            }
        };
        Ok(Self { kind, gpu, auto: name == DeviceName::Auto })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Host => "host",
            Kind::Virtual => "virtual",
        }
    }

    pub(super) fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    pub(super) fn is_host(&self) -> bool {
        self.kind == Kind::Host
    }

    /// For the table's head.
    pub(super) fn describe(&self) -> String {
        let why = if self.auto { " (`auto`: this version trains on no GPU)" } else { "" };
        format!("{} device{why} as {}", self.name(), self.gpu.name)
    }

    /// Runs a case to its end. Out of memory is an end: its row has been given to the observer.
    pub(super) fn run(&self, work: Work, config: AllocatorConfig, observer: &mut dyn Observer) {
        let numbers = Placement::new(self.gpu.total_memory);
        let (device, backing): (Device, Box<dyn Backing>) = match self.kind {
            Kind::Host => {
                let backing = HostBacking::new(numbers);
                (Device::Host(Host::new(backing.arena())), Box::new(backing))
            }
            Kind::Virtual => (Device::Virtual, Box::new(numbers)),
        };
        let exec = Exec::new(self.gpu.clone(), device, Memory::new(Allocator::new(config, backing)));
        // The error is the row's; what memory ran out for is all told.
        let _ = match work {
            Work::Train(plan) => train::train(&Rc::from(plan), &exec, observer),
            Work::Script(script) => train::follow(&script, &exec, observer),
        };
    }
}
