//! Batches as the loop takes them: from the pipeline, or synthetic ones. What is on the device is the loop's business.

use std::time::Instant;

use super::data::Synthetic;
use super::outfit::Outfit;
use crate::data::{DataError, Pipeline};
use crate::exec::Exec;
use crate::model::Plan;
use crate::record::StepTimes;
use crate::tensor::Tensor;

/// Where batches come from. Nothing is opened where nothing computes.
pub(super) enum Batches<'a> {
    None,
    Synthetic(Synthetic<'a>),
    Files(Box<Pipeline>),
}

impl<'a> Batches<'a> {
    /// For the micro-steps from number `first` on.
    pub(super) fn new(plan: &'a Plan, exec: &'a Exec, outfit: &Outfit<'_>, first: u64) -> Result<Self, DataError> {
        let end = plan.settings.steps.saturating_mul(plan.settings.accumulation_steps);
        Ok(match outfit.feed {
            _ if !exec.computes() => Self::None,
            None => Self::Synthetic(Synthetic::new(plan, exec)),
            Some(feed) => Self::Files(Box::new(Pipeline::open(feed, first, end)?)),
        })
    }

    /// Fills `input` and `target` with the batch of micro-step `number`, from 0, which runs that program. Each batch is asked for once,
    /// in order.
    pub(super) fn fill(
        &mut self,
        exec: &Exec,
        (program, number): (usize, u64),
        (input, target): (&Tensor, Option<&Tensor>),
        times: &mut StepTimes,
    ) -> Result<(), DataError> {
        match self {
            Self::None => {}
            Self::Synthetic(synthetic) => {
                let batch = timed(&mut times.waiting, || synthetic.next(program, number));
                timed(&mut times.copying, || {
                    exec.upload_staged(&batch.input, input);
                    if let (Some(values), Some(target)) = (&batch.target, target) {
                        exec.upload_staged(values, target);
                    }
                });
            }
            Self::Files(pipeline) => {
                let batch = timed(&mut times.waiting, || pipeline.next_batch())?;
                times.preparing += batch.preparing.as_secs_f64();
                timed(&mut times.copying, || {
                    exec.upload(&batch.input, input);
                    if let (Some(bytes), Some(target)) = (&batch.target, target) {
                        exec.upload(bytes, target);
                    }
                });
            }
        }
        Ok(())
    }
}

/// Runs `work` and adds how long it took, in seconds.
pub(super) fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let value = work();
    *seconds += started.elapsed().as_secs_f64();
    value
}
