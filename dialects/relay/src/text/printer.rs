//! The printer: one line for each operation, streamed.
//!
//! What is still to be printed stands on a stack, so nesting costs no native stack. A first walk
//! over a function gives every value its name or number, since a function literal is numbered after
//! what is inside it.

use std::fmt::Write as _;
use std::io::{self, Write};

use ir_core::text::lexer::quote_into;
use ir_core::text::literals::scalar_text;
use ir_core::text::module::{ItemPrinter, Style};
use ir_core::{
    Attr, AttrData, AttrDict, AttrValue, Binding, BlockId, Body, DType, EntityId, Item, Loc,
    Module, OpId, Registry, Signature, Span, Symbol, TensorData, Type, ValueId,
};
use rustc_hash::FxHashMap;

use super::declarations::{EXTERNAL_TEXT, PARAMETER_ATTRIBUTES, parameter_attributes};
use super::literals::float_attr_text;
use super::metadata::{KIND, MetadataWriter};
use super::names::{Names, write_name, write_word};
use super::sinking::covering_block;
use crate::language::FORMS;
use crate::language::{AdtDecl, FUNC, Pattern, TYPE, fn_params, fn_self};

/// A value that is printed in place of the end of its block.
const TAIL: u32 = u32::MAX;

/// Lines are indented by at most this many levels.
const MAX_INDENT: usize = 50;

/// What is still to be printed, last first.
enum Task {
    /// This operation and those after it in its block.
    Operations(OpId, usize),
    /// What comes after the regions of an operation.
    Finish(OpId, usize),
    /// Between the branches of an `if`.
    Else(usize),
    /// Clause `.1` of a `match`.
    Clause(OpId, usize, usize),
    /// After a clause.
    ClauseEnd(usize),
}

/// Names of the forms, interned once.
struct Forms {
    constant: Symbol,
    global: Symbol,
    operator: Symbol,
    constructor: Symbol,
    r#yield: Symbol,
}

/// How an operation is written.
#[derive(Clone, Copy)]
struct Spelling {
    /// Without the prefix of the dialect.
    name: &'static str,
    /// Whether it is a form of the language.
    form: bool,
}

/// Prints one item after the other.
pub(super) struct Printer<'a> {
    module: &'a Module,
    registry: &'a Registry,
    style: Style,
    /// What is printed and not written yet.
    text: String,
    metadata: MetadataWriter,
    /// The number of the next graph binding; goes on through the module.
    next: u32,
    /// Place of the first byte of each line, by file.
    lines: FxHashMap<Symbol, Vec<u32>>,
    types: FxHashMap<Type, Box<str>>,
    spellings: FxHashMap<Symbol, Spelling>,
    forms: Forms,
}

/// A function while it is printed.
struct Function<'a> {
    body: &'a Body,
    signature: &'a Signature,
    /// By value: 0, one more than the number of its graph binding, or [`TAIL`].
    numbers: Vec<u32>,
    names: Names,
}

impl ItemPrinter for Printer<'_> {
    fn item(&mut self, name: Symbol, item: &Item, out: &mut dyn Write) -> io::Result<()> {
        match item.signature.op.as_str() {
            TYPE => self.declaration(name, item),
            FUNC => self.definition(name, item, out)?,
            _ => self.external(name, item),
        }
        self.flush(out)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.metadata.write(out)
    }
}

impl<'a> Printer<'a> {
    /// A printer of items of `module`.
    pub(super) fn new(module: &'a Module, registry: &'a Registry, style: Style) -> Printer<'a> {
        let forms = Forms {
            constant: Symbol::new("relay.constant"),
            global: Symbol::new("relay.global"),
            operator: Symbol::new("relay.operator"),
            constructor: Symbol::new("relay.constructor"),
            r#yield: Symbol::new("relay.yield"),
        };
        Printer {
            module,
            registry,
            style,
            text: String::new(),
            metadata: MetadataWriter::default(),
            next: 0,
            lines: FxHashMap::default(),
            types: FxHashMap::default(),
            spellings: FxHashMap::default(),
            forms,
        }
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    // ---- items -----------------------------------------------------------------------------

    fn declaration(&mut self, name: Symbol, item: &Item) {
        let Some(declaration) = AdtDecl::from_attrs(item.signature.attrs) else { return };
        if declaration.is_extern {
            self.text.push_str("extern ");
        }
        self.text.push_str("type ");
        write_word(&mut self.text, name.as_str());
        self.type_params(&declaration.params);
        if declaration.is_extern && declaration.constructors.is_empty() {
            self.text.push('\n');
            return;
        }
        self.text.push_str(" {\n");
        for constructor in &declaration.constructors {
            self.text.push_str("  ");
            write_word(&mut self.text, constructor.name.as_str());
            if !constructor.fields.is_empty() {
                self.text.push('(');
                for (index, field) in constructor.fields.iter().enumerate() {
                    self.comma(index);
                    self.ty(*field);
                }
                self.text.push(')');
            }
            self.text.push_str(",\n");
        }
        self.text.push_str("}\n");
    }

    fn external(&mut self, name: Symbol, item: &Item) {
        write_name(&mut self.text, "@", name);
        let text: String = item.signature.attrs.value(EXTERNAL_TEXT).unwrap_or_default();
        let _ = writeln!(self.text, " {text}");
    }

    fn type_params(&mut self, names: &[Symbol]) {
        for (index, name) in names.iter().enumerate() {
            self.text.push_str(if index == 0 { "[" } else { ", " });
            self.text.push_str(name.as_str());
        }
        if !names.is_empty() {
            self.text.push(']');
        }
    }

    fn definition(&mut self, name: Symbol, item: &Item, out: &mut dyn Write) -> io::Result<()> {
        let signature = &item.signature;
        let Some(body) = &item.body else {
            let _ = writeln!(self.text, "// @{name}: {}", signature.ty);
            return Ok(());
        };
        let mut function = Function {
            body,
            signature,
            numbers: vec![0; body.value_capacity()],
            names: Names::default(),
        };
        let entry = body.entry();
        for &param in body.block_args(entry) {
            name_value(&mut function, param, "p");
        }
        self.number(&mut function);
        write_name(&mut self.text, "def @", name);
        let ty = signature.ty.as_function();
        if let Some(ty) = ty {
            self.type_params(&ty.type_params);
        }
        let params = body.block_args(entry).to_vec();
        self.head(&function, &params, signature.attrs, ty.map(|ty| ty.result));
        self.text.push_str(" {\n");
        self.operations(&function, entry, out)?;
        self.text.push_str("}\n");
        Ok(())
    }

    /// `(%x: T, key = value) -> T`.
    fn head(
        &mut self,
        function: &Function<'_>,
        params: &[ValueId],
        attributes: AttrDict,
        result: Option<Type>,
    ) {
        self.text.push('(');
        for (index, &param) in params.iter().enumerate() {
            self.comma(index);
            self.reference(function, param);
            let own = parameter_attributes(attributes, index);
            if !own.is_empty() {
                self.text.push_str(" {");
                self.entries(own, 0);
                self.text.push('}');
            }
            let ty = function.body.ty(param);
            if !ty.is_unknown() {
                self.text.push_str(": ");
                self.ty(ty);
            }
        }
        self.entries(attributes, params.len());
        self.text.push(')');
        if let Some(result) = result.filter(|ty| !ty.is_unknown()) {
            self.text.push_str(" -> ");
            self.ty(result);
        }
    }

    // ---- names and numbers -----------------------------------------------------------------

    /// Whether `op` is printed at each of its uses.
    fn is_atom(&self, body: &Body, op: OpId) -> bool {
        let name = body.op_name(op);
        let forms = &self.forms;
        let atom = [forms.constant, forms.global, forms.operator, forms.constructor];
        atom.contains(&name) && body.name_hint(body.result(op, 0)).binding == Binding::Graph
    }

    /// Gives every value of the body its name or number.
    fn number(&mut self, function: &mut Function<'_>) {
        enum Visit {
            Operations(OpId),
            Number(ValueId),
        }
        let body = function.body;
        let mut pending: Vec<Visit> =
            body.first_op(body.entry()).map(Visit::Operations).into_iter().collect();
        while let Some(visit) = pending.pop() {
            let mut next = match visit {
                Visit::Operations(op) => Some(op),
                Visit::Number(value) => {
                    self.next += 1;
                    function.numbers[value.index()] = self.next;
                    continue;
                }
            };
            while let Some(op) = next {
                next = body.next_op(op);
                if body.result_count(op) == 0 || self.is_atom(body, op) {
                    continue;
                }
                let value = body.result(op, 0);
                let itself = match body.has_regions(op) && body.op_name(op) == "relay.fn" {
                    true => fn_self(body, op),
                    false => None,
                };
                let mut numbered = false;
                if self.is_let(body, op, value, itself) {
                    let known = body.name_hint(value).name;
                    let own = itself.and_then(|itself| body.name_hint(itself).name);
                    let base = known.or(own).unwrap_or_else(|| Symbol::new("x"));
                    let name = function.names.give(value, base);
                    if let Some(itself) = itself {
                        function.names.share(itself, name);
                    }
                } else if self.is_tail(body, op, value) {
                    function.numbers[value.index()] = TAIL;
                } else if body.has_regions(op) {
                    numbered = true;
                } else {
                    self.next += 1;
                    function.numbers[value.index()] = self.next;
                }
                if !body.has_regions(op) {
                    continue;
                }
                pending.extend(next.map(Visit::Operations));
                if numbered {
                    pending.push(Visit::Number(value));
                }
                for region in body.regions(op).iter().rev() {
                    let block = body.block_of(*region);
                    pending.extend(body.first_op(block).map(Visit::Operations));
                }
                for region in body.regions(op) {
                    for &arg in body.block_args(body.block_of(*region)) {
                        if Some(arg) != itself {
                            name_value(function, arg, "p");
                        }
                    }
                }
                break;
            }
        }
    }

    /// Whether `value` prints as `let`: it was one, it calls itself, or a reader would otherwise
    /// move it into a branch.
    fn is_let(&self, body: &Body, op: OpId, value: ValueId, itself: Option<ValueId>) -> bool {
        if itself.is_some() || body.name_hint(value).binding == Binding::Let {
            return true;
        }
        match body.op_block(op) {
            Some(home) => covering_block(body, value, home).is_some_and(|block| block != home),
            None => false,
        }
    }

    /// Whether `value` is used once, by the yield that follows its operation.
    fn is_tail(&self, body: &Body, op: OpId, value: ValueId) -> bool {
        if !body.has_one_use(value) {
            return false;
        }
        let Some((user, _)) = body.uses(value).next() else { return false };
        if body.op_name(user) != self.forms.r#yield || body.op_block(user) != body.op_block(op) {
            return false;
        }
        let mut next = body.next_op(op);
        while let Some(op) = next.filter(|op| *op != user) {
            if !self.is_atom(body, op) {
                return false;
            }
            next = body.next_op(op);
        }
        true
    }

    // ---- operations ------------------------------------------------------------------------

    /// The lines of `block` and of everything inside.
    fn operations(
        &mut self,
        function: &Function<'_>,
        block: BlockId,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let body = function.body;
        let mut tasks: Vec<Task> =
            body.first_op(block).map(|op| Task::Operations(op, 1)).into_iter().collect();
        while let Some(task) = tasks.pop() {
            match task {
                Task::Operations(first, indent) => {
                    let mut next = Some(first);
                    while let Some(op) = next {
                        next = body.next_op(op);
                        if body.has_regions(op) {
                            // Regions come first; what follows waits below them.
                            tasks.extend(next.take().map(|op| Task::Operations(op, indent)));
                        }
                        self.operation(function, op, indent, &mut tasks);
                        if self.text.len() >= 1 << 16 {
                            self.flush(out)?;
                        }
                    }
                }
                Task::Finish(op, indent) => {
                    self.indent(indent);
                    self.text.push('}');
                    self.finish_line(function, op);
                }
                Task::Else(indent) => {
                    self.indent(indent);
                    self.text.push_str("} else {\n");
                }
                Task::Clause(op, index, indent) => {
                    self.clause(function, op, index, indent);
                    tasks.push(Task::ClauseEnd(indent));
                    let first = body.first_op(body.region_block(op, index));
                    tasks.extend(first.map(|op| Task::Operations(op, indent + 1)));
                }
                Task::ClauseEnd(indent) => {
                    self.indent(indent);
                    self.text.push_str("},\n");
                }
            }
        }
        Ok(())
    }

    /// Writes the line of `op`, or the first one and the tasks for its regions.
    fn operation(
        &mut self,
        function: &Function<'_>,
        op: OpId,
        indent: usize,
        tasks: &mut Vec<Task>,
    ) {
        let body = function.body;
        let name = body.op_name(op);
        if name == self.forms.r#yield {
            let value = body.operand(op, 0);
            if function.numbers[value.index()] != TAIL {
                self.indent(indent);
                self.reference(function, value);
                self.text.push('\n');
            }
            return;
        }
        if body.result_count(op) == 1 && self.is_atom(body, op) {
            return;
        }
        self.indent(indent);
        self.line_start(function, op);
        let spelling = self.spelling(name);
        match (spelling.form, spelling.name) {
            (true, "fn") => {
                let ty = body.ty(body.result(op, 0)).as_function();
                self.text.push_str("fn ");
                if let Some(ty) = ty {
                    self.type_params(&ty.type_params);
                    if !ty.type_params.is_empty() {
                        self.text.push(' ');
                    }
                }
                let params = fn_params(body, op).to_vec();
                let attributes: Option<AttrDict> = body.attrs(op).value("attributes");
                let attributes = attributes.unwrap_or_else(AttrDict::empty);
                self.head(function, &params, attributes, ty.map(|ty| ty.result));
                self.text.push_str(" {\n");
                tasks.push(Task::Finish(op, indent));
                let first = body.first_op(body.region_block(op, 0));
                tasks.extend(first.map(|op| Task::Operations(op, indent + 1)));
            }
            (true, "if") => {
                self.text.push_str("if (");
                self.reference(function, body.operand(op, 0));
                self.text.push_str(") {\n");
                tasks.push(Task::Finish(op, indent));
                let first = |index| body.first_op(body.region_block(op, index));
                tasks.extend(first(1).map(|op| Task::Operations(op, indent + 1)));
                tasks.push(Task::Else(indent));
                tasks.extend(first(0).map(|op| Task::Operations(op, indent + 1)));
            }
            (true, "match") => {
                let complete = body.attrs(op).value::<bool>("complete").unwrap_or(true);
                self.text.push_str(if complete { "match (" } else { "match? (" });
                self.reference(function, body.operand(op, 0));
                self.text.push_str(") {\n");
                tasks.push(Task::Finish(op, indent));
                for index in (0..body.regions(op).len()).rev() {
                    tasks.push(Task::Clause(op, index, indent + 1));
                }
            }
            _ => {
                self.expression(function, op, spelling);
                self.finish_line(function, op);
            }
        }
    }

    fn line_start(&mut self, function: &Function<'_>, op: OpId) {
        let body = function.body;
        if body.result_count(op) == 0 {
            return;
        }
        let value = body.result(op, 0);
        match function.names.get(value) {
            Some(name) => {
                write_name(&mut self.text, "let %", name);
                let ty = body.ty(value);
                // The type of a function literal stands in its head.
                let literal = body.op_name(op) == "relay.fn";
                let partial = ty.facts().has_unknown;
                if self.style.types && !ty.is_unknown() && !(literal && partial) {
                    self.text.push_str(": ");
                    self.ty(ty);
                }
                self.text.push_str(" = ");
            }
            None if function.numbers[value.index()] == TAIL => {}
            None => {
                let _ = write!(self.text, "%{} = ", function.numbers[value.index()] - 1);
            }
        }
    }

    /// The type comment of `op`, and what ends its line.
    fn finish_line(&mut self, function: &Function<'_>, op: OpId) {
        let body = function.body;
        if body.result_count(op) == 0 {
            self.text.push_str(";\n");
            return;
        }
        let value = body.result(op, 0);
        let named = function.names.get(value).is_some();
        let ty = body.ty(value);
        let literal = body.op_name(op) == self.forms.constant;
        let typed = self.style.types && !named && !literal && !ty.facts().has_unknown;
        self.comment(function, typed.then_some(ty), body.loc(op));
        let tail = function.numbers[value.index()] == TAIL;
        self.text.push_str(if tail { "\n" } else { ";\n" });
    }

    /// `/* ty=T span=file:1:2 */`, as far as wanted and known.
    fn comment(&mut self, function: &Function<'_>, ty: Option<Type>, loc: Loc) {
        let span = match self.style.spans {
            true => loc.span(function.signature.span).and_then(|span| self.position(span)),
            false => None,
        };
        if ty.is_none() && span.is_none() {
            return;
        }
        self.text.push_str(" /*");
        if let Some(ty) = ty {
            self.text.push_str(" ty=");
            self.ty(ty);
        }
        if let Some((file, line, column)) = span {
            // A comment must not end in the name of a file.
            let file = file.as_str().replace("*/", "*_").replace("/*", "_*");
            let _ = write!(self.text, " span={file}:{line}:{column}");
        }
        self.text.push_str(" */");
    }

    /// File, line and column of `span`, counted from 1.
    fn position(&mut self, span: Span) -> Option<(Symbol, usize, usize)> {
        let source = self.module.sources.text(span.file)?;
        let lines = self.lines.entry(span.file).or_insert_with(|| {
            let ends = source.match_indices('\n').map(|(place, _)| place as u32 + 1);
            std::iter::once(0).chain(ends).collect()
        });
        let line = lines.partition_point(|start| *start <= span.start);
        let start = *lines.get(line.checked_sub(1)?)?;
        let column = source.get(start as usize..span.start as usize)?.chars().count() + 1;
        Some((span.file, line, column))
    }

    /// An operation without regions.
    fn expression(&mut self, function: &Function<'_>, op: OpId, spelling: Spelling) {
        let body = function.body;
        let attrs = body.attrs(op);
        match (spelling.form, spelling.name) {
            (true, "constant" | "global" | "operator" | "constructor") => self.atom(body, op),
            (true, "tuple") => {
                self.text.push('(');
                self.operands(function, op, 0);
                self.text.push_str(if body.operand_count(op) == 1 { ",)" } else { ")" });
            }
            (true, "tuple_get") => {
                self.reference(function, body.operand(op, 0));
                let _ = write!(self.text, ".{}", attrs.value::<i64>("index").unwrap_or(0));
            }
            (true, "construct") => {
                write_word(&mut self.text, &attrs.value::<String>("name").unwrap_or_default());
                if body.operand_count(op) > 0 {
                    self.text.push('(');
                    self.operands(function, op, 0);
                    self.text.push(')');
                }
            }
            (true, "call") => {
                self.reference(function, body.operand(op, 0));
                let types: Vec<Type> = attrs.value("type_args").unwrap_or_default();
                for (index, ty) in types.iter().enumerate() {
                    self.text.push_str(if index == 0 { "<" } else { ", " });
                    self.ty(*ty);
                }
                self.text.push_str(if types.is_empty() { "(" } else { ">(" });
                self.operands(function, op, 1);
                let attributes: Option<AttrDict> = attrs.value("attributes");
                let attributes = attributes.unwrap_or_else(AttrDict::empty);
                self.entries(attributes, body.operand_count(op) - 1);
                self.text.push(')');
            }
            _ => {
                self.text.push_str(spelling.name);
                self.text.push('(');
                self.operands(function, op, 0);
                self.declared_entries(body.op_name(op), attrs, body.operand_count(op));
                self.text.push(')');
            }
        }
    }

    fn spelling(&mut self, name: Symbol) -> Spelling {
        *self.spellings.entry(name).or_insert_with(|| {
            let text = name.as_str();
            match text.strip_prefix("relay.") {
                Some(name) => Spelling { name, form: FORMS.contains(&name) },
                None => Spelling { name: text, form: false },
            }
        })
    }

    fn operands(&mut self, function: &Function<'_>, op: OpId, first: usize) {
        for (index, value) in function.body.operands(op).skip(first).enumerate() {
            self.comma(index);
            self.reference(function, value);
        }
    }

    /// A value where it is used.
    fn reference(&mut self, function: &Function<'_>, value: ValueId) {
        if let Some(name) = function.names.get(value) {
            write_name(&mut self.text, "%", name);
            return;
        }
        match (function.numbers[value.index()], function.body.defining_op(value)) {
            (0, Some(op)) => {
                self.atom(function.body, op);
                // The literal of a scalar tells its type.
                let ty = function.body.ty(value);
                let tensor = ty.as_tensor().is_some_and(|tensor| tensor.rank() > 0);
                if tensor && self.style.types && function.body.op_name(op) == self.forms.constant {
                    self.comment(function, Some(ty), Loc::UNKNOWN);
                }
            }
            (number, _) => {
                let _ = write!(self.text, "%{}", number.wrapping_sub(1));
            }
        }
    }

    fn atom(&mut self, body: &Body, op: OpId) {
        let (name, attrs) = (body.op_name(op), body.attrs(op));
        if name == self.forms.constant {
            if let Some(value) = attrs.value::<TensorData>("value") {
                self.constant(value);
            }
        } else if name == self.forms.global {
            if let Some(name) = attrs.value::<Symbol>("name") {
                write_name(&mut self.text, "@", name);
            }
        } else {
            let name = attrs.value::<String>("name").unwrap_or_default();
            match body.op_name(op) == self.forms.operator {
                true => self.text.push_str(&name),
                false => write_word(&mut self.text, &name),
            }
        }
    }

    fn constant(&mut self, value: TensorData) {
        if let Some(text) = scalar_text(&value, DType::INT32) {
            self.text.push_str(&text);
            return;
        }
        let elided = self.style.elide.is_some_and(|n| value.bytes().len() > n);
        let index = match elided {
            true => self.metadata.elide(),
            false => self.metadata.constant(value),
        };
        let _ = write!(self.text, "meta[relay.Constant][{index}]");
    }

    /// The pattern of a clause and its arrow.
    fn clause(&mut self, function: &Function<'_>, op: OpId, index: usize, indent: usize) {
        let body = function.body;
        // Only this pattern is decoded: reading all of them for each clause would be quadratic.
        let pattern = match body.attrs(op).get("patterns").map(Attr::data) {
            Some(AttrData::Array(patterns)) => patterns.get(index).copied(),
            _ => None,
        };
        let variables = body.block_args(body.region_block(op, index)).to_vec();
        let mut variables = variables.into_iter();
        self.indent(indent);
        if let Some(pattern) = pattern.and_then(Pattern::from_attr) {
            self.pattern(function, &pattern, &mut variables);
        }
        self.text.push_str(" => {\n");
    }

    // Recursion is bounded by MAX_PATTERN_DEPTH.
    fn pattern(
        &mut self,
        function: &Function<'_>,
        pattern: &Pattern,
        variables: &mut std::vec::IntoIter<ValueId>,
    ) {
        let fields = match pattern {
            Pattern::Wildcard => return self.text.push('_'),
            Pattern::Variable => {
                let Some(variable) = variables.next() else { return };
                self.reference(function, variable);
                let ty = function.body.ty(variable);
                if !ty.is_unknown() {
                    self.text.push_str(": ");
                    self.ty(ty);
                }
                return;
            }
            Pattern::Constructor(name, fields) => {
                write_word(&mut self.text, name.as_str());
                if fields.is_empty() {
                    return;
                }
                fields
            }
            Pattern::Tuple(fields) => fields,
        };
        self.text.push('(');
        for (index, field) in fields.iter().enumerate() {
            self.comma(index);
            self.pattern(function, field, variables);
        }
        self.text.push(')');
    }

    // ---- types and attributes --------------------------------------------------------------

    fn ty(&mut self, ty: Type) {
        let text = self.types.entry(ty).or_insert_with(|| ty.to_string().into());
        self.text.push_str(text);
    }

    /// `, ` before all but the first element of a list.
    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.text.push_str(", ");
        }
    }

    fn indent(&mut self, levels: usize) {
        // Deep programs must not take quadratic space.
        for _ in 0..levels.min(MAX_INDENT) {
            self.text.push_str("  ");
        }
    }

    /// The attributes of operation `name` in declared order, after `before` other elements.
    fn declared_entries(&mut self, name: Symbol, attrs: AttrDict, before: usize) {
        if attrs.is_empty() {
            return;
        }
        let mut count = before;
        let declared = self.registry.def(name).map_or(&[][..], |def| def.attrs);
        for field in declared {
            if let Some(value) = attrs.get(field.name) {
                self.comma(count);
                self.entry(Symbol::new(field.name), value);
                count += 1;
            }
        }
        for &(key, value) in attrs.entries() {
            if !declared.iter().any(|field| key == field.name) {
                self.comma(count);
                self.entry(key, value);
                count += 1;
            }
        }
    }

    /// The attributes of `attrs` by key, after `before` other elements. Those of parameters are
    /// printed with them.
    fn entries(&mut self, attrs: AttrDict, before: usize) {
        let entries = attrs.entries().iter().filter(|(key, _)| *key != PARAMETER_ATTRIBUTES);
        for (index, &(key, value)) in entries.enumerate() {
            self.comma(before + index);
            self.entry(key, value);
        }
    }

    fn entry(&mut self, key: Symbol, value: Attr) {
        let _ = write!(self.text, "{key}=");
        self.attribute(value);
    }

    // Attributes nest as deeply as the limits of those who make them allow.
    fn attribute(&mut self, attr: Attr) {
        match attr.data() {
            AttrData::None => self.text.push_str("None"),
            AttrData::Bool(true) => self.text.push_str("True"),
            AttrData::Bool(false) => self.text.push_str("False"),
            AttrData::Int(value) => {
                let _ = write!(self.text, "{value}");
            }
            AttrData::Float(value) => self.text.push_str(&float_attr_text(value.0)),
            // An unknown extent, which is read back as the same text.
            AttrData::String(text) if &**text == "?" => self.text.push('?'),
            AttrData::String(text) => quote_into(text, &mut self.text),
            AttrData::Symbol(name) => write_name(&mut self.text, "@", *name),
            AttrData::Type(ty) => quote_into(&ty.to_string(), &mut self.text),
            AttrData::DType(dtype) => {
                let _ = write!(self.text, "\"{dtype}\"");
            }
            AttrData::Tensor(value) => {
                let index = self.metadata.constant(value.clone());
                let _ = write!(self.text, "meta[relay.Constant][{index}]");
            }
            AttrData::Array(items) => {
                self.text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index);
                    self.attribute(*item);
                }
                self.text.push(']');
            }
            AttrData::Dict(dict) => match dict.value::<String>(KIND) {
                Some(kind) => {
                    let index = self.metadata.object(&kind, *dict);
                    let _ = write!(self.text, "meta[{kind}][{index}]");
                }
                None => {
                    self.text.push('{');
                    for (index, &(key, value)) in dict.entries().iter().enumerate() {
                        self.comma(index);
                        write_word(&mut self.text, key.as_str());
                        self.text.push('=');
                        self.attribute(value);
                    }
                    self.text.push('}');
                }
            },
        }
    }
}

fn name_value(function: &mut Function<'_>, value: ValueId, otherwise: &str) {
    let base = function.body.name_hint(value).name.unwrap_or_else(|| Symbol::new(otherwise));
    function.names.give(value, base);
}
