//! An explanation for programs: every figure in bytes, nothing left out.

use serde_json::{Value, json};

use super::text::words;
use crate::gpu::Gpu;
use crate::predict::explain::{Explanation, Item, Moment};

/// One case.
pub(super) fn value(experiment: &str, case: &str, gpu: &Gpu, explanation: &Explanation) -> Value {
    let layers = explanation.layers.iter().map(|l| {
        json!({
            "layer": l.path,
            "parameters": l.parameters,
            "parameter_bytes": l.parameter_bytes,
            "buffer_bytes": l.buffer_bytes,
            "outputs": l.outputs,
            "output_bytes": l.output_bytes,
            "kept": l.kept,
            "scratch_forward": l.scratch_forward,
            "scratch_backward": l.scratch_backward,
        })
    });
    let rules = explanation.rules.iter().map(|r| {
        let error = i64::try_from(r.error()).ok();
        json!({ "rule": words(r.thumb), "formula": r.formula, "bytes": r.bytes, "error": error })
    });
    json!({
        "experiment": experiment,
        "case": case,
        "gpu": gpu.name,
        "layers": layers.collect::<Vec<_>>(),
        "phases": explanation.phases.iter().map(moment).collect::<Vec<_>>(),
        "out_of_memory": explanation.out_of_memory().map(|at| json!({ "step": at.step, "micro_step": at.micro_step, "phase": at.phase.name() })),
        "peak": moment(&explanation.peak),
        "rules_of_thumb": rules.collect::<Vec<_>>(),
    })
}

fn moment(moment: &Moment) -> Value {
    let running = moment.running.as_ref().map(|(layer, operator)| json!({ "layer": layer, "operator": operator }));
    json!({
        "step": moment.at.step,
        "micro_step": moment.at.micro_step,
        "phase": moment.at.phase.name(),
        "allocated": moment.allocated,
        "running": running,
        "items": moment.items.iter().map(item).collect::<Vec<_>>(),
    })
}

fn item(item: &Item) -> Value {
    json!({
        "category": item.category.name(),
        "layer": item.layer,
        "source": item.source,
        "count": item.count,
        "requested": item.requested,
        "element": item.element,
        "bytes": item.bytes,
    })
}
