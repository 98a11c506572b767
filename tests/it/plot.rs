//! `runner plot`: pages and pictures that need nothing from anywhere, whatever is in the results.

use crate::results::{expect, fixture};
use crate::support::Sandbox;

fn sandbox(name: &str) -> Sandbox {
    let s = Sandbox::new();
    let path = fixture(name);
    s.write(path.file_name().unwrap().to_str().unwrap(), &std::fs::read_to_string(&path).unwrap());
    s
}

/// Panics unless `text` is a tree of elements with quoted attributes, each closed; gives how many of each there are.
fn elements(text: &str, void: &[&str]) -> std::collections::BTreeMap<String, usize> {
    let mut open = Vec::new();
    let mut found = std::collections::BTreeMap::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a stray > before {:.60}", &rest[start..]);
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of turn");
        } else if !tag.starts_with('!') {
            let name = tag.split([' ', '/']).next().unwrap().to_string();
            assert_eq!(tag.matches('"').count() % 2, 0, "an attribute ends inside <{tag}>");
            *found.entry(name.clone()).or_insert(0) += 1;
            if matches!(&*name, "script" | "style") {
                let close = format!("</{name}>");
                rest = &rest[rest.find(&close).unwrap() + close.len()..];
            } else if !tag.ends_with('/') && !void.contains(&&*name) {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    found
}

#[test]
fn a_run_becomes_one_file_that_loads_nothing() {
    let s = sandbox("before/mlp_adam.csv");
    let out = s.run(&["plot", "mlp_adam.csv"]).exits(0);
    assert_eq!((&*out.stdout, &*out.stderr), ("mlp_adam.html\n", ""));
    assert_eq!(s.list("."), ["mlp_adam.csv", "mlp_adam.html"]);
    let page = s.read("mlp_adam.html");
    let found = elements(&page, &["meta"]);
    assert_eq!((found["svg"], found["script"], found["desc"]), (2, 1, 2));
    assert!(page.contains("default-src 'none'") && page.contains("prefers-color-scheme:dark"));
    for outside in ["src=", "href=", "url(", "@import", "fetch(", "https:", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http:"));
    for said in [
        "Highest peak: 135.79\u{a0}MiB in step 1 optimizer (mostly workspace, 65.00\u{a0}MiB at its end).",
        "Predicted as measured, to the byte, in all 19 rows.",
        "peak: 142 384 128 B (135.79 MiB), as predicted\nreserved: 159 383 552 B (152.00 MiB), as predicted",
        "<td>step 3 zero_grad</td><td>112 908 288</td>",
    ] {
        assert!(page.contains(said), "the page does not say {said:?}");
    }
    s.run(&["plot", "mlp_adam.csv", "-o", "again.html"]).exits(0);
    assert_eq!(page, s.read("again.html"));
}

#[test]
fn pictures_are_as_they_were_looked_at() {
    for (results, extra, picture) in [
        ("before/mlp_adam.csv", &[][..], "run.svg"),
        ("sweep.csv", &["--gpu", "t4"][..], "sweep.svg"),
        ("after/vgg11.csv", &[][..], "oom.svg"),
    ] {
        let s = sandbox(results);
        let name = results.rsplit('/').next().unwrap();
        let svg = s.run(&[&["plot", name, "--svg", "-o", "-"], extra].concat()).exits(0).stdout;
        elements(&svg, &[]);
        expect(picture, &svg);
    }
}

#[test]
fn a_sweep_is_drawn_along_its_axis_with_what_fits() {
    let s = sandbox("sweep.csv");
    s.run(&["plot", "sweep.csv", "--gpu", "t4,rtx3090"]).exits(0);
    let page = s.read("sweep.html");
    elements(&page, &["meta"]);
    assert!(page.contains("Memory along train.batch_size"));
    assert!(page.contains("<li><b>t4</b> (14.58 GiB): all</li>"));
    // One picture of the sweep and one for each of the eight cases, each in two widths.
    assert_eq!(page.matches("<svg").count(), 18);
    let words = "the results cannot be drawn along `train.dtype`: their axes of numbers are train.batch_size";
    s.run(&["plot", "sweep.csv", "--axis", "train.dtype"]).exits(2).complains(&[words]);
    s.run(&["plot", "sweep.csv", "--axis", "train.batch_size", "--svg"]).exits(0);
    assert!(s.read("sweep.svg").starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
}

#[test]
fn names_from_files_stay_text() {
    let s = Sandbox::new();
    let evil = "</title><script>alert('1')</script>&amp;<img src=x onerror=alert(2)>";
    let field = format!("\"a={}\"", evil.replace('"', "\"\""));
    let text = std::fs::read_to_string(fixture("sweep.csv")).unwrap();
    let text = text.replace("train.batch_size=512 train.dtype=f32", &field).replace(",adam,", ",<b>adam</b>,");
    s.write("<i>.csv", &text);
    s.run(&["plot", "<i>.csv", "-o", "page.html"]).exits(0);
    let page = s.read("page.html");
    let found = elements(&page, &["meta"]);
    assert_eq!(found["script"], 1);
    assert!(!found.contains_key("img") && !found.contains_key("i") && !found.contains_key("b"), "{found:?}");
    assert!(page.contains("&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;"));
    s.run(&["plot", "<i>.csv", "--svg", "-o", "picture.svg"]).exits(0);
    assert!(!elements(&s.read("picture.svg"), &[]).contains_key("script"));
}

#[test]
fn a_thousand_cases_stay_a_small_page() {
    let text = std::fs::read_to_string(fixture("before/mlp_adam.csv")).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let case = |i: usize| rows.lines().map(|l| format!("train.batch_size={i}{l}\n")).collect::<String>();
    let s = Sandbox::new();
    s.write("many.csv", &(format!("{header}\n") + &(1..=1000).map(case).collect::<String>()));
    s.run(&["plot", "many.csv"]).exits(0);
    let page = s.read("many.html");
    elements(&page, &["meta"]);
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
}

#[test]
fn mistakes_end_in_two_and_write_nothing() {
    let s = sandbox("before/mlp_adam.csv");
    s.write("empty.csv", s.read("mlp_adam.csv").split_inclusive('\n').next().unwrap()).write("foreign.csv", "a\n1\n");
    for (arguments, words) in [
        (&["plot", "nowhere.csv"][..], "nowhere.csv: No such file"),
        (&["plot", "foreign.csv"], "is not a results file"),
        (&["plot", "empty.csv"], "empty.csv: there is no row to draw"),
        (&["plot", "mlp_adam.csv", "-o", "./mlp_adam.csv"], "would be written over"),
        (&["plot", "mlp_adam.csv", "--gpu", "rtx3091"], "'rtx3090'"),
        (&["plot", "mlp_adam.csv", "--axis", "train.dtype"], "the results cannot be drawn along `train.dtype`"),
        (&["plot"], "<FILE>"),
    ] {
        s.run(arguments).exits(2).complains(&[words]);
    }
    assert_eq!(s.list("."), ["empty.csv", "foreign.csv", "mlp_adam.csv"]);
    s.run(&["plot", "mlp_adam.csv", "-o", "no/such/folder.html"])
        .exits(2)
        .complains(&["cannot write no/such/folder.html: there is no folder no/such\n"]);
}

/// A measured run of `cases` cases: batches that take 3 ms to prepare, two at a time, steps of 2 ms, a device busy for half of it.
fn measured(cases: &[&str], figures: bool) -> Vec<u8> {
    use runner::record::{Load, MicroStep, StepTimes};
    let steps: Vec<MicroStep> = (0..60)
        .map(|i| {
            let began = 0.01 + 0.002 * f64::from(i);
            let prepared = Some((began - 0.004 + 0.0005 * f64::from(i % 2), began - 0.001 + 0.0005 * f64::from(i % 2)));
            let times = StepTimes {
                waiting: 0.0004,
                preparing: 0.003,
                copying: 0.0001,
                logging: 0.0003,
                began,
                computing: Some((began + 0.0005, began + 0.0015)),
                prepared,
                ..StepTimes::default()
            };
            let load = Load { utilisation: Some(0.45), memory: Some(3 << 30), power: Some(201.5), cpu: Some(1.25) };
            let load = if figures { load } else { Load::default() };
            MicroStep { step: u64::from(i as u32) + 1, micro_step: 1, loss: Some(0.5), skipped: false, seconds: 0.002, times, load }
        })
        .collect();
    runner::report::training::to_csv(cases.len() > 1, true, cases.iter().map(|case| (*case, &steps[..])))
}

#[test]
fn what_a_run_did_with_its_time_is_drawn_as_lanes() {
    let s = Sandbox::new();
    s.write_bytes("a.training.csv", &measured(&[""], true));
    let out = s.run(&["plot", "a.training.csv"]).exits(0);
    assert_eq!((&*out.stdout, &*out.stderr), ("a.training.html\n", ""));
    let page = s.read("a.training.html");
    let found = elements(&page, &["meta"]);
    assert_eq!((found["svg"], found["script"]), (2, 1));
    assert!(page.contains("default-src 'none'") && page.contains("prefers-color-scheme:dark"));
    for outside in ["src=", "href=", "url(", "@import", "fetch(", "https:", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for said in [
        "Device busy 50\u{a0}% of the time",
        "20 % waiting for batches, 5 % copying them, 15 % reading and telling losses",
        "500 micro-steps a second",
        "step 30\nwhole: 2 ms\ndevice busy: 1 ms\nwaiting: 0.4 ms\npreparing, all workers: 3 ms",
        "NVML&#39;s utilisation: 45 %",
        "memory in use, as sampled",
    ] {
        assert!(page.replace("50 % of", "50\u{a0}% of").contains(said), "the page does not say {said:?}");
    }
    let svg = s.run(&["plot", "a.training.csv", "--svg", "-o", "-"]).exits(0).stdout;
    elements(&svg, &[]);
    expect("time.svg", &svg);
    // Without samples there is no panel for them.
    s.write_bytes("bare.training.csv", &measured(&[""], false));
    let bare = s.run(&["plot", "bare.training.csv", "--svg", "-o", "-"]).exits(0).stdout;
    assert!(!bare.contains("memory in use") && !bare.contains("NVML"));
}

#[test]
fn micro_steps_whose_computing_was_not_measured_are_left_out() {
    let s = Sandbox::new();
    // Steps 1 to 5 and 31 to 54 alone are measured.
    let text = String::from_utf8(measured(&[""], true)).unwrap();
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            let mut cells: Vec<&str> = line.split(',').collect();
            if i > 5 && !(31..55).contains(&i) {
                (cells[8], cells[12]) = ("", "");
            }
            cells.join(",")
        })
        .collect();
    s.write("a.training.csv", &(lines.join("\n") + "\n"));
    s.run(&["plot", "a.training.csv"]).exits(0);
    let page = s.read("a.training.html");
    assert!(page.contains("Device busy 50 % of the time") && page.contains("micro-steps 31 to 54"));
    let cases = runner::report::training::parse(s.read("a.training.csv").as_bytes()).unwrap();
    assert_eq!(
        runner::report::training::to_csv(false, true, cases.iter().map(|(c, m)| (c.as_str(), &m[..]))),
        s.read("a.training.csv").into_bytes()
    );
}

#[test]
fn cases_of_a_measured_sweep_stay_text_and_are_bounded() {
    let s = Sandbox::new();
    let evil = "data.source=</title><script>alert('1')</script>&amp;<img src=x>";
    let names: Vec<String> = (0..30).map(|i| format!("data.workers={i}")).collect();
    let cases: Vec<&str> = std::iter::once(evil).chain(names.iter().map(String::as_str)).collect();
    s.write_bytes("<i>.training.csv", &measured(&cases, true));
    s.run(&["plot", "<i>.training.csv", "-o", "page.html"]).exits(0);
    let page = s.read("page.html");
    let found = elements(&page, &["meta"]);
    assert_eq!((found["script"], found["svg"]), (1, 32));
    assert!(!found.contains_key("img") && !found.contains_key("i"), "{found:?}");
    assert!(page.contains("15 more cases in the CSV.") && page.len() < 2_500_000, "{} bytes", page.len());
}

#[test]
fn a_run_that_was_not_measured_has_no_lanes() {
    let s = Sandbox::new();
    s.write("a.toml", crate::support::SMALL).run(&["a.toml", "--device", "host", "--quiet"]).exits(0);
    s.run(&["plot", "results/a.training.csv"]).exits(2).complains(&["a.training.csv", "tells no times", "[data]"]);
    s.write("a.toml", &format!("{}[log]\nevery = 1\n", crate::support::SMALL)).run(&["a.toml", "--device", "host", "--quiet"]).exits(0);
    s.run(&["plot", "results/a.training.csv"]).exits(0);
    elements(&s.read("results/a.training.html"), &["meta"]);
    s.run(&["plot", "results/a.training.csv", "--axis", "train.batch_size"]).exits(2).complains(&["--axis"]);
    s.write("damaged.csv", "step,micro_step,loss,skipped,seconds\n1,1,x,false,0.1\n");
    s.run(&["plot", "damaged.csv"]).exits(2).complains(&["damaged.csv", "a cell of it"]);
}
