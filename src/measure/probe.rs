//! Taking rows. Reading one starts the next peak.

use crate::alloc::OutOfMemory;
use crate::record::{At, Measured, Memory as Figures, Status};
use crate::tensor::Memory;

/// The row of a phase that has just ended.
pub fn row(memory: &Memory, at: At) -> Measured {
    let figures = {
        let allocator = memory.allocator();
        Figures { allocated: allocator.allocated(), peak: allocator.peak(), reserved: allocator.reserved() }
    };
    memory.reset_peaks();
    Measured { at, memory: figures, categories: memory.categories(), status: Status::Ok }
}

/// The row of a phase in which memory ran out: what a script that catches the exception finds, after cached memory had been given back and
/// the failing operator's own tensors were gone. By the time that this is called the script's may be gone too.
#[must_use]
pub fn out_of_memory(memory: &Memory, at: At, error: &OutOfMemory) -> Measured {
    let figures = Figures { allocated: memory.allocated_at_failure(), peak: memory.allocator().peak(), reserved: error.reserved };
    Measured { at, memory: figures, categories: memory.categories_at_failure(), status: Status::Oom }
}
