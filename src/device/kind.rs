//! The devices there are. The set is closed: whoever computes matches on it and the compiler asks for every arm.

/// What computes.
#[derive(Debug)]
pub enum Device {
    /// Nothing does: every allocation is real, every value is unknown.
    Virtual,
}
