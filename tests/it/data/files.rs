//! The same samples from every format give the same losses, whatever the number of workers.

use std::io::Write;
use std::path::Path;

use crate::support::{Sandbox, rows};

/// A classifier of samples of four numbers, three classes.
pub(crate) fn classifier(data: &str) -> String {
    format!(
        "[model]\ninput = {{ features = [4] }}\nlayers = [{{ linear = {{ out_features = 3 }} }}]\n\n\
         [train]\nbatch_size = 5\nsteps = 12\nloss = \"cross_entropy\"\noptimizer = {{ sgd = {{ lr = 0.1 }} }}\n\n[data]\n{data}\n"
    )
}

/// Sample `i`: four numbers and a label.
pub(crate) fn sample(i: u32) -> ([f32; 4], u8) {
    let x = |k: u32| ((i * 7 + k * 3) % 11) as f32 * 0.25 - 1.0;
    ([x(0), x(1), x(2), x(3)], u8::try_from(i % 3).unwrap())
}

/// Samples in a sandbox.
pub(crate) const SAMPLES: u32 = 23;

pub(crate) fn npy(path: &Path, descr: &str, shape: &str, bytes: &[u8]) {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    header.push_str(&" ".repeat((64 - (10 + header.len() + 1) % 64) % 64));
    header.push('\n');
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&u16::try_from(header.len()).unwrap().to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.write_all(bytes).unwrap();
}

/// Writes the samples as `x.npy` with `y.npy`, `x.idx` with `y.idx`, and `xy.csv`.
pub(crate) fn write_samples(s: &Sandbox) {
    let all: Vec<_> = (0..SAMPLES).map(sample).collect();
    let inputs = |bytes: fn(f32) -> [u8; 4]| all.iter().flat_map(|(x, _)| x.iter().flat_map(move |&v| bytes(v))).collect::<Vec<u8>>();
    let labels: Vec<u8> = all.iter().map(|(_, y)| *y).collect();
    npy(&s.path("x.npy"), "<f4", &format!("{SAMPLES}, 4"), &inputs(f32::to_le_bytes));
    npy(&s.path("y.npy"), "|u1", &format!("{SAMPLES},"), &labels);
    let idx = |kind: u8, dims: &[u32], bytes: &[u8]| {
        let rank = u8::try_from(dims.len()).unwrap();
        let head = [0, 0, kind, rank].into_iter().chain(dims.iter().flat_map(|d| d.to_be_bytes()));
        head.chain(bytes.iter().copied()).collect::<Vec<u8>>()
    };
    std::fs::write(s.path("x.idx"), idx(0x0d, &[SAMPLES, 4], &inputs(f32::to_be_bytes))).unwrap();
    std::fs::write(s.path("y.idx"), idx(0x08, &[SAMPLES], &labels)).unwrap();
    let lines = all.iter().map(|(x, y)| format!("{},{},{y},{},\"{}\"\n", x[0], x[1], x[2], x[3]));
    s.write("xy.csv", &format!("a,b,label,c,\"d\"\n{}", lines.collect::<String>()));
}

/// The losses that a run on the host gives, as written.
pub(crate) fn losses(s: &Sandbox, file: &str, arguments: &[&str]) -> Vec<String> {
    s.run(&[&[file, "--device", "host", "--quiet", "--out", "out"], arguments].concat()).exits(0);
    let stem = file.strip_suffix(".toml").unwrap();
    rows(&s.read(&format!("out/{stem}.training.csv"))).into_iter().map(|r| r["loss"].clone()).collect()
}

const NPY: &str = "source = { npy = { input = \"x.npy\", target = \"y.npy\" } }";
const IDX: &str = "source = { idx = { input = \"x.idx\", target = \"y.idx\" } }";
const CSV: &str = "source = { csv = { file = \"xy.csv\", target = \"label\" } }";
const RECORDS: &str = "source = { tfrecord = { file = \"xy.tfrecord\" } }";

#[test]
fn every_format_gives_the_same_losses() {
    let s = Sandbox::new();
    write_samples(&s);
    for (name, data) in [("npy", NPY), ("idx", IDX), ("csv", CSV), ("tfrecord", RECORDS)] {
        s.write(&format!("{name}.toml"), &classifier(&format!("{data}\nshuffle = 7")));
    }
    let packed = s.run(&["pack", "npy.toml", "xy.tfrecord"]).exits(0).stdout;
    assert!(packed.contains("23 samples"), "{packed}");
    let expected = losses(&s, "npy.toml", &[]);
    assert_eq!(expected.len(), 12);
    assert!(expected.iter().all(|l| l.parse::<f64>().unwrap().is_finite()));
    assert_ne!(expected[0], expected[1], "batches differ");
    for name in ["idx.toml", "csv.toml", "tfrecord.toml"] {
        assert_eq!(losses(&s, name, &[]), expected, "{name}");
    }
}

#[test]
fn batches_do_not_depend_on_workers_or_prefetch() {
    let s = Sandbox::new();
    write_samples(&s);
    let prepare =
        "prepare = [{ scale = 0.5 }, { reshape = [2, 2] }, { random_crop = { size = 2, padding = 1 } }, \"flip\", { reshape = [4] }]";
    s.write("a.toml", &classifier(&format!("{NPY}\nshuffle = 50\n{prepare}")));
    let expected = losses(&s, "a.toml", &[]);
    for (workers, prefetch) in [("1", "0"), ("2", "1"), ("3", "0"), ("8", "4"), ("16", "30")] {
        let set = ["--set", &format!("data.workers={workers}"), "--set", &format!("data.prefetch={prefetch}")];
        assert_eq!(losses(&s, "a.toml", &set), expected, "{workers} workers, prefetch {prefetch}");
    }
    assert_ne!(losses(&s, "a.toml", &["--set", "train.seed=1"]), expected, "the seed decides");
    assert_ne!(losses(&s, "a.toml", &["--set", "data.shuffle=1"]), expected, "so does the buffer");
    assert_eq!(losses(&s, "a.toml", &["--set", "data.device_prefetch=true"]), expected);
    assert_eq!(losses(&s, "a.toml", &["--set", "data.pinned=false"]), expected);
}

#[test]
fn the_samples_are_what_the_model_is_trained_on() {
    // Samples that are all alike, and weights that stay: every batch has the same loss, and another sample another one.
    let s = Sandbox::new();
    let same: Vec<u8> = (0..6).flat_map(|_| [1.0f32, 2.0].into_iter().flat_map(f32::to_le_bytes)).collect();
    npy(&s.path("x.npy"), "<f4", "6, 2", &same);
    s.write(
        "a.toml",
        "[model]\ninput = { features = [2] }\nlayers = [\"relu\", { linear = { out_features = 1 } }]\n[train]\nbatch_size = 2\nsteps = 3\nloss = \"mean\"\n\
         optimizer = { sgd = { lr = 0.0 } }\n[data]\nsource = { npy = { input = \"x.npy\" } }\n",
    );
    let all = losses(&s, "a.toml", &[]);
    assert!(all.iter().all(|l| *l == all[0]), "{all:?}");
    let doubled = losses(&s, "a.toml", &["--set", "data.prepare=[{scale=0.0}]"]);
    assert_ne!(doubled, all);
}

#[test]
fn text_is_tokens_and_their_successors() {
    let s = Sandbox::new();
    s.write("book.txt", &"abcdefgh".repeat(40));
    s.write(
        "text.toml",
        "[model]\ninput = { tokens = { length = 8, vocabulary = 128 } }\nlayers = [{ embedding = { num_embeddings = 128, embedding_dim = 8 } }, \
         { linear = { out_features = 128 } }]\n[train]\nbatch_size = 4\nsteps = 30\nloss = \"cross_entropy\"\noptimizer = { adam = { lr = 0.05 } }\n\
         [data]\nsource = { text = { file = \"book.txt\" } }\n",
    );
    let losses: Vec<f64> = losses(&s, "text.toml", &[]).iter().map(|l| l.parse().unwrap()).collect();
    assert!(losses[29] < 0.1 * losses[0], "each letter tells the next: {losses:?}");
}

#[test]
fn paths_are_relative_to_the_experiment() {
    let s = Sandbox::new();
    s.write("e/here.txt", "");
    write_samples(&s);
    for name in ["x.npy", "y.npy"] {
        std::fs::rename(s.path(name), s.path("e").join(name)).unwrap();
    }
    s.write("e/a.toml", &classifier(NPY));
    s.run(&["e/a.toml", "--device", "host", "--quiet"]).exits(0);
}

#[test]
fn labels_can_be_made_hot_and_targets_be_floats() {
    let s = Sandbox::new();
    write_samples(&s);
    let hot = classifier(&format!("{CSV}\nprepare = [{{ one_hot = 3 }}]")).replace("cross_entropy", "mse");
    s.write("hot.toml", &hot);
    assert_eq!(losses(&s, "hot.toml", &[]).len(), 12);
    let columns = classifier("source = { csv = { file = \"xy.csv\", target = [\"label\"] } }")
        .replace("cross_entropy", "mse")
        .replace("out_features = 3", "out_features = 1");
    s.write("columns.toml", &columns);
    assert_eq!(losses(&s, "columns.toml", &[]).len(), 12);
}
