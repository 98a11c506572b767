//! Launches: a kernel, how many threads, and its arguments as the machine words or structs that its source declares.

use std::ffi::c_void;

use cudarc::driver::sys;

use super::context::Cuda;
use super::error::driver;
use super::module::{Kernel, Source};
use super::view::View;
use crate::device::Operand;

/// Most arguments a kernel of this program has.
const MOST: usize = 24;

/// More memory of a block than this is given on request only.
const USUAL_SHARED: u32 = 48 << 10;

/// How many threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks in x, y and z.
    pub blocks: (u32, u32, u32),
    /// Threads a block, in x, y and z.
    pub threads: (u32, u32, u32),
}

impl Grid {
    /// Blocks and threads in one dimension.
    #[must_use]
    pub const fn line(blocks: u32, threads: u32) -> Self {
        Self { blocks: (blocks, 1, 1), threads: (threads, 1, 1) }
    }

    /// Blocks of 32 × 32 threads, of which `tall` share the rows of each 32 columns.
    #[must_use]
    pub fn columns(columns: u64, tall: u32) -> Self {
        Self::columns_of(columns, 32, tall)
    }

    /// Blocks of 1024 threads, each for `width` columns, of which `tall` share the rows.
    #[must_use]
    pub fn columns_of(columns: u64, width: u32, tall: u32) -> Self {
        Self { blocks: (count(columns.div_ceil(u64::from(width))), tall, 1), threads: (width, 1024 / width, 1) }
    }

    /// A warp an item.
    #[must_use]
    pub fn warps(items: u64) -> Self {
        Self::line(count(items.div_ceil(4).max(1)), 128)
    }

    /// A thread an item.
    #[must_use]
    pub fn each(items: u64) -> Self {
        Self::line(count(items.div_ceil(256).max(1)), 256)
    }
}

fn count(blocks: u64) -> u32 {
    u32::try_from(blocks).ok().filter(|&b| b < 1 << 31).expect("a grid has fewer than 2^31 blocks, each of many elements")
}

/// The longest row that a warp takes alone.
const WARP_ROW: u64 = 1024;

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

impl<'a> From<&'a View> for Arg<'a> {
    fn from(view: &'a View) -> Self {
        Self::Struct(view.bytes())
    }
}

impl From<Operand<'_>> for Arg<'_> {
    /// The address alone: for kernels that read elements one after another.
    fn from(operand: Operand<'_>) -> Self {
        Self::Word(operand.address)
    }
}

impl Cuda {
    /// Launches a kernel over the elements of `out`, whatever the layouts: `kernel(n, VIEW out, VIEW input…, more…)`.
    ///
    /// It is compiled for the type of `out`.
    pub fn map<const N: usize>(
        &self,
        source: &'static Source,
        entry: &'static str,
        out: Operand<'_>,
        inputs: [Operand<'_>; N],
        more: &[Arg<'_>],
    ) {
        let kernel = Kernel { source, entry, types: &[out.meta.dtype] };
        let n = out.meta.numel();
        if n == 0 {
            return;
        }
        let views = inputs.map(View::of);
        let out = View::of(out);
        let mut args = vec![Arg::from(n), Arg::from(&out)];
        args.extend(views.iter().map(Arg::from));
        args.extend_from_slice(more);
        self.launch(kernel, self.full(n.div_ceil(4)), &args);
    }

    /// For a grid-stride loop: a thread a turn, up to what keeps the GPU full.
    #[must_use]
    pub fn full(&self, turns: u64) -> Grid {
        let most = u64::from(self.facts.gpu.multiprocessors) * 16;
        Grid::line(count(turns.div_ceil(256).clamp(1, most)), 256)
    }

    /// Launches a kernel over rows of elements that lie one after another: `kernel(rows, columns, wide, args…)`. A short row is a warp's, a
    /// long one a block's.
    pub fn rows(&self, kernel: Kernel<'_>, rows: u64, columns: u64, args: &[Arg<'_>]) {
        if rows == 0 {
            return;
        }
        let wide = columns > WARP_ROW;
        let grid = if wide { Grid::line(count(rows), 512) } else { Grid::warps(rows) };
        let mut all = vec![Arg::from(rows), Arg::from(columns), Arg::from(u32::from(wide))];
        all.extend_from_slice(args);
        self.launch(kernel, grid, &all);
    }

    /// Launches a kernel. Its source says which arguments it takes: `args` are these, in order and of the same widths.
    pub fn launch(&self, kernel: Kernel<'_>, grid: Grid, args: &[Arg<'_>]) {
        self.launch_with_shared(kernel, grid, 0, args);
    }

    /// Launches a kernel whose blocks have `shared` bytes of memory besides what the source declares.
    ///
    /// # Panics
    /// There are more arguments than any kernel of this program takes.
    pub fn launch_with_shared(&self, kernel: Kernel<'_>, grid: Grid, shared: u32, args: &[Arg<'_>]) {
        if self.rehearses {
            self.modules.note(kernel);
            return;
        }
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
            let function = self.modules.function(self, kernel)?;
            let (blocks, threads, stream) = (grid.blocks, grid.threads, std::ptr::null_mut());
            if shared > USUAL_SHARED {
                let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: the function belongs to a loaded module; the driver refuses what the GPU does not have.
                driver("cuFuncSetAttribute", unsafe { sys::cuFuncSetAttribute(function, attribute, shared.cast_signed()) })
                    .map_err(|e| e.within(kernel.entry))?;
            }
            // SAFETY: the function belongs to a loaded module. The driver reads as many arguments as the kernel declares, each at its
            // pointer: the caller, who stands beside the source, passes the same. Addresses among them are live blocks, as whoever owns
            // them promises.
            driver("cuLaunchKernel", unsafe {
                sys::cuLaunchKernel(
                    function,
                    blocks.0,
                    blocks.1,
                    blocks.2,
                    threads.0,
                    threads.1,
                    threads.2,
                    shared,
                    stream,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            })
            .map_err(|e| e.within(kernel.entry))
        });
    }
}
