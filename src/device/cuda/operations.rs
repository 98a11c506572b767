//! Graphs of several operations that cuDNN computes in one kernel: tensors, the operations between them, and the graph of all.
//!
//! Invariant: the parts are in the order in which they were made, so none refers to a later one.

use super::bindings::cudnn::{
    self as sys, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnDataType_t, cudnnPointwiseMode_t, cudnnReduceTensorOp_t,
};

use super::error::CudaError;
use super::graph::{Descriptor, Parts, contiguous, graph, tensor};

/// What operations compute in.
const PRECISION: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_FLOAT;

/// A tensor of four dimensions in a graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    place: usize,
    /// Its dimensions.
    pub(super) dims: [u64; 4],
}

/// Where a tensor's elements are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// In memory, under a name that is not negative.
    Memory(i64),
    /// One number, on the host, under a name.
    Host(i64),
    /// Nowhere: one operation makes it, others read it, and nothing is kept.
    Nowhere,
}

/// A graph in the making.
#[derive(Debug, Default)]
pub(super) struct Operations {
    parts: Parts,
    operations: Vec<usize>,
    nameless: i64,
}

impl Operations {
    /// A tensor.
    pub(super) fn tensor(&mut self, place: Place, kind: cudnnDataType_t, dims: [u64; 4], strides: [u64; 4]) -> Result<Node, CudaError> {
        let name = match place {
            Place::Memory(name) | Place::Host(name) => name,
            Place::Nowhere => {
                self.nameless -= 1;
                self.nameless
            }
        };
        let tensor = tensor(kind, dims, strides, name)?;
        match place {
            Place::Memory(_) => {}
            Place::Host(_) => tensor.set(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, Type::CUDNN_TYPE_BOOLEAN, &[true])?,
            Place::Nowhere => tensor.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, Type::CUDNN_TYPE_BOOLEAN, &[true])?,
        }
        Ok(Node { place: self.parts.push(tensor.finalize()?), dims })
    }

    /// A contiguous tensor that is nowhere.
    pub(super) fn between(&mut self, kind: cudnnDataType_t, dims: [u64; 4]) -> Result<Node, CudaError> {
        self.tensor(Place::Nowhere, kind, dims, contiguous(dims))
    }

    /// A number in f32, on the host.
    pub(super) fn number(&mut self, name: i64) -> Result<Node, CudaError> {
        self.tensor(Place::Host(name), PRECISION, [1; 4], [1; 4])
    }

    /// `y`, element by element, of one to three tensors.
    pub(super) fn pointwise(&mut self, mode: cudnnPointwiseMode_t, of: &[Node], y: Node) -> Result<Node, CudaError> {
        let how = Self::pointwise_how(mode)?;
        self.apply_pointwise(how, of, y)
    }

    /// `y`, each element its own place along an axis of `x`.
    pub(super) fn index(&mut self, axis: i64, x: Node, y: Node) -> Result<Node, CudaError> {
        let how = Self::pointwise_how(cudnnPointwiseMode_t::CUDNN_POINTWISE_GEN_INDEX)?;
        how.set(Name::CUDNN_ATTR_POINTWISE_AXIS, Type::CUDNN_TYPE_INT64, &[axis])?;
        self.apply_pointwise(how, &[x], y)
    }

    fn pointwise_how(mode: cudnnPointwiseMode_t) -> Result<Descriptor, CudaError> {
        let how = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
        how.set(Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, &[mode])?;
        how.set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, &[PRECISION])?;
        Ok(how)
    }

    fn apply_pointwise(&mut self, how: Descriptor, of: &[Node], y: Node) -> Result<Node, CudaError> {
        const READ: [Name; 3] = [
            Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
            Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
            Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
        ];
        let tensors: Vec<(Name, Node)> = READ.into_iter().zip(of.iter().copied()).collect();
        let kind = Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
        self.operation(kind, Some((Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)), &tensors)
            .and_then(|made| self.end(made, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y))
    }

    /// `c = a · b` of the last two dimensions.
    pub(super) fn matmul(&mut self, [a, b]: [Node; 2], c: Node) -> Result<Node, CudaError> {
        let how = Descriptor::new(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?;
        how.set(Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[PRECISION])?;
        let tensors = [(Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, a), (Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)];
        let kind = Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
        self.operation(kind, Some((Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, how)), &tensors)
            .and_then(|made| self.end(made, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, c))
    }

    /// `y`, each element of several of `x`: along those dimensions that it has fewer of.
    pub(super) fn reduce(&mut self, by: cudnnReduceTensorOp_t, x: Node, y: Node) -> Result<Node, CudaError> {
        let how = Descriptor::new(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?;
        how.set(Name::CUDNN_ATTR_REDUCTION_OPERATOR, Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &[by])?;
        how.set(Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[PRECISION])?;
        let kind = Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
        self.operation(kind, Some((Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, how)), &[(Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)])
            .and_then(|made| self.end(made, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y))
    }

    /// `y`, the elements of `x` with other dimensions or strides.
    pub(super) fn reshape(&mut self, x: Node, y: Node) -> Result<Node, CudaError> {
        let kind = Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
        self.operation(kind, None, &[(Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x)])
            .and_then(|made| self.end(made, Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y))
    }

    fn operation(&mut self, kind: Kind, how: Option<(Name, Descriptor)>, reads: &[(Name, Node)]) -> Result<Descriptor, CudaError> {
        let operation = Descriptor::new(kind)?;
        if let Some((name, how)) = how {
            let place = self.parts.push(how.finalize()?);
            operation.refer(name, &[&self.parts[place]])?;
        }
        for (name, tensor) in reads {
            operation.refer(*name, &[&self.parts[tensor.place]])?;
        }
        Ok(operation)
    }

    fn end(&mut self, operation: Descriptor, name: Name, y: Node) -> Result<Node, CudaError> {
        operation.refer(name, &[&self.parts[y.place]])?;
        let place = self.parts.push(operation.finalize()?);
        self.operations.push(place);
        Ok(y)
    }

    /// All parts, the graph last.
    pub(super) fn finish(mut self, handle: sys::cudnnHandle_t) -> Result<Parts, CudaError> {
        let operations: Vec<&Descriptor> = self.operations.iter().map(|&place| &self.parts[place]).collect();
        let graph = graph(handle, &operations)?;
        self.parts.push(graph);
        Ok(self.parts)
    }
}
