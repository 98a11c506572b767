//! What the trees compare: sizes of a convolution, by name. Nothing here knows a formula or a tree.

use super::geometry::Geometry;

/// A size of a convolution.
pub(super) struct Measure {
    pub(super) name: &'static str,
    of: fn(&Geometry) -> u128,
}

impl Measure {
    /// What is past 64 bits is as large as any.
    pub(super) fn of(&self, g: &Geometry) -> u64 {
        u64::try_from((self.of)(g)).unwrap_or(u64::MAX)
    }
}

const fn measure(name: &'static str, of: fn(&Geometry) -> u128) -> Measure {
    Measure { name, of }
}

/// All of them. Of two that part the same shapes a growing tree takes the first.
pub(super) const MEASURES: &[Measure] = &[
    measure("f32", |g| g.is_f32().into()),
    measure("bf16", |g| g.bf16.into()),
    measure("batch", |g| g.n),
    measure("channels", |g| g.c),
    measure("height", |g| g.h),
    measure("outputs", |g| g.k),
    measure("kernel", |g| g.r),
    measure("stride", |g| g.stride),
    measure("padding", |g| g.padding),
    measure("groups", |g| g.groups),
    // The largest power of two that divides it, up to 64 or 16: what vector loads go by.
    measure("channels_aligned", |g| alignment(g.group_c, 64)),
    measure("outputs_aligned", |g| alignment(g.group_k(), 64)),
    measure("pixels_aligned", |g| alignment(g.pixels_in(), 16)),
    // All samples' pixels; elements that one element of the output or of the input's gradient is the sum of; multiplications.
    measure("pixels_out", |g| g.n * g.pixels_out()),
    measure("pixels_in", |g| g.n * g.pixels_in()),
    measure("fan_in", |g| g.group_c * g.window()),
    measure("fan_out", |g| g.group_k() * g.window()),
    measure("products", |g| g.n * g.pixels_out() * g.weight()),
    // Elements of the tensors, the smaller number of channels, planes, a sample's elements.
    measure("input", |g| g.n * g.c * g.pixels_in()),
    measure("output", |g| g.n * g.k * g.pixels_out()),
    measure("weight", Geometry::weight),
    measure("fewer_channels", |g| g.c.min(g.k)),
    measure("planes_out", |g| g.n * g.k),
    measure("planes_in", |g| g.n * g.c),
    measure("sample_out", |g| g.k * g.pixels_out()),
    measure("sample_in", |g| g.c * g.pixels_in()),
    // Tiles of 64×64 that the output is, and of 128×128 that the input is: more than one round of them is another engine's.
    measure("tiles_out", |g| (g.n * g.pixels_out()).div_ceil(64) * g.k.div_ceil(64)),
    measure("tiles_in", |g| (g.n * g.pixels_in()).div_ceil(128) * g.c.div_ceil(128)),
    // The matrix product that it is: tiles of its result, elements of a sum, rows, columns.
    measure("tiles_128x128", |g| matrix_tiles(g, [128, 128])),
    measure("tiles_64x64", |g| matrix_tiles(g, [64, 64])),
    measure("tiles_256x128", |g| matrix_tiles(g, [256, 128])),
    measure("depth", |g| g.matrix()[2]),
    measure("rows", |g| g.matrix()[0]),
    measure("columns", |g| g.matrix()[1]),
];

/// Tiles of all matrices that are computed.
fn matrix_tiles(g: &Geometry, tile: [u128; 2]) -> u128 {
    let [rows, columns, _] = g.matrix();
    let matrices = if g.is_product() && g.h > 1 { g.n } else { 1 };
    rows.div_ceil(tile[0]) * columns.div_ceil(tile[1]) * matrices
}

fn alignment(n: u128, most: u128) -> u128 {
    (1 << n.trailing_zeros().min(64)).min(most)
}
