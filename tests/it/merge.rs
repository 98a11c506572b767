//! `runner merge`: shards become the file that the sweep writes unsharded, or are refused.

use crate::results::fixture;
use crate::support::Sandbox;

/// A folder with the three shards of `sweep.csv`.
fn shards() -> Sandbox {
    let s = Sandbox::new();
    for k in 1..=3 {
        let name = format!("sweep.shard-{k}-of-3.csv");
        s.write(&name, &std::fs::read_to_string(fixture("shards").join(&name)).unwrap());
    }
    s
}

fn whole() -> String {
    std::fs::read_to_string(fixture("sweep.csv")).unwrap()
}

/// Cuts a sweep as `--shard` does.
fn cut(text: &str, count: usize) -> Vec<String> {
    let (header, rows) = text.split_once('\n').unwrap();
    let label = |line: &str| line.split(',').next().unwrap().to_string();
    let mut labels: Vec<String> = rows.lines().map(label).collect();
    labels.dedup();
    let of = |k: usize| -> String {
        let mine = |line: &&str| labels.iter().position(|l| *l == label(line)).unwrap() % count == k;
        format!("{header}\n") + &rows.lines().filter(mine).map(|l| format!("{l}\n")).collect::<String>()
    };
    (0..count).map(of).collect()
}

#[test]
fn shards_become_the_whole_sweep_byte_for_byte() {
    let s = shards();
    // Named shards say themselves which they are.
    let out = s.run(&["merge", "all.csv", "sweep.shard-3-of-3.csv", "sweep.shard-1-of-3.csv", "sweep.shard-2-of-3.csv"]).exits(0);
    assert_eq!(out.stdout, "all.csv: 8 cases, 56 rows from 3 shards\n");
    assert_eq!(s.read("all.csv"), whole());
    s.shell("cp sweep.shard-1-of-3.csv a.csv; cp sweep.shard-2-of-3.csv b.csv; cp sweep.shard-3-of-3.csv c.csv").exits(0);
    s.run(&["merge", "by_order.csv", "a.csv", "b.csv", "c.csv"]).exits(0);
    assert_eq!(s.read("by_order.csv"), whole());
}

#[test]
fn any_number_of_shards_will_do() {
    for count in [1, 2, 5, 8, 12] {
        let s = Sandbox::new();
        let names: Vec<String> = (1..=count).map(|k| format!("x.shard-{k}-of-{count}.csv")).collect();
        for (name, text) in names.iter().zip(cut(&whole(), count)) {
            s.write(name, &text);
        }
        let mut arguments = vec!["merge", "all.csv"];
        arguments.extend(names.iter().rev().map(String::as_str));
        s.run(&arguments).exits(0);
        assert_eq!(s.read("all.csv"), whole(), "{count} shards");
    }
}

#[test]
fn lines_are_copied_as_they_stand() {
    let s = Sandbox::new();
    let text =
        whole().replace("train.dtype=", "train.name=\"\"it, is\"\" train.dtype=").replace("\ntrain.batch_size", "\n\"train.batch_size");
    let text = text.replace("=f32,", "=f32\",").replace("=bf16,", "=bf16\",").replace('\n', "\r\n");
    let parts = cut_quoted(&text, 3);
    for (k, part) in parts.iter().enumerate() {
        s.write(&format!("{k}.csv"), part);
    }
    s.run(&["merge", "all.csv", "0.csv", "1.csv", "2.csv"]).exits(0);
    assert_eq!(s.read("all.csv"), text);
}

/// As [`cut`], for a file whose first field is quoted and whose lines end in `\r\n`.
fn cut_quoted(text: &str, count: usize) -> Vec<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let label = |line: &str| line.split("\",").next().unwrap().to_string();
    let mut labels: Vec<String> = lines[1..].iter().map(|l| label(l)).collect();
    labels.dedup();
    let mine = |line: &str, k: usize| labels.iter().position(|l| *l == label(line)).unwrap() % count == k;
    (0..count).map(|k| lines[0].to_string() + &lines[1..].iter().filter(|l| mine(l, k)).copied().collect::<String>()).collect()
}

#[test]
fn what_is_not_one_sweep_is_refused_and_nothing_written() {
    let s = shards();
    let (one, two, three) = ("sweep.shard-1-of-3.csv", "sweep.shard-2-of-3.csv", "sweep.shard-3-of-3.csv");
    s.shell("cp sweep.shard-1-of-3.csv a.csv; cp sweep.shard-2-of-3.csv b.csv; cp sweep.shard-3-of-3.csv c.csv; mkdir d; cp a.csv d/sweep.shard-1-of-3.csv")
        .exits(0);
    s.shell("cp b.csv other.shard-2-of-3.csv; cp b.csv sweep.shard-2-of-4.csv; head -n 8 b.csv > short.csv; sed 's/,status/,state/' b.csv > renamed.csv")
        .exits(0);
    s.shell("sed 's/$/,1/; 1s/,1$/,more/' b.csv > wider.csv; head -c 900 b.csv > cut.csv; head -n 15 b.csv > lacks_one.csv").exits(0);
    for (parts, words) in [
        (&[one, three][..], "a shard is missing: 2/3"),
        (&[two], "shards are missing: 1/3, 3/3"),
        (&[one, "d/sweep.shard-1-of-3.csv", two, three], "shard 1/3 comes twice: `sweep.shard-1-of-3.csv` and `d/sweep.shard-1-of-3.csv`"),
        (&[one, "b.csv", three], "`sweep.shard-1-of-3.csv` is named as a shard and `b.csv` is not"),
        (&[one, "other.shard-2-of-3.csv", three], "are shards of different experiments"),
        (&[one, "sweep.shard-2-of-4.csv", three], "`sweep.shard-1-of-3.csv` is one of 3 shards, `sweep.shard-2-of-4.csv` of 4"),
        (&["a.csv", "a.csv", "c.csv"], "case `train.batch_size=512 train.dtype=f32` is in both `a.csv` and `a.csv`"),
        (&["b.csv", "a.csv", "c.csv"], "give the shards in their order, 1 to n"),
        (&["a.csv", "b.csv"], "a sweep of these axes has"),
        (&["a.csv", "short.csv", "c.csv"], "`short.csv` has 1 case, where shard 2/3 of a sweep of 7 or more has 2: it is not complete"),
        (&["a.csv", "wider.csv", "c.csv"], "`a.csv` and `wider.csv` have different headers"),
        (&["a.csv", "renamed.csv", "c.csv"], "renamed.csv:1: the header lacks status"),
        (&["a.csv", "cut.csv", "c.csv"], "it was cut short"),
        (&["a.csv", "nowhere.csv"], "nowhere.csv: No such file"),
        (&["out.csv", "a.csv"], "out.csv would be written over, and is read"),
    ] {
        let arguments = [&["merge", "out.csv"], parts].concat();
        s.run(&arguments).exits(2).complains(&[words]);
        assert!(!s.path("out.csv").exists(), "{parts:?}");
    }
    s.run(&["merge", "out.csv"]).exits(2);
}
