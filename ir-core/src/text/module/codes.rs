//! The diagnostic codes of readable text.

/// The text does not follow the grammar.
pub const SYNTAX: &str = "E0201";
/// Characters that form no token.
pub const TOKEN: &str = "E0202";
/// Reading stopped after too many errors.
pub const TOO_MANY: &str = "E0218";
