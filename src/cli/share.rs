//! What one process does of an experiment: all of its cases or a shard of them, where each stands, and the files they become.
//!
//! Nothing runs here.
//! Invariant: slots are in plan order, and so are the rows of every file, in whatever order cases end.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::experiment::{Case, Experiment, Overrides};
use crate::ops::RuleContext;
use crate::predict::predict;
use crate::record::{DeviceMemory, Predicted};
use crate::report::files::write_whole;
use crate::report::journal::{Finished, Journal, Setting, read_journal, read_results};
use crate::report::number::thousands;
use crate::report::run_file::{self, RunFile};
use crate::report::shard::Shard;
use crate::report::words::count;
use crate::report::{CaseReport, Labels, Table, join, pace, results, training};
use crate::scratch::Answered;
use crate::whole::WriteError;

use super::crew::Outcome;
use super::device::Facts;
use super::inputs::Outputs;
use super::{load, machine};

/// A share of an experiment.
pub(super) struct Share {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) outputs: Outputs,
    pub(super) slots: Vec<Slot>,
    /// Cases of the whole plan.
    pub(super) of: usize,
    /// Whether cases have names of their own.
    is_sweep: bool,
    journal: Option<Journal>,
}

/// A case's place.
pub(super) struct Slot {
    /// Its number in the whole plan, from 1.
    pub(super) number: usize,
    pub(super) labels: Labels,
    pub(super) experiment: toml::Table,
    pub(super) state: State,
}

/// How far a case is. Every case ends, so that boxing what is large of an end would spare nothing.
#[allow(clippy::large_enum_variant)]
pub(super) enum State {
    /// Not yet begun.
    Waiting(Box<Case>),
    /// With a worker.
    Running,
    /// It has ended.
    Ended {
        finished: Finished,
        predicted: Vec<Predicted>,
        /// Where it failed on the way, so that nothing of it counts later: how many rows it was to have.
        failed: Option<usize>,
    },
}

/// What came of a share whose files are written.
pub(super) struct Written {
    /// What is to be printed.
    pub(super) report: String,
    /// Whether all is as foreseen.
    pub(super) fine: bool,
    /// What of results that were there before gave way to those of a failed case.
    pub(super) replaced: Option<String>,
}

/// What the whole run was, for the run file.
pub(super) struct Context<'a> {
    pub(super) facts: &'a Facts,
    pub(super) setting: &'a Setting,
    pub(super) overrides: &'a Overrides,
    pub(super) started: SystemTime,
}

impl Share {
    /// The cases of an experiment that `shard` takes, or all.
    pub(super) fn of(experiment: Experiment, shard: Option<Shard>, out: &Path) -> Self {
        let Experiment { name, description, cases } = experiment;
        let of = cases.len();
        let is_sweep = of > 1 || cases.iter().any(|c| !c.key.is_empty());
        let stem = shard.map_or_else(|| name.clone(), |s| s.stem(&name));
        let mine = cases.into_iter().enumerate().filter(|(place, _)| shard.is_none_or(|s| s.takes(*place)));
        let slots = mine.map(|(place, case)| Slot {
            number: place + 1,
            labels: load::labels(&case),
            experiment: case.resolved.clone(),
            state: State::Waiting(Box::new(case)),
        });
        let slots = slots.collect();
        Self { outputs: Outputs::of(out, &stem), name, description: description.unwrap_or_default(), slots, of, is_sweep, journal: None }
    }

    /// The experiment and a case of it, for people.
    pub(super) fn title(&self, slot: usize) -> String {
        format!("{} {}", self.name, self.slots[slot].labels.case).trim_end().to_string()
    }

    /// Cases that are not yet begun.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Case> {
        self.slots.iter().filter_map(|slot| if let State::Waiting(case) = &slot.state { Some(&**case) } else { None })
    }

    /// Where cases that are not yet begun put their saves.
    pub(super) fn saves(&self) -> impl Iterator<Item = PathBuf> {
        let saves = |slot: &&Slot| matches!(&slot.state, State::Waiting(case) if case.save.is_some());
        self.slots.iter().filter(saves).map(|slot| self.outputs.save(slot.number, self.of))
    }

    /// Cases that are done.
    pub(super) fn done(&self) -> usize {
        self.slots.iter().filter(|s| matches!(s.state, State::Ended { .. })).count()
    }

    /// Whether all are.
    pub(super) fn is_done(&self) -> bool {
        self.done() == self.slots.len()
    }

    /// Takes over what an earlier run left of the same cases under the same setting.
    pub(super) fn take_over(&mut self, setting: &Setting, cx: RuleContext<'_>) {
        let Outputs { results, training, run, journal, .. } = &self.outputs;
        let mut past = read_journal(journal, setting);
        past.extend(read_results(results, training, run, setting));
        for slot in &mut self.slots {
            let State::Waiting(case) = &slot.state else { continue };
            if let Some(finished) = past.iter().find(|p| p.experiment == slot.experiment) {
                let asked = Answered { answers: &finished.scratch, otherwise: cx.scratch };
                let predicted = predict(&case.work, RuleContext { scratch: &asked, ..cx }, case.allocator.clone());
                slot.state = State::Ended { finished: finished.clone(), predicted, failed: None };
            }
        }
    }

    /// Begins the journal, where there is more than one case to lose.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn begin_journal(&mut self, setting: &Setting) -> Result<(), WriteError> {
        if self.slots.len() > 1 && !self.is_done() {
            let done: Vec<Finished> = self.ended().map(|(_, finished, _)| finished.clone()).collect();
            self.journal = Some(Journal::begin(&self.outputs.journal, setting, &done)?);
        }
        Ok(())
    }

    /// A case has ended: it is put in its place, and on the disk.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn take(&mut self, slot: usize, outcome: Outcome) -> Result<(), WriteError> {
        let Outcome { mut predicted, rows, micro_steps, device_memory, scratch, failure, .. } = outcome;
        let foreseen = predicted.len();
        if failure.is_some() {
            // What was not come to is nobody's row.
            predicted.truncate(rows.len());
        }
        let slot = &mut self.slots[slot];
        let finished = Finished { experiment: slot.experiment.clone(), rows, micro_steps, device_memory, scratch };
        if let (Some(journal), None) = (&mut self.journal, &failure) {
            journal.add(&finished).map_err(|source| WriteError::File { path: self.outputs.journal.clone(), source })?;
        }
        slot.state = State::Ended { finished, predicted, failed: failure.map(|_| foreseen) };
        Ok(())
    }

    fn ended(&self) -> impl Iterator<Item = (&Slot, &Finished, &[Predicted])> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Ended { finished, predicted, failed: None } => Some((slot, finished, &**predicted)),
            _ => None,
        })
    }

    fn reports(&self) -> Vec<CaseReport> {
        let report = |slot: &Slot| match &slot.state {
            State::Ended { finished, predicted, .. } => {
                Some(CaseReport { labels: slot.labels.clone(), rows: join(&finished.rows, predicted), left_out: 0 })
            }
            _ => None,
        };
        self.slots.iter().filter_map(report).collect()
    }

    /// What is lost with the results that are there, where a case has failed: its rows stop short, and take the place of what stood there.
    fn replaces(&self) -> Option<String> {
        let failed = |slot: &Slot| match &slot.state {
            State::Ended { finished, failed: Some(foreseen), .. } => Some((finished.rows.len(), *foreseen)),
            _ => None,
        };
        let short: Vec<(usize, usize)> = self.slots.iter().filter_map(failed).collect();
        if short.is_empty() || !self.outputs.results.exists() {
            return None;
        }
        let (rows, of) = short.iter().fold((0, 0), |(rows, of), (r, f)| (rows + r, of + (*f).max(*r)));
        let (cases, path) = (count(short.len(), "failed case"), self.outputs.results.display());
        let rows = thousands(rows as u128);
        Some(format!("{path} replaced the file that was there; of {cases} it holds {rows} of {}", count(of, "row")))
    }

    /// What an interrupted run has done, as a results file of its own.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write_partial(&self) -> Result<(), WriteError> {
        write_whole(&self.outputs.partial, &results::to_csv(&self.reports()))
    }

    /// Writes the files of a share that is done, and takes away what stood in for them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn finish(&mut self, context: &Context<'_>) -> Result<Written, WriteError> {
        let reports = self.reports();
        let ended: Vec<(&Slot, &Finished)> = self
            .slots
            .iter()
            .filter_map(|slot| if let State::Ended { finished, .. } = &slot.state { Some((slot, finished)) } else { None })
            .collect();
        let run_file = RunFile {
            name: self.name.clone(),
            setting: context.setting.clone(),
            set: context.overrides.set.clone(),
            unset: context.overrides.unset.clone(),
            started: run_file::utc(context.started),
            ended: run_file::utc(SystemTime::now()),
            machine: machine::machine(),
            scratch: ended.iter().flat_map(|(_, f)| f.scratch.clone()).collect(),
            case: ended
                .iter()
                .map(|(slot, f)| run_file::Case {
                    key: slot.labels.case.clone(),
                    device_memory: f.device_memory,
                    failed: matches!(slot.state, State::Ended { failed: Some(_), .. }),
                    experiment: slot.experiment.clone(),
                })
                .collect(),
        };
        let timed = ended.iter().any(|(slot, _)| training::is_timed(&slot.experiment));
        let last = ended.last().filter(|_| timed && context.facts.device != "virtual");
        let pace = last.and_then(|(slot, f)| pace::sentence(&f.micro_steps, &slot.experiment, context.facts.device)).unwrap_or_default();
        let steps = ended.iter().map(|(slot, f)| (&*slot.labels.case, &*f.micro_steps));
        let replaced = self.replaces();
        write_whole(&self.outputs.results, &results::to_csv(&reports))?;
        write_whole(&self.outputs.training, &training::to_csv(self.is_sweep, timed, steps))?;
        write_whole(&self.outputs.run, run_file.to_toml().as_bytes())?;
        self.journal = None;
        // Only a run that was interrupted leaves them.
        for left in [&self.outputs.journal, &self.outputs.partial] {
            let _ = std::fs::remove_file(left);
        }
        let table = Table {
            name: &self.name,
            description: &self.description,
            place: &context.facts.place,
            measured: true,
            cases: &reports,
            verdicts: &[],
        };
        let fine = table.summary().1 && self.slots.iter().all(|s| !matches!(s.state, State::Ended { failed: Some(_), .. }));
        let held: Option<DeviceMemory> = ended.iter().rev().find_map(|(_, f)| f.device_memory);
        let device = held.map(|held| load::in_words(&held)).unwrap_or_default();
        let skipped = skipped(&ended, &reports);
        let lost = lines(ended.iter().filter_map(|(slot, f)| Some((*slot, training::not_finite(&f.micro_steps)?))));
        let report = format!("{}{skipped}{lost}{device}{pace}-> {}\n\n", table.render(), self.outputs.results.display());
        Ok(Written { report, fine, replaced })
    }
}

/// Cases of which one thing is said.
const MOST_TOLD: usize = 5;

/// Which steps were skipped in cases whose rows are not as predicted, a line each.
fn skipped(ended: &[(&Slot, &Finished)], reports: &[CaseReport]) -> String {
    let off = ended.iter().zip(reports).filter(|(_, report)| report.rows.iter().any(|row| !row.exact()));
    lines(off.filter_map(|((slot, finished), _)| Some((*slot, training::skipped(&finished.micro_steps)?))))
}

/// What is said of cases, a line each.
fn lines<'a>(told: impl Iterator<Item = (&'a Slot, String)>) -> String {
    let line = |(slot, what): (&Slot, String)| match &*slot.labels.case {
        "" => format!("{what}\n"),
        case => format!("{case}: {what}\n"),
    };
    let lines: Vec<String> = told.map(line).collect();
    let more = lines.len().saturating_sub(MOST_TOLD);
    let rest = if more == 0 { String::new() } else { format!("… and in {} more\n", count(more, "case")) };
    lines.into_iter().take(MOST_TOLD).chain([rest]).collect()
}
