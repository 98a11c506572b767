//! Rows of both sides, joined and folded: every row keeps its place, and what repeats is one line.

use runner::record::{At, Categories, Measured, Memory, Phase, Predicted, Status};
use runner::report::fold::{Line, fold};
use runner::report::{Joined, join};

fn at(step: u64, phase: Phase) -> At {
    At { step, micro_step: step.min(1), phase }
}
fn measured(at: At, status: Status) -> Measured {
    Measured { at, memory: Memory::default(), categories: Categories::default(), status }
}
fn predicted(at: At, status: Status) -> Predicted {
    Predicted { at, memory: Memory::default(), status }
}

#[test]
fn the_side_that_ended_earlier_is_empty_from_there_on() {
    let points = [at(0, Phase::Model), at(1, Phase::Input), at(1, Phase::Forward)];
    let long: Vec<_> = points.iter().map(|&a| predicted(a, Status::Ok)).collect();
    let short = [measured(points[0], Status::Ok), measured(points[1], Status::Oom)];
    let rows = join(&short, &long);
    assert_eq!(rows.iter().map(|r| r.at).collect::<Vec<_>>(), points);
    assert!(rows[0].exact() && !rows[1].exact() && !rows[2].exact());
    assert_eq!(rows[1].status(), Status::Oom);
    assert!(rows[2].measured.is_none());
}

#[test]
fn a_row_that_only_one_side_has_keeps_its_place() {
    let points = [at(0, Phase::Model), at(1, Phase::Input), at(1, Phase::Forward), at(1, Phase::Loss)];
    let m: Vec<_> = [0, 1, 3].map(|i| measured(points[i], Status::Ok)).to_vec();
    let p: Vec<_> = [0, 2, 3].map(|i| predicted(points[i], Status::Ok)).to_vec();
    let rows = join(&m, &p);
    assert_eq!(
        rows.iter().map(|r| (r.measured.is_some(), r.predicted.is_some())).collect::<Vec<_>>(),
        [(true, true), (true, false), (false, true), (true, true)]
    );
}

fn row(step: u64, micro_step: u64, phase: Phase, bytes: u64) -> Joined {
    let at = At { step, micro_step, phase };
    let memory = Memory { allocated: bytes, peak: bytes, reserved: bytes };
    Joined { at, measured: None, predicted: Some(Predicted { at, memory, status: Status::Ok }) }
}
fn text(lines: &[Line<'_>]) -> Vec<String> {
    lines
        .iter()
        .map(|l| match l {
            Line::Row(r) => format!("{}.{} {}", r.at.step, r.at.micro_step, r.at.phase),
            Line::Note(n) => n.clone(),
        })
        .collect()
}

#[test]
fn steps_that_repeat_are_one_line() {
    let rows: Vec<_> = (1..=9).map(|s| row(s, 1, Phase::Input, if s == 1 { 1 } else { 2 })).collect();
    assert_eq!(text(&fold(&rows)), ["1.1 input", "2.1 input", "3 to 9 repeat 2"]);
}

#[test]
fn micro_steps_that_repeat_are_one_line() {
    let mut rows: Vec<_> = (1..=4).map(|m| row(1, m, Phase::Input, 1)).collect();
    rows.push(row(1, 4, Phase::Optimizer, 1));
    assert_eq!(text(&fold(&rows)), ["1.1 input", "1.2 to 1.3 repeat 1.1", "1.4 input", "1.4 optimizer"]);
}

#[test]
fn a_long_table_loses_its_middle() {
    let rows: Vec<_> = (1..=1000).map(|s| row(s, 1, Phase::Input, s)).collect();
    let lines = fold(&rows);
    assert_eq!(lines.len(), 48);
    assert_eq!(lines[47], Line::Row(&rows[999]));
    assert!(text(&lines).iter().any(|l| l == "… 953 lines; all rows are in the CSV"));
}
