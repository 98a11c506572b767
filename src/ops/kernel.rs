//! What an operator does by deed: forward and backward over tensors, allocating as PyTorch's operator does, in its order and with its
//! lifetimes. A kernel never asks its rule what to allocate: prediction and measurement must be able to differ.
//!
//! Values are computed where the device has any; allocation is the same on every device.

use std::rc::Rc;

use super::rule::OpRule;
use crate::exec::{Exec, Result, Stream};
use crate::meta::TensorMeta;
use crate::tensor::Tensor;

/// What forward gives.
#[derive(Debug, Default)]
pub struct Forward {
    /// One an output. An output may be an input's tensor (in place, or passed through) or a view of it.
    pub outputs: Vec<Tensor>,
    /// What backward needs of what forward made: packed after the operator ran. Empty where no input requires a gradient.
    pub saved: Vec<Tensor>,
    /// The random numbers that it drew from, where backward draws them again.
    pub stream: Option<Stream>,
}

impl Forward {
    /// One output of which backward needs nothing.
    #[must_use]
    pub fn plain(output: Tensor) -> Self {
        Self { outputs: vec![output], ..Self::default() }
    }

    /// One output, and what to keep for backward besides the inputs.
    #[must_use]
    pub fn saving(output: Tensor, saved: impl Into<Vec<Tensor>>) -> Self {
        Self { outputs: vec![output], saved: saved.into(), stream: None }
    }

    /// One output that backward needs.
    #[must_use]
    pub fn saving_output(output: Tensor) -> Self {
        Self { saved: vec![output.clone()], outputs: vec![output], stream: None }
    }
}

/// The arguments of a backward pass.
#[derive(Debug)]
pub struct Backward<'a> {
    /// What [`OpKernel::save_inputs`] saved, then what forward did.
    pub saved: &'a [Option<Tensor>],
    /// Shape and type of each input.
    pub inputs: &'a [Rc<TensorMeta>],
    /// The gradient of each output.
    pub grads: &'a [Option<Tensor>],
    /// Which inputs require a gradient.
    pub needs: &'a [bool],
    /// [`Forward::stream`].
    pub stream: Option<Stream>,
}

impl Backward<'_> {
    /// The gradient of the first output.
    ///
    /// # Panics
    /// It has none: the engine runs a node only once a gradient has arrived.
    #[must_use]
    pub fn grad(&self) -> &Tensor {
        self.grads[0].as_ref().expect("a node runs only once a gradient has arrived")
    }

    /// A saved tensor.
    ///
    /// # Panics
    /// It was not saved: forward and backward disagree about what is needed.
    #[must_use]
    pub fn saved(&self, index: usize) -> &Tensor {
        self.saved[index].as_ref().expect("backward asks only for what forward saved")
    }

    /// The gradient of the first input where the output is a `part` of it: zero everywhere else.
    ///
    /// # Errors
    /// Out of memory.
    pub fn within_zeros(&self, exec: &Exec, part: impl FnOnce(&Tensor) -> Tensor) -> Result<Tensor> {
        let whole = exec.empty(self.inputs[0].with_dtype(self.grad().dtype()))?;
        exec.fill(&whole, 0.0);
        exec.copy(self.grad(), &part(&whole));
        Ok(whole)
    }

    /// Shape and type of a fresh gradient of the first input, contiguous.
    #[must_use]
    pub fn input(&self) -> Rc<TensorMeta> {
        if self.inputs[0].is_contiguous() { Rc::clone(&self.inputs[0]) } else { Rc::new(self.inputs[0].like()) }
    }
}

/// What the first output of an operator is to autograd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A tensor of its own.
    New,
    /// The first input, passed through untouched: nothing ran.
    Input,
    /// The first input with new values.
    InPlace,
    /// A view of the first input.
    View,
    /// A view of a tensor that only the operator ever saw.
    ViewOfNew,
}

/// The deed of an operator. `needs[i]` says whether input `i` requires a gradient; all are false where no tape is recorded.
pub trait OpKernel: OpRule {
    /// What backward needs of the inputs: packed before the operator runs. `None` holds a place that these `needs` leave empty.
    ///
    /// # Errors
    /// Out of memory (an operator in place may have to save a copy).
    fn save_inputs(&self, exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let _ = (exec, inputs, needs);
        Ok(Vec::new())
    }

    /// Tensors that the operator makes to be its further arguments. They live until it has run, and longer where it saves them.
    ///
    /// # Errors
    /// Out of memory.
    fn constants(&self, exec: &Exec, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let _ = (exec, inputs);
        Ok(Vec::new())
    }

    /// The inputs that PyTorch views in another way first, in its order, each with how the operator here sees it: a node of its own.
    fn viewed(&self, inputs: &[&Tensor]) -> Vec<(usize, Rc<TensorMeta>)> {
        let _ = inputs;
        Vec::new()
    }

    /// What PyTorch's operator makes where the first output is another view of it: a node of its own.
    fn made(&self, output: &Tensor) -> Option<TensorMeta> {
        let _ = output;
        None
    }

    /// What the first output is to autograd.
    fn identity(&self, inputs: &[&Tensor]) -> Identity {
        let _ = inputs;
        Identity::New
    }

    /// Runs the operator.
    ///
    /// # Errors
    /// Out of memory.
    fn forward(&self, exec: &Exec, inputs: &[&Tensor], needs: &[bool]) -> Result<Forward>;

    /// The gradient of each input that needs one. It may be larger than the input was (a broadcast is undone by the engine), and may
    /// be the incoming gradient itself or a view of it.
    ///
    /// # Errors
    /// Out of memory.
    fn backward(&self, exec: &Exec, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>>;
}
