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
    let words = "the sweep has no axis `train.dtype` of numbers; its axes are train.batch_size, train.dtype";
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
        (&["plot", "mlp_adam.csv", "-o", "./mlp_adam.csv"], "would be written over the results"),
        (&["plot", "mlp_adam.csv", "--gpu", "rtx3091"], "did you mean `rtx3090`?"),
        (&["plot", "mlp_adam.csv", "--axis", "train.dtype"], "the sweep has no axis `train.dtype`"),
        (&["plot"], "<FILE>"),
    ] {
        s.run(arguments).exits(2).complains(&[words]);
    }
    assert_eq!(s.list("."), ["empty.csv", "foreign.csv", "mlp_adam.csv"]);
    s.run(&["plot", "mlp_adam.csv", "-o", "no/such/folder.html"]).exits(1).complains(&["cannot write no/such/folder.html"]);
}
