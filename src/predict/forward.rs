//! Running operators forward: for the first time, or again for backward where a checkpointed region kept nothing.

use std::ops::Range;
use std::rc::Rc;

use super::checkpoint::{Argument, FrameId};
use super::graph::{Edge, Kept, Kind, NO_NODE, NodeId};
use super::history::{HistoryId, NO_HISTORY};
use super::listener::Pass;
use super::machine::{Machine, Thread};
use super::program::{Compiled, Instruction, Op, OpId, Source};
use super::scope::{Scope, Variable};
use super::storage::{Attempt, Id, NONE};
use crate::ops::{Effect, Saved};

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

impl Mode {
    /// The thread that runs so: backward's is the one that runs regions again.
    const fn thread(self) -> Thread {
        match self {
            Self::Plain | Self::Region(_) => Thread::Main,
            Self::Recompute(_) | Self::Discard => Thread::Backward,
        }
    }

    /// Whether operators become nodes of the graph.
    const fn records(self) -> bool {
        matches!(self, Self::Plain | Self::Region(_))
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Finished,
    /// Everything that backward needs has been packed again.
    Stopped,
}

impl Machine<'_, '_> {
    /// Runs a part of a program with a tape, or without one where nothing requires a gradient.
    pub(super) fn forward(&mut self, program: &Compiled<'_>, instructions: Range<usize>, scope: &mut Scope) -> Attempt {
        let done = self.execute(program, instructions, scope, Mode::Plain);
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
            self.execute(program, region.instructions.clone(), &mut scope, Mode::Recompute(frame))?;
            self.close(&mut scope);
            self.storages.release(argument);
            self.frames.get(frame).is_recomputed = true;
        }
        Ok(())
    }

    fn execute(&mut self, program: &Compiled<'_>, instructions: Range<usize>, scope: &mut Scope, mut mode: Mode) -> Attempt<Flow> {
        let mut around = Vec::new();
        let rest = &program.instructions[instructions];
        for (at, &instruction) in rest.iter().enumerate() {
            match instruction {
                Instruction::Run(op) => match self.run(program, op, scope, mode) {
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

    fn run(&mut self, program: &Compiled<'_>, id: OpId, scope: &mut Scope, mode: Mode) -> Attempt<Flow> {
        let op = &program.ops[id as usize];
        let thread = mode.thread();
        let pass = if thread == Thread::Main { Pass::Forward } else { Pass::Recompute };
        self.storages.begin(pass, Some(op.layer), op.name);
        let node = if op.is_node && mode.records() { self.node(program, id, scope) } else { NO_NODE };
        for &effect in &op.forward {
            if let Effect::Keep(saved) = effect {
                if self.pack(program, op, saved, (node, mode), scope) == Flow::Stopped {
                    self.end_recipe();
                    return Ok(Flow::Stopped);
                }
            } else if let Err(e) = self.perform(effect, thread) {
                // Nobody has the node yet.
                let node = self.graph.hold(node);
                self.graph.release(node, &mut self.storages, &mut self.frames);
                self.end_recipe();
                return Err(e);
            }
        }
        self.bind_outputs(program, id, node, scope);
        // What was packed for nobody goes in the order of packing.
        for &effect in &op.forward {
            if let Effect::Keep(Saved::Slot(slot)) = effect {
                self.storages.clear(&mut self.slots[slot]);
            }
        }
        self.end_recipe();
        Ok(Flow::Finished)
    }

    /// Autograd packs a tensor: its node keeps it, or a place for it, or a region that runs again takes it.
    fn pack(&mut self, program: &Compiled<'_>, op: &Op<'_>, saved: Saved, (node, mode): (NodeId, Mode), scope: &mut Scope) -> Flow {
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
            Mode::Recompute(frame) => return self.pack_again(frame, storage),
            Mode::Discard => return Flow::Finished,
        };
        self.graph.node(node).kept.push(kept);
        Flow::Finished
    }

    /// The outputs of an operator become variables, which hold its node.
    fn bind_outputs(&mut self, program: &Compiled<'_>, id: OpId, node: NodeId, scope: &mut Scope) {
        let op = &program.ops[id as usize];
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
    }

    /// A layer fails: what its earlier operators made is in no variable of the script.
    fn leave(&mut self, program: &Compiled<'_>, failing: OpId, scope: &mut Scope) {
        let before = &program.ops[..failing as usize];
        let layer = program.ops[failing as usize].layer;
        for op in before.iter().filter(|op| op.layer == layer) {
            op.outputs.iter().for_each(|&output| self.unbind(output, scope));
        }
    }
}
