//! What a stack of a PyTorch program is called: the one frame of it that tells a person where a block comes from. Stacks may hold Python
//! alone (`stacks="python"`) or C++ with Python woven in (`stacks="all"`, the default); frames come innermost first.
//!
//! Invariant: every stack that has a frame has a name of at most [`MOST`] characters.

use std::rc::Rc;

use super::types::Frame;

/// Longer names are cut.
const MOST: usize = 160;

/// Packages that carry PyTorch out rather than use it.
const PACKAGES: [&str; 4] = ["torch", "torchgen", "functorch", "triton"];

/// How the qualified names of C++ functions begin that only record, allocate or pass on: they say nothing of what for.
const MACHINERY: [&str; 17] = [
    "torch::unwind::",
    "torch::CapturedTraceback::",
    "torch::cuda::gather",
    "torch::detail::",
    "c10::",
    "std::",
    "at::detail::",
    "at::empty",
    "at::native::empty",
    "at::_ops::empty",
    "at::native::resize",
    "at::_ops::resize",
    "at::meta::",
    "at::TensorIterator",
    "THPVariable_",
    "subtype_dealloc",
    "??",
];

/// The name of a stack: the first of these that it has.
///
/// 1. Its innermost Python frame outside of PyTorch and of Python's own library, as `function, file.py:line`.
/// 2. The node of the graph that runs backward, as `MmBackward0`: its thread has no Python of its own.
/// 3. Its innermost C++ function that is more than recording, allocating and dispatching, as `at::native::arange_cuda_out`.
/// 4. Its innermost Python frame, else its innermost.
///
/// Empty where there is no frame.
#[must_use]
pub fn call_site(stack: &[Rc<Frame>]) -> String {
    let python = || stack.iter().filter(|f| is_python(f));
    let name = (python().find(|f| !is_library(&f.filename)).map(|f| in_python(f)))
        .or_else(|| stack.iter().find_map(|f| node(&f.name)))
        .or_else(|| stack.iter().filter(|f| f.line == 0 || !is_python(f)).find_map(|f| informative(f)))
        .or_else(|| python().next().map(|f| in_python(f)))
        .or_else(|| stack.first().map(|f| qualified(&f.name)))
        .unwrap_or_default();
    match name.char_indices().nth(MOST) {
        Some((end, _)) => name[..end].to_owned(),
        None => name,
    }
}

/// Python's frames are in files of Python, or in text that somebody typed (`<stdin>`, a cell of a notebook). The interpreter's own C
/// functions lie between them.
fn is_python(frame: &Frame) -> bool {
    let file = frame.filename.as_str();
    frame.line > 0 && (file.ends_with(".py") || file.starts_with('<') && file.ends_with('>') && !file.starts_with("<frozen"))
}

/// Whether a file of Python is PyTorch's, made by its compiler, or of Python's own library.
fn is_library(file: &str) -> bool {
    let mut parts = file.split(['/', '\\']).peekable();
    if parts.peek().is_some_and(|first| PACKAGES.contains(first)) {
        return true;
    }
    while let Some(part) = parts.next() {
        let Some(next) = parts.peek() else { return false };
        let installed = matches!(part, "site-packages" | "dist-packages");
        // A program's own folder may be called `torch`: that of a checkout lies in `pytorch`.
        if (installed || part == "pytorch") && PACKAGES.contains(next) || part.starts_with("torchinductor_") {
            return true;
        }
        let version = part.strip_prefix("python").and_then(|v| v.split_once('.'));
        let of_python = version.is_some_and(|(major, minor)| [major, minor].iter().all(|n| n.parse::<u8>().is_ok()));
        if of_python && !matches!(*next, "site-packages" | "dist-packages") {
            return true;
        }
    }
    false
}

fn in_python(frame: &Frame) -> String {
    let file = frame.filename.rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{}, {file}:{}", frame.name, frame.line)
}

/// `torch::autograd::generated::MmBackward0::apply(…)` is `MmBackward0`. A node that was written in Python or by an extension has no name
/// there.
fn node(function: &str) -> Option<String> {
    let rest = function.strip_prefix("torch::autograd::")?;
    let (path, method) = qualified(rest).rsplit_once("::").map(|(path, method)| (path.to_owned(), method.to_owned()))?;
    let node = path.rsplit("::").next().unwrap_or_default();
    (method == "apply" && !matches!(node, "PyNode" | "CppNode")).then(|| node.to_owned())
}

/// The function, where it is C++ and not machinery.
fn informative(frame: &Frame) -> Option<String> {
    let name = qualified(&frame.name);
    // Wrappers are made for the dispatcher, in no name's space.
    let wrapper = frame.name.starts_with("at::(anonymous namespace)::") || name.is_empty() || !name.contains("::");
    (!wrapper && !MACHINERY.iter().any(|m| name.starts_with(m))).then_some(name)
}

/// A C++ function without its return type, its parameters, and what its templates are filled with.
fn qualified(function: &str) -> String {
    let function = function.replace("(anonymous namespace)::", "");
    let mut name = String::new();
    let mut depth = 0usize;
    for c in function.chars() {
        match c {
            '<' if !name.ends_with("operator") => depth += 1,
            '>' if depth > 0 => depth -= 1,
            '(' | '[' if depth == 0 => break,
            c if depth == 0 => name.push(c),
            _ => {}
        }
    }
    let name = name.trim_end();
    let name = name.rsplit(' ').next().unwrap_or(name);
    if name.is_empty() { function } else { name.to_owned() }
}
