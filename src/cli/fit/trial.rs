//! A case asked about under other settings: what it needs, whether it fits, the most of an axis that does.
//!
//! Every answer comes from the predictor over the case as the language reads it with these settings, so that what is refused to a run is
//! refused here.

use std::path::PathBuf;

use crate::alloc::AllocatorConfig;
use crate::cli::args::Told;
use crate::experiment::{Case, Diagnostics, Draft};
use crate::gpu::Gpu;
use crate::model::Work;
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
    /// Settings on top, as `--set` takes them.
    pub(super) settings: Vec<String>,
    /// How memory behaves.
    pub(super) gpu: Gpu,
    /// What its libraries ask for.
    pub(super) scratch: &'s Told,
    /// Bytes that may be reserved.
    pub(super) limit: u64,
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
/// The settings that say how often something is done.
const STEPS: [&str; 2] = ["train.steps", "train.accumulation_steps"];
/// Steps, and micro-steps in a step, after which nothing new happens as a rule; what they answer is confirmed with all.
const FEW_STEPS: u64 = 2;

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
    /// The case with more settings.
    pub(super) fn case(&self, more: &[String]) -> Result<Case, Diagnostics> {
        let settings: Vec<String> = self.trial.settings.iter().chain(more).cloned().collect();
        Ok(self.draft.load(&settings)?.cases.swap_remove(0))
    }

    /// The most bytes allocated and reserved at once, with more settings, where nothing limits them.
    pub(super) fn needs(&self, more: &[String]) -> Result<(u64, u64), Diagnostics> {
        let case = self.case(more)?;
        Ok(most(self.trial.predict(&case.work, case.allocator.with_limit(None)).once()))
    }

    /// What runs with `axis` at `value` and more settings, under the limit.
    pub(super) fn limited(&self, more: &[String], axis: &str, value: u64) -> Result<Case, Diagnostics> {
        let case = self.case(&[more, &[format!("{axis}={value}")]].concat())?;
        Ok(Case { allocator: case.allocator.with_limit(Some(self.trial.limit)), ..case })
    }

    /// Whether that runs, and what it needs. What cannot be written does not run.
    fn probe(&self, more: &[String], axis: &str, value: u64) -> Probe {
        let Ok(case) = self.limited(more, axis, value) else { return Probe { fits: false, peak: 0 } };
        let rows = self.trial.predict(&case.work, case.allocator);
        Probe { fits: ends_well(rows.once()), peak: most(rows.once()).0 }
    }

    /// Where that runs out of memory, if it does and can be written.
    pub(super) fn shortage(&self, axis: &str, value: u64) -> Option<Shortage> {
        let case = self.limited(&[], axis, value).ok()?;
        let gpu = roomy(&self.trial.gpu);
        tried(&case.work, RuleContext { gpu: &gpu, scratch: self.trial.scratch }, case.allocator).1
    }

    /// The largest value of `axis` that fits, looked for from `start` on.
    pub(super) fn largest(&self, axis: &str, start: u64) -> Result<Largest, Diagnostics> {
        let reach = if STEPS.contains(&axis) { REACH_IN_STEPS } else { REACH };
        let search = |more: &[String]| search::largest(start, reach, self.trial.limit, &mut |value| self.probe(more, axis, value));
        let short = shortened(&self.case(&[])?, axis);
        if !short.is_empty() {
            let found = search(&short);
            let fits = |value| self.probe(&[], axis, value).fits;
            let holds = match found {
                Largest::Fits(value) => fits(value) && !fits(value + 1),
                Largest::Nothing => !fits(1),
                Largest::All(value) => fits(value),
                Largest::Indifferent | Largest::Level(_) => fits(start),
            };
            if holds {
                return Ok(found);
            }
        }
        Ok(search(&[]))
    }
}

/// Settings that cut the same training short, where it is long.
fn shortened(case: &Case, axis: &str) -> Vec<String> {
    let mut short = Vec::new();
    let Work::Train(plan) = &case.work else { return short };
    if STEPS.contains(&axis) {
        return short;
    }
    let settings = &plan.settings;
    if settings.steps > FEW_STEPS {
        short.push(format!("{}={FEW_STEPS}", STEPS[0]));
        if plan.programs.len() > 1 {
            // Where lengths vary, each step is another, and the longest as a rule the one that needs most.
            let lengths = plan.programs.iter().map(|program| program.values[program.input.0 as usize].shape.dims()[1]);
            let longest = lengths.max().expect("there is more than one program");
            let as_often = usize::try_from(FEW_STEPS).expect("they are few");
            short.push(format!("train.lengths={:?}", vec![longest; as_often]));
        }
    }
    if settings.accumulation_steps > FEW_STEPS {
        short.push(format!("{}={FEW_STEPS}", STEPS[1]));
    }
    short
}
