//! What operators leave in the graph: nodes, with edges to what made their inputs, and the histories of tensors that are written in
//! place.

use super::graph::{Edge, Kind, NO_NODE, NodeId};
use super::history::{HistoryId, NO_HISTORY};
use super::machine::Machine;
use super::program::{Compiled, OpId, Source};
use super::scope::Scope;
use crate::model::ValueId;

impl Machine<'_, '_> {
    /// A node for an operator, with edges to what made its inputs.
    pub(super) fn node(&mut self, program: &Compiled<'_>, id: OpId, scope: &Scope) -> NodeId {
        let op = &program.ops[id as usize];
        let written = op.results.iter().find_map(|r| if let Source::InPlace(i) = *r { Some(i) } else { None });
        let view = written.and_then(|i| program.views[op.inputs[i].index()].as_ref());
        let kind = match (view, op.results[0]) {
            (Some(view), _) => Kind::OnView(view.base.clone()),
            (None, Source::View(_)) => Kind::View,
            (None, _) => Kind::Operator,
        };
        let on_view = view.and(written);
        let seen = op.seen.iter().filter(|&&i| op.needs[i]);
        let views: Vec<(usize, NodeId)> = seen.map(|&i| (i, self.graph.add(id, Kind::Seen(i), 1))).collect();
        let node = self.graph.add(id, kind, op.outputs.len());
        for (i, (&value, &needed)) in op.inputs.iter().zip(&op.needs).enumerate() {
            let edge = if !needed {
                Edge::None
            } else if value.index() < self.state.len() {
                Edge::Leaf(value.0)
            } else {
                let variable = self.variable(scope, value);
                Edge::Node(variable.node, variable.output)
            };
            let edge = if on_view == Some(i) { self.graph.base_of(edge) } else { edge };
            match views.iter().find(|(seen, _)| *seen == i) {
                Some(&(_, view)) => {
                    self.graph.connect(view, edge);
                    self.graph.connect(node, Edge::Node(view, 0));
                }
                None => self.graph.connect(node, edge),
            }
        }
        node
    }

    /// The history of a value, held once more, where something writes into its storage.
    pub(super) fn history(&mut self, program: &Compiled<'_>, value: ValueId, scope: &mut Scope) -> HistoryId {
        let Some(first) = program.written(value) else { return NO_HISTORY };
        if let Some(known) = self.known_history(first, scope) {
            return self.graph.histories.hold(known);
        }
        let node = self.graph.hold(self.variable(scope, value).node);
        let made = self.graph.histories.add(node);
        scope.histories.retain(|(v, _)| *v != first);
        scope.histories.push((first, made));
        made.id()
    }

    /// The history that was made for a storage's first value, if somebody still holds it.
    fn known_history(&self, first: ValueId, scope: &Scope) -> Option<HistoryId> {
        scope.histories.iter().find(|(v, _)| *v == first).and_then(|(_, h)| self.graph.histories.alive(*h))
    }

    /// Tells whoever kept a tensor that `writer` has written into it.
    pub(super) fn rewrite(&mut self, program: &Compiled<'_>, written: ValueId, writer: NodeId, scope: &Scope) {
        let Some(first) = program.written(written) else { return };
        if let Some(history) = self.known_history(first, scope) {
            let writer = self.graph.hold(writer);
            let old = self.graph.histories.rewrite(history, writer);
            self.graph.release(old, &mut self.storages, &mut self.frames);
        }
    }

    /// The node of a tensor that `writer` has written into. For a view that is a node of its own, made anew, which leads to the
    /// base's: the base too has been written by `writer`.
    pub(super) fn after_writing(&mut self, program: &Compiled<'_>, written: ValueId, writer: NodeId, scope: &mut Scope) -> NodeId {
        let (Some(view), true) = (&program.views[written.index()], writer != NO_NODE) else { return writer };
        let op = self.graph.node(writer).op;
        let node = self.graph.add(op, Kind::Strided(view.base.clone()), 1);
        self.graph.connect(node, Edge::Node(writer, 0));
        if let Some(root) = view.root
            && let Some(variable) = scope.bound(root)
        {
            let old = std::mem::replace(&mut variable.node, self.graph.hold(writer));
            variable.output = 0;
            self.graph.release(old, &mut self.storages, &mut self.frames);
        }
        node
    }
}
