//! FileCheck.

use std::collections::BTreeMap;

use lit_runner::filecheck::FileCheck;
use lit_runner::lit::{Command, Io};

use crate::scratch::with_files;

/// Checks, a line `// -----`, and what is checked.
pub(crate) fn checks(data: &[u8]) {
    const SEPARATOR: &[u8] = b"\n// -----\n";
    let at = data.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
    let (checks, input) = match at {
        Some(at) => (&data[..at], &data[at + SEPARATOR.len()..]),
        None => (data, &b""[..]),
    };
    with_files(&[("checks", checks)], |folder| {
        let mut io = Io::new(input.to_vec(), folder.to_path_buf(), BTreeMap::new());
        let status = FileCheck.run(&["checks".to_string()], &mut io);
        assert!((0..=2).contains(&status), "FileCheck ends with status {status}");
    });
}
