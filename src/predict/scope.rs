//! Variables and the scopes that they live in, as Python has them.
//!
//! Invariant: an unbound variable holds nothing.

use std::ops::Range;

use super::graph::{NO_NODE, NodeId};
use super::history::Remembered;
use super::storage::{Id, NONE};
use crate::model::ValueId;

/// A variable's tensor: it holds its storage, and the node that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) storage: Id,
    pub(super) node: NodeId,
    /// Which of the node's outputs it is.
    pub(super) output: u32,
}

impl Variable {
    /// A variable that is not bound.
    pub(super) const UNBOUND: Self = Self { storage: NONE, node: NO_NODE, output: 0 };
}

/// The variables of one run: of a whole program, or of a region that is run again.
#[derive(Debug)]
pub(super) struct Scope {
    first: usize,
    variables: Vec<Variable>,
    /// A region's argument is a variable of the caller's, which outlives the run.
    argument: Option<(ValueId, Id)>,
    /// Histories of tensors that something keeps and something else writes into, by the first value in their storage.
    pub(super) histories: Vec<(ValueId, Remembered)>,
}

impl Scope {
    /// Variables for the values of that range.
    pub(super) fn new(values: Range<usize>, argument: Option<(ValueId, Id)>) -> Self {
        Self { first: values.start, variables: vec![Variable::UNBOUND; values.len()], argument, histories: Vec::new() }
    }

    fn slot(&mut self, value: ValueId) -> &mut Variable {
        &mut self.variables[value.index() - self.first]
    }

    /// Binds a variable for the first time.
    pub(super) fn bind(&mut self, value: ValueId, variable: Variable) {
        *self.slot(value) = variable;
    }

    /// The variable, where the scope has it and it is bound.
    pub(super) fn bound(&mut self, value: ValueId) -> Option<&mut Variable> {
        let index = value.index().checked_sub(self.first)?;
        self.variables.get_mut(index).filter(|v| v.storage != NONE)
    }

    /// The variable, unbound from now on.
    pub(super) fn take(&mut self, value: ValueId) -> Variable {
        std::mem::replace(self.slot(value), Variable::UNBOUND)
    }

    /// What a variable holds now.
    pub(super) fn get(&self, value: ValueId) -> Variable {
        match self.argument {
            Some((argument, storage)) if argument == value => Variable { storage, ..Variable::UNBOUND },
            _ => self.variables[value.index() - self.first],
        }
    }

    /// All variables: the scope has none from now on.
    pub(super) fn take_all(&mut self) -> Vec<Variable> {
        std::mem::take(&mut self.variables)
    }
}
