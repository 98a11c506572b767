//! The three figures of a row, by name: for whatever treats them alike.
//!
//! Invariant: the order is that of the CSV's columns.

use crate::record::Memory;

/// A figure of a row by the name its columns end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are the columns'
pub enum Figure {
    Allocated,
    Peak,
    Reserved,
}

impl Figure {
    /// All of them, in the columns' order.
    pub const ALL: [Self; 3] = [Self::Allocated, Self::Peak, Self::Reserved];

    /// The name in the header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated",
            Self::Peak => "peak",
            Self::Reserved => "reserved",
        }
    }

    /// The column of that side, `predicted`, `measured` or `error`.
    #[must_use]
    pub fn column(self, side: &str) -> String {
        format!("{side}_{}", self.name())
    }

    /// The figure of `memory`.
    #[must_use]
    pub const fn of(self, memory: &Memory) -> u64 {
        match self {
            Self::Allocated => memory.allocated,
            Self::Peak => memory.peak,
            Self::Reserved => memory.reserved,
        }
    }

    /// Its error in bytes: predicted − measured.
    #[must_use]
    pub fn error(self, predicted: &Memory, measured: &Memory) -> i128 {
        i128::from(self.of(predicted)) - i128::from(self.of(measured))
    }
}
