//! Puts the CSVs of a sweep's shards together again, line for line as the unsharded sweep would have written them.
//!
//! It never prints a number anew: lines are copied as they stand. What it checks is that the outcome is a whole sweep: every
//! shard there once and complete, no case twice, and the cases in the order of a product of axes, the last axis fastest.
//! Invariant: with shards as [`Shard`] promises, the outcome is the unsharded file byte for byte, in whatever order named shards
//! are given.

use std::collections::{BTreeMap, BTreeSet};

use super::point::Point;
use super::read::{self, ReadError, Results};
use super::shard::Shard;
use super::words::count;

/// A shard's file: what it is called and what it holds.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its path, for messages.
    pub path: String,
    /// Its name without folder and `.csv`.
    pub stem: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A merged sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// How many cases it has.
    pub cases: usize,
    /// How many rows.
    pub rows: usize,
}

/// Why files are not the shards of one sweep.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum MergeError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("`{named}` is named as a shard and `{other}` is not: either all names say which shard it is, or the order given does")]
    NamesMixed { named: String, other: String },
    #[error("`{a}` and `{b}` are shards of different experiments")]
    OtherExperiment { a: String, b: String },
    #[error("`{a}` is one of {a_count} shards, `{b}` of {b_count}")]
    OtherCount { a: String, b: String, a_count: usize, b_count: usize },
    #[error("shard {shard} comes twice: `{a}` and `{b}`")]
    ShardTwice { shard: Shard, a: String, b: String },
    #[error("{} missing: {}", if shards.len() == 1 { "a shard is" } else { "shards are" }, list(shards))]
    ShardsMissing { shards: Vec<Shard> },
    #[error("`{a}` and `{b}` have different headers")]
    OtherHeader { a: String, b: String },
    #[error("case `{case}` is in both `{a}` and `{b}`{}", if case.is_empty() { ": these are not shards of a sweep" } else { "" })]
    CaseTwice { case: String, a: String, b: String },
    #[error("`{path}` has {}, where shard {shard} of a sweep of {total} or more has {due}: it is not complete, or not of this sweep", count(*found, "case"))]
    Incomplete { path: String, found: usize, shard: Shard, total: usize, due: usize },
    #[error("case {place} would be `{found}`, where a sweep of these axes has `{due}`: {hint}")]
    NotAProduct { place: usize, found: String, due: String, hint: &'static str },
    #[error("the last case would be `{last}`, {found} of the {due} that a sweep of these axes has")]
    ProductCut { last: String, found: usize, due: usize },
}

fn list(shards: &[Shard]) -> String {
    shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Merges `parts`: by their names where these say which shard each is, else in the order given.
///
/// # Errors
/// [`MergeError`] where they are not all the shards of one sweep.
pub fn merge(parts: &[Part]) -> Result<Merged, MergeError> {
    let (parts, named) = in_order(parts)?;
    let read = parts.iter().map(|p| read::parse(&p.path, &p.bytes)).collect::<Result<Vec<_>, _>>()?;
    let Some((first, rest)) = parts.split_first() else {
        return Ok(Merged { bytes: Vec::new(), cases: 0, rows: 0 });
    };
    let header = &first.bytes[read[0].header.clone()];
    for (part, results) in rest.iter().zip(&read[1..]) {
        if &part.bytes[results.header.clone()] != header {
            return Err(MergeError::OtherHeader { a: first.path.clone(), b: part.path.clone() });
        }
    }
    check_disjoint(&parts, &read)?;
    check_shares(&parts, &read)?;

    let total = read.iter().map(|r| r.cases.len()).sum();
    let mut bytes = header.to_vec();
    let mut points = Vec::with_capacity(total);
    for place in 0..total {
        let shard = place % parts.len();
        let case = &read[shard].cases[place / parts.len()];
        points.push(Point::of(&case.label));
        bytes.extend_from_slice(&parts[shard].bytes[case.bytes.clone()]);
    }
    check_product(&points, named)?;
    Ok(Merged { bytes, cases: total, rows: read.iter().map(|r| r.rows().count()).sum() })
}

/// The parts by shard, and whether their names told it.
fn in_order(parts: &[Part]) -> Result<(Vec<&Part>, bool), MergeError> {
    let shards: Vec<Option<(&str, Shard)>> = parts.iter().map(|p| Shard::of_stem(&p.stem)).collect();
    let Some(a) = shards.iter().position(Option::is_some) else {
        return Ok((parts.iter().collect(), false));
    };
    if let Some(b) = shards.iter().position(Option::is_none) {
        return Err(MergeError::NamesMixed { named: parts[a].path.clone(), other: parts[b].path.clone() });
    }
    let mut by_index: BTreeMap<usize, &Part> = BTreeMap::new();
    let named: Vec<(&Part, &str, Shard)> = parts.iter().zip(shards).filter_map(|(p, s)| s.map(|(n, s)| (p, n, s))).collect();
    let (a, name, count) = (named[0].0, named[0].1, named[0].2.count());
    for &(part, other_name, shard) in &named {
        if other_name != name {
            return Err(MergeError::OtherExperiment { a: a.path.clone(), b: part.path.clone() });
        }
        if shard.count() != count {
            let (a, b) = (a.path.clone(), part.path.clone());
            return Err(MergeError::OtherCount { a, b, a_count: count, b_count: shard.count() });
        }
        if let Some(other) = by_index.insert(shard.index(), part) {
            return Err(MergeError::ShardTwice { shard, a: other.path.clone(), b: part.path.clone() });
        }
    }
    let missing: Vec<Shard> = (1..=count).filter(|i| !by_index.contains_key(i)).filter_map(|i| Shard::new(i, count)).collect();
    if missing.is_empty() { Ok((by_index.into_values().collect(), true)) } else { Err(MergeError::ShardsMissing { shards: missing }) }
}

fn check_disjoint(parts: &[&Part], read: &[Results]) -> Result<(), MergeError> {
    let mut owners: BTreeMap<&str, &Part> = BTreeMap::new();
    for (part, results) in parts.iter().zip(read) {
        for case in &results.cases {
            if let Some(other) = owners.insert(&case.label, part) {
                return Err(MergeError::CaseTwice { case: case.label.clone(), a: other.path.clone(), b: part.path.clone() });
            }
        }
    }
    Ok(())
}

fn check_shares(parts: &[&Part], read: &[Results]) -> Result<(), MergeError> {
    // The smallest sweep whose last case is a shard's last one; the largest of these is the sweep, unless all are cut short.
    let least = |(i, r): (usize, &Results)| r.cases.len().checked_sub(1).map_or(0, |last| last * parts.len() + i + 1);
    let total = read.iter().enumerate().map(least).max().unwrap_or(0);
    for (i, (part, results)) in parts.iter().zip(read).enumerate() {
        let shard = Shard::new(i + 1, parts.len()).expect("the index runs over the shards");
        let (found, due) = (results.cases.len(), shard.share_of(total));
        if found != due {
            return Err(MergeError::Incomplete { path: part.path.clone(), found, shard, total, due });
        }
    }
    Ok(())
}

/// Whether the cases are a product of axes in order, each axis with its values in the order in which they first came.
fn check_product(points: &[Point], named: bool) -> Result<(), MergeError> {
    let Some(first) = points.first() else { return Ok(()) };
    let hint = match named {
        true => "a shard is not complete, or not of this sweep",
        false => "give the shards in their order, 1 to n",
    };
    let mut axes: Vec<Vec<&str>> = vec![Vec::new(); first.values.len()];
    let mut known = vec![BTreeSet::new(); axes.len()];
    for point in points.iter().filter(|p| p.keys == first.keys) {
        for ((axis, known), value) in axes.iter_mut().zip(&mut known).zip(&point.values) {
            if known.insert(value) {
                axis.push(value);
            }
        }
    }
    for (place, point) in points.iter().enumerate() {
        let mut rest = place;
        let mut due: Vec<&str> = axes.iter().rev().map(|axis| (axis[rest % axis.len()], rest /= axis.len()).0).collect();
        due.reverse();
        if rest > 0 || point.keys != first.keys || point.values != due {
            let due = first.keys.iter().zip(due).map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ");
            return Err(MergeError::NotAProduct { place: place + 1, found: point.text(), due, hint });
        }
    }
    let due = axes.iter().map(Vec::len).product();
    match points.last() {
        Some(last) if points.len() != due => Err(MergeError::ProductCut { last: last.text(), found: points.len(), due }),
        _ => Ok(()),
    }
}
