//! Messages on a stream: headers, a blank line, and JSON of the announced length.
//!
//! The crate `lsp-server` reads them as well, but ends the session at the first one that is
//! malformed, where this goes on and says what was wrong.

use std::io::{self, BufRead, Read};

use serde_json::Value;

/// Longer messages are refused.
const LONGEST_MESSAGE: u64 = 1 << 30;

/// Longer lines are no headers.
const LONGEST_HEADER: u64 = 4096;

const LENGTH: &[u8] = b"content-length:";

/// What came in: a message, or why it is none.
pub(super) type Received = Result<Value, String>;

/// The messages of a stream. **After anything that is no message, the next one is read as if
/// nothing had been**, and the fault is told as soon as it is known: nobody waits for the message
/// behind it.
pub(super) struct Messages<'a> {
    input: &'a mut dyn BufRead,
    /// The length of a message whose header was read, while what stood before it is told.
    announced: Option<u64>,
    /// Something that was no header was told, and no header came since: what is left of it says no
    /// more.
    lost: bool,
}

impl<'a> Messages<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead) -> Messages<'a> {
        Messages { input, announced: None, lost: false }
    }

    /// The next message, or what stands in its place; `None` at the end of the stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) fn next(&mut self) -> io::Result<Option<Received>> {
        if let Some(length) = self.announced.take() {
            return body(self.input, length).map(Some);
        }
        let (mut length, mut garbage, mut line) = (None, false, Vec::new());
        loop {
            line.clear();
            let mut limited = (&mut *self.input).take(LONGEST_HEADER);
            if limited.read_until(b'\n', &mut line)? == 0 {
                return Ok((garbage && !self.lost).then(no_header));
            }
            let header = line.trim_ascii().to_ascii_lowercase();
            // It may stand behind the rest of something that was no message.
            let start = header.windows(LENGTH.len()).rposition(|window| window == LENGTH);
            if let Some(start) = start {
                let number = str::from_utf8(&header[start + LENGTH.len()..]).unwrap_or("");
                length = number.trim().parse::<u64>().ok();
                garbage |= start > 0 || length.is_none();
                // A new header, whatever was told of what stands before it.
                self.lost &= length.is_some();
            } else if !header.is_empty() {
                garbage |= !header.starts_with(b"content-type:");
            } else {
                let told = std::mem::replace(&mut self.lost, garbage && length.is_none());
                match length {
                    Some(length) if !garbage || told => return body(self.input, length).map(Some),
                    Some(length) => {
                        self.announced = Some(length);
                        return Ok(Some(no_header()));
                    }
                    None if garbage && !told => return Ok(Some(no_header())),
                    None => self.lost = told,
                }
            }
        }
    }
}

fn no_header() -> Received {
    Err("expected a header `Content-Length: N`, found something else".to_string())
}

/// Reads a message of `length` bytes.
fn body(input: &mut dyn BufRead, length: u64) -> io::Result<Received> {
    let mut input = input.take(length);
    if length > LONGEST_MESSAGE {
        io::copy(&mut input, &mut io::sink())?;
        return Ok(Err(format!("a message of {length} bytes is too long")));
    }
    // Memory grows with what arrives, not with what is announced.
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes).map_err(|error| format!("the message is no JSON: {error}")))
}

/// `message` as it goes over the stream.
pub(super) fn frame(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    let mut framed = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    framed.extend(body.into_bytes());
    framed
}
