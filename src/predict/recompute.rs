//! How much of forward a plan computes again in backward.

use crate::model::{Body, Plan, Step, ValueId};

/// Bytes that forward's operators put out, and how many of these are put out again in backward, inside checkpointed regions. The last
/// operators of a region may be spared in part: backward stops once it has what it needs.
#[must_use]
pub fn recomputed(plan: &Plan) -> (u64, u64) {
    let program = &plan.programs[plan.schedule[0]];
    let bytes = |&value: &ValueId| program.meta(value).bytes();
    let (mut all, mut again) = (0u64, 0u64);
    let mut bodies: Vec<(&Body, bool)> = vec![(&program.forward, false)];
    while let Some((body, inside)) = bodies.pop() {
        for step in &body.steps {
            match step {
                Step::Run { outputs, .. } => {
                    let out = outputs.iter().map(bytes).fold(0, u64::saturating_add);
                    all = all.saturating_add(out);
                    again = again.saturating_add(if inside { out } else { 0 });
                }
                Step::Checkpoint { body, .. } => bodies.push((body, true)),
                Step::Drop(_) => {}
            }
        }
    }
    (all, again)
}
