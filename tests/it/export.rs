//! `runner export torch`: scripts that Python takes, with the experiment on top. That PyTorch measures the same is checked where there is
//! PyTorch; its rows are read here as it would print them.

use std::collections::BTreeMap;

use toml::Value;

use crate::support::{SMALL, Sandbox, experiments, rows};

/// Layers in a list of the language, those inside others too, by name.
fn count(list: &Value, counts: &mut BTreeMap<&'static str, usize>) {
    for item in list.as_array().into_iter().flatten() {
        let (name, body) = match item {
            Value::String(name) => (name, None),
            item => item.as_table().unwrap().iter().next().map(|(name, body)| (name, body.as_table())).unwrap(),
        };
        let kind = runner::model::layer::KINDS.iter().find(|kind| kind.name == name).unwrap();
        *counts.entry(kind.name).or_default() += 1;
        body.into_iter().flatten().filter(|(_, field)| field.is_array()).for_each(|(_, field)| {
            if field.as_array().unwrap().iter().all(|item| item.is_table() || item.is_str()) {
                count(field, counts);
            }
        });
    }
}

#[test]
fn every_experiment_becomes_a_script_that_python_reads_with_every_layer() {
    let s = Sandbox::new();
    for path in ["", "networks"].into_iter().flat_map(experiments) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let out = s.run(&["export", "torch", path.to_str().unwrap(), "-o", &format!("{name}.py")]).exits(0);
        assert_eq!(out.stdout, format!("{name}.py\n"));
        let mut counts = BTreeMap::new();
        for case in runner::experiment::load(&path).unwrap().cases {
            let Some(model) = case.resolved.get("model") else { continue };
            count(&model["layers"], &mut counts);
            let blocks = model.get("blocks").and_then(Value::as_table);
            blocks.into_iter().flatten().for_each(|(_, list)| count(list, &mut counts));
        }
        let script = s.read(&format!("{name}.py"));
        let top = script.split("import csv").next().unwrap();
        for (layer, times) in counts {
            let calls = top.match_indices(&format!("{layer}(")).filter(|(at, _)| top[..*at].ends_with([' ', '['])).count();
            assert_eq!(calls, times, "{name}: {layer}");
        }
    }
    // Machines without Python check no syntax.
    s.shell(
        "command -v python3 >/dev/null || exit 0; python3 -c \"import ast, sys; [ast.parse(open(f).read()) for f in sys.argv[1:]]\" *.py",
    )
    .exits(0);
}

#[test]
fn the_experiment_stands_on_top() {
    let s = Sandbox::new();
    s.write("small.toml", &format!("description = \"it is\\nsmall\"\n{SMALL}\n[allocator]\nmemory_limit = \"64MiB\"\n"));
    let script = s.run(&["export", "torch", "small.toml", "--set", "train.batch_size=1,2"]).exits(0).stdout;
    let top = script.split("import csv").next().unwrap();
    for line in [
        "# small: it is small\n",
        "\"labels\": [\"train.batch_size=1\", \"1\", \"f32\", \"sgd\", \"1\", \"false\", \"false\"],",
        "\"labels\": [\"train.batch_size=2\", \"2\", \"f32\", \"sgd\", \"1\", \"false\", \"false\"],",
        "\"allocator\": {\"memory_limit\": 67108864},",
        "linear(out_features=4, bias=True),",
        "\"input\": [8],",
        "\"vocabulary\": None,",
    ] {
        assert!(top.contains(line), "the script does not say {line:?}:\n{top}");
    }
    s.write("bad.toml", "[model]").run(&["export", "torch", "bad.toml"]).exits(2);
}

#[test]
fn every_layer_of_the_language_has_its_function() {
    let s = Sandbox::new();
    let script = s.write("small.toml", SMALL).run(&["export", "torch", "small.toml"]).exits(0).stdout;
    for kind in runner::model::layer::KINDS {
        let (function, class) = (format!("def {}(", kind.name), format!("class {}:", kind.name));
        let found = script.split('\n').find(|l| l.trim_start().starts_with(&function) || l.starts_with(&class));
        let Some(line) = found else { panic!("no function for {}", kind.name) };
        for field in kind.fields.iter().filter(|_| !line.starts_with("class") && kind.name != "block") {
            assert!(line.contains(field.name), "{} takes no `{}`: {line}", kind.name, field.name);
        }
    }
}

#[test]
fn diff_reads_what_such_a_script_prints() {
    let s = Sandbox::new();
    s.write("small.toml", SMALL).run(&["small.toml", "--device", "virtual"]).exits(0);
    let csv = s.read("results/small.csv");
    let header = csv.lines().next().unwrap();
    let known = [
        "case",
        "batch_size",
        "dtype",
        "optimizer",
        "accumulation_steps",
        "checkpointing",
        "no_grad",
        "step",
        "micro_step",
        "phase",
        "status",
    ];
    let measured = |column: &str| known.contains(&column) || column.starts_with("measured_");
    let mut torch = format!("{header}\n");
    for row in rows(&csv) {
        let cells: Vec<String> = header.split(',').map(|c| if measured(c) { row[c].clone() } else { String::new() }).collect();
        torch += &format!("{}\n", cells.join(","));
    }
    s.write("torch.csv", &torch).run(&["diff", "torch.csv", "results/small.csv"]).exits(0);
    let changed: String =
        torch.lines().map(|l| if l.contains(",backward,") { l.replacen(",,", ",,1", 1) + "\n" } else { l.to_string() + "\n" }).collect();
    s.write("off.csv", &changed).run(&["diff", "off.csv", "results/small.csv"]).exits(1);
}

#[test]
fn nothing_from_a_file_becomes_code() {
    let s = Sandbox::new();
    let text = toml::toml! {
        description = "a\"\"\"\nimport os\r\u{e9}"
        [allocations]
        steps = [{ alloc = { name = "a\"\\\n\u{e9}'", shape = [4] } }]
    };
    s.write("script.toml", &text.to_string());
    let script = s.run(&["export", "torch", "script.toml"]).exits(0).stdout;
    assert!(script.starts_with("#!/usr/bin/env python3\n# script: a\"\"\" import os \u{e9}\n#"), "{script:.300}");
    assert!(script.contains(r#""name": "a\"\\\U0000000a\U000000e9'""#), "{script:.900}");
    let script =
        s.write("small.toml", SMALL).run(&["export", "torch", "small.toml", "--set", "train.optimizer.sgd.lr=1e-3"]).exits(0).stdout;
    assert!(script.contains("\"lr\": 0.001,") && script.contains("bias=True"), "{script:.900}");
}

#[test]
fn a_script_is_of_one_experiment() {
    let s = Sandbox::new();
    s.write("folder/a.toml", SMALL).write("folder/b.toml", SMALL);
    s.run(&["export", "torch", "folder"]).exits(2).complains(&["folder: is a folder"]);
}
