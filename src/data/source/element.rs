//! Numbers as array files store them.

/// A type of stored numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
}

/// A stored number: its type, and whether its most significant byte comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) kind: Kind,
    pub(super) big_endian: bool,
}

impl Element {
    /// Bytes of one.
    pub(super) const fn bytes(self) -> usize {
        match self.kind {
            Kind::U8 | Kind::I8 => 1,
            Kind::U16 | Kind::I16 | Kind::F16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 => 8,
        }
    }

    /// Whether it is an integer.
    pub(super) const fn whole(self) -> bool {
        !matches!(self.kind, Kind::F16 | Kind::F32 | Kind::F64)
    }

    /// The numbers that bytes hold.
    pub(super) fn decode(self, bytes: &[u8]) -> Vec<f64> {
        match self.kind {
            Kind::U8 => bytes.iter().map(|&b| f64::from(b)).collect(),
            Kind::I8 => bytes.iter().map(|&b| f64::from(b.cast_signed())).collect(),
            Kind::U16 => self.each(bytes, |b| f64::from(u16::from_le_bytes(b))),
            Kind::I16 => self.each(bytes, |b| f64::from(i16::from_le_bytes(b))),
            Kind::U32 => self.each(bytes, |b| f64::from(u32::from_le_bytes(b))),
            Kind::I32 => self.each(bytes, |b| f64::from(i32::from_le_bytes(b))),
            Kind::U64 => self.each(bytes, |b| u64::from_le_bytes(b) as f64),
            Kind::I64 => self.each(bytes, |b| i64::from_le_bytes(b) as f64),
            Kind::F16 => self.each(bytes, |b| half::f16::from_le_bytes(b).to_f64()),
            Kind::F32 => self.each(bytes, |b| f64::from(f32::from_le_bytes(b))),
            Kind::F64 => self.each(bytes, f64::from_le_bytes),
        }
    }

    fn each<const N: usize>(self, bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let numbers = bytes.as_chunks::<N>().0.iter().map(|&b| {
            let mut b = b;
            if self.big_endian {
                b.reverse();
            }
            number(b)
        });
        numbers.collect()
    }
}
