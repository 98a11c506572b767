//! What an engine asks for, by formula. Not which engine is chosen.
//!
//! Sizes in bytes. Copies in channels-last order hold channels padded to 16 bytes. Partial results are f32. Counters are 4 bytes a part. An
//! engine's 16 bytes of its own are counted with each; 131 more where its blocks take tile after tile.
//!
//! Invariant: parts are counted per tile, so a size jumps where a dimension needs one tile more.

use super::geometry::Geometry;
use crate::scratch::Direction;

/// How much is asked for, and for what. Numbers without a name are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plan {
    /// Nothing.
    None,
    /// All three tensors copied in channels-last order, and so many bytes.
    Layout(u128),
    /// Input and weight copied in channels-last order.
    LayoutOperands(u128),
    /// Input and weight copied, nothing padded.
    CopiesOperands,
    /// Output and weight copied in channels-last order.
    LayoutOutputAndWeight,
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
    /// The same with 256 bytes, and a counter for each tile of the result.
    SamplesTiles([u128; 2]),
    /// Where each element of the window lies, for the input's channels of a group.
    Offsets,
    /// The same for the output's channels.
    OutputOffsets,
    /// Tiles of 4×4 outputs as 6×6 products: transformed input, output and weight.
    Winograd,
    /// All three tensors copied, and so many slices of the gradient of the weight.
    Slices(u128),
    /// All three tensors copied, and a counter for each tile of the weight's gradient.
    Counted([u128; 2]),
    /// All three tensors copied; tiles of the result go to blocks of threads in clusters, and what does not fill all multiprocessors is split,
    /// where the engine splits.
    Blocks { tile: [u128; 2], cluster: [u128; 2], split: bool },
    /// Copies; tiles of the result in so many parts of f32, with one counter more than parts for each.
    TileParts { tile: [u128; 2], copied: Copied, parts: u128 },
    /// A copy of the weight.
    Weight,
    /// Counters for tiles of the weight's gradient, with the gradient in f32 where it is to be narrowed.
    WeightCounters { narrowed: bool },
}

/// What a plan copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Copied {
    /// All three tensors in channels-last order, channels padded.
    All,
    /// The same without the output.
    Operands,
    /// All three, nothing padded.
    Plain,
    /// All three in f32, nothing padded.
    Single,
    /// Input and output, nothing padded.
    Tensors,
    /// Input and weight, nothing padded.
    PlainOperands,
}

impl Copied {
    /// In the order in which a size is tried against them.
    pub(super) const ALL: [Self; 6] = [Self::All, Self::Operands, Self::Single, Self::Plain, Self::Tensors, Self::PlainOperands];

    fn bytes(self, g: &Geometry) -> u128 {
        let (input, output) = (g.n * g.c * g.pixels_in(), g.n * g.k * g.pixels_out());
        match self {
            Self::All => layout(g),
            Self::Operands => g.padded_input() * g.element + moved_weight(g),
            Self::Plain => (input + output + g.weight()) * g.element,
            Self::Single => (input + output + g.weight()) * 4,
            Self::Tensors => (input + output) * g.element,
            Self::PlainOperands => (input + g.weight()) * g.element,
        }
    }
}

impl Plan {
    /// Bytes that it asks for on a GPU with so many multiprocessors.
    pub(super) fn bytes(self, g: &Geometry, multiprocessors: u32) -> u128 {
        match self {
            Self::None => 0,
            Self::Layout(own) => layout(g) + own,
            Self::LayoutOperands(own) => Copied::Operands.bytes(g) + own,
            Self::CopiesOperands => Copied::PlainOperands.bytes(g) + 16,
            Self::LayoutOutputAndWeight => (g.padded_output() + g.padded_weight()) * g.element + 16,
            Self::Copies(own) => Copied::Plain.bytes(g) + own,
            Self::Counters(counters) => 256 + counters,
            Self::TileCounters(tile) => 256 + tile_counters(g, tile),
            Self::Parts { parts, counters } => 256 + counters + parts * g.product_result() * 4,
            Self::NarrowParts(parts) => 256 + parts * g.product_result() * g.element,
            Self::PartsBy64 { up } => {
                let [_, _, depth] = g.product();
                let parts = if up { depth.div_ceil(64) } else { (depth / 64).max(1) };
                let most = if g.direction == Direction::GradWeight { u128::MAX } else { 16 };
                256 + parts.min(most) * g.product_result() * 4
            }
            Self::Samples(own) => g.n * g.weight() * 4 + own,
            Self::SamplesTiles(tile) => g.n * g.weight() * 4 + 256 + tile_counters(g, tile),
            Self::Offsets => 4 * g.group_c * g.window(),
            Self::OutputOffsets => 4 * g.group_k() * g.window(),
            Self::Winograd => {
                let tiles = g.n * g.out_h.div_ceil(4) * g.out_w.div_ceil(4);
                36 * 4 * (g.c * g.k + tiles * (g.c + g.k))
            }
            Self::Slices(slices) => layout(g) + slices * g.padded_weight() * 4 + 144,
            Self::Counted(tile) => layout(g) + 144 + 4 * tiles(g, tile, g.padded_group_c()),
            Self::Blocks { tile, cluster, split } => layout(g) + blocks(g, tile, cluster, split, multiprocessors),
            Self::TileParts { tile, copied, parts } => {
                let channels = if copied == Copied::Single { g.group_c } else { g.padded_group_c() };
                copied.bytes(g) + tiles(g, tile, channels) * (parts * tile[0] * tile[1] * 4 + 4 * (parts + 1)) + 175
            }
            Self::Weight => g.weight() * g.element + 16,
            Self::WeightCounters { narrowed } => {
                let counters = 4 * g.group_k().div_ceil(16).next_multiple_of(2) * (g.group_c * g.window()).div_ceil(32);
                if narrowed { g.weight() * 4 + counters + 16 } else { counters }
            }
        }
    }
}

fn layout(g: &Geometry) -> u128 {
    (g.padded_input() + g.padded_output()) * g.element + moved_weight(g)
}

fn moved_weight(g: &Geometry) -> u128 {
    if g.weight_moves() { g.padded_weight() * g.element } else { 0 }
}

/// A counter for each tile of a matrix product's result, in all a multiple of 16 bytes.
fn tile_counters(g: &Geometry, tile: [u128; 2]) -> u128 {
    let [m, n, _] = g.product();
    (4 * m.div_ceil(tile[0]) * n.div_ceil(tile[1])).next_multiple_of(16)
}

/// Tiles of the result, of a weight whose groups have so many input channels.
fn tiles(g: &Geometry, tile: [u128; 2], channels: u128) -> u128 {
    let (rows, columns) = match g.direction {
        Direction::Forward => (g.n * g.pixels_out(), g.group_k()),
        Direction::GradInput => (g.n * g.pixels_in(), g.group_c),
        Direction::GradWeight if g.groups > 1 => return across(g, g.k, tile[0]) * g.group_c.div_ceil(tile[1]) * g.window(),
        Direction::GradWeight => (g.group_k(), channels * g.window()),
    };
    rows.div_ceil(tile[0]) * columns.div_ceil(tile[1])
}

/// Tiles that all channels are across: groups narrower than a tile share one.
fn across(g: &Geometry, channels: u128, side: u128) -> u128 {
    if channels / g.groups < side { channels.div_ceil(side) } else { g.groups * (channels / g.groups).div_ceil(side) }
}

/// Blocks that run at once in clusters of a size, of 132 multiprocessors: some of them are left over where a GPU's parts hold no whole cluster.
const RESIDENT: [u128; 16] = [132, 132, 117, 120, 110, 102, 105, 120, 90, 70, 77, 84, 91, 98, 105, 112];

/// What blocks ask for besides copies.
fn blocks(g: &Geometry, tile: [u128; 2], cluster: [u128; 2], split: bool, multiprocessors: u32) -> u128 {
    // Channels in f32 go 32 at a time, window element by window element.
    let sum = |channels: u128| if g.is_f32() { channels.next_multiple_of(32) } else { channels } * g.window();
    let (rows, columns, sum) = match g.direction {
        Direction::Forward => ((g.n * g.pixels_out()).div_ceil(tile[0]), across(g, g.k, tile[1]), sum(g.group_c)),
        Direction::GradInput => ((g.n * g.pixels_in()).div_ceil(tile[0]), across(g, g.c, tile[1]), sum(g.group_k())),
        Direction::GradWeight => (across(g, g.k, tile[0]), g.group_c.div_ceil(tile[1]) * g.window(), g.n * g.pixels_out()),
    };
    let tiles = rows.next_multiple_of(cluster[0]) * columns.next_multiple_of(cluster[1]);
    let of_132 = usize::try_from(cluster[0] * cluster[1] - 1).ok().and_then(|at| RESIDENT.get(at)).copied().unwrap_or(112);
    let resident = (of_132 * u128::from(multiprocessors) / 132).max(1);
    let several = tiles > resident;
    let last = if several { tiles % resident } else { tiles };
    // A step of the sum is 128 bytes deep, but for one engine's.
    let step = if g.is_f32() { 32 } else { 64 };
    let step = if !g.is_f32() && g.direction == Direction::GradInput && tile == [128, 64] { 128 } else { step };
    let most = resident.checked_div(last).unwrap_or(1);
    let parts = if split { parts(g, several, most, sum.div_ceil(step), meeting(g, tile)) } else { 1 };
    let rounds = tiles > 2 * resident;
    if parts < 2 {
        return if rounds { 147 } else { 16 };
    }
    let own = if rounds && g.direction != Direction::GradWeight { 179 } else { 175 };
    parts * last * tile[0] * tile[1] * 4 + 4 * last * meetings(parts) + own
}

/// How many tenths of a step it takes two parts of a tile to meet: the fewer, the more a step has to multiply. In bf16 cuDNN takes it to be
/// more than seven times as long as in f16.
fn meeting(g: &Geometry, tile: [u128; 2]) -> u128 {
    let [f32, f16, bf16] = match tile[0] * tile[1] {
        0..=4096 => [248, 129, 990],
        4097..=8192 => [179, 84, 700],
        8193..=12288 => [150, 78, 600],
        12289..=16384 => [138, 69, 515],
        16385..=24576 => [125, 60, 470],
        _ => [120, 53, 450],
    };
    if g.is_f32() {
        f32
    } else if g.bf16 {
        bf16
    } else {
        f16
    }
}

/// Parts that a tile's sum over so many steps is split into, of which `most` fit: for the tiles left for the last of `several` rounds, or for all
/// where there is but one. Parts meet in pairs, so that twice as many take one `meeting` more.
fn parts(g: &Geometry, several: bool, most: u128, steps: u128, meeting: u128) -> u128 {
    if most < 2 || steps < 2 {
        return 1;
    }
    let long = most.min(steps / if g.is_f32() { 33 } else { 17 });
    let parts = if several {
        // As many as meet in the time that the whole sum would take.
        let doubled = 1 << (10 * steps / meeting).min(12);
        most.min(doubled).min(steps / if g.is_f32() { 4 } else { 2 }).max(1)
    } else if long >= 9 {
        long
    } else {
        // Those that are soonest done; all times in 10ths of a step, and as often again as keeps them whole.
        let whole = 720_720;
        let time =
            |parts: u128| 10 * whole * steps / parts + whole * meeting * u128::from((parts - 1).checked_ilog2().map_or(0, |log| log + 1));
        (1..=most.min(steps).min(64)).min_by_key(|&parts| time(parts)).unwrap_or(1)
    };
    // Each has as many steps as the longest, as far as they last.
    steps.div_ceil(steps.div_ceil(parts))
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
