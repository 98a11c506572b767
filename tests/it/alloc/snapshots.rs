//! Memory snapshots: PyTorch's are read, ours are PyTorch's, and strangers' files are refused with their mistake.

use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;
use runner::alloc::{Dump, TraceAction, TraceEntry};

use crate::support::{Sandbox, repository};

const NAMES: [&str; 2] = ["mlp", "mlp_expandable"];

fn fixture(name: &str) -> PathBuf {
    repository().join("tests/fixtures/snapshots").join(name)
}

fn pytorchs(name: &str) -> Vec<u8> {
    std::fs::read(fixture(&format!("{name}.pickle"))).unwrap()
}

/// Runs an experiment as PyTorch did; gives its snapshot.
fn ours(s: &Sandbox, name: &str) -> Vec<u8> {
    let toml = fixture(&format!("{name}.toml"));
    let mut arguments = vec![toml.to_str().unwrap(), "--device", "virtual", "--snapshot", "out.pickle", "-q"];
    if name == "mlp_expandable" {
        arguments.extend(["--allocator", "expandable_segments:True"]);
    }
    s.run(&arguments).exits(0);
    std::fs::read(s.path("out.pickle")).unwrap()
}

fn sizes(dump: &Dump) -> Vec<(TraceAction, u64)> {
    dump.traces[0].iter().filter(|e| e.action != TraceAction::Snapshot).map(|e| (e.action, e.bytes)).collect()
}

#[test]
fn a_runs_snapshot_lists_what_pytorchs_lists_in_the_same_order() {
    for name in NAMES {
        let (theirs, ours) = (Dump::from_pickle(&pytorchs(name)).unwrap(), Dump::from_pickle(&ours(&Sandbox::new(), name)).unwrap());
        assert!(sizes(&theirs).len() > 200, "{name}");
        assert_eq!(sizes(&ours), sizes(&theirs), "{name}");
        let blocks = |dump: &Dump| {
            let of = |s: &runner::alloc::DumpSegment| {
                let blocks: Vec<_> = s.blocks.iter().map(|b| (b.bytes, b.state.is_active().then_some(b.requested))).collect();
                (s.bytes, s.large, s.expandable, blocks)
            };
            let mut segments: Vec<_> = dump.segments.iter().map(of).collect();
            segments.sort();
            segments
        };
        assert_eq!(blocks(&ours), blocks(&theirs), "{name}");
    }
}

#[test]
fn a_replayed_snapshot_and_a_run_have_pytorchs_summary() {
    for name in NAMES {
        let expected = std::fs::read_to_string(fixture(&format!("{name}.txt"))).unwrap();
        let s = Sandbox::new();
        let replayed = s.run(&["replay", fixture(&format!("{name}.pickle")).to_str().unwrap()]).exits(0);
        assert!(replayed.stdout.starts_with(&format!("{expected}fragmentation: ")), "{name}: {}", replayed.stdout);
        let settings = if name == "mlp_expandable" { "expandable_segments:True" } else { "" };
        let ran = s.run(&["summary", fixture(&format!("{name}.toml")).to_str().unwrap(), "--allocator", settings]).exits(0);
        assert_eq!(ran.stdout, expected, "{name}");
    }
}

#[test]
fn frames_name_layer_operator_and_phase() {
    let dump = Dump::from_pickle(&ours(&Sandbox::new(), "mlp")).unwrap();
    let frames: Vec<String> =
        dump.stacks.iter().map(|s| format!("{} {} | {} {}", s[0].name, s[0].filename, s[1].name, s[1].line)).collect();
    for expected in [
        "to (parameters) 0.weight | model 0",
        "linear (activations) 0.linear | forward 1",
        "linear (backward, activations) 2.linear | backward 2",
        "adam (optimizer_state) 4.bias | optimizer 1",
        "relu (activations) 1.relu | forward 3",
    ] {
        assert!(frames.iter().any(|f| f == expected), "no {expected} in {frames:#?}");
    }
    assert!(dump.annotations.iter().any(|a| a.start && a.name == "backward 2.1"));
}

#[test]
fn what_is_written_is_read_the_same() {
    for name in NAMES {
        let dump = Dump::from_pickle(&pytorchs(name)).unwrap();
        let again = Dump { config: Some(dump.settings.parse().unwrap()), ..dump.clone() }.to_pickle();
        assert_eq!(Dump::from_pickle(&again).unwrap(), dump, "{name}");
    }
}

/// Python itself, where there is one.
#[test]
fn pythons_pickle_reads_ours_with_pytorchs_keys_in_their_order() {
    if Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let s = Sandbox::new();
    ours(&s, "mlp");
    s.write("check.py", &format!("import pickle, pickletools\ntheirs = pickle.load(open({:?}, 'rb'))\n{CHECK}", fixture("mlp.pickle")));
    let outcome = s.shell("python3 check.py");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "fine\n"), "{}", outcome.stderr);
}

const CHECK: &str = r#"
data = open('out.pickle', 'rb').read()
ours = pickle.loads(data)
assert list(ours) == list(theirs)
event = lambda d: next(e for e in d['device_traces'][0] if e['action'] == 'alloc')
for of in (lambda d: d['segments'][0]['blocks'][0], event, lambda d: event(d)['frames'][0], lambda d: d['allocator_settings']):
    assert list(of(ours)) == list(of(theirs)), (list(of(ours)), list(of(theirs)))
assert set(ours['segments'][0]) == set(theirs['segments'][0])
assert ours['allocator_settings'] == theirs['allocator_settings']
assert ours['segments'][0]['segment_pool_id'] == (0, 0)
allowed = {'PROTO', 'FRAME', 'EMPTY_DICT', 'EMPTY_LIST', 'EMPTY_TUPLE', 'MARK', 'APPEND', 'APPENDS', 'SETITEM', 'SETITEMS', 'LIST', 'DICT',
    'TUPLE', 'TUPLE1', 'TUPLE2', 'TUPLE3', 'BININT', 'BININT1', 'BININT2', 'LONG1', 'NEWTRUE', 'NEWFALSE', 'NONE', 'BINFLOAT',
    'SHORT_BINUNICODE', 'BINUNICODE', 'MEMOIZE', 'BINGET', 'LONG_BINGET', 'BINPUT', 'LONG_BINPUT', 'STOP'}
used = {op.name for op, _, _ in pickletools.genops(data)}
assert used <= allowed, used - allowed
for segment in ours['segments']:
    at = segment['address']
    for block in segment['blocks']:
        assert block['address'] == at
        at += block['size']
    assert at == segment['address'] + segment['total_size']
print('fine')
"#;

#[test]
fn numbers_of_any_size_come_back() {
    // Where the pickle's opcode changes, or the sign bit of a byte.
    let edges = [8, 16, 31, 32, 39, 40, 63].map(|power| 1u64 << power);
    let numbers = edges.into_iter().flat_map(|n| [n - 1, n]).chain([0, u64::MAX]);
    let entry = |n| TraceEntry { action: TraceAction::Alloc, address: n, bytes: n, stream: n, time_us: n, stack: None };
    let dump = Dump { traces: vec![numbers.map(entry).collect()], ..Dump::default() };
    assert_eq!(Dump::from_pickle(&dump.to_pickle()).unwrap().traces, dump.traces);
}

fn refused(bytes: &[u8]) -> String {
    Dump::from_pickle(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_no_snapshot_is_refused_with_its_mistake() {
    let whole = pytorchs("mlp");
    for (bytes, message) in [
        (&b""[..], "byte 0: this is no pickle"),
        (b"hello", "byte 0: this is no pickle"),
        (b"\x80", "byte 0: the file ends in the middle"),
        (&whole[..whole.len() / 2], "the file ends in the middle of the pickle"),
        (b"\x80\x04cos\nsystem\n(X\x02\x00\x00\x00lstR.", "byte 2: `GLOBAL` makes Python objects or runs code"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.", "`STACK_GLOBAL` makes Python objects"),
        (b"\x80\x04K\x01.", "the snapshot is no dict"),
        (b"\x80\x04}.", "the snapshot has no `segments`"),
        (b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](K\x01eu.", "the trace of device 0 is no list"),
        (b"\x80\x04}(K\x01K\x02u.", "a dict has a key that is no text"),
        (b"\x80\x04(e.", "other values on the stack"),
        (b"\x80\x04h\x07.", "nothing was remembered as number 7"),
        (b"\x80\x04]r\xff\xff\xff\xff.", "nothing was remembered as number 4294967295"),
        (b"\x80\x04X\xff\xff\xff\xffa.", "the file ends in the middle"),
        (b"\x80\x04\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "a number beyond 64 bits"),
        (b"\x80\x04\x8c\x01\xff.", "text that is not UTF-8"),
        (b"\x80\x04\xfe.", "opcode 0xfe has no place"),
    ] {
        let told = refused(bytes);
        assert!(told.contains(message), "{bytes:?}: {told}");
    }
    assert!(refused(&[b"\x80\x04".as_slice(), &[b'('; 100]].concat()).contains("containers open at once"));
    // A list that holds itself, and one that is named again and again.
    assert!(refused(b"\x80\x04]q\x00h\x00a.").contains("the snapshot is no dict"));
    let bomb = [&b"\x80\x04}(\x8c\x08segments](}(\x8c\x06blocks](NNNNNNNNNNNNNNNNe\x94u"[..], b"e\x8c\x0ddevice_traces]u."].concat();
    assert!(
        refused(&bomb).contains("block 0 of segment 0 is no dict") || refused(&bomb).contains("has no `address`"),
        "{}",
        refused(&bomb)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever a file holds, reading it ends, in a dump or in a mistake, and so does replaying the dump.
    #[test]
    fn no_file_does_harm(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4usize), 1..6), cut in prop::option::of(any::<prop::sample::Index>())) {
        let mut bytes = pytorchs("mlp");
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        if let Some(cut) = cut {
            let cut = cut.index(bytes.len());
            bytes.truncate(cut);
        }
        if let Ok(dump) = Dump::from_pickle(&bytes) {
            for device in dump.devices() {
                let _ = dump.history(device, 1 << 40);
            }
        }
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(prop::sample::select(b"\x80\x04}]()aestuldKMJXhqrN.\x94\x8c\x85\x86\x87\x00\x01\x02\x8a\x88G".to_vec()), 0..200)) {
        let _ = Dump::from_pickle(&[b"\x80\x04".as_slice(), &bytes].concat());
    }
}
