//! Text: the lexer of both text forms.

pub mod lexer;
