//! Colours, once for light and once for dark, and the style sheet made of them.
//!
//! Plain classes and no variables: a picture on its own is also opened by programs that know no more.
//! Invariant: text stands at 4.5 : 1 or more against its ground, and what carries data at 3 : 1, in either scheme.

use std::fmt::Write as _;

use crate::record::Category;

/// A rule: selector, property, its value in light and in dark.
type Rule = (&'static str, &'static str, &'static str, &'static str);

const RULES: &[Rule] = &[
    (".ground", "fill", "#ffffff", "#11151b"),
    ("text", "fill", "#1d232b", "#e4e9ef"),
    (".faint", "fill", "#59636e", "#9aa5b1"),
    (".grid", "stroke", "#e3e7ec", "#262d36"),
    (".axis", "stroke", "#8b949e", "#59636e"),
    (".between", "stroke", "#c3cad2", "#3a434e"),
    (".l-peak", "stroke", "#cf2f45", "#ff7183"),
    (".f-peak", "fill", "#cf2f45", "#ff7183"),
    (".l-reserved", "stroke", "#7d8794", "#9aa5b1"),
    (".predicted", "stroke", "#11151b", "#ffffff"),
    (".ring", "stroke", "#11151b", "#ffffff"),
    (".limit", "stroke", "#9a5a00", "#e3a94f"),
    (".f-limit", "fill", "#8a5000", "#e3a94f"),
    (".f-limit", "stroke", "#ffffff", "#11151b"),
    (".t-peak", "fill", "#b3202f", "#ff8b99"),
    (".c-allocated", "fill", "#5b83b8", "#6d98d0"),
    (".c-parameters", "fill", "#3f6fb5", "#5f93df"),
    (".c-buffers", "fill", "#2c94a8", "#4fbdd0"),
    (".c-gradients", "fill", "#d97a1f", "#eb9a47"),
    (".c-optimizer_state", "fill", "#8458b3", "#a984dc"),
    (".c-activations", "fill", "#3f9657", "#5cb877"),
    (".c-inputs", "fill", "#b38f00", "#d9bd48"),
    (".c-workspace", "fill", "#7d8896", "#8793a1"),
    (".c-other", "fill", "#c2617c", "#dd869e"),
    (".s0", "stroke", "#3f6fb5", "#5f93df"),
    (".s1", "stroke", "#d97a1f", "#eb9a47"),
    (".s2", "stroke", "#3f9657", "#5cb877"),
    (".s3", "stroke", "#8458b3", "#a984dc"),
    (".s4", "stroke", "#c2617c", "#dd869e"),
    (".s5", "stroke", "#2c94a8", "#4fbdd0"),
    (".s6", "stroke", "#b38f00", "#d9bd48"),
    (".s7", "stroke", "#848c96", "#949da8"),
    (".s0 .dot", "fill", "#3f6fb5", "#5f93df"),
    (".s1 .dot", "fill", "#d97a1f", "#eb9a47"),
    (".s2 .dot", "fill", "#3f9657", "#5cb877"),
    (".s3 .dot", "fill", "#8458b3", "#a984dc"),
    (".s4 .dot", "fill", "#c2617c", "#dd869e"),
    (".s5 .dot", "fill", "#2c94a8", "#4fbdd0"),
    (".s6 .dot", "fill", "#b38f00", "#d9bd48"),
    (".s7 .dot", "fill", "#848c96", "#949da8"),
];

/// How many curves have a colour of their own.
pub const SERIES: usize = 8;

/// The categories from the bottom of a stack to its top: what stays lies below what comes and goes.
pub const STACK: [Category; 8] = [
    Category::Parameters,
    Category::Buffers,
    Category::OptimizerState,
    Category::Workspace,
    Category::Gradients,
    Category::Inputs,
    Category::Activations,
    Category::Other,
];

/// A category's colour in light and in dark.
#[must_use]
pub fn of_category(category: Category) -> (&'static str, &'static str) {
    let rule = RULES.iter().find(|(selector, ..)| selector.strip_prefix(".c-") == Some(category.name()));
    rule.map(|(_, _, light, dark)| (*light, *dark)).expect("every category has a colour")
}

/// Colours of call sites in light and in dark, where a history knows no categories: none of them is a category's.
pub const SITES: [(&str, &str); 8] = [
    ("#1f4e8c", "#8ab4f0"),
    ("#b5482a", "#f0886a"),
    ("#6b7d1a", "#b5c95a"),
    ("#93308f", "#dd83da"),
    ("#0f766e", "#5fd0c5"),
    ("#8a5a2b", "#cfa071"),
    ("#5146c4", "#a59df5"),
    ("#b0245c", "#f2719f"),
];

/// The colour of what has none of its own.
pub const OTHERS: (&str, &str) = ("#8b949e", "#6b7683");

/// What holds in either scheme.
const SHAPES: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;stroke:none}
.head{font-size:15px;font-weight:600}
.strong{font-weight:600}
.grid,.axis,.between{stroke-width:1;shape-rendering:crispEdges}
.l-peak,.l-reserved,.curve,.predicted,.limit,.ring{fill:none;stroke-linejoin:round}
.l-peak{stroke-width:2.75}
.l-reserved{stroke-width:4}
.predicted{stroke-width:1.25;stroke-dasharray:2 4}
.f-limit{stroke-width:4;stroke-opacity:.85;paint-order:stroke}
.curve{stroke-width:2}
.reserved{stroke-width:1.5;stroke-dasharray:7 4}
.ring{stroke-width:1.25}
.limit{stroke-width:1.25;stroke-dasharray:10 3 2 3}
.hit{fill:transparent;stroke:none}
.hit:hover{fill:#8b949e;fill-opacity:.16}
";

/// The style sheet of a picture.
#[must_use]
pub fn style() -> String {
    let mut text = SHAPES.to_string();
    let mut dark = String::new();
    for (selector, property, light, night) in RULES {
        let _ = writeln!(text, "{selector}{{{property}:{light}}}");
        let _ = writeln!(dark, "{selector}{{{property}:{night}}}");
    }
    let _ = writeln!(text, "@media (prefers-color-scheme:dark){{\n{dark}}}");
    text
}

/// The colour of curve `i` of `n` where there are more curves than colours: from blue over green to amber, readable in both schemes.
#[must_use]
pub fn ramp(i: usize, n: usize) -> String {
    const STOPS: [[f64; 3]; 3] = [[79.0, 129.0, 202.0], [62.0, 158.0, 122.0], [217.0, 138.0, 43.0]];
    let at = if n > 1 { i as f64 / (n - 1) as f64 * 2.0 } else { 0.0 };
    let from = (at as usize).min(1);
    let part = at - from as f64;
    let channel = |c: usize| (STOPS[from][c] * (1.0 - part) + STOPS[from + 1][c] * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}
