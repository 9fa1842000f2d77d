//! The printer: one statement after another, streamed.
//!
//! What is still to be printed stands on stacks, so nesting costs no native stack.

use std::fmt::Write as _;
use std::io;

use ir_core::text::PrintOptions;
use ir_core::text::attributes::{write_attr, write_dict};
use ir_core::text::layout::Line;
use ir_core::text::lexer;
use ir_core::text::literals::scalar_text;

use ir_core::{
    Attr, AttrDict, AttrValue, BlockId, Body, DType, Item, OpId, Registry, Signature, Symbol,
    TensorData, Type, ValueId,
};

use super::forms::{Form, needs_end};
use super::inlining::Inlining;
use super::names::{Names, write_word};
use super::operators::{
    CONDITION, LOOSEST, MINUS, PRIMARY, Precedence, call_name, infix, left_precedence, prefix,
};
use super::statements::{SCAN, SCATTER, UPDATES};
use crate::compute::counts::COUNTS;
use crate::compute::{Combiner, Load, LoadIf, Reduce, Scan};
use crate::loops::{Alloc, For, ForKind, OUTPUTS, Scope};
use crate::scalar::{Check, ScalarOp};
use crate::schedule::default_name;

/// Brackets nested deeper than this do not break over lines, so that the output stays linear in
/// the input.
const MAX_BREAKS: usize = 8;

/// Writes an item of one of the kinds of this dialect.
pub(super) fn print_item(
    name: Symbol,
    item: &Item,
    registry: &Registry,
    options: &PrintOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let signature = &item.signature;
    let empty = Body::new();
    let body = item.body.as_deref();
    let mut printer = Printer {
        body: body.unwrap_or(&empty),
        registry,
        options,
        out,
        line: Line::default(),
        inlining: Inlining::of(body.unwrap_or(&empty)),
        names: Names::new(body.unwrap_or(&empty)),
        brackets: Vec::new(),
    };
    printer.head(name, signature, body.is_some());
    match body {
        None => printer.line.flush(0, printer.out),
        Some(body) => {
            printer.line.push(" {");
            printer.line.flush(0, printer.out)?;
            printer.block(body.entry())?;
            printer.out.write_all(b"}\n")
        }
    }
}

/// A statement or the end of one.
enum Step {
    Statement(OpId),
    /// The end of region `.1` of an operation, with the scope before it.
    End(OpId, usize, usize),
}

/// A piece of an expression that is still to be written, last first.
enum Piece {
    /// A value, in parentheses where it holds together less tightly.
    Value(ValueId, Precedence),
    /// A value by its name.
    Name(ValueId),
    Text(&'static str),
    Number(i64),
    /// A text in quotes.
    Message(String),
    /// The bracket of a call.
    Call,
    /// The bracket of indices.
    Index,
    Comma,
    Close(char),
}

struct Printer<'a> {
    body: &'a Body,
    registry: &'a Registry,
    options: &'a PrintOptions,
    out: &'a mut dyn io::Write,
    line: Line,
    inlining: Inlining,
    names: Names,
    /// Open brackets of the line: whether the text may break inside.
    brackets: Vec<bool>,
}

impl<'a> Printer<'a> {
    /// `te.func @f(%x: T) -> T outputs 1 counts 512 attributes {key = value}`.
    fn head(&mut self, name: Symbol, signature: &Signature, has_body: bool) {
        self.line.push(signature.op.as_str());
        self.line.push(" @");
        lexer::name_into(name.as_str(), self.line.text());
        let function = signature.ty.as_function();
        self.open('(', true);
        if has_body {
            let params = self.body.block_args(self.body.entry());
            for (index, &param) in params.iter().enumerate() {
                self.separate(index);
                self.names.define_local(self.body, param);
                self.names.write(param, self.line.text());
                push(&mut self.line, format_args!(": {}", self.body.ty(param)));
            }
        } else if let Some(function) = function {
            for (index, param) in function.params.iter().enumerate() {
                self.separate(index);
                push(&mut self.line, format_args!("%{index}: {param}"));
            }
        }
        self.close(')');
        if let Some(function) = function
            && function.result != Type::unit()
        {
            push(&mut self.line, format_args!(" -> {}", function.result));
        }
        let mut attrs = signature.attrs;
        if let Some(outputs) = attrs.value::<i64>(OUTPUTS) {
            push(&mut self.line, format_args!(" {OUTPUTS} {outputs}"));
            attrs = attrs.without(OUTPUTS);
        }
        if let Some(bounds) = attrs.value::<Vec<i64>>(COUNTS).filter(|bounds| !bounds.is_empty()) {
            push(&mut self.line, format_args!(" {COUNTS} "));
            for (index, bound) in bounds.iter().enumerate() {
                push(&mut self.line, format_args!("{}{bound}", if index > 0 { ", " } else { "" }));
            }
            attrs = attrs.without(COUNTS);
        }
        self.attributes(attrs);
    }

    /// ` attributes {key = value}`, where there are some.
    fn attributes(&mut self, attrs: AttrDict) {
        if !attrs.is_empty() {
            self.line.push(" attributes ");
            write_dict(attrs, None, self.options, &mut self.line);
        }
    }

    // ---- statements ------------------------------------------------------------------------

    /// The statements of `block` and of everything inside.
    fn block(&mut self, block: BlockId) -> io::Result<()> {
        let body = self.body;
        let mut steps: Vec<Step> = body.first_op(block).map(Step::Statement).into_iter().collect();
        let mut depth = 1;
        while let Some(step) = steps.pop() {
            match step {
                Step::Statement(op) => {
                    steps.extend(body.next_op(op).map(Step::Statement));
                    if self.inlining.is_inside(op) || self.is_implied(op) {
                        continue;
                    }
                    let scope = self.names.scope();
                    if self.statement(op) {
                        self.enter(op, 0, scope, &mut steps);
                        self.line.flush(depth, self.out)?;
                        depth += 1;
                    } else {
                        self.names.close(scope);
                        self.line.flush(depth, self.out)?;
                    }
                }
                Step::End(op, index, scope) => {
                    self.names.close(scope);
                    depth -= 1;
                    self.line.push("}");
                    if body.regions(op).len() > index + 1 {
                        self.between(op, index + 1);
                        self.enter(op, index + 1, scope, &mut steps);
                        self.line.flush(depth, self.out)?;
                        depth += 1;
                    } else {
                        self.finish(op);
                        self.line.flush(depth, self.out)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Goes into region `index` of `op`, whose brace has been written.
    fn enter(&mut self, op: OpId, index: usize, scope: usize, steps: &mut Vec<Step>) {
        steps.push(Step::End(op, index, scope));
        let block = self.body.region_block(op, index);
        steps.extend(self.body.first_op(block).map(Step::Statement));
    }

    /// Whether `op` is the end of its block that needs no words.
    fn is_implied(&self, op: OpId) -> bool {
        self.body.operand_count(op) == 0
            && self.body.op_block(op).is_some_and(|block| {
                self.body.last_op(block) == Some(op) && needs_end(self.body, block, self.registry)
            })
            && matches!(Form::of(self.body, op), Some(Form::Yield(_)))
    }

    /// Writes the statement of `op`, or its head with the brace; whether regions follow.
    fn statement(&mut self, op: OpId) -> bool {
        let body = self.body;
        match Form::of(body, op) {
            None => self.generic(op),
            Some(Form::Compute(form)) => {
                self.stage_head(&form.name, &form.shape, &form.counts, op);
                return self.stage_body(op, &form.name);
            }
            Some(Form::Reduce(form)) => {
                self.reduce_head(op, &form);
                return self.stage_body(op, &form.name);
            }
            Some(Form::Scan(form)) => {
                self.scan_head(op, &form);
                return self.stage_body(op, &form.name);
            }
            Some(Form::Scatter(form)) => {
                self.stage_head(&form.name, &form.shape, &form.counts, op);
                self.line.push(SCATTER);
                self.line.push(" {");
                return true;
            }
            Some(Form::Yield(form)) => {
                self.line.push(if form.values.is_empty() { "yield" } else { "yield " });
                self.values(&form.values);
            }
            Some(Form::Return(form)) => {
                self.line.push("return ");
                for (index, &tensor) in form.tensors.iter().enumerate() {
                    self.separate(index);
                    self.names.write(tensor, self.line.text());
                }
            }
            Some(Form::For(form, notes)) => {
                self.loop_head(op, &form, notes);
                return true;
            }
            Some(Form::If(form)) => {
                self.line.push("if ");
                self.expression(form.condition, CONDITION);
                self.line.push(" {");
                return true;
            }
            Some(Form::Store(form)) => {
                self.line.push(if form.streaming { "stream " } else { "" });
                self.element(form.buffer, &form.indices);
                self.line.push(" = ");
                self.expression(form.value, LOOSEST);
            }
            Some(Form::Atomic(form)) => {
                self.line.push("atomic ");
                self.element(form.buffer, &form.indices);
                push(&mut self.line, format_args!(" = {} ", form.combiner.name()));
                self.expression(form.value, LOOSEST);
            }
            Some(Form::Fetch(form)) => {
                self.line.push("fetch ");
                self.element(form.buffer, &form.indices);
            }
            Some(Form::Barrier) => self.line.push("barrier"),
            Some(Form::Call(form)) => {
                self.line.push("call @");
                lexer::name_into(form.kernel.as_str(), self.line.text());
                self.open('(', true);
                for (index, &buffer) in form.buffers().iter().enumerate() {
                    self.separate(index);
                    self.names.write(buffer, self.line.text());
                    if let Some(&offset) = form.offsets().get(index) {
                        self.line.push(" at ");
                        self.expression(offset, LOOSEST);
                    }
                }
                self.close(')');
            }
            Some(Form::Alloc(form)) => {
                self.results(op);
                self.alloc(&form);
            }
            Some(Form::Data(form)) => {
                self.results(op);
                self.line.push("data ");
                write_attr(form.value.to_attr(), self.options, &mut self.line);
            }
            Some(form) => {
                self.results(op);
                let mut pieces = Vec::new();
                self.operation(op, &form, LOOSEST, &mut pieces);
                self.pieces(pieces);
            }
        }
        false
    }

    /// What stands between the `}` of one region of `op` and the next region.
    fn between(&mut self, op: OpId, index: usize) {
        match Form::of(self.body, op) {
            Some(Form::If(_)) => self.line.push(" else {"),
            Some(Form::Scatter(form)) if index == 1 => {
                self.line.push(" ");
                self.line.push(UPDATES);
                let counts = form.counts.get(form.shape.len()..).unwrap_or_default();
                let args = self.body.block_args(self.body.region_block(op, index));
                self.axes(args, &form.extents, counts, true);
                self.line.push(" {");
            }
            _ => {
                self.line.push(" combine");
                let block = self.body.region_block(op, index);
                self.open('(', true);
                for (index, &arg) in self.body.block_args(block).iter().enumerate() {
                    self.separate(index);
                    self.names.define_index(self.body, arg);
                    self.names.write(arg, self.line.text());
                }
                self.close(')');
                self.line.push(" {");
            }
        }
    }

    /// After the last `}` of `op`.
    fn finish(&mut self, op: OpId) {
        match Form::of(self.body, op) {
            Some(Form::Compute(form)) => self.define_stage(op, &form.name),
            Some(Form::Reduce(form)) => self.define_stage(op, &form.name),
            Some(Form::Scan(form)) => self.define_stage(op, &form.name),
            Some(Form::Scatter(form)) => self.define_stage(op, &form.name),
            _ => {}
        }
    }

    fn define_stage(&mut self, op: OpId, name: &str) {
        let results: Vec<ValueId> = self.body.results(op).collect();
        self.names.define_stage(name, &results);
    }

    /// `name[i < 8, j < 32 to %n] = `.
    fn stage_head(&mut self, name: &str, shape: &[i64], counts: &[i64], op: OpId) {
        write_word(name, self.line.text());
        let args = self.body.block_args(self.body.region_block(op, 0));
        let args = args.get(..shape.len()).unwrap_or(args);
        self.axes(args, shape, counts, false);
        self.line.push(" = ");
    }

    /// `[i < 8, j < 32 to %n]`, for the block arguments `args`, in the names that a schedule knows them by.
    fn axes(&mut self, args: &[ValueId], extents: &[i64], counts: &[i64], reduced: bool) {
        self.open('[', false);
        for (index, (arg, extent)) in args.iter().zip(extents).enumerate() {
            self.separate(index);
            let name = Symbol::new(&default_name(index, reduced));
            self.names.define_word(self.body, *arg, name);
            self.names.write(*arg, self.line.text());
            push(&mut self.line, format_args!(" < {extent}"));
            let count = counts.get(index).and_then(|count| usize::try_from(*count).ok());
            if let Some(count) = count {
                self.line.push(" to ");
                let param = self.body.block_args(self.body.entry())[count];
                self.names.write(param, self.line.text());
            }
        }
        self.close(']');
    }

    fn reduce_head(&mut self, op: OpId, form: &Reduce) {
        self.stage_head(&form.name, &form.shape, &form.counts, op);
        self.line.push(form.combiner.name());
        if form.combiner == Combiner::User || !form.identity.is_empty() {
            self.open('(', true);
            for (index, identity) in form.identity.iter().enumerate() {
                self.separate(index);
                self.constant(identity);
            }
            self.close(')');
        }
        let args = self.body.block_args(self.body.region_block(op, 0));
        let spatial = form.shape.len();
        let counts = form.counts.get(spatial..).unwrap_or_default();
        self.axes(args.get(spatial..).unwrap_or_default(), &form.extents, counts, true);
        self.line.push(" ");
    }

    /// `cumsum[i < 8, j < 32] = scan(j, s = 0f) `.
    fn scan_head(&mut self, op: OpId, form: &Scan) {
        self.stage_head(&form.name, &form.shape, &form.counts, op);
        self.line.push(SCAN);
        self.open('(', true);
        let args = self.body.block_args(self.body.region_block(op, 0));
        let (indices, state) = args.split_at(form.shape.len());
        // The form says that there is such an axis.
        if let Some(axis) = usize::try_from(form.axis).ok().and_then(|axis| indices.get(axis)) {
            self.names.write(*axis, self.line.text());
        }
        for (number, (arg, initial)) in state.iter().zip(&form.initial).enumerate() {
            self.separate(number + 1);
            self.names.define_index(self.body, *arg);
            self.names.write(*arg, self.line.text());
            self.line.push(" = ");
            self.constant(initial);
        }
        self.close(')');
        self.line.push(" ");
    }

    /// The body of a stage, on the line where it is one expression; otherwise its brace. Whether
    /// regions follow.
    fn stage_body(&mut self, op: OpId, name: &str) -> bool {
        let body = self.body;
        let block = body.region_block(op, 0);
        let last = body.last_op(block);
        let values = last.and_then(|last| match Form::of(body, last) {
            Some(Form::Yield(end)) if !end.values.is_empty() => Some(end.values),
            _ => None,
        });
        let whole = |op| Some(op) == last || self.inlining.is_inside(op);
        match values {
            Some(values) if body.regions(op).len() == 1 && body.block_ops(block).all(whole) => {
                self.values(&values);
                self.define_stage(op, name);
                false
            }
            _ => {
                self.line.push("{");
                true
            }
        }
    }

    /// `parallel i < 4 {`.
    fn loop_head(&mut self, op: OpId, form: &For, notes: AttrDict) {
        self.line.push(match form.kind {
            ForKind::Serial => "for",
            kind => kind.name(),
        });
        if let Some(axis) = &form.thread {
            self.line.push("(");
            match axis.split('.').all(lexer::is_word) {
                true => self.line.push(axis),
                false => lexer::quote_into(axis, self.line.text()),
            }
            self.line.push(")");
        }
        self.line.push(" ");
        if let Some(&index) = self.body.block_args(self.body.region_block(op, 0)).first() {
            self.names.define_index(self.body, index);
            self.names.write(index, self.line.text());
        }
        push(&mut self.line, format_args!(" < {}", form.extent));
        if let Some(limit) = form.limit {
            self.line.push(" to ");
            self.expression(limit, LOOSEST);
        }
        self.attributes(notes);
        self.line.push(" {");
    }

    /// `alloc[(8, 16), float32] register at 64`.
    fn alloc(&mut self, form: &Alloc) {
        self.line.push("alloc[");
        self.open('(', true);
        for (index, extent) in form.shape.iter().enumerate() {
            self.separate(index);
            push(&mut self.line, format_args!("{extent}"));
        }
        self.close(')');
        push(&mut self.line, format_args!(", {}]", form.dtype));
        if form.scope != Scope::Global {
            push(&mut self.line, format_args!(" {}", form.scope.name()));
        }
        if let Some(offset) = form.offset {
            push(&mut self.line, format_args!(" at {offset}"));
        }
    }

    /// An operation without a form of its own: `%0 = "a.b"(%x, i + 1) {key = value} : float32`.
    fn generic(&mut self, op: OpId) {
        let body = self.body;
        self.results(op);
        lexer::quote_into(body.op_name(op).as_str(), self.line.text());
        let mut pieces = vec![Piece::Close(')')];
        let operands: Vec<ValueId> = body.operands(op).collect();
        list(&operands, &mut pieces);
        pieces.push(Piece::Call);
        self.pieces(pieces);
        let attrs = body.attrs(op);
        if !attrs.is_empty() {
            self.line.push(" ");
            write_dict(attrs, self.registry.def_of(body, op), self.options, &mut self.line);
        }
        for (index, result) in body.results(op).enumerate() {
            self.line.push(if index == 0 { " : " } else { ", " });
            push(&mut self.line, format_args!("{}", body.ty(result)));
        }
        match body.regions(op).len() {
            0 => {}
            count => push(&mut self.line, format_args!(" /* {count} regions are left out */")),
        }
    }

    /// `%a, %b = `.
    fn results(&mut self, op: OpId) {
        for (index, result) in self.body.results(op).enumerate() {
            self.separate(index);
            self.names.define_local(self.body, result);
            self.names.write(result, self.line.text());
        }
        if self.body.result_count(op) > 0 {
            self.line.push(" = ");
        }
    }

    // ---- expressions -----------------------------------------------------------------------

    fn values(&mut self, values: &[ValueId]) {
        let mut pieces = Vec::new();
        list(values, &mut pieces);
        self.pieces(pieces);
    }

    fn element(&mut self, tensor: ValueId, indices: &[ValueId]) {
        let mut pieces = Vec::new();
        element(tensor, indices, &mut pieces);
        self.pieces(pieces);
    }

    fn expression(&mut self, value: ValueId, precedence: Precedence) {
        self.pieces(vec![Piece::Value(value, precedence)]);
    }

    fn pieces(&mut self, mut pieces: Vec<Piece>) {
        while let Some(piece) = pieces.pop() {
            match piece {
                Piece::Text(text) => self.line.push(text),
                Piece::Number(number) => push(&mut self.line, format_args!("{number}")),
                Piece::Message(text) => write_attr(text.to_attr(), self.options, &mut self.line),
                Piece::Call => self.open('(', true),
                Piece::Index => self.open('[', false),
                Piece::Comma => self.separate(1),
                Piece::Close(bracket) => self.close(bracket),
                Piece::Name(value) => self.names.write(value, self.line.text()),
                Piece::Value(value, precedence) => {
                    let op = self.inlining.inside(self.body, value);
                    match op.and_then(|op| Some((op, Form::of(self.body, op)?))) {
                        Some((op, form)) => self.operation(op, &form, precedence, &mut pieces),
                        None => self.names.write(value, self.line.text()),
                    }
                }
            }
        }
    }

    /// Writes `op`, in parentheses where it holds together less tightly than `precedence`.
    fn operation(
        &mut self,
        op: OpId,
        form: &Form,
        precedence: Precedence,
        pieces: &mut Vec<Piece>,
    ) {
        let own = precedence_of(form);
        if own < precedence {
            pieces.push(Piece::Close(')'));
            self.open('(', false);
        }
        match form {
            Form::Scalar(scalar) => {
                let a = self.body.operand(op, 0);
                if let Some((sign, own)) = infix(*scalar) {
                    let b = self.body.operand(op, 1);
                    pieces.extend([
                        Piece::Value(b, own + 1),
                        Piece::Text(" "),
                        Piece::Text(sign),
                        Piece::Text(" "),
                        Piece::Value(a, left_precedence(own)),
                    ]);
                } else if let Some((sign, own)) = prefix(*scalar) {
                    // A number behind a minus would be read as one number.
                    let number = *scalar == ScalarOp::Neg
                        && self.inlining.inside(self.body, a).is_some_and(|op| {
                            matches!(Form::of(self.body, op), Some(Form::Constant(_)))
                        });
                    let own = if number { PRIMARY + 1 } else { own };
                    pieces.extend([Piece::Value(a, own), Piece::Text(sign)]);
                } else {
                    pieces.push(Piece::Close(')'));
                    let operands: Vec<ValueId> = self.body.operands(op).collect();
                    list(&operands, pieces);
                    pieces.extend([Piece::Call, Piece::Text(call_name(*scalar))]);
                }
            }
            Form::Constant(constant) => self.constant(&constant.value),
            Form::Cast(cast) => {
                push(&mut self.line, format_args!("cast<{}>", cast.dtype));
                call("", &[cast.a], &[], pieces);
            }
            Form::Reinterpret(reading) => {
                push(&mut self.line, format_args!("reinterpret<{}>", reading.dtype));
                call("", &[reading.a], &[], pieces);
            }
            Form::Select(select) => {
                call("select", &[select.condition, select.a, select.b], &[], pieces);
            }
            Form::Check(Check { condition, a, otherwise, message, site }) => {
                pieces.push(Piece::Close(')'));
                if let Some(site) = site {
                    pieces.extend([Piece::Number(*site), Piece::Comma]);
                }
                pieces.extend([Piece::Message(message.clone()), Piece::Comma]);
                list(&[*condition, *a, *otherwise], pieces);
                pieces.extend([Piece::Call, Piece::Text("check")]);
            }
            Form::Ramp(ramp) => call("ramp", &[ramp.base], &[ramp.stride, ramp.lanes], pieces),
            Form::Broadcast(broadcast) => {
                call("broadcast", &[broadcast.a], &[broadcast.lanes], pieces);
            }
            Form::Extract(extract) => call("extract", &[extract.a], &[extract.lane], pieces),
            Form::Load(Load { tensor, indices }) => element(*tensor, indices, pieces),
            Form::LoadIf(LoadIf { condition, otherwise, tensor, indices }) => {
                pieces.extend([Piece::Value(*otherwise, LOOSEST), Piece::Text(" else ")]);
                element(*tensor, indices, pieces);
                pieces.extend([
                    Piece::Text(" then "),
                    Piece::Value(*condition, CONDITION),
                    Piece::Text("if "),
                ]);
            }
            // Others are statements.
            _ => {}
        }
    }

    fn constant(&mut self, value: &TensorData) {
        match scalar_text(value, DType::INT64) {
            Some(text) => self.line.push(&text),
            None => {
                self.line.push("constant(");
                write_attr(Attr::of(value), &PrintOptions::complete(), &mut self.line);
                self.line.push(")");
            }
        }
    }

    // ---- brackets --------------------------------------------------------------------------

    /// Opens a bracket; where `breaks`, the text may go on in the next line inside, unless it must
    /// not around that.
    fn open(&mut self, bracket: char, breaks: bool) {
        let inside = self.brackets.last() != Some(&false) && self.brackets.len() < MAX_BREAKS;
        let breaks = breaks && inside;
        self.brackets.push(breaks);
        match breaks {
            true => self.line.open(bracket),
            false => self.line.text().push(bracket),
        }
    }

    fn close(&mut self, bracket: char) {
        match self.brackets.pop() {
            Some(true) => self.line.close(bracket),
            _ => self.line.text().push(bracket),
        }
    }

    /// A comma before all but the first of a list.
    fn separate(&mut self, index: usize) {
        match self.brackets.last() {
            _ if index == 0 => {}
            Some(true) => self.line.comma(),
            _ => self.line.push(", "),
        }
    }
}

fn push(line: &mut Line, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = line.text().write_fmt(arguments);
}

/// `a, b` as pieces.
fn list(values: &[ValueId], pieces: &mut Vec<Piece>) {
    for (index, value) in values.iter().enumerate().rev() {
        pieces.push(Piece::Value(*value, LOOSEST));
        if index > 0 {
            pieces.push(Piece::Comma);
        }
    }
}

/// `name(a, b, 1, 2)` as pieces.
fn call(name: &'static str, values: &[ValueId], numbers: &[i64], pieces: &mut Vec<Piece>) {
    pieces.push(Piece::Close(')'));
    for number in numbers.iter().rev() {
        pieces.extend([Piece::Number(*number), Piece::Comma]);
    }
    list(values, pieces);
    pieces.extend([Piece::Call, Piece::Text(name)]);
}

/// `%x[i, j]` as pieces.
fn element(tensor: ValueId, indices: &[ValueId], pieces: &mut Vec<Piece>) {
    pieces.push(Piece::Close(']'));
    list(indices, pieces);
    pieces.extend([Piece::Index, Piece::Name(tensor)]);
}

fn precedence_of(form: &Form) -> Precedence {
    match form {
        Form::Scalar(op) => infix(*op).or(prefix(*op)).map_or(PRIMARY, |(_, own)| own),
        Form::LoadIf(_) => LOOSEST,
        Form::Constant(constant) => match scalar_text(&constant.value, DType::INT64) {
            Some(text) if text.starts_with('-') => MINUS,
            _ => PRIMARY,
        },
        _ => PRIMARY,
    }
}
