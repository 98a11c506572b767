//! The vocabulary against plain loops over slices, on shapes that do not divide evenly.

use runner::device::host::Row;
use runner::meta::{DType, Shape, TensorMeta};

use super::{Placed, Segment};

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

fn transposed(t: &Placed) -> Placed {
    let &[rows, columns] = t.meta.shape.dims() else { panic!("a matrix") };
    let shape = Shape::new([columns, rows]).expect("as many elements");
    Placed { address: t.address, meta: TensorMeta { shape, dtype: t.meta.dtype, strides: vec![t.meta.strides[1], t.meta.strides[0]] } }
}

#[test]
fn maps_every_type_and_layout() {
    for dtype in FLOATS {
        let segment = Segment::new();
        let (x, xs) = segment.filled(&[131, 517], dtype, 1);
        let (y, ys) = segment.filled(&[517, 131], dtype, 2);
        let z = segment.empty(&[131, 517], dtype);
        let halves = |[x, y]: [f64; 2]| [0.5 * x - 0.5 * y];
        segment.host.map([x.operand(), transposed(&y).operand()], [z.operand()], halves);
        let expected: Vec<f64> = (0..131 * 517).map(|i| 0.5 * xs[i] - 0.5 * ys[i % 517 * 131 + i / 517]).collect();
        assert_eq!(segment.values(&z), expected, "{dtype}");
        segment.host.map([x.operand(), z.operand()], [z.operand()], |[x, z]: [f64; 2]| [z + x]);
        let expected: Vec<f64> = expected.iter().zip(&xs).map(|(z, x)| z + x).collect();
        assert_eq!(segment.values(&z), expected, "{dtype} in place");
    }
}

#[test]
fn converts_between_types() {
    let segment = Segment::new();
    for (from, to) in [(DType::F32, DType::F16), (DType::BF16, DType::F32), (DType::F64, DType::F32), (DType::U8, DType::F32)] {
        let (x, _) = segment.filled(&[7, 3], from, 5);
        let y = segment.empty(&[7, 3], to);
        segment.host.copy(x.operand(), y.operand());
        assert_eq!(segment.values(&x), segment.values(&y));
    }
}

#[test]
fn sums_do_not_lose_small_terms() {
    let segment = Segment::new();
    let x = segment.empty(&[1 << 20], DType::F32);
    segment.host.generate(x.operand(), |start, out: &mut [f32]| {
        out.iter_mut().enumerate().for_each(|(i, o)| *o = if start + i == 0 { 1e4 } else { 1e-3 });
    });
    let sum: f32 = segment.host.sum([x.operand()], |[x]| x);
    let exact = 1e4 + 1e-3 * ((1 << 20) - 1) as f32;
    assert!((sum - exact).abs() / exact < 1e-6, "{sum} {exact}");
}

#[test]
fn sums_channels() {
    for (n, c, s) in [(1, 5, 1), (67, 3, 1), (1000, 757, 1), (1, 9, 1100), (5, 3, 7), (40, 6, 600)] {
        let segment = Segment::new();
        let (x, xs) = segment.filled(&[n, c, s], DType::BF16, 1);
        let (w, ws) = segment.filled(&[c], DType::F16, 2);
        let w = Placed { address: w.address, meta: TensorMeta { shape: x.meta.shape.clone(), dtype: DType::F16, strides: vec![0, 1, 0] } };
        let [n, c, s] = [n, c, s].map(|d| d as usize);
        let [products, sums] = segment.host.sums([n, c, s], [x.operand(), w.operand()], |[x, w]: [f64; 2]| [x * w, x]);
        let channel = |j: usize| (0..n).flat_map(move |i| (0..s).map(move |k| (i * c + j) * s + k));
        let expected: Vec<f64> = (0..c).map(|j| channel(j).map(|i| xs[i]).sum()).collect();
        assert_eq!(sums, expected, "{n} {c} {s}");
        let expected: Vec<f64> = (0..c).map(|j| channel(j).map(|i| xs[i] * ws[j]).sum()).collect();
        assert_eq!(products, expected, "{n} {c} {s}");
    }
}

#[test]
fn computes_rows() {
    for dtype in FLOATS {
        let segment = Segment::new();
        let (x, xs) = segment.filled(&[300, 129], dtype, 1);
        let (y, means) = (segment.empty(&[300, 129], dtype), segment.empty(&[300], DType::F32));
        segment.host.rows(300, [Row::Each(x.operand())], [y.operand(), means.operand()], |[x]: [&[f64]; 1], [y, mean]| {
            mean[0] = x.iter().sum::<f64>() / 128.0;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = -x);
        });
        assert_eq!(segment.values(&y), xs.iter().map(|x| -x).collect::<Vec<_>>());
        let expected: Vec<f64> = xs.chunks(129).map(|x| x.iter().sum::<f64>() / 128.0).collect();
        assert_eq!(segment.values(&means), expected);
    }
}

#[test]
fn multiplies_every_layout_and_type() {
    for dtype in FLOATS {
        for (m, k, n) in [(1, 1, 1), (5, 1, 7), (1, 9, 33), (67, 129, 35), (130, 260, 70)] {
            let segment = Segment::new();
            let (a, a_values) = segment.filled(&[m, k], dtype, 1);
            let (at, at_values) = segment.filled(&[k, m], dtype, 2);
            let (b, b_values) = segment.filled(&[k, n], dtype, 3);
            let (bt, bt_values) = segment.filled(&[n, k], dtype, 4);
            let (bias, bias_values) = segment.filled(&[n], dtype, 5);
            let out = segment.empty(&[m, n], dtype);
            let (m, k, n) = (m as usize, k as usize, n as usize);
            let product = |a: &dyn Fn(usize, usize) -> f64, b: &dyn Fn(usize, usize) -> f64, bias: bool| -> Vec<f64> {
                let dot = |i: usize, j: usize| (0..k).map(|l| a(i, l) * b(l, j)).sum::<f64>() + if bias { bias_values[j] } else { 0.0 };
                (0..m * n).map(|i| dot(i / n, i % n)).collect()
            };
            let check = |expected: Vec<f64>, what: &str| {
                // Products of multiples of 1/32 are exact in f32: only the result is rounded.
                let rounding = match dtype {
                    DType::BF16 => 2f64.powi(-8),
                    DType::F16 => 2f64.powi(-11),
                    _ => 0.0,
                };
                for (got, expected) in segment.values(&out).iter().zip(&expected) {
                    assert!((got - expected).abs() <= rounding * expected.abs(), "{dtype} {m} {k} {n} {what}: {got} {expected}");
                }
            };
            let (row, column) = (|i: usize, l: usize| a_values[i * k + l], |i: usize, l: usize| at_values[l * m + i]);
            let (b_row, b_column) = (|l: usize, j: usize| b_values[l * n + j], |l: usize, j: usize| bt_values[j * k + l]);
            segment.host.matmul(a.operand(), b.operand(), None, out.operand());
            check(product(&row, &b_row, false), "plain");
            segment.host.matmul(a.operand(), transposed(&bt).operand(), Some(bias.operand()), out.operand());
            check(product(&row, &b_column, true), "linear");
            segment.host.matmul(transposed(&at).operand(), b.operand(), None, out.operand());
            check(product(&column, &b_row, false), "transposed");
            let ones = Placed { address: bias.address, meta: TensorMeta::expanded(a.meta.shape.clone(), dtype) };
            segment.host.matmul(ones.operand(), b.operand(), None, out.operand());
            check(product(&|_, _| bias_values[0], &b_row, false), "expanded");
        }
    }
}

/// Everything that is cut into pieces, as bits.
fn everything() -> Vec<u64> {
    let segment = Segment::new();
    let host = &segment.host;
    let (a, _) = segment.filled(&[300, 701], DType::F32, 1);
    let (b, _) = segment.filled(&[701, 500], DType::F32, 2);
    let third = |t: &Placed| host.map([t.operand()], [t.operand()], |[x]: [f32; 1]| [x / 3.0]);
    third(&a);
    third(&b);
    let out = segment.empty(&[300, 500], DType::F32);
    host.matmul(a.operand(), b.operand(), None, out.operand());
    let mut values = segment.values(&out);
    values.push(host.sum([b.operand()], |[x]: [f32; 1]| x).into());
    let [columns] = host.sums([701, 500, 1], [b.operand()], |[x]: [f32; 1]| [x]);
    let [rows] = host.sums([1, 701, 500], [b.operand()], |[x]: [f32; 1]| [x]);
    values.extend(rows.into_iter().map(f64::from));
    values.extend(columns.into_iter().map(f64::from));
    values.into_iter().map(f64::to_bits).collect()
}

#[test]
fn threads_do_not_change_a_bit() {
    let with = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(everything);
    let one = with(1);
    for threads in [2, 3, 8] {
        assert!(one == with(threads), "{threads} threads");
    }
}
