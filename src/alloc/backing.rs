//! Where segments come from. The allocator decides when and how much; a backing decides where, and whether there is any.
//! Adaptors wrap one backing in another.

/// The source of an allocator's segments: a driver, host memory, or mere numbers.
///
/// Addresses matter to the policy, for ties between equal blocks go to the lower one. An `Err` means that memory has run out and
/// leaves nothing changed; a backing that is broken in any other way must not answer at all.
pub trait Backing {
    /// All memory there is, free or not.
    fn total_memory(&self) -> u64;

    /// Memory nobody has taken.
    fn free_memory(&self) -> u64;

    /// Memory this process has taken, through this backing or past it, where that can be told.
    fn process_memory(&self) -> Option<u64> {
        None
    }

    /// Whether it has denied memory that by its own count there was room for, the machine that it stands on having no more. From then on
    /// it denies all.
    fn machine_is_full(&self) -> bool {
        false
    }

    /// A new segment's address.
    ///
    /// # Errors
    /// There is no room for it.
    fn allocate(&mut self, bytes: u64) -> Result<u64, BackingError>;

    /// Gives back a segment that [`allocate`](Self::allocate) gave, whole.
    fn release(&mut self, address: u64, bytes: u64);

    /// Address space without memory behind it, for a segment that expands.
    ///
    /// # Errors
    /// There is no address space left.
    fn reserve(&mut self, bytes: u64) -> Result<u64, BackingError>;

    /// Gives back address space with no page mapped in it.
    fn unreserve(&mut self, address: u64, bytes: u64);

    /// Puts memory behind `pages` pages of `page` bytes each: all of them or none.
    ///
    /// # Errors
    /// There are not so many pages left.
    fn map(&mut self, address: u64, pages: u64, page: u64) -> Result<(), BackingError>;

    /// Takes the memory from behind pages.
    fn unmap(&mut self, address: u64, pages: u64, page: u64);
}

/// A backing's memory has run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are not {bytes} bytes left")]
pub struct BackingError {
    /// What was asked for.
    pub bytes: u64,
}
