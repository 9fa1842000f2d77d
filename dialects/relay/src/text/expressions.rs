//! Expressions, read straight into operations.
//!
//! One loop reads all expressions of a function. What waits for a value stands on a stack of
//! [`Frame`]s, so nesting costs no native stack. An operation is inserted at the end of the current
//! block as soon as its operands are known; order in a block is the order of the text.

mod calls;
mod emit;
mod operators;
mod recovery;
mod resume;
mod statements;
mod values;

use ir_core::text::lexer::Token;
use ir_core::{BlockId, OpId, Symbol, Type, ValueId};

use super::parser::{Operator, Parser};
use crate::language::Pattern;
use ir_core::text::cursor::Failed;

pub(super) use emit::constructor_as_value;

/// The deepest nesting of expressions.
const MAX_DEPTH: usize = 1_000_000;

/// What waits for a value.
pub(super) enum Frame<'t> {
    /// Statements, then the value of the sequence.
    Sequence(Sequence),
    /// `let %name: annotation =`, up to `;`.
    Let { name: Symbol, annotation: Type, start: u32 },
    /// `%number =`, up to `;`.
    Graph { number: u32, start: u32 },
    /// `left op`.
    Binary { operator: &'static str, precedence: u8, left: ValueId, start: u32 },
    /// `-`.
    Negate { start: u32 },
    /// A call; its arguments so far are the values from `first` on.
    Call { callee: Callee<'t>, first: usize, start: Token },
    /// `(`; the fields so far are the values from `first` on.
    Paren { first: usize, comma: bool, start: u32 },
    /// `{` where a value may stand.
    Braces,
    /// `if (`; where it starts, and where its condition does.
    Condition { start: u32, condition: u32 },
    /// A branch of `if`.
    Branch { op: OpId, second: bool, scope: Scope },
    /// The body of a function literal.
    Literal { op: OpId, recursion: Option<u32>, type_params: usize, scope: Scope },
    /// `match`, before its clauses.
    Data { complete: bool, start: u32 },
    /// A clause of `match`.
    Clause { op: OpId, patterns: Vec<Pattern>, scope: Scope },
    /// `ref(` and `ref_read(`.
    Reference { read: bool, start: u32 },
    /// `ref_write(`, with the reference once it is known.
    Write { reference: Option<ValueId>, start: u32 },
}

/// Where statements go, and what ends with them.
#[derive(Clone, Copy)]
pub(super) struct Sequence {
    /// Whether `;` after an expression goes on, and a bracket ends the sequence.
    bracketed: bool,
    block: BlockId,
    locals: usize,
    /// Open brackets and waiting values at its start.
    depth: usize,
    values: usize,
}

/// What a block of its own replaced.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    block: BlockId,
    locals: usize,
    graph: usize,
}

/// What a call calls.
pub(super) enum Callee<'t> {
    Operator(Operator<'t>),
    /// A constructor, or a word that is unknown so far.
    Word(Symbol),
    Value(ValueId),
    /// A value with type arguments.
    Applied(ValueId, Box<[Type]>),
}

/// What to do next.
enum Next {
    /// Read a statement or the value of the innermost sequence.
    Statement,
    /// Read a value that may begin with bindings.
    Expression,
    /// Read a value.
    Operand,
    /// A value has been read; calls, projections and operators may follow.
    Value(ValueId, u32),
    /// A value is complete.
    Complete(ValueId),
}

/// The machine that reads the body of one function.
struct Machine<'p, 't> {
    parser: &'p mut Parser<'t>,
    frames: Vec<Frame<'t>>,
    values: Vec<ValueId>,
    /// The block that operations are added to.
    block: BlockId,
    /// Whether the body of the function ends with a brace.
    braced: bool,
}

impl Parser<'_> {
    /// The statements and the value of a function body, up to its closing brace where it is
    /// `braced`, with the yield of the value. Errors when the end of the body was not found.
    pub(super) fn function_body(&mut self, braced: bool) -> Result<(), Failed> {
        let block = self.function.body.entry();
        let (frames, values) = (Vec::new(), Vec::new());
        let mut machine = Machine { parser: self, frames, values, block, braced };
        let value = machine.run()?;
        machine.finish_block(value);
        Ok(())
    }
}

impl Machine<'_, '_> {
    fn run(&mut self) -> Result<ValueId, Failed> {
        self.begin_sequence(true);
        let mut next = Next::Statement;
        loop {
            let step = match next {
                Next::Statement => self.statement(),
                Next::Expression => {
                    if self.at_binding() {
                        self.begin_sequence(false);
                        self.statement()
                    } else {
                        self.operand()
                    }
                }
                Next::Operand => self.operand(),
                Next::Value(value, start) => self.after_value(value, start),
                Next::Complete(value) => match self.frames.pop() {
                    Some(frame) => self.resume(frame, value),
                    None => return Ok(value),
                },
            };
            next = match step {
                Ok(_) if self.frames.len() > MAX_DEPTH => return Err(self.too_deep()),
                Ok(next) => next,
                Err(Failed) => self.recover()?,
            };
        }
    }
}
