//! Plans, as lists of operators: what runs, in which order, and where Python drops what. `BLESS=1` writes the expected lists.

use std::fmt::Write as _;
use std::path::Path;

use runner::experiment::load;
use runner::model::{Body, Plan, Step, ValueId, Work};

const FOLDER: &str = "tests/fixtures/plans";

#[test]
fn plans_are_as_expected() {
    let mut failures = String::new();
    let mut files: Vec<_> = std::fs::read_dir(FOLDER).unwrap().map(|e| Path::new(FOLDER).join(e.unwrap().file_name())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let experiment = load(&file).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let Work::Train(plan) = &experiment.cases[0].work else { panic!("no plan: {}", file.display()) };
        let found = draw(plan);
        let expected_file = file.with_extension("txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected_file, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&expected_file).unwrap_or_default();
        if found != expected {
            write!(failures, "== {}\nexpected:\n{expected}\nfound:\n{found}\n", file.display()).unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn draw(plan: &Plan) -> String {
    let mut text = String::new();
    for (i, state) in plan.state.iter().enumerate() {
        writeln!(text, "v{i} = {} {} {} {:?}", state.name, state.meta.dtype, state.meta.shape, state.kind).unwrap();
    }
    for program in &plan.programs {
        writeln!(text, "input v{}", program.input.0).unwrap();
        if let Some(target) = program.target {
            writeln!(text, "target v{}", target.0).unwrap();
        }
        for (name, body) in
            [("forward", Some(&program.forward)), ("criterion", program.criterion.as_ref()), ("divide", program.divide.as_ref())]
        {
            if let Some(body) = body {
                writeln!(text, "{name}").unwrap();
                steps(plan, &program.values, body, 1, &mut text);
            }
        }
        writeln!(text, "autocast keeps {}", list(&program.autocast_cache)).unwrap();
    }
    text
}

fn steps(plan: &Plan, values: &[runner::meta::TensorMeta], body: &Body, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for step in &body.steps {
        match step {
            Step::Run { op, inputs, outputs, layer } => {
                let meta = &values[outputs[0].0 as usize];
                let layer = &plan.layers[layer.0 as usize].path;
                writeln!(text, "{indent}{} = {op:?}({}): {} {} of {layer}", list(outputs), list(inputs), meta.dtype, meta.shape).unwrap();
            }
            Step::Drop(v) => writeln!(text, "{indent}drop v{}", v.0).unwrap(),
            Step::Checkpoint { input, body } => {
                writeln!(text, "{indent}checkpoint v{}", input.0).unwrap();
                steps(plan, values, body, depth + 1, text);
            }
        }
    }
    writeln!(text, "{indent}result v{}", body.result.0).unwrap();
}

fn list(values: &[ValueId]) -> String {
    values.iter().map(|v| format!("v{}", v.0)).collect::<Vec<_>>().join(", ")
}
