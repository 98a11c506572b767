//! Files of absurd size: each answered in time that grows with the size alone, of which a minute is many times as much also in a debug
//! build.

use std::fmt::Write as _;

use crate::support::{Outcome, SMALL, Sandbox};

const MANY: usize = 60_000;

/// Predicts `text`, within a minute.
fn predict(text: &str) -> Outcome {
    let s = Sandbox::new();
    s.write("large.toml", text);
    s.shell("timeout 60 \"$RUNNER\" predict large.toml")
}

/// The small experiment with other layers.
fn with_layers(layers: &str) -> String {
    SMALL.replace("[{ linear = { out_features = 4 } }]", &format!("[{layers}]"))
}

#[test]
fn mistakes_in_one_long_line() {
    let misspelt = 6000;
    let out = predict(&with_layers(&vec!["\"rel\""; misspelt].join(", "))).exits(2);
    assert!(out.stderr.ends_with(&format!("{misspelt} mistakes\n")));
    assert!(out.stderr.contains("\n… and 5950 more\n"));
    // Each of the first has its column, and what stands there is drawn.
    let column = "layers = [".len() + 1 + 49 * "\"rel\", ".len();
    let last = out.stderr.rsplit("error: ").next().unwrap();
    assert!(last.contains(&format!("--> large.toml:4:{column}\n")), "{last}");
    assert!(last.contains("\"rel\", \"rel\"") && last.contains("^^^^^"), "{last}");
}

#[test]
fn blocks_that_are_not_there() {
    let uses = (0..3000).map(|n| format!("{{ block = \"no{n}\" }}")).collect::<Vec<_>>().join(",\n");
    let mut text = with_layers(&uses) + "[model.blocks]\n";
    (0..20_000).for_each(|n| writeln!(text, "a{n} = [\"relu\"]").unwrap());
    let out = predict(&text).exits(2);
    assert!(
        out.stderr.contains("there is no block `no49`")
            && out.stderr.ends_with("3000 mistakes\n")
            && out.stderr.contains("there are 20000 names")
    );
}

#[test]
fn a_sample_of_many_dimensions_of_size_one() {
    let ones = vec!["1"; MANY].join(", ");
    predict(&SMALL.replace("[8]", &format!("[{ones}, 8]"))).exits(0);
}

#[test]
fn tensors_by_hand_that_all_live() {
    let mut text = "[allocations]\nsteps = [\n".to_owned();
    (0..MANY).for_each(|n| writeln!(text, "{{ alloc = {{ name = \"tensor{n}\", shape = [100] }} }},").unwrap());
    predict(&(text + "]\n")).exits(0);
}

#[test]
fn keys_that_are_not_known() {
    let mut text = SMALL.to_owned();
    (0..100_000).for_each(|n| writeln!(text, "key{n} = 1").unwrap());
    let out = predict(&text).exits(2);
    assert!(out.stderr.ends_with("\n… and 99950 more\n\n100000 mistakes\n"));
    assert!(out.stderr.len() < 20_000, "{}", out.stderr.len());
}

#[test]
fn a_deep_network_explained() {
    let s = Sandbox::new();
    let layers = vec!["{ linear = { out_features = 8 } }"; 8000].join(",\n");
    s.write("large.toml", &with_layers(&layers));
    let out = s.shell("timeout 60 \"$RUNNER\" explain large.toml").exits(0);
    assert!(out.stdout.contains("7999"), "{}", out.stdout.len());
}

#[test]
fn names_of_any_length() {
    let long = "k".repeat(3_000_000);
    let layer = format!("\"{long}\"");
    for text in [format!("{SMALL}{long} = 1\n"), format!("{SMALL}optimizer2 = {layer}\n"), with_layers(&layer)] {
        let out = predict(&text).exits(2);
        assert!(out.stderr.ends_with("1 mistake\n") && out.stderr.len() < 2000, "{}", out.stderr.len());
    }
}

#[test]
fn steps_by_the_million() {
    let out = predict(&SMALL.replace("steps = 1", "steps = 10_000_000").replace("\"sgd\"", "\"adam\"")).exits(0).stdout;
    assert!(out.contains("\n3 to 10000000 repeat 2\n") && out.contains("\npredicted 60 000 001 rows; "), "{out}");
}
