//! Which formula gives the size that was answered. Several may: the engine's settings tell its blocks, and else the first of a list counts. Where
//! nobody asked for settings, the blocks of every engine are tried last.

use super::answers::{Answer, Settings};
use super::geometry::Geometry;
use super::plan::{Copied, Plan};
use crate::scratch::Direction;

/// cuDNN's numbers of tiles: rows, columns.
const TILES: [(i32, [u128; 2]); 17] = [
    (0, [128, 128]),
    (1, [128, 64]),
    (2, [128, 32]),
    (3, [256, 128]),
    (4, [256, 64]),
    (5, [64, 64]),
    (6, [128, 256]),
    (7, [64, 128]),
    (8, [64, 32]),
    (9, [64, 256]),
    (11, [32, 16]),
    (14, [16, 64]),
    (16, [256, 32]),
    (18, [64, 192]),
    (19, [128, 192]),
    (20, [256, 96]),
    (23, [32, 128]),
];

/// Tiles of matrix products, in whose counters sizes are seen.
const PRODUCT_TILES: [[u128; 2]; 8] = [[128, 64], [128, 128], [64, 64], [256, 128], [64, 128], [64, 32], [32, 32], [256, 64]];

/// The plan whose size on a GPU with so many multiprocessors is the one that was answered.
pub(super) fn label(answer: &Answer, g: &Geometry, multiprocessors: u32) -> Option<Plan> {
    let bytes = u128::from(answer.bytes);
    let gives = |plan: &Plan| plan.bytes(g, multiprocessors) == bytes;
    let of_settings = of_settings(&answer.settings);
    let listed = || listed(g).into_iter();
    let likely = of_settings.blocks.into_iter().chain(listed()).chain(of_settings.parts);
    let unasked = answer.settings.tile_size.is_none();
    likely.chain(divided(g, bytes)).chain(unasked.then(any_blocks).into_iter().flatten()).find(gives)
}

/// What an engine's settings name.
struct OfSettings {
    blocks: Option<Plan>,
    parts: Vec<Plan>,
}

fn of_settings(settings: &Settings) -> OfSettings {
    let tile = settings.tile_size.and_then(|number| TILES.iter().find(|(n, _)| *n == number)).map(|(_, tile)| *tile);
    let count = |knob: i32| u128::try_from(knob).ok().filter(|&count| count > 0);
    let cluster = settings.tile_cga_m.and_then(count).zip(settings.tile_cga_n.and_then(count));
    let split = settings.workspace.unwrap_or(0) == 0;
    let blocks = tile.zip(cluster).map(|(tile, (m, n))| Plan::Blocks { tile, cluster: [m, n], split });
    let mut parts: Vec<Plan> = settings.split_k.and_then(count).map(Plan::Slices).into_iter().collect();
    let buffers = settings.split_k_buf.and_then(count).unwrap_or(1);
    parts.extend(tile.into_iter().flat_map(|tile| Copied::ALL.map(|copied| Plan::TileParts { tile, copied, parts: buffers })));
    OfSettings { blocks, parts }
}

/// Plans without a number of their own, in the order in which they are tried.
fn listed(g: &Geometry) -> Vec<Plan> {
    let of_weight = g.direction == Direction::GradWeight;
    let mut plans = vec![Plan::None];
    if g.is_product() {
        plans.extend([16, 128, 144].map(Plan::Counters));
        if of_weight {
            plans.extend([0, 272, 384, 400].map(Plan::Samples));
            plans.extend(PRODUCT_TILES.map(Plan::SamplesTiles));
        }
        plans.extend([true, false].map(|up| Plan::PartsBy64 { up }));
    }
    plans.extend([Plan::Layout(16), Plan::Layout(147)]);
    if of_weight {
        plans.extend([Plan::Samples(0), Plan::Layout(144)]);
        if (g.r, g.s, g.stride) == (3, 3, 1) {
            plans.push(Plan::Winograd);
        }
    }
    plans.extend([
        Plan::Copies(16),
        Plan::LayoutOperands(16),
        Plan::LayoutOperands(147),
        Plan::CopiesOperands,
        Plan::LayoutOutputAndWeight,
    ]);
    if !g.is_product() {
        plans.extend([Plan::Offsets, Plan::OutputOffsets]);
    }
    if of_weight {
        plans.push(Plan::Weight);
        plans.extend([false, true].map(|narrowed| Plan::WeightCounters { narrowed }));
        plans.extend([[256, 64], [64, 64]].map(Plan::Counted));
    }
    plans
}

/// Matrix products in so many parts as the size is a multiple of one.
fn divided(g: &Geometry, bytes: u128) -> impl Iterator<Item = Plan> {
    let result = g.product_result();
    let of = move |own: u128, element: u128| {
        let parts = bytes.saturating_sub(own) / (result * element);
        Some(parts).filter(|parts| g.is_product() && (1..=u128::from(u32::MAX)).contains(parts))
    };
    let wide = |counters| of(256 + counters, 4).map(|parts| Plan::Parts { parts, counters });
    let narrow = of(256, g.element).filter(|_| g.element == 2).map(Plan::NarrowParts);
    let tiles = g.is_product().then_some(PRODUCT_TILES).into_iter().flatten().map(Plan::TileCounters);
    [wide(0), narrow, wide(16)].into_iter().flatten().chain(tiles)
}

/// Blocks of all tiles in all clusters that there are, with the last tiles split.
fn any_blocks() -> impl Iterator<Item = Plan> {
    let clusters = || (1..=8).flat_map(|m| (1..=8).map(move |n| [m, n])).filter(|[m, n]| m * n <= 16);
    TILES.iter().flat_map(move |(_, tile)| clusters().map(|cluster| Plan::Blocks { tile: *tile, cluster, split: true }))
}
