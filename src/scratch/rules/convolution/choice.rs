//! Which formula holds: trees of comparisons, for each direction one for products (a 1×1 window that moves by one) and one for wider windows, in
//! the text files beside this one. A word is a comparison, followed by the words for where it holds and then those for where it doesn't; or
//! the plan that is chosen. Names are short, for there are many: [`measure`] and [`chosen`] say what they mean. Nothing here knows a formula.
//!
//! Invariant: every file is a whole tree, which a test reads.

use std::sync::LazyLock;

use super::geometry::Geometry;
use super::plan::{Copied, Plan};
use crate::scratch::Direction;

/// What a convolution asks for.
pub(super) fn plan(g: &Geometry) -> Plan {
    static TREES: LazyLock<[[Vec<Node>; 2]; 3]> = LazyLock::new(|| {
        [
            [include_str!("forward.txt"), include_str!("forward_product.txt")],
            [include_str!("grad_input.txt"), include_str!("grad_input_product.txt")],
            [include_str!("grad_weight.txt"), include_str!("grad_weight_product.txt")],
        ]
        .map(|files| {
            files.map(|text| {
                let mut nodes = Vec::new();
                let mut words = text.split_whitespace();
                read(&mut words, &mut nodes).expect("a tree's file holds a whole tree");
                assert!(words.next().is_none(), "a tree's file holds one tree");
                nodes
            })
        })
    });
    let direction = match g.direction {
        Direction::Forward => 0,
        Direction::GradInput => 1,
        Direction::GradWeight => 2,
    };
    let nodes = &TREES[direction][usize::from(g.is_product())];
    let mut at = 0;
    loop {
        match nodes[at] {
            Node::Chosen(plan) => return plan,
            Node::Compare { measure, at_most, otherwise } => at = if measure(g) <= at_most { at + 1 } else { otherwise },
        }
    }
}

type Measure = fn(&Geometry) -> u128;

enum Node {
    /// Where `measure` is at most so much, the next node; else node `otherwise`.
    Compare {
        measure: Measure,
        at_most: u128,
        otherwise: usize,
    },
    Chosen(Plan),
}

/// Reads the tree that starts at the next word; nothing where the text is none.
fn read<'a>(words: &mut impl Iterator<Item = &'a str>, nodes: &mut Vec<Node>) -> Option<()> {
    let word = words.next()?;
    let Some((name, at_most)) = word.split_once('<') else {
        nodes.push(Node::Chosen(chosen(word)?));
        return Some(());
    };
    let at = nodes.len();
    let (measure, at_most) = (measure(name)?, at_most.parse().ok()?);
    nodes.push(Node::Compare { measure, at_most, otherwise: 0 });
    read(words, nodes)?;
    let otherwise = nodes.len();
    nodes[at] = Node::Compare { measure, at_most, otherwise };
    read(words, nodes)
}

/// The plan that a word names.
fn chosen(word: &str) -> Option<Plan> {
    let mut parts = word.split(':');
    let (name, first, second) = (parts.next()?, parts.next(), parts.next());
    let number = || first?.parse().ok();
    Some(match name {
        "0" => Plan::None,
        "layout" => Plan::Layout(number()?),
        "input" => Plan::LayoutOperands(number()?),
        "input_plain" => Plan::CopiesOperands,
        "output" => Plan::LayoutOutputAndWeight,
        "copies" => Plan::Copies(number()?),
        "weight" => Plan::Weight,
        "counters" => Plan::Counters(number()?),
        "tiles" => Plan::TileCounters(pair(first)?),
        "parts" => Plan::Parts { parts: number()?, counters: 0 },
        "counted" => Plan::Parts { parts: number()?, counters: 16 },
        "narrow" => Plan::NarrowParts(number()?),
        "up64" => Plan::PartsBy64 { up: true },
        "down64" => Plan::PartsBy64 { up: false },
        "samples" => Plan::Samples(number()?),
        "samples_tiles" => Plan::SamplesTiles(pair(first)?),
        "offsets" => Plan::Offsets,
        "offsets_out" => Plan::OutputOffsets,
        "winograd" => Plan::Winograd,
        "slices" => Plan::Slices(number()?),
        "added" => Plan::Counted(pair(first)?),
        "wait" => Plan::WeightCounters { narrowed: false },
        "wait_narrow" => Plan::WeightCounters { narrowed: true },
        // Tiles and clusters of blocks; whether the last tiles are split.
        "split" => Plan::Blocks { tile: pair(first)?, cluster: pair(second)?, split: true },
        "whole" => Plan::Blocks { tile: pair(first)?, cluster: pair(second)?, split: false },
        // Tiles in parts, by what is copied.
        "all" => Plan::TileParts { tile: pair(first)?, copied: Copied::All, parts: second?.parse().ok()? },
        "operands" => Plan::TileParts { tile: pair(first)?, copied: Copied::Operands, parts: second?.parse().ok()? },
        "plain" => Plan::TileParts { tile: pair(first)?, copied: Copied::Plain, parts: second?.parse().ok()? },
        "single" => Plan::TileParts { tile: pair(first)?, copied: Copied::Single, parts: second?.parse().ok()? },
        "tensors" => Plan::TileParts { tile: pair(first)?, copied: Copied::Tensors, parts: second?.parse().ok()? },
        "forward" => Plan::TileParts { tile: pair(first)?, copied: Copied::PlainOperands, parts: second?.parse().ok()? },
        _ => return None,
    })
}

/// `128x64`.
fn pair(text: Option<&str>) -> Option<[u128; 2]> {
    let (a, b) = text?.split_once('x')?;
    Some([a.parse().ok()?, b.parse().ok()?])
}

/// What a comparison looks at.
fn measure(name: &str) -> Option<Measure> {
    Some(match name {
        // Whether it is f32, whether it is bf16; batch, channels, height, output channels, the window's height.
        "f" => |g| g.is_f32().into(),
        "b" => |g| g.bf16.into(),
        "n" => |g| g.n,
        "c" => |g| g.c,
        "h" => |g| g.h,
        "k" => |g| g.k,
        "r" => |g| g.r,
        // Stride, padding, groups.
        "s" => |g| g.stride,
        "p" => |g| g.padding,
        "g" => |g| g.groups,
        // The largest power of two that divides it, up to 64 or 16: what vector loads go by.
        "ca" => |g| alignment(g.group_c, 64),
        "ka" => |g| alignment(g.group_k(), 64),
        "pa" => |g| alignment(g.pixels_in(), 16),
        // All pixels, elements that an output and that an input is the sum of, multiplications.
        "po" => |g| g.n * g.pixels_out(),
        "pi" => |g| g.n * g.pixels_in(),
        "fi" => |g| g.group_c * g.window(),
        "fo" => |g| g.group_k() * g.window(),
        "m" => |g| g.n * g.pixels_out() * g.weight(),
        // Elements of the tensors, the smaller number of channels, planes, a sample's elements.
        "x" => |g| g.n * g.c * g.pixels_in(),
        "y" => |g| g.n * g.k * g.pixels_out(),
        "w" => Geometry::weight,
        "na" => |g| g.c.min(g.k),
        "nx" => |g| g.n * g.c,
        "ny" => |g| g.n * g.k,
        "sx" => |g| g.c * g.pixels_in(),
        "sy" => |g| g.k * g.pixels_out(),
        // Tiles of 64×64 that the output is, and of 128×128 that the input is: more than one round of them is another engine's.
        "ty" => |g| (g.n * g.pixels_out()).div_ceil(64) * g.k.div_ceil(64),
        "tx" => |g| (g.n * g.pixels_in()).div_ceil(128) * g.c.div_ceil(128),
        // The matrix product that it is: rows, columns, elements of a sum, tiles of its result.
        "rw" => |g| g.matrix()[0],
        "cl" => |g| g.matrix()[1],
        "d" => |g| g.matrix()[2],
        "t1" => |g| matrix_tiles(g, [128, 128]),
        "t6" => |g| matrix_tiles(g, [64, 64]),
        "t2" => |g| matrix_tiles(g, [256, 128]),
        _ => return None,
    })
}

/// Tiles of all matrices that are computed.
fn matrix_tiles(g: &Geometry, tile: [u128; 2]) -> u128 {
    let [rows, columns, _] = g.matrix();
    let matrices = if g.is_product() && g.h > 1 { g.n } else { 1 };
    rows.div_ceil(tile[0]) * columns.div_ceil(tile[1]) * matrices
}

fn alignment(n: u128, most: u128) -> u128 {
    (1 << n.trailing_zeros().min(64)).min(most)
}
