//! Layers in order, as `nn.Sequential` runs them: what repeats is unrolled, what nests is a module of its own.

use std::fmt;
use std::rc::Rc;

use super::{Check, Origin, Signal};
use crate::model::lowering::{Lowering, Var};

/// A layer with its settings: how it changes shapes, and what operators it stands for.
pub trait Layer: fmt::Debug {
    /// The output's shape; `None` where a mistake leaves it unknown. Mistakes go to `cx`.
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal>;

    /// Appends the layer's operators for the argument `input`, which is the caller's to drop, and returns the result: a new
    /// variable, or `input` itself where the layer works in place or passes it through.
    ///
    /// # Panics
    /// For a layer whose operators do not exist yet: it is refused before lowering.
    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let _ = (input, cx);
        panic!("a layer without operators is refused before lowering: {self:?}")
    }

    /// The layers inside.
    fn children(&self) -> Vec<&Sequence> {
        Vec::new()
    }

    /// The layers and how often, where it is nothing but a repetition: a sequence then lists them as its own modules.
    fn repeats(&self) -> Option<(&Sequence, u64)> {
        None
    }
}

/// A layer and where it is written.
#[derive(Debug, Clone)]
pub struct Item {
    /// The name of its kind.
    pub name: &'static str,
    /// The layer.
    pub layer: Rc<dyn Layer>,
    /// Where it is written.
    pub origin: Origin,
}

/// Layers in order. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Sequence {
    items: Rc<[Item]>,
    /// How many layers there are when all is unrolled; saturating.
    count: u64,
    /// How deep they nest.
    depth: usize,
}

impl Sequence {
    /// Layers in order.
    #[must_use]
    pub fn new(items: Vec<Item>) -> Self {
        let count = items.iter().fold(0u64, |n, item| {
            let inside = item.layer.children().iter().fold(0u64, |n, s| n.saturating_add(s.count));
            let inside = match item.layer.repeats() {
                // Repeating nothing takes its turns too.
                Some((_, times)) => inside.max(1).saturating_mul(times),
                None => inside,
            };
            n.saturating_add(inside).saturating_add(1)
        });
        let depth = items.iter().flat_map(|item| item.layer.children()).map(|s| s.depth).max().unwrap_or(0) + 1;
        Self { items: items.into(), count, depth }
    }

    /// How many layers there are when everything is unrolled.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How deep layers nest; 1 without nesting.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The layers as written.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The modules that `nn.Sequential` would hold: a `repeat` here stands for its layers, so many times.
    pub fn modules(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().flat_map(|item| {
            let (list, times) = item.layer.repeats().map_or((std::slice::from_ref(item), 1), |(inside, times)| (inside.items(), times));
            (0..times).flat_map(move |_| list)
        })
    }

    /// Follows shapes through all layers, collecting mistakes.
    pub fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        let mut signal = input.clone();
        for item in self.items.iter() {
            let around = std::mem::replace(&mut cx.origin, item.origin);
            let output = item.layer.check(&signal, cx);
            cx.origin = around;
            signal = output?;
        }
        Some(signal)
    }

    /// `nn.Sequential.forward`.
    pub(in crate::model) fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        sequential(self.modules().enumerate(), input, cx, |(i, module), x, cx| module.lower(At::both(i), x, cx))
    }
}

/// A module's number in the sequence that holds it, and the layer's number as reports count.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct At {
    pub(in crate::model) module: usize,
    pub(in crate::model) layer: usize,
}

impl At {
    /// Where both count alike.
    pub(in crate::model) fn both(number: usize) -> Self {
        Self { module: number, layer: number }
    }
}

impl Item {
    /// Lowers one module of a sequence.
    pub(in crate::model) fn lower(&self, at: At, input: Var, cx: &mut Lowering) -> Var {
        cx.layer(at, self, |cx| self.layer.lower(input, cx))
    }
}

/// The loop of `nn.Sequential.forward`: its variable is bound anew to each module's result, so that each value between is
/// dropped once the next module has returned. The argument is the caller's.
pub(in crate::model) fn sequential<M>(
    modules: impl Iterator<Item = M>,
    input: Var,
    cx: &mut Lowering,
    mut lower: impl FnMut(M, Var, &mut Lowering) -> Var,
) -> Var {
    let mut variable = input;
    for module in modules {
        let result = lower(module, variable, cx);
        if result != variable {
            if variable != input {
                cx.drop(variable);
            }
            variable = result;
        }
    }
    variable
}
