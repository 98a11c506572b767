//! Iterations: a `repeat`, or a block that is written out several times, gives layers whose paths differ in their first number alone. Where
//! their figures are the same too, the first stands for all that follow it.
//!
//! Paths tell what an iteration is, and figures what is equal; nothing here is told what was written in the file.
//! Invariant: what is folded adds up to what there was, and only neighbours fold.

use std::collections::BTreeMap;

use crate::predict::explain::{Item, LayerLine};
use crate::record::Category;

/// Iterations have at most so many layers side by side.
const LONGEST: usize = 64;

/// Which layers repeat.
#[derive(Debug, Default)]
pub(super) struct Iterations {
    /// By the number of their first layer.
    runs: BTreeMap<u64, Run>,
}

/// Iterations that have the same layers in the same order.
#[derive(Debug)]
struct Run {
    /// From one to the next the numbers rise by so much.
    step: u64,
    times: u64,
}

/// Where a layer stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'p> {
    /// The number of the run's first layer.
    run: u64,
    /// The number and the rest of the path of the layer that stands there in the first iteration.
    number: u64,
    rest: &'p str,
}

/// Lines of layers, and how many iterations they stand for.
#[derive(Debug)]
pub(super) struct Lines<'l> {
    pub(super) of: &'l [LayerLine],
    pub(super) times: u64,
    /// The last line of the last of these iterations.
    pub(super) last: &'l LayerLine,
}

/// An item, and how many iterations it stands for.
#[derive(Debug)]
pub(super) struct Items<'i> {
    pub(super) of: &'i Item,
    pub(super) times: u64,
}

impl Items<'_> {
    /// Bytes of all together.
    pub(super) fn bytes(&self) -> u64 {
        self.of.bytes * self.times
    }

    /// How many tensors they are.
    pub(super) fn count(&self) -> u64 {
        self.of.count * self.times
    }
}

/// The number that a path begins with, and what follows.
pub(super) fn numbered(path: &str) -> Option<(u64, &str)> {
    let (number, rest) = path.split_once('.')?;
    Some((number.parse().ok()?, rest))
}

impl Iterations {
    /// Those among these layers, which stand in the model's order.
    pub(super) fn of(layers: &[LayerLine]) -> Self {
        let units: Vec<&[LayerLine]> = layers.chunk_by(|a, b| number(a).is_some() && number(a) == number(b)).collect();
        // Units that have the same paths but for the number have the same name here.
        let mut names: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
        let named: Vec<Option<(u64, usize)>> = units
            .iter()
            .map(|unit| {
                let rests = unit.iter().filter_map(|line| numbered(&line.path)).map(|(_, rest)| rest).collect();
                let next = names.len();
                Some((number(&unit[0])?, *names.entry(rests).or_insert(next)))
            })
            .collect();
        let mut runs = BTreeMap::new();
        let mut at = 0;
        while at < named.len() {
            // Of several ways to read them the one that covers most, and of those the shortest iteration.
            let periods = 1..=LONGEST.min((named.len() - at) / 2);
            let covered = periods.map(|period| (times(&named[at..], period) * period, period)).max_by_key(|&(n, p)| (n, usize::MAX - p));
            match (covered, named[at]) {
                (Some((covered, period)), Some((first, _))) if covered > period => {
                    let step = named[at + period].map_or(1, |(second, _)| second - first);
                    runs.insert(first, Run { step, times: (covered / period) as u64 });
                    at += covered;
                }
                _ => at += 1,
            }
        }
        Self { runs }
    }

    /// Where a layer stands, and in which iteration.
    fn place<'p>(&self, path: &'p str) -> Option<(Place<'p>, u64)> {
        let (number, rest) = numbered(path)?;
        let (&first, run) = self.runs.range(..=number).next_back()?;
        let iteration = (number - first) / run.step;
        let number = first + (number - first) % run.step;
        (iteration < run.times).then_some((Place { run: first, number, rest }, iteration))
    }

    /// The lines, those of equal neighbouring iterations as one.
    pub(super) fn lines<'l>(&self, lines: &'l [LayerLine]) -> Vec<Lines<'l>> {
        let iteration = |line: &LayerLine| self.place(&line.path).map(|(place, iteration)| (place.run, iteration));
        let equal = |a: &LayerLine, b: &LayerLine| {
            let (a_place, b_place) = (self.place(&a.path), self.place(&b.path));
            let path = String::new();
            a_place.is_some_and(|(a_place, _)| b_place.is_some_and(|(b_place, _)| a_place == b_place))
                && LayerLine { path: path.clone(), ..a.clone() } == LayerLine { path, ..b.clone() }
        };
        let mut folded: Vec<Lines<'l>> = Vec::new();
        for of in lines.chunk_by(|a, b| iteration(a) == iteration(b)) {
            let last = of.last().expect("a chunk has a line");
            match folded.last_mut() {
                Some(before) if before.of.len() == of.len() && before.of.iter().zip(of).all(|(a, b)| equal(a, b)) => {
                    before.times += 1;
                    before.last = last;
                }
                _ => folded.push(Lines { of, times: 1, last }),
            }
        }
        folded
    }

    /// The items of a moment, in its order, those of equal neighbouring iterations as one.
    pub(super) fn items<'i>(&self, items: impl IntoIterator<Item = &'i Item>) -> Vec<Items<'i>> {
        type Key<'i> = (Place<'i>, Category, &'static str, u64);
        // Of each place the iteration that would go on, and where the item is that stands for it.
        let mut open: BTreeMap<Key<'i>, (u64, usize)> = BTreeMap::new();
        let mut folded: Vec<Items<'i>> = Vec::new();
        for of in items {
            if let Some((place, iteration)) = of.layer.as_deref().and_then(|path| self.place(path)) {
                let key = (place, of.category, of.source, of.requested);
                if let Some((next, at)) = open.get_mut(&key)
                    && *next == iteration
                    && (of.count, of.element, of.bytes) == (folded[*at].of.count, folded[*at].of.element, folded[*at].of.bytes)
                {
                    *next += 1;
                    folded[*at].times += 1;
                    continue;
                }
                open.insert(key, (iteration + 1, folded.len()));
            }
            folded.push(Items { of, times: 1 });
        }
        folded
    }
}

fn number(line: &LayerLine) -> Option<u64> {
    numbered(&line.path).map(|(number, _)| number)
}

/// How often the first so many of these follow each other, by their names and with numbers that rise evenly.
fn times(named: &[Option<(u64, usize)>], period: usize) -> usize {
    let rise = |at: usize| {
        let ((first, a), (second, b)) = (named[at]?, (*named.get(at + period)?)?);
        second.checked_sub(first).filter(|&rise| rise > 0 && a == b)
    };
    let Some(step) = rise(0) else { return 1 };
    let alike = (0..named.len()).take_while(|&at| rise(at) == Some(step)).count();
    1 + alike / period
}
