//! What an operator declares of itself from shapes alone: its outputs, and, in order, what forward and backward allocate,
//! keep and free. Rules know no tensor and no device; the predictor interprets them.

use crate::gpu::Gpu;
use crate::meta::{DType, Shape, TensorMeta};
use crate::scratch::{Rules, Scratch};

/// A storage that a recipe allocates, by number, local to that recipe.
pub type Slot = usize;

/// A library whose handle takes a workspace from the allocator at its first use on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// cuBLAS: every matrix product.
    Cublas,
    /// cuBLASLt: `addmm` with a bias epilogue. It also asks for cuBLAS's workspace first.
    CublasLt,
}

/// One thing a recipe does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Ask the allocator for `bytes` and call the result `slot`. Zero bytes take nothing.
    Alloc {
        /// The name within this recipe.
        slot: Slot,
        /// Requested bytes, before rounding.
        bytes: u64,
    },
    /// Give a slot back. A slot that is neither freed, nor an output or gradient, nor kept, is a mistake in the rule.
    Free(Slot),
    /// Make sure that the running thread's handle has its workspace (a no-op after the first time).
    Library(Library),
    /// Autograd packs this for backward. The place matters to checkpointing, which stops recomputing at the last pack: inputs
    /// are packed before the operator works, outputs and statistics after.
    Keep(Saved),
    /// Backward's formulas have returned, and what follows is the engine's. Kept tensors live on, but what a checkpoint recomputed
    /// was held by the formulas' variables alone and dies here (at the end, where a recipe does not say).
    Returned,
}

/// Where an output lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// In a slot that the recipe allocated.
    New(Slot, TensorMeta),
    /// In such a slot, but as a view of the tensor that was made there, which comes second. It matters to what writes into it:
    /// autograd treats a change to a view as one to a part of its base.
    NewView(Slot, TensorMeta, TensorMeta),
    /// A view of an input.
    View(usize, TensorMeta),
    /// The same, but autograd does not know it for a view.
    Alias(usize, TensorMeta),
    /// The very input passed through.
    Same(usize),
    /// An input whose values it replaces.
    InPlace(usize, TensorMeta),
}

/// Something forward keeps for backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// An input.
    Input(usize),
    /// An output.
    Output(usize),
    /// A slot that is no output: statistics, masks, copies.
    Slot(Slot),
}

/// What a forward pass does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forward {
    /// In order. [`Effect::Keep`] only where backward will need it.
    pub effects: Vec<Effect>,
    /// One an output.
    pub outputs: Vec<Output>,
}

/// Where the gradient of an input lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gradient {
    /// The input needs none.
    None,
    /// In a slot that the recipe allocated.
    New(Slot, TensorMeta),
    /// A tensor of its own in a slot that holds other inputs' gradients too.
    Part(Slot, TensorMeta),
    /// The very gradient that came in for output `n`.
    Same(usize),
    /// A view of the gradient that came in for output `n`.
    View(usize, TensorMeta),
}

/// What a backward pass does, the engine's fitting of each gradient to its input (sum over broadcast dimensions, cast) included.
/// The incoming gradient and what was kept are released by the engine after the last effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backward {
    /// In order.
    pub effects: Vec<Effect>,
    /// One an input.
    pub gradients: Vec<Gradient>,
}

impl Library {
    /// What the library's handle takes on a thread, in bytes. These are PyTorch's defaults, which depend on the GPU alone: of cuBLAS
    /// `:4096:2:16:8`, two chunks of 4096 KiB and eight of 16, but on Hopper one of 32 MiB (`getChosenWorkspaceSize`), of cuBLASLt
    /// `CUBLASLT_WORKSPACE_SIZE`.
    #[must_use]
    pub const fn workspace_bytes(self, gpu: &Gpu) -> u64 {
        match (self, gpu.capability) {
            (Self::Cublas, (9, 0)) => 32 << 20,
            (Self::Cublas, _) => (2 * 4096 + 8 * 16) << 10,
            (Self::CublasLt, _) => 1 << 20,
        }
    }
}

/// What rules may ask about where they run.
#[derive(Debug, Clone, Copy)]
pub struct RuleContext<'a> {
    /// The GPU that is run on or stood in for.
    pub gpu: &'a Gpu,
    /// What libraries ask for there.
    pub scratch: &'a dyn Scratch,
}

impl<'a> From<&'a Gpu> for RuleContext<'a> {
    /// A GPU that nobody can ask: its libraries' scratch is foreseen by the rules.
    fn from(gpu: &'a Gpu) -> Self {
        Self { gpu, scratch: &Rules }
    }
}

/// An operator over shapes that do not go together. The message names both sides.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ShapeError {
    /// What is wrong, with the shapes.
    pub message: String,
}

impl From<crate::meta::SizeError> for ShapeError {
    fn from(e: crate::meta::SizeError) -> Self {
        Self { message: e.to_string() }
    }
}

/// The memory rule of an operator.
///
/// `inputs` are always all inputs in order, parameters among them. `needs[i]` says whether input `i` requires a gradient;
/// all are false where no tape is recorded.
pub trait OpRule: std::fmt::Debug {
    /// PyTorch's name of the operator, e.g. `layer_norm`.
    fn name(&self) -> &'static str;

    /// The outputs' shapes and types.
    ///
    /// # Errors
    /// [`ShapeError`] where the inputs do not go together.
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError>;

    /// Why PyTorch's kernels do not take inputs of these types together, in PyTorch's words; `None` where they do.
    fn refuses(&self, _inputs: &[TensorMeta]) -> Option<String> {
        None
    }

    /// Inputs that PyTorch's operator sees through views, in the order in which these are taken: each is a node of its own, and
    /// nodes go backward in the reverse order.
    fn views(&self, _inputs: &[TensorMeta]) -> Vec<usize> {
        Vec::new()
    }

    /// The tensor that PyTorch's operator makes, of which the first output is another view: taken by a node of its own.
    fn makes(&self, _inputs: &[TensorMeta]) -> Option<TensorMeta> {
        None
    }

    /// What forward does to memory, `infer` having succeeded.
    fn forward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], needs: &[bool]) -> Forward;

    /// What backward does to memory, given the layout of the incoming gradient of each output (`None`: it has none).
    fn backward(&self, cx: RuleContext<'_>, inputs: &[TensorMeta], grads: &[Option<TensorMeta>], needs: &[bool]) -> Backward;
}

/// The one-output inference of operators that change neither shape nor type, into a contiguous output.
///
/// # Errors
/// Never; the signature is the trait's.
pub fn same_as_first(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
    Ok(vec![inputs[0].like()])
}

/// The one-output inference of elementwise operators of one operand: the output lies as that does, without gaps.
///
/// # Errors
/// Never; the signature is the trait's.
pub fn dense_as_first(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, ShapeError> {
    Ok(vec![inputs[0].dense()])
}

/// The one-output inference of reductions to a scalar of the given type.
///
/// # Errors
/// Never; the signature is the trait's.
pub fn scalar_of(dtype: DType) -> Result<Vec<TensorMeta>, ShapeError> {
    Ok(vec![TensorMeta::scalar(dtype)])
}

/// The shape of an elementwise operator's output: dimensions matched from the last, a size of 1 spread over the other's.
///
/// # Errors
/// Names the operator and both shapes.
pub fn broadcast(name: &str, left: &Shape, right: &Shape) -> Result<Shape, ShapeError> {
    let rank = left.rank().max(right.rank());
    let from_last = |s: &Shape, i: usize| s.rank().checked_sub(i + 1).map_or(1, |d| s.dims()[d]);
    let mut dims = Vec::with_capacity(rank);
    for i in (0..rank).rev() {
        dims.push(match (from_last(left, i), from_last(right, i)) {
            (a, b) if a == b => a,
            (1, b) => b,
            (a, 1) => a,
            _ => return Err(ShapeError { message: format!("{name} cannot broadcast {left} with {right}") }),
        });
    }
    Ok(Shape::new(dims)?)
}

/// The type of an elementwise operator's output over two floating types: the wider, and f32 for the two halves together.
#[must_use]
pub fn promote(left: DType, right: DType) -> DType {
    match (left, right) {
        (a, b) if a == b => a,
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        _ => DType::F32,
    }
}

/// Checks that two inputs have one shape.
///
/// # Errors
/// Names the operator and both shapes.
pub fn same_shape(name: &str, left: &Shape, right: &Shape) -> Result<(), ShapeError> {
    if left == right { Ok(()) } else { Err(ShapeError { message: format!("{name} needs two equal shapes, got {left} and {right}") }) }
}

/// Checks that parameters of a normalisation over the last dimension have its size.
///
/// # Errors
/// Names the operator and both shapes.
pub fn normalised_last(name: &str, x: &Shape, parameters: &[TensorMeta]) -> Result<(), ShapeError> {
    if x.rank() == 0 {
        return Err(ShapeError { message: format!("{name} needs a dimension to normalise, got a scalar") });
    }
    match parameters.iter().find(|p| p.shape.dims() != [x.last()]) {
        None => Ok(()),
        Some(p) => Err(ShapeError { message: format!("{name} of shape {} does not go with an input of shape {x}", p.shape) }),
    }
}
