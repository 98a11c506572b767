//! `[allocations]` files: names are Python variables, and every step gives a row.

use std::collections::BTreeMap;

use super::foreseen::Foreseen;
use super::listener::Pass;
use super::storage::{Attempt, Id, Storages};
use crate::model::{Script, ScriptStep};
use crate::record::{At, Category, Status};

/// Runs a script to its end or to the step in which memory runs out.
pub(super) fn run(script: &Script, mut storages: Storages<'_>) -> Foreseen {
    let mut live: BTreeMap<&str, Id> = BTreeMap::new();
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

fn perform<'s>(step: &'s ScriptStep, live: &mut BTreeMap<&'s str, Id>, storages: &mut Storages<'_>) -> Attempt {
    storages.begin_as(Pass::Copy, None, step.phase().name(), Category::Other);
    match step {
        ScriptStep::Alloc { name, meta } | ScriptStep::Add { into: name, meta, .. } => {
            let new = storages.alloc(meta.bytes())?;
            if let Some(old) = live.insert(name, new) {
                storages.release(old);
            }
        }
        ScriptStep::Free(name) => {
            let storage = live.remove(name.as_str()).expect("a script frees what it has made");
            storages.release(storage);
        }
        ScriptStep::EmptyCache => storages.empty_cache(),
    }
    Ok(())
}
