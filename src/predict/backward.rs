//! Autograd's engine: nodes in reverse order of their making, gradients summed where paths meet, and parameters' gradients.
//!
//! PyTorch's order for one node: open what it kept, run its formulas, fit the gradients, let go of the incoming gradient and then of
//! what was kept, and only then hand the gradients on. A parameter's gradient is taken in at once.

use super::graph::{Edge, Gradient, Kept, Kind, NO_NODE, NodeId};
use super::listener::Pass;
use super::machine::{Machine, Thread};
use super::program::{Compiled, Layout, Outgoing};
use super::scope::Variable;
use super::storage::{Attempt, Id, NONE};
use crate::meta::TensorMeta;
use crate::ops::Effect;
use crate::ops::rule::promote;
use crate::record::Category;

/// A gradient that a node hands on.
struct Handed {
    gradient: Gradient,
    /// Whether it is the very tensor that came in, which another path may hold too.
    same: bool,
}

impl Machine<'_, '_> {
    /// `loss.backward()`, the loss a scalar that lies as `layout`.
    pub(super) fn backward(&mut self, program: &Compiled<'_>, loss: Variable, layout: &Layout) -> Attempt {
        let root = self.root_gradient(layout)?;
        self.storages.hold(root);
        self.backward_from(program, loss, Gradient::new(root, Layout::clone(layout)))?;
        self.storages.release(root);
        Ok(())
    }

    /// The gradient that backward begins with, which the script holds until backward returns.
    pub(super) fn root_gradient(&mut self, layout: &Layout) -> Attempt<Id> {
        self.storages.begin(Pass::Backward, None, "ones_like");
        self.storages.alloc(layout.bytes())
    }

    /// Everything that follows from a gradient of `tensor`.
    pub(super) fn backward_from(&mut self, program: &Compiled<'_>, tensor: Variable, gradient: Gradient) -> Attempt {
        assert!(tensor.node != NO_NODE, "a loss that is trained on depends on a parameter");
        self.graph.node(tensor.node).incoming[tensor.output as usize] = Some(gradient);
        let tape = std::mem::take(&mut self.graph.tape);
        for &(id, sequence) in tape.iter().rev() {
            let node = self.graph.node(id);
            if node.sequence == sequence && node.incoming.iter().any(Option::is_some) {
                self.visit(program, id)?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, program: &Compiled<'_>, id: NodeId) -> Attempt {
        let node = self.graph.node(id);
        let (op, kind) = (&program.ops[node.op as usize], node.kind.clone());
        let incoming = std::mem::take(&mut node.incoming);
        self.passing.extend(incoming.iter().flatten().map(|g| g.storage));
        let handed = match &kind {
            Kind::Operator | Kind::View => self.formulas(program, id, &incoming)?,
            Kind::OnView(base) => self.on_view(program, id, base)?,
            Kind::Strided(base) => {
                self.storages.begin(Pass::Backward, Some(op.layer), "as_strided");
                let storage = self.storages.alloc(base.bytes())?;
                vec![Some(Handed { gradient: Gradient::view(storage, base.clone()), same: false })]
            }
            Kind::Made(made) => {
                let arrived = incoming[0].as_ref().expect("a node runs once a gradient has arrived");
                let gradient = match arrived.layout.viewed(&made.shape) {
                    Some(layout) => Gradient::view(self.storages.hold(arrived.storage), Layout::new(layout)),
                    None => {
                        self.storages.begin(Pass::Backward, Some(op.layer), "view");
                        Gradient::view(self.storages.alloc(made.bytes())?, Layout::clone(made))
                    }
                };
                vec![Some(Handed { gradient, same: false })]
            }
            Kind::Seen(i) => {
                let arrived = incoming[0].as_ref().expect("a node runs once a gradient has arrived");
                let storage = self.storages.hold(arrived.storage);
                vec![Some(Handed { gradient: Gradient::view(storage, Layout::new(op.metas[*i].like())), same: false })]
            }
        };
        self.passing.clear();
        incoming.into_iter().flatten().for_each(|g| self.storages.release(g.storage));
        self.graph.release_kept(id, &mut self.storages, &mut self.frames);
        self.hand_on(program, id, handed)
    }

    /// Gradients go where they belong, those of parameters last: parameters take theirs in once all are on their way.
    fn hand_on(&mut self, program: &Compiled<'_>, id: NodeId, handed: Vec<Option<Handed>>) -> Attempt {
        let mut leaves = Vec::new();
        for (i, handed) in handed.into_iter().enumerate() {
            let Some(handed) = handed else { continue };
            match self.graph.node(id).edges[i] {
                Edge::None => self.storages.release(handed.gradient.storage),
                Edge::Leaf(parameter) => leaves.push((parameter, handed)),
                Edge::Node(to, output) => self.add_up(to, output, handed.gradient)?,
            }
        }
        leaves.into_iter().try_for_each(|(parameter, handed)| self.take_in(program, parameter, handed))
    }

    /// An operator's formulas, from what it kept and the gradients of its outputs.
    fn formulas(&mut self, program: &Compiled<'_>, id: NodeId, incoming: &[Option<Gradient>]) -> Attempt<Vec<Option<Handed>>> {
        let op = &program.ops[self.graph.node(id).op as usize];
        let mut opened = self.open(program, id)?;
        self.passing.extend_from_slice(&opened);
        let recipe = op.backward(self.cx, incoming);
        self.storages.begin(Pass::Backward, Some(op.layer), op.name);
        for &effect in &recipe.effects {
            if effect == Effect::Returned {
                self.passing.truncate(self.passing.len() - opened.len());
                opened.drain(..).rev().for_each(|s| self.storages.release(s));
            } else {
                self.perform(effect, Thread::Backward)?;
            }
        }
        let handed = recipe.gradients.iter().map(|g| self.hand(g, incoming)).collect();
        self.end_recipe();
        self.passing.truncate(self.passing.len() - opened.len());
        opened.into_iter().rev().for_each(|s| self.storages.release(s));
        Ok(handed)
    }

    /// The formulas of an operator that wrote into a view: the base's gradient is copied, the part that was written over goes through
    /// the formulas, and the result is copied back into its place.
    fn on_view(&mut self, program: &Compiled<'_>, id: NodeId, base: &Layout) -> Attempt<Vec<Option<Handed>>> {
        let op = &program.ops[self.graph.node(id).op as usize];
        self.storages.begin(Pass::Backward, Some(op.layer), "copy_slices");
        let whole = self.storages.alloc(base.bytes())?;
        let part = Layout::new(op.metas[0].like());
        self.passing.push(whole);
        let part = Gradient::new(self.storages.alloc(part.bytes())?, part);
        self.passing.push(part.storage);
        let incoming = [Some(part)];
        let mut handed = self.formulas(program, id, &incoming)?;
        let written = handed[0].replace(Handed { gradient: Gradient::new(whole, base.clone()), same: false });
        written
            .map(|w| w.gradient.storage)
            .into_iter()
            .chain(incoming.into_iter().flatten().map(|g| g.storage))
            .for_each(|s| self.storages.release(s));
        Ok(handed)
    }

    /// Opens what a node kept; what comes out of a checkpointed region is the caller's to hold.
    fn open(&mut self, program: &Compiled<'_>, id: NodeId) -> Attempt<Vec<Id>> {
        let mut opened = Vec::new();
        for i in 0..self.graph.node(id).kept.len() {
            if let Kept::Packed(frame, packed) = self.graph.node(id).kept[i] {
                if !self.frames.get(frame).is_recomputed {
                    self.recompute(program, frame)?;
                }
                opened.push(self.frames.take(frame, packed));
            }
        }
        Ok(opened)
    }

    fn hand(&mut self, gradient: &Outgoing, incoming: &[Option<Gradient>]) -> Option<Handed> {
        let of = |n: usize| incoming[n].as_ref().expect("a rule passes on only what came in");
        Some(match gradient {
            Outgoing::None => return None,
            Outgoing::New(slot, layout) => {
                let storage = std::mem::replace(&mut self.slots[*slot], NONE);
                Handed { gradient: Gradient::new(storage, Layout::clone(layout)), same: false }
            }
            Outgoing::Part(slot, layout) => {
                let storage = self.storages.hold(self.slots[*slot]);
                Handed { gradient: Gradient::new(storage, Layout::clone(layout)), same: false }
            }
            Outgoing::Same(n) => {
                self.storages.hold(of(*n).storage);
                Handed { gradient: of(*n).clone(), same: true }
            }
            Outgoing::View(n, layout) => {
                let storage = self.storages.hold(of(*n).storage);
                Handed { gradient: Gradient::view(storage, Layout::clone(layout)), same: false }
            }
        })
    }

    /// A parameter takes a gradient in: the first one is its own from now on if nobody else has the tensor and it lies as the
    /// parameter does, and is cloned if not; later ones are added to it in place.
    fn take_in(&mut self, program: &Compiled<'_>, parameter: u32, handed: Handed) -> Attempt {
        let Handed { gradient: Gradient { storage, layout, .. }, same } = handed;
        let (index, meta) = (parameter as usize, &program.program.values[parameter as usize]);
        if self.gradients[index] != NONE {
            self.storages.release(storage);
        } else if lies_as(&layout, meta) && (!same || self.storages.is_unique(storage)) {
            self.gradients[index] = storage;
            self.storages.becomes(storage, Category::Gradients);
        } else {
            self.storages.begin_as(Pass::Accumulate, None, "clone", Category::Gradients);
            self.gradients[index] = self.storages.alloc(meta.bytes())?;
            self.storages.release(storage);
        }
        Ok(())
    }

    /// A gradient joins others on its way to a node: added in place to what is there, if that is dense and nobody else has it.
    fn add_up(&mut self, to: NodeId, output: u32, gradient: Gradient) -> Attempt {
        let Some(present) = self.graph.node(to).incoming[output as usize].take() else {
            self.graph.node(to).incoming[output as usize] = Some(gradient);
            return Ok(());
        };
        let sum = if !present.is_view && present.layout.is_dense() && self.storages.is_unique(present.storage) {
            present
        } else {
            let (old, new) = (&present.layout, &gradient.layout);
            let meta = TensorMeta::over(old.shape.clone(), promote(old.dtype, new.dtype), &[old, new]);
            self.storages.begin(Pass::Accumulate, None, "add");
            let storage = self.storages.alloc(meta.bytes())?;
            self.storages.release(present.storage);
            Gradient::new(storage, Layout::new(meta))
        };
        self.storages.release(gradient.storage);
        self.graph.node(to).incoming[output as usize] = Some(sum);
        Ok(())
    }
}

/// Whether a gradient's elements lie as a contiguous parameter's do.
fn lies_as(gradient: &TensorMeta, parameter: &TensorMeta) -> bool {
    gradient.shape == parameter.shape && gradient.is_contiguous()
}
