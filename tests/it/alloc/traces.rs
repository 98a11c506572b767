//! Reading traces: what is no trace is refused with its line.

use runner::alloc::{Op, Trace};

fn refused(text: &str) -> String {
    Trace::parse(text).unwrap_err().to_string()
}

#[test]
fn slots_are_dense_and_reused() {
    let trace = Trace::parse("op,id,bytes\nalloc,7,10\nalloc,9,20\nfree,7,\nprobe,,\nalloc,8,30\nempty_cache,,\nfree,9\n").unwrap();
    assert_eq!(
        trace.ops,
        [
            Op::Alloc { slot: 0, bytes: 10 },
            Op::Alloc { slot: 1, bytes: 20 },
            Op::Free { slot: 0 },
            Op::Probe,
            Op::Alloc { slot: 0, bytes: 30 },
            Op::EmptyCache,
            Op::Free { slot: 1 },
        ]
    );
    assert_eq!(trace.slots, 2);
}

#[test]
fn mistakes_have_their_line() {
    for (text, message) in [
        ("", "line 1: expected the header `op,id,bytes`, found ``"),
        ("id,op\n", "line 1: expected the header `op,id,bytes`, found `id,op`"),
        ("op,id,bytes\nmalloc,1,2\n", "line 2: `malloc` is no operation; there are alloc, free, empty_cache and probe"),
        ("op,id,bytes\n\nprobe,,\n", "line 2: `` is no operation; there are alloc, free, empty_cache and probe"),
        ("op,id,bytes\nprobe,,\nalloc,1,-2\n", "line 3: `alloc` needs a number of bytes, found `-2`"),
        ("op,id,bytes\nalloc,x,2\n", "line 2: `alloc` needs an id, found `x`"),
        ("op,id,bytes\nalloc,1\n", "line 2: `alloc` needs a number of bytes, found ``"),
        ("op,id,bytes\nalloc,1,2\r\nprobe,,\r\nalloc,1,2\n", "line 4: 1 is allocated already, on line 2"),
        ("op,id,bytes\nalloc,1,2\nfree,1,\nfree,1,\n", "line 4: 1 is freed but not allocated"),
    ] {
        assert_eq!(refused(text), message);
    }
}
