//! Which formula holds: a tree of comparisons for each direction, in the text files beside this one. A line is a comparison, followed by the
//! lines for where it holds and then those for where it doesn't; or the plan that is chosen. Nothing here knows a formula.
//!
//! Invariant: every file is a whole tree, which a test reads.

use std::sync::LazyLock;

use super::geometry::Geometry;
use super::plan::Plan;
use crate::scratch::Direction;

/// What a convolution asks for.
pub(super) fn plan(g: &Geometry) -> Plan {
    static TREES: LazyLock<[Vec<Node>; 3]> = LazyLock::new(|| {
        [include_str!("forward.txt"), include_str!("grad_input.txt"), include_str!("grad_weight.txt")].map(|text| {
            let mut nodes = Vec::new();
            let mut lines = text.lines();
            read(&mut lines, &mut nodes).expect("a tree's file holds a whole tree");
            assert!(lines.next().is_none(), "a tree's file holds one tree");
            nodes
        })
    });
    let nodes = &TREES[match g.direction {
        Direction::Forward => 0,
        Direction::GradInput => 1,
        Direction::GradWeight => 2,
    }];
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

/// Reads the tree that starts at the next line; nothing where the text is none.
fn read<'a>(lines: &mut impl Iterator<Item = &'a str>, nodes: &mut Vec<Node>) -> Option<()> {
    let line = lines.next()?;
    let Some((name, at_most)) = line.split_once(" <= ") else {
        nodes.push(Node::Chosen(chosen(line)?));
        return Some(());
    };
    let at = nodes.len();
    let (measure, at_most) = (measure(name)?, at_most.parse().ok()?);
    nodes.push(Node::Compare { measure, at_most, otherwise: 0 });
    read(lines, nodes)?;
    let otherwise = nodes.len();
    nodes[at] = Node::Compare { measure, at_most, otherwise };
    read(lines, nodes)
}

/// The plan that a line names.
fn chosen(line: &str) -> Option<Plan> {
    let mut words = line.split(' ');
    let (name, first, second) = (words.next()?, words.next(), words.next());
    let number = || first?.parse().ok();
    Some(match name {
        "none" => Plan::None,
        "layout" => Plan::Layout(number()?),
        "layout_input" => Plan::LayoutInput(number()?),
        "copies" => Plan::Copies(number()?),
        "counters" => Plan::Counters(number()?),
        "tile_counters" => Plan::TileCounters(pair(first)?),
        "parts" => Plan::Parts { parts: number()?, counters: 0 },
        "parts_counted" => Plan::Parts { parts: number()?, counters: 16 },
        "narrow_parts" => Plan::NarrowParts(number()?),
        "parts_by_64" => Plan::PartsBy64 { up: first? == "up" },
        "samples" => Plan::Samples(number()?),
        "offsets" => Plan::Offsets,
        "winograd" => Plan::Winograd,
        "slices" => Plan::Slices(number()?),
        "blocks" => Plan::Blocks { tile: pair(first)?, cluster: pair(second)? },
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
        "f32" => |g| g.is_f32().into(),
        "bf16" => |g| g.bf16.into(),
        "batch" => |g| g.n,
        "channels" => |g| g.c,
        "height" => |g| g.h,
        "outputs" => |g| g.k,
        "kernel" => |g| g.r,
        "stride" => |g| g.stride,
        "padding" => |g| g.padding,
        "groups" => |g| g.groups,
        // The largest power of two that divides it, up to 64 or 16: what vector loads go by.
        "channel_alignment" => |g| alignment(g.group_c, 64),
        "output_alignment" => |g| alignment(g.group_k(), 64),
        "pixel_alignment" => |g| alignment(g.pixels_in(), 16),
        "pixels_out" => |g| g.n * g.pixels_out(),
        "pixels_in" => |g| g.n * g.pixels_in(),
        "fan_in" => |g| g.group_c * g.window(),
        "fan_out" => |g| g.group_k() * g.window(),
        "products" => |g| g.n * g.pixels_out() * g.weight(),
        "input" => |g| g.n * g.c * g.pixels_in(),
        "output" => |g| g.n * g.k * g.pixels_out(),
        "weight" => Geometry::weight,
        "narrow" => |g| g.c.min(g.k),
        "planes_in" => |g| g.n * g.c,
        "planes_out" => |g| g.n * g.k,
        "sample_in" => |g| g.c * g.pixels_in(),
        "sample_out" => |g| g.k * g.pixels_out(),
        // Tiles of 64×64 that the output is, and of 128×128 that the input is: more than one round of them is another engine's.
        "tiles_out" => |g| (g.n * g.pixels_out()).div_ceil(64) * g.k.div_ceil(64),
        "tiles_in" => |g| (g.n * g.pixels_in()).div_ceil(128) * g.c.div_ceil(128),
        _ => return None,
    })
}

fn alignment(n: u128, most: u128) -> u128 {
    (1 << n.trailing_zeros().min(64)).min(most)
}
