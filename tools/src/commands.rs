//! The subcommands, each of which knows no other one.

pub(crate) mod bench;
pub(crate) mod bisect;
pub(crate) mod calibrate;
pub(crate) mod compile;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod debug;
pub(crate) mod egraph;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod lsp;
pub(crate) mod man;
pub(crate) mod optimize;
pub(crate) mod plugin;
pub(crate) mod reduce;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod train;
pub(crate) mod view;
