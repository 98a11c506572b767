//! From a library's answers to trees: each answer is labelled with the plan that gives its size, and a tree grows for each direction and kind of
//! window. How a tree grows is [`tree`]'s.
//!
//! Invariant: the same answers in any order grow the same trees.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::answers::Answer;
use super::geometry::Geometry;
use super::label::label;
use super::measure::MEASURES;
use super::plan::Plan;
use super::rule::{bytes, has_rule};
use super::tree::{self, MOST_WEIGHT, Node, Sample};
use super::trees::{Trees, place};
use crate::gpu::Gpu;
use crate::scratch::Convolution;
use crate::scratch::digest::digest;

/// Plans that fewer answers of a tree have are chance: a size that happens to be a multiple of something.
const FEWEST: u64 = 4;

/// A size that no plan gives goes to the nearest of those that one answer in so many has: it is then told about right.
const OF: u64 = 1000;

/// Leaves of a tree, at most.
const LEAVES: usize = 10_000;

/// Grows trees from what `gpu`'s library answered; `remarks` say where the answers come from.
///
/// # Panics
/// Where the answers weigh 2^32 or more together, which [`read_answers`](super::read_answers) refuses.
#[must_use]
pub fn grow(gpu: &Gpu, remarks: Vec<String>, answers: &[Answer]) -> Trees {
    let weight = answers.iter().try_fold(0u64, |sum, answer| sum.checked_add(answer.weight.into()));
    assert!(weight.is_some_and(|weight| weight < MOST_WEIGHT), "answers are read only as far as their weights can be squared in 64 bits");
    let mut of_tree: [[Vec<Answer>; 2]; 3] = Default::default();
    let mut sorted: Vec<&Answer> = answers.iter().filter(|a| !has_rule(&a.call)).collect();
    sorted.sort_unstable();
    // A question that was asked twice counts once.
    sorted.dedup_by_key(|answer| answer.call);
    for answer in sorted {
        let kind = usize::from(Geometry::new(&answer.call).is_product());
        of_tree[place(answer.call.direction)][kind].push(*answer);
    }
    let grown = std::thread::scope(|scope| {
        let growing = of_tree.map(|kinds| kinds.map(|answers| scope.spawn(move || grow_one(&answers, gpu.multiprocessors))));
        growing.map(|kinds| kinds.map(|tree| tree.join().expect("a tree grows from any answers")))
    });
    Trees::new(gpu, remarks, grown)
}

/// A tree, and the plans that its classes stand for.
fn grow_one(answers: &[Answer], multiprocessors: u32) -> (Vec<Node>, Vec<Plan>) {
    let geometries: Vec<Geometry> = answers.iter().map(|answer| Geometry::new(&answer.call)).collect();
    let labels: Vec<Option<Plan>> = answers.iter().zip(&geometries).map(|(a, g)| label(a, g, multiprocessors)).collect();
    let mut counts: BTreeMap<Plan, u64> = BTreeMap::new();
    labels.iter().flatten().for_each(|plan| *counts.entry(*plan).or_default() += 1);
    counts.retain(|_, count| *count >= FEWEST);
    let plans: Vec<Plan> = counts.keys().copied().collect();
    let frequent: Vec<Plan> = counts.iter().filter(|&(_, count)| count * OF >= answers.len() as u64).map(|(plan, _)| *plan).collect();
    let nearest = |answer: &Answer, g: &Geometry| {
        frequent.iter().copied().min_by_key(|plan| plan.bytes(g, multiprocessors).abs_diff(answer.bytes.into()))
    };
    let class = |plan: Plan| plans.binary_search(&plan).ok().and_then(|class| u16::try_from(class).ok());
    let (mut samples, mut of_samples) = (Vec::new(), Vec::new());
    for ((answer, g), label) in answers.iter().zip(&geometries).zip(labels) {
        if let Some(class) = label.and_then(class).or_else(|| nearest(answer, g).and_then(class)) {
            samples.push(Sample { class, weight: answer.weight });
            of_samples.push((g, u128::from(answer.bytes)));
        }
    }
    if samples.is_empty() {
        return (vec![Node::Chosen(0)], vec![Plan::None]);
    }
    let grow =
        |samples: &[Sample]| tree::grow(samples, MEASURES.len(), |measure, sample| MEASURES[measure].of(of_samples[sample].0), LEAVES);
    // Of several plans that give an answer's size, the one that answers like it have: a tree that grew once knows, and the next one is simpler.
    let first = grow(&samples);
    for (sample, (g, bytes)) in samples.iter_mut().zip(&of_samples) {
        let class = tree::class(&first, |measure| MEASURES[measure].of(g));
        if plans[class].bytes(g, multiprocessors) == *bytes {
            sample.class = u16::try_from(class).expect("it grew from classes of 16 bits");
        }
    }
    let grown = grow(&samples);
    (grown, plans)
}

/// How well trees foresee answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// Workspaces, and how many of them are right to the byte.
    pub workspaces: u64,
    /// See there.
    pub exact: u64,
    /// Convolutions of which every direction that was asked for is known, and how many are right in all of them.
    pub convolutions: u64,
    /// See there.
    pub whole: u64,
    /// Bytes of all workspaces, as foreseen.
    pub foreseen: u128,
    /// As answered.
    pub answered: u128,
}

/// Holds trees against answers.
#[must_use]
pub fn accuracy(trees: &Trees, gpu: &Gpu, answers: &[Answer]) -> Accuracy {
    let mut of = Accuracy::default();
    let mut whole: BTreeMap<Convolution, bool> = BTreeMap::new();
    for Answer { call, bytes: answered, .. } in answers {
        let foreseen = bytes(gpu, call, trees);
        let exact = foreseen == *answered;
        of.workspaces += 1;
        of.exact += u64::from(exact);
        of.foreseen += u128::from(foreseen);
        of.answered += u128::from(*answered);
        match whole.entry(Convolution { direction: crate::scratch::Direction::Forward, ..*call }) {
            Entry::Vacant(entry) => *entry.insert(exact),
            Entry::Occupied(mut entry) => {
                *entry.get_mut() &= exact;
                true
            }
        };
    }
    of.convolutions = whole.len() as u64;
    of.whole = whole.values().filter(|exact| **exact).count() as u64;
    of
}

/// A number below `parts` for each layer: the same for all batches, types and directions, so that what is left out of growing is a layer that
/// no tree has seen.
#[must_use]
pub fn part(call: &Convolution, parts: u64) -> u64 {
    let sizes = [&call.input[1..], &call.weight, &call.stride, &call.padding, &call.dilation, &[call.groups]].concat();
    // Its upper bits are the better ones.
    (digest(sizes.iter().flat_map(|size| size.to_le_bytes())) >> 32) % parts
}
