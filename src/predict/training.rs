//! The reference loop: what the script's variables hold, phase by phase. A variable lives until it is bound anew, so that the new
//! tensor exists before the old one dies.

use std::ops::Range;

use super::Pace;
use super::foreseen::Foreseen;
use super::listener::Pass;
use super::machine::{Machine, Thread};
use super::program::{Compiled, Layout, Span};
use super::scaler::Scaler;
use super::scope::{Scope, Variable};
use super::steady::{Painter, Portrait, Round, Steady};
use super::storage::{Attempt, Id, NONE, Storages};
use crate::meta::{DType, TensorMeta};
use crate::model::{KeepLoss, Plan, StateKind, ValueId};
use crate::ops::{Effect, RuleContext};
use crate::optim::{Implementation, Optimizer, StepRecipe};
use crate::record::{At, Category, Phase, Status};

/// Runs a plan to its end or to the phase in which memory runs out.
pub(super) fn run(plan: &Plan, cx: RuleContext<'_>, storages: Storages<'_>, pace: Pace) -> Foreseen {
    let parameters = plan.state.iter().filter(|s| s.kind == StateKind::Parameter).map(|s| s.meta.clone()).collect();
    let mut training = Training {
        plan,
        machine: Machine::new(storages, cx),
        at: At { step: 0, micro_step: 0, phase: Phase::Model },
        input: NONE,
        target: NONE,
        ahead: None,
        output: Variable::UNBOUND,
        loss: Variable::UNBOUND,
        total: Variable::UNBOUND,
        parameters,
        scaler: Scaler::new(),
        steady: (pace == Pace::Rounds).then(Steady::new),
    };
    if training.run().is_err() {
        training.machine.fail();
        training.machine.storages.row(training.at, Status::Oom);
    }
    training.machine.storages.finish()
}

struct Training<'p, 'l, 'g> {
    plan: &'p Plan,
    machine: Machine<'l, 'g>,
    /// The phase under way.
    at: At,
    input: Id,
    target: Id,
    /// The next batch's input and target, where it is copied ahead.
    ahead: Option<(Id, Id)>,
    output: Variable,
    loss: Variable,
    total: Variable,
    /// Shapes of the parameters, as the optimizer knows them.
    parameters: Vec<TensorMeta>,
    scaler: Scaler,
    /// Where steps need not be gone through one by one.
    steady: Option<Steady>,
}

impl<'p> Training<'p, '_, '_> {
    fn run(&mut self) -> Attempt {
        let settings = &self.plan.settings;
        self.move_model()?;
        self.at = At { step: settings.done + 1, micro_step: 1, phase: Phase::Input };
        if let Some(optimizer) = settings.optimizer {
            let recipe = optimizer.rule().construct(&self.parameters);
            self.optimize(&optimizer, &recipe)?;
        }
        let mut current: Option<(usize, Compiled<'p>)> = None;
        let mut step = settings.done;
        while step < settings.steps {
            step += 1;
            let index = self.plan.program_index(step);
            if current.as_ref().is_none_or(|(i, _)| *i != index) {
                let program = Compiled::new(&self.plan.programs[index], &self.plan.state, self.machine.cx, !settings.no_grad);
                current = Some((index, program));
            }
            let (_, program) = current.as_ref().expect("it was just made");
            for micro_step in 1..=settings.accumulation_steps {
                self.at = At { step, micro_step, phase: Phase::Input };
                self.micro_step(program)?;
            }
            self.end_step(step)?;
            step += self.skip(step);
        }
        Ok(())
    }

    /// How many of the steps to come repeat earlier ones and are left out. The last is not: no batch is copied ahead in it. Nor is the one
    /// before it, so that whoever reads rows in order sees more than one step repeat.
    fn skip(&mut self, step: u64) -> u64 {
        let settings = &self.plan.settings;
        // Up to here programs follow each other, and an optimizer's first step is another.
        let settled = step >= self.plan.schedule.len() as u64 && step > settings.done + 1;
        let Some(left) = settings.steps.checked_sub(step + 2).filter(|&left| settled && left > 0) else { return 0 };
        let Some(portrait) = self.steady.as_ref().filter(|s| s.is_looking()).and_then(|_| self.portrait()) else { return 0 };
        let rows = self.machine.storages.rows.written();
        let Some(Round { steps, rows }) = self.steady.as_mut().and_then(|steady| steady.look(step, rows, portrait)) else { return 0 };
        let times = left / steps;
        if times > 0 {
            self.machine.storages.rows.repeat(rows, steps, times);
        }
        times * steps
    }

    /// What the steps to come depend on; `None` where not all of it can be told.
    fn portrait(&self) -> Option<Portrait> {
        let mut painter = Painter::new(&self.machine)?;
        let (next_input, next_target) = self.ahead.unwrap_or((NONE, NONE));
        painter.storages(&[self.input, self.target, next_input, next_target]);
        painter.storages(&self.scaler.tensors());
        [self.output, self.loss, self.total].into_iter().for_each(|variable| painter.variable(variable));
        Some(painter.finish())
    }

    fn begin(&mut self, phase: Phase) {
        self.at.phase = phase;
    }

    fn row(&mut self) {
        self.machine.storages.row(self.at, Status::Ok);
    }

    fn move_model(&mut self) -> Attempt {
        for (number, state) in self.plan.state.iter().enumerate() {
            let category = match state.kind {
                StateKind::Parameter => Category::Parameters,
                StateKind::Buffer => Category::Buffers,
            };
            self.machine.storages.begin_as(Pass::Copy, Some(state.layer), "to", category);
            let storage = self.machine.storages.alloc(state.meta.bytes())?;
            self.machine.state.push(storage);
            self.flatten(self.plan.flat_until(number))?;
        }
        self.machine.gradients = vec![NONE; self.machine.state.len()];
        self.row();
        Ok(())
    }

    /// `flatten_parameters`: tensors of the state go into a buffer that they share.
    fn flatten(&mut self, group: Range<usize>) -> Attempt {
        if group.is_empty() {
            return Ok(());
        }
        let flat = self.machine.storages.alloc(self.plan.state[group.clone()].iter().map(|s| s.meta.bytes()).sum())?;
        for member in &mut self.machine.state[group] {
            let own = std::mem::replace(member, self.machine.storages.hold(flat));
            self.machine.storages.release(own);
        }
        self.machine.storages.release(flat);
        Ok(())
    }

    fn micro_step(&mut self, program: &Compiled<'p>) -> Attempt {
        let settings = &self.plan.settings;
        self.machine.graph.tape.clear();
        let mut scope = Scope::new(self.machine.state.len()..program.program.values.len(), None);
        self.take_batch(program, &mut scope)?;
        self.copy_ahead()?;
        self.row();

        self.begin(Phase::Forward);
        self.ask_for_bfloat16()?;
        self.machine.forward(program, program.forward.instructions.clone(), &mut scope)?;
        self.output = self.bind_result(self.output, &program.forward, &scope);
        self.row();

        self.begin(Phase::Loss);
        let loss = self.compute_loss(program, &mut scope)?;
        self.machine.close(&mut scope);
        if settings.no_grad {
            return Ok(());
        }
        self.row();

        let loss = loss.expect("there is a loss outside inference");
        let layout = Layout::new(program.program.meta(loss).clone());
        if !settings.trains() {
            return self.keep_loss(&layout);
        }
        self.begin(Phase::Backward);
        self.keep_loss(&layout)?;
        if settings.has_scaler() {
            self.scaler.backward(&mut self.machine, program, self.loss, &layout)?;
        } else {
            self.machine.backward(program, self.loss, &layout)?;
        }
        self.row();
        Ok(())
    }

    /// `input, target = …`: what was copied ahead, or new tensors.
    fn take_batch(&mut self, program: &Compiled<'p>, scope: &mut Scope) -> Attempt {
        let (input, target) = (program.program.input, program.program.target);
        let bytes = |id: ValueId| program.program.meta(id).bytes();
        self.machine.storages.begin_as(Pass::Copy, None, "to", Category::Inputs);
        match self.ahead.take() {
            Some((next_input, next_target)) => {
                self.machine.storages.clear(&mut self.input);
                self.input = next_input;
                if target.is_some() {
                    self.machine.storages.clear(&mut self.target);
                    self.target = next_target;
                }
            }
            None => {
                rebind(&mut self.machine.storages, &mut self.input, bytes(input))?;
                if let Some(target) = target {
                    rebind(&mut self.machine.storages, &mut self.target, bytes(target))?;
                }
            }
        }
        scope.bind(input, Variable { storage: self.machine.storages.hold(self.input), ..Variable::UNBOUND });
        if let Some(target) = target {
            scope.bind(target, Variable { storage: self.machine.storages.hold(self.target), ..Variable::UNBOUND });
        }
        Ok(())
    }

    /// Autocast asks once whether the GPU takes bfloat16; of those before Ampere it asks by making a tensor.
    fn ask_for_bfloat16(&mut self) -> Attempt {
        let settings = &self.plan.settings;
        let first = (self.at.step, self.at.micro_step) == (settings.done + 1, 1);
        if first && settings.amp == Some(DType::BF16) && self.machine.cx.gpu.capability < (8, 0) {
            let asked = self.machine.storages.alloc(TensorMeta::scalar(DType::BF16).bytes())?;
            self.machine.storages.release(asked);
        }
        Ok(())
    }

    /// `loss = criterion(output, target)`, where autocast ends, and `loss = loss / accumulation_steps`. Gives the loss's value.
    fn compute_loss(&mut self, program: &Compiled<'p>, scope: &mut Scope) -> Attempt<Option<ValueId>> {
        let mut result = None;
        if let Some(criterion) = &program.criterion {
            self.machine.forward(program, criterion.instructions.clone(), scope)?;
            self.loss = self.bind_result(self.loss, criterion, scope);
            result = Some(criterion.result);
        }
        for &value in &program.program.autocast_cache {
            let cast = scope.take(value);
            self.machine.release(cast);
        }
        if let Some(divide) = &program.divide {
            self.machine.forward(program, divide.instructions.clone(), scope)?;
            self.loss = self.bind_result(self.loss, divide, scope);
            if let Some(undivided) = result.replace(divide.result) {
                let undivided = scope.take(undivided);
                self.machine.release(undivided);
            }
        }
        Ok(result)
    }

    /// The next batch is copied while this step runs: room for it is taken now. After the last there is none.
    fn copy_ahead(&mut self) -> Attempt {
        let settings = &self.plan.settings;
        let last = self.at.micro_step == settings.accumulation_steps;
        let step = self.at.step + u64::from(last);
        if !settings.device_prefetch || step > settings.steps {
            return Ok(());
        }
        let program = self.plan.program(step);
        let bytes = |id: ValueId| program.meta(id).bytes();
        let input = self.machine.storages.alloc(bytes(program.input))?;
        self.ahead = Some((input, NONE));
        if let Some(target) = program.target {
            self.ahead = Some((input, self.machine.storages.alloc(bytes(target))?));
        }
        Ok(())
    }

    /// `variable = body(…)`: the old tensor dies once the new one exists.
    fn bind_result(&mut self, variable: Variable, body: &Span, scope: &Scope) -> Variable {
        let new = self.machine.variable(scope, body.result);
        let new = self.machine.hold(new);
        self.machine.release(variable);
        new
    }

    fn keep_loss(&mut self, layout: &Layout) -> Attempt {
        match self.plan.settings.keep_loss {
            KeepLoss::None | KeepLoss::Item => {}
            KeepLoss::List => {
                // Nobody ever lets go of it.
                self.machine.hold(self.loss);
            }
            KeepLoss::Total if self.total == Variable::UNBOUND => self.total = self.machine.hold(self.loss),
            KeepLoss::Total => {
                self.machine.storages.begin(Pass::Forward, None, "add");
                let storage = self.machine.storages.alloc(layout.bytes())?;
                let node = self.machine.graph.join([self.total, self.loss]);
                let sum = Variable { storage, node, output: 0 };
                let old = std::mem::replace(&mut self.total, sum);
                self.machine.release(old);
            }
        }
        Ok(())
    }

    fn end_step(&mut self, step: u64) -> Attempt {
        let settings = &self.plan.settings;
        if let Some(optimizer) = settings.optimizer {
            self.begin(Phase::Optimizer);
            let scaled = settings.has_scaler();
            if scaled {
                self.scaler.before_step(&mut self.machine, optimizer.implementation() == Implementation::Fused)?;
            }
            // A run that goes on from a save makes its state anew.
            let recipe = optimizer.rule().step(&self.parameters, step - settings.done);
            self.optimize(&optimizer, &recipe)?;
            if scaled {
                self.scaler.after_step(&mut self.machine);
            }
            self.row();

            self.begin(Phase::ZeroGrad);
            for gradient in &mut self.machine.gradients {
                self.machine.storages.clear(gradient);
            }
            self.row();
        }
        if settings.empty_cache {
            self.begin(Phase::EmptyCache);
            self.machine.storages.empty_cache();
            self.row();
        }
        Ok(())
    }

    /// Performs an optimizer's recipe. Its state stays for good; where memory runs out, so does what Python's variables hold.
    fn optimize(&mut self, optimizer: &Optimizer, recipe: &StepRecipe) -> Attempt {
        self.machine.storages.begin(Pass::Optimizer, None, optimizer.name());
        for &effect in &recipe.effects {
            if let Err(failure) = self.machine.perform(effect, Thread::Main) {
                let allocated = self.machine.slots.len();
                for bound in recipe.bound.iter().filter(|bound| bound.since < allocated) {
                    self.machine.slots[bound.slot] = NONE;
                }
                return Err(failure);
            }
            if let Effect::Alloc { slot, .. } = effect
                && recipe.state.binary_search(&slot).is_ok()
            {
                let storage = std::mem::replace(&mut self.machine.slots[slot], NONE);
                self.machine.storages.becomes(storage, Category::OptimizerState);
            }
        }
        self.machine.end_recipe();
        Ok(())
    }
}

/// `variable = batch.to(device)`.
fn rebind(storages: &mut Storages<'_>, variable: &mut Id, bytes: u64) -> Attempt {
    let new = storages.alloc(bytes)?;
    storages.clear(variable);
    *variable = new;
    Ok(())
}
