//! The executor on the virtual device: what must hold whatever the numbers are.

use std::rc::Rc;

use runner::alloc::{Allocator, AllocatorConfig, Placement};
use runner::autograd::{Parameter, Tape, Variable, backward};
use runner::device::Device;
use runner::exec::Exec;
use runner::gpu::Gpu;
use runner::meta::{DType, Shape, TensorMeta};
use runner::ops::gelu::rule::Gelu;
use runner::tensor::Memory;

fn exec() -> Exec {
    let gpu = Gpu::named("h200").unwrap().clone();
    let backing = Placement::new(gpu.total_memory);
    Exec::new(gpu, Device::Virtual, Memory::new(Allocator::new(AllocatorConfig::default(), Box::new(backing))))
}

fn chain(exec: &Exec, tape: &Tape, parameter: &Parameter, length: usize) -> Variable {
    let mut x = parameter.variable();
    for _ in 0..length {
        x = tape.apply(exec, &Gelu { tanh: false }.into(), &[&x]).unwrap().swap_remove(0);
    }
    x
}

fn parameter(exec: &Exec) -> Parameter {
    Parameter::new(exec.empty(TensorMeta::contiguous(Shape::new([4]).unwrap(), DType::F32)).unwrap())
}

#[test]
fn a_graph_of_100_000_nodes_is_dropped_without_recursion() {
    let exec = exec();
    let parameter = parameter(&exec);
    let tape = Tape::new(true);
    let end = chain(&exec, &tape, &parameter, 100_000);
    assert_eq!(exec.memory().allocator().allocated(), 100_001 * 512);
    drop(end);
    assert_eq!(exec.memory().allocator().allocated(), 512);
}

#[test]
fn backward_over_100_000_nodes_leaves_the_gradient_alone() {
    let exec = exec();
    let parameter = parameter(&exec);
    let tape = Tape::new(true);
    let end = chain(&exec, &tape, &parameter, 100_000);
    let ones = exec.empty_like(end.tensor()).unwrap();
    backward(&exec, &tape, &end, &ones).unwrap();
    drop((end, ones));
    assert_eq!(exec.memory().allocator().allocated(), 2 * 512);
    parameter.zero_grad();
    assert_eq!(exec.memory().allocator().allocated(), 512);
    assert_eq!(Rc::strong_count(exec.memory()), 2, "the parameter's storage is the only one left");
}
