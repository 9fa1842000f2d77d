//! Model files in memory, mapped rather than read.

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;

/// As [`map`], of a regular file: who named it may not be who runs this, and a pipe may never end.
pub(crate) fn map_regular(path: &Path) -> io::Result<Bytes> {
    match std::fs::metadata(path)?.is_file() {
        true => map(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// The bytes of the file at `path`, mapped into memory: what is never looked at is never read, and
/// tensors share the pages.
///
/// The file must not change while the process lives, as for every program that maps files: a page
/// that is cut off ends the process when it is read, and a text that changes while the model is
/// imported may be no text any more.
///
/// # Errors
/// Those of opening and mapping it.
#[allow(unsafe_code)]
pub(crate) fn map(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
    }
    if metadata.len() == 0 || !metadata.is_file() {
        // Nothing to map, or a pipe: read what comes.
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
