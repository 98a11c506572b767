//! Rules of libraries' scratch against what the libraries asked for on an H200.

use std::path::Path;
use std::rc::Rc;

use runner::gpu::Gpu;
use runner::meta::DType;
use runner::ops::RuleContext;
use runner::predict::predict;
use runner::scratch::{Answered, Asked, Buffer, Cell, Convolution, Direction, Recurrent, Request, Rules, Scratch};

use crate::support::Sandbox;

/// The recordings of one fixture.
fn recordings(name: &str) -> Vec<csv::StringRecord> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scratch").join(name);
    csv::Reader::from_path(path).unwrap().records().map(Result::unwrap).collect()
}

fn dtype(name: &str) -> DType {
    [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().find(|d| d.name() == name).unwrap()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// `recurrent.csv`: every eighth of the recordings that the rule was fitted to.
#[test]
fn recurrent_networks_take_cudnns_scratch() {
    let gpu = Gpu::named("h200").unwrap();
    for r in recordings("recurrent.csv") {
        let request = Recurrent {
            buffer: Buffer::Workspace,
            cell: if &r[0] == "lstm" { Cell::Lstm } else { Cell::Gru },
            dtype: dtype(&r[1]),
            batch: number(&r[2]),
            length: number(&r[3]),
            input: number(&r[4]),
            hidden: number(&r[5]),
            layers: number(&r[6]),
            bidirectional: &r[7] == "1",
            training: &r[8] == "1",
        };
        let reserve = Recurrent { buffer: Buffer::Reserve, ..request };
        let asked = [request, reserve].map(|r| Rules.bytes(gpu, &Request::Recurrent(r)));
        assert_eq!(asked, [number(&r[9]), number(&r[10])], "{r:?}");
    }
}

/// The workspace of LSTMs of that size in every direction.
fn cubes(size: u64) -> Recurrent {
    Recurrent {
        buffer: Buffer::Workspace,
        cell: Cell::Lstm,
        dtype: DType::F32,
        batch: size,
        length: size,
        input: size,
        hidden: size,
        layers: size,
        bidirectional: true,
        training: true,
    }
}

/// Sizes that no GPU has are told as such, and do not overflow.
#[test]
fn recurrent_scratch_has_no_bound() {
    let gpu = Gpu::named("h200").unwrap();
    assert_eq!(Rules.bytes(gpu, &Request::Recurrent(cubes(1 << 20))), i64::MAX.unsigned_abs());
}

/// `convolution.csv`: recordings of layers that the built-in trees have not seen, in no batch, type or direction.
#[test]
fn convolutions_take_cudnns_scratch() {
    let gpu = Gpu::named("h200").unwrap();
    let (mut exact, mut whole, mut foreseen, mut recorded) = ([0; 3], 0, 0, 0);
    let recordings = recordings("convolution.csv");
    for r in &recordings {
        let [n, c, h, w, k, kh, kw, stride, padding, dilation, groups] = std::array::from_fn(|column| number(&r[column + 1]));
        let before: u64 = exact.iter().sum();
        for (at, direction) in [Direction::Forward, Direction::GradInput, Direction::GradWeight].into_iter().enumerate() {
            let request = Convolution {
                direction,
                dtype: dtype(&r[0]),
                input: [n, c, h, w],
                weight: [k, c / groups, kh, kw],
                stride: [stride; 2],
                padding: [padding; 2],
                dilation: [dilation; 2],
                groups,
            };
            let (answer, truth) = (Rules.bytes(gpu, &Request::Convolution(request)), number(&r[at + 12]));
            exact[at] += u64::from(answer == truth);
            foreseen += answer;
            recorded += truth;
        }
        whole += u64::from(exact.iter().sum::<u64>() == before + 3);
    }
    let rows = recordings.len() as u64;
    let of_100 = |n: u64, of: u64| n as f64 * 100.0 / of as f64;
    let shares = exact.map(|n| of_100(n, rows));
    let (all, sum) = (of_100(exact.iter().sum(), 3 * rows), of_100(foreseen, recorded));
    let whole = of_100(whole, rows);
    println!("{whole:.1} of 100 in all three directions");
    println!("{rows} convolutions: of 100 workspaces, {all:.1} to the byte ({shares:.1?} by direction); their sum is {sum:.1} of 100");
    assert!(whole >= 85.0, "{whole}");
    assert!(all >= 94.5, "{all}");
    assert!((97.0..103.0).contains(&sum), "{sum}");
}

const RECURRENT: &str = r#"
[model]
input = { features = [12, 32] }
layers = [{ lstm = { hidden_size = 48, num_layers = 2 } }]

[train]
batch_size = 16
steps = 2
loss = "mean"
optimizer = "adam"
"#;

/// The run file of such a run on an H200 whose cuDNN asks for what the rules foresee and `more`, without the keys that `left_out` holds.
fn run_file(more: u64, left_out: impl Fn(usize) -> bool) -> String {
    let gpu = Gpu::named("h200").unwrap();
    let asked = Asked::new(Rc::new(Rules));
    for case in runner::experiment::load_str("net", RECURRENT, &[]).unwrap().cases {
        let _ = predict(&case.work, RuleContext { gpu, scratch: &asked }, case.allocator);
    }
    let answers = asked.take();
    assert!(answers.len() >= 2, "{answers:?}");
    let lines = answers.iter().enumerate().filter(|(i, _)| !left_out(*i)).map(|(_, (key, bytes))| format!("{key:?} = {}\n", bytes + more));
    format!("name = \"net\"\ndevice = \"cuda\"\ngpu = \"h200\"\n\n[scratch]\n{}", lines.collect::<String>())
}

/// A run file holds what its own cases asked for, not those that ran before on the same device.
#[test]
fn what_was_asked_is_told_once() {
    let gpu = Gpu::named("h200").unwrap();
    let asked = Asked::new(Rc::new(Rules));
    let ask = |text: &str| {
        for case in runner::experiment::load_str("net", text, &[]).unwrap().cases {
            let _ = predict(&case.work, RuleContext { gpu, scratch: &asked }, case.allocator);
        }
        asked.take()
    };
    let (first, wider) = (ask(RECURRENT), ask(&RECURRENT.replace("48", "64")));
    assert!(first.keys().all(|key| !wider.contains_key(key)), "{first:?} {wider:?}");
    assert_eq!(ask(RECURRENT), first);
    assert!(asked.take().is_empty());
}

#[test]
fn recorded_scratch_counts_in_place_of_the_rules() {
    let s = Sandbox::new();
    s.write("net.toml", RECURRENT).write("same.toml", &run_file(0, |_| false)).write("more.toml", &run_file(32 << 20, |_| false));
    let csv = |scratch: &[&str]| {
        s.run(&[&["net.toml", "--device", "virtual", "--quiet"], scratch].concat()).exits(0);
        s.read("results/net.csv")
    };
    let foreseen = csv(&[]);
    assert_eq!(csv(&["--scratch", "same.toml"]), foreseen);
    let more = csv(&["--scratch", "more.toml"]);
    // What was run with it is done with it alone.
    let done = |scratch: &[&str]| s.run(&[&["net.toml", "--device", "virtual", "--resume"], scratch].concat()).exits(0).stderr;
    assert_eq!(done(&["--scratch", "more.toml"]), "note: 1 of 1 case done before\n");
    assert_eq!(done(&[]), "note: 0 of 1 case done before\n");
    assert_eq!(done(&["--scratch", "same.toml"]), "note: 0 of 1 case done before\n");
    assert_ne!(more, foreseen);
    let peak = |csv: &str| crate::support::rows(csv).iter().map(|r| r["measured_peak"].parse::<u64>().unwrap()).max().unwrap();
    assert!(peak(&more) >= peak(&foreseen) + (32 << 20));
    for row in crate::support::rows(&more) {
        assert_eq!((&*row["error_allocated"], &*row["error_peak"], &*row["error_reserved"]), ("0", "0", "0"), "{row:?}");
    }
    let predicted = |scratch: &str| s.run(&["predict", "net.toml", "--scratch", scratch]).exits(0).stdout;
    assert_ne!(predicted("same.toml"), predicted("more.toml"));
}

#[test]
fn a_run_file_that_lacks_what_is_asked_for_is_a_mistake() {
    let s = Sandbox::new();
    let whole = run_file(0, |_| false);
    let table = whole.find("[scratch]").unwrap();
    s.write("net.toml", RECURRENT)
        .write("without.toml", &whole[..table])
        .write("lacking.toml", &run_file(0, |i| i == 0))
        .write("torn.toml", &whole[..whole.len() - 3].replace("[scratch]", "[scratch"))
        .write("t4.toml", &whole.replace("h200", "t4"))
        .write("small.toml", crate::support::SMALL);
    for command in [&["net.toml", "--device", "virtual"][..], &["predict", "net.toml"], &["summary", "net.toml"]] {
        let refused = |scratch: &str| s.run(&[command, &["--scratch", scratch]].concat()).exits(2);
        refused("without.toml").complains(&["without.toml: has no table `[scratch]`", "lstm", "--device cuda"]);
        refused("lacking.toml").complains(&["lacking.toml:5: `[scratch]` lacks `", "lstm", "--device cuda"]);
        refused("torn.toml").complains(&["torn.toml:5: no run file"]);
        refused("t4.toml").complains(&["t4.toml:3: its scratch is that of t4, not of h200; say `--gpu t4`"]);
        refused("absent.toml").complains(&["absent.toml", "No such file"]);
    }
    assert_eq!(s.list("results"), [""; 0]);
    // What asks libraries for nothing needs no entry.
    s.run(&["small.toml", "--device", "virtual", "--scratch", "without.toml", "--quiet"]).exits(0);
}

#[test]
fn what_a_library_answered_once_counts_again_and_the_rest_is_foreseen() {
    let gpu = Gpu::named("h200").unwrap();
    let request = |batch| Request::Recurrent(Recurrent { batch, ..cubes(8) });
    let (told, untold) = (request(2), request(3));
    let answers = [(told.to_string(), 77)].into();
    let answered = Answered { answers: &answers, otherwise: &Rules };
    assert_eq!(answered.bytes(gpu, &told), 77);
    assert_eq!(answered.bytes(gpu, &untold), Rules.bytes(gpu, &untold));
}
