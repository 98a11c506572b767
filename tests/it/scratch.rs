//! Rules of libraries' scratch against what the libraries asked for on an H200.

use std::path::Path;

use runner::gpu::Gpu;
use runner::meta::DType;
use runner::scratch::{Buffer, Cell, Recurrent, Request, Rules, Scratch};

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
