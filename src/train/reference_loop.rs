//! The loop itself. Its order is the order of rows in the results; its fields are the script's variables.

use std::rc::Rc;
use std::time::Instant;

use super::batches::{Batches, timed};
use super::clock::Clock;
use super::inputs::Inputs;
use super::interpreter::{Model, Place, Variables, Which, run};
use super::observer::Observer;
use super::outfit::{Outfit, Stop};
use super::scaler::Scaler;
use super::setup::to_device;
use super::state;
use super::untold::{MOST_UNTOLD, Untold};
use crate::autograd::{Halt, Parameter, Tape, Variable, backward};
use crate::exec::{Exec, Later, Result, Stream};
use crate::measure;
use crate::meta::{DType, TensorMeta};
use crate::model::{KeepLoss, Loop, Plan};
use crate::ops::add::rule::Add;
use crate::optim::kernel::{Stepper, Trained};
use crate::record::{At, Phase, Running, StepTimes};

/// Trains, or infers, as the plan says, on synthetic batches. Where memory runs out, the row of that phase is the last.
///
/// # Errors
/// Out of memory; its row has been given, unless it was the machine's.
///
/// # Panics
/// Never: what else can stop a run, it is not given.
pub fn train(plan: &Rc<Plan>, exec: &Exec, observer: &mut dyn Observer) -> Result<()> {
    train_with(plan, exec, &Outfit::default(), observer).map_err(|stop| match stop {
        Stop::OutOfMemory(error) | Stop::Machine(error) => error,
        other => unreachable!("nothing else can stop a run on synthetic batches: {other}"),
    })
}

/// Trains, or infers, as the plan says, with what the outfit has. Where memory runs out, the row of that phase is the last.
///
/// # Errors
/// Out of memory, whose row has been given, or what else ended the run.
pub fn train_with(plan: &Rc<Plan>, exec: &Exec, outfit: &Outfit<'_>, observer: &mut dyn Observer) -> std::result::Result<(), Stop> {
    let at = At { step: 0, micro_step: 0, phase: Phase::Model };
    let mut run = Run { plan, exec, outfit, observer, at, times: StepTimes::default() };
    let result = script(&mut run);
    if let Err(Stop::OutOfMemory(e)) = &result {
        let row = measure::out_of_memory(exec.memory(), run.at, e);
        run.observer.row(&row);
    }
    result
}

/// What moves tensors to the device, by its name in PyTorch.
pub(super) const COPY: &str = "to";

/// What is run, on what, for whom, and where it is.
struct Run<'a> {
    plan: &'a Rc<Plan>,
    exec: &'a Exec,
    outfit: &'a Outfit<'a>,
    observer: &'a mut dyn Observer,
    /// The row that comes next.
    at: At,
    /// Of the micro-step under way.
    times: StepTimes,
}

impl Run<'_> {
    /// The phase ends whose row comes next.
    fn row(&mut self) {
        let row = measure::row(self.exec.memory(), self.at);
        self.observer.row(&row);
    }
}

/// The whole script. Its variables are gone when it returns, whether it came to its end or not.
fn script(run: &mut Run<'_>) -> std::result::Result<(), Stop> {
    let mut training = Training::begin(run)?;
    let settings = &training.run.plan.settings;
    for step in settings.done + 1..=settings.steps {
        for micro_step in 1..=settings.accumulation_steps {
            training.micro_step(step, micro_step)?;
        }
    }
    let Run { exec, observer, .. } = &mut *training.run;
    observer.end(exec.memory());
    Ok(())
}

/// The script's variables, and what is kept beside them.
struct Training<'r, 'a> {
    run: &'r mut Run<'a>,
    untold: Vec<Untold>,
    inputs: Inputs<'a>,
    clock: Clock,
    names: Names,
    tape: Tape,
    scaler: Option<Scaler>,
    stepper: Option<Box<dyn Stepper>>,
    parameters: Vec<Parameter>,
    model: Rc<Model>,
}

/// The variables for what a micro-step computes: they outlive it.
#[derive(Default)]
struct Names {
    output: Option<Variable>,
    loss: Option<Variable>,
    total: Option<Variable>,
    losses: Vec<Variable>,
}

impl<'r, 'a> Training<'r, 'a> {
    /// What the script does before its loop: the model goes to the device, and the optimizer is set up.
    fn begin(run: &'r mut Run<'a>) -> std::result::Result<Self, Stop> {
        let (plan, exec, outfit) = (run.plan, run.exec, run.outfit);
        let settings = &plan.settings;
        let (model, parameters) = to_device(plan, exec, outfit.resume)?;
        run.row();

        run.at = At { step: settings.done + 1, micro_step: 1, phase: Phase::Input };
        let mut stepper = match &settings.optimizer {
            Some(optimizer) => {
                exec.memory().begin(Running::step(optimizer.name()));
                Some(optimizer.stepper(exec, &parameters.iter().map(|p| p.tensor().clone()).collect::<Vec<_>>())?)
            }
            None => None,
        };
        let mut scaler = settings.has_scaler().then(Scaler::default);
        let tape = Tape::new(!settings.no_grad);
        exec.generator().set_state(Stream { seed: settings.seed, number: 0 });
        if let Some(snapshot) = outfit.resume {
            state::put_back(exec, plan, snapshot, stepper.as_deref_mut(), scaler.as_mut());
        }
        let clock = Clock::start(exec, outfit.timed);
        let batches = Batches::new(plan, exec, outfit, settings.done * settings.accumulation_steps, clock.began)?;
        let inputs = Inputs::new(plan, exec, batches);
        Ok(Self { run, untold: Vec::new(), inputs, clock, names: Names::default(), tape, scaler, stepper, parameters, model })
    }

    fn micro_step(&mut self, step: u64, micro_step: u64) -> std::result::Result<(), Stop> {
        let (exec, settings) = (self.run.exec, &self.run.plan.settings);
        let started = Instant::now();
        let began = (started - self.clock.began).as_secs_f64();
        self.run.times = StepTimes { began, ..StepTimes::default() };
        self.run.at = At { step, micro_step, phase: Phase::Input };
        let number = (step - 1) * settings.accumulation_steps + micro_step - 1;
        self.inputs.next(number, &mut self.run.times)?;
        self.run.row();

        let batch_there = self.clock.is_due(started).then(|| exec.reached());
        self.forward(self.run.plan.program_index(step))?;
        self.keep_loss()?;
        let loss = self.names.loss.as_ref().map(|loss| exec.item_later(loss.tensor()));
        if settings.trains() {
            self.backward()?;
            self.run.row();
        }
        let last = micro_step == settings.accumulation_steps;
        let found_inf = if last { self.end_step()? } else { None };
        let updated = batch_there.map(|_| exec.reached());
        self.inputs.copy_ahead(number + 1, &mut self.run.times)?;

        self.log(step, last, loss);
        if last {
            self.save(step)?;
        }
        if last && step == settings.done + 1 {
            // Libraries load what they launch when they first do.
            exec.on_cuda(|gpu| measure::count_loaded(gpu, exec.memory()));
        }
        let (times, load) = (self.run.times, self.clock.load());
        let seconds = started.elapsed().as_secs_f64();
        self.untold.push(Untold { step, micro_step, loss, found_inf, seconds, times, computing: batch_there.zip(updated), load });
        self.tell(step)
    }

    /// From the batch to the loss, with the rows in between; afterwards the next row is the one after the loss.
    fn forward(&mut self, program_index: usize) -> Result<()> {
        let Self { run: cx, inputs, names, tape, model, .. } = self;
        let (exec, settings) = (cx.exec, &cx.plan.settings);
        let program = &cx.plan.programs[program_index];
        cx.at.phase = Phase::Forward;
        let mut variables = Variables::of(model, program);
        for (id, tensor) in [(Some(program.input), &inputs.input), (program.target, &inputs.target)] {
            if let (Some(id), Some(tensor)) = (id, tensor) {
                variables.set(id, Variable::constant(tensor.clone()));
            }
        }
        let body = |which: Which, variables: &mut Variables| -> Result<Option<Variable>> {
            let mut place = Place::new(program_index, which);
            let Some(body) = place.body(&model.plan) else { return Ok(None) };
            run(model, exec, tape, &mut place, body, variables).map_err(|halt| {
                // The exception leaves autocast, which empties its cache.
                program.autocast_cache.iter().for_each(|&cast| variables.drop(cast));
                exec.memory().settle_failure();
                halt.out_of_memory()
            })?;
            Ok(Some(variables.get(body.result).clone()))
        };
        if settings.amp == Some(DType::BF16) && exec.gpu().capability < (8, 0) && (cx.at.step, cx.at.micro_step) == (settings.done + 1, 1) {
            // Autocast asks once whether the GPU takes bfloat16; of those before Ampere it asks by making a tensor.
            drop(exec.empty(TensorMeta::scalar(DType::BF16))?);
        }
        names.output = body(Which::Forward, &mut variables)?;
        cx.row();

        cx.at.phase = Phase::Loss;
        if let Some(loss) = body(Which::Criterion, &mut variables)? {
            names.loss = Some(loss);
        }
        for &cast in &program.autocast_cache {
            variables.drop(cast);
        }
        if let Some(loss) = body(Which::Divide, &mut variables)? {
            names.loss = Some(loss);
        }
        drop(variables);
        if !settings.no_grad {
            cx.row();
        }
        cx.at = after_loss(cx.at, settings);
        Ok(())
    }

    /// What becomes of the loss, as `keep_loss` says.
    fn keep_loss(&mut self) -> Result<()> {
        let (exec, names) = (self.run.exec, &mut self.names);
        let Some(loss) = &names.loss else { return Ok(()) };
        match self.run.plan.settings.keep_loss {
            // Reading the number leaves no tensor behind.
            KeepLoss::None | KeepLoss::Item => {}
            KeepLoss::List => names.losses.push(loss.clone()),
            KeepLoss::Total => {
                names.total = Some(match &names.total {
                    None => loss.clone(),
                    Some(total) => {
                        exec.memory().begin(Running::outside("add"));
                        let sum = self.tape.apply(exec, &Add { inplace: false }.into(), &[total, loss]).map_err(Halt::out_of_memory)?;
                        sum.into_iter().next().expect("a sum is one tensor")
                    }
                });
            }
        }
        Ok(())
    }

    /// `loss.backward()`, or `scaler.scale(loss).backward()`.
    fn backward(&mut self) -> Result<()> {
        let exec = self.run.exec;
        let loss = self.names.loss.as_ref().expect("what trains has a loss");
        exec.memory().begin(Running::outside("scale"));
        let root = match &mut self.scaler {
            Some(scaler) => scaler.scale(exec, &self.tape, loss)?,
            None => loss.clone(),
        };
        exec.memory().begin(Running::outside("ones_like"));
        let ones = exec.empty_like(root.tensor())?;
        exec.fill(&ones, 1.0);
        backward(exec, &self.tape, &root, &ones).inspect_err(|_| exec.memory().settle_failure())
    }

    /// What comes once a step: the optimizer's update, `zero_grad` and `empty_cache`. Says whether the scaler skipped the update (not 0).
    fn end_step(&mut self) -> Result<Option<Later>> {
        let (exec, settings) = (self.run.exec, &self.run.plan.settings);
        let mut found_inf = None;
        if settings.optimizer.is_some() {
            self.run.at.phase = Phase::Optimizer;
            found_inf = self.update()?;
            self.run.row();
            self.run.at.phase = Phase::ZeroGrad;
            self.parameters.iter().for_each(Parameter::zero_grad);
            self.run.row();
        }
        if settings.empty_cache {
            self.run.at.phase = Phase::EmptyCache;
            exec.memory().empty_cache();
            self.run.row();
        }
        Ok(found_inf)
    }

    /// `optimizer.step()`, or `scaler.step(optimizer)`, which says whether it was skipped (not 0).
    fn update(&mut self) -> Result<Option<Later>> {
        let exec = self.run.exec;
        let (Some(optimizer), Some(stepper)) = (&self.run.plan.settings.optimizer, &mut self.stepper) else { return Ok(None) };
        exec.memory().begin(Running::step(optimizer.name()));
        let trained: Vec<Trained> = self.parameters.iter().map(|p| Trained { parameter: p.tensor().clone(), grad: p.grad() }).collect();
        match &mut self.scaler {
            Some(scaler) => scaler.step(exec, optimizer.implementation(), &mut **stepper, &trained).map(Some),
            None => stepper.step(exec, &trained, None).map(|()| None),
        }
    }

    /// Without a log every loss is told at once. With one, nobody waits for those between.
    fn log(&mut self, step: u64, last: bool, loss: Option<Later>) {
        let Run { exec, outfit, observer, times, .. } = &mut *self.run;
        if outfit.log.is_none() {
            exec.wait();
        } else if last && is_due(outfit.log, step) {
            timed(&mut times.logging, || {
                exec.wait();
                observer.log(step, loss.and_then(|loss| exec.value(loss)));
            });
        }
    }

    /// The state after the step, where it is to be saved.
    fn save(&mut self, step: u64) -> std::result::Result<(), Stop> {
        let Run { exec, outfit, observer, times, .. } = &mut *self.run;
        if !exec.computes() || !is_due(outfit.save, step) {
            return Ok(());
        }
        timed(&mut times.saving, || {
            let snapshot = state::take(exec, &self.model, step, self.stepper.as_deref(), self.scaler.as_ref());
            // What a device that failed gives must not take the place of the save before.
            if exec.has_failed() { Err(Stop::Device) } else { observer.save(snapshot).map_err(Stop::from) }
        })
    }

    /// Tells of the micro-steps so far, where somebody waits for that: each without a log, those between two losses with one.
    fn tell(&mut self, step: u64) -> std::result::Result<(), Stop> {
        let Run { plan, exec, outfit, observer, .. } = &mut *self.run;
        let waited_for = outfit.log.is_none() || is_due(outfit.log, step) || step == plan.settings.steps;
        if !waited_for && self.untold.len() < MOST_UNTOLD {
            return Ok(());
        }
        exec.wait();
        if exec.has_failed() {
            return Err(Stop::Device);
        }
        self.untold.drain(..).for_each(|u| observer.micro_step(&u.told(exec, &mut self.clock)));
        Ok(())
    }
}

/// Whether step `step` is one of every so many.
fn is_due(every: Option<u64>, step: u64) -> bool {
    every.is_some_and(|n| step.is_multiple_of(n))
}

/// Which row comes after the loss: what happens before it counts for it.
fn after_loss(at: At, settings: &Loop) -> At {
    if settings.trains() {
        At { phase: Phase::Backward, ..at }
    } else if at.micro_step < settings.accumulation_steps {
        At { micro_step: at.micro_step + 1, phase: Phase::Input, ..at }
    } else if settings.empty_cache {
        At { phase: Phase::EmptyCache, ..at }
    } else {
        At { step: at.step + 1, micro_step: 1, phase: Phase::Input }
    }
}
