//! A builder of recipes: effects in order, slots numbered as they come. It only writes; [`super::rule`] says what the parts mean.

use super::reduction::Reduction;
use super::rule::{Backward, Effect, Forward, Gradient, Library, Output, Saved, Slot};
use crate::gpu::Gpu;
use crate::meta::{Shape, TensorMeta};

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

    /// Backward's formulas end here.
    pub fn returned(&mut self) {
        self.effects.push(Effect::Returned);
    }

    /// The engine's check of a gradient against its input: it sums over broadcast dimensions, then casts to the input's type.
    pub fn fit(&mut self, gpu: &Gpu, raw: Raw, input: &TensorMeta) -> Gradient {
        let summed = self.sum_to(gpu, raw, &input.shape);
        if summed.meta.dtype == input.dtype {
            return summed.gradient;
        }
        let cast = self.tensor(&input.like());
        self.release(&summed);
        Gradient::New(cast, input.like())
    }

    /// A gradient in another shape: a view of it wherever its strides allow one, else a contiguous copy.
    pub fn reshaped(&mut self, raw: Raw, shape: &Shape) -> Gradient {
        match (raw.meta.viewed(shape), raw.gradient) {
            (Some(meta), Gradient::Same(n) | Gradient::View(n, _)) => Gradient::View(n, meta),
            (Some(meta), Gradient::New(slot, _)) => Gradient::New(slot, meta),
            (Some(meta), Gradient::Part(slot, _)) => Gradient::Part(slot, meta),
            (None, _) => {
                let meta = TensorMeta::contiguous(shape.clone(), raw.meta.dtype);
                Gradient::New(self.tensor(&meta), meta)
            }
            (_, Gradient::None) => Gradient::None,
        }
    }

    fn sum_to(&mut self, gpu: &Gpu, raw: Raw, shape: &Shape) -> Raw {
        let from = &raw.meta.shape;
        let leading = from.rank() - shape.rank();
        let reduced: Vec<bool> =
            from.dims().iter().enumerate().map(|(i, &d)| i < leading || (shape.dims()[i - leading] == 1 && d != 1)).collect();
        if !reduced.contains(&true) {
            return raw;
        }
        let sum = Reduction::new(&raw.meta, &reduced, raw.meta.dtype).run(self, gpu);
        self.release(&raw);
        Raw::new(sum, TensorMeta::contiguous(shape.clone(), raw.meta.dtype))
    }

    fn release(&mut self, raw: &Raw) {
        if let Gradient::New(slot, _) = raw.gradient {
            self.free(slot);
        }
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

    /// The backward recipe of an operator that gives a part of its input: zeros for the whole, with the part's gradient in its place.
    #[must_use]
    pub fn part_backward(mut self, input: &TensorMeta, incoming: Option<&TensorMeta>) -> Backward {
        let Some(incoming) = incoming else { return self.backward(vec![Gradient::None]) };
        let whole = input.with_dtype(incoming.dtype);
        let out = self.tensor(&whole);
        self.backward(vec![Gradient::New(out, whole)])
    }

    /// The bare effects.
    #[must_use]
    pub fn into_effects(self) -> Vec<Effect> {
        self.effects
    }
}

/// A gradient as its formula leaves it, before the engine fits it to the input.
#[derive(Debug, Clone)]
pub struct Raw {
    gradient: Gradient,
    meta: TensorMeta,
}

impl Raw {
    /// In a slot of the recipe.
    #[must_use]
    pub fn new(slot: Slot, meta: TensorMeta) -> Self {
        Self { gradient: Gradient::New(slot, meta.clone()), meta }
    }

    /// The very gradient of output `n`, which lies as `meta` says.
    #[must_use]
    pub const fn same(n: usize, meta: TensorMeta) -> Self {
        Self { gradient: Gradient::Same(n), meta }
    }

    /// A view of the gradient of output `n`.
    #[must_use]
    pub fn view(n: usize, meta: TensorMeta) -> Self {
        Self { gradient: Gradient::View(n, meta.clone()), meta }
    }
}
