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

/// The struct's bytes, and how many blocks the entries take.
fn pack<const L: usize>(entries: &[Entry<L>]) -> (Vec<u8>, u32) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_size_that_the_compiler_gives_it() {
        for (bytes, lists) in [(pack::<1>(&[]).0, 1), (pack::<3>(&[]).0, 3), (pack::<6>(&[]).0, 6)] {
            let most = tensors(lists);
            assert_eq!(bytes.len(), (8 * most * (lists + 1) + 4 * most + 4).next_multiple_of(8));
            assert!(bytes.len() < 4096 - 256);
        }
    }

    #[test]
    fn every_tensor_begins_with_a_block_of_its_own() {
        let entry = |elements| Entry { addresses: [512], elements };
        let (bytes, blocks) = pack(&[entry(1), entry(4097), entry(0), entry(8192)]);
        assert_eq!(blocks, 1 + 2 + 2);
        let first = 16 * tensors(1);
        let firsts: Vec<u32> = bytes[first..first + 16].chunks(4).map(|b| u32::from_ne_bytes(b.try_into().expect("four"))).collect();
        assert_eq!(firsts, [0, 1, 3, 3]);
    }
}
