//! Switches: other ways to train the same model that take less memory, each as settings of the language. Whether one is possible is for
//! the language to say, and what it gains for the predictor.

use toml::{Table, Value};

use super::trial::Trial;
use crate::experiment::Case;
use crate::model::field::{Field, Kind};
use crate::model::{Body, Step, Work, layer};
use crate::ops::Operator;

/// Notes of switches that compute something a little different.
pub(super) const LOWER_PRECISION: &str = "lower precision";
/// Losses are averaged over as many samples.
pub(super) const SAME_BATCH: &str = "the same effective batch";
/// The same, where statistics are taken of each micro-step.
pub(super) const SAME_BATCH_BUT_NORM: &str = "the same effective batch, but batch_norm sees smaller batches";

/// A way to train.
#[derive(Debug, Clone)]
pub(super) struct Switch<'s> {
    pub(super) name: String,
    /// What else changes with it; empty where the same is computed.
    pub(super) note: &'static str,
    pub(super) trial: Trial<'s>,
}

/// Every switch to be tried on `base`, whose settings spelled out are `resolved`. Those that it has already are left out.
pub(super) fn switches<'s>(base: &Trial<'s>, resolved: &Table) -> Vec<Switch<'s>> {
    let train = resolved.get("train").and_then(Value::as_table).cloned().unwrap_or_default();
    let has = |key: &str, value: &str| train.get(key).and_then(Value::as_str) == Some(value);
    let is_training = train.get("no_grad") != Some(&Value::Boolean(true)) && !has("mode", "eval");
    let mut list = Vec::new();
    let mut without = |name: String, note: &'static str, unset: &[&str], settings: Vec<String>| {
        let mut trial = base.clone();
        trial.overrides.set.extend(settings);
        trial.overrides.unset.extend(unset.iter().map(|key| (*key).to_string()));
        list.push(Switch { name, note, trial });
    };
    let mut add = |name: String, note: &'static str, settings: Vec<String>| without(name, note, &[], settings);
    let set = |settings: &[&str]| settings.iter().map(|s| (*s).to_string()).collect::<Vec<_>>();
    // Autocast is for what is kept in f32: of another type it casts nothing that would get smaller.
    for amp in ["f16", "bf16"].into_iter().filter(|amp| has("dtype", "f32") && !has("amp", amp)) {
        add(format!("amp = {amp:?}"), LOWER_PRECISION, set(&[&format!("train.amp={amp}")]));
    }
    if !has("dtype", "bf16") {
        let amp = train.contains_key("amp");
        let (name, unset) = if amp { ("dtype = \"bf16\", no amp", &["train.amp"][..]) } else { ("dtype = \"bf16\"", &[][..]) };
        without(name.to_string(), LOWER_PRECISION, unset, set(&["train.dtype=bf16"]));
    }
    let mut add = |name: String, note: &'static str, settings: Vec<String>| without(name, note, &[], settings);
    if is_training {
        if train.get("checkpointing") != Some(&Value::Boolean(true)) {
            add("checkpointing = true".to_string(), "", set(&["train.checkpointing=true"]));
        }
        if let Some(segments) = segments(base) {
            let value = format!("{{ segments = {segments} }}");
            add(format!("checkpointing = {value}"), "", set(&[&format!("train.checkpointing={value}")]));
        }
        let integer = |key: &str| train.get(key).and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok()).unwrap_or(1);
        let (batch, accumulation) = (integer("batch_size"), integer("accumulation_steps"));
        let note = if has_batch_norm(base) { SAME_BATCH_BUT_NORM } else { SAME_BATCH };
        for parts in parts(batch) {
            let steps = accumulation.saturating_mul(parts);
            let settings = set(&[&format!("train.batch_size={}", batch / parts), &format!("train.accumulation_steps={steps}")]);
            add(format!("batch_size = {}, accumulation_steps = {steps}", batch / parts), note, settings);
        }
        optimizers(&train, &mut add);
    }
    if let Some(Switch { name, trial, .. }) = in_place(base, resolved) {
        list.push(Switch { name, note: "", trial });
    }
    let allocator = resolved.get("allocator").and_then(Value::as_table);
    if allocator.and_then(|a| a.get("expandable_segments")) != Some(&Value::Boolean(true)) {
        let mut trial = base.clone();
        trial.overrides.set.push("allocator.expandable_segments=true".to_string());
        list.push(Switch { name: "expandable_segments = true".to_string(), note: "", trial });
    }
    list
}

/// Whether a batch_norm is among the operators of forward.
fn has_batch_norm(base: &Trial<'_>) -> bool {
    let Ok(Case { work: Work::Train(plan), .. }) = base.read().case(&[]) else { return false };
    let mut bodies: Vec<&Body> = plan.programs.iter().map(|program| &program.forward).collect();
    while let Some(body) = bodies.pop() {
        for step in &body.steps {
            match step {
                Step::Run { op: Operator::BatchNorm(_), .. } => return true,
                Step::Checkpoint { body, .. } => bodies.push(body),
                Step::Run { .. } | Step::Drop(_) => {}
            }
        }
    }
    false
}

/// The numbers of segments to try: the one with the lowest peak among powers of two.
fn segments(base: &Trial<'_>) -> Option<u64> {
    let asked = base.read();
    let peak = |n: u64| asked.needs(&[format!("train.checkpointing={{ segments = {n} }}")]).ok().map(|(peak, _)| peak);
    let tried = (1..32).map(|power| 1u64 << power).map_while(|n| Some((peak(n)?, n)));
    tried.min().map(|(_, n)| n)
}

/// Into how many micro-steps a batch is cut: as few and as many as divide it, within reason: the predictor goes through each.
fn parts(batch: u64) -> Vec<u64> {
    const MOST: u64 = 1024;
    let mut divisors = (2..=MOST.min(batch)).filter(|&parts| batch.is_multiple_of(parts));
    let fewest = divisors.next();
    fewest.into_iter().chain(divisors.next_back()).collect()
}

/// Other implementations of the same optimizer, and optimizers that keep less.
fn optimizers(train: &Table, add: &mut impl FnMut(String, &'static str, Vec<String>)) {
    let Some(now) = train.get("optimizer") else { return };
    let (name, fields) = match now {
        Value::String(name) => (name.clone(), Table::new()),
        Value::Table(table) => match table.iter().next() {
            Some((name, Value::Table(fields))) => (name.clone(), fields.clone()),
            _ => return,
        },
        _ => return,
    };
    let implementation = fields.get("implementation").and_then(Value::as_str).unwrap_or("foreach");
    for other in ["foreach", "for_loop", "fused"].into_iter().filter(|o| *o != implementation) {
        add(format!("{name}: implementation = {other:?}"), "", vec![format!("train.optimizer.{name}.implementation={other}")]);
    }
    let has_momentum = fields.get("momentum").and_then(Value::as_float).is_some_and(|m| m != 0.0);
    if has_momentum {
        let settings = vec![format!("train.optimizer.{name}.momentum=0.0"), format!("train.optimizer.{name}.nesterov=false")];
        let settings = settings.into_iter().take(if fields.contains_key("nesterov") { 2 } else { 1 }).collect();
        add(format!("{name}: momentum = 0"), "another optimizer", settings);
    }
    for other in ["sgd", "rmsprop"].into_iter().filter(|o| *o != name) {
        if name == "sgd" {
            break; // nothing keeps less
        }
        add(format!("optimizer = {other:?}"), "another optimizer", vec![format!("train.optimizer={other:?}")]);
    }
}

/// The most ways to work in place that are tried: of a deep network each takes as long as to read it.
const MOST_TRIED: usize = 256;

/// Works in place wherever a layer can and PyTorch allows it; `None` where that is nowhere, or everywhere already.
fn in_place<'s>(base: &Trial<'s>, resolved: &Table) -> Option<Switch<'s>> {
    let trial = |on: &[usize]| {
        let mut table = resolved.clone();
        let mut number = 0;
        visit(&mut table, &mut |_, fields| {
            if on.binary_search(&number).is_ok() {
                fields.insert("inplace".to_string(), Value::Boolean(true));
            }
            number += 1;
        });
        Some(Trial { text: toml::to_string(&table).ok()?, ..base.clone() })
    };
    let mut kinds: Vec<&str> = Vec::new();
    visit(&mut resolved.clone(), &mut |name, _| kinds.push(name));
    let mut left = MOST_TRIED;
    let mut takes = |on: &[usize]| {
        let asked = left > 0;
        left = left.saturating_sub(1);
        asked && trial(on).is_some_and(|trial| trial.read().case(&[]).is_ok())
    };
    let on = taken(&mut takes, Vec::new(), &(0..kinds.len()).collect::<Vec<_>>());
    let mut names: Vec<&str> = Vec::new();
    for &n in &on {
        if !names.contains(&kinds[n]) {
            names.push(kinds[n]);
        }
    }
    let trial = if on.is_empty() { None } else { trial(&on) }?;
    Some(Switch { name: format!("inplace = true: {}", names.join(", ")), note: "", trial })
}

/// `on` and, in order, every one of `more` that the language takes with what is on before it: all at once where it takes them, else one half
/// after the other.
fn taken(takes: &mut dyn FnMut(&[usize]) -> bool, on: Vec<usize>, more: &[usize]) -> Vec<usize> {
    let both = [&on[..], more].concat();
    if more.is_empty() || takes(&both) {
        return both;
    }
    let (first, second) = more.split_at(more.len() / 2);
    if first.is_empty() {
        return on;
    }
    let on = taken(takes, on, first);
    taken(takes, on, second)
}

/// Calls `found` with the name and the fields of every layer that could work in place and does not, in the order of the file.
fn visit(table: &mut Table, found: &mut dyn FnMut(&'static str, &mut Table)) {
    let Some(model) = table.get_mut("model").and_then(Value::as_table_mut) else { return };
    for (key, value) in model.iter_mut() {
        match (key.as_str(), value) {
            ("layers", list) => visit_layers(list, found),
            ("blocks", Value::Table(blocks)) => blocks.iter_mut().for_each(|(_, list)| visit_layers(list, found)),
            _ => {}
        }
    }
}

fn visit_layers(list: &mut Value, found: &mut dyn FnMut(&'static str, &mut Table)) {
    for item in list.as_array_mut().into_iter().flatten() {
        let Some((name, fields)) = item.as_table_mut().and_then(|t| t.iter_mut().next()) else { continue };
        let (Some(kind), Some(fields)) = (layer::kind(name), fields.as_table_mut()) else { continue };
        if kind.fields.iter().any(|f| f.name == "inplace") && fields.get("inplace") == Some(&Value::Boolean(false)) {
            found(kind.name, fields);
        }
        for field in kind.fields.iter().filter(|f| holds_layers(f)) {
            if let Some(inner) = fields.get_mut(field.name) {
                visit_layers(inner, found);
            }
        }
    }
}

fn holds_layers(field: &Field) -> bool {
    matches!(field.kind, Kind::Layers)
}
