//! Reading: a stack machine that makes dicts, lists, tuples, numbers and text, and refuses whatever would do anything else. Values lie in
//! flat tables and refer to one another by number, so that no nesting, not even a list that holds itself, makes reading deep.

use std::ops::Range;

/// Most containers in one pickle.
const MOST_CONTAINERS: usize = 1 << 24;
/// Most containers that are open at once. Snapshots have six.
const MOST_OPEN: usize = 64;

/// What is wrong with a pickle, and at which of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {cause}")]
pub struct PickleError {
    /// The opcode's place.
    pub at: usize,
    /// What is wrong.
    pub cause: Cause,
}

/// What is wrong with a pickle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each is
pub enum Cause {
    #[error("this is no pickle: it does not begin with a protocol of 2 to 5")]
    NoPickle,
    #[error("the file ends in the middle of the pickle")]
    Truncated,
    #[error("`{name}` makes Python objects or runs code; a memory snapshot is plain data, and only that is read")]
    Code { name: &'static str },
    #[error("opcode {byte:#04x} has no place in plain data")]
    Opcode { byte: u8 },
    #[error("text that is not UTF-8")]
    Text,
    #[error("a number beyond 64 bits")]
    Number,
    #[error("the opcode finds other values on the stack than it needs")]
    Stack,
    #[error("nothing was remembered as number {place}")]
    Memo { place: u64 },
    #[error("a dict has a key that is no text")]
    Key,
    #[error("more than {MOST_CONTAINERS} containers")]
    TooMany,
    #[error("more than {MOST_OPEN} containers open at once")]
    TooDeep,
}

/// A value; containers and text by their numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) enum Value {
    None,
    Bool(bool),
    Integer(i64),
    /// Above what `Integer` holds.
    Large(u64),
    Float(f64),
    Text(u32),
    List(u32),
    Tuple(u32),
    Dict(u32),
}

/// A pickle that was read.
#[derive(Debug)]
pub(in super::super) struct Pickle<'a> {
    texts: Vec<&'a str>,
    /// Lists and tuples.
    sequences: Vec<Vec<Value>>,
    pairs: Vec<(u32, Value)>,
    /// Of each dict its stretch of `pairs`.
    dicts: Vec<Range<usize>>,
    root: Value,
}

impl<'a> Pickle<'a> {
    /// Reads all of `bytes`.
    pub(in super::super) fn parse(bytes: &'a [u8]) -> Result<Self, PickleError> {
        let mut machine = Machine {
            bytes,
            at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            pickle: Self { texts: Vec::new(), sequences: Vec::new(), pairs: Vec::new(), dicts: Vec::new(), root: Value::None },
        };
        if bytes.first() != Some(&0x80) || !bytes.get(1).is_none_or(|p| (2..=5).contains(p)) {
            return Err(PickleError { at: 0, cause: Cause::NoPickle });
        }
        loop {
            let at = machine.at;
            match machine.step() {
                Ok(None) => {}
                Ok(Some(root)) => {
                    machine.pickle.root = root;
                    return Ok(machine.pickle);
                }
                Err(cause) => return Err(PickleError { at, cause }),
            }
        }
    }

    /// The outermost value.
    pub(in super::super) fn root(&self) -> Value {
        self.root
    }

    /// The values of a list or tuple.
    pub(in super::super) fn items(&self, sequence: u32) -> &[Value] {
        &self.sequences[sequence as usize]
    }

    /// A dict's value; of a key given twice, the last counts.
    pub(in super::super) fn get(&self, dict: u32, key: &str) -> Option<Value> {
        let pairs = &self.pairs[self.dicts[dict as usize].clone()];
        pairs.iter().rev().find(|(k, _)| self.texts[*k as usize] == key).map(|(_, v)| *v)
    }

    /// The text, where it is one.
    pub(in super::super) fn text(&self, value: Value) -> Option<&'a str> {
        if let Value::Text(text) = value { Some(self.texts[text as usize]) } else { None }
    }

    /// The number, where it is a whole one.
    pub(in super::super) fn integer(&self, value: Value) -> Option<i128> {
        match value {
            Value::Integer(n) => Some(n.into()),
            Value::Large(n) => Some(n.into()),
            _ => None,
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    /// Where on the stack each open container's values begin.
    marks: Vec<usize>,
    memo: Vec<Option<Value>>,
    pickle: Pickle<'a>,
}

type Step<T> = Result<T, Cause>;

impl<'a> Machine<'a> {
    fn take(&mut self, length: u64) -> Step<&'a [u8]> {
        let end = usize::try_from(length).ok().and_then(|n| self.at.checked_add(n)).ok_or(Cause::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Cause::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        Ok(self.take(N as u64)?.try_into().expect("as many were taken"))
    }

    /// Runs one opcode; the pickle's value after the last.
    fn step(&mut self) -> Step<Option<Value>> {
        let [opcode] = self.array()?;
        let value = match opcode {
            0x80 => {
                self.array::<1>()?;
                return Ok(None);
            }
            // A frame says how much follows; nothing here reads ahead.
            0x95 => {
                self.array::<8>()?;
                return Ok(None);
            }
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Integer(self.array::<1>()?[0].into()),
            b'M' => Value::Integer(u16::from_le_bytes(self.array()?).into()),
            b'J' => Value::Integer(i32::from_le_bytes(self.array()?).into()),
            0x8a => {
                let [length] = self.array()?;
                long(self.take(length.into())?)?
            }
            0x8b => {
                let length = u32::from_le_bytes(self.array()?);
                long(self.take(length.into())?)?
            }
            b'G' => Value::Float(f64::from_be_bytes(self.array()?)),
            0x8c => {
                let [length] = self.array()?;
                self.text(length.into())?
            }
            b'X' => {
                let length = u32::from_le_bytes(self.array()?);
                self.text(length.into())?
            }
            0x8d => {
                let length = u64::from_le_bytes(self.array()?);
                self.text(length)?
            }
            b'}' => self.dict()?,
            b'd' => {
                let from = self.mark()?;
                let dict = self.dict()?;
                if let Value::Dict(number) = dict {
                    self.set(number, from)?;
                }
                self.stack.truncate(from);
                dict
            }
            b']' | b')' => self.sequence(opcode == b']', self.stack.len())?,
            b'l' | b't' => {
                let from = self.mark()?;
                self.sequence(opcode == b'l', from)?
            }
            0x85..=0x87 => {
                let from = self.stack.len().checked_sub(usize::from(opcode - 0x84)).ok_or(Cause::Stack)?;
                self.sequence(false, from)?
            }
            b'h' => {
                let [place] = self.array()?;
                self.remembered(place.into())?
            }
            b'j' => {
                let place = u32::from_le_bytes(self.array()?);
                self.remembered(place.into())?
            }
            b'.' => return self.stack.pop().filter(|_| self.stack.is_empty()).ok_or(Cause::Stack).map(Some),
            _ => return self.change(opcode).map(|()| None),
        };
        self.stack.push(value);
        Ok(None)
    }

    /// The opcodes that push nothing.
    fn change(&mut self, opcode: u8) -> Step<()> {
        match opcode {
            b'(' => {
                if self.marks.len() == MOST_OPEN {
                    return Err(Cause::TooDeep);
                }
                self.marks.push(self.stack.len());
            }
            b'a' | b'e' => {
                let from = if opcode == b'a' { self.stack.len().checked_sub(1).ok_or(Cause::Stack)? } else { self.mark()? };
                let Some(Value::List(list)) = from.checked_sub(1).map(|i| self.stack[i]) else { return Err(Cause::Stack) };
                let items = &mut self.pickle.sequences[list as usize];
                items.extend_from_slice(&self.stack[from..]);
                self.stack.truncate(from);
            }
            b's' | b'u' => {
                let from = if opcode == b's' { self.stack.len().checked_sub(2).ok_or(Cause::Stack)? } else { self.mark()? };
                let Some(Value::Dict(dict)) = from.checked_sub(1).map(|i| self.stack[i]) else { return Err(Cause::Stack) };
                self.set(dict, from)?;
                self.stack.truncate(from);
            }
            0x94 => {
                let value = *self.stack.last().ok_or(Cause::Stack)?;
                self.memo.push(Some(value));
            }
            b'q' => {
                let [place] = self.array()?;
                self.remember(place.into())?;
            }
            b'r' => {
                let place = u32::from_le_bytes(self.array()?);
                self.remember(place.into())?;
            }
            _ => return Err(code(opcode)),
        }
        Ok(())
    }

    fn mark(&mut self) -> Step<usize> {
        self.marks.pop().filter(|&from| from <= self.stack.len()).ok_or(Cause::Stack)
    }

    fn text(&mut self, length: u64) -> Step<Value> {
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| Cause::Text)?;
        self.pickle.texts.push(text);
        Ok(Value::Text(number(self.pickle.texts.len() - 1)?))
    }

    /// A list or tuple of what lies on the stack from there.
    fn sequence(&mut self, list: bool, from: usize) -> Step<Value> {
        let items = self.stack.split_off(from);
        self.pickle.sequences.push(items);
        let number = number(self.pickle.sequences.len() - 1)?;
        Ok(if list { Value::List(number) } else { Value::Tuple(number) })
    }

    /// An empty dict.
    fn dict(&mut self) -> Step<Value> {
        let end = self.pickle.pairs.len();
        self.pickle.dicts.push(end..end);
        number(self.pickle.dicts.len() - 1).map(Value::Dict)
    }

    /// Puts the pairs that lie on the stack from there into a dict.
    fn set(&mut self, dict: u32, from: usize) -> Step<()> {
        let Pickle { pairs, dicts, .. } = &mut self.pickle;
        let range = &mut dicts[dict as usize];
        if range.end != pairs.len() {
            // Not the last dict that grew: it moves to the end, where there is room.
            let start = pairs.len();
            pairs.extend_from_within(range.clone());
            *range = start..pairs.len();
        }
        let new = self.stack[from..].chunks_exact(2);
        if !new.remainder().is_empty() {
            return Err(Cause::Stack);
        }
        for pair in new {
            let Value::Text(key) = pair[0] else { return Err(Cause::Key) };
            pairs.push((key, pair[1]));
        }
        range.end = pairs.len();
        // Pairs of dicts that moved stay behind; Python moves none.
        if pairs.len() / 16 > self.bytes.len() {
            return Err(Cause::TooMany);
        }
        Ok(())
    }

    fn remembered(&self, place: u64) -> Step<Value> {
        let found = usize::try_from(place).ok().and_then(|p| self.memo.get(p).copied().flatten());
        found.ok_or(Cause::Memo { place })
    }

    fn remember(&mut self, place: u64) -> Step<()> {
        let value = *self.stack.last().ok_or(Cause::Stack)?;
        // Whoever numbers by hand counts up, at most once every byte.
        let place = usize::try_from(place).ok().filter(|&p| p <= self.bytes.len()).ok_or(Cause::Memo { place })?;
        if place >= self.memo.len() {
            self.memo.resize(place + 1, None);
        }
        self.memo[place] = Some(value);
        Ok(())
    }
}

fn number(index: usize) -> Step<u32> {
    if index < MOST_CONTAINERS { Ok(u32::try_from(index).expect("fewer than 2^32")) } else { Err(Cause::TooMany) }
}

/// A whole number in two's complement, lowest byte first.
fn long(bytes: &[u8]) -> Step<Value> {
    if bytes.len() > 16 {
        return Err(Cause::Number);
    }
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut all = [if negative { 0xff } else { 0 }; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    let value = i128::from_le_bytes(all);
    if let Ok(n) = i64::try_from(value) {
        return Ok(Value::Integer(n));
    }
    u64::try_from(value).map(Value::Large).map_err(|_| Cause::Number)
}

/// Why an opcode is not run.
fn code(byte: u8) -> Cause {
    let name = match byte {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x82..=0x84 => "EXT",
        _ => return Cause::Opcode { byte },
    };
    Cause::Code { name }
}
