//! The protobuf wire format: tags, varints and lengths, read in place.
//!
//! A [`Reader`] walks the fields of one message and never looks past its end. Nested messages are
//! not entered until someone asks for them, so reading needs no recursion, and what is skipped
//! costs nothing.
//!
//! Not a general protobuf library: those decode into owned messages, so that a file of 2 GB of
//! weights is in memory twice; they forget where in the file a field stood, which every error of
//! the importer says; and they recurse into nested messages, so that they refuse subgraphs deeper
//! than a fixed limit.

use std::fmt;
use std::ops::Range;

/// Why bytes are not a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WireError {
    /// Place of the first byte that is wrong, from the start of the file.
    pub offset: usize,
    /// What was expected and found.
    pub message: String,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)
    }
}

impl std::error::Error for WireError {}

impl WireError {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> WireError {
        WireError { offset, message: message.into() }
    }
}

/// The payload of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wire {
    /// An integer of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64([u8; 8]),
    /// A string, message, or packed list: its place in the file.
    Bytes(Range<usize>),
    /// Four bytes.
    Fixed32([u8; 4]),
}

/// A field of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    /// Which field of the message's declaration.
    pub number: u64,
    /// Place of its tag in the file.
    pub offset: usize,
    /// Its payload.
    pub wire: Wire,
}

/// Walks the fields of the message that stands at a range of a file.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

/// The wire types of groups, which ONNX does not use.
const GROUP_START: u64 = 3;
const GROUP_END: u64 = 4;

impl<'a> Reader<'a> {
    /// A reader of the message at `range` of `file`, cut to the file.
    pub(crate) fn new(file: &'a [u8], range: Range<usize>) -> Reader<'a> {
        let end = range.end.min(file.len());
        Reader { file, at: range.start.min(end), end }
    }

    /// The next field; `None` at the end of the message. Groups are skipped.
    ///
    /// # Errors
    /// Where the bytes are no field, or the field ends after its message.
    pub(crate) fn field(&mut self) -> Result<Option<Field>, WireError> {
        // Groups that are open, and where the outermost begins.
        let (mut depth, mut outermost) = (0u32, self.at);
        while self.at < self.end {
            let offset = self.at;
            let tag = self.varint()?;
            let (number, kind) = (tag >> 3, tag & 7);
            if number == 0 {
                return Err(WireError::new(offset, "expected a field, found the number 0"));
            }
            let wire = match kind {
                0 => Wire::Varint(self.varint()?),
                1 => Wire::Fixed64(self.fixed()?),
                2 => Wire::Bytes(self.sized()?),
                GROUP_START => {
                    if depth == 0 {
                        outermost = offset;
                    }
                    depth += 1;
                    continue;
                }
                GROUP_END if depth > 0 => {
                    depth -= 1;
                    continue;
                }
                5 => Wire::Fixed32(self.fixed()?),
                _ => {
                    let message = format!("expected a wire type from 0 to 5, found {kind}");
                    return Err(WireError::new(offset, message));
                }
            };
            if depth == 0 {
                return Ok(Some(Field { number, offset, wire }));
            }
        }
        match depth {
            0 => Ok(None),
            _ => Err(WireError::new(outermost, "expected the end of a group")),
        }
    }

    /// An integer of variable length, at most ten bytes.
    ///
    /// # Errors
    /// Where it does not end in time.
    pub(crate) fn varint(&mut self) -> Result<u64, WireError> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let Some(&byte) = self.file[..self.end].get(self.at) else {
                return Err(WireError::new(start, "expected a number, found the end"));
            };
            self.at += 1;
            // The tenth byte holds one bit; more are dropped, as the format says.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::new(start, "expected a number of at most ten bytes"))
    }

    /// `N` bytes.
    ///
    /// # Errors
    /// Where the message ends before.
    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        match self.file[self.at..self.end].first_chunk() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(WireError::new(self.at, format!("expected {N} bytes, found the end"))),
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    fn sized(&mut self) -> Result<Range<usize>, WireError> {
        let start = self.at;
        let length = self.varint()?;
        let left = self.end - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                let range = self.at..self.at + length;
                self.at = range.end;
                Ok(range)
            }
            _ => Err(WireError::new(start, format!("expected {length} bytes, found {left}"))),
        }
    }
}

impl Field {
    /// The payload as an integer.
    ///
    /// # Errors
    /// Where it is none.
    pub(crate) fn int(&self) -> Result<i64, WireError> {
        match self.wire {
            Wire::Varint(value) => Ok(value as i64),
            _ => Err(self.wrong("an integer")),
        }
    }

    /// The payload as a `float`.
    ///
    /// # Errors
    /// Where it is none.
    pub(crate) fn float(&self) -> Result<f32, WireError> {
        match self.wire {
            Wire::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.wrong("a float")),
        }
    }

    /// The place of the payload, a string or message.
    ///
    /// # Errors
    /// Where it is none.
    pub(crate) fn range(&self) -> Result<Range<usize>, WireError> {
        match &self.wire {
            Wire::Bytes(range) => Ok(range.clone()),
            _ => Err(self.wrong("bytes")),
        }
    }

    /// The payload as a text of `file`.
    ///
    /// # Errors
    /// Where it is none.
    pub(crate) fn text<'a>(&self, file: &'a [u8]) -> Result<&'a str, WireError> {
        let range = self.range()?;
        let start = range.start;
        std::str::from_utf8(&file[range])
            .map_err(|error| WireError::new(start + error.valid_up_to(), "expected text in UTF-8"))
    }

    /// Adds the integers of the payload, one or a packed list, to `out`.
    ///
    /// # Errors
    /// Where it holds something else.
    pub(crate) fn ints(&self, file: &[u8], out: &mut Vec<i64>) -> Result<(), WireError> {
        match &self.wire {
            Wire::Varint(value) => out.push(*value as i64),
            Wire::Bytes(range) => {
                let mut reader = Reader::new(file, range.clone());
                while !reader.is_at_end() {
                    out.push(reader.varint()? as i64);
                }
            }
            _ => return Err(self.wrong("integers")),
        }
        Ok(())
    }

    /// Adds the `float`s of the payload, one or a packed list, to `out`.
    ///
    /// # Errors
    /// Where it holds something else.
    pub(crate) fn floats(&self, file: &[u8], out: &mut Vec<f32>) -> Result<(), WireError> {
        match &self.wire {
            Wire::Fixed32(bytes) => out.push(f32::from_le_bytes(*bytes)),
            Wire::Bytes(range) => {
                let mut reader = Reader::new(file, range.clone());
                while !reader.is_at_end() {
                    out.push(f32::from_le_bytes(reader.fixed()?));
                }
            }
            _ => return Err(self.wrong("floats")),
        }
        Ok(())
    }

    pub(crate) fn wrong(&self, expected: &str) -> WireError {
        let found = match self.wire {
            Wire::Varint(_) => "an integer",
            Wire::Fixed64(_) => "8 bytes",
            Wire::Bytes(_) => "bytes with a length",
            Wire::Fixed32(_) => "4 bytes",
        };
        let message = format!("expected {expected} in field {}, found {found}", self.number);
        WireError::new(self.offset, message)
    }
}

/// Writes the fields of a message.
#[derive(Clone, Default, Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A further field, an integer.
    pub(crate) fn int(mut self, number: u64, value: i64) -> Writer {
        self.varint(number << 3);
        self.varint(value as u64);
        self
    }

    /// A further field, a string or a message.
    pub(crate) fn bytes(mut self, number: u64, value: &[u8]) -> Writer {
        self.varint(number << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// The bytes of the message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<Field>, WireError> {
        let mut reader = Reader::new(bytes, 0..bytes.len());
        let mut fields = Vec::new();
        while let Some(field) = reader.field()? {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn fields_of_all_wire_types_are_read() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x1d, 0, 0, 0x80, 0x3f, // 3: 1.0
            0x21, 1, 2, 3, 4, 5, 6, 7, 8, // 4: eight bytes
        ];
        let fields = fields(&bytes).unwrap();
        assert_eq!(fields[0].int(), Ok(150));
        assert_eq!(fields[1].text(&bytes), Ok("hi"));
        assert_eq!(fields[2].float(), Ok(1.0));
        assert_eq!(fields[3].wire, Wire::Fixed64([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(fields[3].offset, 12);
        let error = fields[0].text(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "expected bytes in field 1, found an integer at byte 0");
    }

    #[test]
    fn groups_are_skipped() {
        // Group 5 with a field and group 6 inside, then field 1.
        let bytes = [0x2b, 0x10, 0x07, 0x33, 0x34, 0x2c, 0x08, 0x01];
        let fields = fields(&bytes).unwrap();
        assert_eq!(fields.len(), 1);
        assert_eq!((fields[0].number, fields[0].int()), (1, Ok(1)));
    }

    #[test]
    fn damage_is_an_error_with_a_place() {
        let error = |bytes: &[u8]| fields(bytes).unwrap_err().to_string();
        assert_eq!(error(&[0x08]), "expected a number, found the end at byte 1");
        assert_eq!(error(&[0x12, 0x05, b'h']), "expected 5 bytes, found 1 at byte 1");
        assert_eq!(
            error(&[0x08, 0x01, 0x0f]),
            "expected a wire type from 0 to 5, found 7 at byte 2"
        );
        assert_eq!(error(&[0x00]), "expected a field, found the number 0 at byte 0");
        assert_eq!(error(&[0x2b, 0x10, 0x07]), "expected the end of a group at byte 0");
        assert_eq!(error(&[0x2c]), "expected a wire type from 0 to 5, found 4 at byte 0");
        assert_eq!(error(&[0x0d, 1, 2]), "expected 4 bytes, found the end at byte 1");
        assert_eq!(error(&[0xff; 11]), "expected a number of at most ten bytes at byte 0");
    }

    #[test]
    fn negative_and_packed_integers_are_read() {
        let mut bytes = vec![0x08];
        bytes.extend([0xff; 9]);
        bytes.push(0x01);
        bytes.extend([0x0a, 0x03, 0x01, 0x80, 0x01]);
        let mut values = Vec::new();
        for field in fields(&bytes).unwrap() {
            field.ints(&bytes, &mut values).unwrap();
        }
        assert_eq!(values, [-1, 1, 128]);
    }
}
