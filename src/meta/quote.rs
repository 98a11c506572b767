//! Text of somebody else's file, as messages and comments repeat it. It does not judge the text.
//!
//! Invariant: what [`plain`] gives is a part of one line, and no command for a terminal.

use std::borrow::Cow;

/// Characters of a text that are repeated.
const MOST: usize = 80;

/// A text's first characters, and that there are more.
#[must_use]
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// A text's beginning, where it is long. Who draws or quotes it answers for what does not print.
#[must_use]
pub fn short(text: &str) -> Cow<'_, str> {
    cut(text, MOST)
}

/// As [`short`], with every character that does not print as an escape.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    let text = short(text);
    if !text.contains(does_not_print) {
        return text;
    }
    let mut plain = String::with_capacity(2 * text.len());
    for c in text.chars() {
        if does_not_print(c) { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    Cow::Owned(plain)
}

/// Control characters, ends of lines, and what turns the order of those around it.
fn does_not_print(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A number, with an exponent where it would be long without.
#[must_use]
pub fn in_short(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
