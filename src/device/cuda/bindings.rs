//! The C functions of NVIDIA's libraries that this program calls, bound to the library that [`Library`](super::library::Library) found.
//!
//! Types are cudarc's; its functions are not used (but the driver's), for they load libraries by a search of their own, and a process that
//! holds two copies of cuBLAS crashes. To call one more, add its line: the signature is that of cudarc's `sys` module of the same name.
//! Invariant: `functions` of a module is what `Library` asks a file for before it takes it, so every function here is there.

use std::ffi::{c_char, c_int, c_longlong, c_ulonglong, c_void};

use super::library::Library;

/// Binds functions: each looks itself up when first called.
macro_rules! functions {
    ($library:expr; $( fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty; )+) => {
        /// What a file must have to be this library.
        pub(in crate::device::cuda) const FUNCTIONS: &[&str] = &[$(stringify!($name)),+];

        $(
            /// As the library's documentation says.
            ///
            /// # Safety
            /// That documentation's conditions hold.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub(in crate::device::cuda) unsafe fn $name($($argument: $type),*) -> $result {
                static FUNCTION: std::sync::OnceLock<unsafe extern "C" fn($($type),*) -> $result> = std::sync::OnceLock::new();
                // SAFETY: the type is the function's in NVIDIA's header.
                let function = FUNCTION.get_or_init(|| unsafe { $library.function(stringify!($name)) });
                // SAFETY: the caller's.
                unsafe { function($($argument),*) }
            }
        )+
    };
}

/// What cudarc knows of the driver by its newest name alone, which older drivers lack.
pub(super) mod driver {
    use super::*;
    use cudarc::driver::sys::{CUevent, CUresult};

    functions! {
        Library::Driver;
        fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> CUresult;
    }
}

/// NVRTC: the run-time compiler.
pub(super) mod nvrtc {
    pub(in crate::device::cuda) use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};

    use super::*;

    functions! {
        Library::Nvrtc;
        fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> nvrtcResult;
        fn nvrtcGetNumSupportedArchs(num_archs: *mut c_int) -> nvrtcResult;
        fn nvrtcGetSupportedArchs(supported_archs: *mut c_int) -> nvrtcResult;
        fn nvrtcCreateProgram(
            prog: *mut nvrtcProgram,
            src: *const c_char,
            name: *const c_char,
            num_headers: c_int,
            headers: *const *const c_char,
            include_names: *const *const c_char,
        ) -> nvrtcResult;
        fn nvrtcDestroyProgram(prog: *mut nvrtcProgram) -> nvrtcResult;
        fn nvrtcCompileProgram(prog: nvrtcProgram, num_options: c_int, options: *const *const c_char) -> nvrtcResult;
        fn nvrtcGetProgramLogSize(prog: nvrtcProgram, log_size_ret: *mut usize) -> nvrtcResult;
        fn nvrtcGetProgramLog(prog: nvrtcProgram, log: *mut c_char) -> nvrtcResult;
        fn nvrtcGetPTXSize(prog: nvrtcProgram, ptx_size_ret: *mut usize) -> nvrtcResult;
        fn nvrtcGetPTX(prog: nvrtcProgram, ptx: *mut c_char) -> nvrtcResult;
        fn nvrtcGetCUBINSize(prog: nvrtcProgram, cubin_size_ret: *mut usize) -> nvrtcResult;
        fn nvrtcGetCUBIN(prog: nvrtcProgram, cubin: *mut c_char) -> nvrtcResult;
    }
}

/// cuBLAS.
pub(super) mod cublas {
    pub(in crate::device::cuda) use cudarc::cublas::sys::{
        cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cublasStatus_t, cudaDataType, libraryPropertyType,
        libraryPropertyType_t,
    };

    use super::*;

    functions! {
        Library::Cublas;
        fn cublasCreate_v2(handle: *mut cublasHandle_t) -> cublasStatus_t;
        fn cublasDestroy_v2(handle: cublasHandle_t) -> cublasStatus_t;
        fn cublasGetProperty(kind: libraryPropertyType, value: *mut c_int) -> cublasStatus_t;
        fn cublasSetWorkspace_v2(handle: cublasHandle_t, workspace: *mut c_void, workspace_size_in_bytes: usize) -> cublasStatus_t;
        fn cublasGemmEx(
            handle: cublasHandle_t,
            transa: cublasOperation_t,
            transb: cublasOperation_t,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            atype: cudaDataType,
            lda: c_int,
            b: *const c_void,
            btype: cudaDataType,
            ldb: c_int,
            beta: *const c_void,
            c: *mut c_void,
            ctype: cudaDataType,
            ldc: c_int,
            compute_type: cublasComputeType_t,
            algo: cublasGemmAlgo_t,
        ) -> cublasStatus_t;
        fn cublasGemmStridedBatchedEx(
            handle: cublasHandle_t,
            transa: cublasOperation_t,
            transb: cublasOperation_t,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            atype: cudaDataType,
            lda: c_int,
            stride_a: c_longlong,
            b: *const c_void,
            btype: cudaDataType,
            ldb: c_int,
            stride_b: c_longlong,
            beta: *const c_void,
            c: *mut c_void,
            ctype: cudaDataType,
            ldc: c_int,
            stride_c: c_longlong,
            batch_count: c_int,
            compute_type: cublasComputeType_t,
            algo: cublasGemmAlgo_t,
        ) -> cublasStatus_t;
    }
}

/// cuBLASLt.
pub(super) mod cublaslt {
    pub(in crate::device::cuda) use cudarc::cublaslt::sys::{
        cublasComputeType_t, cublasLtEpilogue_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
        cublasLtMatmulDescAttributes_t, cublasLtMatmulHeuristicResult_t, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
        cublasLtMatrixLayout_t, cublasStatus_t, cudaDataType, cudaDataType_t, cudaStream_t,
    };

    use super::*;

    functions! {
        Library::CublasLt;
        fn cublasLtCreate(light_handle: *mut cublasLtHandle_t) -> cublasStatus_t;
        fn cublasLtDestroy(light_handle: cublasLtHandle_t) -> cublasStatus_t;
        fn cublasLtGetVersion() -> usize;
        fn cublasLtMatmul(
            light_handle: cublasLtHandle_t,
            compute_desc: cublasLtMatmulDesc_t,
            alpha: *const c_void,
            a: *const c_void,
            adesc: cublasLtMatrixLayout_t,
            b: *const c_void,
            bdesc: cublasLtMatrixLayout_t,
            beta: *const c_void,
            c: *const c_void,
            cdesc: cublasLtMatrixLayout_t,
            d: *mut c_void,
            ddesc: cublasLtMatrixLayout_t,
            algo: *const cublasLtMatmulAlgo_t,
            workspace: *mut c_void,
            workspace_size_in_bytes: usize,
            stream: cudaStream_t,
        ) -> cublasStatus_t;
        fn cublasLtMatmulAlgoCheck(
            light_handle: cublasLtHandle_t,
            operation_desc: cublasLtMatmulDesc_t,
            adesc: cublasLtMatrixLayout_t,
            bdesc: cublasLtMatrixLayout_t,
            cdesc: cublasLtMatrixLayout_t,
            ddesc: cublasLtMatrixLayout_t,
            algo: *const cublasLtMatmulAlgo_t,
            result: *mut cublasLtMatmulHeuristicResult_t,
        ) -> cublasStatus_t;
        fn cublasLtMatmulAlgoGetHeuristic(
            light_handle: cublasLtHandle_t,
            operation_desc: cublasLtMatmulDesc_t,
            adesc: cublasLtMatrixLayout_t,
            bdesc: cublasLtMatrixLayout_t,
            cdesc: cublasLtMatrixLayout_t,
            ddesc: cublasLtMatrixLayout_t,
            preference: cublasLtMatmulPreference_t,
            requested_algo_count: c_int,
            heuristic_results_array: *mut cublasLtMatmulHeuristicResult_t,
            return_algo_count: *mut c_int,
        ) -> cublasStatus_t;
        fn cublasLtMatmulDescCreate(
            matmul_desc: *mut cublasLtMatmulDesc_t,
            compute_type: cublasComputeType_t,
            scale_type: cudaDataType_t,
        ) -> cublasStatus_t;
        fn cublasLtMatmulDescDestroy(matmul_desc: cublasLtMatmulDesc_t) -> cublasStatus_t;
        fn cublasLtMatmulDescSetAttribute(
            matmul_desc: cublasLtMatmulDesc_t,
            attr: cublasLtMatmulDescAttributes_t,
            buf: *const c_void,
            size_in_bytes: usize,
        ) -> cublasStatus_t;
        fn cublasLtMatmulPreferenceCreate(pref: *mut cublasLtMatmulPreference_t) -> cublasStatus_t;
        fn cublasLtMatmulPreferenceDestroy(pref: cublasLtMatmulPreference_t) -> cublasStatus_t;
        fn cublasLtMatmulPreferenceSetAttribute(
            pref: cublasLtMatmulPreference_t,
            attr: cublasLtMatmulPreferenceAttributes_t,
            buf: *const c_void,
            size_in_bytes: usize,
        ) -> cublasStatus_t;
        fn cublasLtMatrixLayoutCreate(
            mat_layout: *mut cublasLtMatrixLayout_t,
            kind: cudaDataType,
            rows: u64,
            cols: u64,
            ld: i64,
        ) -> cublasStatus_t;
        fn cublasLtMatrixLayoutDestroy(mat_layout: cublasLtMatrixLayout_t) -> cublasStatus_t;
    }
}

/// cuDNN.
pub(super) mod cudnn {
    pub(in crate::device::cuda) use cudarc::cudnn::sys::{
        cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t, cudnnBackendDescriptorType_t,
        cudnnBackendHeurMode_t, cudnnBackendKnobType_t, cudnnBackendNumericalNote_t, cudnnConvolutionMode_t, cudnnDataType_t,
        cudnnDirectionMode_t, cudnnDropoutDescriptor_t, cudnnForwardMode_t, cudnnHandle_t, cudnnMathType_t, cudnnPointwiseMode_t,
        cudnnRNNAlgo_t, cudnnRNNBiasMode_t, cudnnRNNDataDescriptor_t, cudnnRNNDataLayout_t, cudnnRNNDescriptor_t, cudnnRNNInputMode_t,
        cudnnRNNMode_t, cudnnReduceTensorOp_t, cudnnStatus_t, cudnnTensorDescriptor_t, cudnnWgradMode_t,
    };

    use super::*;

    functions! {
        Library::Cudnn;
        fn cudnnGetVersion() -> usize;
        fn cudnnCreate(handle: *mut cudnnHandle_t) -> cudnnStatus_t;
        fn cudnnDestroy(handle: cudnnHandle_t) -> cudnnStatus_t;
        fn cudnnGetLastErrorString(message: *mut c_char, max_size: usize) -> ();
        fn cudnnBackendCreateDescriptor(kind: cudnnBackendDescriptorType_t, descriptor: *mut cudnnBackendDescriptor_t) -> cudnnStatus_t;
        fn cudnnBackendDestroyDescriptor(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t;
        fn cudnnBackendFinalize(descriptor: cudnnBackendDescriptor_t) -> cudnnStatus_t;
        fn cudnnBackendSetAttribute(
            descriptor: cudnnBackendDescriptor_t,
            name: cudnnBackendAttributeName_t,
            kind: cudnnBackendAttributeType_t,
            count: i64,
            elements: *const c_void,
        ) -> cudnnStatus_t;
        fn cudnnBackendGetAttribute(
            descriptor: cudnnBackendDescriptor_t,
            name: cudnnBackendAttributeName_t,
            kind: cudnnBackendAttributeType_t,
            requested: i64,
            count: *mut i64,
            elements: *mut c_void,
        ) -> cudnnStatus_t;
        fn cudnnBackendExecute(
            handle: cudnnHandle_t,
            plan: cudnnBackendDescriptor_t,
            pack: cudnnBackendDescriptor_t,
        ) -> cudnnStatus_t;
        fn cudnnCreateTensorDescriptor(descriptor: *mut cudnnTensorDescriptor_t) -> cudnnStatus_t;
        fn cudnnDestroyTensorDescriptor(descriptor: cudnnTensorDescriptor_t) -> cudnnStatus_t;
        fn cudnnSetTensorNdDescriptor(
            descriptor: cudnnTensorDescriptor_t,
            dtype: cudnnDataType_t,
            rank: c_int,
            dims: *const c_int,
            strides: *const c_int,
        ) -> cudnnStatus_t;
        fn cudnnCreateDropoutDescriptor(descriptor: *mut cudnnDropoutDescriptor_t) -> cudnnStatus_t;
        fn cudnnDestroyDropoutDescriptor(descriptor: cudnnDropoutDescriptor_t) -> cudnnStatus_t;
        fn cudnnSetDropoutDescriptor(
            descriptor: cudnnDropoutDescriptor_t,
            handle: cudnnHandle_t,
            dropout: f32,
            states: *mut c_void,
            state_size: usize,
            seed: c_ulonglong,
        ) -> cudnnStatus_t;
        fn cudnnCreateRNNDescriptor(descriptor: *mut cudnnRNNDescriptor_t) -> cudnnStatus_t;
        fn cudnnDestroyRNNDescriptor(descriptor: cudnnRNNDescriptor_t) -> cudnnStatus_t;
        fn cudnnSetRNNDescriptor_v8(
            descriptor: cudnnRNNDescriptor_t,
            algorithm: cudnnRNNAlgo_t,
            cell: cudnnRNNMode_t,
            bias: cudnnRNNBiasMode_t,
            directions: cudnnDirectionMode_t,
            input: cudnnRNNInputMode_t,
            dtype: cudnnDataType_t,
            precision: cudnnDataType_t,
            math: cudnnMathType_t,
            input_size: i32,
            hidden_size: i32,
            projection_size: i32,
            layers: i32,
            dropout: cudnnDropoutDescriptor_t,
            flags: u32,
        ) -> cudnnStatus_t;
        fn cudnnCreateRNNDataDescriptor(descriptor: *mut cudnnRNNDataDescriptor_t) -> cudnnStatus_t;
        fn cudnnDestroyRNNDataDescriptor(descriptor: cudnnRNNDataDescriptor_t) -> cudnnStatus_t;
        fn cudnnSetRNNDataDescriptor(
            descriptor: cudnnRNNDataDescriptor_t,
            dtype: cudnnDataType_t,
            layout: cudnnRNNDataLayout_t,
            length: c_int,
            batch: c_int,
            features: c_int,
            lengths: *const c_int,
            fill: *mut c_void,
        ) -> cudnnStatus_t;
        fn cudnnGetRNNWeightSpaceSize(handle: cudnnHandle_t, network: cudnnRNNDescriptor_t, size: *mut usize) -> cudnnStatus_t;
        fn cudnnGetRNNTempSpaceSizes(
            handle: cudnnHandle_t,
            network: cudnnRNNDescriptor_t,
            mode: cudnnForwardMode_t,
            x: cudnnRNNDataDescriptor_t,
            workspace: *mut usize,
            reserve: *mut usize,
        ) -> cudnnStatus_t;
        fn cudnnGetRNNWeightParams(
            handle: cudnnHandle_t,
            network: cudnnRNNDescriptor_t,
            pseudo_layer: i32,
            weights_size: usize,
            weights: *const c_void,
            part: i32,
            matrix: cudnnTensorDescriptor_t,
            matrix_address: *mut *mut c_void,
            bias: cudnnTensorDescriptor_t,
            bias_address: *mut *mut c_void,
        ) -> cudnnStatus_t;
        fn cudnnRNNForward(
            handle: cudnnHandle_t,
            network: cudnnRNNDescriptor_t,
            mode: cudnnForwardMode_t,
            lengths: *const i32,
            x_descriptor: cudnnRNNDataDescriptor_t,
            x: *const c_void,
            y_descriptor: cudnnRNNDataDescriptor_t,
            y: *mut c_void,
            h_descriptor: cudnnTensorDescriptor_t,
            hx: *const c_void,
            hy: *mut c_void,
            c_descriptor: cudnnTensorDescriptor_t,
            cx: *const c_void,
            cy: *mut c_void,
            weights_size: usize,
            weights: *const c_void,
            workspace_size: usize,
            workspace: *mut c_void,
            reserve_size: usize,
            reserve: *mut c_void,
        ) -> cudnnStatus_t;
        fn cudnnRNNBackwardData_v8(
            handle: cudnnHandle_t,
            network: cudnnRNNDescriptor_t,
            lengths: *const i32,
            y_descriptor: cudnnRNNDataDescriptor_t,
            y: *const c_void,
            dy: *const c_void,
            x_descriptor: cudnnRNNDataDescriptor_t,
            dx: *mut c_void,
            h_descriptor: cudnnTensorDescriptor_t,
            hx: *const c_void,
            dhy: *const c_void,
            dhx: *mut c_void,
            c_descriptor: cudnnTensorDescriptor_t,
            cx: *const c_void,
            dcy: *const c_void,
            dcx: *mut c_void,
            weights_size: usize,
            weights: *const c_void,
            workspace_size: usize,
            workspace: *mut c_void,
            reserve_size: usize,
            reserve: *mut c_void,
        ) -> cudnnStatus_t;
        fn cudnnRNNBackwardWeights_v8(
            handle: cudnnHandle_t,
            network: cudnnRNNDescriptor_t,
            adding: cudnnWgradMode_t,
            lengths: *const i32,
            x_descriptor: cudnnRNNDataDescriptor_t,
            x: *const c_void,
            h_descriptor: cudnnTensorDescriptor_t,
            hx: *const c_void,
            y_descriptor: cudnnRNNDataDescriptor_t,
            y: *const c_void,
            weights_size: usize,
            dweights: *mut c_void,
            workspace_size: usize,
            workspace: *mut c_void,
            reserve_size: usize,
            reserve: *mut c_void,
        ) -> cudnnStatus_t;
    }
}
