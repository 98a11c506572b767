//! Things known by number, where the number of one that is gone is given to the next that comes.
//!
//! Invariant: numbers depend on nothing but the order in which things came and went.

use std::ops::{Index, IndexMut};

/// Things of one kind, by number.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<T>,
    vacant: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Takes a thing in. Returns its number.
    #[inline]
    pub(super) fn insert(&mut self, entry: T) -> u32 {
        if let Some(id) = self.vacant.pop() {
            self.entries[id as usize] = entry;
            return id;
        }
        self.push(entry)
    }

    /// The number of a thing that is gone, which lies there as it was left, or of a new one.
    pub(super) fn reuse_or(&mut self, new: impl FnOnce() -> T) -> u32 {
        self.vacant.pop().unwrap_or_else(|| self.push(new()))
    }

    fn push(&mut self, entry: T) -> u32 {
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 are alive at once")
    }

    /// The thing is gone; its number is the next to be given.
    #[inline]
    pub(super) fn vacate(&mut self, id: u32) {
        self.vacant.push(id);
    }

    /// All things, those that are gone among them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.entries[id as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.entries[id as usize]
    }
}
