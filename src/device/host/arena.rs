//! The host device's memory: real words behind the addresses that a backing hands out, lent to computation as slices.
//!
//! It decides no address; [`HostBacking`](super::HostBacking) tells it what to put memory behind. Invariant: spans never overlap, and
//! every byte is lent to one writer or to any number of readers, never to both.

use std::collections::BTreeMap;

const WORD: u64 = 8;

/// Memory by address.
#[derive(Debug, Default)]
pub struct Arena {
    /// What has memory behind it, by its lowest address. A span is a segment, or a run of mapped pages of one reservation.
    spans: BTreeMap<u64, Span>,
    /// Address space that pages may be mapped into, address to length.
    reservations: BTreeMap<u64, u64>,
}

/// Words rather than bytes, so that every element type is aligned.
#[derive(Debug)]
struct Span {
    words: Vec<u64>,
}

impl Span {
    fn bytes(&self) -> u64 {
        self.words.len() as u64 * WORD
    }
}

/// `bytes` at `address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Of the first byte; anything where there are no bytes.
    pub address: u64,
    /// How many.
    pub bytes: u64,
}

impl Extent {
    fn end(self) -> u64 {
        self.address + self.bytes
    }
}

impl Arena {
    /// Puts zeroed memory behind a new segment. `false`, and nothing changed, where the host has not that much.
    #[must_use]
    pub fn insert(&mut self, address: u64, bytes: u64) -> bool {
        let Some(words) = zeroed(bytes) else { return false };
        self.put(address, Span { words });
        true
    }

    /// Gives a segment's memory back to the host.
    ///
    /// # Panics
    /// No segment of that size lies there.
    pub fn remove(&mut self, address: u64, bytes: u64) {
        let span = self.spans.remove(&address).expect("a segment that is released was allocated");
        assert_eq!(span.bytes(), bytes.next_multiple_of(WORD), "a segment is released whole");
    }

    /// Makes address space in which neighbouring pages belong together.
    pub fn reserve(&mut self, address: u64, bytes: u64) {
        self.reservations.insert(address, bytes);
    }

    /// Forgets address space.
    ///
    /// # Panics
    /// It was not reserved.
    pub fn unreserve(&mut self, address: u64) {
        self.reservations.remove(&address).expect("address space that is given back was reserved");
    }

    /// Puts zeroed memory behind a range of a reservation, so that it is one with the mapped ranges that it touches.
    /// `false`, and nothing changed, where the host has not that much.
    ///
    /// # Panics
    /// The range is not within one reservation.
    #[must_use]
    pub fn map(&mut self, address: u64, bytes: u64) -> bool {
        let end = address + bytes;
        let (&start, &length) = self.reservations.range(..=address).next_back().expect("pages are mapped into reserved address space");
        assert!(end <= start + length, "pages are mapped into one reservation");
        let below = self.spans.range(start..address).next_back().filter(|&(&a, s)| a + s.bytes() == address).map(|(&a, _)| a);
        let above = if end < start + length { self.spans.remove(&end) } else { None };
        let mut words = match below {
            Some(below) => self.spans.remove(&below).expect("it was just found").words,
            None => Vec::new(),
        };
        let grown = words.len() + to_words(bytes);
        let fits = words.try_reserve(to_words(bytes) + above.as_ref().map_or(0, |s| s.words.len())).is_ok();
        if fits {
            words.resize(grown, 0);
            words.extend(above.iter().flat_map(|s| &s.words));
        } else if let Some(above) = above {
            self.put(end, above);
        }
        if !words.is_empty() {
            self.put(below.unwrap_or(address), Span { words });
        }
        fits
    }

    /// Takes the memory from behind a range of a reservation.
    ///
    /// # Panics
    /// Not all of it is mapped.
    pub fn unmap(&mut self, address: u64, bytes: u64) {
        let (&start, span) = self.spans.range_mut(..=address).next_back().expect("pages that are unmapped were mapped");
        assert!(address + bytes <= start + span.bytes(), "pages that are unmapped were mapped");
        let above = span.words.split_off(to_words(address + bytes - start));
        span.words.truncate(to_words(address - start));
        span.words.shrink_to_fit();
        if span.words.is_empty() {
            self.spans.remove(&start);
        }
        if !above.is_empty() {
            self.put(address + bytes, Span { words: above });
        }
    }

    fn put(&mut self, address: u64, span: Span) {
        if let Some((&below, s)) = self.spans.range(..=address).next_back() {
            assert!(below + s.bytes() <= address, "two segments overlap at {address:#x}");
        }
        self.spans.insert(address, span);
    }

    /// Lends memory: shared slices of what is read, which may overlap each other, and exclusive slices of what is written. An operand that
    /// is both read and written (in place) is lent as written only.
    ///
    /// # Panics
    /// Where an extent reaches out of its segment, or a written one overlaps another.
    pub fn lend<const N: usize, const M: usize, T>(
        &mut self,
        reads: [Extent; N],
        writes: [Extent; M],
        compute: impl FnOnce([&[u8]; N], [&mut [u8]; M]) -> T,
    ) -> T {
        let loans = loans(&reads, &writes);
        let mut shared: Vec<(u64, &[u8])> = Vec::with_capacity(N);
        let mut exclusive: [Option<&mut [u8]>; M] = [const { None }; M];
        let mut pending = loans.iter().peekable();
        let first = loans.first().map_or(0, |l| l.extent.address);
        let first = self.spans.range(..=first).next_back().map_or(first, |(&a, _)| a);
        for (&address, span) in self.spans.range_mut(first..) {
            let mut rest: &mut [u8] = bytemuck::cast_slice_mut(&mut span.words);
            let mut at = address;
            while let Some(loan) = pending.next_if(|l| l.extent.address < at + rest.len() as u64) {
                let Extent { address, bytes } = loan.extent;
                assert!(
                    address >= at && address + bytes <= at + rest.len() as u64,
                    "{bytes} bytes at {address:#x} reach out of their segment"
                );
                let (_, tail) = std::mem::take(&mut rest).split_at_mut(to_usize(address - at));
                let (lent, tail) = tail.split_at_mut(to_usize(bytes));
                (rest, at) = (tail, address + bytes);
                match loan.writer {
                    Some(writer) => exclusive[writer] = Some(lent),
                    None => shared.push((address, lent)),
                }
            }
            if pending.peek().is_none() {
                break;
            }
        }
        if let Some(loan) = pending.next() {
            panic!("{} bytes at {:#x} lie in no segment", loan.extent.bytes, loan.extent.address);
        }
        // Where there are no bytes, no bytes of words: casts to any element type look at the alignment even so.
        let reads = reads.map(|read| {
            if read.bytes == 0 {
                return bytemuck::cast_slice(&[0u64; 0]);
            }
            let i = shared.partition_point(|&(a, _)| a <= read.address) - 1;
            let (address, bytes) = shared[i];
            &bytes[to_usize(read.address - address)..][..to_usize(read.bytes)]
        });
        compute(reads, exclusive.map(|w| w.unwrap_or_else(|| bytemuck::cast_slice_mut(&mut [0u64; 0]))))
    }
}

/// One slice to cut out.
struct Loan {
    extent: Extent,
    /// Which of the writes; `None` for one or more reads.
    writer: Option<usize>,
}

/// What to cut out, by address: every write, and the unions of overlapping reads.
fn loans(reads: &[Extent], writes: &[Extent]) -> Vec<Loan> {
    let mut all: Vec<Loan> = writes.iter().enumerate().map(|(i, &extent)| Loan { extent, writer: Some(i) }).collect();
    all.extend(reads.iter().map(|&extent| Loan { extent, writer: None }));
    all.retain(|l| l.extent.bytes > 0);
    all.sort_by_key(|l| (l.extent.address, l.writer));
    let mut loans: Vec<Loan> = Vec::with_capacity(all.len());
    for loan in all {
        match loans.last_mut() {
            Some(last) if loan.extent.address < last.extent.end() => {
                assert!(
                    last.writer.is_none() && loan.writer.is_none(),
                    "a kernel writes what it also reads or writes: {:?} and {:?}",
                    last.extent,
                    loan.extent
                );
                last.extent.bytes = last.extent.end().max(loan.extent.end()) - last.extent.address;
            }
            _ => loans.push(loan),
        }
    }
    loans
}

/// Zeroed words that the operating system fills in as they are touched.
fn zeroed(bytes: u64) -> Option<Vec<u64>> {
    let words = to_words(bytes);
    // An allocation that fails ends the program; asking first turns that into an answer.
    Vec::<u64>::new().try_reserve_exact(words).ok()?;
    Some(vec![0; words])
}

fn to_words(bytes: u64) -> usize {
    to_usize(bytes.div_ceil(WORD))
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).expect("the host addresses what it lends")
}
