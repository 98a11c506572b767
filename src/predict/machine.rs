//! Running operators forward: variables, what autograd packs on the way, and regions that are run again for backward.
//!
//! Invariant: every storage that a recipe makes ends with a holder, a variable, a node or a frame, or is freed by the time the
//! operator returns.

use std::ops::Range;
use std::rc::Rc;

use super::checkpoint::{Argument, FrameId, Frames};
use super::graph::{Edge, Graph, Kept, Kind, NO_NODE, NodeId};
use super::history::{HistoryId, NO_HISTORY, Remembered};
use super::listener::Pass;
use super::program::{Compiled, Instruction, OpId, Source};
use super::storage::{Attempt, Id, NONE, Storages};
use crate::model::ValueId;
use crate::ops::{Effect, Library, RuleContext, Saved};

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
    histories: Vec<(ValueId, Remembered)>,
}

impl Scope {
    /// Variables for the values of that range.
    pub(super) fn new(values: Range<usize>, argument: Option<(ValueId, Id)>) -> Self {
        Self { first: values.start, variables: vec![Variable::UNBOUND; values.len()], argument, histories: Vec::new() }
    }

    fn slot(&mut self, value: ValueId) -> &mut Variable {
        &mut self.variables[value.0 as usize - self.first]
    }

    /// Binds a variable for the first time.
    pub(super) fn bind(&mut self, value: ValueId, variable: Variable) {
        *self.slot(value) = variable;
    }

    /// The variable, where the scope has it and it is bound.
    fn bound(&mut self, value: ValueId) -> Option<&mut Variable> {
        let index = (value.0 as usize).checked_sub(self.first)?;
        self.variables.get_mut(index).filter(|v| v.storage != NONE)
    }

    /// The variable, unbound from now on.
    pub(super) fn take(&mut self, value: ValueId) -> Variable {
        std::mem::replace(self.slot(value), Variable::UNBOUND)
    }
}

/// A thread, each with library handles of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    Main,
    /// Autograd's.
    Backward,
}

/// What becomes of the tensors that autograd packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nodes keep them.
    Plain,
    /// Nodes keep placeholders; the frame counts.
    Region(FrameId),
    /// The frame takes them; the run ends with the last.
    Recompute(FrameId),
    /// Nobody: a region inside one that is run again.
    Discard,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Finished,
    /// Everything that backward needs has been packed again.
    Stopped,
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
        for variable in std::mem::take(&mut scope.variables) {
            self.release(variable);
        }
    }

    /// What a value's variable holds now.
    pub(super) fn variable(&self, scope: &Scope, value: ValueId) -> Variable {
        let index = value.0 as usize;
        if let Some(&storage) = self.state.get(index) {
            return Variable { storage, ..Variable::UNBOUND };
        }
        match scope.argument {
            Some((argument, storage)) if argument == value => Variable { storage, ..Variable::UNBOUND },
            _ => scope.variables[index - scope.first],
        }
    }

    /// Runs a part of a program with a tape, or without one where nothing requires a gradient.
    pub(super) fn forward(&mut self, program: &Compiled<'_>, instructions: Range<usize>, scope: &mut Scope) -> Attempt {
        let done = self.execute(program, instructions, scope, Mode::Plain, Thread::Main);
        if done.is_err() {
            // The exception leaves autocast, which empties its cache.
            program.program.autocast_cache.iter().for_each(|&cast| self.unbind(cast, scope));
        }
        done.map(|_| ())
    }

    /// Runs a region again, and before it those around it, so that what it packed can be opened.
    pub(super) fn recompute(&mut self, program: &Compiled<'_>, frame: FrameId) -> Attempt {
        let mut chain = Vec::new();
        let mut next = Some(frame);
        while let Some(frame) = next.filter(|&f| !self.frames.get(f).is_recomputed) {
            chain.push(frame);
            next = match self.frames.get(frame).argument {
                Argument::Packed(around, _) => Some(around),
                Argument::Storage(..) => None,
            };
        }
        for frame in chain.into_iter().rev() {
            let argument = match self.frames.get(frame).argument {
                Argument::Storage(storage, _) => self.storages.hold(storage),
                Argument::Packed(around, packed) => self.frames.take(around, packed),
            };
            let region = &program.regions[self.frames.get(frame).region as usize];
            let mut scope = Scope::new(region.values.clone(), Some((region.input, argument)));
            self.execute(program, region.instructions.clone(), &mut scope, Mode::Recompute(frame), Thread::Backward)?;
            self.close(&mut scope);
            self.storages.release(argument);
            self.frames.get(frame).is_recomputed = true;
        }
        Ok(())
    }

    fn execute(
        &mut self,
        program: &Compiled<'_>,
        instructions: Range<usize>,
        scope: &mut Scope,
        mode: Mode,
        thread: Thread,
    ) -> Attempt<Flow> {
        let mut mode = mode;
        let mut around = Vec::new();
        let rest = &program.instructions[instructions];
        for (at, &instruction) in rest.iter().enumerate() {
            match instruction {
                Instruction::Run(op) => match self.run(program, op, scope, mode, thread) {
                    Ok(Flow::Finished) => {}
                    Ok(Flow::Stopped) => {
                        self.unwind(program, &rest[at..], scope);
                        return Ok(Flow::Stopped);
                    }
                    Err(e) => {
                        self.leave(program, op, scope);
                        return Err(e);
                    }
                },
                Instruction::Drop(value) => {
                    // What a region that runs again writes in place may be a variable from outside.
                    self.unbind(value, scope);
                }
                Instruction::Enter(region) => {
                    let input = program.regions[region as usize].input;
                    let argument = self.variable(scope, input).storage;
                    let history = if mode == Mode::Plain { self.history(program, input, scope) } else { NO_HISTORY };
                    let Some(inside) = self.enter(region, (argument, history), mode) else {
                        self.unwind(program, &rest[at..], scope);
                        return Ok(Flow::Stopped);
                    };
                    around.push(std::mem::replace(&mut mode, inside));
                }
                Instruction::Leave => {
                    if let Mode::Region(frame) = mode {
                        let history = self.frames.release(frame, &mut self.storages);
                        if let Some(history) = history {
                            self.graph.release_history(history, &mut self.storages, &mut self.frames);
                        }
                    }
                    mode = around.pop().expect("what is left was entered");
                }
            }
        }
        Ok(Flow::Finished)
    }

    /// A recomputation is stopped by an exception: it leaves autocast, whose cache goes, and then one function after the other, whose
    /// variables go as they would have gone later.
    fn unwind(&mut self, program: &Compiled<'_>, rest: &[Instruction], scope: &mut Scope) {
        program.program.autocast_cache.iter().for_each(|&cast| self.unbind(cast, scope));
        for &instruction in rest {
            if let Instruction::Drop(value) = instruction {
                self.unbind(value, scope);
            }
        }
    }

    /// The mode inside a region; `None` where packing its argument was all that was left to do.
    fn enter(&mut self, region: u32, (argument, history): (Id, HistoryId), around: Mode) -> Option<Mode> {
        match around {
            Mode::Plain => {
                let held = self.storages.hold(argument);
                Some(Mode::Region(self.frames.add(region, Argument::Storage(held, history))))
            }
            Mode::Region(frame) => {
                self.frames.pack_nothing(frame);
                let packed = self.frames.pack(frame);
                Some(Mode::Region(self.frames.add(region, Argument::Packed(frame, packed))))
            }
            Mode::Recompute(frame) => {
                self.frames.get(frame).recomputed.push(NONE);
                (self.pack_again(frame, argument) == Flow::Finished).then_some(Mode::Discard)
            }
            Mode::Discard => Some(Mode::Discard),
        }
    }

    fn pack_again(&mut self, frame: FrameId, storage: Id) -> Flow {
        let frame = self.frames.get(frame);
        let wanted = frame.placeholders[frame.recomputed.len()];
        frame.recomputed.push(if wanted { self.storages.hold(storage) } else { NONE });
        if frame.recomputed.len() == frame.placeholders.len() { Flow::Stopped } else { Flow::Finished }
    }

    fn run(&mut self, program: &Compiled<'_>, id: OpId, scope: &mut Scope, mode: Mode, thread: Thread) -> Attempt<Flow> {
        let op = &program.ops[id as usize];
        let pass = if thread == Thread::Main { Pass::Forward } else { Pass::Recompute };
        self.storages.begin(pass, Some(op.layer), op.name);
        let records = op.is_node && matches!(mode, Mode::Plain | Mode::Region(_));
        let node = if records { self.node(program, id, scope) } else { NO_NODE };
        for &effect in &op.forward {
            let Effect::Keep(saved) = effect else {
                if let Err(e) = self.perform(effect, thread) {
                    // Nobody has the node yet.
                    let node = self.graph.hold(node);
                    self.graph.release(node, &mut self.storages, &mut self.frames);
                    self.end_recipe();
                    return Err(e);
                }
                continue;
            };
            let input = |i: usize| self.variable(scope, op.inputs[i]).storage;
            let storage = match saved {
                Saved::Input(i) => input(i),
                Saved::Slot(slot) => self.slots[slot],
                Saved::Output(i) => match op.results[i] {
                    Source::New(slot) => self.slots[slot],
                    Source::View(i) | Source::Same(i) | Source::InPlace(i) => input(i),
                },
            };
            let kept = match mode {
                Mode::Plain => {
                    let history = if let Saved::Input(i) = saved { self.history(program, op.inputs[i], scope) } else { NO_HISTORY };
                    let storage = self.storages.hold(storage);
                    if history == NO_HISTORY { Kept::Storage(storage) } else { Kept::Written(storage, history) }
                }
                Mode::Region(frame) => Kept::Packed(frame, self.frames.pack(frame)),
                Mode::Recompute(frame) => {
                    if self.pack_again(frame, storage) == Flow::Stopped {
                        self.end_recipe();
                        return Ok(Flow::Stopped);
                    }
                    continue;
                }
                Mode::Discard => continue,
            };
            self.graph.node(node).kept.push(kept);
        }
        let made = op.made.as_ref().filter(|_| node != NO_NODE).map(|made| {
            let view = self.graph.add(id, Kind::Made(Rc::clone(made)), 1);
            self.graph.connect(view, Edge::Node(node, 0));
            view
        });
        for (output, (&value, &result)) in (0..).zip(op.outputs.iter().zip(&op.results)) {
            let node = made.filter(|_| output == 0).unwrap_or(node);
            let input = |i: usize| self.variable(scope, op.inputs[i]);
            let variable = match result {
                Source::New(slot) => {
                    Variable { storage: std::mem::replace(&mut self.slots[slot], NONE), node: self.graph.hold(node), output }
                }
                Source::Same(i) => self.hold(input(i)),
                Source::View(i) => self.hold(Variable { storage: input(i).storage, node, output }),
                Source::InPlace(i) => {
                    let storage = input(i).storage;
                    self.rewrite(program, op.inputs[i], node, scope);
                    let node = self.after_writing(program, op.inputs[i], node, scope);
                    self.hold(Variable { storage, node, output })
                }
            };
            scope.bind(value, variable);
        }
        // What was packed for nobody goes in the order of packing.
        for &effect in &op.forward {
            if let Effect::Keep(Saved::Slot(slot)) = effect
                && self.slots[slot] != NONE
            {
                self.storages.release(std::mem::replace(&mut self.slots[slot], NONE));
            }
        }
        self.end_recipe();
        Ok(Flow::Finished)
    }

    /// A node for an operator, with edges to what made its inputs.
    fn node(&mut self, program: &Compiled<'_>, id: OpId, scope: &Scope) -> NodeId {
        let op = &program.ops[id as usize];
        let written = op.results.iter().find_map(|r| if let Source::InPlace(i) = *r { Some(i) } else { None });
        let view = written.and_then(|i| program.views[op.inputs[i].0 as usize].as_ref());
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
            } else if (value.0 as usize) < self.state.len() {
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
    fn history(&mut self, program: &Compiled<'_>, value: ValueId, scope: &mut Scope) -> HistoryId {
        let Some(first) = program.written(value) else { return NO_HISTORY };
        let known = scope.histories.iter().find(|(v, _)| *v == first).and_then(|(_, h)| self.graph.histories.alive(*h));
        if let Some(known) = known {
            return self.graph.histories.hold(known);
        }
        let node = self.graph.hold(self.variable(scope, value).node);
        let made = self.graph.histories.add(node);
        scope.histories.retain(|(v, _)| *v != first);
        scope.histories.push((first, made));
        made.id()
    }

    /// Tells whoever kept a tensor that `writer` has written into it.
    fn rewrite(&mut self, program: &Compiled<'_>, written: ValueId, writer: NodeId, scope: &Scope) {
        let Some(first) = program.written(written) else { return };
        let known = scope.histories.iter().find(|(v, _)| *v == first).and_then(|(_, h)| self.graph.histories.alive(*h));
        if let Some(history) = known {
            let writer = self.graph.hold(writer);
            let old = self.graph.histories.rewrite(history, writer);
            self.graph.release(old, &mut self.storages, &mut self.frames);
        }
    }

    /// The node of a tensor that `writer` has written into. For a view that is a node of its own, made anew, which leads to the
    /// base's: the base too has been written by `writer`.
    fn after_writing(&mut self, program: &Compiled<'_>, written: ValueId, writer: NodeId, scope: &mut Scope) -> NodeId {
        let (Some(view), true) = (&program.views[written.0 as usize], writer != NO_NODE) else { return writer };
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

    /// A layer fails: what its earlier operators made is in no variable of the script.
    fn leave(&mut self, program: &Compiled<'_>, failing: OpId, scope: &mut Scope) {
        let before = &program.ops[..failing as usize];
        let layer = program.ops[failing as usize].layer;
        for op in before.iter().filter(|op| op.layer == layer) {
            op.outputs.iter().for_each(|&output| self.unbind(output, scope));
        }
    }

    /// The variable goes out of scope, if it is there.
    pub(super) fn unbind(&mut self, value: ValueId, scope: &mut Scope) {
        if let Some(variable) = scope.bound(value) {
            let variable = std::mem::replace(variable, Variable::UNBOUND);
            self.release(variable);
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
