//! The last position of a sequence: `x[:, -1]`.

use std::rc::Rc;

use super::{Check, Layer, LayerKind, Signal};

pub(super) const KIND: LayerKind =
    LayerKind { name: "last", doc: "Takes the last position of a sequence.", fields: &[], build: |_| Rc::new(Last), has_operators: false };

#[derive(Debug)]
struct Last;

impl Layer for Last {
    fn check(&self, input: &Signal, cx: &mut Check) -> Option<Signal> {
        cx.rank("last", input, 1..=usize::MAX, "[length, …]").then(|| Signal { sample: input.sample[1..].to_vec(), ..input.clone() })
    }
}
