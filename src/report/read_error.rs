//! What can be wrong with a results file, with the place of it.
//!
//! Invariant: a message names the file, and the line and the column wherever there is one.

use std::fmt;

use crate::meta::{cut, plain, short};

/// A results file that cannot be read as one.
#[derive(Debug)]
pub struct ReadError {
    /// What the file is called.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u64>,
    /// The column's name.
    pub column: Option<String>,
    /// What is wrong.
    pub mistake: Box<Mistake>,
}

impl ReadError {
    pub(super) fn of_file(file: &str, mistake: Mistake) -> Self {
        Self { file: file.to_string(), line: None, column: None, mistake: Box::new(mistake) }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = &self.column {
            write!(f, ": {column}")?;
        }
        write!(f, ": {}", self.mistake)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.mistake {
            Mistake::Unreadable(e) => Some(e),
            Mistake::Csv(e) => Some(e),
            _ => None,
        }
    }
}

/// What is wrong, without its place.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each is
pub enum Mistake {
    #[error("cannot be read: {0}")]
    Unreadable(std::io::Error),
    #[error("holds nothing, not even a header")]
    Empty,
    #[error("is not text in UTF-8")]
    NotText,
    #[error("{0}")]
    Csv(csv::Error),
    #[error("is not a results file: the header has none of its columns")]
    Foreign,
    #[error("the header lacks {0}")]
    ColumnsAbsent(String),
    #[error("the header has `{}` twice", short(.0).escape_debug())]
    ColumnTwice(String),
    #[error("the line has {found} fields, the header {expected}")]
    Fields { found: usize, expected: usize },
    #[error("the file ends inside this line: it was cut short")]
    CutShort,
    #[error("a merge conflict was left in the file")]
    MergeConflict,
    #[error("is empty")]
    EmptyCell,
    #[error("has a character that does not print")]
    ControlCharacter,
    #[error("`{}` is not a whole number, 0 or more", short(.0).escape_debug())]
    NotANumber(String),
    #[error("{} is out of range; the largest is 9223372036854775807", plain(.0))]
    TooLarge(String),
    #[error("`{}` is not one of {known}", short(found).escape_debug())]
    UnknownWord { found: String, known: String },
    #[error("is empty although {given} is not")]
    HalfGiven { given: String },
    #[error("the row has neither measured nor predicted figures")]
    NoFigures,
    #[error("is `{}` where predicted − measured is {due}", short(found).escape_debug())]
    NotTheDifference { found: String, due: String },
    #[error("the categories add up to {total}, measured_allocated is {allocated}")]
    CategoriesDoNotAddUp { total: u128, allocated: u64 },
    #[error("the row of line {first} comes again")]
    RowTwice { first: u64 },
    #[error("case `{}` began in line {first} and comes again after another", cut(case, 400))]
    CaseApart { case: String, first: u64 },
    #[error("differs from line {first}, in the same case")]
    SettingChanges { first: u64 },
}
