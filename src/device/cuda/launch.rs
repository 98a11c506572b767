//! Launches: a kernel, how many threads, and its arguments as the machine words or structs that its source declares.

use std::ffi::c_void;

use cudarc::driver::sys;

use super::context::Cuda;
use super::error::driver;
use super::module::Kernel;

/// Most arguments a kernel of this program has.
const MOST: usize = 24;

/// How many threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks in x, y and z.
    pub blocks: (u32, u32, u32),
    /// Threads a block, in x, y and z.
    pub threads: (u32, u32, u32),
}

impl Grid {
    /// Threads a block of a map over elements.
    const MAP_THREADS: u32 = 256;

    /// Blocks and threads in one dimension.
    #[must_use]
    pub const fn line(blocks: u32, threads: u32) -> Self {
        Self { blocks: (blocks, 1, 1), threads: (threads, 1, 1) }
    }

    /// For a grid-stride loop over `items`, each a thread's turn: as many threads as items, up to what keeps the GPU full.
    #[must_use]
    pub fn map(items: u64, multiprocessors: u32) -> Self {
        let blocks = items.div_ceil(u64::from(Self::MAP_THREADS)).clamp(1, u64::from(multiprocessors) * 32);
        Self::line(u32::try_from(blocks).expect("clamped to a few thousand"), Self::MAP_THREADS)
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// A number or an address of up to 8 bytes, its low bytes first.
    Word(u64),
    /// A struct passed by value, byte for byte.
    Struct(&'a [u8]),
}

macro_rules! words {
    ($($from:ty => $to_bits:expr),+ $(,)?) => { $(
        impl From<$from> for Arg<'_> {
            fn from(x: $from) -> Self { Self::Word($to_bits(x)) }
        }
    )+ };
}
words! {
    u64 => |x| x,
    u32 => u64::from,
    i32 => |x: i32| u64::from(x.cast_unsigned()),
    i64 => i64::cast_unsigned,
    f32 => |x: f32| u64::from(x.to_bits()),
    f64 => f64::to_bits,
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Struct(bytes)
    }
}

impl Cuda {
    /// Launches a kernel. Its source says which arguments it takes: `args` are these, in order and of the same widths.
    pub fn launch(&self, kernel: Kernel<'_>, grid: Grid, args: &[Arg<'_>]) {
        let mut words = [0u64; MOST];
        let mut pointers = [std::ptr::null_mut::<c_void>(); MOST];
        assert!(args.len() <= MOST, "a kernel takes at most {MOST} arguments");
        for ((arg, word), pointer) in args.iter().zip(&mut words).zip(&mut pointers) {
            *pointer = match arg {
                Arg::Word(value) => {
                    *word = *value;
                    (word as *mut u64).cast()
                }
                Arg::Struct(bytes) => bytes.as_ptr().cast_mut().cast(),
            };
        }
        self.attempt(|| {
            let function = self.modules.function(kernel)?;
            let (blocks, threads, stream) = (grid.blocks, grid.threads, std::ptr::null_mut());
            // SAFETY: the function belongs to a loaded module. The driver reads as many arguments as the kernel declares, each at its pointer:
            // the caller, who stands beside the source, passes the same. Addresses among them are live blocks, as whoever owns them promises.
            driver("cuLaunchKernel", unsafe {
                sys::cuLaunchKernel(
                    function,
                    blocks.0,
                    blocks.1,
                    blocks.2,
                    threads.0,
                    threads.1,
                    threads.2,
                    0,
                    stream,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            })
            .map_err(|e| e.within(kernel.entry))
        });
    }
}
