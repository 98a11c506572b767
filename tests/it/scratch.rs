//! Rules of libraries' scratch against what the libraries asked for on an H200.

use std::path::Path;

use runner::gpu::Gpu;
use runner::meta::DType;
use runner::scratch::{Buffer, Cell, Convolution, Direction, Recurrent, Request, Rules, Scratch};

/// The recordings of one fixture.
fn recordings(name: &str) -> Vec<csv::StringRecord> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scratch").join(name);
    csv::Reader::from_path(path).unwrap().records().map(Result::unwrap).collect()
}

fn dtype(name: &str) -> DType {
    [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().find(|d| d.name() == name).unwrap()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// `recurrent.csv`: every eighth of the recordings that the rule was fitted to.
#[test]
fn recurrent_networks_take_cudnns_scratch() {
    let gpu = Gpu::named("h200").unwrap();
    for r in recordings("recurrent.csv") {
        let request = Recurrent {
            buffer: Buffer::Workspace,
            cell: if &r[0] == "lstm" { Cell::Lstm } else { Cell::Gru },
            dtype: dtype(&r[1]),
            batch: number(&r[2]),
            length: number(&r[3]),
            input: number(&r[4]),
            hidden: number(&r[5]),
            layers: number(&r[6]),
            bidirectional: &r[7] == "1",
            training: &r[8] == "1",
        };
        let reserve = Recurrent { buffer: Buffer::Reserve, ..request };
        let asked = [request, reserve].map(|r| Rules.bytes(gpu, &Request::Recurrent(r)));
        assert_eq!(asked, [number(&r[9]), number(&r[10])], "{r:?}");
    }
}

/// Sizes that no GPU has are told as such, and do not overflow.
#[test]
fn recurrent_scratch_has_no_bound() {
    let gpu = Gpu::named("h200").unwrap();
    let request = Recurrent {
        buffer: Buffer::Workspace,
        cell: Cell::Lstm,
        dtype: DType::F32,
        batch: 1 << 20,
        length: 1 << 20,
        input: 1 << 20,
        hidden: 1 << 20,
        layers: 1 << 20,
        bidirectional: true,
        training: true,
    };
    assert_eq!(Rules.bytes(gpu, &Request::Recurrent(request)), i64::MAX.unsigned_abs());
}

/// `convolution.csv`: recordings that the trees were not grown from, an eighth of all.
#[test]
fn convolutions_take_cudnns_scratch() {
    let gpu = Gpu::named("h200").unwrap();
    let (mut exact, mut foreseen, mut recorded) = ([0; 3], 0, 0);
    let recordings = recordings("convolution.csv");
    for r in &recordings {
        let [n, c, h, w, k, kh, kw, stride, padding, dilation, groups] = std::array::from_fn(|column| number(&r[column + 1]));
        for (at, direction) in [Direction::Forward, Direction::GradInput, Direction::GradWeight].into_iter().enumerate() {
            let request = Convolution {
                direction,
                dtype: dtype(&r[0]),
                input: [n, c, h, w],
                weight: [k, c / groups, kh, kw],
                stride: [stride; 2],
                padding: [padding; 2],
                dilation: [dilation; 2],
                groups,
            };
            let (answer, truth) = (Rules.bytes(gpu, &Request::Convolution(request)), number(&r[at + 12]));
            exact[at] += u64::from(answer == truth);
            foreseen += answer;
            recorded += truth;
        }
    }
    let rows = recordings.len() as u64;
    let of_100 = |n: u64, of: u64| n as f64 * 100.0 / of as f64;
    let shares = exact.map(|n| of_100(n, rows));
    let (all, sum) = (of_100(exact.iter().sum(), 3 * rows), of_100(foreseen, recorded));
    println!("{rows} convolutions: of 100 workspaces, {all:.1} to the byte ({shares:.1?} by direction); their sum is {sum:.1} of 100");
    assert!(all >= 85.0, "{all}");
    assert!((97.0..103.0).contains(&sum), "{sum}");
}
