//! Categories: the role a storage plays when a row is taken. They add up to what is allocated.

use std::ops::{Index, IndexMut};

/// The role of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each is explained in `Category::ALL`'s order by the results' documentation
pub enum Category {
    Parameters,
    Buffers,
    Gradients,
    OptimizerState,
    Activations,
    Inputs,
    Workspace,
    Other,
}

impl Category {
    /// Every category, in the order of the CSV's columns.
    pub const ALL: [Self; 8] = [
        Self::Parameters,
        Self::Buffers,
        Self::Gradients,
        Self::OptimizerState,
        Self::Activations,
        Self::Inputs,
        Self::Workspace,
        Self::Other,
    ];

    /// The CSV column's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Buffers => "buffers",
            Self::Gradients => "gradients",
            Self::OptimizerState => "optimizer_state",
            Self::Activations => "activations",
            Self::Inputs => "inputs",
            Self::Workspace => "workspace",
            Self::Other => "other",
        }
    }
}

/// Bytes of counted blocks, by category.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Categories([u64; 8]);

impl Categories {
    /// Sum over all categories.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<Category> for Categories {
    type Output = u64;
    fn index(&self, c: Category) -> &u64 {
        &self.0[c as usize]
    }
}

impl IndexMut<Category> for Categories {
    fn index_mut(&mut self, c: Category) -> &mut u64 {
        &mut self.0[c as usize]
    }
}
