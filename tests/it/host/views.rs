//! Elements in row-major order, whatever their strides and types.

use runner::device::Operand;
use runner::device::host::{Arena, Host, View};
use runner::meta::{DType, Shape, TensorMeta};

use super::Segment;

fn strided(dims: &[u64], strides: &[u64]) -> TensorMeta {
    TensorMeta { shape: Shape::new(dims).unwrap(), dtype: DType::F32, strides: strides.to_vec() }
}

fn elements(meta: &TensorMeta, start: usize, length: usize) -> Vec<f32> {
    let stored: Vec<f32> = (0u8..24).map(f32::from).collect();
    let mut out = vec![0.0; length];
    View::over(&stored, meta).load(start, &mut out);
    out
}

#[test]
fn reads_in_row_major_order() {
    assert_eq!(elements(&strided(&[2, 3], &[3, 1]), 1, 4), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(elements(&strided(&[3, 2], &[1, 3]), 0, 6), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(elements(&strided(&[3, 2], &[1, 3]), 3, 2), [4.0, 2.0]);
    assert_eq!(elements(&strided(&[2, 3], &[0, 1]), 0, 6), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    assert_eq!(elements(&strided(&[2, 3], &[1, 0]), 1, 4), [0.0, 0.0, 1.0, 1.0]);
    assert_eq!(elements(&strided(&[2, 3], &[0, 0]), 0, 6), [0.0; 6]);
    assert_eq!(elements(&strided(&[2, 2, 2], &[8, 1, 4]), 0, 8), [0.0, 4.0, 1.0, 5.0, 8.0, 12.0, 9.0, 13.0]);
    assert_eq!(elements(&strided(&[], &[]), 0, 1), [0.0]);
}

#[test]
fn writes_where_it_reads() {
    let segment = Segment::new();
    let stored = segment.empty(&[6], DType::F32);
    let meta = strided(&[3, 2], &[1, 3]);
    let mut back = [9.0f32; 6];
    segment.host.lend([], [Operand { address: stored.address, meta: &meta }], |[], [mut view]| {
        view.store(1, &[1.0f64, 2.0, 3.0, 4.0, 5.0]);
        view.load(0, &mut back);
    });
    assert_eq!(back, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(segment.values(&stored), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
}

#[test]
fn knows_what_lies_in_order() {
    let segment = Segment::new();
    let stored = segment.empty(&[16], DType::F32);
    let is_dense = |meta: &TensorMeta| segment.host.lend([], [Operand { address: stored.address, meta }], |[], [view]| view.is_dense());
    assert!(is_dense(&strided(&[2, 1, 3], &[3, 99, 1])));
    assert!(is_dense(&strided(&[], &[])));
    assert!(!is_dense(&strided(&[2, 3], &[4, 1])));
}

#[test]
fn takes_no_more_than_from_the_first_element_to_the_last() {
    // Two rows of three, four apart: 28 bytes, all that there is.
    let mut arena = Arena::default();
    assert!(arena.insert(512, 28));
    let host = Host::new(std::rc::Rc::new(arena.into()));
    let meta = strided(&[2, 3], &[4, 1]);
    assert_eq!(host.values::<f32>(Operand { address: 512, meta: &meta }), [0.0; 6]);
    let none = strided(&[0, 3], &[3, 1]);
    assert!(host.values::<f32>(Operand { address: 0, meta: &none }).is_empty());
}

#[test]
fn every_type_round_trips_at_any_stride() {
    let values = [0.0f64, 1.0, 2.0, 100.0, 128.0];
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::U8] {
        let segment = Segment::new();
        let dense = segment.empty(&[10], dtype);
        let every_second = TensorMeta { shape: Shape::new([5]).unwrap(), dtype, strides: vec![2] };
        let every_second = Operand { address: dense.address, meta: &every_second };
        segment.host.store(every_second, &values);
        assert_eq!(segment.host.values::<f64>(every_second), values, "{dtype}");
        let all = [0.0f32, 0.0, 1.0, 0.0, 2.0, 0.0, 100.0, 0.0, 128.0, 0.0];
        assert_eq!(segment.host.values::<f32>(dense.operand()), all, "{dtype}");
        let spread = TensorMeta { shape: Shape::new([7]).unwrap(), dtype, strides: vec![0] };
        let third = Operand { address: dense.address + 6 * dtype.bytes(), meta: &spread };
        assert_eq!(segment.host.values::<f32>(third), [100.0; 7], "{dtype}");
    }
}
