//! Batches as the loop takes them: from the pipeline, or synthetic ones. What is on the device is the loop's business.

use std::time::Instant;

use super::data::Synthetic;
use super::outfit::Outfit;
use crate::data::{DataError, Pipeline};
use crate::exec::{Exec, Needed, Room, Uploads};
use crate::model::Plan;
use crate::record::StepTimes;
use crate::tensor::Tensor;

/// Batches, and their way to the device.
pub(super) struct Batches<'a> {
    /// It ends before the memory that its threads write to is given back.
    source: Source<'a>,
    uploads: Uploads,
    /// When the loop began.
    began: Instant,
}

/// Where batches come from. Nothing is opened where nothing computes.
enum Source<'a> {
    None,
    Synthetic(Synthetic<'a>),
    Files(Box<Pipeline<Room>>),
}

/// How a batch came about, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Made {
    /// All workers added up.
    pub(super) preparing: f64,
    /// From when to when, since the loop began.
    pub(super) prepared: Option<(f64, f64)>,
}

impl<'a> Batches<'a> {
    /// For the micro-steps from number `first` on, of a loop that begins at `began`.
    pub(super) fn new(plan: &'a Plan, exec: &'a Exec, outfit: &Outfit<'_>, first: u64, began: Instant) -> Result<Self, DataError> {
        let end = plan.settings.steps.saturating_mul(plan.settings.accumulation_steps);
        let computes = exec.computes();
        let source = match outfit.feed {
            _ if !computes => Source::None,
            None => Source::Synthetic(Synthetic::new(plan, exec)),
            Some(feed) => Source::Files(Box::new(Pipeline::open(feed, first, end)?)),
        };
        let pinned = outfit.feed.is_none_or(|feed| feed.settings.pinned);
        Ok(Self { source, uploads: exec.uploads(computes && pinned, computes && plan.settings.device_prefetch), began })
    }

    /// Memory for a batch that is copied ahead was taken.
    pub(super) fn room_is_taken(&self) {
        self.uploads.room_is_taken();
    }

    /// The batch that was copied ahead is what comes next.
    pub(super) fn arrive(&self) {
        self.uploads.arrive();
    }

    /// Fills `input` and `target` with the batch of micro-step `number`, from 0, which runs that program. Each batch is asked for once,
    /// in order.
    pub(super) fn fill(
        &mut self,
        exec: &Exec,
        (program, number): (usize, u64),
        (input, target): (&Tensor, Option<&Tensor>),
        needed: Needed,
        times: &mut StepTimes,
    ) -> Result<Made, DataError> {
        let uploads = &mut self.uploads;
        match &mut self.source {
            Source::None => Ok(Made::default()),
            Source::Synthetic(synthetic) => {
                let batch = timed(&mut times.waiting, || synthetic.next(program, number));
                timed(&mut times.copying, || {
                    uploads.upload_staged(exec, &batch.input, input, needed);
                    if let (Some(values), Some(target)) = (&batch.target, target) {
                        uploads.upload_staged(exec, values, target, needed);
                    }
                });
                Ok(Made::default())
            }
            Source::Files(pipeline) => {
                let batch = timed(&mut times.waiting, || pipeline.next_batch(|sizes| uploads.room(sizes)))?;
                let began = self.began;
                let since = |moment: Instant| moment.saturating_duration_since(began).as_secs_f64();
                let made = Made { preparing: batch.preparing.as_secs_f64(), prepared: Some((since(batch.when.0), since(batch.when.1))) };
                timed(&mut times.copying, || {
                    let parts = [Some((batch.input, input)), batch.target.zip(target)];
                    uploads.upload(exec, parts.into_iter().flatten().collect(), needed);
                });
                Ok(made)
            }
        }
    }
}

/// Runs `work` and adds how long it took, in seconds.
pub(super) fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let value = work();
    *seconds += started.elapsed().as_secs_f64();
    value
}
