//! Writing: protocol 4, with the opcodes that PyTorch's viewer knows. Text is written once and referred to from then on.

use std::collections::HashMap;

/// A pickle being written, from its outermost value inwards.
#[derive(Debug)]
pub(in super::super) struct Encoder {
    out: Vec<u8>,
    /// Where in the reader's memo each text is.
    texts: HashMap<String, u32>,
    memoized: u32,
}

impl Encoder {
    pub(in super::super) fn new() -> Self {
        Self { out: vec![0x80, 4], texts: HashMap::new(), memoized: 0 }
    }

    pub(in super::super) fn bool(&mut self, value: bool) {
        self.out.push(if value { 0x88 } else { 0x89 });
    }

    pub(in super::super) fn float(&mut self, value: f64) {
        self.out.push(b'G');
        self.out.extend(value.to_be_bytes());
    }

    /// A whole number, in the fewest bytes.
    pub(in super::super) fn integer(&mut self, value: i128) {
        if let Ok(byte) = u8::try_from(value) {
            self.out.extend([b'K', byte]);
        } else if let Ok(short) = u16::try_from(value) {
            self.out.push(b'M');
            self.out.extend(short.to_le_bytes());
        } else if let Ok(int) = i32::try_from(value) {
            self.out.push(b'J');
            self.out.extend(int.to_le_bytes());
        } else {
            let bytes = value.to_le_bytes();
            let negative = value < 0;
            let filler = if negative { 0xff } else { 0 };
            let mut length = bytes.iter().rposition(|&b| b != filler).map_or(1, |last| last + 1);
            // The top bit is the sign.
            if (bytes[length - 1] & 0x80 != 0) != negative {
                length += 1;
            }
            self.out.extend([0x8a, u8::try_from(length).expect("at most 17 bytes")]);
            self.out.extend(&bytes[..length.min(bytes.len())]);
            self.out.extend(std::iter::repeat_n(filler, length.saturating_sub(bytes.len())));
        }
    }

    pub(in super::super) fn text(&mut self, text: &str) {
        if let Some(&place) = self.texts.get(text) {
            return self.again(place);
        }
        if let Ok(length) = u8::try_from(text.len()) {
            self.out.extend([0x8c, length]);
        } else {
            self.out.push(b'X');
            self.out.extend(u32::try_from(text.len()).expect("texts are shorter than 4 GiB").to_le_bytes());
        }
        self.out.extend(text.as_bytes());
        let place = self.memoize();
        self.texts.insert(text.to_owned(), place);
    }

    /// Remembers the value just written; says where.
    fn memoize(&mut self) -> u32 {
        self.out.push(0x94);
        self.memoized += 1;
        self.memoized - 1
    }

    /// A value that was remembered.
    pub(in super::super) fn again(&mut self, place: u32) {
        if let Ok(byte) = u8::try_from(place) {
            self.out.extend([b'h', byte]);
        } else {
            self.out.push(b'j');
            self.out.extend(place.to_le_bytes());
        }
    }

    /// A dict begins: keys and values in turn, up to [`close_dict`](Self::close_dict).
    pub(in super::super) fn open_dict(&mut self) {
        self.out.extend(*b"}(");
    }

    pub(in super::super) fn close_dict(&mut self) {
        self.out.push(b'u');
    }

    /// A list begins: items, up to [`close_list`](Self::close_list).
    pub(in super::super) fn open_list(&mut self) {
        self.out.extend(*b"](");
    }

    /// The same, of a list that is remembered; says where.
    pub(in super::super) fn open_list_memoized(&mut self) -> u32 {
        self.out.push(b']');
        let place = self.memoize();
        self.out.push(b'(');
        place
    }

    pub(in super::super) fn close_list(&mut self) {
        self.out.push(b'e');
    }

    /// Two numbers.
    pub(in super::super) fn pair(&mut self, a: u8, b: u8) {
        self.out.extend([b'K', a, b'K', b, 0x86]);
    }

    /// The whole pickle.
    pub(in super::super) fn finish(mut self) -> Vec<u8> {
        self.out.push(b'.');
        self.out
    }
}
