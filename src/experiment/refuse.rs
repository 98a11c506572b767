//! What PyTorch refuses, found before anything runs. Each is a rule about settings or about the plan, with PyTorch's own words.

use std::collections::BTreeSet;

use super::diagnostic::Diagnostic;
use super::document::Entry;
use super::read::Reader;
use super::resolve::place;
use crate::meta::{DType, TensorMeta};
use crate::model::layer::Origin;
use crate::model::plan::{Body, LayerId, Program, Step};
use crate::model::versions::{Kept, Modified, modified};
use crate::model::{Loop, Loss, Lowered, Misfit, Plan, StateKind};
use crate::ops::OpRule;
use crate::optim::{Implementation, Optimizer};

/// Settings that PyTorch does not take together. Nothing is refused where nothing is trained.
pub(super) fn settings(settings: &Loop, entry: &Entry, reader: &mut Reader) {
    if !settings.trains() {
        return;
    }
    if settings.amp == Some(DType::F16) && settings.dtype == DType::BF16 {
        let message =
            "`amp = \"f16\"` scales gradients, and the scaler cannot unscale gradients of type bf16, which `dtype = \"bf16\"` makes them";
        let refused = Diagnostic::new(place(entry, "amp"), message);
        let words = "PyTorch: `\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'`";
        reader.mistake(refused.hint(words).hint("with `dtype = \"f32\"` parameters stay f32 and autocast computes in f16"));
    }
    let fused = |implementation| implementation == Implementation::Fused;
    // A fused optimizer unscales f16 gradients itself.
    let unscales = match settings.optimizer {
        Some(Optimizer::Sgd(sgd)) => fused(sgd.implementation),
        Some(Optimizer::Adam(adam)) => fused(adam.implementation),
        _ => false,
    };
    if settings.amp == Some(DType::F16) && settings.dtype == DType::F16 && !unscales {
        let message = "`amp = \"f16\"` scales gradients, and the scaler refuses gradients of type f16, which `dtype = \"f16\"` makes them";
        let refused = Diagnostic::new(place(entry, "amp"), message).hint("PyTorch: `Attempting to unscale FP16 gradients.`");
        reader.mistake(refused.hint("with `dtype = \"f32\"` parameters stay f32 and autocast computes in f16"));
    }
    let optimizer = |field: &str| {
        entry.value.get("optimizer").and_then(|o| o.table()?.first()?.value.get(field)).map_or(place(entry, "optimizer"), |n| n.span)
    };
    match settings.optimizer {
        Some(Optimizer::Sgd(sgd)) if sgd.nesterov && sgd.momentum == 0.0 => {
            let message = "`nesterov = true` needs a `momentum` above 0";
            reader.mistake(
                Diagnostic::new(optimizer("nesterov"), message).hint("PyTorch: `Nesterov momentum requires a momentum and zero dampening`"),
            );
        }
        Some(Optimizer::Adagrad(adagrad)) if fused(adagrad.implementation) => {
            let message = "adagrad has no `fused` implementation on CUDA";
            reader.mistake(Diagnostic::new(optimizer("implementation"), message).hint("there are \"foreach\" and \"for_loop\""));
        }
        Some(Optimizer::RmsProp(rmsprop)) if fused(rmsprop.implementation) => {
            let message = "rmsprop has no `fused` implementation";
            reader.mistake(Diagnostic::new(optimizer("implementation"), message).hint("there are \"foreach\" and \"for_loop\""));
        }
        _ => {}
    }
}

/// Layers whose parameters are as large as the input is long: they cannot take `lengths`.
pub(super) fn misfits(lowered: &Lowered, reader: &mut Reader) {
    let mut seen = BTreeSet::new();
    for misfit in &lowered.misfits {
        let origin = lowered.origins[misfit.layer.0 as usize];
        if origin == Origin::NONE || !seen.insert(origin) {
            continue;
        }
        let Misfit { layer, name, built, sample, needed } = misfit;
        let path = &lowered.plan.layers[layer.0 as usize].path;
        let message = format!(
            "layer {path} cannot take every length: `{name}` is built in shape {built}, and at a length of {} needs {needed}",
            sample[0]
        );
        let refused = Diagnostic::new(reader.places[origin.0 as usize].name, message);
        reader.mistake(refused.hint("with `lengths`, no layer's size may follow the length; `last` passes on one position of any"));
    }
}

/// What only the plan shows: types that operators do not take together, an output that the loss cannot view, nothing to train, and tensors
/// that autograd keeps and another operator writes into.
pub(super) fn plan(plan: &Plan, loss: Loss, origins: &[Origin], train: &Entry, reader: &mut Reader) {
    let known = |layer: LayerId| origins.get(layer.index()).copied().filter(|o| *o != Origin::NONE);
    if plan.settings.amp.is_some() {
        let mut seen = BTreeSet::new();
        let mut refused = |op: &dyn OpRule, inputs: &[TensorMeta], words: String, layer: LayerId| {
            let Some(origin) = known(layer).filter(|o| seen.insert(*o)) else { return };
            let (name, path) = (op.name(), &plan.layers[layer.index()].path);
            let (of, parameters) = (inputs[0].dtype, plan.settings.dtype);
            let message = format!(
                "autocast gives {name} (layer {path}) an input of type {of}, which it does not take with parameters of type {parameters}"
            );
            let hint = format!("PyTorch: `{words}`");
            let refused = Diagnostic::new(reader.places[origin.0 as usize].name, message).hint(hint);
            reader.mistake(refused.hint("with `dtype = \"f32\"` parameters stay f32, which it takes with any input"));
        };
        for program in &plan.programs {
            types(&program.forward, &program.values, &mut refused);
        }
    }
    let output = |p: &Program| p.meta(p.forward.result).clone();
    if plan.programs.iter().any(|p| p.criterion.is_some() && !loss.can_view(&output(p))) {
        let message = "cross_entropy views the model's output as rows of classes, but the last layer leaves it with the length outermost";
        let words = "PyTorch: `view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
                     contiguous subspaces). Use .reshape(...) instead.`";
        let refused = Diagnostic::new(place(train, "loss"), message).hint(words);
        reader.mistake(refused.hint("end the model in a layer that writes its output anew, such as `linear`"));
    }
    if !plan.settings.trains() {
        return;
    }
    if !plan.state.iter().any(|s| s.kind == StateKind::Parameter) {
        let message = "the model has no parameters, so that there is nothing to train";
        let refused = Diagnostic::new(place(train, "optimizer"), message).hint("PyTorch: `optimizer got an empty parameter list`");
        reader.mistake(refused.hint("`no_grad = true` or `mode = \"eval\"` runs it without training"));
    }
    let mut seen = BTreeSet::new();
    for found in modified(plan) {
        let (writer, keeper) = (known(found.writer), known(found.keeper));
        if let (Some(writer), true) = (writer, seen.insert((writer, keeper, found.kept))) {
            let span = reader.places[writer.0 as usize].field(Some("inplace"));
            reader.mistake(overwritten(plan, &found, span));
        }
    }
}

/// Tells of every operator in a body that does not take its inputs' types together.
fn types(body: &Body, values: &[TensorMeta], refused: &mut impl FnMut(&dyn OpRule, &[TensorMeta], String, LayerId)) {
    for step in &body.steps {
        match step {
            Step::Run { op, inputs, layer, .. } => {
                let inputs: Vec<TensorMeta> = inputs.iter().map(|v| values[v.index()].clone()).collect();
                if let Some(words) = op.rule().refuses(&inputs) {
                    refused(op.rule(), &inputs, words, *layer);
                }
            }
            Step::Drop(_) => {}
            Step::Checkpoint { body, .. } => types(body, values, refused),
        }
    }
}

fn overwritten(plan: &Plan, found: &Modified, span: super::Span) -> Diagnostic {
    let path = |layer: LayerId| &plan.layers[layer.index()].path;
    let (writer, keeper) = (path(found.writer), path(found.keeper));
    let what = match found.kept {
        Kept::Output(op) => format!("the output that `{op}` (layer {keeper}) keeps for backward"),
        Kept::Input(op) => format!("the input that `{op}` (layer {keeper}) keeps for backward"),
        Kept::Argument => "the input of a checkpointed region, which backward needs to recompute it".to_owned(),
    };
    Diagnostic::new(span, format!("in place, layer {writer} overwrites {what}"))
        .hint("PyTorch: `one of the variables needed for gradient computation has been modified by an inplace operation`")
        .hint("leave `inplace` out here")
}
