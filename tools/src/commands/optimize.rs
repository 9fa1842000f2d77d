//! Optimizing, which needs no name of a subcommand.

pub(crate) mod reference;
pub(crate) mod watch;

pub(crate) use crate::driver::session::optimize;
