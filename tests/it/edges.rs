//! The table of who may use whom, enforced: reads every path in `src/` and fails on any other edge.
//!
//! It works on tokens, so that a path inside a macro or a function body counts as a `use` does, and it follows re-exports, so
//! that a forbidden item cannot be reached under another module's name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A node of the table: which modules it is, and which it may use besides itself.
const TABLE: &[(&str, &[&str])] = &[
    ("meta", &[]),
    ("build", &[]),
    ("whole", &["meta"]),
    ("record", &["meta"]),
    ("alloc", &["meta"]),
    ("gpu", &["meta"]),
    ("scratch", &["meta", "whole", "gpu"]),
    ("rules", &["meta", "gpu", "scratch"]),
    ("model", &["meta", "gpu", "scratch", "rules", "record"]),
    ("data", &["meta", "whole"]),
    ("save", &["meta", "whole"]),
    ("experiment", &["meta", "gpu", "alloc", "model", "rules", "data"]),
    ("predict", &["meta", "record", "alloc", "gpu", "scratch", "rules", "model"]),
    ("device", &["meta", "alloc", "gpu", "scratch"]),
    ("tensor", &["meta", "record", "alloc", "device"]),
    ("exec", &["meta", "record", "alloc", "gpu", "scratch", "device", "tensor"]),
    ("kernels", &["meta", "record", "gpu", "scratch", "device", "tensor", "exec", "rules", "save"]),
    ("autograd", &["meta", "record", "alloc", "tensor", "exec", "rules", "kernels"]),
    ("measure", &["meta", "record", "alloc", "device", "tensor"]),
    (
        "train",
        &["meta", "record", "alloc", "gpu", "rules", "model", "device", "tensor", "exec", "kernels", "autograd", "measure", "data", "save"],
    ),
    ("report", &["meta", "whole", "record", "experiment"]),
    (
        "cli",
        &[
            "meta",
            "whole",
            "record",
            "alloc",
            "gpu",
            "scratch",
            "rules",
            "model",
            "data",
            "save",
            "experiment",
            "predict",
            "device",
            "tensor",
            "exec",
            "kernels",
            "autograd",
            "measure",
            "train",
            "report",
        ],
    ),
    ("main", &["cli"]),
];

/// A module's path from the crate's root, e.g. `["ops", "linear", "rule"]`.
type Module = Vec<String>;

/// The node a path belongs to. Operators and optimizers are two nodes: their rules, and everything of theirs named `kernel`.
fn node(path: &[String]) -> Option<&'static str> {
    let top = path.first()?.as_str();
    let name = match top {
        "ops" | "optim" if path.iter().any(|p| p.starts_with("kernel")) => "kernels",
        "ops" | "optim" => "rules",
        other => other,
    };
    TABLE.iter().map(|(n, _)| *n).find(|n| *n == name)
}

/// All that the scan finds.
#[derive(Default)]
struct Source {
    modules: BTreeSet<Module>,
    /// Names that a module re-exports or imports, and what they stand for.
    aliases: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
    /// Every path written: the module it is written in, and the path from the root.
    paths: Vec<(Module, Vec<String>)>,
}

impl Source {
    /// Reads the module `module` from `tokens`.
    fn scan(&mut self, module: &Module, tokens: TokenStream) {
        self.modules.insert(module.clone());
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut i = 0;
        while i < tokens.len() {
            let word = word(&tokens[i]);
            match (word.as_deref(), tokens.get(i + 1), tokens.get(i + 2)) {
                (Some("mod"), Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) => {
                    let inner = [module.clone(), vec![name.to_string()]].concat();
                    self.scan(&inner, body.stream());
                    i += 3;
                }
                (Some("use"), ..) => {
                    let end = i + 1 + tokens[i + 1..].iter().position(|t| punct(t, ';')).unwrap_or(0);
                    self.tree(module, &[], &tokens[i + 1..end], true);
                    i = end + 1;
                }
                (Some(_), Some(colon), _) if punct(colon, ':') => {
                    let end = path_end(&tokens, i);
                    self.tree(module, &[], &tokens[i..end], false);
                    i = end;
                }
                _ => {
                    if let TokenTree::Group(group) = &tokens[i] {
                        self.scan(module, group.stream());
                    }
                    i += 1;
                }
            }
        }
    }

    /// A path, or a tree of them in braces, after `prefix`.
    fn tree(&mut self, module: &Module, prefix: &[String], tokens: &[TokenTree], import: bool) {
        let mut path = prefix.to_vec();
        let mut i = 0;
        while i < tokens.len() {
            match &tokens[i] {
                TokenTree::Ident(word) if word == "as" => {
                    let alias = tokens.get(i + 1).map(ToString::to_string);
                    return self.found(module, path, alias, import);
                }
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in inner.split(|t| punct(t, ',')).filter(|p| !p.is_empty()) {
                        self.tree(module, &path, part, import);
                    }
                    return;
                }
                TokenTree::Punct(p) if p.as_char() == '*' => path.push("*".to_string()),
                _ => {}
            }
            i += 1;
        }
        self.found(module, path, None, import);
    }

    fn found(&mut self, module: &Module, mut path: Vec<String>, alias: Option<String>, import: bool) {
        if import && path.last().is_some_and(|w| w == "self") {
            path.pop();
        }
        let Some(full) = from_root(module, &path) else { return };
        if import {
            let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
            self.aliases.entry(module.clone()).or_default().insert(name, full.clone());
        }
        self.paths.push((module.clone(), full));
    }

    /// Every module that `path` passes through on its way, re-exports followed.
    fn reached(&self, path: &[String], depth: usize) -> Vec<Vec<String>> {
        let mut all = vec![path.to_vec()];
        for end in (1..=path.len()).rev() {
            let (module, name) = (&path[..end - 1], &path[end - 1]);
            let target = self.aliases.get(module).and_then(|names| names.get(name));
            let child = [module, std::slice::from_ref(name)].concat();
            if let Some(target) = target.filter(|_| depth < 16 && !self.modules.contains(&child)) {
                let rest = [target.as_slice(), &path[end..]].concat();
                all.extend(self.reached(&rest, depth + 1));
                break;
            }
        }
        all
    }
}

/// `path` as written in `module`, from the root; `None` where it leads out of the crate or is a plain local name.
fn from_root(module: &Module, path: &[String]) -> Option<Vec<String>> {
    let mut base = module.clone();
    let mut rest = path;
    match path.first().map(String::as_str)? {
        "crate" | "runner" => {
            base.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|w| w == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        _ => {}
    }
    Some([base, rest.to_vec()].concat())
}

fn word(token: &TokenTree) -> Option<String> {
    if let TokenTree::Ident(ident) = token { Some(ident.to_string()) } else { None }
}

fn punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

/// Where the path that starts at `i` ends: words joined by `::`.
fn path_end(tokens: &[TokenTree], mut i: usize) -> usize {
    loop {
        i += 1;
        let colons = tokens.get(i).is_some_and(|t| punct(t, ':')) && tokens.get(i + 1).is_some_and(|t| punct(t, ':'));
        if !colons || !matches!(tokens.get(i + 2), Some(TokenTree::Ident(_))) {
            return i;
        }
        i += 2;
    }
}

/// Reads a folder of sources as the module tree that it is.
fn read(source: &mut Source, folder: &Path, module: &Module) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let stem = path.file_stem().unwrap().to_str().unwrap().to_string();
        let inner = [module.clone(), vec![stem.clone()]].concat();
        if path.is_dir() {
            read(source, &path, &inner);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            source.scan(if stem == "mod" || stem == "lib" { module } else { &inner }, tokens);
        }
    }
}

/// Whether `module` is the folder of an operator or an optimizer, or of all of them.
fn has_rule(source: &Source, module: &Module) -> bool {
    source.modules.contains(&[module.as_slice(), &["rule".to_string()]].concat())
}

/// The edges of `source` that the table does not have.
fn forbidden(source: &Source) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    for (module, path) in &source.paths {
        let index = matches!(module.first().map(String::as_str), Some("ops" | "optim")) && has_rule(source, module);
        if module.is_empty() || index {
            continue; // it only names its parts; whoever takes one through it is held to the part itself
        }
        let from = node(module).unwrap_or_else(|| panic!("src/{} is in no row of the table", module.join("/")));
        let may = TABLE.iter().find(|(n, _)| *n == from).map(|(_, may)| *may).unwrap();
        for reached in source.reached(path, 0) {
            let outside = !source.modules.contains(&reached[..1.min(reached.len())]);
            if outside && (reached.len() < 2 || path.first() != reached.first()) {
                continue;
            }
            match node(&reached) {
                Some(to) if to == from || may.contains(&to) => {}
                Some(to) => {
                    wrong.insert(format!("{} uses {}: {from} may not use {to}", module.join("::"), path.join("::")));
                }
                None if source.modules.contains(&reached[..1]) => {
                    wrong.insert(format!("{} uses {}, which is in no row of the table", module.join("::"), path.join("::")));
                }
                None => {}
            }
        }
    }
    wrong
}

#[test]
fn every_edge_is_in_the_table() {
    let mut source = Source::default();
    read(&mut source, &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &Module::new());
    assert!(source.paths.len() > 100, "the scan found only {} paths", source.paths.len());
    let wrong = forbidden(&source);
    assert!(wrong.is_empty(), "edges that the table does not have:\n{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

/// A source tree of three modules with `text` in the predictor.
fn with_predictor(text: &str) -> BTreeSet<String> {
    let mut source = Source::default();
    let module = |path: &str| path.split("::").map(String::from).collect::<Module>();
    for (path, text) in [
        ("device", "pub struct Device;"),
        ("ops", "pub mod linear; pub mod rule; pub use linear::kernel::Run; pub use linear::rule::Rule;"),
        ("ops::rule", ""),
        ("ops::linear", "pub mod kernel; pub mod rule;"),
        ("ops::linear::kernel", "pub struct Run; pub struct Device;"),
        ("ops::linear::rule", "pub struct Rule;"),
        ("predict", "pub mod walk;"),
        ("predict::walk", text),
    ] {
        source.scan(&module(path), text.parse().unwrap());
    }
    forbidden(&source)
}

#[test]
fn no_way_round_the_table_is_missed() {
    for text in [
        "use crate::device::Device;",
        "use crate::device;",
        "use crate::{ops::Rule, device::Device};",
        "use super::super::device::Device;",
        "fn f() { let d = crate::device::Device; }",
        "fn f() { vec![super::super::device::Device]; }",
        "mod inner { use super::super::super::device::Device; }",
        "use crate::device::{self as harmless};",
        "use crate::device::*;",
        "use crate::ops::Run;",
        "use crate::ops::linear::kernel::Run as Rule;",
        "use crate::ops::linear as l; use self::l::kernel::Run;",
        "use crate::ops::linear; fn f() { linear::kernel::Run }",
    ] {
        assert!(!with_predictor(text).is_empty(), "not noticed: {text}");
    }
    for text in [
        "use crate::ops::Rule;",
        "use crate::ops::linear::rule::Rule;",
        "// use crate::device;\nfn f() {}",
        "const S: &str = \"crate::device\";",
    ] {
        assert_eq!(with_predictor(text), BTreeSet::new(), "wrongly noticed: {text}");
    }
}
