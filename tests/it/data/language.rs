//! `[data]` in experiment files: what is found before anything runs.

use super::files::{classifier, write_samples};
use crate::support::Sandbox;

#[test]
fn shapes_that_do_not_fit_are_named_on_every_device() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write(
        "a.toml",
        &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }").replace("features = [4]", "features = [2, 2]"),
    );
    for command in [&["a.toml", "--device", "virtual"][..], &["a.toml", "--device", "host"], &["predict", "a.toml"]] {
        s.run(command).exits(2).complains(&["[4]", "[2, 2]", "a.toml", "reshape = [2, 2]"]);
    }
    s.run(&["a.toml", "--device", "host", "--set", "data.prepare=[{reshape=[2,2]}]", "--set", "train.loss=sum"]).exits(0);
}

#[test]
fn lengths_go_with_synthetic_batches_only() {
    let s = Sandbox::new();
    let tokens = r#"
[model]
input = { tokens = { length = 4, vocabulary = 8 } }
layers = [{ embedding = { num_embeddings = 8, embedding_dim = 2 } }]

[train]
batch_size = 2
lengths = [2, 4]
optimizer = "sgd"

[data]
source = "synthetic"
"#;
    s.write("text.txt", "some text").write("a.toml", tokens);
    s.run(&["a.toml", "--device", "host"]).exits(0);
    let of_a_file = "data.source={text={file=\"text.txt\"}}";
    s.run(&["a.toml", "--device", "host", "--set", of_a_file]).exits(2).complains(&["`lengths`", "one shape"]);
}

#[test]
fn a_run_sweeps_over_data_too() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }"));
    s.run(&["a.toml", "--device", "host", "--set", "data.workers=1,2"]).exits(0);
    let training = crate::support::rows(&s.read("results/a.training.csv"));
    let of = |case: &str| training.iter().filter(|r| r["case"] == case).map(|r| r["loss"].clone()).collect::<Vec<_>>();
    assert_eq!(of("data.workers=1"), of("data.workers=2"));
    assert_eq!(of("data.workers=1").len(), 12);
}

#[test]
fn what_cannot_be_packed() {
    let s = Sandbox::new();
    write_samples(&s);
    let npy = "source = { npy = { input = \"x.npy\", target = \"y.npy\" } }";
    s.write("a.toml", &classifier(&format!("{npy}\nprepare = [\"flip\"]")))
        .write("b.toml", &classifier("workers = 2"))
        .write("c.toml", &classifier(npy));
    s.run(&["pack", "a.toml", "o.tfrecord"]).exits(2).complains(&["a.toml", "flip", "once for all"]);
    s.run(&["pack", "b.toml", "o.tfrecord"]).exits(2).complains(&["b.toml", "synthetic"]);
    s.run(&["pack", "c.toml", "absent/o.tfrecord"]).exits(2).complains(&["cannot write absent/o.tfrecord"]);
    s.run(&["pack", "c.toml", "o.tfrecord", "--set", "train.batch_size=1,2"]).exits(2).complains(&["2 cases"]);
    assert_eq!(s.list("").into_iter().filter(|n| n.ends_with("tfrecord")).count(), 0);
}
