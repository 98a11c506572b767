//! The machine that plays a program: who holds what, and what a recipe's effects do to memory. What runs on it is in `forward` and
//! `backward`.
//!
//! Invariant: every storage that a recipe makes ends with a holder, a variable, a node or a frame, or is freed by the time the
//! operator returns.

use super::checkpoint::Frames;
use super::graph::Graph;
use super::scope::{Scope, Variable};
use super::storage::{Attempt, Id, NONE, Storages};
use crate::model::ValueId;
use crate::ops::{Effect, Library, RuleContext};

/// A thread, each with library handles of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    Main,
    /// Autograd's.
    Backward,
}

/// The predictor's machine: what is held where, and by whom.
pub(super) struct Machine<'l, 'g> {
    pub(super) storages: Storages<'l>,
    pub(super) graph: Graph,
    pub(super) frames: Frames,
    pub(super) cx: RuleContext<'g>,
    /// Parameters and buffers.
    pub(super) state: Vec<Id>,
    /// Gradients of parameters, by their number in the state.
    pub(super) gradients: Vec<Id>,
    /// By thread and library.
    workspaces: [[Id; 2]; 2],
    /// The slots of the running recipe.
    pub(super) slots: Vec<Id>,
    /// What the running formulas hold besides: gradients that came in, and what was opened for them.
    pub(super) passing: Vec<Id>,
}

impl<'l, 'g> Machine<'l, 'g> {
    pub(super) fn new(storages: Storages<'l>, cx: RuleContext<'g>) -> Self {
        Self {
            storages,
            graph: Graph::default(),
            frames: Frames::default(),
            cx,
            state: Vec::new(),
            gradients: Vec::new(),
            workspaces: [[NONE; 2]; 2],
            slots: Vec::new(),
            passing: Vec::new(),
        }
    }

    /// By thread and library.
    pub(super) fn workspaces(&self) -> &[[Id; 2]; 2] {
        &self.workspaces
    }

    /// Another holder of a variable's tensor.
    pub(super) fn hold(&mut self, variable: Variable) -> Variable {
        self.storages.hold(variable.storage);
        self.graph.hold(variable.node);
        variable
    }

    /// A variable lets go of its tensor, if it has one: of its graph first.
    pub(super) fn release(&mut self, variable: Variable) {
        if variable.storage != NONE {
            self.graph.release(variable.node, &mut self.storages, &mut self.frames);
            self.storages.release(variable.storage);
        }
    }

    /// All variables of a scope go.
    pub(super) fn close(&mut self, scope: &mut Scope) {
        for variable in scope.take_all() {
            self.release(variable);
        }
    }

    /// What a value's variable holds now.
    pub(super) fn variable(&self, scope: &Scope, value: ValueId) -> Variable {
        match self.state.get(value.index()) {
            Some(&storage) => Variable { storage, ..Variable::UNBOUND },
            None => scope.get(value),
        }
    }

    /// The variable goes out of scope, if it is there.
    pub(super) fn unbind(&mut self, value: ValueId, scope: &mut Scope) {
        if let Some(variable) = scope.bound(value) {
            let variable = std::mem::replace(variable, Variable::UNBOUND);
            self.release(variable);
        }
    }

    /// Memory has run out: what the failing operator holds dies as the exception passes, and gradients on their way go nowhere.
    pub(super) fn fail(&mut self) {
        self.end_recipe();
        for storage in std::mem::take(&mut self.passing) {
            self.storages.release(storage);
        }
        for gradient in self.graph.take_incoming() {
            self.storages.release(gradient.storage);
        }
    }

    /// An effect on slots and workspaces.
    #[inline]
    pub(super) fn perform(&mut self, effect: Effect, thread: Thread) -> Attempt {
        match effect {
            Effect::Alloc { slot, bytes } => {
                let storage = self.storages.alloc_slot(bytes, slot)?;
                debug_assert_eq!(slot, self.slots.len(), "recipes number their slots as they come");
                self.slots.push(storage);
            }
            Effect::Free(slot) => {
                let storage = std::mem::replace(&mut self.slots[slot], NONE);
                self.storages.release(storage);
            }
            Effect::Library(library) => self.workspace(library, thread)?,
            Effect::Keep(_) | Effect::Returned => {}
        }
        Ok(())
    }

    /// A recipe has run: what it still holds and nobody took dies.
    pub(super) fn end_recipe(&mut self) {
        let mut slots = std::mem::take(&mut self.slots);
        for storage in slots.drain(..).filter(|&s| s != NONE) {
            self.storages.release(storage);
        }
        self.slots = slots;
    }

    /// The workspace of a thread's library handle, taken at its first use and never given back.
    fn workspace(&mut self, library: Library, thread: Thread) -> Attempt {
        if library == Library::CublasLt {
            self.workspace(Library::Cublas, thread)?;
        }
        let (t, l) = (thread as usize, library as usize);
        if self.workspaces[t][l] == NONE {
            self.workspaces[t][l] = self.storages.alloc_workspace(library.workspace_bytes(self.cx.gpu), library)?;
        }
        Ok(())
    }
}
