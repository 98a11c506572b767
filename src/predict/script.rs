//! `[allocations]` files: names are Python variables, and every step gives a row.

use super::listener::Pass;
use super::storage::{Attempt, Id, Storages};
use crate::model::{Script, ScriptStep};
use crate::record::{At, Category, Predicted, Status};

/// Runs a script to its end or to the step in which memory runs out.
pub(super) fn run(script: &Script, mut storages: Storages<'_>) -> Vec<Predicted> {
    let mut live: Vec<(&str, Id)> = Vec::new();
    for (i, step) in (1..).zip(&script.steps) {
        let at = At { step: i, micro_step: 0, phase: step.phase() };
        let outcome = perform(step, &mut live, &mut storages);
        storages.row(at, if outcome.is_ok() { Status::Ok } else { Status::Oom });
        if outcome.is_err() {
            break;
        }
    }
    storages.finish()
}

fn perform<'s>(step: &'s ScriptStep, live: &mut Vec<(&'s str, Id)>, storages: &mut Storages<'_>) -> Attempt {
    storages.begin(Pass::Copy, None, step.phase().name(), Category::Other);
    match step {
        ScriptStep::Alloc { name, meta } | ScriptStep::Add { into: name, meta, .. } => {
            let new = storages.alloc(meta.bytes())?;
            match live.iter_mut().find(|(n, _)| n == name) {
                Some((_, old)) => storages.release(std::mem::replace(old, new)),
                None => live.push((name, new)),
            }
        }
        ScriptStep::Free(name) => {
            let at = live.iter().position(|(n, _)| n == name).expect("a script frees what it has made");
            storages.release(live.swap_remove(at).1);
        }
        ScriptStep::EmptyCache => storages.empty_cache(),
    }
    Ok(())
}
