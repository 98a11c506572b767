//! A builder of recipes: effects in order, slots numbered as they come. It only writes; [`super::rule`] says what the parts mean.

use super::rule::{Backward, Effect, Forward, Gradient, Library, Output, Saved, Slot};
use crate::meta::TensorMeta;

/// A recipe being written.
#[derive(Debug, Default)]
pub struct Recipe {
    effects: Vec<Effect>,
    slots: Slot,
}

impl Recipe {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for `bytes`.
    pub fn alloc(&mut self, bytes: u64) -> Slot {
        let slot = self.slots;
        self.slots += 1;
        self.effects.push(Effect::Alloc { slot, bytes });
        slot
    }

    /// Asks for a contiguous tensor.
    pub fn tensor(&mut self, meta: &TensorMeta) -> Slot {
        self.alloc(meta.bytes())
    }

    /// Gives a slot back.
    pub fn free(&mut self, slot: Slot) {
        self.effects.push(Effect::Free(slot));
    }

    /// A slot that comes and goes.
    pub fn temporary(&mut self, bytes: u64) {
        let slot = self.alloc(bytes);
        self.free(slot);
    }

    /// The first use of a library's handle on a thread takes its workspace here.
    pub fn library(&mut self, library: Library) {
        self.effects.push(Effect::Library(library));
    }

    /// Autograd packs it here, if `needed`.
    pub fn keep(&mut self, saved: Saved, needed: bool) {
        if needed {
            self.effects.push(Effect::Keep(saved));
        }
    }

    /// A slot that backward needs: kept if `needed`, else given back.
    pub fn keep_or_free(&mut self, slot: Slot, needed: bool) {
        self.effects.push(if needed { Effect::Keep(Saved::Slot(slot)) } else { Effect::Free(slot) });
    }

    /// The forward recipe with its outputs.
    #[must_use]
    pub fn forward(self, outputs: Vec<Output>) -> Forward {
        Forward { effects: self.effects, outputs }
    }

    /// The backward recipe with its gradients, one an input.
    #[must_use]
    pub fn backward(self, gradients: Vec<Gradient>) -> Backward {
        Backward { effects: self.effects, gradients }
    }

    /// The bare effects.
    #[must_use]
    pub fn into_effects(self) -> Vec<Effect> {
        self.effects
    }
}
