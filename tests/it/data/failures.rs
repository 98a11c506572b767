//! Files that are damaged: the error names the file and the record, the run ends clean, and finished rows are kept.

use super::files::{SAMPLES, classifier, npy, write_samples};
use crate::support::{Sandbox, rows};

const RECORDS: &str = "source = { tfrecord = { file = \"xy.tfrecord\" } }";

/// A sandbox with the samples as TFRecord, and the bytes of that.
fn records() -> (Sandbox, Vec<u8>) {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("pack.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }"));
    s.run(&["pack", "pack.toml", "xy.tfrecord"]).exits(0);
    s.write("a.toml", &classifier(RECORDS));
    let bytes = std::fs::read(s.path("xy.tfrecord")).unwrap();
    (s, bytes)
}

/// Where record `number`, from 0, begins.
fn start(bytes: &[u8], number: usize) -> usize {
    (0..number).fold(0, |at, _| at + 16 + usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap())
}

#[test]
fn a_torn_record() {
    let (s, bytes) = records();
    for cut in [1, 5, 20] {
        std::fs::write(s.path("xy.tfrecord"), &bytes[..bytes.len() - cut]).unwrap();
        s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.tfrecord", "record 23", "torn"]);
    }
    std::fs::write(s.path("xy.tfrecord"), &bytes[..4]).unwrap();
    s.run(&["a.toml", "--device", "host"]).exits(2).complains(&["xy.tfrecord", "record 1", "torn", "a.toml"]);
    std::fs::write(s.path("xy.tfrecord"), []).unwrap();
    s.run(&["a.toml", "--device", "host"]).exits(2).complains(&["xy.tfrecord", "no records"]);
}

#[test]
fn a_wrong_checksum_ends_the_run_and_keeps_its_rows() {
    let (s, mut bytes) = records();
    let at = start(&bytes, 11);
    bytes[at + 20] ^= 1;
    std::fs::write(s.path("xy.tfrecord"), &bytes).unwrap();
    let run = || s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.tfrecord", "record 12", "checksum"]);
    assert!(!run().stderr.contains("replaced"));
    // Whatever was there before gives way, and that is told.
    run().complains(&["note: results/a.csv replaced the file that was there; of 1 failed case it holds 13 of 73 rows\n"]);
    // Two batches of five were good: the model's row, and six rows for each of two steps.
    let kept = rows(&s.read("results/a.csv"));
    assert_eq!(kept.len(), 1 + 2 * 6);
    assert!(kept.iter().all(|r| r["status"] == "ok" && r["error_peak"] == "0"));
    assert_eq!(rows(&s.read("results/a.training.csv")).len(), 2);
    bytes[at] ^= 1;
    std::fs::write(s.path("xy.tfrecord"), &bytes).unwrap();
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.tfrecord", "record 12", "checksum of its length"]);
}

#[test]
fn records_that_are_no_examples() {
    let (s, _) = records();
    let record = b"not a message";
    let masked = |b: &[u8]| crc32c::crc32c(b).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (record.len() as u64).to_le_bytes();
    let file = [&length[..], &masked(&length), record, &masked(record)].concat();
    std::fs::write(s.path("xy.tfrecord"), file).unwrap();
    s.run(&["a.toml", "--device", "virtual"]).exits(2).complains(&["record 1", "tf.train.Example"]);
}

#[test]
fn a_csv_with_a_short_line_or_a_word() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &classifier("source = { csv = { file = \"xy.csv\", target = \"label\" } }"));
    let text = s.read("xy.csv");
    let with = |line: usize, new: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines[line - 1] = new;
        s.write("xy.csv", &(lines.join("\n") + "\n"));
    };
    with(9, "1,2,0");
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.csv", "line 9", "3 fields", "5"]);
    with(9, "1,2,0,red,4");
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.csv", "line 9", "`c`", "red"]);
    assert_eq!(rows(&s.read("results/a.training.csv")).len(), 1);
    with(9, "1,2,3,4,5");
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.csv", "line 9", "label 3", "0 to 2"]);
    with(9, "1,2,0.5,4,5");
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.csv", "line 9", "label 0.5"]);
}

#[test]
fn a_label_out_of_range() {
    let s = Sandbox::new();
    write_samples(&s);
    let labels: Vec<u8> = (0..SAMPLES).map(|i| if i == 7 { 9 } else { 1 }).collect();
    npy(&s.path("y.npy"), "|u1", &format!("{SAMPLES},"), &labels);
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }"));
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["y.npy", "record 8", "label 9", "0 to 2"]);
    s.run(&["pack", "a.toml", "b.tfrecord"]).exits(2).complains(&["y.npy", "record 8", "label 9"]);
    assert!(!s.path("b.tfrecord").exists());
}

#[test]
fn a_file_that_shrinks_while_it_is_read() {
    let s = Sandbox::new();
    write_samples(&s);
    let files = "source = { npy = { input = \"x.npy\", target = \"y.npy\" } }\nprepare = [{ cost = \"20ms\" }]\nprefetch = 0";
    s.write("a.toml", &classifier(&format!("{files}\n[log]\nevery = 1")).replace("steps = 12", "steps = 10000"));
    // The file is cut once the first step is told.
    let line = "\"$RUNNER\" a.toml --device host 2> told & until grep -q 'step 1:' told; do sleep 0.01; done; truncate -s 200 x.npy; \
                wait $!; code=$?; cat told >&2; exit $code";
    s.shell(line).exits(1).complains(&["x.npy", "record ", "shrunk"]);
    let kept = rows(&s.read("results/a.csv"));
    assert!(!kept.is_empty() && kept.iter().all(|r| r["status"] == "ok"));
    assert!(!rows(&s.read("results/a.training.csv")).is_empty());
}

#[test]
fn a_sweep_keeps_the_cases_before_the_failure() {
    let (s, mut bytes) = records();
    let at = start(&bytes, 11);
    bytes[at + 20] ^= 1;
    std::fs::write(s.path("xy.tfrecord"), &bytes).unwrap();
    s.run(&["a.toml", "--device", "host", "--set", "train.steps=2,12"]).exits(1).complains(&["train.steps=12", "record 12"]);
    let kept = rows(&s.read("results/a.csv"));
    assert_eq!(kept.iter().filter(|r| r["case"] == "train.steps=2").count(), 13);
    assert_eq!(kept.iter().filter(|r| r["case"] == "train.steps=12").count(), 13);
}

#[test]
fn too_few_samples_without_repeat() {
    let s = Sandbox::new();
    write_samples(&s);
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }\nrepeat = false"));
    s.run(&["a.toml", "--device", "host"]).exits(2).complains(&["x.npy: there are 23 samples", "60", "repeat = true", "--> a.toml:12"]);
    s.run(&["a.toml", "--device", "host", "--set", "train.steps=4"]).exits(0);
    // Records are counted when they are read: the run finds out, before its first step.
    s.write("a.toml", &classifier("source = { csv = { file = \"xy.csv\", target = \"label\" } }\nrepeat = false"));
    s.run(&["a.toml", "--device", "host"]).exits(1).complains(&["xy.csv: there are 23 samples", "60", "repeat = true"]);
}

#[test]
fn no_samples_at_all() {
    let s = Sandbox::new();
    write_samples(&s);
    npy(&s.path("x.npy"), "<f4", "0, 4", &[]);
    npy(&s.path("y.npy"), "|u1", "0,", &[]);
    s.write("a.toml", &classifier("source = { npy = { input = \"x.npy\", target = \"y.npy\" } }"));
    let told = |what: &str| {
        let stderr = s.run(&["a.toml", "--device", "host"]).exits(2).complains(&[what, "--> a.toml:12"]).stderr;
        assert!(!stderr.contains("repeat"), "repeating nothing is of no use: {stderr}");
    };
    told("x.npy: there are no samples");
    s.write("a.toml", &classifier("source = { csv = { file = \"xy.csv\", target = \"label\" } }"));
    let header = s.read("xy.csv").lines().next().unwrap().to_owned() + "\n";
    s.write("xy.csv", &header);
    told("xy.csv: there are no samples");
    s.write("xy.csv", "");
    told("xy.csv: is empty");
    assert_eq!(s.list("results"), Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_no_file_of_samples() {
    let s = Sandbox::new();
    s.write("a.toml", &classifier("source = { csv = { file = \"/dev/zero\", target = \"label\" } }"));
    s.shell("timeout 60 \"$RUNNER\" a.toml --device host").exits(2).complains(&["/dev/zero: is a pipe or a device"]);
}
