//! A case asked about under other settings: what it needs, whether it fits, the most of an axis that does.
//!
//! Every answer comes from the predictor over the case as the language reads it with these settings, so that what is refused to a run is
//! refused here.

use std::path::PathBuf;

use crate::experiment::{self, Case, Diagnostics};
use crate::gpu::Gpu;
use crate::model::Work;
use crate::predict::predict;
use crate::predict::room::{ends_well, most, roomy};
use crate::predict::search::{self, Largest, Probe};

/// A case as text, with what it is asked under.
#[derive(Debug, Clone)]
pub(super) struct Trial {
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
    /// Bytes that may be reserved.
    pub(super) limit: u64,
}

/// The largest value that is looked at.
const MOST: u64 = 1 << 40;
/// Steps, and micro-steps in a step, after which nothing new happens as a rule; what they answer is confirmed with all.
const FEW_STEPS: u64 = 3;

impl Trial {
    /// The case with one more setting.
    pub(super) fn case(&self, more: &[String]) -> Result<Case, Diagnostics> {
        let settings: Vec<String> = self.settings.iter().chain(more).cloned().collect();
        let mut cases = experiment::load_str_for(&self.name, &self.text, &self.folder, &settings, &self.gpu)?.cases;
        Ok(cases.swap_remove(0))
    }

    /// The most bytes allocated and reserved at once where nothing limits them.
    pub(super) fn needs(&self) -> Result<(u64, u64), Diagnostics> {
        let case = self.case(&[])?;
        Ok(most(&predict(&case.work, &roomy(&self.gpu), case.allocator.with_limit(None))))
    }

    /// What runs with `axis` at `value`, under the limit.
    pub(super) fn limited(&self, axis: &str, value: u64) -> Result<Case, Diagnostics> {
        let case = self.case(&[format!("{axis}={value}")])?;
        Ok(Case { allocator: case.allocator.with_limit(Some(self.limit)), ..case })
    }

    /// Whether it runs with `axis` at `value`, and what that needs. What cannot be written does not run.
    pub(super) fn probe(&self, axis: &str, value: u64) -> Probe {
        let Ok(case) = self.limited(axis, value) else { return Probe { fits: false, peak: 0 } };
        let rows = predict(&case.work, &roomy(&self.gpu), case.allocator);
        Probe { fits: ends_well(&rows), peak: most(&rows).0 }
    }

    /// The largest value of `axis` that fits, looked for from `start` on.
    pub(super) fn largest(&self, axis: &str, start: u64) -> Result<Largest, Diagnostics> {
        let case = self.case(&[])?;
        let search = |trial: &Self| search::largest(start, MOST, self.limit, &mut |value| trial.probe(axis, value));
        if let Some(short) = self.shortened(&case, axis) {
            let found = search(&short);
            let fits = |value| self.probe(axis, value).fits;
            let holds = match found {
                Largest::Fits(value) => fits(value) && !fits(value + 1),
                Largest::Nothing => !fits(1),
                Largest::All(value) => fits(value),
                Largest::Indifferent => fits(start),
            };
            if holds {
                return Ok(found);
            }
        }
        Ok(search(self))
    }

    /// The same training cut short, where it is long.
    fn shortened(&self, case: &Case, axis: &str) -> Option<Self> {
        let Work::Train(plan) = &case.work else { return None };
        let settings = &plan.settings;
        let mut short = self.clone();
        // Where lengths vary, each step is another.
        if settings.steps > FEW_STEPS && plan.schedule.len() == 1 {
            short.settings.push(format!("train.steps={FEW_STEPS}"));
        }
        if settings.accumulation_steps > FEW_STEPS {
            short.settings.push(format!("train.accumulation_steps={FEW_STEPS}"));
        }
        let is_shorter = short.settings.len() > self.settings.len();
        (is_shorter && !["train.steps", "train.accumulation_steps"].contains(&axis)).then_some(short)
    }
}
