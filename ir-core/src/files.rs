//! Files: what passes read, what tools write, and folders that nobody else writes.

mod owned;
mod read;

pub use outputs::{OutputFile, write, write_here};
pub use owned::own_folder;
pub use read::{FilesRead, contents};
