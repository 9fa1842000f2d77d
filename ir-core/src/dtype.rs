//! Element types.

mod small_float;

use std::fmt;
use std::str::FromStr;

pub use small_float::SmallFloat;

/// The family of an element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DTypeKind {
    /// Two's complement signed integer.
    Int,
    /// Unsigned integer; one bit is `bool`.
    UInt,
    /// IEEE 754 binary float.
    Float,
    /// Brain float: the upper half of a binary32.
    BFloat,
    /// A float of at most eight bits.
    Small(SmallFloat),
}

/// An element type: family, width in bits, and vector lanes. Prints as `float32`, `uint8`, `bool`,
/// `int8x4`,
/// `float8_e4m3fn`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DType {
    kind: DTypeKind,
    bits: u8,
    lanes: u16,
}

impl DType {
    /// `bool`.
    pub const BOOL: DType = DType::scalar(DTypeKind::UInt, 1);
    /// `int8`.
    pub const INT8: DType = DType::scalar(DTypeKind::Int, 8);
    /// `int16`.
    pub const INT16: DType = DType::scalar(DTypeKind::Int, 16);
    /// `int32`.
    pub const INT32: DType = DType::scalar(DTypeKind::Int, 32);
    /// `int64`.
    pub const INT64: DType = DType::scalar(DTypeKind::Int, 64);
    /// `uint8`.
    pub const UINT8: DType = DType::scalar(DTypeKind::UInt, 8);
    /// `uint16`.
    pub const UINT16: DType = DType::scalar(DTypeKind::UInt, 16);
    /// `uint32`.
    pub const UINT32: DType = DType::scalar(DTypeKind::UInt, 32);
    /// `uint64`.
    pub const UINT64: DType = DType::scalar(DTypeKind::UInt, 64);
    /// `float16`.
    pub const FLOAT16: DType = DType::scalar(DTypeKind::Float, 16);
    /// `float32`.
    pub const FLOAT32: DType = DType::scalar(DTypeKind::Float, 32);
    /// `float64`.
    pub const FLOAT64: DType = DType::scalar(DTypeKind::Float, 64);
    /// `bfloat16`.
    pub const BFLOAT16: DType = DType::scalar(DTypeKind::BFloat, 16);

    const fn scalar(kind: DTypeKind, bits: u8) -> DType {
        DType { kind, bits, lanes: 1 }
    }

    /// The element type of `kind`, `bits` wide, with `lanes` vector lanes; `None` where no such
    /// type exists (zero or over 64 bits, no lanes, a float of an odd width).
    pub const fn new(kind: DTypeKind, bits: u8, lanes: u16) -> Option<DType> {
        let exists = match kind {
            DTypeKind::Int | DTypeKind::UInt => 1 <= bits && bits <= 64,
            DTypeKind::Float => matches!(bits, 16 | 32 | 64),
            DTypeKind::BFloat => bits == 16,
            DTypeKind::Small(format) => bits == format.bits(),
        };
        if exists && lanes > 0 { Some(DType { kind, bits, lanes }) } else { None }
    }

    /// The family.
    pub fn kind(self) -> DTypeKind {
        self.kind
    }
    /// Width of one lane in bits.
    pub fn bits(self) -> u32 {
        self.bits.into()
    }
    /// Number of vector lanes, 1 for a scalar.
    pub fn lanes(self) -> u32 {
        self.lanes.into()
    }
    /// The same type with `lanes` lanes.
    pub fn with_lanes(self, lanes: u16) -> Option<DType> {
        DType::new(self.kind, self.bits, lanes)
    }
    /// The same type with the lanes of `other`.
    pub fn with_lanes_of(self, other: DType) -> DType {
        DType { lanes: other.lanes, ..self }
    }
    /// The type of one lane.
    pub fn lane(self) -> DType {
        DType { lanes: 1, ..self }
    }
    /// Bytes that one element takes in memory (a lane rounded up to a power of two of bytes).
    pub fn bytes(self) -> usize {
        usize::from(self.bits).div_ceil(8).next_power_of_two() * usize::from(self.lanes)
    }
    /// Whether this is `bool`.
    pub fn is_bool(self) -> bool {
        self.kind == DTypeKind::UInt && self.bits == 1
    }
    /// Whether this is a float of any format.
    pub fn is_float(self) -> bool {
        matches!(self.kind, DTypeKind::Float | DTypeKind::BFloat | DTypeKind::Small(_))
    }
    /// The element type of floats of this format.
    pub const fn small_float(format: SmallFloat) -> DType {
        DType::scalar(DTypeKind::Small(format), format.bits())
    }
    /// The format, of a float of at most eight bits.
    pub fn as_small_float(self) -> Option<SmallFloat> {
        match self.kind {
            DTypeKind::Small(format) => Some(format),
            _ => None,
        }
    }
    /// Of a float, the greatest exponent of two, and how many binary digits follow the first.
    pub fn float_format(self) -> (i32, i32) {
        match (self.kind, self.bits) {
            (DTypeKind::BFloat, _) => (127, 7),
            (DTypeKind::Small(format), _) => format.float_format(),
            (_, 16) => (15, 10),
            (_, 32) => (127, 23),
            _ => (1023, 52),
        }
    }
    /// Whether this is a signed or unsigned integer, `bool` included.
    pub fn is_integer(self) -> bool {
        !self.is_float()
    }
    /// Whether this is a signed integer.
    pub fn is_signed(self) -> bool {
        self.kind == DTypeKind::Int
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DTypeKind::UInt if self.bits == 1 => f.write_str("bool")?,
            DTypeKind::Int => write!(f, "int{}", self.bits)?,
            DTypeKind::UInt => write!(f, "uint{}", self.bits)?,
            DTypeKind::Float => write!(f, "float{}", self.bits)?,
            DTypeKind::BFloat => write!(f, "bfloat{}", self.bits)?,
            DTypeKind::Small(format) => f.write_str(format.name())?,
        }
        if self.lanes > 1 {
            write!(f, "x{}", self.lanes)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DType {
    type Err = ();

    /// Reads `float32`, `uint1`, `bool`, `int8x4`, and the aliases `int` and `uint` of 32 bits.
    fn from_str(text: &str) -> Result<DType, ()> {
        // Of two names that the text begins with, the longer one is meant.
        let small = SmallFloat::ALL.into_iter().filter(|format| text.starts_with(format.name()));
        if let Some(format) = small.max_by_key(|format| format.name().len()) {
            let lanes = match &text[format.name().len()..] {
                "" => 1,
                lanes => lanes.strip_prefix('x').ok_or(())?.parse().map_err(|_| ())?,
            };
            return DType::small_float(format).with_lanes(lanes).ok_or(());
        }
        let letters = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
        let (name, numbers) = text.split_at(letters);
        let (bits, lanes) = match numbers.split_once('x') {
            Some((bits, lanes)) => (bits, lanes.parse().map_err(|_| ())?),
            None => (numbers, 1),
        };
        let kind = match name {
            "bool" if bits.is_empty() => return DType::BOOL.with_lanes(lanes).ok_or(()),
            // `boolx4` has no digits before its lanes.
            "boolx" if !bits.is_empty() => {
                return DType::BOOL.with_lanes(bits.parse().map_err(|_| ())?).ok_or(());
            }
            "int" => DTypeKind::Int,
            "uint" => DTypeKind::UInt,
            "float" => DTypeKind::Float,
            "bfloat" => DTypeKind::BFloat,
            _ => return Err(()),
        };
        let bits = if bits.is_empty() { 32 } else { bits.parse().map_err(|_| ())? };
        DType::new(kind, bits, lanes).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let small = SmallFloat::ALL.map(SmallFloat::name);
        let others =
            ["bool", "boolx4", "int8", "uint4", "float16", "bfloat16", "int8x4", "float8_e5m2x4"];
        for name in small.into_iter().chain(others) {
            assert_eq!(name.parse::<DType>().map(|t| t.to_string()), Ok(name.to_string()));
        }
        assert_eq!("uint1".parse(), Ok(DType::BOOL));
        assert_eq!("int".parse(), Ok(DType::INT32));
        for bad in
            ["float31", "int0", "int65", "intx", "float32x0", "", "quux", "float8", "float8_e5m3"]
        {
            assert_eq!(bad.parse::<DType>(), Err(()), "{bad}");
        }
    }
}
