//! Snapshots of other programs: what a block is called after its stack, which phase an event is in, and what is no frame or annotation.

use std::process::Command;
use std::rc::Rc;

use runner::alloc::{Dump, Frame, call_site};
use runner::report::plot::palette::SITES;
use serde_json::{Value, json};

use super::pages::data;
use crate::support::{Sandbox, repository};

fn fixture(name: &str) -> String {
    repository().join("tests/fixtures/snapshots").join(name).display().to_string()
}

/// The name of a stack of `(function, file, line)`, innermost first.
fn site(frames: &[(&str, &str, u64)]) -> String {
    let frame = |&(name, filename, line): &(&str, &str, u64)| Rc::new(Frame { name: name.to_owned(), filename: filename.to_owned(), line });
    call_site(&frames.iter().map(frame).collect::<Vec<_>>())
}

const UNWIND: (&str, &str, u64) = ("torch::unwind::unwind()", "??", 0);
const MALLOC: (&str, &str, u64) =
    ("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)", "CUDACachingAllocator.cpp", 0);
const EMPTY: (&str, &str, u64) = ("at::detail::empty_cuda(c10::ArrayRef<long>, c10::TensorOptions const&)", "??", 0);
const EVAL: (&str, &str, u64) = ("_PyEval_EvalFrameDefault", "/build/Python-3.11.7/Python/ceval.c", 4769);
const LINEAR: (&str, &str, u64) = ("forward", "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py", 134);
const MM: (&str, &str, u64) = ("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "??", 0);

#[test]
fn a_stack_is_called_after_the_programs_own_line() {
    assert_eq!(site(&[UNWIND, MALLOC, EMPTY, EVAL, LINEAR, EVAL, ("forward", "/home/user/torch/model.py", 16)]), "forward, model.py:16");
    // Also where the backward pass calls back into it, as checkpoints do.
    assert_eq!(site(&[UNWIND, LINEAR, ("block", "model.py", 7), MM]), "block, model.py:7");
    for (file, called) in [
        (r"C:\work\torch\train.py", "f, train.py:3"),
        ("<stdin>", "f, <stdin>:3"),
        ("/tmp/ipykernel_1/2.py", "f, 2.py:3"),
        ("/usr/lib/python3.11/site-packages/transformers/trainer.py", "f, trainer.py:3"),
        ("/home/user/python/train.py", "f, train.py:3"),
    ] {
        assert_eq!(site(&[LINEAR, ("f", file, 3), ("main", "main.py", 1)]), called, "{file}");
    }
    for library in [
        "/usr/lib/python3.11/contextlib.py",
        "/usr/lib/python3/dist-packages/torch/cuda/memory.py",
        r"C:\env\Lib\site-packages\torch\nn\functional.py",
        "/home/user/pytorch/torch/optim/adamw.py",
        "torch/nn/functional.py",
        "/tmp/torchinductor_user/ab/cab.py",
        "<frozen runpy>",
    ] {
        assert_eq!(site(&[("f", library, 3), ("main", "main.py", 1)]), "main, main.py:1", "{library}");
    }
}

#[test]
fn without_a_line_of_the_program_it_is_called_after_the_node_or_the_function() {
    let wrapper = ("at::(anonymous namespace)::wrapper_CUDA_mm(at::Tensor const&)", "RegisterCUDA_0.cpp", 0);
    let reduce = ("void at::native::gpu_reduce_kernel<float (*)(int), 4>(at::TensorIterator&)", "??", 0);
    assert_eq!(site(&[UNWIND, MALLOC, EMPTY, wrapper, MM]), "MmBackward0");
    assert_eq!(site(&[UNWIND, MALLOC, ("torch::autograd::AccumulateGrad::apply(int)", "??", 0)]), "AccumulateGrad");
    assert_eq!(site(&[UNWIND, MALLOC, EMPTY, wrapper, reduce, ("clone3", "./clone3.S", 81)]), "at::native::gpu_reduce_kernel");
    assert_eq!(site(&[UNWIND, EMPTY, ("mine::step(at::Tensor)", "", 0), ("torch::autograd::PyNode::apply(int)", "", 0)]), "mine::step");
    assert_eq!(site(&[UNWIND, MALLOC, EVAL, LINEAR]), "forward, linear.py:134");
    assert_eq!(site(&[UNWIND, MALLOC]), "torch::unwind::unwind");
    assert_eq!(site(&[("", "", 0)]), "");
    assert_eq!(site(&[]), "");
    // Names that a C++ compiler never wrote, and long ones.
    for odd in ["<", ">>(", "operator<(", "a<b", "(anonymous namespace)::", "é<é>é("] {
        let _ = site(&[(odd, "", 0)]);
    }
    assert_eq!(site(&[(&"é".repeat(4000), "a.py", 1)]).chars().count(), 160);
}

#[test]
fn the_default_recording_names_lines_and_nodes_everywhere() {
    let s = Sandbox::new();
    let bytes = std::fs::read(fixture("stacks_all.pickle")).unwrap();
    let dump = Dump::from_pickle(&bytes).unwrap();
    let names: Vec<String> = dump.stacks.iter().map(|stack| call_site(stack)).collect();
    assert_eq!(names.len(), 34, "stacks that repeat are kept once");
    assert!(names.iter().all(|name| !name.contains("unwind") && !name.starts_with("??") && !name.starts_with("c10")), "{names:#?}");
    for name in ["forward, train.py:16", "<module>, train.py:25", "AddmmBackward0", "ReluBackward0"] {
        assert!(names.iter().any(|n| n == name), "no {name} in {names:#?}");
    }
    s.run(&["replay", &fixture("stacks_all.pickle"), "--memory-limit", "64MiB"])
        .exits(0)
        .complains(&["request 7 (forward, train.py:16): CUDA out of memory"]);
    s.run(&["plot", &fixture("stacks_all.pickle"), "-o", "all.html"]).exits(0);
    s.run(&["plot", &fixture("stacks_python.pickle"), "-o", "python.html"]).exits(0);
    let largest = |page: &str| {
        let data = data(&s.read(page));
        let name = |n: &Value| data["names"][usize::try_from(n.as_u64().unwrap()).unwrap()].as_str().unwrap().to_owned();
        data["sites"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    // What holds most at once: the optimizer's state; then gradients, whose thread runs no Python.
    assert_eq!(largest("all.html")[..3], ["<module>, train.py:25", "AddmmBackward0", "forward, train.py:16"]);
    assert_eq!(largest("all.html").len(), SITES.len());
    assert_eq!(largest("python.html")[..3], ["<module>, train.py:25", "", "forward, train.py:16"]);
}

#[test]
fn a_phase_ends_where_its_annotation_ends() {
    let s = Sandbox::new();
    s.run(&["plot", &fixture("stacks_all.pickle"), "-o", "out.html"]).exits(0);
    let data = data(&s.read("out.html"));
    let phases: Vec<(u64, &str)> =
        data["phases"].as_array().unwrap().iter().map(|p| (p[0].as_u64().unwrap(), p[1].as_str().unwrap())).collect();
    let (step, zero_grad) = ("Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad");
    assert_eq!(phases.iter().map(|p| p.1).collect::<Vec<_>>(), [step, zero_grad, "", step, zero_grad]);
    // The second backward pass lies in none.
    let of = data["of"].as_array().unwrap();
    let names = data["names"].as_array().unwrap();
    let kinds = data["kinds"].as_str().unwrap().as_bytes();
    let backward = |i: &usize| names[usize::try_from(of[*i].as_u64().unwrap()).unwrap()] == "AddmmBackward0" && kinds[*i] == b'A';
    let backwards: Vec<u64> = (0..kinds.len()).filter(backward).map(|i| i as u64).collect();
    let phase = |i: u64| phases.iter().rev().find(|p| p.0 <= i).map_or("", |p| p.1);
    assert!(backwards.len() == 7 && backwards.iter().all(|&i| phase(i).is_empty()), "{backwards:?} {phases:?}");
}

/// Every phase of a page of three allocations a microsecond apart, under these annotations.
fn phases(annotations: &Value) -> Value {
    let s = Sandbox::new();
    std::fs::write(s.path("x.pickle"), pickle(&snapshot(&json!([]), annotations))).unwrap();
    s.run(&["plot", "x.pickle"]).exits(0);
    data(&s.read("x.html"))["phases"].clone()
}

#[test]
fn annotations_nest_and_overlap() {
    let at = |stage: &str, name: &str, time: u64| json!({"stage": stage, "name": name, "device": 0, "time_us": time});
    let nested = json!([at("START", "a", 0), at("START", "b", 1), at("END", "b", 2), at("END", "a", 3)]);
    assert_eq!(phases(&nested), json!([[0, "a"], [2, "b"], [3, "a"]]));
    // Of two threads: a ends while b is open. Other devices' count nothing, nor does an end without a start.
    let other = json!({"stage": "START", "name": "c", "device": 1, "time_us": 0});
    let crossed = json!([at("END", "z", 0), other, at("START", "a", 0), at("START", "b", 1), at("END", "a", 2)]);
    assert_eq!(phases(&crossed), json!([[0, "a"], [2, "b"]]));
    // Where one ends as the next begins there is nothing between.
    let touching = json!([at("START", "a", 0), at("END", "a", 1), at("START", "b", 1), at("END", "b", 2)]);
    assert_eq!(phases(&touching), json!([[0, "a"], [2, "b"], [3, ""]]));
}

/// A snapshot of a segment, and of three allocations in it that have these frames.
fn snapshot(frames: &Value, annotations: &Value) -> Value {
    let block = json!({"size": 512, "requested_size": 512, "state": "active_allocated", "frames": frames});
    let segment =
        json!({"device": 0, "address": 4096, "total_size": 1536, "stream": 0, "segment_type": "small", "blocks": [block, block, block]});
    let entry = |action: &str, at: u64, size: u64, time: u64| json!({"action": action, "addr": 4096 + 512 * at, "size": size, "stream": 0, "time_us": time, "frames": frames});
    let trace = [entry("segment_alloc", 0, 1536, 0), entry("alloc", 0, 512, 0), entry("alloc", 1, 512, 1), entry("alloc", 2, 512, 2)];
    json!({"segments": [segment], "device_traces": [trace], "external_annotations": annotations})
}

/// Plain data as Python pickles it.
fn pickle(value: &Value) -> Vec<u8> {
    fn write(value: &Value, out: &mut Vec<u8>) {
        let text = |text: &str, out: &mut Vec<u8>| {
            out.push(b'X');
            out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            out.extend(text.as_bytes());
        };
        match value {
            Value::Null => out.push(b'N'),
            Value::Bool(b) => out.push(0x89 - u8::from(*b)),
            Value::Number(n) => {
                out.extend([0x8a, 16]);
                out.extend(n.as_i128().unwrap().to_le_bytes());
            }
            Value::String(s) => text(s, out),
            Value::Array(items) => {
                out.push(b'(');
                items.iter().for_each(|item| write(item, out));
                out.push(b'l');
            }
            Value::Object(pairs) => {
                out.push(b'(');
                for (key, item) in pairs {
                    text(key, out);
                    write(item, out);
                }
                out.push(b'd');
            }
        }
    }
    let mut out = b"\x80\x04".to_vec();
    write(value, &mut out);
    out.push(b'.');
    out
}

#[test]
fn what_is_no_frame_or_annotation_is_passed_over() {
    let odd = json!([
        null, 3, "x", [], {}, {"name": 5}, {"name": null, "filename": "a.py", "line": 1}, {"stage": 1, "name": "a", "time_us": 1},
        {"stage": "START", "time_us": 1}, {"stage": "START", "name": "a"}, {"stage": "MIDDLE", "name": "a", "time_us": 1},
        {"stage": "START", "name": "a", "time_us": null}, {"stage": "START", "name": "a", "time_us": -1}, {"stage": "END", "name": "a", "time_us": 1},
    ]);
    let s = Sandbox::new();
    for frames in [json!(null), json!(7), json!({}), odd.clone(), json!([{"name": "f", "filename": null, "line": -1}])] {
        for annotations in [json!(null), json!({}), json!(1), odd.clone()] {
            std::fs::write(s.path("x.pickle"), pickle(&snapshot(&frames, &annotations))).unwrap();
            s.run(&["replay", "x.pickle"]).exits(0);
            s.run(&["plot", "x.pickle"]).exits(0);
            let data = data(&s.read("x.html"));
            assert_eq!((data["kinds"].as_str(), &data["phases"]), (Some("RAAA"), &json!([])), "{frames} {annotations}");
        }
    }
    for (change, message) in [
        (json!({"segments": null}), "`segments` is no list"),
        (json!({"device_traces": [[null]]}), "entry 0 of device 0's trace is no dict"),
        (json!({"device_traces": [[{"action": null}]]}), "`action` of entry 0 of device 0's trace is no text"),
        (json!({"device_traces": [[{"action": "alloc", "addr": 1, "size": null}]]}), "`size` of entry 0 of device 0's trace is no number"),
        (json!({"device_traces": [[{"action": "alloc", "addr": 1, "size": -1}]]}), "`size` of entry 0 of device 0's trace is no number"),
        (json!({"device_traces": [[{"action": "leak", "addr": 1, "size": 1}]]}), "entry 0 of device 0's trace: PyTorch has no `leak`"),
    ] {
        let mut whole = snapshot(&json!([]), &json!([]));
        whole.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        std::fs::write(s.path("x.pickle"), pickle(&whole)).unwrap();
        for command in ["plot", "replay"] {
            s.run(&[command, "x.pickle"]).exits(2).complains(&[message]);
        }
    }
    // Sizes that no memory has.
    let vast = json!({"action": "alloc", "addr": 1, "size": u64::MAX, "time_us": 1});
    let trace = [
        vast.clone(),
        json!({"action": "alloc", "addr": 2, "size": u64::MAX, "time_us": 1}),
        json!({"action": "free_completed", "addr": 1, "size": 1}),
        json!({"action": "free_completed", "addr": 2, "size": 1}),
    ];
    std::fs::write(s.path("x.pickle"), pickle(&json!({"segments": [], "device_traces": [trace]}))).unwrap();
    s.run(&["plot", "x.pickle"]).exits(0);
    s.run(&["replay", "x.pickle"]).exits(0);
}

#[test]
fn a_long_history_has_a_page_that_opens() {
    let s = Sandbox::new();
    let frames = std::fs::read(fixture("stacks_all.pickle")).unwrap();
    let mut dump = Dump::from_pickle(&frames).unwrap();
    let stacks = u32::try_from(dump.stacks.len()).unwrap();
    let entry = |n: u64| {
        let (action, at) =
            if n.is_multiple_of(2) { (runner::alloc::TraceAction::Alloc, n) } else { (runner::alloc::TraceAction::FreeCompleted, n - 1) };
        runner::alloc::TraceEntry {
            action,
            address: 1 << 40 | at << 21,
            bytes: 1 << 20,
            stream: 0,
            time_us: n,
            stack: Some(u32::try_from(at).unwrap() % stacks),
        }
    };
    dump.segments.clear();
    dump.traces = vec![(0..100_000).map(entry).collect()];
    std::fs::write(s.path("long.pickle"), dump.to_pickle()).unwrap();
    s.run(&["plot", "long.pickle"]).exits(0);
    let page = s.read("long.html");
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
}

/// The page's script itself, where there is something that runs it.
#[test]
fn the_legend_names_what_the_colours_mean() {
    if Command::new("node").arg("--version").output().is_err() {
        return;
    }
    let s = Sandbox::new();
    s.write("stage.js", STAGE);
    s.run(&["plot", &fixture("stacks_all.pickle"), "-o", "all.html"]).exits(0);
    s.run(&["plot", &fixture("stacks_python.pickle"), "-o", "python.html"]).exits(0);
    s.run(&["plot", &fixture("mlp.toml"), "-o", "run.html"]).exits(0);
    let told = |page: &str| s.shell(&format!("node stage.js {page}")).exits(0).stdout;
    let all = told("all.html");
    assert!(all.starts_with("legend <module>, train.py:25|AddmmBackward0|forward, train.py:16|"), "{all}");
    assert!(all.contains("|others|reserved|hole: reserved, not allocated\n"), "{all}");
    assert!(all.contains("\nnow Event ") && !all.contains("zero_grad"), "the peak is in the second backward pass: {all}");
    assert!(told("python.html").contains("|no frames recorded|"));
    assert!(told("run.html").starts_with("legend parameters|optimizer_state|"), "{}", told("run.html"));
}

/// As much of a browser as the script needs.
const STAGE: &str = r#"
const page = require("fs").readFileSync(process.argv[2], "utf8");
const script = page.split("<script>")[1].split("</script>")[0];
const element = () => ({
  children: [], style: { setProperty() {} }, clientWidth: 1000, textContent: "",
  append(...c) { this.children.push(...c); }, replaceChildren(...c) { this.children = c; }, addEventListener() {},
  getContext: () => new Proxy({}, { get: () => () => {}, set: () => true }), getBoundingClientRect: () => ({ left: 0, top: 0, width: 0, height: 0 }),
});
const elements = {};
global.document = { getElementById: (id) => (elements[id] ??= element()), createElement: element, documentElement: {} };
global.getComputedStyle = () => ({ getPropertyValue: () => "black" });
global.addEventListener = () => {};
global.matchMedia = () => ({ addEventListener() {} });
global.requestAnimationFrame = (draw) => draw();
global.devicePixelRatio = 1;
(0, eval)(script);
console.log("legend " + elements.legend.children.map((e) => e.textContent).join("|"));
console.log("now " + elements.now.textContent);
"#;
