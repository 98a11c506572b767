//! What a run does to memory, written down while it runs: who holds which block, what a request that failed met, and, where asked
//! for, every event. It watches and changes nothing.
//!
//! Invariant: what is held is what the allocator counts as allocated, block for block.

use std::collections::HashMap;

use crate::alloc::{Action, Allocator, Event, OutOfMemory, Snapshot, Stats};
use crate::record::{About, At, Category, Running};
use crate::tensor::{Memory, Watcher};

/// A block in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Where it is.
    pub address: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes of the block, which is what counts.
    pub bytes: u64,
    /// What ran when it was allocated.
    pub running: Running,
    /// The role it plays.
    pub category: Category,
    /// The tensor of the model that it is, or is for, by its number in the plan's state.
    pub state: Option<u32>,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A block was handed out.
    Alloc(Held),
    /// A block was given back; as it was then.
    Free(Held),
    /// A block plays another role from now on; as it is from then.
    Becomes(Held),
    /// The allocator asked the device for memory, gave some back, or failed.
    Segment(Event),
    /// The program gave back what was cached.
    EmptyCache,
    /// A row was taken: what lies between it and the row before belongs to its phase.
    Row(At),
}

/// A request that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What the allocator said.
    pub error: OutOfMemory,
    /// What asked.
    pub running: Running,
    /// What for.
    pub category: Category,
    /// The tensor of the model that it was, or was for.
    pub state: Option<u32>,
    /// How memory lay.
    pub snapshot: Snapshot,
    /// All statistics, as if no peak had been reset.
    pub stats: Stats,
    /// What was held, by address.
    pub held: Vec<Held>,
}

/// A run at its end, its variables still alive.
#[derive(Debug, Clone)]
pub struct End {
    /// How memory lay.
    pub snapshot: Snapshot,
    /// All statistics, as if no peak had been reset.
    pub stats: Stats,
}

/// The writer.
#[derive(Debug, Default)]
pub struct Recorder {
    live: HashMap<u64, Held>,
    history: Option<Vec<Entry>>,
    failure: Option<Failure>,
    end: Option<End>,
}

impl Recorder {
    /// Writes down what is held, and every event where `history` is wanted.
    #[must_use]
    pub fn new(history: bool) -> Self {
        Self { history: history.then(Vec::new), ..Self::default() }
    }

    /// A row was taken: also the one of a failure.
    pub fn row(&mut self, at: At) {
        if let (None, Some(history)) = (&self.end, &mut self.history) {
            history.push(Entry::Row(at));
        }
    }

    /// The run is at its end, its variables still alive. What follows is not written down.
    pub fn end(&mut self, memory: &Memory) {
        self.end = Some(End { snapshot: memory.allocator().snapshot(), stats: memory.stats() });
    }

    /// Everything that happened up to the end, or to the failure.
    #[must_use]
    pub fn history(&self) -> &[Entry] {
        self.history.as_deref().unwrap_or_default()
    }

    /// Of each block that was handed out, in order, what it was in the end: a tensor becomes a gradient after it was made.
    #[must_use]
    pub fn in_the_end(&self) -> Vec<Held> {
        let mut last = HashMap::new();
        let mut held = Vec::new();
        for entry in self.history().iter().rev() {
            match entry {
                Entry::Becomes(role) => drop(last.entry(role.address).or_insert(*role)),
                Entry::Alloc(made) => held.push(last.remove(&made.address).unwrap_or(*made)),
                Entry::Free(_) | Entry::Segment(_) | Entry::EmptyCache | Entry::Row(_) => {}
            }
        }
        held.reverse();
        held
    }

    /// The first request that failed.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The end, if the run came to it.
    #[must_use]
    pub fn reached_end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn is_over(&self) -> bool {
        self.end.is_some() || self.failure.is_some()
    }

    fn note(&mut self, entry: Entry) {
        if !self.is_over()
            && let Some(history) = &mut self.history
        {
            history.push(entry);
        }
    }

    fn held(&self) -> Vec<Held> {
        let mut held: Vec<Held> = self.live.values().copied().collect();
        held.sort_unstable_by_key(|h| h.address);
        held
    }

    fn state(&self, about: About) -> Option<u32> {
        match about {
            About::Nothing => None,
            About::State(number) => Some(number),
            About::At(address) | About::StateOf(address, _) => self.live.get(&address)?.state,
        }
    }
}

impl Watcher for Recorder {
    fn event(&mut self, event: &Event, running: &Running, category: Category) {
        match event.action {
            Action::Alloc => {
                let state = self.state(running.about);
                let held = Held { address: event.address, requested: event.bytes, bytes: event.block, running: *running, category, state };
                self.live.insert(event.address, held);
                self.note(Entry::Alloc(held));
            }
            Action::Free => {
                if let Some(held) = self.live.remove(&event.address) {
                    self.note(Entry::Free(held));
                }
            }
            _ => self.note(Entry::Segment(*event)),
        }
    }

    fn becomes(&mut self, address: u64, category: Category, running: &Running) {
        let state = self.state(running.about);
        if let Some(held) = self.live.get_mut(&address) {
            held.category = category;
            held.state = state.or(held.state);
            let held = *held;
            self.note(Entry::Becomes(held));
        }
    }

    fn empties_cache(&mut self) {
        self.note(Entry::EmptyCache);
    }

    fn ran_out(&mut self, failure: &OutOfMemory, running: &Running, category: Category, allocator: &Allocator, past_peaks: &Stats) {
        if self.is_over() {
            return;
        }
        self.failure = Some(Failure {
            error: *failure,
            running: *running,
            category,
            state: self.state(running.about),
            snapshot: allocator.snapshot(),
            stats: allocator.stats().with_peaks(past_peaks),
            held: self.held(),
        });
    }
}
