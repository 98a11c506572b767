//! The placement rule, step by step: chunks top down, segments at their bottom, the lowest free range first.

use runner::alloc::{Backing, Placement};

const MIB: u64 = 1 << 20;

#[test]
fn segments_lie_where_the_driver_puts_them() {
    let mut place = Placement::new(1 << 40);
    // 20 MiB opens a chunk of 32 and leaves 12 above it.
    let first = place.allocate(20 * MIB).unwrap();
    assert_eq!(place.allocate(2 * MIB).unwrap(), first + 20 * MIB);
    // 40 MiB does not fit there: a chunk of 64 below, of which 24 are left.
    let second = place.allocate(40 * MIB).unwrap();
    assert_eq!(second, first - 64 * MIB);
    // The lowest range that holds it, not the best fitting.
    assert_eq!(place.allocate(8 * MIB).unwrap(), second + 40 * MIB);
    assert_eq!(place.allocate(20 * MIB).unwrap(), first - 96 * MIB);
    // What is freed joins what is free around it, within its chunk: 40 MiB of the second, whose 8 MiB stay.
    place.release(second, 40 * MIB);
    assert_eq!(place.allocate(36 * MIB).unwrap(), second);
    // The lowest range is now the third chunk's rest, of 12 MiB.
    assert_eq!(place.allocate(12 * MIB).unwrap(), first - 76 * MIB);
}

/// As seen on an H200 after `empty_cache`, where the lowest free address would have been another.
#[test]
fn a_chunk_that_is_free_is_given_up_and_the_highest_hole_is_taken_first() {
    let mut place = Placement::new(1 << 40);
    let chunks: Vec<u64> = (0..6).map(|_| place.allocate(32 * MIB).unwrap()).collect();
    for n in [1, 3, 4] {
        place.release(chunks[n], 32 * MIB);
    }
    // The higher hole is too small for two chunks; the lower one is of two.
    assert_eq!(place.allocate(56 * MIB).unwrap(), chunks[4]);
    assert_eq!(place.allocate(20 * MIB).unwrap(), chunks[1]);
    assert_eq!(place.allocate(20 * MIB).unwrap(), chunks[5] - 32 * MIB);
    // A chunk that anything lies in stays, and what is free of it goes first, the lowest before the highest.
    assert_eq!(place.allocate(2 * MIB).unwrap(), chunks[5] - 12 * MIB);
    place.release(chunks[5] - 32 * MIB, 20 * MIB);
    assert_eq!(place.allocate(16 * MIB).unwrap(), chunks[5] - 32 * MIB);
    assert_eq!(place.allocate(8 * MIB).unwrap(), chunks[5] - 10 * MIB);
    assert_eq!(place.allocate(8 * MIB).unwrap(), chunks[4] + 56 * MIB);
}

#[test]
fn requests_take_whole_granules_of_address_space_but_count_their_bytes() {
    let mut place = Placement::new(10 * MIB);
    let first = place.allocate(MIB).unwrap();
    assert_eq!(place.allocate(MIB).unwrap(), first + 2 * MIB);
    assert_eq!(place.free_memory(), 8 * MIB);
    assert!(place.allocate(8 * MIB + 1).is_err());
    assert_eq!(place.free_memory(), 8 * MIB, "a refusal changes nothing");
    place.release(first, MIB);
    assert_eq!(place.allocate(8 * MIB).unwrap(), first + 4 * MIB);
}

#[test]
fn address_space_is_not_memory() {
    let mut place = Placement::new(100 * MIB);
    place.allocate(60 * MIB).unwrap();
    let base = place.reserve(1 << 30).unwrap();
    assert_eq!(place.free_memory(), 40 * MIB);
    assert!(place.map(base, 3, 20 * MIB).is_err());
    place.map(base, 2, 20 * MIB).unwrap();
    assert_eq!(place.free_memory(), 0);
    place.unmap(base, 2, 20 * MIB);
    place.unreserve(base, 1 << 30);
    assert_eq!(place.allocate(32 * MIB).unwrap(), base + (1 << 30) - 32 * MIB);
}
