//! Asking about a text while it is edited.

// ANCHOR: database
use std::ops::Range;
use std::sync::Arc;

use analysis::{Checks, Database};
use ir_core::{Diagnostics, Registry};
use passes::incremental::Relay;

/// What is wrong with a text, and what is when the bytes `range` of it have become `tanh`; nothing
/// where it was edited while that was looked for.
pub fn edited(
    text: &str,
    range: Range<usize>,
    registry: Registry,
) -> (Diagnostics, Option<Diagnostics>) {
    let mut database = Database::new("model.relay", Arc::new(Relay::new(registry)));
    database.set_text(text);
    let before = database.diagnostics(Checks::Everything);

    database.edit(range, "tanh");
    // For another thread.
    let now = database.snapshot();
    (before, now.attempt(|now| now.diagnostics(Checks::Everything)))
}
// ANCHOR_END: database
