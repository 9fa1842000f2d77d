//! The exit statuses of relay-opt.

use std::io;

use super::io::{Io, plain};

/// Success.
pub const OK: i32 = 0;
/// The input has errors.
pub const DIAGNOSTICS: i32 = 1;
/// The command line is wrong.
pub const USAGE: i32 = 2;
/// The compiler has an error.
pub const INTERNAL: i32 = 3;
/// A second Ctrl-C ended the process, as shells have it: 128 + 2.
pub const INTERRUPTED: i32 = 130;

/// The exit status, with all output written.
pub(crate) fn finish(status: io::Result<i32>, io: &mut Io<'_>) -> i32 {
    let flushed = io.stdout.flush().and_then(|()| io.stderr.flush());
    match status.and_then(|status| flushed.map(|()| status)) {
        Ok(status) => status,
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => OK,
        Err(error) => {
            // Standard error may be the stream that is broken; then nobody can be told.
            let _ = writeln!(io.stderr, "error: cannot write the output: {}", plain(&error));
            DIAGNOSTICS
        }
    }
}
