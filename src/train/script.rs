//! `[allocations]` scripts: names are Python variables over tensors.

use std::collections::BTreeMap;

use super::observer::Observer;
use crate::exec::{Exec, Result};
use crate::measure;
use crate::model::{Script, ScriptStep};
use crate::record::{At, Category, Running};
use crate::tensor::Tensor;

/// Follows a script, a row a step. Where memory runs out, that step's row is the last.
///
/// # Errors
/// Out of memory; its row has been given, unless it was the machine's.
pub fn follow(script: &Script, exec: &Exec, observer: &mut dyn Observer) -> Result<()> {
    let mut variables = BTreeMap::new();
    for (number, step) in (1..).zip(&script.steps) {
        let at = At { step: number, micro_step: 0, phase: step.phase() };
        exec.memory().begin(Running::outside(step.phase().name()));
        match run(step, exec, &mut variables) {
            Ok(()) => observer.row(&measure::row(exec.memory(), at)),
            Err(e) => {
                if !e.machine_is_full {
                    observer.row(&measure::out_of_memory(exec.memory(), at, &e));
                }
                return Err(e);
            }
        }
    }
    observer.end(exec.memory());
    Ok(())
}

fn run<'a>(step: &'a ScriptStep, exec: &Exec, variables: &mut BTreeMap<&'a str, Tensor>) -> Result<()> {
    match step {
        ScriptStep::Alloc { name, meta } => {
            let new = exec.empty_as(meta.clone(), Category::Other)?;
            variables.insert(name, new);
        }
        ScriptStep::Free(name) => {
            variables.remove(name.as_str());
        }
        ScriptStep::Add { left, right, into, .. } => {
            let sum = exec.add(&variables[left.as_str()], &variables[right.as_str()])?;
            sum.set_category(Category::Other);
            variables.insert(into, sum);
        }
        ScriptStep::EmptyCache => exec.memory().empty_cache(),
    }
    Ok(())
}
