//! The script's variables for a batch, and the next batch where that is copied to the device ahead.

use super::batches::{Batches, Made};
use super::outfit::Stop;
use super::reference_loop::COPY;
use crate::exec::{Exec, Needed, Result};
use crate::model::{Plan, Program, ValueId};
use crate::record::{Category, Running, StepTimes};
use crate::tensor::Tensor;

/// Batches on the device.
pub(super) struct Inputs<'a> {
    plan: &'a Plan,
    exec: &'a Exec,
    batches: Batches<'a>,
    pub(super) input: Option<Tensor>,
    pub(super) target: Option<Tensor>,
    /// The next batch, where it is copied ahead.
    ahead: Option<Ahead>,
}

/// A batch that is copied while the one before is computed.
struct Ahead {
    input: Tensor,
    target: Option<Tensor>,
    /// How it came about, once it is on its way.
    made: Made,
}

impl<'a> Inputs<'a> {
    /// None yet.
    pub(super) const fn new(plan: &'a Plan, exec: &'a Exec, batches: Batches<'a>) -> Self {
        Self { plan, exec, batches, input: None, target: None, ahead: None }
    }

    /// `input, target = …` for micro-step `number`, from 0: copies of its batch, or what was copied ahead; then room for the next batch,
    /// where that is copied ahead.
    pub(super) fn next(&mut self, number: u64, times: &mut StepTimes) -> std::result::Result<(), Stop> {
        self.exec.memory().begin(Running::outside(COPY));
        if let Some(Ahead { input, target, made }) = self.ahead.take() {
            self.input = Some(input);
            if target.is_some() {
                self.target = target;
            }
            (times.preparing, times.prepared) = (made.preparing, made.prepared);
            self.batches.arrive();
        } else {
            let program = self.program(number);
            let input = self.room(program, program.input)?;
            self.input = Some(input.clone());
            let target = program.target.map(|id| self.room(program, id)).transpose()?;
            let made = self.batches.fill(self.exec, (self.index(number), number), (&input, target.as_ref()), Needed::Now, times)?;
            (times.preparing, times.prepared) = (made.preparing, made.prepared);
            if target.is_some() {
                self.target = target;
            }
        }
        self.take_room_ahead(number + 1)?;
        Ok(())
    }

    /// Room for micro-step `number`, where there is one and its batch is copied ahead.
    fn take_room_ahead(&mut self, number: u64) -> Result<()> {
        let settings = &self.plan.settings;
        if settings.device_prefetch && number < settings.steps * settings.accumulation_steps {
            let program = self.program(number);
            let input = self.room(program, program.input)?;
            let target = program.target.map(|id| self.room(program, id)).transpose()?;
            self.batches.room_is_taken();
            self.ahead = Some(Ahead { input, target, made: Made::default() });
        }
        Ok(())
    }

    /// The batch of micro-step `number` comes to the device beside what the one before still computes, where room was taken for it.
    pub(super) fn copy_ahead(&mut self, number: u64, times: &mut StepTimes) -> std::result::Result<(), Stop> {
        let index = self.index(number);
        let Some(Ahead { input, target, made }) = &mut self.ahead else { return Ok(()) };
        *made = self.batches.fill(self.exec, (index, number), (input, target.as_ref()), Needed::Later, times)?;
        Ok(())
    }

    /// The program of micro-step `number`, from 0.
    fn program(&self, number: u64) -> &'a Program {
        &self.plan.programs[self.index(number)]
    }

    /// Its index.
    fn index(&self, number: u64) -> usize {
        self.plan.program_index(number / self.plan.settings.accumulation_steps + 1)
    }

    /// A new tensor for a part of the batch.
    fn room(&self, program: &Program, id: ValueId) -> Result<Tensor> {
        self.exec.empty_as(program.meta(id).clone(), Category::Inputs)
    }
}
