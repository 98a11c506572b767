//! `runner plot` of a history: one page that holds everything it shows.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::support::{Sandbox, repository};

/// The history that a page holds.
pub(super) fn data(page: &str) -> serde_json::Value {
    let start = page.find("const DATA = ").unwrap() + "const DATA = ".len();
    let end = start + page[start..].find(";\n").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

fn loads_nothing(page: &str) {
    assert!(page.contains("default-src 'none'") && page.contains("prefers-color-scheme:dark"));
    for outside in ["src=", "href=", "url(", "@import", "fetch(", "http:", "https:", "<link", "<iframe", "import("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// Allocated and reserved bytes after each event, as the page's script counts them.
fn totals(data: &serde_json::Value) -> Vec<(u64, u64)> {
    let bytes: Vec<u64> = data["bytes"].as_array().unwrap().iter().map(|b| b.as_u64().unwrap()).collect();
    let (mut allocated, mut reserved) = (0, 0);
    let step = |(kind, bytes): (char, u64)| {
        match kind {
            'A' => allocated += bytes,
            'F' => allocated -= bytes,
            'R' => reserved += bytes,
            'S' => reserved -= bytes,
            _ => {}
        }
        (allocated, reserved)
    };
    data["kinds"].as_str().unwrap().chars().zip(bytes).map(step).collect()
}

#[test]
fn an_experiments_page_names_its_tensors_and_their_roles() {
    let s = Sandbox::new();
    let toml = repository().join("tests/fixtures/snapshots/mlp.toml");
    assert_eq!(s.run(&["plot", toml.to_str().unwrap()]).exits(0).stdout, "mlp.html\n");
    let page = s.read("mlp.html");
    loads_nothing(&page);
    let data = data(&page);
    let names: Vec<&str> = data["names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    for name in
        ["0.weight", "4.bias.grad", "exp_avg of 2.weight", "batch", "output, relu of layer 1.relu", "workspace, linear of layer 0.linear"]
    {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    assert_eq!(data["phases"][0], serde_json::json!([0, "step 0 model"]));
    assert!(data["categories"].as_str().unwrap().contains('3'));
    // The highest of both are the run's.
    let summary = s.run(&["replay", toml.to_str().unwrap(), "--csv", "out.csv"]).exits(0);
    drop(summary);
    let row = crate::support::rows(&s.read("out.csv")).remove(0);
    let totals = totals(&data);
    assert_eq!(totals.iter().map(|t| t.0).max().unwrap().to_string(), row["peak_allocated"]);
    assert_eq!(totals.iter().map(|t| t.1).max().unwrap().to_string(), row["peak_reserved"]);
}

/// Bytes by category when the history ends; `-` is what has none.
fn roles_at_the_end(data: &serde_json::Value) -> BTreeMap<char, u64> {
    let numbers = |key: &str| -> Vec<u64> { data[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect() };
    let (addresses, bytes) = (numbers("addresses"), numbers("bytes"));
    let mut held = BTreeMap::new();
    for (i, (kind, role)) in data["kinds"].as_str().unwrap().chars().zip(data["categories"].as_str().unwrap().chars()).enumerate() {
        match kind {
            'A' | 'B' => drop(held.insert(addresses[i], (role, bytes[i]))),
            'F' => drop(held.remove(&addresses[i])),
            _ => {}
        }
    }
    let mut roles = BTreeMap::new();
    held.into_values().for_each(|(role, bytes)| *roles.entry(role).or_default() += bytes);
    roles
}

#[test]
fn our_own_snapshots_name_roles_and_others_none() {
    let s = Sandbox::new();
    let file = |name: &str| repository().join("tests/fixtures/snapshots").join(name).display().to_string();
    s.run(&["plot", &file("mlp.toml"), "-o", "run.html"]).exits(0);
    s.run(&[&file("mlp.toml"), "--device", "virtual", "--snapshot", "mlp.pickle", "-q"]).exits(0);
    s.run(&["plot", "mlp.pickle", "-o", "snapshot.html"]).exits(0);
    s.run(&["plot", "mlp.pickle", "-o", "again.html", "--allocator", ""]).exits(0);
    let run = data(&s.read("run.html"));
    let expected = roles_at_the_end(&run);
    assert!(expected.len() > 3 && !expected.contains_key(&'-'), "{expected:?}");
    for page in ["snapshot.html", "again.html"] {
        let snapshot = data(&s.read(page));
        assert_eq!(roles_at_the_end(&snapshot), expected, "{page}");
        let kinds = snapshot["kinds"].as_str().unwrap().chars();
        let gradients = kinds.zip(snapshot["categories"].as_str().unwrap().chars()).filter(|&(kind, role)| kind == 'A' && role == '2');
        assert_eq!(gradients.count(), 18, "{page}: six gradients in each of three steps");
    }
    s.run(&["plot", &file("mlp.pickle"), "-o", "theirs.html"]).exits(0);
    assert_eq!(roles_at_the_end(&data(&s.read("theirs.html"))).into_keys().collect::<String>(), "-");
}

/// An optimizer's temporaries are no activations, in pictures and in words.
#[test]
fn a_steps_temporaries_have_one_role_everywhere() {
    let s = Sandbox::new();
    let toml = repository().join("tests/fixtures/snapshots/mlp.toml").display().to_string();
    s.run(&["plot", &toml, "-o", "run.html"]).exits(0);
    let data = data(&s.read("run.html"));
    let names: Vec<&str> = data["names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    let temporary = names.iter().position(|name| *name == "adam").expect("the optimizer has temporaries");
    let roles = data["of"].as_array().unwrap().iter().zip(data["categories"].as_str().unwrap().chars());
    let roles: BTreeSet<char> = roles.filter(|(of, _)| of.as_u64() == Some(temporary as u64)).map(|(_, role)| role).collect();
    assert_eq!(roles, BTreeSet::from(['7']));
    assert!(!names.iter().any(|name| name.contains("output, adam")));
}

#[test]
fn snapshots_and_traces_have_pages_too() {
    let s = Sandbox::new();
    let file = |name: &str| repository().join(name).display().to_string();
    for (source, expandable) in [("tests/fixtures/snapshots/mlp.pickle", false), ("tests/fixtures/snapshots/mlp_expandable.pickle", true)] {
        s.run(&["plot", &file(source), "-o", "out.html"]).exits(0);
        let page = s.read("out.html");
        loads_nothing(&page);
        let data = data(&page);
        assert_eq!(data["mapped"], expandable);
        assert!(data["names"].to_string().contains("train.py:"), "frames name their lines");
    }
    let trace = file("tests/fixtures/replays/small/trace.csv");
    s.run(&["plot", &trace, "-o", "out.html", "--allocator", "expandable_segments:True"]).exits(0);
    let page = s.read("out.html");
    loads_nothing(&page);
    assert!(page.contains("allocator expandable_segments:True · "));
    s.run(&["plot", &trace, "-o", "out.svg", "--svg"]).exits(2).complains(&["drawn as a page"]);
    s.write("<b>.csv", "op,id,bytes\nalloc,1,10\nfree,1,\n").run(&["plot", "<b>.csv", "-o", "out.html"]).exits(0);
    assert!(s.read("out.html").contains("<h1>&lt;b&gt;</h1>"));
}

/// The page's script, where there is something that reads it.
#[test]
fn the_script_is_one() {
    if Command::new("node").arg("--version").output().is_err() {
        return;
    }
    let s = Sandbox::new();
    s.write("trace.csv", "op,id,bytes\nalloc,1,10\nfree,1,\n").run(&["plot", "trace.csv"]).exits(0);
    let page = s.read("trace.html");
    let script = page.split("<script>").nth(1).unwrap().split("</script>").next().unwrap().to_owned();
    s.write("page.js", &script);
    let outcome = s.shell("node --check page.js");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}
