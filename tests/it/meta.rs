//! Facts without a device: strides of views, and distances.

use runner::meta::{DType, Shape, TensorMeta, relative_distance};

#[test]
fn what_is_dense_keeps_the_order_of_dimensions() {
    let dense = |dims: &[u64], strides: &[u64]| {
        let shape = Shape::new(dims).unwrap();
        TensorMeta { shape, dtype: DType::F32, strides: strides.to_vec() }.dense().strides
    };
    assert_eq!(dense(&[2, 4, 3, 5], &[180, 5, 60, 1]), [60, 5, 20, 1]);
    assert_eq!(dense(&[2, 4, 5, 3], &[180, 5, 1, 60]), [60, 5, 1, 20]);
    assert_eq!(dense(&[2, 3], &[0, 0]), [3, 1]);
    assert_eq!(dense(&[3, 2], &[1, 3]), [1, 3]);
}

#[test]
fn dense_groups_split_and_join() {
    let viewed = |dims: &[u64], strides: &[u64], new: &[u64]| {
        let meta = TensorMeta { shape: Shape::new(dims).unwrap(), dtype: DType::F32, strides: strides.to_vec() };
        meta.viewed(&Shape::new(new).unwrap()).map(|view| view.strides)
    };
    assert_eq!(viewed(&[4, 3, 2], &[6, 2, 1], &[12, 2]), Some(vec![2, 1]));
    assert_eq!(viewed(&[4, 6], &[12, 1], &[4, 2, 3]), Some(vec![12, 3, 1]));
    assert_eq!(viewed(&[2, 3, 4], &[0, 0, 0], &[6, 4]), Some(vec![0, 0]));
    assert_eq!(viewed(&[4, 6], &[12, 1], &[24]), None);
    assert_eq!(viewed(&[], &[], &[1, 1]), Some(vec![1, 1]));
}

#[test]
fn nothing_that_is_no_number_is_near() {
    assert_eq!(relative_distance(&[f64::NAN, 1.0], &[1.0, 1.0]), f64::INFINITY);
    assert_eq!(relative_distance(&[1.0], &[0.0]), f64::INFINITY);
    assert_eq!(relative_distance(&[0.0], &[0.0]), 0.0);
    assert!((relative_distance(&[1.1, 0.0], &[1.0, 0.0]) - 0.1).abs() < 1e-12);
}
