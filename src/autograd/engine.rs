//! The backward pass: nodes that all consumers have run for, the last created first; leaves right after the node that reached them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::accumulate::{join, to_leaf};
use super::node::{Function, Node, Part, Ran};
use super::tape::Tape;
use super::variable::Variable;
use crate::exec::{Exec, Result, Thread};
use crate::meta::TensorMeta;
use crate::ops::kernel::{Backward, OpKernel};
use crate::tensor::Tensor;

/// Runs backward from `root`, whose gradient is `grad`, on autograd's thread. The caller's handle on `grad` outlives it, as in PyTorch.
///
/// # Errors
/// Out of memory.
///
/// # Panics
/// `root` requires no gradient.
pub fn backward(exec: &Exec, tape: &Tape, root: &Variable, grad: &Tensor) -> Result<()> {
    let root = root.edge().expect("backward starts from a variable that requires a gradient");
    exec.on_thread(Thread::Backward, || {
        count_consumers(tape, &root.node);
        root.node.waiting.grads.borrow_mut()[root.output as usize] = Some(grad.clone());
        let mut ready = Ready::default();
        ready.push(Rc::clone(&root.node));
        while let Some(node) = ready.pop() {
            if let Err(e) = run(exec, tape, &node, &mut ready) {
                forget(tape, &root.node);
                return Err(e);
            }
        }
        Ok(())
    })
}

/// Backward has failed: gradients on their way go nowhere.
fn forget(tape: &Tape, root: &Rc<Node>) {
    let pass = tape.passes.get() + 1;
    tape.passes.set(pass);
    let mut pending = vec![root];
    while let Some(node) = pending.pop() {
        if node.waiting.reached_by.replace(pass) != pass {
            node.waiting.grads.borrow_mut().fill(None);
            pending.extend(node.edges.iter().flatten().map(|edge| &edge.node));
        }
    }
}

/// Counts, for every node that can be reached, how many of its consumers can be reached.
fn count_consumers(tape: &Tape, root: &Rc<Node>) {
    let pass = tape.passes.get() + 1;
    tape.passes.set(pass);
    let mut pending = vec![root];
    root.waiting.reached_by.set(pass);
    root.waiting.consumers.set(0);
    while let Some(node) = pending.pop() {
        for edge in node.edges.iter().flatten() {
            let waiting = &edge.node.waiting;
            if waiting.reached_by.replace(pass) != pass {
                waiting.consumers.set(0);
                pending.push(&edge.node);
            }
            waiting.consumers.set(waiting.consumers.get() + 1);
        }
    }
}

/// Nodes that can run, by order of creation, the last first; of equals the first to become ready.
#[derive(Default)]
struct Ready {
    heap: BinaryHeap<Entry>,
    pushed: u64,
}

impl Ready {
    fn push(&mut self, node: Rc<Node>) {
        self.pushed += 1;
        self.heap.push(Entry { key: (node.sequence, Reverse(self.pushed)), node });
    }

    fn pop(&mut self) -> Option<Rc<Node>> {
        self.heap.pop().map(|e| e.node)
    }
}

struct Entry {
    key: (u64, Reverse<u64>),
    node: Rc<Node>,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

fn run(exec: &Exec, tape: &Tape, node: &Node, ready: &mut Ready) -> Result<()> {
    let mut grads: Vec<Option<Tensor>> = node.waiting.grads.borrow_mut().iter_mut().map(Option::take).collect();
    exec.memory().begin(node.running);
    let gradients = match &node.function {
        Function::Accumulate(leaf) => {
            return match grads.pop().flatten() {
                Some(grad) => to_leaf(exec, leaf, grad),
                None => Ok(()),
            };
        }
        Function::Operator(ran) => fitted(exec, differentiate(exec, tape, node, ran, &grads)?, &ran.inputs)?,
        Function::CopySlices(ran, part) => write_through(exec, tape, node, ran, part, arrived(&grads))?,
        Function::View(of) => vec![Some(exec.reshape(arrived(&grads), &of.shape)?)],
        Function::AsStrided(part) => {
            // A zero for every element of the base, then the view's gradient in its place.
            let of_view = arrived(&grads);
            let of_base = exec.empty(Rc::clone(&part.base))?;
            exec.fill(&of_base, 0.0);
            exec.copy(of_view, &of_base.alias_at(Rc::clone(&part.view), part.offset));
            vec![Some(of_base.view(Rc::clone(&part.base)))]
        }
    };
    drop(grads);
    if let Function::Operator(ran) | Function::CopySlices(ran, _) = &node.function {
        ran.saved.borrow_mut().clear();
    }
    for (edge, gradient) in node.edges.iter().zip(gradients) {
        let Some(edge) = edge else { continue };
        let waiting = &edge.node.waiting;
        if let Some(gradient) = gradient {
            join(exec, &mut waiting.grads.borrow_mut()[edge.output as usize], gradient)?;
        }
        waiting.consumers.set(waiting.consumers.get() - 1);
        if waiting.consumers.get() == 0 {
            ready.push(Rc::clone(&edge.node));
        }
    }
    Ok(())
}

/// The backward pass of an operator. What it unpacks dies with it, before its gradients are made to fit.
fn differentiate(exec: &Exec, tape: &Tape, node: &Node, ran: &Ran, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut saved = ran.saved.borrow().iter().map(|s| s.unpack(exec, tape)).collect::<Result<Vec<_>>>()?;
    exec.memory().begin(node.running); // unpacking may have run a region again
    let at = Backward { saved: &saved, inputs: &ran.inputs, grads, needs: &ran.needs, stream: ran.stream };
    let gradients = OpKernel::backward(ran.op.kernel(), exec, &at);
    // Variables of PyTorch's function: the last one goes first.
    while saved.pop().is_some() {}
    gradients
}

/// The backward pass of an operator that wrote through a view (`CopySlices`): the view's part of the base's gradient goes through it, as a
/// copy, and comes back in its place.
fn write_through(exec: &Exec, tape: &Tape, node: &Node, ran: &Ran, part: &Part, grad: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let of_base = exec.clone_as(grad, Rc::clone(&part.base))?;
    let of_view = of_base.alias_at(Rc::clone(&part.view), part.offset);
    let mut gradients = differentiate(exec, tape, node, ran, &[Some(exec.clone_contiguous(&of_view)?)])?;
    if let Some(through) = gradients[0].take() {
        exec.copy(&through, &of_view);
    }
    let mut gradients = fitted(exec, gradients, &ran.inputs)?;
    gradients[0] = Some(of_base);
    Ok(gradients)
}

fn arrived(grads: &[Option<Tensor>]) -> &Tensor {
    grads[0].as_ref().expect("a node runs only once a gradient has arrived")
}

fn fitted(exec: &Exec, mut gradients: Vec<Option<Tensor>>, inputs: &[Rc<TensorMeta>]) -> Result<Vec<Option<Tensor>>> {
    for (gradient, input) in gradients.iter_mut().zip(inputs) {
        if let Some(unfitted) = gradient.take() {
            *gradient = Some(fit(exec, unfitted, input)?);
        }
    }
    Ok(gradients)
}

/// Makes a gradient fit the input it belongs to (`validate_outputs`): undoes a broadcast, then a difference in type.
fn fit(exec: &Exec, gradient: Tensor, input: &TensorMeta) -> Result<Tensor> {
    let gradient = if gradient.shape() == &input.shape { gradient } else { exec.sum_to(&gradient, &input.shape)? };
    if gradient.dtype() == input.dtype { Ok(gradient) } else { exec.to_dtype(&gradient, input.dtype) }
}
