//! The loop itself. Its order is the order of rows in the results; its fields are the script's variables.

use std::rc::Rc;
use std::time::Instant;

use super::batches::{Batches, Made, timed};
use super::clock::Clock;
use super::data;
use super::interpreter::{Model, Place, Variables, Which, run};
use super::observer::Observer;
use super::outfit::{Outfit, Stop};
use super::scaler::Scaler;
use super::state;
use crate::autograd::{Halt, Parameter, Tape, Variable, backward};
use crate::exec::{Exec, Later, Needed, Reached, Result, Stream};
use crate::measure;
use crate::meta::{DType, Shape, TensorMeta};
use crate::model::{KeepLoss, Plan, Program, StateKind, ValueId};
use crate::ops::add::rule::Add;
use crate::optim::kernel::{Stepper, Trained};
use crate::record::{About, At, Category, Load, MicroStep, Phase, Running, StepTimes};
use crate::save::Snapshot;
use crate::tensor::Tensor;

/// Trains, or infers, as the plan says, on synthetic batches. Where memory runs out, the row of that phase is the last.
///
/// # Errors
/// Out of memory; its row has been given.
///
/// # Panics
/// Never: what else can stop a run, it is not given.
pub fn train(plan: &Rc<Plan>, exec: &Exec, observer: &mut dyn Observer) -> Result<()> {
    train_with(plan, exec, &Outfit::default(), observer).map_err(|stop| match stop {
        Stop::OutOfMemory(error) => error,
        other => unreachable!("nothing else can stop a run on synthetic batches: {other}"),
    })
}

/// Trains, or infers, as the plan says, with what the outfit has. Where memory runs out, the row of that phase is the last.
///
/// # Errors
/// Out of memory, whose row has been given, or what else ended the run.
pub fn train_with(plan: &Rc<Plan>, exec: &Exec, outfit: &Outfit<'_>, observer: &mut dyn Observer) -> std::result::Result<(), Stop> {
    let mut run = Run { at: At { step: 0, micro_step: 0, phase: Phase::Model }, exec, observer, times: StepTimes::default() };
    let result = script(plan, outfit, &mut run);
    if let Err(Stop::OutOfMemory(e)) = &result {
        let row = measure::out_of_memory(exec.memory(), run.at, e);
        run.observer.row(&row);
    }
    result
}

/// What moves tensors to the device, by its name in PyTorch.
const COPY: &str = "to";

/// Where the run is.
struct Run<'a> {
    /// The row that comes next.
    at: At,
    exec: &'a Exec,
    observer: &'a mut dyn Observer,
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

/// The script's variables that outlive a micro-step.
#[derive(Default)]
struct Names {
    input: Option<Tensor>,
    target: Option<Tensor>,
    /// The next batch, where it is copied ahead.
    ahead: Option<Ahead>,
    output: Option<Variable>,
    loss: Option<Variable>,
    total: Option<Variable>,
    losses: Vec<Variable>,
}

/// A batch that is copied while the one before is computed.
struct Ahead {
    input: Tensor,
    target: Option<Tensor>,
    /// How it came about, once it is on its way.
    made: Made,
}

fn script(plan: &Rc<Plan>, outfit: &Outfit<'_>, cx: &mut Run<'_>) -> std::result::Result<(), Stop> {
    let exec = cx.exec;
    let settings = &plan.settings;
    let (model, parameters) = to_device(plan, exec, outfit.resume)?;
    cx.row();

    cx.at = At { step: settings.done + 1, micro_step: 1, phase: Phase::Input };
    let optimizer = settings.optimizer.filter(|_| settings.trains());
    if let Some(optimizer) = &optimizer {
        exec.memory().begin(Running::step(optimizer.name()));
    }
    let mut stepper = match &optimizer {
        Some(o) => Some(o.stepper(exec, &parameters.iter().map(|p| p.tensor().clone()).collect::<Vec<_>>())?),
        None => None,
    };
    let mut scaler = settings.has_scaler().then(Scaler::default);
    let tape = Tape::new(!settings.no_grad);
    let mut names = Names::default();
    exec.generator().set_state(Stream { seed: settings.seed, number: 0 });
    if let Some(snapshot) = outfit.resume {
        state::put_back(exec, plan, snapshot, stepper.as_deref_mut(), scaler.as_mut());
    }
    let mut clock = Clock::start(exec, outfit.timed);
    let mut batches = Batches::new(plan, exec, outfit, settings.done * settings.accumulation_steps, clock.began)?;
    let mut untold = Vec::new();
    for step in settings.done + 1..=settings.steps {
        let due = |every: Option<u64>| every.is_some_and(|n| step % n == 0);
        let program = plan.program_index(step);
        for micro_step in 1..=settings.accumulation_steps {
            let last = micro_step == settings.accumulation_steps;
            let started = Instant::now();
            cx.times = StepTimes { began: (started - clock.began).as_secs_f64(), ..StepTimes::default() };
            cx.at = At { step, micro_step, phase: Phase::Input };
            let number = (step - 1) * settings.accumulation_steps + micro_step - 1;
            input(plan, cx, &mut batches, number, &mut names)?;
            let batch_there = clock.is_due(started).then(|| exec.reached());
            forward(&model, cx, &tape, program, &mut names)?;
            keep_loss(settings.keep_loss, exec, &tape, &mut names)?;
            let loss = names.loss.as_ref().map(|loss| exec.item_later(loss.tensor()));
            if settings.trains() {
                let loss = names.loss.as_ref().expect("what trains has a loss");
                back(exec, &tape, scaler.as_mut(), loss)?;
                cx.row();
            }
            let mut found_inf = None;
            if let (true, Some(optimizer), Some(stepper)) = (last, &optimizer, &mut stepper) {
                cx.at.phase = Phase::Optimizer;
                exec.memory().begin(Running::step(optimizer.name()));
                found_inf = update(exec, optimizer.implementation(), &mut **stepper, scaler.as_mut(), &parameters)?;
                cx.row();
                cx.at.phase = Phase::ZeroGrad;
                parameters.iter().for_each(Parameter::zero_grad);
                cx.row();
            }
            if last && settings.empty_cache {
                cx.at.phase = Phase::EmptyCache;
                exec.memory().empty_cache();
                cx.row();
            }
            let updated = batch_there.map(|_| exec.reached());
            input_ahead(plan, cx, &mut batches, number + 1, &mut names)?;
            // Without a log every loss is told at once. With one, nobody waits for those between.
            if outfit.log.is_none() {
                exec.wait();
            } else if last && due(outfit.log) {
                let observer = &mut *cx.observer;
                timed(&mut cx.times.logging, || {
                    exec.wait();
                    observer.log(step, loss.and_then(|loss| exec.value(loss)));
                });
            }
            if last && exec.computes() && due(outfit.save) {
                let observer = &mut *cx.observer;
                timed(&mut cx.times.saving, || {
                    let snapshot = state::take(exec, &model, step, stepper.as_deref(), scaler.as_ref());
                    // What a device that failed gives must not take the place of the save before.
                    if exec.has_failed() { Err(Stop::Device) } else { observer.save(snapshot).map_err(Stop::from) }
                })?;
            }
            if last && step == settings.done + 1 {
                // Libraries load what they launch when they first do.
                exec.on_cuda(|gpu| measure::count_loaded(gpu, exec.memory()));
            }
            let (times, load) = (cx.times, clock.load());
            let seconds = started.elapsed().as_secs_f64();
            untold.push(Untold { step, micro_step, loss, found_inf, seconds, times, computing: batch_there.zip(updated), load });
            if outfit.log.is_none() || due(outfit.log) || untold.len() >= MOST_UNTOLD || step == settings.steps {
                exec.wait();
                if exec.has_failed() {
                    return Err(Stop::Device);
                }
                untold.drain(..).for_each(|u| cx.observer.micro_step(&u.told(exec, &mut clock)));
            }
        }
    }
    cx.observer.end(exec.memory());
    Ok(())
}

/// How many micro-steps may go by untold: the device has room for the losses of twice as many.
const MOST_UNTOLD: usize = 128;

/// A micro-step whose loss may be on its way still.
struct Untold {
    step: u64,
    micro_step: u64,
    loss: Option<Later>,
    found_inf: Option<Later>,
    seconds: f64,
    times: StepTimes,
    /// Where the device begins and ends to compute it, where that is measured.
    computing: Option<(Reached, Reached)>,
    load: Load,
}

impl Untold {
    /// The micro-step, once the device was waited for.
    fn told(self, exec: &Exec, clock: &mut Clock) -> MicroStep {
        let Self { step, micro_step, seconds, mut times, load, .. } = self;
        if let Some((from, to)) = self.computing {
            let began = clock.seconds_at(exec, from);
            times.computing = Some((began, began + exec.seconds_between(from, to)));
        }
        let loss = self.loss.and_then(|loss| exec.value(loss));
        let skipped = self.found_inf.and_then(|found| exec.value(found)).is_some_and(|found| found != 0.0);
        MicroStep { step, micro_step, loss, skipped, seconds, times, load }
    }
}

/// `net.to(device)`: one tensor after another, from a save where there is one.
fn to_device(plan: &Rc<Plan>, exec: &Exec, resume: Option<&Snapshot>) -> Result<(Rc<Model>, Vec<Parameter>)> {
    let mut moved: Vec<Tensor> = Vec::with_capacity(plan.state.len());
    for (number, tensor) in (0..).zip(&plan.state) {
        let (layer, about) = (Some(tensor.layer.0), About::State(number));
        exec.memory().begin(Running { layer, about, ..Running::outside(COPY) });
        let category = match tensor.kind {
            StateKind::Parameter => Category::Parameters,
            StateKind::Buffer => Category::Buffers,
        };
        moved.push(exec.empty_as(tensor.meta.clone(), category)?);
        flatten(plan, exec, &mut moved)?;
    }
    if exec.computes() {
        fill(plan, exec, resume, &moved);
    }
    let mut parameters = Vec::new();
    let state = plan.state.iter().zip(moved).map(|(tensor, moved)| match tensor.kind {
        StateKind::Parameter => {
            let parameter = Parameter::new(moved);
            let variable = parameter.variable();
            parameters.push(parameter);
            variable
        }
        StateKind::Buffer => Variable::constant(moved),
    });
    let state = state.collect();
    Ok((Rc::new(Model { plan: Rc::clone(plan), state }), parameters))
}

/// `input, target = …`: copies of the batch, or what was copied ahead; then room for the next batch, where that is copied ahead.
fn input(plan: &Plan, cx: &mut Run<'_>, batches: &mut Batches<'_>, number: u64, names: &mut Names) -> std::result::Result<(), Stop> {
    cx.exec.memory().begin(Running::outside(COPY));
    if let Some(Ahead { input, target, made }) = names.ahead.take() {
        names.input = Some(input);
        if target.is_some() {
            names.target = target;
        }
        (cx.times.preparing, cx.times.prepared) = (made.preparing, made.prepared);
        batches.arrive();
    } else {
        let (program, index) = program_of(plan, number);
        let input = room(cx.exec, program, program.input)?;
        names.input = Some(input.clone());
        let target = program.target.map(|id| room(cx.exec, program, id)).transpose()?;
        let made = batches.fill(cx.exec, (index, number), (&input, target.as_ref()), Needed::Now, &mut cx.times)?;
        (cx.times.preparing, cx.times.prepared) = (made.preparing, made.prepared);
        if target.is_some() {
            names.target = target;
        }
    }
    if plan.settings.device_prefetch && number + 1 < plan.settings.steps * plan.settings.accumulation_steps {
        let (program, _) = program_of(plan, number + 1);
        let input = room(cx.exec, program, program.input)?;
        let target = program.target.map(|id| room(cx.exec, program, id)).transpose()?;
        batches.room_is_taken();
        names.ahead = Some(Ahead { input, target, made: Made::default() });
    }
    cx.row();
    Ok(())
}

/// The next batch comes to the device beside what the step still computes.
fn input_ahead(plan: &Plan, cx: &mut Run<'_>, batches: &mut Batches<'_>, number: u64, names: &mut Names) -> std::result::Result<(), Stop> {
    let Some(Ahead { input, target, made }) = &mut names.ahead else { return Ok(()) };
    let (_, index) = program_of(plan, number);
    *made = batches.fill(cx.exec, (index, number), (input, target.as_ref()), Needed::Later, &mut cx.times)?;
    Ok(())
}

/// The program of micro-step `number`, from 0, and its index.
fn program_of(plan: &Plan, number: u64) -> (&Program, usize) {
    let index = plan.program_index(number / plan.settings.accumulation_steps + 1);
    (&plan.programs[index], index)
}

/// A new tensor for a part of the batch.
fn room(exec: &Exec, program: &Program, id: ValueId) -> Result<Tensor> {
    exec.empty_as(program.values[id.0 as usize].clone(), Category::Inputs)
}

/// Gives every parameter and buffer its values, once all of them have their places: a model that is too large says so before anything is drawn.
fn fill(plan: &Plan, exec: &Exec, resume: Option<&Snapshot>, moved: &[Tensor]) {
    let mut drawn = data::state(plan);
    for (tensor, on_device) in plan.state.iter().zip(moved) {
        match resume.and_then(|snapshot| snapshot.tensor(&tensor.name)) {
            Some(stored) => exec.upload(&stored.bytes, on_device),
            None => exec.upload(drawn.next().expect("values for each tensor").bytes(), on_device),
        }
    }
}

/// `flatten_parameters`: once the last of those that share a buffer is there, all become parts of it.
fn flatten(plan: &Plan, exec: &Exec, moved: &mut [Tensor]) -> Result<()> {
    let group = plan.flat_until(moved.len() - 1);
    let members = &plan.state[group.clone()];
    let Some(first) = members.first() else { return Ok(()) };
    let elements = members.iter().map(|s| s.meta.numel()).sum::<u64>();
    let shape = Shape::new([elements]).expect("the layer's check refuses weights that are too large together");
    let flat = exec.empty_as(TensorMeta::contiguous(shape, first.meta.dtype), Category::Parameters)?;
    for (own, member) in moved[group].iter_mut().zip(members) {
        let place = member.flat.expect("members of a buffer have a place in it");
        *own = flat.alias_at(member.meta.clone(), place.offset);
    }
    Ok(())
}

/// From the batch to the loss, with the rows in between; afterwards the next row is the one after the loss.
fn forward(model: &Rc<Model>, cx: &mut Run<'_>, tape: &Tape, program_index: usize, names: &mut Names) -> Result<()> {
    let exec = cx.exec;
    let settings = &model.plan.settings;
    let program = &model.plan.programs[program_index];
    cx.at.phase = Phase::Forward;
    let mut variables = Variables::of(model, program);
    for (id, tensor) in [(Some(program.input), &names.input), (program.target, &names.target)] {
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
    cx.at = after_loss(settings.trains(), cx.at, model);
    Ok(())
}

/// Which row comes after the loss: what happens before it counts for it.
fn after_loss(trains: bool, at: At, model: &Model) -> At {
    let settings = &model.plan.settings;
    if trains {
        At { phase: Phase::Backward, ..at }
    } else if at.micro_step < settings.accumulation_steps {
        At { micro_step: at.micro_step + 1, phase: Phase::Input, ..at }
    } else if settings.empty_cache {
        At { phase: Phase::EmptyCache, ..at }
    } else {
        At { step: at.step + 1, micro_step: 1, phase: Phase::Input }
    }
}

fn keep_loss(keep: KeepLoss, exec: &Exec, tape: &Tape, names: &mut Names) -> Result<()> {
    let Some(loss) = &names.loss else { return Ok(()) };
    match keep {
        // Reading the number leaves no tensor behind.
        KeepLoss::None | KeepLoss::Item => {}
        KeepLoss::List => names.losses.push(loss.clone()),
        KeepLoss::Total => {
            names.total = Some(match &names.total {
                None => loss.clone(),
                Some(total) => {
                    exec.memory().begin(Running::outside("add"));
                    let sum = tape.apply(exec, &Add { inplace: false }.into(), &[total, loss]).map_err(Halt::out_of_memory)?;
                    sum.into_iter().next().expect("a sum is one tensor")
                }
            });
        }
    }
    Ok(())
}

/// `loss.backward()`, or `scaler.scale(loss).backward()`.
fn back(exec: &Exec, tape: &Tape, scaler: Option<&mut Scaler>, loss: &Variable) -> Result<()> {
    exec.memory().begin(Running::outside("scale"));
    let root = match scaler {
        Some(scaler) => scaler.scale(exec, tape, loss)?,
        None => loss.clone(),
    };
    exec.memory().begin(Running::outside("ones_like"));
    let ones = exec.empty_like(root.tensor())?;
    exec.fill(&ones, 1.0);
    backward(exec, tape, &root, &ones).inspect_err(|_| exec.memory().settle_failure())
}

/// `optimizer.step()`, through the scaler where there is one; then it says whether the step was skipped (not 0).
fn update(
    exec: &Exec,
    implementation: crate::optim::Implementation,
    stepper: &mut dyn Stepper,
    scaler: Option<&mut Scaler>,
    parameters: &[Parameter],
) -> Result<Option<Later>> {
    let trained: Vec<Trained> = parameters.iter().map(|p| Trained { parameter: p.tensor().clone(), grad: p.grad() }).collect();
    match scaler {
        Some(scaler) => scaler.step(exec, implementation, stepper, &trained).map(Some),
        None => stepper.step(exec, &trained, None).map(|()| None),
    }
}
