//! The experiments that come with the program: what is committed in `results/` is what they give, on every device, on every run.

use std::collections::BTreeMap;
use std::fs::read_to_string;

use crate::support::{Sandbox, repository};

/// Every experiment's CSV as a device gives it.
fn results(device: &str) -> BTreeMap<String, String> {
    let s = Sandbox::new();
    let experiments = repository().join("experiments");
    s.run(&[experiments.to_str().unwrap(), "--device", device, "--out", "out", "--quiet"]).exits(0);
    let csvs = s.list("out").into_iter().filter(|name| name.ends_with(".csv") && !name.ends_with(".training.csv"));
    csvs.map(|name| (name.clone(), s.read(&format!("out/{name}")))).collect()
}

fn committed() -> BTreeMap<String, String> {
    let folder = repository().join("results");
    let names = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let csvs = names.filter(|name| name.ends_with(".csv") && !name.ends_with(".training.csv"));
    csvs.map(|name| (name.clone(), read_to_string(folder.join(&name)).unwrap())).collect()
}

#[track_caller]
fn same(found: &BTreeMap<String, String>, expected: &BTreeMap<String, String>) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, text) in found {
        for (line, (a, b)) in text.lines().zip(expected[name].lines()).enumerate() {
            assert_eq!(a, b, "{name}, line {}", line + 1);
        }
        assert!(*text == expected[name], "{name} has other lines or line ends");
    }
}

#[test]
fn the_virtual_device_gives_the_committed_results_twice() {
    let committed = committed();
    same(&results("virtual"), &committed);
    same(&results("virtual"), &committed);
}

#[test]
fn the_host_gives_the_committed_results() {
    same(&results("host"), &committed());
}

#[test]
fn every_experiment_says_what_it_shows_and_names_the_schema() {
    for entry in std::fs::read_dir(repository().join("experiments")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let text = read_to_string(&path).unwrap();
        assert!(text.starts_with("#:schema ./schema.json\ndescription = \""), "{}", path.display());
    }
}

#[test]
fn the_committed_schema_is_the_one_generated() {
    let generated = Sandbox::new().run(&["schema"]).exits(0).stdout;
    assert!(
        read_to_string(repository().join("experiments/schema.json")).unwrap() == generated,
        "run `runner schema > experiments/schema.json`"
    );
}
