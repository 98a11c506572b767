//! The table that a run prints.

use runner::meta::DType;
use runner::record::{At, Categories, Category, Measured, Memory, Phase, Predicted, Status};
use runner::report::{CaseReport, Labels, Table, TrainingLabels, join};

fn case(name: &str, off_by: u64, steps: u64) -> CaseReport {
    let (mut measured, mut predicted) = (Vec::new(), Vec::new());
    let phases = [(Phase::Input, 4096), (Phase::Forward, 1 << 21), (Phase::ZeroGrad, 4096)];
    for step in 0..=steps {
        for (phase, bytes) in if step == 0 { &[(Phase::Model, 4096)][..] } else { &phases } {
            let at = At { step, micro_step: step.min(1), phase: *phase };
            let memory = Memory { allocated: *bytes, peak: *bytes, reserved: 1 << 21 };
            let mut categories = Categories::default();
            categories[Category::Activations] = *bytes;
            measured.push(Measured { at, memory, categories, status: Status::Ok });
            let foreseen = if *phase == Phase::Forward { Memory { peak: bytes + off_by, ..memory } } else { memory };
            predicted.push(Predicted { at, memory: foreseen, status: Status::Ok });
        }
    }
    let training = TrainingLabels {
        batch_size: 1,
        dtype: DType::F32,
        optimizer: None,
        accumulation_steps: 1,
        checkpointing: "false".to_string(),
        no_grad: false,
    };
    CaseReport { labels: Labels { case: name.to_string(), training: Some(training) }, rows: join(&measured, &predicted), left_out: 0 }
}

fn plain(table: &Table<'_>) -> String {
    anstream::adapter::strip_str(&table.render()).to_string()
}

#[test]
fn one_case_is_a_line_a_phase() {
    let cases = [case("", 0, 3)];
    let table = Table { name: "small", description: "it is small", place: "virtual device", measured: true, cases: &cases, verdicts: &[] };
    assert_eq!(
        plain(&table),
        "\
small: it is small
virtual device; figures in MiB
step  phase      allocated  predicted  peak  predicted  reserved  predicted    largest
0     model           0.00     0.00 =  0.00     0.00 =      2.00     2.00 =    activations 0.00
1     input           0.00     0.00 =  0.00     0.00 =      2.00     2.00 =    activations 0.00
1     forward         2.00     2.00 =  2.00     2.00 =      2.00     2.00 =    activations 2.00  <- peak
1     zero_grad       0.00     0.00 =  0.00     0.00 =      2.00     2.00 =    activations 0.00
2 to 3 repeat 1
predicted = measured in all 10 rows; peak 2.00 MiB in step 1 forward
"
    );
}

#[test]
fn a_sweep_is_a_line_a_case_and_differences_are_told_in_bytes() {
    let cases = [case("a=1", 0, 1), case("a=2", 512, 1)];
    let table = Table { name: "small", description: "", place: "virtual device", measured: true, cases: &cases, verdicts: &[] };
    let text = plain(&table);
    assert!(text.contains("1 of 4 ≠"), "{text}");
    // Of the moment of a peak nobody knows which category holds most.
    assert!(!text.contains("activations"), "{text}");
    let summary = "predicted ≠ measured in 1 of 8 rows, first in a=2 step 1 forward: peak +512 B; peak 2.00 MiB in a=1 step 1 forward\n";
    assert!(text.ends_with(summary), "{text}");
}
