//! The command-line tools, as functions that tests call in process.
