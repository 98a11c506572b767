//! `torch.nn.Embedding`.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};
use crate::model::Init;
use crate::model::field::{Field, SIZE, Values};
use crate::model::lowering::{Lowering, Var};
use crate::ops::embedding;

pub(super) const KIND: LayerKind = LayerKind {
    name: "embedding",
    doc: "A learned vector for each token.",
    fields: &[
        Field::required("num_embeddings", SIZE, "How many tokens it knows."),
        Field::required("embedding_dim", SIZE, "Size of each vector."),
    ],
    build: |values: &Values| {
        Rc::new(Embedding { num_embeddings: values.integer("num_embeddings"), embedding_dim: values.integer("embedding_dim") })
    },
};

#[derive(Debug)]
struct Embedding {
    num_embeddings: u64,
    embedding_dim: u64,
}

impl Layer for Embedding {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        match input.vocabulary {
            None => cx.mistake_with_hint(
                format!("embedding looks tokens up, but its input is floating-point values of shape {}", input.describe()),
                "tokens come from `input = { tokens = { length = …, vocabulary = … } }`",
            ),
            Some(vocabulary) if vocabulary > self.num_embeddings => {
                let message = format!("embedding knows {} tokens, but the vocabulary has {vocabulary}", self.num_embeddings);
                cx.mistake_in("num_embeddings", message, Some(format!("at least {vocabulary}")));
            }
            Some(_) => {}
        }
        cx.tensor("a weight", &[self.num_embeddings, self.embedding_dim]);
        let mut sample = input.sample.clone();
        sample.push(self.embedding_dim);
        cx.output(input.with_sample(sample))
    }

    fn lower(&self, input: Var, cx: &mut Lowering) -> Var {
        let weight = cx.parameter("weight", [self.num_embeddings, self.embedding_dim], Init::Normal(1.0));
        cx.run(embedding::rule::Embedding, &[weight, input])
    }
}
