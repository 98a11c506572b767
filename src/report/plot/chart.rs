//! One picture being drawn: its size, what is in it, and how text from files gets in.
//!
//! Invariant: whatever comes from a file goes through [`escape`].

use std::borrow::Cow;
use std::fmt::Write as _;

use super::palette;
use super::scale::{ByteAxis, tick};

/// How wide a picture is. Text keeps its size, so a page has both and shows the one that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // wide for a screen, narrow for a phone or a half of it
pub enum Width {
    Wide,
    Narrow,
}

impl Width {
    /// In pixels.
    #[must_use]
    pub const fn pixels(self) -> f64 {
        match self {
            Self::Wide => 1120.0,
            Self::Narrow => 560.0,
        }
    }
}

/// A finished picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Pixels across.
    pub width: f64,
    /// Pixels down.
    pub height: f64,
    /// What it shows, in a few words; not escaped.
    pub title: String,
    /// What is to be seen in it, for those who do not see it; not escaped.
    pub description: String,
    /// The elements inside.
    pub body: String,
}

impl Chart {
    /// The `<svg>` element; `id` is unlike any other in the same document.
    #[must_use]
    pub fn element(&self, id: &str, class: &str) -> String {
        let (w, h) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" \
             aria-labelledby=\"{id}t {id}d\">\n<title id=\"{id}t\">{}</title>\n<desc id=\"{id}d\">{}</desc>\n{}</svg>\n",
            escape(&self.title),
            escape(&self.description),
            self.body
        )
    }

    /// A file of its own, its style and ground inside.
    #[must_use]
    pub fn file(&self) -> String {
        let ground = "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n";
        let body = format!("<style>\n{}</style>\n{ground}{}", palette::style(), self.body);
        Self { body, ..self.clone() }.element("c", "chart")
    }
}

/// Text for an element's content or an attribute: no character of it is markup, and none is forbidden in XML.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'' | '\u{fffe}' | '\u{ffff}') || c.is_control() && c != '\n';
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if special(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// About how wide `text` is at 12 pixels, in the widest of the usual fonts.
#[must_use]
pub fn text_width(text: &str) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 'f' | 't' | 'r' | '.' | ',' | ':' | ';' | ' ' | '\'' | '|' | '(' | ')' | '[' | ']' | '/' | '-' => 4.7,
        'm' | 'w' | 'M' | 'W' | '=' | '+' | '<' | '>' | '&' | '@' | '→' => 10.6,
        c if c.is_ascii_uppercase() => 8.4,
        c if c.is_ascii() => 7.6,
        _ => 12.0,
    };
    text.chars().map(width).sum()
}

/// The same in bold.
#[must_use]
pub fn strong_width(text: &str) -> f64 {
    text_width(text) * 1.12
}

/// `text` cut to `width` pixels, with an ellipsis where something is missing.
#[must_use]
pub fn fitted(text: &str, width: f64) -> Cow<'_, str> {
    if text_width(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut cut = String::new();
    let mut used = text_width("…");
    for c in text.chars() {
        used += text_width(c.encode_utf8(&mut [0; 4]));
        if used > width {
            break;
        }
        cut.push(c);
    }
    Cow::Owned(format!("{}…", cut.trim_end()))
}

/// The rectangle that data is drawn in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// Its left edge.
    pub left: f64,
    /// Its upper edge.
    pub top: f64,
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
}

impl Frame {
    /// Its right edge.
    #[must_use]
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Its lower edge.
    #[must_use]
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// How far down `bytes` stand on `axis`.
    #[must_use]
    pub fn y(&self, axis: &ByteAxis, bytes: u64) -> f64 {
        round(self.bottom() - bytes as f64 / axis.top as f64 * self.height)
    }

    /// Horizontal lines and their figures for `axis`.
    pub fn grid(&self, body: &mut String, axis: &ByteAxis) {
        for bytes in axis.ticks() {
            let y = self.y(axis, bytes);
            let class = if bytes == 0 { "axis" } else { "grid" };
            let _ = writeln!(body, "<path class=\"{class}\" d=\"M{} {y}H{}\"/>", self.left, self.right());
            label(body, "faint", "end", self.left - 8.0, y + 4.0, &tick(bytes));
        }
    }
}

/// To a tenth of a pixel: finer is not to be seen, and the file stays small.
#[must_use]
pub fn round(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

/// A line of text; `anchor` is start, middle or end.
pub fn label(body: &mut String, class: &str, anchor: &str, x: f64, y: f64, text: &str) {
    let (x, y) = (round(x), round(y));
    let _ = writeln!(body, "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(text));
}

/// How an entry of a legend looks.
#[derive(Debug, Clone, PartialEq)]
pub enum Swatch {
    /// A filled square of this class.
    Area(String),
    /// A line; its class, and markup for more lines over it.
    Line(String),
    /// A curve's colour: attributes of the group round it.
    Curve(String),
    /// A ring for a predicted point.
    Ring,
    /// A cross for a case that ran out of memory.
    Cross,
}

/// Writes a legend into `width` pixels from `(left, top)` on, and gives how far down it reaches.
pub fn legend(body: &mut String, left: f64, top: f64, width: f64, entries: &[(Swatch, String)]) -> f64 {
    let (mut x, mut y) = (left, top);
    for (swatch, text) in entries {
        let text = fitted(text, width - 30.0);
        let wide = 28.0 + text_width(&text) + 14.0;
        if x > left && x + wide - 14.0 > left + width {
            x = left;
            y += 20.0;
        }
        let (middle, a, b) = (round(y + 6.0), round(x), round(x + 22.0));
        body.push_str(&match swatch {
            Swatch::Area(class) => format!("<rect class=\"{class}\" x=\"{}\" y=\"{y}\" width=\"12\" height=\"12\" rx=\"2\"/>\n", a + 8.0),
            Swatch::Line(class) => format!("<path class=\"{class}\" d=\"M{a} {middle}H{b}\"/>\n"),
            Swatch::Curve(attributes) => format!("<g {attributes}><path class=\"curve\" d=\"M{a} {middle}H{b}\"/></g>\n"),
            Swatch::Ring => ring(a + 14.0, middle),
            Swatch::Cross => cross(a + 14.0, middle),
        });
        label(body, "", "start", x + 28.0, y + 10.5, &text);
        x += wide;
    }
    y + 20.0
}

/// A cross where memory ran out, set off from what it lies on.
#[must_use]
pub fn cross(x: f64, y: f64) -> String {
    let (left, top) = (round(x - 4.5), round(y - 4.5));
    let ground = format!("<circle class=\"ground\" cx=\"{}\" cy=\"{}\" r=\"8\"/>", round(x), round(y));
    format!("{ground}<path class=\"l-peak\" d=\"M{left} {top}l9 9m0 -9l-9 9\"/>\n")
}

/// A ring for what was predicted.
#[must_use]
pub fn ring(x: f64, y: f64) -> String {
    format!("<circle class=\"ring\" cx=\"{}\" cy=\"{}\" r=\"4.5\"/>\n", round(x), round(y))
}
