//! The printer: one statement after another, streamed.
//!
//! What is still to be printed stands on a stack, so nesting costs no native stack.

use std::fmt::Write as _;
use std::io;

use ir_core::text::PrintOptions;
use ir_core::text::attributes::{write_attr, write_dict};
use ir_core::text::layout::Line;
use ir_core::text::lexer;
use ir_core::text::literals::scalar_text;
use ir_core::text::locals::LocalNames;
use ir_core::{
    AttrDict, AttrValue, BlockId, Body, DType, Item, OpFields, OpId, Registry, Symbol, TensorData,
    Type, ValueId,
};

use super::words;
use crate::data::Declaration;
use crate::{
    Call, Cell, Constant, Construct, DATA, Drop, Dup, Fail, If, Kernel, Read, Rows, Switch, Tail,
    Write, Yield,
};

/// Writes an item of one of the kinds of this dialect.
pub(super) fn print_item(
    name: Symbol,
    item: &Item,
    registry: &Registry,
    options: &PrintOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let empty = Body::new();
    let body = item.body.as_deref().unwrap_or(&empty);
    let (line, names) = (Line::default(), LocalNames::new(body));
    let mut printer = Printer { body, registry, options, out, line, names };
    printer.line.push(item.signature.op.as_str());
    printer.line.push(" @");
    lexer::name_into(name.as_str(), printer.line.text());
    match item.signature.op == DATA {
        true => printer.data(item.signature.attrs),
        false => printer.function(item),
    }
}

/// What is still to be printed.
enum Step {
    /// An operation and those behind it.
    Statement(OpId),
    /// The regions of an operation from this one on.
    Regions(OpId, usize, Regions),
}

/// How the regions of an operation are written.
enum Regions {
    Branches,
    /// One for each of these constructors, and one more if there is one.
    Cases(Vec<i64>),
    Other,
}

struct Printer<'a> {
    body: &'a Body,
    registry: &'a Registry,
    options: &'a PrintOptions,
    out: &'a mut dyn io::Write,
    line: Line,
    names: LocalNames,
}

impl<'a> Printer<'a> {
    // ---- items -----------------------------------------------------------------------------

    /// ` { Nil, Cons(float32, List[]), }`, behind the name of a data type.
    fn data(&mut self, attrs: AttrDict) -> io::Result<()> {
        let declaration = Declaration::from_attrs(attrs);
        let own = declaration.as_ref().map_or(AttrDict::empty(), Declaration::to_attrs);
        let others = attrs.entries().iter().filter(|entry| !own.entries().contains(entry));
        self.attributes(AttrDict::new(others.copied()));
        let Some(declaration) = declaration else { return self.line.flush(0, self.out) };
        self.line.push(" {");
        self.line.flush(0, self.out)?;
        for constructor in declaration.constructors {
            let name = &constructor.name;
            match lexer::is_word(name) && name != "_" && !lexer::is_special_float(name) {
                true => self.line.push(name),
                false => lexer::quote_into(name, self.line.text()),
            }
            if !constructor.fields.is_empty() {
                self.list(&constructor.fields, |printer, ty| printer.ty(*ty));
            }
            self.line.push(",");
            self.line.flush(1, self.out)?;
        }
        self.out.write_all(b"}\n")
    }

    /// `(%x: T) -> T { … }`, behind the name of a function.
    fn function(&mut self, item: &Item) -> io::Result<()> {
        let function = item.signature.ty.as_function();
        if item.body.is_some() {
            self.arguments(self.body.entry());
        } else {
            let params = function.map(|function| &function.params[..]).unwrap_or_default();
            let params: Vec<(usize, Type)> = params.iter().copied().enumerate().collect();
            self.list(&params, |printer, (index, ty)| {
                push(&mut printer.line, format_args!("%{index}: {ty}"));
            });
        }
        if let Some(function) = function
            && function.result != Type::unit()
        {
            self.line.push(" -> ");
            self.ty(function.result);
        }
        self.attributes(item.signature.attrs);
        if item.body.is_none() {
            return self.line.flush(0, self.out);
        }
        self.line.push(" {");
        self.line.flush(0, self.out)?;
        self.block(self.body.entry())?;
        self.out.write_all(b"}\n")
    }

    /// ` attributes {key = value}`, where there are some.
    fn attributes(&mut self, attrs: AttrDict) {
        if !attrs.is_empty() {
            push(&mut self.line, format_args!(" {} ", words::ATTRIBUTES));
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
            let (op, index, regions) = match step {
                Step::Statement(op) => {
                    steps.extend(body.next_op(op).map(Step::Statement));
                    let regions = self.statement(op);
                    if let Some(regions) = regions {
                        steps.push(Step::Regions(op, 0, regions));
                        self.line.push(" {");
                        self.line.flush(depth, self.out)?;
                        depth += 1;
                    } else {
                        self.line.flush(depth, self.out)?;
                    }
                    continue;
                }
                Step::Regions(op, index, regions) => (op, index, regions),
            };
            let is_over = index == body.regions(op).len();
            if let Regions::Cases(tags) = &regions {
                if index > 0 {
                    depth -= 1;
                    self.line.push("}");
                    self.line.flush(depth, self.out)?;
                }
                if !is_over {
                    self.case(tags.get(index), body.region_block(op, index));
                    self.line.flush(depth, self.out)?;
                    depth += 1;
                }
            } else if index > 0 && !is_over {
                self.line.push("} ");
                self.between(&regions, body.region_block(op, index));
                self.line.push(" {");
                self.line.flush(depth - 1, self.out)?;
            }
            if is_over {
                depth -= 1;
                self.line.push("}");
                self.line.flush(depth, self.out)?;
                continue;
            }
            steps.push(Step::Regions(op, index + 1, regions));
            let block = body.region_block(op, index);
            steps.extend(body.first_op(block).map(Step::Statement));
        }
        Ok(())
    }

    /// `1(%x: T) => {`, or `_ => {`.
    fn case(&mut self, tag: Option<&i64>, block: BlockId) {
        match tag {
            Some(tag) => push(&mut self.line, format_args!("{tag}")),
            None => self.line.push("_"),
        }
        if !self.body.block_args(block).is_empty() {
            self.arguments(block);
        }
        self.line.push(" => {");
    }

    /// What stands between the `}` of a region and the `{` of the next one, which is `block`.
    fn between(&mut self, regions: &Regions, block: BlockId) {
        match regions {
            Regions::Branches => self.line.push(words::ELSE),
            _ => self.with(block),
        }
    }

    /// `with (%i: T)`, before a block of an operation without a form of its own.
    fn with(&mut self, block: BlockId) {
        self.line.push(words::WITH);
        if !self.body.block_args(block).is_empty() {
            self.line.push(" ");
            self.arguments(block);
        }
    }

    /// `op` as a `T` with so many regions and nothing besides its fields.
    fn exactly<T: OpFields<ValueId>>(&self, op: OpId, regions: usize) -> Option<T> {
        let form: T = self.body.view(op)?;
        let exact = form.attrs() == self.body.attrs(op) && self.body.regions(op).len() == regions;
        exact.then_some(form)
    }

    /// The same of an operation without regions that gives so many results.
    fn gives<T: OpFields<ValueId>>(&self, op: OpId, results: usize) -> Option<T> {
        self.exactly(op, 0).filter(|_| self.body.result_count(op) == results)
    }

    /// Writes the statement of `op`, without its regions.
    fn statement(&mut self, op: OpId) -> Option<Regions> {
        if let Some(Constant { value }) = self.gives(op, 1) {
            let ty = self.body.ty(self.body.result(op, 0));
            self.results(op, ty != value.ty());
            self.constant(&value);
        } else if let Some(Call { function, arguments }) = self.exactly(op, 0) {
            self.results(op, true);
            self.call(words::CALL, function, &arguments);
        } else if let Some(Kernel { function, inputs }) = self.exactly(op, 0) {
            self.results(op, true);
            self.call(words::KERNEL, function, &inputs);
        } else if let Some(Rows { kernels, inputs }) = self.exactly(op, 0)
            && !kernels.is_empty()
        {
            self.results(op, true);
            self.rows(&kernels, &inputs);
        } else if let Some(Tail { function, arguments }) = self.gives(op, 0) {
            self.call(words::TAIL, function, &arguments);
        } else if let Some(Construct { tag, fields }) = self.gives(op, 1) {
            self.results(op, true);
            push(&mut self.line, format_args!("{} {tag}", words::CONSTRUCT));
            if !fields.is_empty() {
                self.values(&fields);
            }
        } else if let Some(Cell { values }) = self.gives(op, 1) {
            self.results(op, true);
            self.line.push(words::CELL);
            self.values(&values);
        } else if let Some(Read { cell }) = self.exactly(op, 0) {
            self.results(op, true);
            self.word(words::READ, cell);
        } else if let Some(Write { cell, values }) = self.gives(op, 0) {
            self.word(words::WRITE, cell);
            self.values(&values);
        } else if let Some(Dup { value }) = self.gives(op, 0) {
            self.word(words::DUP, value);
        } else if let Some(Drop { value }) = self.gives(op, 0) {
            self.word(words::DROP, value);
        } else if let Some(Fail { message }) = self.gives(op, 0) {
            push(&mut self.line, format_args!("{} ", words::FAIL));
            lexer::quote_into(&message, self.line.text());
        } else if let Some(Yield { values }) = self.gives(op, 0) {
            self.line.push(words::YIELD);
            for (index, value) in values.iter().enumerate() {
                self.line.push(if index > 0 { ", " } else { " " });
                self.names.write(*value, self.line.text());
            }
        } else {
            return self.nested(op);
        }
        None
    }

    /// The same of an operation that may have regions.
    fn nested(&mut self, op: OpId) -> Option<Regions> {
        let body = self.body;
        let count = body.regions(op).len();
        let takes_nothing = |index| body.block_args(body.region_block(op, index)).is_empty();
        let branches = self.exactly(op, 2).filter(|_| (0..2).all(takes_nothing));
        if let Some(If { condition }) = branches {
            self.results(op, true);
            self.word(words::IF, condition);
            return Some(Regions::Branches);
        }
        if let Some(Switch { data, tags }) = self.exactly(op, count)
            && (count == tags.len() || (count == tags.len() + 1 && takes_nothing(tags.len())))
        {
            self.results(op, true);
            self.word(words::SWITCH, data);
            return Some(Regions::Cases(tags));
        }
        self.results(op, true);
        lexer::quote_into(body.op_name(op).as_str(), self.line.text());
        let operands: Vec<ValueId> = body.operands(op).collect();
        self.values(&operands);
        let attrs = body.attrs(op);
        if !attrs.is_empty() {
            self.line.push(" ");
            write_dict(attrs, self.registry.def_of(body, op), self.options, &mut self.line);
        }
        if count == 0 {
            return None;
        }
        self.line.push(" ");
        self.with(body.region_block(op, 0));
        Some(Regions::Other)
    }

    /// `%a: T, %b: U = `, where `op` has results.
    fn results(&mut self, op: OpId, typed: bool) {
        for (index, result) in self.body.results(op).enumerate() {
            if index > 0 {
                self.line.comma();
            }
            self.define(result, typed);
        }
        if self.body.result_count(op) > 0 {
            self.line.push(" = ");
        }
    }

    /// `constant 1f`, or `constant dense<…>`.
    fn constant(&mut self, value: &TensorData) {
        push(&mut self.line, format_args!("{} ", words::CONSTANT));
        match scalar_text(value, DType::INT64) {
            Some(text) => self.line.push(&text),
            None => write_attr(value.clone().to_attr(), self.options, &mut self.line),
        }
    }

    /// `call @f(%x, %y)`.
    fn call(&mut self, word: &str, function: Symbol, values: &[ValueId]) {
        push(&mut self.line, format_args!("{word} @"));
        lexer::name_into(function.as_str(), self.line.text());
        self.values(values);
    }

    /// `rows @f, @g(%x, %y)`.
    fn rows(&mut self, kernels: &[Symbol], inputs: &[ValueId]) {
        self.line.push(words::ROWS);
        for (index, kernel) in kernels.iter().enumerate() {
            self.line.push(if index > 0 { ", @" } else { " @" });
            lexer::name_into(kernel.as_str(), self.line.text());
        }
        self.values(inputs);
    }

    /// `drop %x`.
    fn word(&mut self, word: &str, value: ValueId) {
        push(&mut self.line, format_args!("{word} "));
        self.names.write(value, self.line.text());
    }

    // ---- parts -----------------------------------------------------------------------------

    fn ty(&mut self, ty: Type) {
        push(&mut self.line, format_args!("{ty}"));
    }

    /// `%x`, or `%x: T`, where it is defined.
    fn define(&mut self, value: ValueId, typed: bool) {
        self.names.define(self.body, value);
        self.names.write(value, self.line.text());
        if typed {
            self.line.push(": ");
            self.ty(self.body.ty(value));
        }
    }

    /// `(%x: T, %y: U)`, which `block` takes.
    fn arguments(&mut self, block: BlockId) {
        let arguments = self.body.block_args(block);
        self.list(arguments, |printer, value| printer.define(*value, true));
    }

    /// `(%x, %y)`.
    fn values(&mut self, values: &[ValueId]) {
        self.list(values, |printer, value| printer.names.write(*value, printer.line.text()));
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.line.open('(');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.line.comma();
            }
            write(self, item);
        }
        self.line.close(')');
    }
}

fn push(line: &mut Line, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = line.text().write_fmt(arguments);
}
