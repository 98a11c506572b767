//! The largest value of a setting that fits, by asking about as few values as possible.
//!
//! Memory grows with a batch or a length almost in proportion, so two values that fit foretell where the limit is; but rounding and
//! scratch make it jump, and now and then a larger value needs less. The answer therefore rests on no assumption: the value found was
//! asked about and fits, the one after it was asked about and does not, nor do its neighbours.

use std::collections::BTreeMap;

/// What asking about a value gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Whether it fits.
    pub fits: bool,
    /// The most bytes allocated at once, where it fits.
    pub peak: u64,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Largest {
    /// This value fits and the next does not.
    Fits(u64),
    /// Not even 1 fits.
    Nothing,
    /// This value, the most that was allowed, fits too.
    All(u64),
    /// Values so far apart need the same that it does not depend on them.
    Indifferent,
    /// From this value on, larger ones need no more.
    Level(u64),
}

/// How far is looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The largest value.
    pub most: u64,
    /// So many times as much must make a difference.
    pub far: u64,
}

/// How many values after the first that does not fit are asked about too.
const NEIGHBOURS: u64 = 4;

struct Search<'a> {
    probe: &'a mut dyn FnMut(u64) -> Probe,
    known: BTreeMap<u64, Probe>,
    limit: u64,
}

/// The largest value within reach, from 1 on, that fits into `limit` bytes, looked for from `start` on.
pub fn largest(start: u64, reach: Reach, limit: u64, probe: &mut dyn FnMut(u64) -> Probe) -> Largest {
    let most = reach.most;
    let mut search = Search { probe, known: BTreeMap::new(), limit };
    let Some(mut low) = search.first(start.clamp(1, most)) else { return Largest::Nothing };
    loop {
        let mut high = match search.grow(low, reach) {
            Ok(high) => high,
            Err(end) => return end,
        };
        low = search.lowest_below(high);
        let mut narrow = false;
        while high - low > 1 {
            // By turns foretold and halved: the first is quick, the second sure.
            let middle = if narrow { low + (high - low) / 2 } else { search.foretell(low, high) };
            narrow = !narrow;
            if search.fits(middle) { low = middle } else { high = middle }
        }
        match (high + 1..=high.saturating_add(NEIGHBOURS).min(most)).rev().find(|&v| search.fits(v)) {
            Some(beyond) => low = beyond,
            None => return Largest::Fits(low),
        }
    }
}

impl Search<'_> {
    fn ask(&mut self, value: u64) -> Probe {
        if let Some(known) = self.known.get(&value) {
            return *known;
        }
        let found = (self.probe)(value);
        self.known.insert(value, found);
        found
    }

    fn fits(&mut self, value: u64) -> bool {
        self.ask(value).fits
    }

    /// A value that fits, halving from `start`.
    fn first(&mut self, start: u64) -> Option<u64> {
        let mut value = start;
        while !self.fits(value) {
            if value == 1 {
                return None;
            }
            value /= 2;
        }
        Some(value)
    }

    /// A value above `low` that does not fit, or why there is none.
    fn grow(&mut self, mut low: u64, Reach { most, far }: Reach) -> Result<u64, Largest> {
        loop {
            if low == most {
                return Err(Largest::All(most));
            }
            if let Some(level) = self.level(low, far) {
                return Err(level);
            }
            if let Some((&high, _)) = self.known.range(low + 1..).find(|(_, p)| !p.fits) {
                return Ok(high);
            }
            let double = low.saturating_mul(2).min(most);
            // A little beyond what is foretold, so that it is likely the other side.
            let next =
                self.line(low).map_or(double, |at| at.saturating_add(at / 128 + 1)).clamp(low + 1, most.min(low.saturating_mul(far)));
            if !self.fits(next) {
                return Ok(next);
            }
            low = next;
        }
    }

    /// Whether all values asked about from a far smaller one up to `low` need the same. Those below where the search set out may need less,
    /// so they are asked about too.
    fn level(&mut self, low: u64, far: u64) -> Option<Largest> {
        let peak = self.ask(low).peak;
        let same = |p: &Probe| p.fits && p.peak == peak;
        let (&from, _) = self.known.range(..=low).rev().take_while(|(_, p)| same(p)).last()?;
        if low / far < from {
            return None;
        }
        let mut from = from;
        while from > 1 && same(&self.ask(from / 2)) {
            from /= 2;
        }
        Some(if from == 1 { Largest::Indifferent } else { Largest::Level(from) })
    }

    /// The highest value known to fit below one that does not.
    fn lowest_below(&self, high: u64) -> u64 {
        self.known.range(..high).rev().find(|(_, p)| p.fits).map_or(0, |(v, _)| *v)
    }

    /// Where the line through the two highest values that fit, up to `low`, meets the limit.
    fn line(&self, low: u64) -> Option<u64> {
        let mut fitting = self.known.range(..=low).rev().filter(|(_, p)| p.fits);
        let (&v2, p2) = fitting.next()?;
        let (&v1, p1) = fitting.find(|(v, p)| **v < v2 && p.peak < p2.peak)?;
        let slope = (p2.peak - p1.peak) as f64 / (v2 - v1) as f64;
        let room = self.limit.saturating_sub(p2.peak) as f64;
        Some(v2.saturating_add((room / slope) as u64))
    }

    /// A value between `low` and `high`, nearest to where the limit is foretold.
    fn foretell(&self, low: u64, high: u64) -> u64 {
        self.line(low).unwrap_or(low + (high - low) / 2).clamp(low + 1, high - 1)
    }
}
