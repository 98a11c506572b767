//! A sweep point read back from the `case` column: `key=value` joined by one space.
//!
//! Values are written compactly and without quotes; lists and tables stand in brackets, and a new pair begins only outside these.
//! Invariant: joining a point's pairs again gives the label it was read from.

/// A case's place in a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Point {
    /// The axes' keys, in axis order.
    pub keys: Vec<String>,
    /// The value on each.
    pub values: Vec<String>,
}

impl Point {
    /// Reads a label. Text that is no pair becomes part of the value before it; without one, it is a value under an empty key.
    #[must_use]
    pub fn of(label: &str) -> Self {
        let mut point = Self::default();
        if label.is_empty() {
            return point;
        }
        let mut depth = 0usize;
        let mut start = 0;
        let mut push = |text: &str| {
            let (key, value) = pair(text).unwrap_or(("", text));
            point.keys.push(key.to_string());
            point.values.push(value.to_string());
        };
        for (i, c) in label.char_indices() {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                ' ' if depth == 0 && pair(&label[i + 1..]).is_some() => {
                    push(&label[start..i]);
                    start = i + 1;
                }
                _ => {}
            }
        }
        push(&label[start..]);
        point
    }

    /// The label.
    #[must_use]
    pub fn text(&self) -> String {
        let pairs = self.keys.iter().zip(&self.values);
        pairs.map(|(k, v)| if k.is_empty() { v.clone() } else { format!("{k}={v}") }).collect::<Vec<_>>().join(" ")
    }
}

/// The key and what follows it, where the text begins with a key.
fn pair(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (!key.is_empty() && key.chars().all(word)).then_some((key, value))
}
