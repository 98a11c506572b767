//! A results file read back into the words it was written from, every cell checked.
//!
//! It reads what a run or a prediction wrote, and what a PyTorch script with the same columns wrote: a side that nobody took
//! (measured, predicted, the categories) is empty, and stays `None`. It is not a general CSV reader. A column it does not know
//! is passed over and named in [`Results::unknown`]: a file of a later version can still be held against an older one, as long
//! as the reader is told what was not compared. A known column that is absent counts as empty, but for those that say which
//! row a row is.
//! Invariant: what was read holds together. `error = predicted − measured`, the categories add up to `measured_allocated`, the
//! rows of a case stand together under one set of settings, and no place in the loop comes twice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::record::{At, Categories, Category, Memory, Phase, Status};
use crate::whole;

use super::figure::Figure;
pub use super::read_error::{Mistake, ReadError};
use super::source::MOST_BYTES;

/// A results file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Results {
    /// Its cases, in the file's order.
    pub cases: Vec<Case>,
    /// The header's columns that this program does not know.
    pub unknown: Vec<String>,
    /// Where the header stands in the file, its line end included.
    pub header: Range<usize>,
}

/// The rows of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The sweep point; empty without a sweep.
    pub label: String,
    /// What the case was run with.
    pub settings: Settings,
    /// Its rows, in the file's order; at least one.
    pub rows: Vec<Row>,
    /// Where its rows stand in the file, the last line end included.
    pub bytes: Range<usize>,
}

/// The settings a case's rows repeat; all `None` in `[allocations]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Samples a micro-step.
    pub batch_size: Option<u64>,
    /// Type of parameters and activations, as written.
    pub dtype: Option<String>,
    /// The optimizer's name.
    pub optimizer: Option<String>,
    /// Micro-steps a step.
    pub accumulation_steps: Option<u64>,
    /// `false`, `true` or `segments=N`, as written.
    pub checkpointing: Option<String>,
    /// `true` or `false`, as written.
    pub no_grad: Option<String>,
}

impl Settings {
    /// Every setting as its column's name and text, empty where there is none.
    #[must_use]
    pub fn texts(&self) -> [(&'static str, String); 6] {
        let number = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
        let text = |t: &Option<String>| t.clone().unwrap_or_default();
        [
            ("batch_size", number(self.batch_size)),
            ("dtype", text(&self.dtype)),
            ("optimizer", text(&self.optimizer)),
            ("accumulation_steps", number(self.accumulation_steps)),
            ("checkpointing", text(&self.checkpointing)),
            ("no_grad", text(&self.no_grad)),
        ]
    }
}

/// One row, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Where in the loop.
    pub at: At,
    /// What was foreseen.
    pub predicted: Option<Memory>,
    /// What was measured.
    pub measured: Option<Memory>,
    /// What was measured, by role.
    pub categories: Option<Categories>,
    /// How the phase ended.
    pub status: Status,
    /// The file's line, from 1.
    pub line: u64,
}

impl Row {
    /// The measured figures, or the predicted ones where nothing was measured.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.measured.or(self.predicted).expect("a row was read with at least one side")
    }
}

impl Case {
    /// The row with the highest peak, the first of them where several share it.
    #[must_use]
    pub fn peak(&self) -> &Row {
        self.rows.iter().rev().max_by_key(|r| r.memory().peak).expect("a case was read with at least one row")
    }

    /// Whether it ran to its end or out of memory.
    #[must_use]
    pub fn end(&self) -> Status {
        if self.rows.iter().any(|r| r.status == Status::Oom) { Status::Oom } else { Status::Ok }
    }
}

impl Results {
    /// All rows of all cases.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.cases.iter().flat_map(|c| &c.rows)
    }
}

/// Reads the file at `path`.
///
/// # Errors
/// [`ReadError`] with the file, the line and the column of the first thing that is wrong.
pub fn read(path: &Path) -> Result<Results, ReadError> {
    let name = path.display().to_string();
    let bytes = whole::read(path, MOST_BYTES).map_err(|e| ReadError::of_file(&name, Mistake::Unreadable(e)))?;
    parse(&name, &bytes)
}

/// Reads a file's content; `name` is what errors call it.
///
/// # Errors
/// As [`read`].
pub fn parse(name: &str, bytes: &[u8]) -> Result<Results, ReadError> {
    Parser::new(name, bytes)?.cases()
}

/// The columns that say which row a row is; a file without them cannot be read.
const IDENTITY: [&str; 5] = ["case", "step", "micro_step", "phase", "status"];

struct Parser<'a> {
    name: &'a str,
    bytes: &'a [u8],
    reader: csv::Reader<&'a [u8]>,
    columns: BTreeMap<String, usize>,
    fields: usize,
    results: Results,
    lines: Lines<'a>,
}

/// A record with what is needed to speak about it.
struct Cells<'a> {
    file: &'a str,
    line: u64,
    columns: &'a BTreeMap<String, usize>,
    record: &'a csv::StringRecord,
}

impl<'a> Parser<'a> {
    fn new(name: &'a str, bytes: &'a [u8]) -> Result<Self, ReadError> {
        if bytes.is_empty() {
            return Err(ReadError::of_file(name, Mistake::Empty));
        }
        if std::str::from_utf8(bytes).is_err() {
            return Err(ReadError::of_file(name, Mistake::NotText));
        }
        let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes);
        let mut header = csv::StringRecord::new();
        reader.read_record(&mut header).map_err(|e| ReadError::of_file(name, Mistake::Csv(e)))?;
        let at_header = |mistake| ReadError { file: name.to_string(), line: Some(1), column: None, mistake: Box::new(mistake) };
        let known = super::results::columns();
        let mut columns = BTreeMap::new();
        for (i, column) in header.iter().enumerate() {
            if columns.insert(column.to_string(), i).is_some() {
                return Err(at_header(Mistake::ColumnTwice(column.to_string())));
            }
        }
        if !known.iter().any(|k| columns.contains_key(k)) {
            return Err(at_header(Mistake::Foreign));
        }
        let absent: Vec<&str> = IDENTITY.into_iter().filter(|&k| !columns.contains_key(k)).collect();
        if !absent.is_empty() {
            return Err(at_header(Mistake::ColumnsAbsent(absent.join(", "))));
        }
        let unknown = header.iter().filter(|&c| !known.iter().any(|k| k == c)).map(|c| c.escape_debug().to_string()).collect();
        let fields = header.len();
        let results = Results { cases: Vec::new(), unknown, header: 0..bytes.len() };
        Ok(Self { name, bytes, reader, columns, fields, results, lines: Lines::new(bytes) })
    }

    fn cases(mut self) -> Result<Results, ReadError> {
        let mut record = csv::StringRecord::new();
        let mut first_lines = BTreeMap::new();
        let mut places: BTreeMap<At, u64> = BTreeMap::new();
        while self.reader.read_record(&mut record).map_err(|e| ReadError::of_file(self.name, Mistake::Csv(e)))? {
            let (start, line) = self.lines.start_of(record.position().map_or(0, csv::Position::byte) as usize);
            let cells = Cells { file: self.name, line, columns: &self.columns, record: &record };
            if record.len() != self.fields {
                let last = self.reader.is_done() || !self.bytes.ends_with(b"\n");
                return Err(cells.wrong(None, field_count(&record, self.fields, last)));
            }
            if let Some(cell) = record.iter().position(|cell| cell.contains(char::is_control)) {
                let column = self.columns.iter().find(|&(_, &i)| i == cell).map(|(name, _)| name.as_str());
                return Err(cells.wrong(column, Mistake::ControlCharacter));
            }
            let label = cells.text("case");
            let settings = cells.settings()?;
            match self.results.cases.last_mut().filter(|c| c.label == label) {
                Some(case) => {
                    if let Some((column, _)) =
                        case.settings.texts().iter().zip(settings.texts()).find(|(a, b)| **a != *b).map(|(a, _)| a.clone())
                    {
                        return Err(cells.wrong(Some(column), Mistake::SettingChanges { first: case.rows[0].line }));
                    }
                }
                None => {
                    if let Some(first) = first_lines.insert(label.to_string(), line) {
                        return Err(cells.wrong(Some("case"), Mistake::CaseApart { case: label.to_string(), first }));
                    }
                    places.clear();
                    match self.results.cases.last_mut() {
                        Some(before) => before.bytes.end = start,
                        None => self.results.header.end = start,
                    }
                    let bytes = start..self.bytes.len();
                    self.results.cases.push(Case { label: label.to_string(), settings, rows: Vec::new(), bytes });
                }
            }
            let row = cells.row()?;
            if let Some(first) = places.insert(row.at, line) {
                return Err(cells.wrong(None, Mistake::RowTwice { first }));
            }
            self.results.cases.last_mut().expect("the row's case was found or made").rows.push(row);
        }
        if !self.bytes.ends_with(b"\n") {
            let line = self.results.rows().last().map_or(1, |r| r.line);
            let mistake = Box::new(Mistake::CutShort);
            return Err(ReadError { file: self.name.to_string(), line: Some(line), column: None, mistake });
        }
        Ok(self.results)
    }
}

/// Why a record has another number of fields than the header.
fn field_count(record: &csv::StringRecord, expected: usize, last: bool) -> Mistake {
    let conflict = record.get(0).is_some_and(|f| ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|m| f.starts_with(m)));
    match (conflict, last && record.len() < expected) {
        (true, _) => Mistake::MergeConflict,
        (_, true) => Mistake::CutShort,
        _ => Mistake::Fields { found: record.len(), expected },
    }
}

impl Cells<'_> {
    fn wrong(&self, column: Option<&str>, mistake: Mistake) -> ReadError {
        ReadError { file: self.file.to_string(), line: Some(self.line), column: column.map(String::from), mistake: Box::new(mistake) }
    }

    /// The cell; empty where the file lacks the column.
    fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|&i| self.record.get(i)).unwrap_or_default()
    }

    fn optional_text(&self, column: &str) -> Option<String> {
        Some(self.text(column)).filter(|t| !t.is_empty()).map(String::from)
    }

    fn optional_number(&self, column: &str) -> Result<Option<u64>, ReadError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.wrong(Some(column), Mistake::NotANumber(text.to_string())));
        }
        match text.parse::<u64>() {
            Ok(n) if i64::try_from(n).is_ok() => Ok(Some(n)),
            _ => Err(self.wrong(Some(column), Mistake::TooLarge(text.to_string()))),
        }
    }

    fn number(&self, column: &str) -> Result<u64, ReadError> {
        self.optional_number(column)?.ok_or_else(|| self.wrong(Some(column), Mistake::EmptyCell))
    }

    fn word<T: Copy>(&self, column: &str, known: &[T], name: impl Fn(T) -> &'static str) -> Result<T, ReadError> {
        let text = self.text(column);
        known.iter().copied().find(|&k| name(k) == text).ok_or_else(|| {
            let known = known.iter().map(|&k| name(k)).collect::<Vec<_>>().join(", ");
            self.wrong(Some(column), Mistake::UnknownWord { found: text.to_string(), known })
        })
    }

    fn settings(&self) -> Result<Settings, ReadError> {
        Ok(Settings {
            batch_size: self.optional_number("batch_size")?,
            dtype: self.optional_text("dtype"),
            optimizer: self.optional_text("optimizer"),
            accumulation_steps: self.optional_number("accumulation_steps")?,
            checkpointing: self.optional_text("checkpointing"),
            no_grad: self.optional_text("no_grad"),
        })
    }

    fn row(&self) -> Result<Row, ReadError> {
        let at =
            At { step: self.number("step")?, micro_step: self.number("micro_step")?, phase: self.word("phase", &Phase::ALL, Phase::name)? };
        let predicted = self.memory("predicted")?;
        let measured = self.memory("measured")?;
        if predicted.is_none() && measured.is_none() {
            return Err(self.wrong(None, Mistake::NoFigures));
        }
        self.check_errors(predicted, measured)?;
        let categories = self.categories(measured)?;
        let status = self.word("status", &Status::ALL, Status::name)?;
        Ok(Row { at, predicted, measured, categories, status, line: self.line })
    }

    fn memory(&self, side: &str) -> Result<Option<Memory>, ReadError> {
        let columns = Figure::ALL.map(|figure| figure.column(side));
        let values = columns.iter().map(|c| self.optional_number(c)).collect::<Result<Vec<_>, _>>()?;
        match values[..] {
            [Some(allocated), Some(peak), Some(reserved)] => Ok(Some(Memory { allocated, peak, reserved })),
            _ => match (values.iter().position(Option::is_none), values.iter().position(Option::is_some)) {
                (Some(empty), Some(given)) => Err(self.wrong(Some(&columns[empty]), Mistake::HalfGiven { given: columns[given].clone() })),
                _ => Ok(None),
            },
        }
    }

    fn check_errors(&self, predicted: Option<Memory>, measured: Option<Memory>) -> Result<(), ReadError> {
        for figure in Figure::ALL {
            let column = figure.column("error");
            let due = predicted.zip(measured).map(|(p, m)| figure.error(&p, &m));
            let found = self.text(&column);
            if !found.is_empty() && due.map(|d| d.to_string()).as_deref() != Some(found) {
                let due = due.map_or_else(|| "empty".to_string(), |d| d.to_string());
                return Err(self.wrong(Some(&column), Mistake::NotTheDifference { found: found.to_string(), due }));
            }
        }
        Ok(())
    }

    fn categories(&self, measured: Option<Memory>) -> Result<Option<Categories>, ReadError> {
        let mut categories = Categories::default();
        let (mut given, mut empty, mut total) = (None, None, 0u128);
        for category in Category::ALL {
            match self.optional_number(category.name())? {
                Some(bytes) => {
                    categories[category] = bytes;
                    total += u128::from(bytes);
                    given = given.or(Some(category.name()));
                }
                None => empty = empty.or(Some(category.name())),
            }
        }
        match (given, empty) {
            (None, _) => Ok(None),
            (Some(given), Some(empty)) => Err(self.wrong(Some(empty), Mistake::HalfGiven { given: given.to_string() })),
            (Some(_), None) => match measured {
                Some(m) if total != u128::from(m.allocated) => {
                    Err(self.wrong(None, Mistake::CategoriesDoNotAddUp { total, allocated: m.allocated }))
                }
                Some(_) => Ok(Some(categories)),
                None => Err(self.wrong(Some("measured_allocated"), Mistake::HalfGiven { given: "parameters".to_string() })),
            },
        }
    }
}

/// Counts lines as records go by: the CSV reader's own count is one short after a carriage return.
struct Lines<'a> {
    bytes: &'a [u8],
    counted: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, counted: 0, line: 1 }
    }

    /// Where the record that the reader places at `byte` begins, past line ends, and its line. Places come in order.
    fn start_of(&mut self, byte: usize) -> (usize, u64) {
        let ends = self.bytes[byte..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
        let start = byte + ends;
        self.line += self.bytes[self.counted..start].iter().filter(|&&b| b == b'\n').count() as u64;
        self.counted = start;
        (start, self.line)
    }
}
