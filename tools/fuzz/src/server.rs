//! Sessions of the language server.

use std::path::Path;

use crate::scratch::relay_opt;

/// What opens every session.
const OPENING: [&str; 2] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#,
];

/// Each line of `data` is a message, of the length that it has; the stream ends after the last one.
pub(crate) fn session(data: &[u8]) {
    let mut stream = Vec::new();
    let opening = OPENING.iter().map(|line| line.as_bytes());
    for message in opening.chain(data.split(|&byte| byte == b'\n')) {
        stream.extend(format!("Content-Length: {}\r\n\r\n", message.len()).into_bytes());
        stream.extend(message);
    }
    relay_opt(Path::new(""), &["lsp"], &stream);
}
