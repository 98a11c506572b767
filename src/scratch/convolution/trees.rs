//! The file that says which formula holds for which convolutions: for each direction a tree for products (a 1×1 window that moves by one) and one
//! for wider windows.
//!
//! Lines that begin with `#` are remarks. `gpu NAME` says whose answers it was grown from. `tree DIRECTION products` or `tree DIRECTION windows`
//! begins a tree, and words follow, over any number of lines: a comparison `MEASURE<=NUMBER`, followed by the words for where it holds and then
//! those for where it doesn't; or the plan that is chosen. Nothing here knows a formula.
//!
//! Invariant: trees that are read choose what those that were written choose, and their text is the same bytes again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::geometry::Geometry;
use super::measure::MEASURES;
use super::plan::Plan;
use super::tree::{Node, class, small};
use crate::gpu::Gpu;
use crate::meta::plain;
use crate::scratch::Direction;
use crate::whole;

/// Which plan cuDNN takes, by a convolution's sizes.
#[derive(Debug, Clone)]
pub struct Trees {
    /// Where they come from, a line each.
    remarks: Vec<String>,
    gpu: String,
    /// By direction, windows before products.
    trees: [[Tree; 2]; 3],
}

/// A file that holds no trees, or another GPU's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each field is
pub enum TreesError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {message}; such a file is written by `runner calibrate`", path.display())]
    Parse { path: PathBuf, line: usize, message: String },
    #[error("{}:{line}: its convolutions are those of {grown}, not of {wanted}; say `--gpu {grown}`", path.display())]
    OtherGpu { path: PathBuf, line: usize, grown: String, wanted: String },
}

#[derive(Debug, Clone)]
struct Tree {
    nodes: Vec<Node>,
    /// What its classes stand for.
    plans: Vec<Plan>,
}

/// A tree's part of a text: which it is, where its name stands, and its words, each with its line.
struct Section<'a> {
    place: [usize; 2],
    line: usize,
    words: Vec<(usize, &'a str)>,
}

/// No trees are as large.
const MOST_BYTES: u64 = 256 << 20;

/// How wide the text is.
const WIDTH: usize = 150;

impl Trees {
    /// Those of an H200, which come with the program.
    ///
    /// # Panics
    /// Where the file that it was built with is none.
    #[must_use]
    pub fn built_in() -> &'static Self {
        static TREES: LazyLock<Trees> =
            LazyLock::new(|| Trees::parse(include_str!("h200.trees")).expect("the trees that come with the program are whole"));
        &TREES
    }

    /// Reads a file, for use as `gpu`.
    ///
    /// # Errors
    /// [`TreesError`] where it cannot be read, holds anything else, or is of another GPU.
    pub fn read(path: &Path, gpu: &Gpu) -> Result<Self, TreesError> {
        let path = path.to_path_buf();
        let text = match whole::read(&path, MOST_BYTES) {
            Ok(text) => text,
            Err(source) => return Err(TreesError::Read { path, source }),
        };
        let text = String::from_utf8_lossy(&text);
        let trees = match Self::parse(&text) {
            Ok(trees) => trees,
            Err((line, message)) => return Err(TreesError::Parse { path, line, message }),
        };
        if trees.gpu == gpu.name {
            return Ok(trees);
        }
        let line = text.lines().position(|line| line.starts_with("gpu")).map_or(1, |at| at + 1);
        Err(TreesError::OtherGpu { path, line, grown: plain(&trees.gpu).into_owned(), wanted: gpu.name.to_owned() })
    }

    pub(super) fn new(gpu: &Gpu, remarks: Vec<String>, grown: [[(Vec<Node>, Vec<Plan>); 2]; 3]) -> Self {
        Self { remarks, gpu: gpu.name.to_owned(), trees: grown.map(|pair| pair.map(|(nodes, plans)| Tree { nodes, plans })) }
    }

    /// What a convolution asks for.
    pub(super) fn plan(&self, g: &Geometry) -> Plan {
        let Tree { nodes, plans } = &self.trees[place(g.direction)][usize::from(g.is_product())];
        plans[class(nodes, |measure| MEASURES[measure].of(g))]
    }

    /// How many leaves there are.
    #[must_use]
    pub fn leaves(&self) -> usize {
        let leaves = |tree: &Tree| tree.nodes.iter().filter(|node| matches!(node, Node::Chosen(_))).count();
        self.trees.iter().flatten().map(leaves).sum()
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for remark in &self.remarks {
            let _ = writeln!(text, "# {remark}");
        }
        let _ = writeln!(text, "gpu {}", self.gpu);
        for (direction, trees) in DIRECTIONS.iter().zip(&self.trees) {
            for (kind, Tree { nodes, plans }) in KINDS.iter().zip(trees) {
                let _ = writeln!(text, "tree {direction} {kind}");
                let mut width = 0;
                for node in nodes {
                    let word = match node {
                        Node::Compare { measure, at_most, .. } => format!("{}<={at_most}", MEASURES[*measure as usize].name),
                        Node::Chosen(plan) => plans[*plan as usize].to_string(),
                    };
                    if width > 0 {
                        let wraps = width + 1 + word.len() > WIDTH;
                        text.push(if wraps { '\n' } else { ' ' });
                        width = if wraps { 0 } else { width + 1 };
                    }
                    text.push_str(&word);
                    width += word.len();
                }
                text.push('\n');
            }
        }
        text
    }

    /// Reads the text; or the line that is wrong, and what is.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut remarks = Vec::new();
        let mut gpu = None;
        let mut trees: [[Option<Tree>; 2]; 3] = Default::default();
        let mut open: Option<Section<'_>> = None;
        let mut close = |open: Option<Section<'_>>| -> Result<(), (usize, String)> {
            let Some(Section { place: [direction, kind], line, words }) = open else { return Ok(()) };
            let tree = &mut trees[direction][kind];
            if tree.is_some() {
                return Err((line, "this tree is there twice".to_owned()));
            }
            *tree = Some(Tree::read(&words, line)?);
            Ok(())
        };
        let mut last = 1;
        for (line, content) in text.lines().enumerate().map(|(at, content)| (at + 1, content)) {
            last = line;
            if let Some(remark) = content.strip_prefix('#') {
                remarks.push(remark.trim().to_owned());
                continue;
            }
            let mut words = content.split_ascii_whitespace().peekable();
            match words.peek() {
                Some(&"gpu") => {
                    let name = words.nth(1).ok_or((line, "`gpu` is followed by its name".to_owned()))?;
                    if gpu.replace(name.to_owned()).is_some() {
                        return Err((line, "the GPU is named twice".to_owned()));
                    }
                    if let Some(word) = words.next() {
                        return Err((line, format!("`{}`: nothing follows the name of the GPU on its line", plain(word))));
                    }
                }
                Some(&"tree") => {
                    close(open.take())?;
                    let find = |names: &[&str], word: Option<&str>| names.iter().position(|name| Some(*name) == word);
                    let (direction, kind) = (words.nth(1), words.next());
                    let (Some(direction), Some(kind)) = (find(&DIRECTIONS, direction), find(&KINDS, kind)) else {
                        let (directions, kinds) = (DIRECTIONS.join(", "), KINDS.join(" or "));
                        return Err((line, format!("`tree` is followed by one of {directions} and by {kinds}")));
                    };
                    if let Some(word) = words.next() {
                        let (direction, kind) = (DIRECTIONS[direction], KINDS[kind]);
                        let where_to = format!("the words of a tree begin on the line after `tree {direction} {kind}`");
                        return Err((line, format!("`{}`: {where_to}", plain(word))));
                    }
                    open = Some(Section { place: [direction, kind], line, words: Vec::new() });
                }
                Some(word) => {
                    let Some(section) = &mut open else { return Err((line, format!("`{}` stands before any `tree`", plain(word)))) };
                    section.words.extend(words.map(|word| (line, word)));
                }
                None => {}
            }
        }
        close(open.take())?;
        let gpu = gpu.ok_or((1, "no line says which `gpu` it is of".to_owned()))?;
        let mut whole: Vec<[Tree; 2]> = Vec::new();
        for (direction, pair) in DIRECTIONS.iter().zip(trees) {
            let mut both = Vec::new();
            for (kind, tree) in KINDS.iter().zip(pair) {
                both.push(tree.ok_or_else(|| (last, format!("there is no `tree {direction} {kind}`")))?);
            }
            whole.push(both.try_into().expect("there are two kinds"));
        }
        Ok(Self { remarks, gpu, trees: whole.try_into().expect("there are three directions") })
    }
}

/// What a file calls the directions and the kinds of windows, in order.
const DIRECTIONS: [&str; 3] = ["forward", "grad_input", "grad_weight"];
const KINDS: [&str; 2] = ["windows", "products"];

pub(super) const fn place(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::GradInput => 1,
        Direction::GradWeight => 2,
    }
}

impl Tree {
    /// The tree of these words, each with its line; `line` is that of the tree's name.
    fn read(words: &[(usize, &str)], line: usize) -> Result<Self, (usize, String)> {
        let mut nodes = Vec::with_capacity(words.len());
        let mut plans = Vec::new();
        // There are far fewer names and plans than words.
        let measures: HashMap<&str, u32> = MEASURES.iter().zip(0..).map(|(measure, at)| (measure.name, at)).collect();
        let mut known: HashMap<&str, u32> = HashMap::new();
        // Comparisons whose second branch is still to come.
        let mut waiting: Vec<usize> = Vec::new();
        let mut ended = false;
        for &(line, word) in words {
            if ended {
                return Err((line, format!("the tree has ended before `{}`", plain(word))));
            }
            if let Some((name, at_most)) = word.split_once("<=") {
                let measure = *measures
                    .get(name)
                    .ok_or_else(|| (line, format!("`{}`: nothing that is measured is called `{}`", plain(word), plain(name))))?;
                let at_most = at_most.parse().map_err(|_| (line, format!("`{}`: `{}` is no whole number", plain(word), plain(at_most))))?;
                waiting.push(nodes.len());
                nodes.push(Node::Compare { measure, at_most, otherwise: 0 });
                continue;
            }
            let plan = match known.get(word) {
                Some(plan) => *plan,
                None => {
                    plans.push(word.parse().map_err(|()| (line, format!("`{}` is neither a comparison nor a plan", plain(word))))?);
                    *known.entry(word).or_insert(small(plans.len() - 1))
                }
            };
            nodes.push(Node::Chosen(plan));
            let next = small(nodes.len());
            match waiting.pop() {
                None => ended = true,
                Some(at) => {
                    if let Node::Compare { otherwise, .. } = &mut nodes[at] {
                        *otherwise = next;
                    }
                }
            }
        }
        if ended { Ok(Self { nodes, plans }) } else { Err((words.last().map_or(line, |w| w.0), "the tree has no end here".to_owned())) }
    }
}
