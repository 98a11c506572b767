//! Plans as words of a text: a name, and after colons what it has of numbers, tiles and clusters. Not what they mean.
//!
//! Invariant: a plan's word reads as that plan.

use std::fmt;
use std::str::FromStr;

use super::plan::{Copied, Plan};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |[a, b]: [u128; 2]| format!("{a}x{b}");
        match *self {
            Self::None => f.write_str("none"),
            Self::Layout(own) => write!(f, "layout:{own}"),
            Self::LayoutOperands(own) => write!(f, "layout_operands:{own}"),
            Self::LayoutOutputAndWeight => f.write_str("layout_output_and_weight"),
            Self::Copies(own) => write!(f, "copies:{own}"),
            Self::CopiesOperands => f.write_str("copies_operands"),
            Self::Counters(bytes) => write!(f, "counters:{bytes}"),
            Self::TileCounters(tile) => write!(f, "tile_counters:{}", pair(tile)),
            Self::Parts { parts, counters } => write!(f, "parts:{parts}:{counters}"),
            Self::NarrowParts(parts) => write!(f, "narrow_parts:{parts}"),
            Self::PartsBy64 { up: true } => f.write_str("parts_by_64_up"),
            Self::PartsBy64 { up: false } => f.write_str("parts_by_64_down"),
            Self::Samples(own) => write!(f, "samples:{own}"),
            Self::SamplesTiles(tile) => write!(f, "samples_tiles:{}", pair(tile)),
            Self::Offsets => f.write_str("offsets"),
            Self::OutputOffsets => f.write_str("output_offsets"),
            Self::Winograd => f.write_str("winograd"),
            Self::Slices(slices) => write!(f, "slices:{slices}"),
            Self::Counted(tile) => write!(f, "counted:{}", pair(tile)),
            Self::Blocks { tile, cluster, split: true } => write!(f, "split_blocks:{}:{}", pair(tile), pair(cluster)),
            Self::Blocks { tile, cluster, split: false } => write!(f, "whole_blocks:{}:{}", pair(tile), pair(cluster)),
            Self::TileParts { tile, copied, parts } => write!(f, "{}:{}:{parts}", copied.name(), pair(tile)),
            Self::Weight => f.write_str("weight"),
            Self::WeightCounters { narrowed: false } => f.write_str("weight_counters"),
            Self::WeightCounters { narrowed: true } => f.write_str("narrowed_weight_counters"),
        }
    }
}

impl FromStr for Plan {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        read(word).ok_or(())
    }
}

fn read(word: &str) -> Option<Plan> {
    let mut parts = word.split(':');
    let name = parts.next()?;
    // Factors of sizes; what is larger than 32 bits is no size that a library has, and would overflow the formulas.
    let number = |text: &str| text.parse::<u32>().ok().map(u128::from);
    let pair = |text: &str| {
        let (a, b) = text.split_once('x')?;
        Some([number(a)?, number(b)?]).filter(|sides| sides.iter().all(|side| (1..=4096).contains(side)))
    };
    let plan = match (name, parts.next(), parts.next()) {
        ("none", None, None) => Plan::None,
        ("layout", Some(own), None) => Plan::Layout(number(own)?),
        ("layout_operands", Some(own), None) => Plan::LayoutOperands(number(own)?),
        ("layout_output_and_weight", None, None) => Plan::LayoutOutputAndWeight,
        ("copies", Some(own), None) => Plan::Copies(number(own)?),
        ("copies_operands", None, None) => Plan::CopiesOperands,
        ("counters", Some(bytes), None) => Plan::Counters(number(bytes)?),
        ("tile_counters", Some(tile), None) => Plan::TileCounters(pair(tile)?),
        ("parts", Some(parts), Some(counters)) => Plan::Parts { parts: number(parts)?, counters: number(counters)? },
        ("narrow_parts", Some(parts), None) => Plan::NarrowParts(number(parts)?),
        ("parts_by_64_up", None, None) => Plan::PartsBy64 { up: true },
        ("parts_by_64_down", None, None) => Plan::PartsBy64 { up: false },
        ("samples", Some(own), None) => Plan::Samples(number(own)?),
        ("samples_tiles", Some(tile), None) => Plan::SamplesTiles(pair(tile)?),
        ("offsets", None, None) => Plan::Offsets,
        ("output_offsets", None, None) => Plan::OutputOffsets,
        ("winograd", None, None) => Plan::Winograd,
        ("slices", Some(slices), None) => Plan::Slices(number(slices)?),
        ("counted", Some(tile), None) => Plan::Counted(pair(tile)?),
        ("split_blocks", Some(tile), Some(cluster)) => Plan::Blocks { tile: pair(tile)?, cluster: pair(cluster)?, split: true },
        ("whole_blocks", Some(tile), Some(cluster)) => Plan::Blocks { tile: pair(tile)?, cluster: pair(cluster)?, split: false },
        ("weight", None, None) => Plan::Weight,
        ("weight_counters", None, None) => Plan::WeightCounters { narrowed: false },
        ("narrowed_weight_counters", None, None) => Plan::WeightCounters { narrowed: true },
        (name, Some(tile), Some(parts)) => {
            let copied = Copied::ALL.into_iter().find(|copied| copied.name() == name)?;
            Plan::TileParts { tile: pair(tile)?, copied, parts: number(parts)? }
        }
        _ => return None,
    };
    parts.next().is_none().then_some(plan)
}

impl Copied {
    const fn name(self) -> &'static str {
        match self {
            Self::All => "tile_parts_all",
            Self::Operands => "tile_parts_operands",
            Self::Plain => "tile_parts_plain",
            Self::Single => "tile_parts_single",
            Self::Tensors => "tile_parts_tensors",
            Self::PlainOperands => "tile_parts_plain_operands",
        }
    }
}
