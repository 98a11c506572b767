//! A configuration's fields, each in the type that it is meant to have.

use serde_json::{Map, Value};

use super::translate::{ImportError, Result};
use crate::meta::plain;

/// The fields of a file.
pub(super) struct Config {
    pub(super) fields: Map<String, Value>,
}

impl Config {
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|v| !v.is_null())
    }

    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.get(field)?.as_str()
    }

    pub(super) fn optional(&self, field: &'static str) -> Result<Option<u64>> {
        let number = |v: &Value| {
            v.as_u64()
                .filter(|n| (1..=u64::from(u32::MAX)).contains(n))
                .ok_or_else(|| ImportError::Number { field, value: plain(&v.to_string()).into_owned() })
        };
        self.get(field).map(number).transpose()
    }

    pub(super) fn number(&self, field: &'static str) -> Result<u64> {
        self.optional(field)?.ok_or(ImportError::Missing(field))
    }

    pub(super) fn share(&self, field: &str, default: f64) -> f64 {
        self.get(field).and_then(Value::as_f64).unwrap_or(default)
    }

    pub(super) fn flag(&self, field: &str, default: bool) -> bool {
        self.get(field).and_then(Value::as_bool).unwrap_or(default)
    }

    /// The experiment's `dtype`.
    pub(super) fn dtype(&self, missing: &mut Vec<String>) -> &'static str {
        match self.text("dtype").or_else(|| self.text("torch_dtype")) {
            Some("float16") => "f16",
            Some("bfloat16") => "bf16",
            Some("float64") => "f64",
            None | Some("float32" | "auto") => "f32",
            Some(other) => {
                missing.push(format!("the type {}; here it is f32", plain(other)));
                "f32"
            }
        }
    }

    /// The architecture's name, as in `BertForMaskedLM`.
    pub(super) fn architecture(&self) -> Option<&str> {
        self.get("architectures")?.get(0)?.as_str()
    }

    /// What it is for; `default` where no architecture is named.
    pub(super) fn task(&self, default: Task) -> Task {
        let Some(name) = self.architecture() else { return default };
        let ends = |endings: &[&str]| endings.iter().any(|e| name.ends_with(e));
        if ends(&["LMHeadModel", "ForCausalLM", "ForMaskedLM", "ForPreTraining"]) {
            Task::Language
        } else if ends(&["ForSequenceClassification", "ForImageClassification"]) {
            Task::Samples
        } else if ends(&["ForTokenClassification"]) {
            Task::Positions
        } else if ends(&["ForQuestionAnswering"]) {
            Task::Spans
        } else {
            Task::None
        }
    }

    /// How many labels there are.
    pub(super) fn labels(&self) -> Result<u64> {
        match self.get("id2label") {
            Some(Value::Object(labels)) if !labels.is_empty() => Ok(labels.len() as u64),
            _ => Ok(self.optional("num_labels")?.unwrap_or(2)),
        }
    }

    /// The loss of samples with so many labels: one label is a number to be met.
    pub(super) fn loss(&self, labels: u64) -> &'static str {
        match self.text("problem_type") {
            Some("regression") => "mse",
            Some("multi_label_classification") => "bce_with_logits",
            None if labels == 1 => "mse",
            _ => "cross_entropy",
        }
    }
}

/// What a network's output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// A word at each position.
    Language,
    /// Labels of a sample.
    Samples,
    /// Labels of each position.
    Positions,
    /// Whether each position begins or ends an answer.
    Spans,
    /// Hidden states.
    None,
}
