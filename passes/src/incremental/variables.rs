//! Which variable each `%name` of a text stands for, told from its tokens alone, so that texts
//! with errors have an answer as well.
//!
//! A value is in scope from the end of its binding to the end of the block around it, and in its
//! own binding where that is a function; parameters in the body behind them, variables of a pattern
//! in their arm.

use std::ops::Range;

use analysis::{Binder, Variable};
use ir_core::text::lexer::{Lexer, Token, TokenKind};
use rustc_hash::FxHashMap;

/// The variables of `piece`, in the order in which they are bound. Linear in the piece.
pub(super) fn variables(piece: &str) -> Vec<Variable> {
    let mut reader = Reader {
        piece,
        frames: vec![Frame::new(Role::Block, TokenKind::End)],
        variables: Vec::new(),
        visible: Vec::new(),
        by_name: FxHashMap::default(),
        pattern: None,
    };
    let mut tokens = Lexer::new(piece).peekable();
    let mut before = TokenKind::Semicolon;
    let mut word = "";
    while let Some(token) = tokens.next() {
        reader.token(token, before, word, tokens.peek().copied());
        before = token.kind;
        word = match token.kind {
            TokenKind::Identifier | TokenKind::PartialMatch => token.text(piece),
            _ => "",
        };
    }
    while let Some(frame) = reader.frames.pop() {
        reader.leave(frame, piece.len());
    }
    reader.variables
}

/// What stands in brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Group,
    Parameters,
    Block,
    /// The arms of a match.
    Arms,
}

/// Open brackets.
struct Frame {
    role: Role,
    close: TokenKind,
    /// How many variables are in scope around it.
    around: usize,
    /// Variables whose scope has yet to start: parameters, or those of a pattern.
    waiting: Vec<usize>,
    /// The binding that is being read.
    binding: Option<usize>,
    /// Whether a list of parameters comes, after `def` or `fn`.
    parameters: bool,
    /// Whether the arms of a match come.
    arms: bool,
}

impl Frame {
    fn new(role: Role, close: TokenKind) -> Frame {
        let (waiting, binding) = (Vec::new(), None);
        Frame { role, close, around: 0, waiting, binding, parameters: false, arms: false }
    }
}

struct Reader<'t> {
    piece: &'t str,
    /// At least one.
    frames: Vec<Frame>,
    variables: Vec<Variable>,
    /// The variables in scope, innermost last.
    visible: Vec<usize>,
    by_name: FxHashMap<&'t str, Vec<usize>>,
    /// The frame of the arms in whose pattern this is.
    pattern: Option<usize>,
}

impl<'t> Reader<'t> {
    /// Reads `token`, which comes after a token of kind `before`, the word `word` where it was one.
    fn token(&mut self, token: Token, before: TokenKind, word: &str, next: Option<Token>) {
        let Some(frame) = self.frames.last_mut() else { return };
        match token.kind {
            TokenKind::Identifier => match token.text(self.piece) {
                "fn" | "def" => frame.parameters = true,
                "match" => frame.arms = true,
                _ => {}
            },
            TokenKind::PartialMatch => frame.arms = true,
            TokenKind::LeftParen => {
                let parameters = std::mem::take(&mut frame.parameters);
                let role = if parameters { Role::Parameters } else { Role::Group };
                self.enter(role, TokenKind::RightParen);
            }
            TokenKind::LeftBracket => self.enter(Role::Group, TokenKind::RightBracket),
            TokenKind::LeftBrace => {
                // After the word itself comes what is matched.
                let arms = frame.arms && !matches!(word, "match" | "match?");
                frame.arms &= !arms;
                let parameters = std::mem::take(&mut frame.waiting);
                self.enter(if arms { Role::Arms } else { Role::Block }, TokenKind::RightBrace);
                for parameter in parameters {
                    self.show(parameter, token.end as usize);
                }
                if arms {
                    self.pattern = self.frames.len().checked_sub(1);
                }
            }
            TokenKind::RightParen | TokenKind::RightBracket | TokenKind::RightBrace => {
                self.close(token);
            }
            TokenKind::Comma if frame.role == Role::Arms => {
                let around = frame.around;
                frame.waiting.clear();
                self.hide(around, token.start as usize);
                self.pattern = self.frames.len().checked_sub(1);
            }
            TokenKind::FatArrow if frame.role == Role::Arms => {
                let bound = std::mem::take(&mut frame.waiting);
                self.pattern = None;
                for variable in bound {
                    self.show(variable, token.end as usize);
                }
            }
            TokenKind::Equal => {
                if let Some(binding) = frame.binding
                    && let Some(variable) = self.variables.get_mut(binding)
                    && variable.value.is_none()
                {
                    let start = next.map_or(token.end, |next| next.start) as usize;
                    variable.value = Some(start..start);
                    // A function may call itself.
                    if next.is_some_and(|next| next.is_word(self.piece, "fn")) {
                        self.show(binding, start);
                    }
                }
            }
            TokenKind::Semicolon => self.finish(token.start as usize),
            TokenKind::Local | TokenKind::Graph => self.name(token, before, word, next),
            _ => {}
        }
    }

    /// Reads the name of a variable: a binding or a use.
    fn name(&mut self, token: Token, before: TokenKind, word: &str, next: Option<Token>) {
        let range = token.start as usize..token.end as usize;
        let next = next.map(|next| next.kind);
        let typed = next == Some(TokenKind::Colon);
        let Some(frame) = self.frames.last() else { return };
        let starts = matches!(before, TokenKind::LeftParen | TokenKind::Comma);
        if matches!(word, "let" | "free_var") || next == Some(TokenKind::Equal) {
            self.finish(range.start);
            let binder = match word {
                "let" => Binder::Let,
                "free_var" => Binder::Parameter,
                _ => Binder::Graph,
            };
            let variable = self.bind(range, binder, typed);
            if let Some(frame) = self.frames.last_mut() {
                frame.binding = Some(variable);
            }
        } else if frame.role == Role::Parameters && starts {
            let typed = typed || next == Some(TokenKind::LeftBrace);
            let variable = self.bind(range, Binder::Parameter, typed);
            if let Some(frame) = self.frames.last_mut() {
                frame.waiting.push(variable);
            }
        } else if let Some(arms) = self.pattern {
            let variable = self.bind(range, Binder::Pattern, typed);
            if let Some(frame) = self.frames.get_mut(arms) {
                frame.waiting.push(variable);
            }
        } else if let Some(name) = self.piece.get(range.clone())
            && let Some(variable) = self.by_name.get(name).and_then(|found| found.last())
            && let Some(variable) = self.variables.get_mut(*variable)
        {
            variable.uses.push(range);
        }
    }

    fn bind(&mut self, name: Range<usize>, binder: Binder, typed: bool) -> usize {
        let scope = name.end..name.end;
        self.variables.push(Variable { name, binder, typed, value: None, scope, uses: vec![] });
        self.variables.len() - 1
    }

    /// Starts the scope of `variable`.
    fn show(&mut self, variable: usize, start: usize) {
        let Some(found) = self.variables.get_mut(variable) else { return };
        let Some(name) = self.piece.get(found.name.clone()) else { return };
        found.scope = start..start;
        self.by_name.entry(name).or_default().push(variable);
        self.visible.push(variable);
    }

    /// Ends all scopes but the `around` outermost.
    fn hide(&mut self, around: usize, end: usize) {
        for variable in self.visible.drain(around.min(self.visible.len())..).rev() {
            let Some(found) = self.variables.get_mut(variable) else { continue };
            found.scope.end = end;
            if let Some(shown) =
                self.piece.get(found.name.clone()).and_then(|name| self.by_name.get_mut(name))
            {
                shown.pop();
            }
        }
    }

    /// Ends the binding that is being read.
    fn finish(&mut self, end: usize) {
        let binding = self.frames.last_mut().and_then(|frame| frame.binding.take());
        let Some(binding) = binding else { return };
        let Some(variable) = self.variables.get_mut(binding) else { return };
        if let Some(value) = &mut variable.value {
            value.end = end.max(value.start);
        }
        let is_shown = self.visible.last() == Some(&binding);
        if !is_shown {
            self.show(binding, end);
        }
    }

    fn enter(&mut self, role: Role, close: TokenKind) {
        let frame = Frame { around: self.visible.len(), ..Frame::new(role, close) };
        self.frames.push(frame);
    }

    /// Reads a closing bracket. What was opened inside and not closed ends with it; one that closes
    /// nothing is passed over.
    fn close(&mut self, token: Token) {
        let opened = self.frames.iter().rposition(|frame| frame.close == token.kind);
        let Some(opened) = opened else { return };
        while self.frames.len() > opened {
            let Some(frame) = self.frames.pop() else { return };
            let (parameters, is_it) = (frame.role == Role::Parameters, self.frames.len() == opened);
            let waiting = self.leave(frame, token.start as usize);
            if parameters
                && is_it
                && let Some(around) = self.frames.last_mut()
            {
                around.waiting = waiting;
            }
        }
    }

    /// Ends what `frame`, which is no longer open, has in scope. Returns what waits in it.
    fn leave(&mut self, mut frame: Frame, end: usize) -> Vec<usize> {
        let (around, waiting) = (frame.around, std::mem::take(&mut frame.waiting));
        if self.pattern.is_some_and(|pattern| pattern >= self.frames.len()) {
            self.pattern = None;
        }
        self.frames.push(frame);
        self.finish(end);
        self.frames.pop();
        self.hide(around, end);
        waiting
    }
}
