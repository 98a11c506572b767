//! What an engine asks for, by formula. Not which engine is chosen.
//!
//! Sizes in bytes. Copies in channels-last order hold channels padded to 16 bytes. Partial results are f32. Counters are 4 bytes a part. An
//! engine's 16 bytes of its own are counted with each; 131 more where its blocks take tile after tile.
//!
//! Invariant: parts are counted per tile, so a size jumps where a dimension needs one tile more.

use super::geometry::Geometry;
use crate::scratch::Direction;

/// How much is asked for, and for what. Numbers without a name are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing.
    None,
    /// All three tensors copied in channels-last order, and so many bytes.
    Layout(u128),
    /// Input and weight copied in channels-last order.
    LayoutInput(u128),
    /// All three tensors copied, nothing padded.
    Copies(u128),
    /// A matrix product with 256 bytes, and counters of so many bytes.
    Counters(u128),
    /// A matrix product with 256 bytes, and a counter for each tile of the result.
    TileCounters([u128; 2]),
    /// A matrix product whose sum is split in so many parts, with 256 bytes and so many bytes of counters.
    Parts { parts: u128, counters: u128 },
    /// The same, its parts in the tensors' type.
    NarrowParts(u128),
    /// The same, a part for each 64 terms, rounded up or down.
    PartsBy64 { up: bool },
    /// A gradient of the weight for each sample, and so many bytes.
    Samples(u128),
    /// Where each element of the window lies.
    Offsets,
    /// Tiles of 4×4 outputs as 6×6 products: transformed input, output and weight.
    Winograd,
    /// All three tensors copied, and so many slices of the gradient of the weight.
    Slices(u128),
    /// All three tensors copied; tiles of the result go to blocks of threads in clusters, and what does not fill all multiprocessors is split.
    Blocks { tile: [u128; 2], cluster: [u128; 2] },
}

impl Plan {
    /// Bytes that it asks for on a GPU with so many multiprocessors.
    pub(super) fn bytes(self, g: &Geometry, multiprocessors: u32) -> u128 {
        match self {
            Self::None => 0,
            Self::Layout(own) => layout(g) + own,
            Self::LayoutInput(own) => g.padded_input() * g.element + moved_weight(g) + own,
            Self::Copies(own) => {
                let [input, output] = [g.n * g.c * g.pixels_in(), g.n * g.k * g.pixels_out()];
                (input + output + g.weight()) * g.element + own
            }
            Self::Counters(counters) => 256 + counters,
            Self::TileCounters(tile) => {
                let [m, n, _] = product(g);
                256 + (4 * m.div_ceil(tile[0]) * n.div_ceil(tile[1])).next_multiple_of(16)
            }
            Self::Parts { parts, counters } => 256 + counters + parts * result(g) * 4,
            Self::NarrowParts(parts) => 256 + parts * result(g) * g.element,
            Self::PartsBy64 { up } => {
                let [_, _, depth] = product(g);
                let parts = if up { depth.div_ceil(64) } else { (depth / 64).max(1) };
                let most = if g.direction == Direction::GradWeight { u128::MAX } else { 16 };
                256 + parts.min(most) * result(g) * 4
            }
            Self::Samples(own) => g.n * g.weight() * 4 + own,
            Self::Offsets => 4 * g.group_c * g.window(),
            Self::Winograd => {
                let tiles = g.n * g.out_h.div_ceil(4) * g.out_w.div_ceil(4);
                36 * 4 * (g.c * g.k + tiles * (g.c + g.k))
            }
            Self::Slices(slices) => layout(g) + slices * g.padded_weight() * 4 + 144,
            Self::Blocks { tile, cluster } => layout(g) + blocks(g, tile, cluster, multiprocessors),
        }
    }
}

fn layout(g: &Geometry) -> u128 {
    (g.padded_input() + g.padded_output()) * g.element + moved_weight(g)
}

fn moved_weight(g: &Geometry) -> u128 {
    if g.weight_moves() { g.padded_weight() * g.element } else { 0 }
}

/// Rows, columns and depth of the matrix product that a 1×1 convolution of one sample is; all samples together where there is one pixel.
fn product(g: &Geometry) -> [u128; 3] {
    let rows = if g.h == 1 { g.n } else { g.pixels_in() };
    match g.direction {
        Direction::Forward => [rows, g.k, g.c],
        Direction::GradInput => [rows, g.c, g.k],
        Direction::GradWeight => [g.k, g.c, g.pixels_in()],
    }
}

/// Elements of its result.
fn result(g: &Geometry) -> u128 {
    let [m, n, _] = product(g);
    m * n
}

/// Blocks that run at once in clusters of a size, of 132 multiprocessors: some of them are left over where a GPU's parts hold no whole cluster.
const RESIDENT: [u128; 8] = [132, 132, 117, 120, 110, 102, 112, 120];

/// What blocks ask for besides copies.
fn blocks(g: &Geometry, tile: [u128; 2], cluster: [u128; 2], multiprocessors: u32) -> u128 {
    let (rows, columns, taps, depth) = match g.direction {
        Direction::Forward => (g.n * g.pixels_out(), g.k, 1, g.c * g.window()),
        Direction::GradInput => (g.n * g.pixels_in(), g.c, 1, g.k * g.window()),
        Direction::GradWeight => (g.group_k(), g.group_c, g.window(), g.n * g.pixels_out()),
    };
    let tiles = rows.div_ceil(tile[0]).next_multiple_of(cluster[0]) * (columns.div_ceil(tile[1]) * taps).next_multiple_of(cluster[1]);
    let of_132 = usize::try_from(cluster[0] * cluster[1] - 1).ok().and_then(|at| RESIDENT.get(at)).copied().unwrap_or(132);
    let resident = (of_132 * u128::from(multiprocessors) / 132).max(1);
    let several = tiles > resident;
    let last = if several { tiles % resident } else { tiles };
    let most = resident.checked_div(last).unwrap_or(1);
    let steps = depth.div_ceil(if g.is_f32() { 32 } else { 64 });
    let parts = match g.direction {
        Direction::GradWeight if several => most,
        Direction::GradWeight => parts_of_samples(g.is_f32(), most, steps),
        _ if several => parts_of_last(g.is_f32(), most, steps),
        _ => parts_of_all(g.is_f32(), most, steps),
    };
    let weight = g.direction == Direction::GradWeight;
    if parts < 2 {
        return if several || weight { 147 } else { 16 };
    }
    let own = if several && !weight { 179 } else { 175 };
    parts * last * tile[0] * tile[1] * 4 + 4 * last * meetings(parts) + own
}

/// Parts of the sum over all samples' pixels, of which `most` fit: a power of two up to 8, or a part for each 33 (f32) or 17 steps.
fn parts_of_samples(f32: bool, most: u128, steps: u128) -> u128 {
    let (long, short) = if f32 { (33, 15) } else { (17, 12) };
    if steps / long >= 9 { most.min(steps / long) } else { power_of_two(most.min(steps / short).min(8)).max(1) }
}

/// Parts of the tiles that are left for the last round.
fn parts_of_last(f32: bool, most: u128, steps: u128) -> u128 {
    let parts = match (f32, steps) {
        (_, 0..=8) => 1,
        (true, 9..=22) => 2,
        (true, 23..=36) | (false, 9..=20) => 4,
        (true, 37..=56) => 8,
        _ => 16,
    };
    if f32 && most == 3 && steps <= 27 { parts.min(2) } else { parts.min(most) }
}

/// Parts where all tiles fit in one round.
fn parts_of_all(f32: bool, most: u128, steps: u128) -> u128 {
    if f32 && most == 3 && steps >= 96 { 3 } else { power_of_two(most.min(steps / if f32 { 16 } else { 12 }).min(8)).max(1) }
}

/// The largest power of two up to `n`, or 0.
fn power_of_two(n: u128) -> u128 {
    n.checked_ilog2().map_or(0, |log| 1 << log)
}

/// How often parts meet in pairs, until one is left; an odd one meets none and counts.
fn meetings(mut parts: u128) -> u128 {
    let mut all = 0;
    while parts > 1 {
        parts = parts.div_ceil(2);
        all += parts;
    }
    all
}
