//! The experiments that come with the program: what is committed in `results/` is what they give, on every device, on every run.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;

use crate::support::{Sandbox, repository};

/// What a machine without a GPU trains in no time, and networks of their true sizes, which only the virtual device holds.
const SMALL: &str = "";
const NETWORKS: &str = "networks";

/// Every experiment's CSV as a device gives it.
fn results(folder: &str, device: &str) -> BTreeMap<String, String> {
    let s = Sandbox::new();
    let experiments = repository().join("experiments").join(folder);
    s.run(&[experiments.to_str().unwrap(), "--device", device, "--out", "out", "--quiet"]).exits(0);
    let csvs = s.list("out").into_iter().filter(|name| name.ends_with(".csv") && !name.ends_with(".training.csv"));
    csvs.map(|name| (name.clone(), s.read(&format!("out/{name}")))).collect()
}

fn committed(folder: &str) -> BTreeMap<String, String> {
    let folder = repository().join("results").join(folder);
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
    for folder in [SMALL, NETWORKS] {
        let committed = committed(folder);
        same(&results(folder, "virtual"), &committed);
        same(&results(folder, "virtual"), &committed);
    }
}

#[test]
fn the_host_gives_the_committed_results() {
    same(&results(SMALL, "host"), &committed(SMALL));
}

#[test]
fn what_was_measured_on_an_h200_is_the_committed_results() {
    let (committed, folder) = (committed(SMALL), repository().join("results/h200"));
    let mut found = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()).filter(|n| n.ends_with(".csv")) else { continue };
        same(
            &BTreeMap::from([(name.to_owned(), read_to_string(&path).unwrap())]),
            &BTreeMap::from([(name.to_owned(), committed[name].clone())]),
        );
        let run = read_to_string(path.with_extension("run.toml")).unwrap();
        for word in ["device = \"cuda\"\n", "gpu = \"h200\"\n", "remainder = 0\n"] {
            assert!(run.contains(word), "{name}: its run file lacks {word:?}");
        }
        found += 1;
    }
    assert!(found > 0, "{} holds no results", folder.display());
}

#[test]
fn what_an_h200_gave_comes_again_without_it_from_the_scratch_its_libraries_asked_for() {
    let (folder, s) = (repository().join("results/h200").join(NETWORKS), Sandbox::new());
    let found = committed("h200/networks");
    assert!(!found.is_empty(), "{} holds no results", folder.display());
    for (name, measured) in found {
        let (experiment, run) = (Path::new(&name).with_extension("toml"), Path::new(&name).with_extension("run.toml"));
        let experiment = repository().join("experiments").join(NETWORKS).join(experiment);
        let run = folder.join(run).into_os_string().into_string().unwrap();
        s.run(&[experiment.to_str().unwrap(), "--device", "virtual", "--scratch", &run, "--out", "out", "--quiet"]).exits(0);
        same(&BTreeMap::from([(name.clone(), s.read(&format!("out/{name}")))]), &BTreeMap::from([(name, measured)]));
    }
}

#[test]
fn every_experiment_says_what_it_shows_and_names_the_schema() {
    for (folder, schema) in [(SMALL, "./schema.json"), (NETWORKS, "../schema.json")] {
        for entry in std::fs::read_dir(repository().join("experiments").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "toml") {
                continue;
            }
            let text = read_to_string(&path).unwrap();
            assert!(text.starts_with(&format!("#:schema {schema}\ndescription = \"")), "{}", path.display());
        }
    }
}

#[test]
fn the_list_of_experiments_has_each_with_its_description() {
    let list = read_to_string(repository().join("experiments/README.md")).unwrap();
    for (folder, prefix) in [(SMALL, ""), (NETWORKS, "networks/")] {
        for path in crate::support::experiments(folder) {
            let text = read_to_string(&path).unwrap();
            let description = text.lines().find_map(|l| l.strip_prefix("description = \"")?.strip_suffix('"')).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let row = format!("| [`{name}`]({prefix}{name}) | {description} |\n");
            assert!(list.contains(&row), "experiments/README.md has no row {row}");
        }
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

#[test]
fn the_pipeline_changes_time_and_never_data() {
    let s = Sandbox::new();
    let names = ["pipeline_serial", "pipeline_prefetch", "pipeline_parallel", "pipeline_records", "pipeline_logging"];
    let losses = names.map(|name| {
        let file = repository().join(format!("experiments/{name}.toml"));
        s.run(&[file.to_str().unwrap(), "--device", "host", "--out", "out", "--quiet"]).exits(0);
        let training = crate::support::rows(&s.read(&format!("out/{name}.training.csv")));
        training.into_iter().map(|r| r["loss"].clone()).collect::<Vec<_>>()
    });
    assert_eq!(losses[0].len(), 8);
    assert_ne!(losses[0][0], losses[0][1]);
    for (name, found) in names.iter().zip(&losses) {
        assert_eq!(found, &losses[0], "{name}");
    }
}

#[test]
fn the_packed_digits_are_those_of_the_pipeline() {
    let s = Sandbox::new();
    let file = repository().join("experiments/pipeline_serial.toml");
    s.run(&["pack", file.to_str().unwrap(), "digits.tfrecord"]).exits(0);
    let committed = std::fs::read(repository().join("experiments/data/digits.tfrecord")).unwrap();
    assert!(std::fs::read(s.path("digits.tfrecord")).unwrap() == committed, "pack experiments/pipeline_serial.toml again");
}
