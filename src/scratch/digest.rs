//! A number for bytes, so that the same content is known again: FNV-1a of 64 bits. It tells what differs by chance, not what is forged.

/// The digest.
pub(super) fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
