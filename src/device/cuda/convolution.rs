//! Convolutions by cuDNN's graph interface, each with the plan that PyTorch takes: the first of the heuristics' list that can be built and
//! run, or else of the fallback list. f32 may be rounded to TF32, as PyTorch allows by default.

use std::ffi::c_void;

use super::bindings::cudnn::{
    self as sys, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as Knob, cudnnBackendNumericalNote_t as Note, cudnnConvolutionMode_t,
};

use super::blas::Workspace;
use super::context::Cuda;
use super::dnn::{data_type, sum_type};
use super::error::CudaError;
use super::graph::{Descriptor, Parts, Plan, configurations, contiguous, graph, tensor};
use crate::meta::DType;
use crate::scratch::convolution::Settings;
use crate::scratch::{Convolution, Direction};

/// How the three tensors are called in a plan.
const NAMES: [i64; 3] = ['x' as i64, 'y' as i64, 'w' as i64];

/// A convolution ready to run. What the plan was made of lives as long as it does.
#[derive(Debug)]
pub(super) struct ConvolutionPlan {
    plan: Plan,
    /// Its place in the lists.
    number: usize,
    _made_of: Parts,
}

/// Addresses of the three tensors: the input's side, the output's, the weight's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionTensors {
    /// The input, or its gradient.
    pub x: u64,
    /// The output, or its gradient.
    pub y: u64,
    /// The weight, or its gradient.
    pub w: u64,
}

impl Cuda {
    /// What a convolution works in, in bytes.
    pub(super) fn convolution_workspace(&self, call: &Convolution) -> Result<u64, CudaError> {
        if let Some(plan) = self.dnn.convolutions.borrow().get(call) {
            return Ok(plan.plan.workspace);
        }
        let handle = self.dnn_handle()?;
        let plan = self.counted(|| make(handle, call, 0, u64::MAX)).map_err(|e| e.within(&call.to_string()))?;
        let workspace = plan.plan.workspace;
        self.dnn.convolutions.borrow_mut().insert(*call, plan);
        Ok(workspace)
    }

    /// What cuDNN would take to compute it: the workspace in bytes, and how the engine is set. Nothing is built where the library can tell
    /// without, and nothing is kept.
    ///
    /// # Errors
    /// The library computes no such convolution, or a call fails.
    pub fn ask_convolution(&self, call: &Convolution) -> Result<(u64, Settings), CudaError> {
        let handle = self.dnn_handle()?;
        let (answer, _) = choose(handle, call, |_, config| {
            let bytes = match config.number(Name::CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) {
                Ok(bytes) => u64::try_from(bytes).unwrap_or(0),
                Err(_) => Plan::of(handle, config)?.workspace,
            };
            // How the engine is set may stay unknown; the answer holds all the same.
            Ok(Some((bytes, settings(config).unwrap_or_default())))
        })?;
        Ok(answer)
    }

    /// Computes what the call's direction says from the two other tensors.
    ///
    /// # Panics
    /// The workspace is less than the call asks for.
    pub fn convolve(&self, call: &Convolution, tensors: ConvolutionTensors, workspace: Workspace) {
        self.attempt(|| {
            let asked = self.convolution_workspace(call)?;
            assert!(workspace.bytes >= asked, "a convolution gets the workspace that it asks for");
            let handle = self.dnn_handle()?;
            let mut plans = self.dnn.convolutions.borrow_mut();
            let plan = plans.get_mut(call).expect("it was made to ask for its workspace");
            while let Err(refused) = execute(handle, plan, tensors, workspace) {
                // What a lost GPU answers says nothing of the plan.
                self.synchronize()?;
                if !refused.is_of_the_plan() {
                    return Err(refused.within(&call.to_string()));
                }
                // A plan that was built may still be refused when it is run. The next has the workspace that is there.
                let Ok(next) = self.counted(|| make(handle, call, plan.number + 1, workspace.bytes)) else {
                    return Err(refused.within(&call.to_string()));
                };
                *plan = next;
            }
            Ok(())
        });
    }
}

fn execute(handle: sys::cudnnHandle_t, plan: &ConvolutionPlan, tensors: ConvolutionTensors, workspace: Workspace) -> Result<(), CudaError> {
    // Live blocks of the plan's shapes, and a workspace of at least its size, as whoever owns them promises.
    plan.plan.execute(handle, &NAMES, &[tensors.x, tensors.y, tensors.w].map(|address| address as *mut c_void), workspace.address)
}

/// The first plan of the lists, from place `first` on, that can be built and works in at most `most` bytes.
fn make(handle: sys::cudnnHandle_t, call: &Convolution, first: usize, most: u64) -> Result<ConvolutionPlan, CudaError> {
    let ((plan, number), made_of) = choose(handle, call, |number, config| {
        if number < first {
            return Ok(None);
        }
        let plan = Plan::of(handle, config)?;
        Ok((plan.workspace <= most).then_some((plan, number)))
    })?;
    Ok(ConvolutionPlan { plan, number, _made_of: made_of })
}

/// What `take` makes of the first of the lists' engine configurations that it takes, given each with its place; and what that is made of.
/// An error of `take` passes on to the next, and is told where none is taken.
fn choose<T>(
    handle: sys::cudnnHandle_t,
    call: &Convolution,
    mut take: impl FnMut(usize, &Descriptor) -> Result<Option<T>, CudaError>,
) -> Result<(T, Parts), CudaError> {
    let mut made_of = operation(handle, call)?;
    let mut refused = None;
    let mut place = 0..;
    for mode in [Mode::CUDNN_HEUR_MODE_INSTANT, Mode::CUDNN_HEUR_MODE_FALLBACK] {
        let (heuristics, configurations) = match configurations(made_of.last(), mode) {
            Ok(named) => named,
            Err(e) => {
                refused = Some(e);
                continue;
            }
        };
        for config in configurations {
            let number = place.next().expect("there are fewer plans than numbers");
            if call.dtype == DType::F32 && narrows_inputs(&config)? {
                continue;
            }
            match take(number, &config) {
                Ok(None) => {}
                Ok(Some(taken)) => {
                    made_of.push(heuristics);
                    made_of.push(config);
                    return Ok((taken, made_of));
                }
                Err(e) => refused = Some(e),
            }
        }
    }
    Err(refused.unwrap_or_else(CudaError::no_engine))
}

/// How a configuration sets its engine, as far as a workspace depends on it.
fn settings(config: &Descriptor) -> Result<Settings, CudaError> {
    /// More than any engine has.
    const KNOBS: usize = 32;
    let mut settings = Settings::default();
    for knob in config.referred_up_to(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, KNOBS)? {
        // As a number: a newer library may have knobs that this program has no name for.
        let kind = knob.values::<u32, 1>(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, u32::MAX)?;
        let known = [
            (Knob::CUDNN_KNOB_TYPE_TILE_SIZE, &mut settings.tile_size),
            (Knob::CUDNN_KNOB_TYPE_TILE_CGA_M, &mut settings.tile_cga_m),
            (Knob::CUDNN_KNOB_TYPE_TILE_CGA_N, &mut settings.tile_cga_n),
            (Knob::CUDNN_KNOB_TYPE_WORKSPACE, &mut settings.workspace),
            (Knob::CUDNN_KNOB_TYPE_SPLIT_K, &mut settings.split_k),
            (Knob::CUDNN_KNOB_TYPE_SPLIT_K_BUF, &mut settings.split_k_buf),
        ];
        if let Some((_, value)) = known.into_iter().find(|(name, _)| kind.first() == Some(&(*name as u32))) {
            *value = i32::try_from(knob.number(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?).ok();
        }
    }
    Ok(settings)
}

/// PyTorch leaves out engines that round f32 inputs to halves.
fn narrows_inputs(config: &Descriptor) -> Result<bool, CudaError> {
    const NOTES: usize = 16;
    let engine = config.referred_one(Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    // As numbers: a newer library may have notes that this program has no name for.
    let notes = engine.values::<u32, NOTES>(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE, 0)?;
    Ok(notes.contains(&(Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS as u32)))
}

/// The graph of one operation, after everything that it is made of.
fn operation(handle: sys::cudnnHandle_t, call: &Convolution) -> Result<Parts, CudaError> {
    let [x, y, w] = [call.input, call.output(), call.weight];
    let mut parts = Parts::default();
    for (dims, name) in [x, y, w].into_iter().zip(NAMES) {
        parts.push(tensor(data_type(call.dtype), dims, contiguous(dims), name)?.finalize()?);
    }
    parts.push(window(call)?);
    use Name as N;
    let (kind, [convolution, of_x, of_y, of_w, alpha, beta]) = match call.direction {
        Direction::Forward => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            ],
        ),
        Direction::GradInput => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
        Direction::GradWeight => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
    };
    let operation = Descriptor::new(kind)?;
    operation.refer(of_x, &[&parts[0]])?;
    operation.refer(of_y, &[&parts[1]])?;
    operation.refer(of_w, &[&parts[2]])?;
    operation.refer(convolution, &[&parts[3]])?;
    if call.dtype == DType::F64 {
        operation.set(alpha, Type::CUDNN_TYPE_DOUBLE, &[1f64])?;
        operation.set(beta, Type::CUDNN_TYPE_DOUBLE, &[0f64])?;
    } else {
        operation.set(alpha, Type::CUDNN_TYPE_FLOAT, &[1f32])?;
        operation.set(beta, Type::CUDNN_TYPE_FLOAT, &[0f32])?;
    }
    let operation = operation.finalize()?;
    let graph = graph(handle, &[&operation])?;
    parts.push(operation);
    parts.push(graph);
    Ok(parts)
}

/// How the window moves.
fn window(call: &Convolution) -> Result<Descriptor, CudaError> {
    let pair = |p: [u64; 2]| p.map(u64::cast_signed);
    let window = Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
    window.set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[sum_type(call.dtype)])?;
    let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    window.set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, Type::CUDNN_TYPE_CONVOLUTION_MODE, &[mode])?;
    window.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Type::CUDNN_TYPE_INT64, &[2i64])?;
    window.set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Type::CUDNN_TYPE_INT64, &pair(call.padding))?;
    window.set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Type::CUDNN_TYPE_INT64, &pair(call.padding))?;
    window.set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, Type::CUDNN_TYPE_INT64, &pair(call.dilation))?;
    window.set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Type::CUDNN_TYPE_INT64, &pair(call.stride))?;
    window.finalize()
}
