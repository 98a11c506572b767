//! Memory that is lent in slices: disjoint, zeroed, and never what is not there.

use runner::device::host::{Arena, Extent};

const fn at(address: u64, bytes: u64) -> Extent {
    Extent { address, bytes }
}

fn fill(arena: &mut Arena, extent: Extent, value: u8) {
    arena.lend([], [extent], |[], [w]| w.fill(value));
}

fn read(arena: &mut Arena, extent: Extent) -> Vec<u8> {
    arena.lend([extent], [], |[r], []| r.to_vec())
}

#[test]
fn lends_disjoint_slices_of_one_segment() {
    let mut arena = Arena::default();
    assert!(arena.insert(4096, 64));
    assert!(arena.insert(1024, 64));
    fill(&mut arena, at(4096, 64), 7);
    arena.lend([at(4112, 8), at(4096, 24), at(4112, 8)], [at(4120, 8), at(1024, 16)], |[a, b, c], [w, v]| {
        assert_eq!((a, b.len()), (c, 24));
        w.copy_from_slice(a);
        v.fill(3);
    });
    assert_eq!(read(&mut arena, at(1032, 16)), [[3; 8], [0; 8]].concat());
    assert_eq!(arena.lend([at(0, 0)], [at(0, 0)], |[r], [w]| r.len() + w.len()), 0);
}

#[test]
#[should_panic(expected = "writes what it also reads")]
fn refuses_a_write_over_a_read() {
    let mut arena = Arena::default();
    assert!(arena.insert(512, 64));
    arena.lend([at(512, 16)], [at(520, 16)], |_, _| ());
}

#[test]
#[should_panic(expected = "reach out of their segment")]
fn refuses_to_leave_a_segment() {
    let mut arena = Arena::default();
    assert!(arena.insert(512, 64) && arena.insert(576, 64));
    arena.lend([at(560, 32)], [], |_, _| ());
}

#[test]
#[should_panic(expected = "lie in no segment")]
fn refuses_what_has_no_memory() {
    let mut arena = Arena::default();
    assert!(arena.insert(512, 64));
    arena.remove(512, 64);
    arena.lend([at(560, 8)], [], |_, _| ());
}

#[test]
fn mapped_pages_are_one_with_their_neighbours() {
    let mut arena = Arena::default();
    arena.reserve(1 << 20, 1 << 12);
    let page = |n: u64| at((1 << 20) + n * 256, 256);
    for (n, value) in [(0, 1), (2, 3), (1, 2), (5, 6)] {
        assert!(arena.map(page(n).address, 256));
        fill(&mut arena, page(n), value);
    }
    let run = at(page(0).address, 768);
    let expected = [[1; 256], [2; 256], [3; 256]].concat();
    assert_eq!(read(&mut arena, run), expected);
    arena.unmap(page(1).address, 256);
    assert_eq!(read(&mut arena, page(2)), [3; 256]);
    assert!(arena.map(page(1).address, 256));
    assert_eq!(read(&mut arena, run), [[1; 256], [0; 256], [3; 256]].concat());
    arena.unmap(page(0).address, 768);
    arena.unmap(page(5).address, 256);
    arena.unreserve(1 << 20);
    assert!(arena.insert(1 << 20, 1 << 12), "nothing lies there any more");
}
