//! The parser: what it knows of the module, and of the function that it reads.

use std::sync::Arc;

use ir_core::diagnostics::did_you_mean_with;
use ir_core::text::cursor::Failed;
use ir_core::text::module::cursor::Cursor;
use ir_core::text::module::{Around, ItemReader, Opaque, Read, ReadItem};
use ir_core::text::numbered::Numbered;
use ir_core::{
    AttrDict, BlockId, Body, Diagnostic, Loc, MAX_OPERANDS, OpDef, OpId, Registry, Symbol, Type,
    ValueId,
};
use rustc_hash::FxHashMap;

use super::metadata::{Metadata, Section};
use super::references::{Uses, Words};
use super::types::TypeParams;
use crate::language::FORMS;
use crate::language::operator;

/// Reads one item of a text after the other.
pub(super) struct Parser<'t> {
    /// Where it reads; that of whoever asks for an item, while it reads it.
    pub cursor: Cursor<'t>,
    pub registry: &'t Registry,
    /// The function that is being read.
    pub function: Function,
    /// Type and shape parameters in scope.
    pub type_params: TypeParams,
    /// What the item that is being read refers to.
    pub uses: Uses,
    /// The constructors that are written like something else.
    pub words: Words,
    around: Around<'t>,
    operators: FxHashMap<&'t str, Option<Operator<'t>>>,
    /// The most operands of one operation.
    pub max_operands: usize,
}

/// An operator of the dialect.
#[derive(Clone, Copy)]
pub(super) struct Operator<'t> {
    /// Full name.
    pub name: Symbol,
    pub def: &'t OpDef,
}

/// What a local name stands for.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    Value(ValueId),
    /// The function whose literal is being read: a place in [`Function::recursions`].
    Recursive(usize),
}

/// A local name in scope.
#[derive(Clone, Copy)]
pub(super) struct Local {
    pub meaning: Meaning,
}

/// A graph variable in scope.
#[derive(Clone, Copy)]
pub(super) struct GraphLocal {
    pub value: ValueId,
    /// The block that binds it: its scope.
    pub block: BlockId,
    /// First byte of the binding.
    pub start: u32,
}

/// A function literal that is bound by `let`, so that it may call itself.
pub(super) struct Recursion {
    pub name: Symbol,
    /// The operation, once its parameters have been read.
    pub op: Option<OpId>,
    /// The argument for itself, once it is used.
    pub itself: Option<ValueId>,
}

/// The state of reading one function.
#[derive(Default)]
pub(super) struct Function {
    pub body: Body,
    /// First byte of the item.
    pub base: u32,
    pub locals: FxHashMap<Symbol, Local>,
    /// What names stood for before they were shadowed.
    pub shadowed: Vec<(Symbol, Option<Local>)>,
    pub graph: Numbered<GraphLocal>,
    pub graph_shadowed: Vec<(u32, Option<GraphLocal>)>,
    /// Graph variables whose scope has ended.
    pub graph_closed: FxHashMap<u32, GraphLocal>,
    pub recursions: Vec<Recursion>,
    /// Whether a block besides the entry exists.
    pub nested: bool,
}

impl Function {
    /// The location of byte `start` of the text.
    pub(super) fn loc(&self, start: u32) -> Loc {
        Loc::offset(start.saturating_sub(self.base))
    }

    /// Brings `name` into scope.
    pub(super) fn bind(&mut self, name: Symbol, meaning: Meaning) {
        let before = self.locals.insert(name, Local { meaning });
        self.shadowed.push((name, before));
    }

    /// Ends the scope of all names bound since there were `mark` of them.
    pub(super) fn unbind(&mut self, mark: usize) {
        while self.shadowed.len() > mark
            && let Some((name, before)) = self.shadowed.pop()
        {
            match before {
                Some(local) => self.locals.insert(name, local),
                None => self.locals.remove(&name),
            };
        }
    }

    /// Brings graph variable `number` into scope.
    pub(super) fn bind_graph(&mut self, number: u32, local: GraphLocal) {
        let before = self.graph.insert(number, local);
        // What the outermost block binds stays to the end.
        if local.block != self.body.entry() {
            self.graph_shadowed.push((number, before));
        }
    }

    /// Ends the scope of all graph variables bound since there were `mark` of them.
    pub(super) fn unbind_graph(&mut self, mark: usize) {
        while self.graph_shadowed.len() > mark
            && let Some((number, before)) = self.graph_shadowed.pop()
        {
            let ended = match before {
                Some(local) => self.graph.insert(number, local),
                None => self.graph.remove(number),
            };
            if let Some(ended) = ended {
                self.graph_closed.insert(number, ended);
            }
        }
    }
}

impl<'t> Parser<'t> {
    /// A parser of items of a text with this around it.
    pub(super) fn new(around: Around<'t>) -> Parser<'t> {
        Parser {
            cursor: Cursor::new(around.file, ""),
            registry: around.registry,
            function: Function::default(),
            type_params: TypeParams::default(),
            uses: Uses::default(),
            words: Words::of(around.outlines),
            around,
            operators: FxHashMap::default(),
            max_operands: MAX_OPERANDS,
        }
    }

    /// What `read` reads at `cursor`.
    fn read(
        &mut self,
        cursor: &mut Cursor<'t>,
        read: fn(&mut Parser<'t>, &mut Option<ReadItem>) -> Result<(), Failed>,
    ) -> Read {
        std::mem::swap(&mut self.cursor, cursor);
        let mut item = None;
        let failed = read(self, &mut item).is_err();
        std::mem::swap(&mut self.cursor, cursor);
        let references = Some(Arc::new(std::mem::take(&mut self.uses)) as _);
        Read { item, references, failed }
    }

    /// The metadata section. The error is a message.
    pub(super) fn metadata(&self) -> Result<Arc<Metadata>, String> {
        match self.around.metadata().as_ref().and_then(Opaque::get::<Section>) {
            Some(section) => section.clone(),
            None => Err(super::metadata::NO_METADATA.to_string()),
        }
    }

    /// The operator called `name`, without the prefix of the dialect.
    pub(super) fn operator(&mut self, name: &'t str) -> Option<Operator<'t>> {
        let registry = self.registry;
        *self.operators.entry(name).or_insert_with(|| {
            let full = operator(name);
            let def = registry.def(full).filter(|_| !FORMS.contains(&name))?;
            Some(Operator { name: full, def })
        })
    }

    /// Reports an unknown `name`, written after `sigil`, with the nearest of those `known`.
    pub(super) fn report_unknown(
        &mut self,
        found: Diagnostic,
        sigil: &str,
        name: Symbol,
        known: &[&str],
    ) {
        let help = did_you_mean_with(sigil, name.as_str(), known.iter().copied());
        self.cursor.report(match help {
            Some(help) => found.help(help),
            None => found,
        });
    }

    /// A function type of what a function literal or definition wrote.
    pub(super) fn function_type(names: &[Symbol], params: &[Type], result: Type) -> Type {
        Type::new(ir_core::TypeData::Function(ir_core::FunctionType {
            type_params: names.into(),
            params: params.into(),
            result,
        }))
    }

    /// The attributes of a form of the language.
    pub(super) fn form_attrs(key: &str, value: &impl ir_core::AttrValue) -> AttrDict {
        AttrDict::empty().with(key, value)
    }
}

impl<'t> ItemReader<'t> for Parser<'t> {
    fn item(&mut self, cursor: &mut Cursor<'t>) -> Read {
        self.read(cursor, Parser::item)
    }

    fn outside(&mut self, cursor: &mut Cursor<'t>) -> Option<Read> {
        Some(self.read(cursor, Parser::bare_expression))
    }
}

/// `1 field`, `2 fields`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_operands_are_an_error_in_their_place() {
        let mut registry = Registry::new();
        crate::language::register(&mut registry);
        let text = "def @main(%x: int32) { let %t = (%x, %x, %x); %t.0 }";
        let found = |limit| {
            let mut parser = Parser::new(Around::nothing(&registry));
            parser.max_operands = limit;
            let mut cursor = Cursor::new("test".into(), text);
            ItemReader::item(&mut parser, &mut cursor);
            cursor.take_diagnostics()
        };
        assert!(found(3).is_empty(), "{:?}", found(3));
        let errors = found(2);
        assert_eq!(errors[0].message, "an operation has at most 2 operands");
        let span = errors[0].primary.as_ref().map(|label| label.span);
        let place = span.map(|span| &text[span.start as usize..span.end as usize]);
        assert_eq!(place, Some("(%x, %x, %x)"));
    }
}
