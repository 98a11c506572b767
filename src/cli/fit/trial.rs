//! A case asked about under other settings: what it needs, whether it fits, the most of an axis that does.
//!
//! Every answer comes from the predictor over the case as the language reads it with these settings, so that what is refused to a run is
//! refused here.

use std::path::PathBuf;

use crate::alloc::AllocatorConfig;
use crate::cli::args::Told;
use crate::experiment::{Case, Diagnostics, Draft, Overrides};
use crate::gpu::Gpu;
use crate::model::{Plan, Work};
use crate::ops::RuleContext;
use crate::predict::room::{Shortage, ends_well, most, roomy, tried};
use crate::predict::search::{self, Largest, Probe, Reach};
use crate::predict::{Foreseen, foresee};

/// A case as text, with what it is asked under.
#[derive(Debug, Clone)]
pub(super) struct Trial<'s> {
    /// The experiment's name.
    pub(super) name: String,
    /// The case as an experiment file of its own.
    pub(super) text: String,
    /// The folder that its paths set out from.
    pub(super) folder: PathBuf,
    /// What is otherwise than in the text.
    pub(super) overrides: Overrides,
    /// How memory behaves.
    pub(super) gpu: Gpu,
    /// What its libraries ask for.
    pub(super) scratch: &'s Told,
    /// Bytes that may be reserved.
    pub(super) limit: u64,
    /// Steps that it trains for at the least.
    pub(super) steps: u64,
}

/// A trial whose text was read, for many questions.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    trial: &'a Trial<'a>,
    draft: Draft,
}

/// How far is looked as a rule.
const REACH: Reach = Reach { most: 1 << 40, far: 4096 };
/// How far where the predictor goes through each one: steps, and micro-steps in a step.
const REACH_IN_STEPS: Reach = Reach { most: 1 << 14, far: 64 };
/// How many optimizer steps.
pub(super) const STEPS: &str = "train.steps";
/// The settings that say how often something is done.
const OFTEN: [&str; 2] = [STEPS, "train.accumulation_steps"];
/// Steps, and micro-steps in a step, after which nothing new happens as a rule; what they answer is confirmed with all.
const FEW_STEPS: u64 = 2;
/// What fits is to fit where training goes on. Every step asks for the same, but where its blocks lie in the cache depends on what the
/// steps before left there, so that the memory reserved may grow for several steps: a ResNet-50's for five, a ResNet-18's for eight.
pub(super) const STEPS_OF_TRAINING_THAT_GOES_ON: u64 = 10;

/// Steps that a question about `axis` goes through at the least: those of training that goes on, unless how many is the question.
pub(super) fn least_steps(axis: &str) -> u64 {
    if axis == STEPS { 0 } else { STEPS_OF_TRAINING_THAT_GOES_ON }
}

impl Trial<'_> {
    /// What this would need on such a GPU with memory for all of it.
    pub(super) fn predict(&self, work: &Work, allocator: AllocatorConfig) -> Foreseen {
        foresee(work, RuleContext { gpu: &roomy(&self.gpu), scratch: self.scratch }, allocator)
    }

    /// Reads the text, once for all that is asked.
    pub(super) fn read(&self) -> Asked<'_> {
        Asked { trial: self, draft: Draft::read(&self.name, &self.text, &self.folder, &self.gpu) }
    }
}

impl Asked<'_> {
    /// The case with more settings, as long as its training goes on at the least.
    pub(super) fn case(&self, more: &[String]) -> Result<Case, Diagnostics> {
        let mut overrides = self.trial.overrides.clone();
        overrides.set.extend_from_slice(more);
        let mut case = self.draft.load(&overrides)?.cases.swap_remove(0);
        if let Work::Train(plan) = &mut case.work
            && plan.settings.steps < self.trial.steps
        {
            plan.train_for(self.trial.steps);
            if let Some(feed) = &mut case.feed {
                // Samples that are enough for the file's own steps.
                feed.settings.repeat = true;
            }
        }
        Ok(case)
    }

    /// The most bytes allocated and reserved at once, with more settings, where nothing limits them.
    pub(super) fn needs(&self, more: &[String]) -> Result<(u64, u64), Diagnostics> {
        let case = self.case(more)?;
        Ok(most(self.trial.predict(&case.work, case.allocator.with_limit(None)).once()))
    }

    /// What runs with `axis` at `value`, under the limit.
    pub(super) fn limited(&self, axis: &str, value: u64) -> Result<Case, Diagnostics> {
        let case = self.case(&[format!("{axis}={value}")])?;
        Ok(Case { allocator: case.allocator.with_limit(Some(self.trial.limit)), ..case })
    }

    /// Whether that runs, and what it needs. What cannot be written does not run.
    fn probe(&self, axis: &str, value: u64, extent: Extent) -> Probe {
        let Ok(mut case) = self.limited(axis, value) else { return Probe { fits: false, peak: 0 } };
        if let (Work::Train(plan), Extent::Short) = (&mut case.work, extent) {
            shorten(plan);
        }
        let rows = self.trial.predict(&case.work, case.allocator);
        Probe { fits: ends_well(rows.once()), peak: most(rows.once()).0 }
    }

    /// Where that runs out of memory, if it does and can be written.
    pub(super) fn shortage(&self, axis: &str, value: u64) -> Option<Shortage> {
        let case = self.limited(axis, value).ok()?;
        let gpu = roomy(&self.trial.gpu);
        tried(&case.work, RuleContext { gpu: &gpu, scratch: self.trial.scratch }, case.allocator).1
    }

    /// The largest value of `axis` that fits, looked for from `start` on.
    pub(super) fn largest(&self, axis: &str, start: u64) -> Result<Largest, Diagnostics> {
        let reach = if OFTEN.contains(&axis) { REACH_IN_STEPS } else { REACH };
        let search = |start, extent| search::largest(start, reach, self.trial.limit, &mut |value| self.probe(axis, value, extent));
        if OFTEN.contains(&axis) || !is_long(&self.case(&[])?) {
            return Ok(search(start, Extent::Whole));
        }
        let found = search(start, Extent::Short);
        let fits = |value| self.probe(axis, value, Extent::Whole).fits;
        let holds = match found {
            Largest::Fits(value) => fits(value) && !fits(value + 1),
            Largest::Nothing => !fits(1),
            Largest::All(value) => fits(value),
            Largest::Indifferent | Largest::Level(_) => fits(start),
        };
        // Near what a part of it needs the whole is found soon.
        let near = if let Largest::Fits(value) = found { value } else { start };
        Ok(if holds { found } else { search(near, Extent::Whole) })
    }
}

/// How much of a training is gone through.
#[derive(Debug, Clone, Copy)]
enum Extent {
    Whole,
    Short,
}

/// Whether cutting it short makes a difference.
fn is_long(case: &Case) -> bool {
    matches!(&case.work, Work::Train(plan) if plan.settings.steps > FEW_STEPS || plan.settings.accumulation_steps > FEW_STEPS)
}

/// Leaves a few steps of a long training, and a few micro-steps in each.
fn shorten(plan: &mut Plan) {
    if plan.settings.steps > FEW_STEPS {
        // Where lengths vary, each step is another, and the longest as a rule the one that needs most.
        let length = |&index: &usize| {
            let program = &plan.programs[index];
            program.values[program.input.0 as usize].shape.dims().get(1).copied()
        };
        let longest = (0..plan.programs.len()).max_by_key(length).expect("a plan has a program");
        if plan.programs.len() > 1 {
            plan.schedule = vec![longest];
        }
        plan.settings.steps = FEW_STEPS;
    }
    plan.settings.accumulation_steps = plan.settings.accumulation_steps.min(FEW_STEPS);
}
