//! Every recorded trace under every recorded setting: each statistic, each address, each message, and the summary's every character.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use runner::alloc::{
    Allocator, AllocatorConfig, Event, OutOfMemory, Recorded, StatsTable, Trace, events_csv, first_other_segment, memory_summary,
    recorded_segments, replay, warm_up,
};

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = fs::read_dir(of).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

struct Replayed {
    allocator: Allocator,
    stats: String,
    events: Vec<Event>,
    failures: Vec<(usize, OutOfMemory)>,
}

fn replay_as_recorded(trace: &Trace, setting: &Path) -> Replayed {
    let settings: serde_json::Value = serde_json::from_str(&fs::read_to_string(setting.join("settings.json")).unwrap()).unwrap();
    let mut config: AllocatorConfig = settings["settings"].as_str().unwrap().parse().unwrap();
    config.memory_limit = settings["memory_limit"].as_u64();
    let total = settings["total_memory"].as_u64().unwrap();
    let segments = recorded_segments(fs::File::open(setting.join("events.csv")).unwrap()).unwrap();

    let mut allocator = Allocator::new(config, Box::new(Recorded::new(total, &segments)));
    warm_up(&mut allocator);
    let events = Rc::new(RefCell::new(Vec::new()));
    let listener = Rc::clone(&events);
    allocator.listen(Box::new(move |event| listener.borrow_mut().push(event)));
    let mut stats = StatsTable::default();
    let failures = replay(trace, &mut allocator, |at, allocator| stats.push(at, allocator.stats()));
    let events = events.take();
    assert_eq!(first_other_segment(&events, &segments), None, "{}", setting.display());
    Replayed { allocator, stats: stats.as_csv().to_owned(), events, failures }
}

/// Compares line by line, since a difference of whole files is unreadable.
fn assert_same_lines<'a>(found: impl Iterator<Item = &'a str>, expected: &'a str, what: &Path) {
    let mut found = found;
    for (number, expected) in (1..).zip(expected.lines()) {
        assert_eq!(found.next(), Some(expected), "{}, line {number}", what.display());
    }
    assert_eq!(found.next(), None, "{}, after the end", what.display());
}

/// A message without what depends on the machine's other processes and on the driver.
fn without_the_machine(message: &str) -> String {
    let (head, rest) = message.split_once(" of which ").unwrap();
    let (_, rest) = rest.split_once(" is free. ").unwrap();
    let tail = rest.rsplit_once(" memory in use. ").map_or(rest, |(_, tail)| tail);
    format!("{head}; {tail}")
}

#[test]
fn all_recordings_are_reproduced() {
    let root = Path::new("tests/fixtures/replays");
    let mut replayed = 0;
    for folder in folders(root) {
        let trace = Trace::parse(&fs::read_to_string(folder.join("trace.csv")).unwrap()).unwrap();
        for setting in folders(&folder) {
            let Replayed { allocator, stats, events, failures } = replay_as_recorded(&trace, &setting);
            let expected = |file: &str| (fs::read_to_string(setting.join(file)).unwrap(), setting.join(file));

            let (expected_stats, path) = expected("stats.csv");
            let rows: BTreeMap<&str, &str> = stats.lines().map(|l| (l.split(',').next().unwrap(), l)).collect();
            let kept = expected_stats.lines().filter_map(|l| rows.get(l.split(',').next().unwrap()).copied());
            assert_same_lines(kept, &expected_stats, &path);

            let (expected_events, path) = expected("events.csv");
            let events = events_csv(&events);
            assert_same_lines(events.lines().filter(|l| !l.starts_with("free,")), &expected_events, &path);

            let (expected_summary, path) = expected("summary.txt");
            let summary = memory_summary(allocator.stats(), 0);
            assert_same_lines(summary.lines(), &expected_summary, &path);
            assert_eq!(summary, expected_summary);

            if setting.join("ooms.csv").exists() {
                let mut failures = failures.iter();
                for record in csv::Reader::from_path(setting.join("ooms.csv")).unwrap().records() {
                    let record = record.unwrap();
                    let (op, failure) = failures.next().unwrap();
                    assert_eq!(op.to_string(), record[0], "{}", setting.display());
                    assert_eq!(without_the_machine(&failure.message(0)), without_the_machine(&record[1]));
                }
            }
            replayed += 1;
        }
    }
    assert_eq!(replayed, 28);
}
