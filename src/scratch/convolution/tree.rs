//! How one tree grows: from samples, each with its measures and the class it belongs to, by the comparisons that part the classes best (Gini
//! impurity), the most useful comparison first. Nothing here knows what classes and measures stand for.
//!
//! Invariant: the tree depends on the samples and their order alone; of comparisons that are as good, the first measure's lowest wins.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All samples together weigh less, so that the square of their weight fits in 64 bits.
pub(super) const MOST_WEIGHT: u64 = 1 << 32;

/// A node of a tree, which is a list of them, each before those of its branches: however deep a tree is, nobody calls himself to go through it.
/// There are tens of thousands of nodes, so they are small: places are 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// Where the measure is at most so much, the next node; else node `otherwise`.
    Compare { measure: u32, at_most: u64, otherwise: u32 },
    /// A leaf: the class, by its number.
    Chosen(u32),
}

/// The class of what measures so much.
pub(super) fn class(nodes: &[Node], of: impl Fn(usize) -> u64) -> usize {
    let mut at = 0;
    loop {
        match nodes[at] {
            Node::Chosen(class) => return class as usize,
            Node::Compare { measure, at_most, otherwise } => {
                at = if of(measure as usize) <= at_most { at + 1 } else { otherwise as usize };
            }
        }
    }
}

/// A place among a tree's nodes, or among what they name.
pub(super) fn small(place: usize) -> u32 {
    u32::try_from(place).expect("a tree has fewer nodes than 32 bits count")
}

/// A measure of all samples, in order.
struct Column {
    values: Vec<u64>,
    /// Each sample's place among the values that there are.
    ranks: Vec<u32>,
    /// Samples by value; those of a node lie side by side.
    order: Vec<u32>,
}

/// A part of the samples that no comparison parts yet.
struct Part {
    start: usize,
    end: usize,
    class: u16,
    split: Option<(Split, [usize; 2])>,
}

#[derive(Clone, Copy)]
struct Split {
    /// How much purer the samples become, by their weight.
    gain: f64,
    measure: usize,
    /// Ranks up to this one go left.
    rank: u32,
    /// So many samples.
    left: usize,
    /// The value of the first that goes right.
    above: u64,
}

/// A split to be made; the best comes first, of those as good the older node's.
struct Promise(Split, Reverse<usize>);

impl PartialEq for Promise {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Promise {}

impl PartialOrd for Promise {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Promise {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.gain.total_cmp(&other.0.gain).then(self.1.cmp(&other.1))
    }
}

/// A sample's class, and how much it counts: as so many samples. All of them together weigh less than [`MOST_WEIGHT`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) class: u16,
    pub(super) weight: u32,
}

/// Grows a tree of at most so many leaves; `value` is what a measure is of a sample, by its number.
///
/// # Panics
/// Where there are no samples.
pub(super) fn grow(samples: &[Sample], measures: usize, value: impl Fn(usize, usize) -> u64, leaves: usize) -> Vec<Node> {
    let kinds = usize::from(samples.iter().map(|s| s.class).max().expect("a tree grows from something")) + 1;
    let of_samples = |measure| (0..samples.len()).map(|sample| value(measure, sample)).collect::<Vec<_>>();
    let mut columns: Vec<Column> = (0..measures).map(|measure| Column::new(&of_samples(measure))).collect();
    let mut nodes: Vec<Part> = Vec::new();
    let mut promises = BinaryHeap::new();
    let add = |nodes: &mut Vec<Part>, promises: &mut BinaryHeap<Promise>, columns: &[Column], start: usize, end: usize| {
        let (class, split) = look(columns, samples, kinds, start, end);
        if let Some(split) = split {
            promises.push(Promise(split, Reverse(nodes.len())));
        }
        nodes.push(Part { start, end, class, split: None });
        nodes.len() - 1
    };
    let all = samples.len();
    add(&mut nodes, &mut promises, &columns, 0, all);
    let mut grown = 1;
    let mut goes_left = vec![false; all];
    while grown < leaves.max(1) {
        let Some(Promise(split, Reverse(number))) = promises.pop() else { break };
        let (start, end) = (nodes[number].start, nodes[number].end);
        for &sample in &columns[split.measure].order[start..end] {
            goes_left[sample as usize] = columns[split.measure].ranks[sample as usize] <= split.rank;
        }
        columns.iter_mut().for_each(|column| column.part(start, end, &goes_left));
        let middle = start + split.left;
        let left = add(&mut nodes, &mut promises, &columns, start, middle);
        let right = add(&mut nodes, &mut promises, &columns, middle, end);
        nodes[number].split = Some((split, [left, right]));
        grown += 1;
    }
    gather(&nodes, &columns)
}

impl Column {
    fn new(of_samples: &[u64]) -> Self {
        let mut order: Vec<u32> = (0..u32::try_from(of_samples.len()).expect("answers are counted in 32 bits")).collect();
        order.sort_by_key(|&sample| of_samples[sample as usize]);
        let mut values: Vec<u64> = Vec::new();
        let mut ranks = vec![0; of_samples.len()];
        for &sample in &order {
            let value = of_samples[sample as usize];
            if values.last() != Some(&value) {
                values.push(value);
            }
            ranks[sample as usize] = values.len() as u32 - 1;
        }
        Self { values, ranks, order }
    }

    /// Puts those that go left before the others, each side as it was.
    fn part(&mut self, start: usize, end: usize, goes_left: &[bool]) {
        let (left, right): (Vec<u32>, Vec<u32>) = self.order[start..end].iter().partition(|&&sample| goes_left[sample as usize]);
        self.order[start..start + left.len()].copy_from_slice(&left);
        self.order[start + left.len()..end].copy_from_slice(&right);
    }
}

/// The class that most of these samples belong to, and the comparison that parts them best, where one does.
fn look(columns: &[Column], samples: &[Sample], kinds: usize, start: usize, end: usize) -> (u16, Option<Split>) {
    let mut all = vec![0u64; kinds];
    let Some(first) = columns.first() else { return (samples[start].class, None) };
    for &sample in &first.order[start..end] {
        let Sample { class, weight } = samples[sample as usize];
        all[usize::from(class)] += u64::from(weight);
    }
    // Of several as heavy, the first.
    let class = (0..kinds).max_by_key(|&k| (all[k], Reverse(k))).unwrap_or(0);
    let total: u64 = all.iter().sum();
    if all[class] == total {
        return (class as u16, None);
    }
    let squares: u64 = all.iter().map(|n| n * n).sum();
    let impure = squares as f64 / total as f64;
    let mut best: Option<Split> = None;
    let mut left = vec![0u64; kinds];
    for (measure, column) in columns.iter().enumerate() {
        let order = &column.order[start..end];
        let (lowest, highest) = (column.ranks[order[0] as usize], column.ranks[order[order.len() - 1] as usize]);
        if lowest == highest {
            continue;
        }
        left.fill(0);
        let (mut of_left, mut of_right, mut heavy) = (0u64, squares, 0u64);
        let mut rank = lowest;
        for (at, &sample) in order.iter().enumerate() {
            let next = column.ranks[sample as usize];
            if next != rank {
                let gain = of_left as f64 / heavy as f64 + of_right as f64 / (total - heavy) as f64 - impure;
                if gain > best.map_or(1e-9, |b| b.gain) {
                    best = Some(Split { gain, measure, rank, left: at, above: column.values[next as usize] });
                }
                rank = next;
            }
            let Sample { class, weight } = samples[sample as usize];
            let (kind, weight) = (usize::from(class), u64::from(weight));
            // (n + w)² is w (2n + w) more than n², and (n - w)² is w (2n - w) less.
            of_left += weight * (2 * left[kind] + weight);
            of_right -= weight * (2 * (all[kind] - left[kind]) - weight);
            left[kind] += weight;
            heavy += weight;
        }
    }
    (class as u16, best)
}

/// The tree of these parts, the first of which is all. Branches that end alike are one leaf.
fn gather(parts: &[Part], columns: &[Column]) -> Vec<Node> {
    let mut ends: Vec<Option<u16>> = vec![None; parts.len()];
    // A part's own parts came after it.
    for (number, part) in parts.iter().enumerate().rev() {
        ends[number] = match part.split {
            None => Some(part.class),
            Some((_, [left, right])) => ends[left].filter(|_| ends[left] == ends[right]),
        };
    }
    let mut nodes = Vec::new();
    // Parts still to come, the next one last, each with the comparison that leads to it otherwise.
    let mut waiting: Vec<(usize, Option<usize>)> = vec![(0, None)];
    while let Some((number, comparison)) = waiting.pop() {
        let at = nodes.len();
        if let Some(Node::Compare { otherwise, .. }) = comparison.map(|place| &mut nodes[place]) {
            *otherwise = small(at);
        }
        match (ends[number], parts[number].split) {
            (None, Some((split, [left, right]))) => {
                let at_most = roundest(columns[split.measure].values[split.rank as usize], split.above);
                nodes.push(Node::Compare { measure: small(split.measure), at_most, otherwise: 0 });
                waiting.extend([(right, Some(at)), (left, None)]);
            }
            (end, _) => nodes.push(Node::Chosen(end.unwrap_or(parts[number].class).into())),
        }
    }
    nodes
}

/// The number with the most zeros at its end from `low` on and before `above`.
fn roundest(low: u64, above: u64) -> u64 {
    let mut found = low;
    let mut unit = 1u64;
    loop {
        let multiple = (above - 1) / unit * unit;
        if multiple < low {
            return found;
        }
        found = multiple;
        let Some(next) = unit.checked_mul(10).filter(|&next| next < above) else { return found };
        unit = next;
    }
}
