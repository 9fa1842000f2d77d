//! Text: the generic form of every operation of every dialect, the readable form of [modules](module),
//! and what parsers and printers of dialects share: the lexer, a cursor, types, attributes and line
//! layout.

pub mod attributes;
pub mod brief;
pub mod cursor;
pub mod items;
pub mod layout;
pub mod lexer;
pub mod literals;
pub mod locals;
pub mod module;
pub mod numbered;
mod parser;
mod printer;
pub mod types;

pub use attributes::{LargeTensors, PrintOptions};
pub use items::{ItemSyntax, ParsedItem};
pub use module::{Form, Style, item_text};
pub use parser::parse;
pub use printer::{print, print_item, print_with};
