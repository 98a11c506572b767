//! `[model]` with `[train]`: shapes followed through all layers, settings that exclude each other, what has no operators yet, and
//! then the plan. What PyTorch refuses is in [`refuse`](super::refuse).

use std::collections::BTreeSet;

use super::diagnostic::Diagnostic;
use super::document::Entry;
use super::read::Reader;
use super::refuse;
use super::resolve::place;
use crate::meta::DType;
use crate::model::field::{Value, Values};
use crate::model::layer::{Check, Sequence, Signal};
use crate::model::{Checkpointing, KeepLoss, Loop, Loss, Network, Plan};
use crate::optim::{Adagrad, Adam, Implementation, Optimizer, RmsProp, Sgd};

/// The most layers a model may have when every repetition is unrolled: what still lowers within seconds and a few hundred megabytes.
const MOST_LAYERS: u64 = 250_000;
/// The most that the layers of all lengths of an experiment may come to.
const MOST_LAYERS_OF_LENGTHS: u64 = 1_000_000;
/// The most micro-steps a case may have: several rows are kept in memory for each.
const MOST_MICRO_STEPS: u64 = 10_000_000;

/// Checks everything and lowers; `None` where there are mistakes.
pub(super) fn resolve(model: &Values, model_entry: &Entry, train: &Values, train_entry: &Entry, reader: &mut Reader) -> Option<Plan> {
    let settings = settings(train, train_entry, reader);
    let trains = settings.trains();
    refuse::settings(&settings, train_entry, reader);
    let absent = train_entry.value.get("optimizer").is_none() && !reader.misspelt.contains(&"optimizer");
    if trains && absent && !reader.tolerate_missing {
        let missing = Diagnostic::new(train_entry.key_span, "[train] needs `optimizer`");
        reader.mistake(missing.hint("it may be absent only with `no_grad = true` or `mode = \"eval\"`, where nothing is trained"));
    }
    let loss = Loss::named(train.text("loss"))?;
    let input = input(model);
    let lengths = lengths(train, train_entry, input.as_ref(), reader);
    let layers = model.has("layers").then(|| model.layers("layers"))?;
    if layers.count() > MOST_LAYERS {
        let span = place(model_entry, "layers");
        let message =
            format!("the model has {} layers when everything is unrolled; at most {MOST_LAYERS} are possible", many(layers.count()));
        reader.mistake(Diagnostic::new(span, message));
        return None;
    }
    let distinct = lengths.iter().flatten().collect::<BTreeSet<_>>().len() as u64;
    if layers.count().saturating_mul(distinct) > MOST_LAYERS_OF_LENGTHS {
        let count = layers.count();
        let message =
            format!("{distinct} different lengths of a model of {count} layers; together at most {MOST_LAYERS_OF_LENGTHS} are possible");
        reader.mistake(Diagnostic::new(place(train_entry, "lengths"), message));
        return None;
    }
    segments(&layers, &settings, train_entry, reader);
    let (sample, vocabulary) = input?;
    let batch = train.optional_integer("batch_size");
    let signal = Signal { batch, sample, vocabulary };
    shapes(&layers, &signal, lengths.as_deref(), (&settings, loss), (model_entry, train_entry), reader);
    let samples = match &lengths {
        Some(lengths) => lengths.iter().map(|&n| std::iter::once(n).chain(signal.sample[1..].iter().copied()).collect()).collect(),
        None => vec![signal.sample.clone()],
    };
    let steps = lengths.map_or(settings.steps, |l| l.len() as u64);
    let settings = Loop { batch_size: batch?, steps, ..settings };
    if !reader.mistakes.is_empty() || reader.tolerate_missing {
        return None;
    }
    let network = Network { layers, sample: signal.sample, samples, vocabulary, loss, settings };
    let lowered = network.lower();
    refuse::misfits(&lowered, reader);
    refuse::plan(&lowered.plan, loss, &lowered.origins, train_entry, reader);
    reader.mistakes.is_empty().then_some(lowered.plan)
}

fn settings(train: &Values, entry: &Entry, reader: &mut Reader) -> Loop {
    let no_grad = train.bool("no_grad");
    let eval = train.text("mode") == "eval";
    let optimizer = if let (false, false, Some(Value::Tagged(name, body))) = (no_grad, eval, train.get("optimizer")) {
        body.as_table().map(|fields| optimizer(name, fields))
    } else {
        None
    };
    let checkpointing = match train.get("checkpointing") {
        Some(Value::Table(table)) => Checkpointing::Segments(table.integer("segments")),
        Some(Value::Bool(true)) => Checkpointing::EveryLayer,
        _ => Checkpointing::Off,
    };
    let keep_loss = match train.optional_text("keep_loss") {
        None => KeepLoss::None,
        Some("item") => KeepLoss::Item,
        Some("list") => KeepLoss::List,
        Some(_) => KeepLoss::Total,
    };
    let (steps, accumulation) = (train.integer("steps"), train.integer("accumulation_steps"));
    if steps.saturating_mul(accumulation) > MOST_MICRO_STEPS {
        let key = if accumulation > steps { "accumulation_steps" } else { "steps" };
        let message = format!(
            "`steps` × `accumulation_steps` is {}; at most {MOST_MICRO_STEPS} are possible",
            many(steps.saturating_mul(accumulation))
        );
        reader.mistake(Diagnostic::new(place(entry, key), message).hint("memory repeats from the third step on"));
    }
    let reference_init = train.text("init") == "reference";
    if no_grad {
        for (key, given) in [("keep_loss", keep_loss != KeepLoss::None), ("init", reference_init)] {
            if given {
                let message = format!("`{key}` is about losses, and `no_grad = true` computes none");
                reader.mistake(Diagnostic::new(place(entry, key), message));
            }
        }
    }
    Loop {
        batch_size: train.optional_integer("batch_size").unwrap_or(1),
        dtype: dtype(train.text("dtype")),
        amp: train.optional_text("amp").map(dtype),
        steps,
        accumulation_steps: accumulation,
        checkpointing,
        no_grad,
        eval,
        keep_loss,
        empty_cache: train.bool("empty_cache"),
        optimizer,
        reference_init,
        seed: train.integer("seed"),
        capability: reader.capability,
        device_prefetch: false,
        done: 0,
    }
}

/// The floating type of that name.
pub(super) fn dtype(name: &str) -> DType {
    [DType::F64, DType::F16, DType::BF16].into_iter().find(|d| d.name() == name).unwrap_or(DType::F32)
}

fn optimizer(name: &str, fields: &Values) -> Optimizer {
    let lr = fields.number("lr");
    let implementation = match fields.text("implementation") {
        "for_loop" => Implementation::ForLoop,
        "fused" => Implementation::Fused,
        _ => Implementation::Foreach,
    };
    match name {
        "sgd" => Optimizer::Sgd(Sgd {
            lr,
            momentum: fields.number("momentum"),
            nesterov: fields.bool("nesterov"),
            weight_decay: fields.number("weight_decay"),
            implementation,
        }),
        "adagrad" => Optimizer::Adagrad(Adagrad { lr, implementation }),
        "rmsprop" => {
            Optimizer::RmsProp(RmsProp { lr, momentum: fields.number("momentum"), centered: fields.bool("centered"), implementation })
        }
        _ => Optimizer::Adam(Adam {
            decoupled: name == "adamw",
            lr,
            weight_decay: fields.number("weight_decay"),
            amsgrad: fields.bool("amsgrad"),
            implementation,
        }),
    }
}

/// Shape of a sample, and the vocabulary where it is tokens.
fn input(model: &Values) -> Option<(Vec<u64>, Option<u64>)> {
    let Some(Value::Tagged(name, body)) = model.get("input") else { return None };
    match (*name, &**body) {
        ("tokens", Value::Table(tokens)) => Some((vec![tokens.integer("length")], Some(tokens.integer("vocabulary")))),
        (_, features) => Some((features.as_integers()?, None)),
    }
}

/// A length for each step, where they vary.
fn lengths(train: &Values, entry: &Entry, input: Option<&(Vec<u64>, Option<u64>)>, reader: &mut Reader) -> Option<Vec<u64>> {
    let span = place(entry, "lengths");
    let lengths = match train.get("lengths")? {
        Value::Table(range) => match range_of(range) {
            Ok(lengths) => lengths,
            Err(message) => {
                reader.mistake(Diagnostic::new(span, format!("`lengths`: {message}")));
                return None;
            }
        },
        list => list.as_integers()?,
    };
    if lengths.contains(&0) {
        reader.mistake(Diagnostic::new(span, "`lengths` start at 1"));
        return None;
    }
    if input.is_some_and(|(_, vocabulary)| vocabulary.is_none()) {
        let message = "`lengths` are for token inputs, but the input is `features`";
        reader.mistake(Diagnostic::new(span, message).hint("`input = { tokens = { length = …, vocabulary = … } }`"));
    }
    let loss = train.text("loss");
    if !["sum", "mean", "cross_entropy"].contains(&loss) {
        let message = format!("`lengths` go with the losses sum, mean and cross_entropy; {loss} has targets of one length");
        reader.mistake(Diagnostic::new(place(entry, "loss"), message));
    }
    if entry.value.get("steps").is_some() && train.integer("steps") != lengths.len() as u64 {
        let message = format!("`steps` is {}, but there are {} `lengths`, one a step", train.integer("steps"), lengths.len());
        reader.mistake(Diagnostic::new(place(entry, "steps"), message).hint("leave `steps` out"));
    }
    Some(lengths)
}

/// The most values a range or a sweep may have.
pub(super) const MOST_VALUES: u64 = 10_000;

/// `{ from, to, by }`, `to` included.
pub(super) fn range_of(range: &Values) -> Result<Vec<u64>, String> {
    let (from, to, by) = (range.integer("from"), range.integer("to"), range.integer("by"));
    if from > to {
        return Err(format!("a range from {from} to {to} is empty"));
    }
    let count = (to - from) / by + 1;
    if count > MOST_VALUES {
        return Err(format!("a range from {from} to {to} by {by} has {count} values; at most {MOST_VALUES} are possible"));
    }
    Ok((0..count).map(|i| from + i * by).collect())
}

fn segments(layers: &Sequence, settings: &Loop, entry: &Entry, reader: &mut Reader) {
    if let Checkpointing::Segments(n) = settings.checkpointing {
        let modules = layers.modules().count() as u64;
        if n > modules {
            let span = entry.value.get("checkpointing").and_then(|c| c.get("segments")).map_or(entry.key_span, |s| s.span);
            let message = format!("{n} segments of a model with {modules} top-level layers");
            reader.mistake(Diagnostic::new(span, message).hint("at most one segment a layer; a top-level `repeat` counts as its layers"));
        }
    }
}

/// Follows shapes through the model, for each length, and on to the loss.
fn shapes(layers: &Sequence, signal: &Signal, lengths: Option<&[u64]>, run: (&Loop, Loss), entries: (&Entry, &Entry), reader: &mut Reader) {
    let (settings, loss) = run;
    let mut check = Check::new(settings);
    let mut signals = vec![signal.clone()];
    for length in lengths.unwrap_or_default().iter().collect::<BTreeSet<_>>() {
        let sample = std::iter::once(*length).chain(signal.sample[1..].iter().copied()).collect();
        signals.push(Signal { sample, ..signal.clone() });
    }
    for signal in signals {
        if !check.tensor("the batch", &signal.dims()) {
            let message =
                format!("a batch of {} of {} would have more bytes than 63 bits can count", signal.batch.unwrap_or(1), signal.describe());
            reader.mistake(Diagnostic::new(place(entries.0, "input"), message));
            return;
        }
        let output = layers.check(&signal, &mut check);
        let refused = output.as_ref().and_then(|o| loss.refuses(o));
        if let Some(message) = refused {
            reader.mistake(Diagnostic::new(place(entries.1, "loss"), message));
        }
        if !check.mistakes.is_empty() {
            break;
        }
    }
    for mistake in check.mistakes {
        let span = reader.places[mistake.origin.0 as usize].field(mistake.field);
        reader.mistake(Diagnostic::new(span, mistake.message).maybe_hint(mistake.hint));
    }
}

fn many(count: u64) -> String {
    if count == u64::MAX { "more than 64 bits of".to_owned() } else { count.to_string() }
}
