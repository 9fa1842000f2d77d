//! Messages on a stream: headers, a blank line, and JSON of the announced length.

use std::io::{self, BufRead, Read};

use serde_json::Value;

/// Longer messages are refused.
const LONGEST_MESSAGE: u64 = 1 << 30;

/// Longer lines are no headers.
const LONGEST_HEADER: u64 = 4096;

const LENGTH: &[u8] = b"content-length:";

/// What came in: a message, or why it is none.
pub(super) type Received = Result<Value, String>;

/// Reads up to the end of the next message; `None` at the end of the stream. What stands before
/// its header and is none is an error of its own. **After anything that is no message, the next
/// one is read as if nothing had been.**
///
/// # Errors
/// Those of the stream.
pub(super) fn read(input: &mut dyn BufRead) -> io::Result<Option<Vec<Received>>> {
    let (mut length, mut garbage, mut line) = (None, false, Vec::new());
    let error = || Err("expected a header `Content-Length: N`, found something else".to_string());
    loop {
        line.clear();
        let mut limited = (&mut *input).take(LONGEST_HEADER);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(garbage.then(|| vec![error()]));
        }
        let header = line.trim_ascii().to_ascii_lowercase();
        // It may stand behind the rest of something that was no message.
        let start = header.windows(LENGTH.len()).rposition(|window| window == LENGTH);
        if let Some(start) = start {
            let number = str::from_utf8(&header[start + LENGTH.len()..]).unwrap_or("");
            length = number.trim().parse::<u64>().ok();
            garbage |= start > 0 || length.is_none();
        } else if !header.is_empty() {
            garbage |= !header.starts_with(b"content-type:");
        } else if let Some(length) = length {
            let mut received = Vec::new();
            if garbage {
                received.push(error());
            }
            received.push(body(input, length)?);
            return Ok(Some(received));
        }
    }
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
