//! The executor on the virtual device: what must hold whatever the numbers are.

use std::cell::Cell;
use std::rc::Rc;

use runner::alloc::{Allocator, AllocatorConfig, Backing, BackingError, Failing, Placement};
use runner::autograd::{Parameter, Tape, Variable, backward};
use runner::device::Device;
use runner::exec::Exec;
use runner::gpu::Gpu;
use runner::meta::{DType, Shape, TensorMeta};
use runner::model::{Plan, Work};
use runner::ops::Operator;
use runner::ops::batch_norm::rule::BatchNorm;
use runner::ops::gelu::rule::Gelu;
use runner::ops::kernel::OpKernel;
use runner::ops::rule::{Effect, RuleContext};
use runner::record::{Category, Measured, MicroStep, Phase, Status};
use runner::tensor::{Memory, Tensor};
use runner::train::{Observer, train};

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

/// Some of everything that holds memory: checkpoints, accumulation, autocast with its scaler, kept graphs.
const BUSY: &str = r#"
[model]
input = { features = [16, 256] }
layers = [
  { linear = { out_features = 256 } },
  { checkpoint = { layers = ["gelu", { checkpoint = { layers = [{ linear = { out_features = 512 } }, "silu"] } }, { linear = { out_features = 256 } }] } },
  { residual = { layers = ["layer_norm", { dropout = { p = 0.1 } }] } },
  { linear = { out_features = 10 } },
]

[train]
batch_size = 512
amp = "f16"
steps = 2
accumulation_steps = 2
keep_loss = "list"
loss = "cross_entropy"
optimizer = { adamw = { lr = 0.001, implementation = "for_loop" } }
"#;

fn plan(text: &str) -> Rc<Plan> {
    let experiment = runner::experiment::load_str("test", text, &[]).unwrap();
    match experiment.cases.into_iter().next().unwrap().work {
        Work::Train(plan) => Rc::from(plan),
        Work::Script(_) => panic!("it trains"),
    }
}

#[derive(Default)]
struct Rows(Vec<Measured>);

impl Observer for Rows {
    fn row(&mut self, row: &Measured) {
        self.0.push(*row);
    }

    fn micro_step(&mut self, _: &MicroStep) {}
}

/// Counts what is out.
struct Counting {
    inner: Placement,
    out: Rc<Cell<u64>>,
}

impl Backing for Counting {
    fn total_memory(&self) -> u64 {
        self.inner.total_memory()
    }

    fn free_memory(&self) -> u64 {
        self.inner.free_memory()
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError> {
        let address = self.inner.allocate(bytes)?;
        self.out.set(self.out.get() + bytes);
        Ok(address)
    }

    fn release(&mut self, address: u64, bytes: u64) {
        self.inner.release(address, bytes);
        self.out.set(self.out.get() - bytes);
    }

    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError> {
        self.inner.reserve(bytes)
    }

    fn unreserve(&mut self, address: u64, bytes: u64) {
        self.inner.unreserve(address, bytes);
    }

    fn map(&mut self, address: u64, pages: u64, page: u64) -> Result<(), BackingError> {
        self.inner.map(address, pages, page)
    }

    fn unmap(&mut self, address: u64, pages: u64, page: u64) {
        self.inner.unmap(address, pages, page);
    }
}

#[test]
fn running_out_at_any_segment_gives_an_oom_row_and_leaks_nothing() {
    let plan = plan(BUSY);
    let gpu = Gpu::named("h200").unwrap();
    let mut phases = Vec::new();
    for nth in 1.. {
        let out = Rc::new(Cell::new(0));
        let backing = Failing::new(Counting { inner: Placement::new(gpu.total_memory), out: Rc::clone(&out) }, move |call| call >= nth);
        let exec = Exec::new(gpu.clone(), Device::Virtual, Memory::new(Allocator::new(AllocatorConfig::default(), Box::new(backing))));
        let mut rows = Rows::default();
        let result = train(&plan, &exec, &mut rows);
        let last = rows.0.last().unwrap();
        assert!(rows.0.iter().all(|r| r.categories.total() == r.memory.allocated && r.memory.peak >= r.memory.allocated));
        let workspaces = exec.memory().categories()[Category::Workspace];
        assert_eq!(exec.memory().allocator().allocated(), workspaces, "request {nth}: only the libraries' workspaces outlive a run");
        drop(exec);
        assert_eq!(out.get(), 0, "request {nth}: segments were not given back");
        let Err(error) = result else {
            assert_eq!(last.status, Status::Ok);
            break;
        };
        assert_eq!(last.status, Status::Oom);
        assert_eq!(last.memory.reserved, error.reserved);
        assert!(last.memory.allocated <= error.allocated, "request {nth}: what the failing operator held is gone, and nothing came");
        assert_eq!(rows.0.iter().filter(|r| r.status == Status::Oom).count(), 1);
        phases.push(last.at.phase);
    }
    phases.dedup();
    assert_eq!(phases.first(), Some(&Phase::Model));
    for phase in [Phase::Forward, Phase::Backward, Phase::Optimizer] {
        assert!(phases.contains(&phase), "no request failed in {phase}: {phases:?}");
    }
}

/// Without backward PyTorch lets an operator write into what a checkpoint keeps: the graph then holds itself, step after step.
#[test]
fn graphs_that_keep_themselves_alive_do_so_until_the_end() {
    let plan = plan(
        r#"
[model]
input = { features = [64] }
layers = [{ linear = { out_features = 64 } }, { checkpoint = { layers = [{ relu = { inplace = true } }] } }, { linear = { out_features = 64 } }]

[train]
batch_size = 512
steps = 4
mode = "eval"
"#,
    );
    let exec = exec();
    let mut rows = Rows::default();
    train(&plan, &exec, &mut rows).unwrap();
    let losses: Vec<u64> = rows.0.iter().filter(|r| r.at.phase == Phase::Loss).map(|r| r.memory.allocated).collect();
    let growth: Vec<u64> = losses.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(growth, [2 * 64 * 512 * 4; 3], "a batch and an activation a step: {losses:?}");
    assert_eq!(exec.memory().allocator().allocated(), exec.memory().categories()[Category::Workspace]);
}

#[test]
fn sums_take_the_scratch_seen_on_an_h200() {
    for (shape, to, scratch) in [
        (&[64, 256, 1024][..], &[][..], 2112 + 4),
        (&[8192, 2304], &[2304], 139_198_464 + 72),
        (&[2048, 1024], &[1024], 16_777_216 + 32),
        (&[2048, 3072], &[3072], 50_331_648 + 96),
        (&[64, 256, 1024], &[64, 256, 1], 0),
        (&[32, 10], &[10], 0),
    ] {
        let exec = exec();
        let meta = |dims: &[u64]| TensorMeta::contiguous(Shape::new(dims).unwrap(), DType::F32);
        let tensor = exec.empty(meta(shape)).unwrap();
        let sum = exec.sum_to(&tensor, &Shape::new(to).unwrap()).unwrap();
        assert_eq!(sum.meta(), &meta(to));
        let peak = exec.memory().stats().requested_bytes.all().peak;
        assert_eq!(peak - tensor.meta().bytes() - sum.meta().bytes(), scratch, "{shape:?} to {to:?}");
    }
}

/// No network gives cuDNN anything but contiguous images, so rule and kernel are held together here: what has no kernel of PyTorch's own is
/// copied.
#[test]
fn batch_norm_of_halves_that_lie_transposed_takes_what_its_rule_says() {
    let gpu = Gpu::named("h200").unwrap();
    let op: Operator = BatchNorm { training: true, momentum: 0.1, eps: 1e-5 }.into();
    for (halves, parameters) in [(DType::F16, DType::F32), (DType::F16, DType::F16), (DType::BF16, DType::BF16)] {
        let of = |dims: &[u64], dtype| TensorMeta::contiguous(Shape::new(dims).unwrap(), dtype);
        let mut metas = vec![of(&[5, 6, 12], halves).transposed(0, 1)];
        metas.extend((0..4).map(|_| of(&[5], parameters)));
        metas.push(of(&[], DType::I64));
        let needs = [true, true, true, false, false, false];
        let rule = op.rule().forward(RuleContext::from(gpu), &metas, &needs);
        let said = rule.effects.iter().map(|e| if let Effect::Alloc { bytes, .. } = e { *bytes } else { 0 }).sum::<u64>();
        let exec = exec();
        let inputs: Vec<Tensor> = metas.iter().map(|meta| exec.empty(meta.clone()).unwrap()).collect();
        let asked = || exec.memory().stats().requested_bytes.all().allocated;
        let before = asked();
        let _done = OpKernel::forward(op.kernel(), &exec, &inputs.iter().collect::<Vec<_>>(), &needs).unwrap();
        assert_eq!(asked() - before, said, "{halves}, parameters of type {parameters}");
        let is_copied = said > 5 * 6 * 12 * 4;
        assert_eq!(is_copied, halves == DType::BF16);
    }
}
