//! Loading: a file (or text) and overrides in; an experiment, or every mistake in all of its cases, out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::case::{Case, Experiment};
use super::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use super::document::Node;
use super::resolve::{Run, resolve};
use super::sweep::Axis;
use super::{set, spell, sweep, syntax};
use crate::gpu::Gpu;
use crate::meta::format_bytes;
use crate::model::Work;

/// Loads an experiment file for the default GPU.
///
/// # Errors
/// All of its mistakes.
pub fn load(path: &Path) -> Result<Experiment, Diagnostics> {
    load_with(path, &Overrides::default(), Gpu::default_model())
}

/// What is to be otherwise than a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `key=value[,value…]` each.
    pub set: Vec<String>,
    /// Keys that the file or its sweep sets, to be as if it did not; that comes before what is set.
    pub unset: Vec<String>,
}

/// Loads an experiment file with overrides, for a GPU: what runs may depend on the model.
///
/// # Errors
/// All mistakes in the file and the overrides.
pub fn load_with(path: &Path, overrides: &Overrides, gpu: &Gpu) -> Result<Experiment, Diagnostics> {
    let shown = path.display().to_string();
    let name = path.file_stem().map_or_else(|| shown.clone(), |s| s.to_string_lossy().into_owned());
    let folder = path.parent().unwrap_or(Path::new(""));
    let refuse = |message: String| Diagnostics::new(Vec::new(), vec![Diagnostic { message, span: None, hints: Vec::new() }]);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|e| refuse(format!("cannot read {shown}: {e}")))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refuse(format!("{shown} is no experiment: it has more than {}", format_bytes(MOST_BYTES))));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Draft::shown_as(&name, shown, text, folder, gpu).load(overrides),
        Err(e) => {
            let start = e.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(e.as_bytes()).into_owned();
            let span = Span { source: 0, start, end: start + char::REPLACEMENT_CHARACTER.len_utf8() };
            let mistake = Diagnostic::new(span, "not UTF-8: TOML files are").hint(format!("byte {start} is where it stops being text"));
            Err(Diagnostics::new(vec![Source { name: shown, text }], vec![mistake]))
        }
    }
}

/// Loads an experiment from text, under a name, with overrides, for the default GPU. Paths in it are relative to the working directory.
///
/// # Errors
/// All mistakes in the text and the overrides.
pub fn load_str(name: &str, text: &str, overrides: &[String]) -> Result<Experiment, Diagnostics> {
    load_str_for(name, text, Path::new(""), overrides, Gpu::default_model())
}

/// As [`load_str`], of a file in that folder, to run on a certain GPU or in its place.
///
/// # Errors
/// All mistakes in the text and the overrides.
pub fn load_str_for(name: &str, text: &str, folder: &Path, overrides: &[String], gpu: &Gpu) -> Result<Experiment, Diagnostics> {
    Draft::read(name, text, folder, gpu).load(&Overrides { set: overrides.to_vec(), unset: Vec::new() })
}

/// An experiment's text, read once, to be loaded under one set of overrides after the other.
#[derive(Debug)]
pub struct Draft {
    name: String,
    /// As messages name the file.
    shown: String,
    folder: PathBuf,
    text: String,
    gpu: Gpu,
    root: Node,
    /// What is wrong with it as TOML.
    mistakes: Vec<Diagnostic>,
}

impl Draft {
    /// Reads the text of a file in that folder, under a name. What is wrong with it is told when it is loaded.
    #[must_use]
    pub fn read(name: &str, text: &str, folder: &Path, gpu: &Gpu) -> Self {
        Self::shown_as(name, format!("{name}.toml"), text.to_owned(), folder, gpu)
    }

    fn shown_as(name: &str, shown: String, text: String, folder: &Path, gpu: &Gpu) -> Self {
        let mut mistakes = Vec::new();
        let root = syntax::parse(0, &text, &mut mistakes);
        Self { name: name.to_owned(), shown, folder: folder.to_path_buf(), text, gpu: gpu.clone(), root, mistakes }
    }

    /// The experiment with overrides.
    ///
    /// # Errors
    /// All mistakes in the text and the overrides.
    pub fn load(&self, overrides: &Overrides) -> Result<Experiment, Diagnostics> {
        let Draft { name, shown, folder, text, gpu, root, mistakes } = self;
        let mut root = root.clone();
        let mut found = Found { once: mistakes.clone(), ..Found::default() };
        let broken = !found.once.is_empty();
        found.places = found.once.iter().filter_map(|m| m.span).collect();
        let mut axes = sweep::axes(&root, &mut found.once);
        let after = u32::try_from(overrides.set.len()).unwrap_or(u32::MAX).saturating_add(1);
        for (source, argument) in (after..).zip(&overrides.unset) {
            set::unset(source, argument, &mut root, &mut axes, &mut found.once);
        }
        for (source, argument) in (1..).zip(&overrides.set) {
            set::apply(source, argument, &mut root, &mut axes, &mut found.once);
        }
        let mut cases = Vec::new();
        let mut description = None;
        let mut size = 0;
        match sweep::count(&axes) {
            Ok(count) => {
                for index in 0..count {
                    let mut mistakes = Vec::new();
                    let (key, document) = sweep::case(&root, &axes, index, &mut mistakes);
                    let resolved = resolve(&document, folder, gpu, broken);
                    mistakes.extend(resolved.mistakes);
                    found.add(&key, mistakes);
                    if found.of_cases.len() > ENOUGH {
                        break;
                    }
                    description = resolved.description;
                    if let (Some(Run { allocator, work, feed, log, save }), true) = (resolved.case, found.is_empty()) {
                        size += values(&work);
                        if count > 1 && size > MOST_VALUES_IN_PLANS {
                            let message = format!(
                                "the sweep is too large: its first {} cases come to {size} tensors, and at most {MOST_VALUES_IN_PLANS} are possible",
                                index + 1
                            );
                            found.once.push(Diagnostic::new(sweep_span(&root), message));
                            break;
                        }
                        let resolved = spell::out(&document, &work);
                        cases.push(Case { key, allocator, work, feed, log, save, resolved });
                    } else {
                        cases.clear();
                    }
                }
                found.cases = count;
            }
            Err(message) => {
                found.once.push(Diagnostic::new(sweep_span(&root), message));
            }
        }
        if found.is_empty() {
            return Ok(Experiment { name: name.clone(), description, cases });
        }
        let named = |name: &str, text: &String| Source { name: name.to_owned(), text: text.clone() };
        let file = std::iter::once(named(shown, text));
        let set = overrides.set.iter().map(|text| named("--set", text));
        let sources = file.chain(set).chain(overrides.unset.iter().map(|text| named("--unset", text))).collect();
        Err(Diagnostics::new(sources, found.list(&axes)))
    }
}

/// No experiment is as large; a device that is read like a file may have no end.
const MOST_BYTES: u64 = 256 << 20;

/// Mistakes after which no further cases are looked at.
const ENOUGH: usize = 1000;

/// The most tensors that the plans of all cases may name: about a gigabyte of plans.
const MOST_VALUES_IN_PLANS: usize = 2_000_000;

fn values(work: &Work) -> usize {
    match work {
        Work::Train(plan) => plan.programs.iter().map(|p| p.values.len()).sum(),
        Work::Script(script) => script.steps.len(),
    }
}

/// The sweep's header, or the first override where only overrides make axes.
fn sweep_span(root: &Node) -> Span {
    root.entry("sweep").map_or(Span { source: 1, start: 0, end: 0 }, |e| e.key_span)
}

/// Mistakes of the file as a whole, and of its cases: one that several cases share is told once.
#[derive(Debug, Default)]
struct Found {
    once: Vec<Diagnostic>,
    /// Where those are.
    places: BTreeSet<Span>,
    numbers: BTreeMap<Diagnostic, usize>,
    /// A mistake, how many cases have it, and the first of them.
    of_cases: Vec<(Diagnostic, u64, String)>,
    cases: u64,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.once.is_empty() && self.of_cases.is_empty()
    }

    fn add(&mut self, key: &str, mut mistakes: Vec<Diagnostic>) {
        mistakes.sort();
        mistakes.dedup();
        // What is no TOML is told as such.
        mistakes.retain(|m| m.span.is_none_or(|s| !self.places.contains(&s)));
        for mistake in mistakes {
            match self.numbers.get(&mistake) {
                Some(&i) => self.of_cases[i].1 += 1,
                None => {
                    self.numbers.insert(mistake.clone(), self.of_cases.len());
                    self.of_cases.push((mistake, 1, key.to_owned()));
                }
            }
        }
    }

    /// Says of each mistake which cases have it, where not all do and where it is not about the very value that makes the case.
    fn list(self, axes: &[Axis]) -> Vec<Diagnostic> {
        let cases = self.cases;
        let of_cases = self.of_cases.into_iter().map(|(mistake, times, first)| {
            let about_value =
                axes.iter().any(|a| times == cases / a.values.len() as u64 && a.values.iter().any(|v| within(mistake.span, v.span)));
            match times {
                _ if times >= cases || about_value => mistake,
                1 => mistake.hint(format!("in the case {first}")),
                n => mistake.hint(format!("in {n} of {cases} cases, the first of them {first}")),
            }
        });
        self.once.into_iter().chain(of_cases).collect()
    }
}

fn within(inner: Option<Span>, outer: Span) -> bool {
    inner.is_some_and(|i| i.source == outer.source && i.start >= outer.start && i.end <= outer.end)
}
