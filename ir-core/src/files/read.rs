//! What a run depends on besides the program and the pipeline: files that passes read.
//!
//! A pass reads a file through the [`FilesRead`] of its context, so that whoever keeps what the
//! pass made can tell later whether it still holds.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::fingerprint::{Fingerprint, of_bytes};

/// Bytes of a file, rules or a strategy say, that nobody writes: a device has no end.
const TOO_LARGE: u64 = 1 << 28;

/// Files that were read, as they were then.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct FilesRead {
    /// The contents by path; `None` where there was no file.
    files: IndexMap<String, Option<Fingerprint>, FxBuildHasher>,
    untold: bool,
}

impl FilesRead {
    /// The text of the file at `path`, which counts as read.
    ///
    /// # Errors
    /// It cannot be read, is not UTF-8, or has 256 MiB or more.
    pub fn read(&mut self, path: &str) -> io::Result<String> {
        let mut file = File::open(path).inspect_err(|_| self.note(path, None))?;
        // What comes through a pipe is gone once it was read.
        self.untold |= !file.metadata()?.is_file();
        let mut text = String::new();
        file.by_ref().take(TOO_LARGE).read_to_string(&mut text)?;
        if text.len() as u64 == TOO_LARGE {
            let why = "it is too large: expected less than 256 MiB of text";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        self.note(path, Some(of_bytes([text.as_bytes()])));
        Ok(text)
    }

    /// Whether there is a file at `path`. That there is none counts; a file counts once it is read.
    pub fn is_file(&mut self, path: &str) -> bool {
        let there = Path::new(path).is_file();
        if !there {
            self.note(path, None);
        }
        there
    }

    /// Says that a result depends on more than can be told, such as what another program does.
    pub fn depend_on_more(&mut self) {
        self.untold = true;
    }

    /// Adds what `others` read.
    pub fn extend(&mut self, others: &FilesRead) {
        self.untold |= others.untold;
        for (path, contents) in &others.files {
            self.note(path, *contents);
        }
    }

    /// The files, and what they held; `None` where that does not tell what a result depends on.
    pub fn told(&self) -> Option<impl Iterator<Item = (&str, Option<Fingerprint>)>> {
        (!self.untold).then(|| self.paths().zip(self.files.values().copied()))
    }

    /// The paths of the files, in the order in which they were read first.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    fn note(&mut self, path: &str, contents: Option<Fingerprint>) {
        // A file that changed on the way was read as two things.
        let before = self.files.insert(path.to_string(), contents);
        self.untold |= before.is_some_and(|before| before != contents);
    }
}

/// Files with what they held.
impl FromIterator<(String, Option<Fingerprint>)> for FilesRead {
    fn from_iter<I: IntoIterator<Item = (String, Option<Fingerprint>)>>(files: I) -> FilesRead {
        FilesRead { files: files.into_iter().collect(), untold: false }
    }
}

/// What the file at `path` holds now; `None` where there is none to read.
pub fn contents(path: &str) -> Option<Fingerprint> {
    let is_file = fs::metadata(path).is_ok_and(|facts| facts.is_file());
    is_file.then(|| fs::read(path).ok()).flatten().map(|bytes| of_bytes([&*bytes]))
}
