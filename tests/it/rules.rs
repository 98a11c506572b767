//! Memory rules against what the unmodified library allocated, operator by operator.

use std::fmt::Write as _;
use std::path::Path;

use runner::gpu::Gpu;
use runner::meta::{DType, Shape, TensorMeta};
use runner::ops::recipe::Recipe;
use runner::ops::reduction::Reduction;
use runner::ops::rule::Effect;

fn dtype(name: &str) -> DType {
    [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().find(|d| d.name() == name).unwrap()
}

fn numbers(text: &str) -> Vec<u64> {
    text.split('x').map(|n| n.parse().unwrap()).collect()
}

/// `+bytes` and `-bytes`, in order.
fn written(effects: &[Effect]) -> String {
    let mut sizes = Vec::new();
    let mut text = String::new();
    for effect in effects {
        match *effect {
            Effect::Alloc { bytes, .. } => {
                sizes.push(bytes);
                write!(text, " +{bytes}").unwrap();
            }
            Effect::Free(slot) => write!(text, " -{}", sizes[slot]).unwrap(),
            _ => panic!("a reduction only allocates and frees"),
        }
    }
    text.trim_start().to_owned()
}

/// `reductions.csv`: sums and means over random shapes, some too large for 32-bit offsets, some of one element spread with stride 0:
/// what was allocated and freed after the output, on an H200.
#[test]
fn reductions_take_the_librarys_scratch() {
    let gpu = Gpu::named("h200").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rules/reductions.csv");
    let mut split = 0;
    for record in csv::Reader::from_path(path).unwrap().records() {
        let r = record.unwrap();
        let shape = Shape::new(numbers(&r[2])).unwrap();
        let mut reduced = vec![false; shape.rank()];
        numbers(&r[3]).into_iter().for_each(|d| reduced[usize::try_from(d).unwrap()] = true);
        let layout = if &r[4] == "expanded" { TensorMeta::expanded } else { TensorMeta::contiguous };
        let mut recipe = Recipe::new();
        Reduction::new(&layout(shape, dtype(&r[0])), &reduced, dtype(&r[1])).scratch_into(&mut recipe, gpu);
        assert_eq!(written(&recipe.into_effects()), r[5], "{r:?}");
        split += usize::from(!r[5].is_empty());
    }
    assert!(split > 200, "the fixture holds reductions that are split over thread blocks");
}
