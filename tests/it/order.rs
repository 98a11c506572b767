//! The order of events: what is predicted, what is measured and what PyTorch recorded are the same sizes in the same order, allocation by
//! allocation and free by free. Rows do not see in which order tensors die.
//!
//! At the end of autocast PyTorch empties a map that is hashed by addresses of the host, in an order of its own in every process: no
//! recorded list here is of autocast.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use runner::alloc::{Action, Allocator, Placement};
use runner::device::Device;
use runner::exec::Exec;
use runner::gpu::Gpu;
use runner::model::Work;
use runner::ops::RuleContext;
use runner::predict::{Happening, Listener};
use runner::record::{Measured, MicroStep};
use runner::scratch::Scratch;
use runner::tensor::Memory;
use runner::train::{Observer, follow, train};

use super::fidelity::{fixtures, name, scratch_of};

/// Requested bytes, negative where freed.
type Sizes = Vec<i64>;

fn measured(path: &Path, gpu: &Gpu, scratch: Rc<dyn Scratch>) -> Sizes {
    struct Unheard;
    impl Observer for Unheard {
        fn row(&mut self, _: &Measured) {}
        fn micro_step(&mut self, _: &MicroStep) {}
    }
    let case = runner::experiment::load_with(path, &Default::default(), gpu).unwrap().cases.swap_remove(0);
    let mut allocator = Allocator::new(case.allocator, Box::new(Placement::new(gpu.total_memory)));
    let sizes = Rc::new(RefCell::new(Sizes::new()));
    let heard = Rc::clone(&sizes);
    allocator.listen(Box::new(move |event| match event.action {
        Action::Alloc => heard.borrow_mut().push(event.bytes.cast_signed()),
        Action::Free => heard.borrow_mut().push(-event.bytes.cast_signed()),
        _ => {}
    }));
    let exec = Exec::new(gpu.clone(), Device::Virtual, Memory::new(allocator)).with_scratch(scratch);
    let _ = match case.work {
        Work::Train(plan) => train(&Rc::from(plan), &exec, &mut Unheard),
        Work::Script(script) => follow(&script, &exec, &mut Unheard),
    };
    drop(exec);
    sizes.take()
}

fn predicted(path: &Path, cx: RuleContext<'_>) -> Sizes {
    #[derive(Default)]
    struct Log {
        sizes: Sizes,
        live: BTreeMap<u32, u64>,
    }
    impl Listener for Log {
        fn hear(&mut self, happening: &Happening) {
            match *happening {
                Happening::Allocated { storage, requested, .. } => {
                    self.live.insert(storage, requested);
                    self.sizes.push(requested.cast_signed());
                }
                Happening::Freed { storage } => self.sizes.push(-self.live.remove(&storage).unwrap().cast_signed()),
                Happening::Becomes { .. } | Happening::RanOut(_) | Happening::Row(_) => {}
            }
        }
    }
    let mut log = Log::default();
    let case = runner::experiment::load_with(path, &Default::default(), cx.gpu).unwrap().cases.swap_remove(0);
    let _ = runner::predict::predict_with(&case.work, cx, case.allocator.clone(), Some(&mut log));
    log.sizes.retain(|&size| size != 0);
    log.sizes
}

fn recorded(path: &Path) -> Sizes {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|h| h == name).unwrap();
    let (action, bytes) = (column("action"), column("bytes"));
    let sizes = reader.records().map(Result::unwrap).map(|r| {
        let size: i64 = r[bytes].parse().unwrap();
        if &r[action] == "alloc" { size } else { -size }
    });
    sizes.collect()
}

/// Where two lists part, within the length of the first: what follows is the end of the process.
fn parting(want: &[i64], got: &[i64]) -> Option<String> {
    assert!(!want.is_empty(), "a recording has events");
    let at = (0..want.len()).find(|&i| got.get(i) != Some(&want[i]))?;
    let around = |sizes: &[i64]| format!("{:?}", &sizes[at.saturating_sub(3).min(sizes.len())..(at + 6).min(sizes.len())]);
    Some(format!("at event {at} of {}: {} became {}", want.len(), around(want), around(got)))
}

#[test]
fn both_sides_list_what_pytorch_lists_in_its_order() {
    let (mut off, mut lists) = (Vec::new(), 0);
    for (gpu, case) in fixtures().into_iter().filter(|(_, case)| case.join("events.csv").exists()) {
        lists += 1;
        let (experiment, scratch) = (case.join("experiment.toml"), scratch_of(&case, gpu));
        let want = recorded(&case.join("events.csv"));
        let sides = [
            ("predicted", predicted(&experiment, RuleContext { gpu, scratch: &*scratch })),
            ("measured", measured(&experiment, gpu, Rc::clone(&scratch))),
        ];
        for (side, got) in sides {
            off.extend(parting(&want, &got).map(|parting| format!("{} {side} {parting}", name(&case))));
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
    assert!(lists >= 5, "lists were recorded");
}

#[test]
fn both_sides_list_the_same_sizes_in_the_same_order() {
    let mut off = Vec::new();
    for (gpu, case) in fixtures() {
        let (experiment, scratch) = (case.join("experiment.toml"), scratch_of(&case, gpu));
        let foreseen = predicted(&experiment, RuleContext { gpu, scratch: &*scratch });
        let happened = measured(&experiment, gpu, scratch);
        // The predictor stops at the last row; of the executor's list the end is what dies with the script.
        off.extend(parting(&foreseen, &happened).map(|parting| format!("{} on {} {parting}", name(&case), gpu.name)));
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
}
