//! What readable texts of modules are read with: the place of reading, and the pieces of a text.

pub mod codes;
pub mod cursor;
pub mod pieces;
