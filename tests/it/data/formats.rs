//! Formats as their authors write them: NumPy's headers, records of whatever type.

use std::path::Path;

use runner::data::{Feed, Files, Part, Settings, Slot, open, pack};
use runner::meta::DType;

use super::files::npy;
use crate::support::Sandbox;

/// A NumPy file with this dictionary.
fn npy_with(path: &Path, dictionary: &str, bytes: &[u8]) {
    let length = u16::try_from(dictionary.len()).unwrap().to_le_bytes();
    std::fs::write(path, [b"\x93NUMPY\x01\x00", &length[..], dictionary.as_bytes(), bytes].concat()).unwrap();
}

#[test]
fn headers_are_read_as_numpy_writes_them() {
    let s = Sandbox::new();
    let path = s.path("x.npy");
    let opened = |dictionary: &str, bytes: &[u8]| {
        npy_with(&path, dictionary, bytes);
        open(&Files::Npy { input: path.clone(), target: None })
    };
    let source = opened("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 2), }     \n", &[0; 16]).unwrap();
    assert_eq!((source.samples(), &source.layout().input), (2, &Part { shape: vec![1, 2], whole: false }));
    let big_endian = [-3i64, 7].map(i64::to_be_bytes).concat();
    let source = opened("{'descr': '>i8', 'fortran_order': False, 'shape': (2,), }", &big_endian).unwrap();
    assert_eq!((&source.layout().input, source.read(0).unwrap().input.values), (&Part { shape: vec![], whole: true }, vec![-3.0]));
    for (dictionary, word) in [
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "a single number"),
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "fortran_order"),
        ("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", "<c8"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "fields"),
        ("{'fortran_order': False, 'shape': (2,), }", "descr"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "shape"),
    ] {
        let message = opened(dictionary, &[0; 64]).err().unwrap().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn records_keep_what_the_model_computes_in() {
    let s = Sandbox::new();
    let inputs = [0.1f64, 1.5, 0.2, 1.5].map(f64::to_le_bytes).concat();
    npy(&s.path("x.npy"), "<f8", "2, 2, 1", &inputs);
    npy(&s.path("y.npy"), "|u1", "2,", &[0, 2]);
    for (dtype, expected) in [(DType::F64, 0.2), (DType::F32, f64::from(0.2f32)), (DType::BF16, f64::from(0.2f32))] {
        let files = Files::Npy { input: s.path("x.npy"), target: Some(s.path("y.npy")) };
        let settings = Settings { files, prepare: vec![], shuffle: None, repeat: true, workers: 1, prefetch: 0, pinned: false, seed: 0 };
        let slot = |shape: &[u64], dtype| Slot { name: "the model's input", shape: shape.to_vec(), dtype, below: None };
        let feed = Feed { settings, batch: 1, input: slot(&[2, 1], dtype), target: Some(slot(&[], DType::I64)) };
        assert_eq!(pack(&feed, &s.path("xy.tfrecord")).unwrap(), 2);
        let records = Files::TfRecord { file: s.path("xy.tfrecord"), input: "input".into(), target: "target".into() };
        let source = open(&records).unwrap();
        assert_eq!((source.samples(), source.layout().input.shape.as_slice()), (2, &[2, 1][..]));
        assert_eq!(source.layout().target, Some(Part { shape: vec![], whole: true }));
        let sample = source.read(1).unwrap();
        assert_eq!((sample.input.values, sample.target.unwrap().values), (vec![expected, 1.5], vec![2.0]), "{dtype}");
    }
}
