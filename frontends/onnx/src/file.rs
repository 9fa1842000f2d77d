//! Model files in memory, mapped rather than read.

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;

/// The bytes of the file at `path`, mapped into memory: what is never looked at is never read, and
/// tensors share the pages.
///
/// The file must not change while the process lives, as for every program that maps files: a page
/// that is cut off ends the process when it is read, and a text that changes while the model is
/// imported may be no text any more.
///
/// # Errors
/// Those of opening and mapping it, and where it is no regular file: a pipe may never end.
#[allow(unsafe_code)]
pub(crate) fn map(path: &Path) -> io::Result<Bytes> {
    // To open a pipe waits for who writes to it.
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let file = File::open(path)?;
    if metadata.len() == 0 {
        // Nothing to map; some files of the system have contents nevertheless.
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut { file }, &mut bytes)?;
        return Ok(Bytes::from(bytes));
    }
    // SAFETY: the mapping is private and read-only, so nothing in this process can write to the
    // bytes behind the shared slices, and `Bytes` owns the mapping, so no slice outlives it. What
    // is left is that another process writes to the file; that it does not is the condition that
    // the documentation states. It cannot be checked, and no program that maps files does better.
    let mapping = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file)? };
    Ok(Bytes::from_owner(mapping))
}
