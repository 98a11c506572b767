//! Who holds what: follows a prediction's allocations and frees, and remembers what was alive at the moments that are asked about.
//!
//! Invariant: the bytes alive add up to the allocator's `allocated` at every row.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{LayerId, Plan};
use crate::ops::Library;
use crate::predict::listener::{Happening, Listener, Origin, Pass};
use crate::record::{At, Category, Phase, Predicted};

/// Tensors alike: as many, from one place, in one role, of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Their role.
    pub category: Category,
    /// The layer they come from, by path; `None` for what no layer makes.
    pub layer: Option<String>,
    /// What made them: an operator or a library.
    pub source: &'static str,
    /// How many.
    pub count: u64,
    /// Bytes asked for, each.
    pub requested: u64,
    /// Bytes of an element, where it is known of what type and shape they are.
    pub element: Option<u64>,
    /// Bytes of their blocks, all together.
    pub bytes: u64,
}

/// What is alive at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// The row it belongs to: the phase that ended, or in which the peak was.
    pub at: At,
    /// Bytes allocated.
    pub allocated: u64,
    /// What was running, for a peak.
    pub running: Option<(Option<String>, &'static str)>,
    /// By category, then by layer, then by size, the largest first. They add up to `allocated`.
    pub items: Vec<Item>,
}

/// Bytes of a layer in a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// The layer; `None` for what no layer makes.
    pub layer: Option<LayerId>,
    /// The role.
    pub category: Category,
    /// Bytes of blocks.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Live {
    requested: u64,
    bytes: u64,
    origin: Origin,
    /// The run of one operator in which it was made.
    run: u64,
}

/// Where the highest peak is: its number among happenings, and its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Highest {
    happening: u64,
    at: At,
}

/// Scratch of one layer: the most that its operators made and freed in one go, forward and backward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scratch {
    pub(super) forward: u64,
    pub(super) backward: u64,
}

/// Listens.
pub(super) struct Ledger<'p> {
    plan: Option<&'p Plan>,
    elements: Elements,
    live: BTreeMap<u32, Live>,
    allocated: u64,
    by_layer: BTreeMap<(Option<LayerId>, Category), u64>,
    happening: u64,
    /// The highest since the row before, and its number.
    peak: (u64, u64),
    highest: Option<(u64, Highest)>,
    wanted: Option<Highest>,
    wanted_moment: Option<Moment>,
    last: Option<Origin>,
    run: u64,
    /// Of the operator's run under way: the bytes of each storage made, and what of it has died, in order.
    made: BTreeMap<u32, u64>,
    died: Vec<(u32, bool)>,
    pub(super) scratch: BTreeMap<LayerId, Scratch>,
    pub(super) totals: Vec<Vec<Total>>,
    pub(super) phases: Vec<Moment>,
    /// Bytes that are alive once the first loss exists, by the layer that made them.
    pub(super) kept: BTreeMap<LayerId, u64>,
    kept_is_known: bool,
}

impl<'p> Ledger<'p> {
    /// Nothing yet. `wanted`: the moment to remember.
    pub(super) fn new(plan: Option<&'p Plan>, wanted: Option<Highest>) -> Self {
        Self {
            plan,
            elements: plan.map(Elements::of).unwrap_or_default(),
            live: BTreeMap::new(),
            allocated: 0,
            by_layer: BTreeMap::new(),
            happening: 0,
            peak: (0, 0),
            highest: None,
            wanted,
            wanted_moment: None,
            last: None,
            run: 0,
            made: BTreeMap::new(),
            died: Vec::new(),
            scratch: BTreeMap::new(),
            totals: Vec::new(),
            phases: Vec::new(),
            kept: BTreeMap::new(),
            kept_is_known: false,
        }
    }

    /// The highest peak there was; the first of several.
    pub(super) fn highest(&self) -> Highest {
        let nowhere = Highest { happening: 0, at: At { step: 0, micro_step: 0, phase: Phase::Model } };
        self.highest.map_or(nowhere, |(_, h)| h)
    }

    /// What was alive at the moment wanted.
    pub(super) fn at_highest(self) -> Moment {
        let at = self.wanted.expect("a moment was wanted").at;
        self.wanted_moment.unwrap_or(Moment { at, allocated: 0, running: None, items: Vec::new() })
    }

    fn allocate(&mut self, storage: u32, live: Live) {
        self.allocated += live.bytes;
        self.raise((live.origin.layer, live.origin.category), live.bytes);
        self.live.insert(storage, live);
        if self.allocated > self.peak.0 {
            self.peak = (self.allocated, self.happening);
        }
    }

    fn free(&mut self, storage: u32) {
        let live = self.live.remove(&storage).expect("what is freed was allocated");
        self.allocated -= live.bytes;
        self.lower((live.origin.layer, live.origin.category), live.bytes);
        if live.run == self.run {
            self.died.push((storage, false));
        }
    }

    /// Tensors of no elements hold nothing, and are nobody's.
    fn raise(&mut self, key: (Option<LayerId>, Category), bytes: u64) {
        if bytes > 0 {
            *self.by_layer.entry(key).or_default() += bytes;
        }
    }

    fn lower(&mut self, key: (Option<LayerId>, Category), bytes: u64) {
        if bytes == 0 {
            return;
        }
        let total = self.by_layer.get_mut(&key).expect("it was raised before");
        *total -= bytes;
        if *total == 0 {
            self.by_layer.remove(&key);
        }
    }

    /// An operator's run is over: what of its own it has freed was scratch.
    fn end_run(&mut self) {
        self.run += 1;
        let (made, died) = (std::mem::take(&mut self.made), std::mem::take(&mut self.died));
        let Some((layer, pass)) = self.last.and_then(|o| Some((o.layer?, o.pass))) else { return };
        let dead: BTreeSet<u32> = died.iter().filter(|(_, born)| !born).map(|(s, _)| *s).collect();
        let (mut now, mut most) = (0u64, 0u64);
        for (storage, born) in died {
            let Some(bytes) = made.get(&storage).filter(|_| dead.contains(&storage)) else { continue };
            now = if born { now + bytes } else { now.saturating_sub(*bytes) };
            most = most.max(now);
        }
        let scratch = self.scratch.entry(layer).or_default();
        let side = if matches!(pass, Pass::Forward) { &mut scratch.forward } else { &mut scratch.backward };
        *side = (*side).max(most);
    }

    fn row(&mut self, row: &Predicted) {
        debug_assert_eq!(self.allocated, row.memory.allocated, "what is alive adds up");
        let totals = self.by_layer.iter().map(|(&(layer, category), &bytes)| Total { layer, category, bytes });
        self.totals.push(totals.collect());
        let candidate = Highest { happening: self.peak.1, at: row.at };
        if self.highest.is_none_or(|(bytes, _)| self.peak.0 > bytes) {
            self.highest = Some((self.peak.0, candidate));
        }
        self.peak = (self.allocated, self.happening);
        if row.at.step <= 1 || self.plan.is_none() {
            let items = self.items();
            self.phases.push(Moment { at: row.at, allocated: self.allocated, running: None, items });
        }
        let forward_is_over = match row.at.phase {
            Phase::Loss => true,
            Phase::Forward => self.plan.is_some_and(|p| p.settings.no_grad),
            _ => false,
        };
        if forward_is_over && !self.kept_is_known {
            self.kept_is_known = true;
            for (&(layer, category), &bytes) in &self.by_layer {
                if let (Some(layer), Category::Activations) = (layer, category) {
                    *self.kept.entry(layer).or_default() += bytes;
                }
            }
        }
    }

    fn path(&self, layer: Option<LayerId>) -> Option<String> {
        Some(self.plan?.layers.get(layer?.index())?.path.clone())
    }

    fn items(&self) -> Vec<Item> {
        type Key = (Category, Option<LayerId>, std::cmp::Reverse<u64>, &'static str);
        let mut groups: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        for live in self.live.values() {
            let Origin { layer, operator, library, category, .. } = live.origin;
            let source = match library {
                Some(Library::Cublas) => "cublas",
                Some(Library::CublasLt) => "cublaslt",
                None => operator,
            };
            let group =
                groups.entry((category, layer.filter(|_| library.is_none()), std::cmp::Reverse(live.requested), source)).or_default();
            group.0 += 1;
            group.1 += live.bytes;
        }
        groups
            .into_iter()
            .map(|((category, layer, std::cmp::Reverse(requested), source), (count, bytes))| Item {
                category,
                layer: self.path(layer),
                source,
                count,
                requested,
                element: self.elements.get(layer, category, requested),
                bytes,
            })
            .collect()
    }
}

/// Bytes of an element of the plan's tensors, by where they are and their bytes; of several alike the first counts.
#[derive(Debug, Default)]
struct Elements {
    /// Of the state of each layer, and of all together.
    state: BTreeMap<(Option<LayerId>, u64), u64>,
    inputs: BTreeMap<u64, u64>,
    activations: BTreeMap<u64, u64>,
}

impl Elements {
    fn of(plan: &Plan) -> Self {
        let mut elements = Self::default();
        for state in &plan.state {
            for layer in [None, Some(state.layer)] {
                elements.state.entry((layer, state.meta.bytes())).or_insert(state.meta.dtype.bytes());
            }
        }
        let program = &plan.programs[plan.schedule[0]];
        for meta in std::iter::once(program.input).chain(program.target).map(|v| program.meta(v)) {
            elements.inputs.entry(meta.bytes()).or_insert(meta.dtype.bytes());
        }
        for meta in &program.values[plan.state.len()..] {
            elements.activations.entry(meta.bytes()).or_insert(meta.dtype.bytes());
        }
        elements
    }

    /// That of a tensor of so many bytes, where the plan has such a one in that place.
    fn get(&self, layer: Option<LayerId>, category: Category, requested: u64) -> Option<u64> {
        match category {
            Category::Parameters | Category::Buffers | Category::Gradients | Category::OptimizerState => {
                self.state.get(&(layer, requested))
            }
            Category::Inputs => self.inputs.get(&requested),
            Category::Activations => self.activations.get(&requested),
            Category::Workspace | Category::Other => None,
        }
        .copied()
    }
}

impl Listener for Ledger<'_> {
    fn hear(&mut self, happening: &Happening) {
        self.happening += 1;
        match *happening {
            Happening::Allocated { storage, requested, bytes, origin } => {
                let place = |o: &Origin| (o.pass, o.layer, o.operator);
                if self.last.as_ref().map(place) != Some(place(&origin)) {
                    self.end_run();
                }
                self.last = Some(origin);
                self.made.entry(storage).or_insert(bytes);
                self.died.push((storage, true));
                self.allocate(storage, Live { requested, bytes, origin, run: self.run });
                if let Some(wanted) = self.wanted.filter(|w| w.happening == self.happening) {
                    let running = Some((self.path(origin.layer), origin.operator));
                    let items = self.items();
                    self.wanted_moment = Some(Moment { at: wanted.at, allocated: self.allocated, running, items });
                }
            }
            Happening::Freed { storage } => self.free(storage),
            Happening::Becomes { storage, category } => {
                let live = self.live.get_mut(&storage).expect("what changes its role is alive");
                let (old, bytes) = ((live.origin.layer, live.origin.category), live.bytes);
                live.origin.category = category;
                self.lower(old, bytes);
                self.raise((old.0, category), bytes);
            }
            // The figures of the row say what is held then.
            Happening::RanOut(_) => {}
            Happening::Row(ref row) => {
                self.end_run();
                self.last = None;
                self.row(row);
            }
        }
    }
}
