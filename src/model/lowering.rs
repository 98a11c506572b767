//! From layers to operators: builds one micro-step's program while layers lower themselves in the order in which PyTorch runs
//! them. It owns what Python and autocast do around the operators: variables, casts, checkpointed regions, names of parameters.
//!
//! Invariant: a [`Var`] is one Python tensor object. An operator that works in place gives the object a new value and ends the
//! old one, so that whoever still holds the object goes on from the new value, as in PyTorch.

use super::layer::{At, Item, Origin};
use super::plan::{Body, FlatPlace, Init, Layer, LayerId, StateKind, StateTensor, Step, ValueId};
use crate::meta::{DType, Shape, TensorMeta};
use crate::ops::{Operator, contiguous::rule::Contiguous, to_copy::rule::ToCopy, view::rule::View};

/// A tensor object that a Python variable names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Var(u32);

/// What is computed in, and on what: PyTorch chooses implementations by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numerics {
    /// Type of parameters and features.
    pub dtype: DType,
    /// Autocast's type, where on.
    pub amp: Option<DType>,
    /// The GPU's compute capability.
    pub capability: (u32, u32),
}

impl Numerics {
    /// The type that matrix products are computed in: autocast's, but f64 stays.
    #[must_use]
    pub fn dtype_of_products(&self) -> DType {
        self.amp.filter(|_| self.dtype != DType::F64).unwrap_or(self.dtype)
    }
}

/// What lowering needs to know of `[train]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Types, and the GPU.
    pub numerics: Numerics,
    /// Whether modules are in training mode.
    pub training: bool,
    /// Whether a tape is recorded; checkpoints are regions only then.
    pub tape: bool,
}

/// A program under construction.
#[derive(Debug)]
pub struct Lowering {
    settings: Settings,
    /// The value that each object holds now.
    objects: Vec<ValueId>,
    values: Vec<TensorMeta>,
    state: Vec<StateTensor>,
    layers: Vec<Layer>,
    origins: Vec<Origin>,
    steps: Vec<Step>,
    /// The batch and the targets: variables of the script, which no operator ends.
    arguments: Vec<ValueId>,
    /// Casts of parameters, kept until autocast ends.
    autocast_cache: Vec<ValueId>,
    /// Name of the PyTorch module under way, and path of the layer.
    module: String,
    path: String,
    layer: LayerId,
}

/// State and other values are numbered apart while it is not known how many tensors of state there will be.
const COMPUTED: u32 = 1 << 31;

impl Lowering {
    /// Nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            objects: Vec::new(),
            values: Vec::new(),
            arguments: Vec::new(),
            state: Vec::new(),
            layers: Vec::new(),
            origins: Vec::new(),
            steps: Vec::new(),
            autocast_cache: Vec::new(),
            module: String::new(),
            path: String::new(),
            layer: LayerId(0),
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Shape and type of what an object holds now.
    #[must_use]
    pub fn meta(&self, var: Var) -> &TensorMeta {
        let ValueId(n) = self.value(var);
        if n & COMPUTED == 0 { &self.state[n as usize].meta } else { &self.values[(n & !COMPUTED) as usize] }
    }

    pub(super) fn value(&self, var: Var) -> ValueId {
        self.objects[var.0 as usize]
    }

    fn object(&mut self, value: ValueId) -> Var {
        self.objects.push(value);
        Var(u32::try_from(self.objects.len() - 1).expect("layers are limited to far fewer objects"))
    }

    fn new_value(&mut self, meta: TensorMeta) -> ValueId {
        self.values.push(meta);
        ValueId(u32::try_from(self.values.len() - 1).expect("layers are limited to far fewer values") | COMPUTED)
    }

    /// An argument of the program: the batch or the targets.
    pub(super) fn argument(&mut self, meta: TensorMeta) -> Var {
        let value = self.new_value(meta);
        self.arguments.push(value);
        self.object(value)
    }

    /// A layer as reports name it, for what runs outside all layers.
    pub(super) fn outside(&mut self, name: &str) {
        self.new_layer(name.to_owned(), Origin::NONE);
    }

    fn new_layer(&mut self, path: String, origin: Origin) {
        self.layers.push(Layer { path });
        self.origins.push(origin);
        self.layer = LayerId(u32::try_from(self.layers.len() - 1).expect("layers are limited to far fewer"));
    }

    /// Runs `f` as a module of a sequence.
    pub(super) fn layer<R>(&mut self, at: At, item: &Item, f: impl FnOnce(&mut Self) -> R) -> R {
        let path = self.path.len();
        push(&mut self.path, &format!("{}.{}", at.layer, item.name));
        let around = self.layer;
        self.new_layer(self.path.clone(), item.origin);
        let result = self.module(&at.module.to_string(), f);
        self.layer = around;
        self.path.truncate(path);
        result
    }

    /// Runs `f` as a submodule of that name.
    pub fn module<R>(&mut self, name: &str, f: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.module.len();
        push(&mut self.module, name);
        let result = f(self);
        self.module.truncate(outer);
        result
    }

    /// Runs `f` for a part of a layer that reports should tell apart, such as a residual's shortcut.
    pub fn part<R>(&mut self, name: &str, f: impl FnOnce(&mut Self) -> R) -> R {
        let path = self.path.len();
        push(&mut self.path, name);
        let result = self.module(name, f);
        self.path.truncate(path);
        result
    }

    /// A parameter of the module under way, in the experiment's type.
    pub fn parameter(&mut self, name: &str, dims: impl Into<Vec<u64>>, init: Init) -> Var {
        self.new_state(name, dims.into(), self.settings.numerics.dtype, StateKind::Parameter, init)
    }

    /// Parameters of the module under way that share one buffer, each with its name, its shape and where it begins there.
    pub fn flat_parameters(&mut self, parts: impl IntoIterator<Item = (String, Shape, u64)>, init: Init) -> Vec<Var> {
        let parameters: Vec<Var> = parts
            .into_iter()
            .map(|(name, shape, offset)| {
                let var = self.new_state(&name, shape.dims().to_vec(), self.settings.numerics.dtype, StateKind::Parameter, init);
                self.state.last_mut().expect("it was just added").flat = Some(FlatPlace { offset, last: false });
                var
            })
            .collect();
        if let Some(FlatPlace { last, .. }) = self.state.last_mut().and_then(|s| s.flat.as_mut()) {
            *last = true;
        }
        parameters
    }

    /// A buffer of the module under way; in the experiment's type where `dtype` is `None`.
    pub fn buffer(&mut self, name: &str, dims: impl Into<Vec<u64>>, dtype: Option<DType>, init: Init) -> Var {
        self.new_state(name, dims.into(), dtype.unwrap_or(self.settings.numerics.dtype), StateKind::Buffer, init)
    }

    fn new_state(&mut self, name: &str, dims: Vec<u64>, dtype: DType, kind: StateKind, init: Init) -> Var {
        let shape = Shape::new(dims).expect("the layer's check refuses parameters that are too large");
        let mut full = self.module.clone();
        push(&mut full, name);
        let id = u32::try_from(self.state.len()).expect("layers are limited to far fewer parameters");
        self.state.push(StateTensor { name: full, meta: TensorMeta::contiguous(shape, dtype), kind, init, layer: self.layer, flat: None });
        self.object(ValueId(id))
    }

    /// Runs an operator on its arguments as they are.
    pub fn run(&mut self, op: impl Into<Operator>, inputs: &[Var]) -> Var {
        let value = self.step(op.into(), inputs);
        self.object(value)
    }

    /// Runs an operator of several outputs.
    pub fn run_all(&mut self, op: impl Into<Operator>, inputs: &[Var]) -> Vec<Var> {
        let values = self.steps_of(op.into(), inputs);
        values.into_iter().map(|value| self.object(value)).collect()
    }

    /// Runs an operator that writes its result into its first argument: the object stays, with a new value.
    pub fn update(&mut self, op: impl Into<Operator>, inputs: &[Var]) -> Var {
        let target = inputs[0];
        let old = self.value(target);
        let new = self.step(op.into(), inputs);
        self.objects[target.0 as usize] = new;
        if !self.arguments.contains(&old) {
            self.steps.push(Step::Drop(old));
        }
        target
    }

    fn step(&mut self, op: Operator, inputs: &[Var]) -> ValueId {
        self.steps_of(op, inputs).pop().expect("every operator here has an output")
    }

    fn steps_of(&mut self, op: Operator, inputs: &[Var]) -> Vec<ValueId> {
        let metas: Vec<TensorMeta> = inputs.iter().map(|&v| self.meta(v).clone()).collect();
        let outputs = op.rule().infer(&metas).unwrap_or_else(|e| panic!("checked layers give operators inputs that fit: {e}"));
        let outputs: Vec<ValueId> = outputs.into_iter().map(|meta| self.new_value(meta)).collect();
        let inputs = inputs.iter().map(|&v| self.value(v)).collect();
        self.steps.push(Step::Run { op, inputs, outputs: outputs.clone(), layer: self.layer });
        outputs
    }

    /// The last variable for an object goes out of scope.
    pub fn drop(&mut self, var: Var) {
        self.steps.push(Step::Drop(self.value(var)));
    }

    /// The object in another type: itself where it already has it.
    pub fn cast(&mut self, var: Var, dtype: DType) -> Var {
        if self.meta(var).dtype == dtype { var } else { self.run(ToCopy { dtype }, &[var]) }
    }

    /// `Tensor.reshape`: a view where strides allow one, else a copy in that shape, which autograd does not know for a view.
    pub fn reshape(&mut self, var: Var, shape: Shape) -> Var {
        if self.meta(var).viewed(&shape).is_some() {
            return self.run(View::plain(shape), &[var]);
        }
        let copy = self.run(Contiguous, &[var]);
        let view = self.run(View { shape, hidden: true }, &[copy]);
        self.drop(copy);
        view
    }

    /// Runs an operator of autocast's lower-precision list (matrix products).
    pub fn run_low(&mut self, op: impl Into<Operator>, inputs: &[Var]) -> Var {
        let op = op.into();
        self.low(inputs, |cx, inputs| cx.run(op, inputs))
    }

    /// Runs a function of autocast's lower-precision list: all that it is made of sees the arguments as they were cast.
    pub fn low(&mut self, inputs: &[Var], f: impl FnOnce(&mut Self, &[Var]) -> Var) -> Var {
        self.autocast(inputs, self.settings.numerics.amp, f)
    }

    /// Runs an operator of autocast's f32 list (layer norm, losses).
    pub fn run_f32(&mut self, op: impl Into<Operator>, inputs: &[Var]) -> Var {
        let op = op.into();
        self.f32(inputs, |cx, inputs| cx.run(op, inputs))
    }

    /// Runs a function of autocast's f32 list: all that it is made of sees the arguments as they were cast.
    pub fn f32(&mut self, inputs: &[Var], f: impl FnOnce(&mut Self, &[Var]) -> Var) -> Var {
        self.autocast(inputs, self.settings.numerics.amp.map(|_| DType::F32), f)
    }

    /// Whether autocast would have an operator of its f32 list compute this object in f32 although it is of a half type, and which.
    #[must_use]
    pub fn autocast_to_f32(&self, var: Var) -> Option<DType> {
        let dtype = self.meta(var).dtype;
        (self.settings.numerics.amp.is_some() && dtype.is_half()).then_some(dtype)
    }

    /// Autocast: arguments are cast from right to left, f64 and integers never. Casts of f32 parameters to autocast's own type
    /// are cached until it ends; all others die with the call.
    fn autocast(&mut self, inputs: &[Var], to: Option<DType>, f: impl FnOnce(&mut Self, &[Var]) -> Var) -> Var {
        let Some(to) = to else { return f(self, inputs) };
        let mut arguments = inputs.to_vec();
        let mut temporaries = Vec::new();
        for argument in arguments.iter_mut().rev() {
            let dtype = self.meta(*argument).dtype;
            if !dtype.is_float() || dtype == DType::F64 || dtype == to {
                continue;
            }
            let cached = dtype == DType::F32 && self.settings.numerics.amp == Some(to) && self.is_parameter(*argument);
            let cast = self.cast(*argument, to);
            *argument = cast;
            if cached {
                self.autocast_cache.push(self.value(cast));
            } else {
                temporaries.push(cast);
            }
        }
        let result = f(self, &arguments);
        for cast in temporaries.into_iter().rev() {
            self.drop(cast);
        }
        result
    }

    fn is_parameter(&self, var: Var) -> bool {
        let ValueId(n) = self.value(var);
        n & COMPUTED == 0 && self.state[n as usize].kind == StateKind::Parameter
    }

    /// Runs `f` as a checkpointed region over `input`. Without a tape the region is its body; so it is where nothing runs in it.
    pub fn checkpoint(&mut self, input: Var, f: impl FnOnce(&mut Self) -> Var) -> Var {
        if !self.settings.tape {
            return self.module("m", f);
        }
        let argument = self.value(input);
        let around = std::mem::take(&mut self.steps);
        let result = self.module("m", f);
        let steps = std::mem::replace(&mut self.steps, around);
        if !steps.is_empty() {
            let body = Body { steps, result: self.value(result) };
            self.steps.push(Step::Checkpoint { input: argument, body });
        }
        result
    }

    /// Ends a body: what was appended since the last one, with its result.
    pub(super) fn body(&mut self, result: Var) -> Body {
        Body { steps: std::mem::take(&mut self.steps), result: self.value(result) }
    }

    /// Everything but the bodies, once all of them are ended, with the numbering that they are to take.
    pub(super) fn finish(self) -> Finished {
        let state = u32::try_from(self.state.len()).expect("layers are limited to far fewer parameters");
        let numbering = Numbering { state };
        let values = self.state.iter().map(|s| s.meta.clone()).chain(self.values).collect();
        let autocast_cache = self.autocast_cache.into_iter().map(|v| numbering.of(v)).collect();
        Finished { numbering, values, state: self.state, layers: self.layers, origins: self.origins, autocast_cache }
    }
}

/// What a [`Lowering`] leaves.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) numbering: Numbering,
    pub(super) values: Vec<TensorMeta>,
    pub(super) state: Vec<StateTensor>,
    pub(super) layers: Vec<Layer>,
    pub(super) origins: Vec<Origin>,
    pub(super) autocast_cache: Vec<ValueId>,
}

/// The plan's numbers: state first, then everything else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbering {
    state: u32,
}

impl Numbering {
    pub(super) fn of(self, ValueId(n): ValueId) -> ValueId {
        ValueId(if n & COMPUTED == 0 { n } else { (n & !COMPUTED) + self.state })
    }

    pub(super) fn body(self, mut body: Body) -> Body {
        body.result = self.of(body.result);
        for step in &mut body.steps {
            match step {
                Step::Run { inputs, outputs, .. } => inputs.iter_mut().chain(outputs).for_each(|v| *v = self.of(*v)),
                Step::Drop(v) => *v = self.of(*v),
                Step::Checkpoint { input, body } => {
                    *input = self.of(*input);
                    let inside = Body { steps: std::mem::take(&mut body.steps), result: body.result };
                    *body = self.body(inside);
                }
            }
        }
        body
    }
}

fn push(path: &mut String, part: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(part);
}
