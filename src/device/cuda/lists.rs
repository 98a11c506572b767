//! Launches over many tensors at once, as multi-tensor optimizers need them: addresses travel in the kernel's arguments, so the GPU
//! allocates nothing for them. The same struct as `Lists` of the prelude.

use super::context::Cuda;
use super::launch::{Arg, Grid};
use super::module::Kernel;

/// Elements of one tensor that a block has.
const CHUNK: u64 = 4096;

/// Tensors a launch, so that all arguments stay below the 4 KiB that every GPU takes.
const fn tensors(lists: usize) -> usize {
    3584 / (8 * lists + 12)
}

/// One tensor of each list.
#[derive(Debug, Clone, Copy)]
pub struct Entry<const L: usize> {
    /// Their addresses; 0 where a list has none.
    pub addresses: [u64; L],
    /// Elements of each.
    pub elements: u64,
}

impl Cuda {
    /// Launches `kernel(lists, args…)` over all entries, in as few launches as hold them.
    pub fn many<const L: usize>(&self, kernel: Kernel<'_>, entries: &[Entry<L>], args: &[Arg<'_>]) {
        for entries in entries.chunks(tensors(L)) {
            let (lists, blocks) = pack(entries);
            if blocks == 0 {
                continue;
            }
            let mut all = vec![Arg::Struct(&lists)];
            all.extend_from_slice(args);
            self.launch(kernel, Grid::line(blocks, 256), &all);
        }
    }
}

/// The struct's bytes as the GPU reads them, and how many blocks of threads the entries take.
///
/// # Panics
/// More entries than one launch takes, of which [`Cuda::many`] makes several.
#[must_use]
pub fn pack<const L: usize>(entries: &[Entry<L>]) -> (Vec<u8>, u32) {
    let most = tensors(L);
    let mut bytes = Vec::with_capacity(most * (8 * L + 12) + 8);
    let mut words = |of: &dyn Fn(&Entry<L>) -> u64| {
        entries.iter().for_each(|e| bytes.extend(of(e).to_ne_bytes()));
        bytes.resize(bytes.len() + (most - entries.len()) * 8, 0);
    };
    for list in 0..L {
        words(&|e| e.addresses[list]);
    }
    words(&|e| e.elements);
    let mut blocks = 0u64;
    for entry in entries {
        bytes.extend(u32::try_from(blocks).expect("a launch has fewer than 2^32 blocks").to_ne_bytes());
        blocks += entry.elements.div_ceil(CHUNK);
    }
    bytes.resize(bytes.len() + (most - entries.len()) * 4, 0);
    bytes.extend((entries.len() as u32).to_ne_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    (bytes, u32::try_from(blocks).expect("a launch has fewer than 2^31 blocks of 4096 elements each"))
}
