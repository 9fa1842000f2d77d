//! The test tools of the project: a [`lit`] runner and a [`filecheck`] engine, both in one process
//! and both usable alone, as `relay-lit` and `relay-filecheck` of the crate `tools`. They know no
//! compiler: what a test runs is a table of commands.
//!
//! ```
//! use lit_runner::filecheck::{Options, check};
//!
//! let directives = "CHECK: [[NAME:[a-z]+]] = 1\nCHECK-NEXT: use [[NAME]]\n";
//! let input = "x = 1\nuse x\n";
//! let report = check(("checks", directives), ("input", input), &Options::default());
//! assert_eq!(report.map(|report| report.matches), Ok(2));
//! ```

pub mod filecheck;
pub mod lit;
