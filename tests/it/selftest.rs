//! `runner selftest` where there is no GPU.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::fake_cuda::libraries;
use crate::support::{Sandbox, repository};

#[test]
fn every_registered_operator_has_a_case() {
    // Operators that no case runs are told whatever cases are chosen.
    let out = Sandbox::new().run(&["selftest", "--device", "host", "--only", "gelu"]).exits(0);
    assert!(out.stdout.contains("gelu") && out.stdout.contains("norms are within their bounds"), "{}", out.stdout);
    assert!(!out.stdout.contains("no case for"), "{}", out.stdout);
}

/// The kernels of every source below the folder, by the name of the function.
fn written(folder: &Path, kernels: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            written(&entry, kernels);
        } else if entry.extension().is_some_and(|e| e == "cu") {
            let text = std::fs::read_to_string(&entry).unwrap();
            for line in text.lines().filter_map(|line| line.strip_prefix("KERNEL ")) {
                // `KERNEL name(…` or `KERNEL __launch_bounds__(n) name(…`
                let line = line.strip_prefix("__launch_bounds__").and_then(|rest| rest.split_once(") ")).map_or(line, |(_, rest)| rest);
                kernels.insert(line.split('(').next().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn every_kernel_has_a_case_in_every_type() {
    let Some(folder) = libraries() else { return };
    let out = Sandbox::new().shell(&format!("LD_LIBRARY_PATH='{}' $RUNNER selftest --device cuda --kernels", folder.display())).exits(0);
    // `source-type…: kernel…`
    let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (source, kernels) in out.stdout.lines().map(|line| line.split_once(": ").unwrap()) {
        for kernel in kernels.split(' ') {
            types.entry(kernel).or_default().insert(source.split('-').nth(1).unwrap());
        }
    }
    let mut kernels = BTreeSet::new();
    written(&repository().join("src"), &mut kernels);
    let without: Vec<_> = kernels.iter().filter(|k| !types.contains_key(k.as_str())).collect();
    assert!(!kernels.is_empty() && without.is_empty(), "no case of the selftest runs {without:?}");
    // What is made for all types, but for the scalars of a gradient scaler and what PyTorch has in one type.
    let some = ["causal_mask", "reciprocal", "scaler_unscale", "scaler_update", "adam_count"];
    let lacking = |have: &BTreeSet<&str>| ["f32", "f16", "bf16"].iter().any(|t| !have.contains(t));
    let partly: Vec<_> = types.iter().filter(|(kernel, have)| !some.contains(kernel) && lacking(have)).collect();
    assert!(partly.is_empty(), "cases of the selftest run these in some types only: {partly:?}");
}

#[test]
fn a_choice_that_leaves_nothing_is_a_mistake() {
    Sandbox::new().run(&["selftest", "--device", "host", "--only", "no such"]).exits(2).complains(&["--only no such: no case"]);
}
