//! Reading results back: what was written is understood, and what is wrong is named with its place.

use runner::record::{At, Categories, Category, Measured, Memory, Phase, Predicted, Status};
use runner::report::{CaseReport, Labels, join, read, results};

/// A folder of `tests/fixtures/results`.
pub(crate) fn fixture(name: &str) -> std::path::PathBuf {
    crate::support::repository().join("tests/fixtures/results").join(name)
}

/// Compares with a fixture, or writes it where `BLESS` is set.
#[track_caller]
pub(crate) fn expect(name: &str, found: &str) {
    let path = fixture(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let due = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(due == found, "{name} is not as expected (BLESS=1 accepts it):\n{found}");
}

fn sample() -> String {
    std::fs::read_to_string(fixture("before/mlp_adam.csv")).unwrap()
}

fn wrong(text: &str) -> String {
    read::parse("r.csv", text.as_bytes()).unwrap_err().to_string()
}

/// The sample with one cell changed: line from 1 with the header, column by name.
fn with(line: usize, column: &str, cell: &str) -> String {
    let text = sample();
    let place = text.lines().next().unwrap().split(',').position(|c| c == column).unwrap();
    let change = |l: &str| {
        let mut cells: Vec<&str> = l.split(',').collect();
        cells[place] = cell;
        cells.join(",")
    };
    text.lines().enumerate().map(|(i, l)| if i + 1 == line { change(l) } else { l.to_string() } + "\n").collect()
}

#[test]
fn what_was_written_is_read_back() {
    let at = |step, phase| At { step, micro_step: step, phase };
    let memory = |n: u64| Memory { allocated: n, peak: n + 1, reserved: i64::MAX as u64 };
    let mut categories = Categories::default();
    categories[Category::Activations] = 512;
    let measured = [Measured { at: at(0, Phase::Model), memory: memory(512), categories, status: Status::Oom }];
    let predicted =
        [(at(0, Phase::Model), 500), (at(1, Phase::Input), 7)].map(|(at, n)| Predicted { at, memory: memory(n), status: Status::Ok });
    let labels = Labels { case: "a=\"x, y\" b=1".to_string(), training: None };
    let written = results::to_csv(&[CaseReport { labels, rows: join(&measured, &predicted), left_out: 0 }]);
    let read = read::parse("r.csv", &written).unwrap();
    let [case] = &read.cases[..] else { panic!("{read:?}") };
    assert_eq!(case.label, "a=\"x, y\" b=1");
    assert_eq!(
        case.rows.iter().map(|r| (r.at, r.measured, r.predicted, r.categories, r.status, r.line)).collect::<Vec<_>>(),
        [
            (measured[0].at, Some(memory(512)), Some(memory(500)), Some(categories), Status::Oom, 2),
            (predicted[1].at, None, Some(memory(7)), None, Status::Ok, 3),
        ]
    );
    assert_eq!(&written[case.bytes.clone()], &written[read.header.end..]);
}

#[test]
fn line_ends_of_windows_and_a_byte_order_mark_are_read() {
    let plain = read::parse("r.csv", sample().as_bytes()).unwrap();
    let text = format!("\u{feff}{}", sample().replace('\n', "\r\n"));
    let windows = read::parse("r.csv", text.as_bytes()).unwrap();
    assert_eq!(plain.cases[0].rows, windows.cases[0].rows);
}

#[test]
fn columns_that_nobody_took_may_be_absent_and_new_ones_are_named() {
    let text = "case,batch_size,step,micro_step,phase,measured_allocated,measured_peak,measured_reserved,status,tflops\n\
                ,8,0,0,model,512,512,2097152,ok,1.5\n";
    let read = read::parse("r.csv", text.as_bytes()).unwrap();
    assert_eq!(read.unknown, ["tflops"]);
    let row = read.cases[0].rows[0];
    assert_eq!((row.measured.unwrap().allocated, row.predicted, row.categories), (512, None, None));
}

#[test]
fn mistakes_have_their_line_and_column() {
    for (text, due) in [
        (String::new(), "r.csv: holds nothing, not even a header"),
        ("a,b\n1,2\n".to_string(), "r.csv:1: is not a results file: the header has none of its columns"),
        ("case,step,phase\n".to_string(), "r.csv:1: the header lacks micro_step, status"),
        ("case,case\n".to_string(), "r.csv:1: the header has `case` twice"),
        (with(3, "measured_peak", "12x"), "r.csv:3: measured_peak: `12x` is not a whole number, 0 or more"),
        (with(3, "measured_peak", "-1"), "r.csv:3: measured_peak: `-1` is not a whole number, 0 or more"),
        (with(3, "measured_peak", ""), "r.csv:3: measured_peak: is empty although measured_allocated is not"),
        (
            with(3, "measured_peak", "99999999999999999999"),
            "r.csv:3: measured_peak: 99999999999999999999 is out of range; the largest is 9223372036854775807",
        ),
        (with(3, "error_peak", "1"), "r.csv:3: error_peak: is `1` where predicted − measured is 0"),
        (with(3, "activations", "512"), "r.csv:3: the categories add up to 15264768, measured_allocated is 15264256"),
        (with(3, "status", "fine"), "r.csv:3: status: `fine` is not one of ok, oom"),
        (with(3, "phase", "bac\\kward"), "r.csv:3: phase: `bac\\\\kward` is not one of model, input, "),
        (with(3, "step", ""), "r.csv:3: step: is empty"),
        (with(3, "dtype", "f\u{1b}[31m"), "r.csv:3: dtype: has a character that does not print"),
        (with(3, "batch_size", "2"), "r.csv:3: batch_size: differs from line 2, in the same case"),
        (with(3, "case", "a=1"), "r.csv:4: case: case `` began in line 2 and comes again after another"),
        (with(4, "phase", "input"), "r.csv:4: the row of line 3 comes again"),
        (
            sample().replace("ok\n,256,f32,adam,1,false,false,3,1,loss", "ok,\n,256,f32,adam,1,false,false,3,1,loss"),
            "r.csv:16: the line has 29 fields, the header 28",
        ),
        (sample().trim_end().to_string(), "r.csv:20: the file ends inside this line: it was cut short"),
        (sample()[..1500].to_string(), "r.csv:10: the file ends inside this line: it was cut short"),
        (format!("{}<<<<<<< HEAD\n", sample()), "r.csv:21: a merge conflict was left in the file"),
    ] {
        let found = wrong(&text);
        assert!(found.starts_with(due), "found {found}\n  due {due}");
    }
    assert_eq!(read::parse("r.csv", b"case\xff\n").unwrap_err().to_string(), "r.csv: is not text in UTF-8");
}
