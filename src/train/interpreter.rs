//! Runs a program's steps on a tape. Values are Python's variables: set once, gone at their `Drop`.

use std::rc::Rc;

use crate::autograd::{Halt, Region, Tape, Variable};
use crate::exec::Exec;
use crate::model::{Body, LayerId, Plan, Program, Step, ValueId};
use crate::record::Running;

/// What every run of a program shares.
pub(super) struct Model {
    pub(super) plan: Rc<Plan>,
    /// Parameters and buffers: the first values of every program.
    pub(super) state: Vec<Variable>,
}

/// The variables of one pass: a stretch of a program's values.
pub(super) struct Variables {
    first: usize,
    slots: Vec<Option<Variable>>,
}

impl Variables {
    /// Room for every value of a program.
    pub(super) fn of(model: &Model, program: &Program) -> Self {
        let first = model.state.len();
        Self { first, slots: vec![None; program.values.len() - first] }
    }

    /// Room for the values that a region produces, and its input.
    fn of_region(input: ValueId, body: &Body) -> Self {
        let mut range = (input.index(), input.index());
        stretch(body, &mut range);
        Self { first: range.0, slots: vec![None; range.1 - range.0 + 1] }
    }

    pub(super) fn set(&mut self, id: ValueId, variable: Variable) {
        self.slots[id.index() - self.first] = Some(variable);
    }

    pub(super) fn get(&self, id: ValueId) -> &Variable {
        self.slots[id.index() - self.first].as_ref().expect("a value is produced before it is used, and used before it is dropped")
    }

    pub(super) fn drop(&mut self, id: ValueId) {
        self.slots[id.index() - self.first] = None;
    }

    /// The same for a variable that may be of the surroundings.
    fn drop_if_there(&mut self, id: ValueId) {
        if let Some(slot) = id.index().checked_sub(self.first).and_then(|i| self.slots.get_mut(i)) {
            *slot = None;
        }
    }
}

fn stretch(body: &Body, range: &mut (usize, usize)) {
    for step in &body.steps {
        match step {
            Step::Run { outputs, .. } => {
                for &output in outputs {
                    *range = (range.0.min(output.index()), range.1.max(output.index()));
                }
            }
            Step::Drop(_) => {}
            Step::Checkpoint { body, .. } => stretch(body, range),
        }
    }
}

/// Where a body stands in a plan: the program, then which of its bodies, then the steps that lead down to it.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) program: usize,
    pub(super) which: Which,
    pub(super) steps: Vec<usize>,
}

/// The bodies of a program.
#[derive(Clone, Copy)]
pub(super) enum Which {
    Forward,
    Criterion,
    Divide,
}

impl Place {
    pub(super) fn new(program: usize, which: Which) -> Self {
        Self { program, which, steps: Vec::new() }
    }

    pub(super) fn body<'p>(&self, plan: &'p Plan) -> Option<&'p Body> {
        let program = &plan.programs[self.program];
        let body = match self.which {
            Which::Forward => Some(&program.forward),
            Which::Criterion => program.criterion.as_ref(),
            Which::Divide => program.divide.as_ref(),
        };
        self.steps.iter().fold(body, |body, &step| match &body?.steps[step] {
            Step::Checkpoint { body, .. } => Some(body),
            _ => None,
        })
    }
}

/// Runs a body. Its result, if it is not already a variable of the surroundings, is one afterwards.
pub(super) fn run(
    model: &Rc<Model>,
    exec: &Exec,
    tape: &Tape,
    place: &mut Place,
    body: &Body,
    variables: &mut Variables,
) -> Result<(), Halt> {
    for (number, step) in body.steps.iter().enumerate() {
        match step {
            Step::Run { op, inputs, outputs, layer } => {
                exec.memory().begin(Running { layer: Some(layer.0), ..Running::outside(op.rule().name()) });
                let results = {
                    let inputs: Vec<&Variable> =
                        inputs.iter().map(|&id| model.state.get(id.index()).unwrap_or_else(|| variables.get(id))).collect();
                    tape.apply(exec, op, &inputs)
                };
                let results = match results {
                    Ok(results) => results,
                    Err(halt) => {
                        match halt {
                            Halt::OutOfMemory(_) => {
                                leave(&body.steps[..number], *layer, variables);
                                exec.memory().settle_failure();
                            }
                            Halt::Stop => unwind(model, place, &body.steps[number..], variables),
                        }
                        return Err(halt);
                    }
                };
                for (&id, result) in outputs.iter().zip(results) {
                    variables.set(id, result);
                }
            }
            Step::Drop(id) => variables.drop(*id),
            Step::Checkpoint { input, body: inside } => {
                place.steps.push(number);
                let variable = variables.get(*input).clone();
                let region = Rc::new(Again { model: Rc::clone(model), place: place.clone(), input: *input });
                let done = tape.checkpoint(exec, &variable, region, || run(model, exec, tape, place, inside, variables));
                place.steps.pop();
                done.inspect_err(|halt| {
                    if let Halt::Stop = halt {
                        unwind(model, place, &body.steps[number..], variables);
                    }
                })?;
            }
        }
    }
    Ok(())
}

/// A recomputation is stopped by an exception: it leaves autocast, whose cache goes, and then one function after the other, whose variables
/// go as they would have gone later.
fn unwind(model: &Model, place: &Place, rest: &[Step], variables: &mut Variables) {
    let cache = &model.plan.programs[place.program].autocast_cache;
    cache.iter().for_each(|&cast| variables.drop_if_there(cast));
    for step in rest {
        if let Step::Drop(id) = step {
            variables.drop_if_there(*id);
        }
    }
}

/// A layer fails: what its earlier steps made is in no variable of the script, and dies as the exception passes.
fn leave(steps: &[Step], failing: LayerId, variables: &mut Variables) {
    for step in steps {
        if let Step::Run { outputs, layer, .. } = step
            && *layer == failing
        {
            outputs.iter().for_each(|&output| variables.drop(output));
        }
    }
}

/// A checkpointed region, to be run again.
struct Again {
    model: Rc<Model>,
    place: Place,
    input: ValueId,
}

impl Region for Again {
    fn run(&self, exec: &Exec, tape: &Tape, input: Variable) -> Result<(), Halt> {
        let body = self.place.body(&self.model.plan).expect("a region stays where it is in its plan");
        let mut variables = Variables::of_region(self.input, body);
        variables.set(self.input, input);
        let done = run(&self.model, exec, tape, &mut self.place.clone(), body, &mut variables);
        if let Err(Halt::OutOfMemory(_)) = done {
            // The exception's traceback holds the frames of the recomputation.
            tape.hold(variables.slots.into_iter().flatten());
        }
        done
    }
}
