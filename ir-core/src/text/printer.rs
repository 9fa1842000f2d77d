//! Prints modules in the generic form.

use std::fmt::Write;
use std::io;

use rustc_hash::FxHashMap;

use super::attributes::{PrintOptions, write_dict};
use super::layout::Line;
use super::lexer;
use crate::body::{Binding, Body};
use crate::ids::{BlockId, EntityId, OpId, ValueId};
use crate::intern::Symbol;
use crate::module::{Item, Module};
use crate::registry::Registry;
use crate::types::Type;

/// Writes `module` in the generic form. Large constants are left out; see [`print_with`].
pub fn print(module: &Module, registry: &Registry, out: &mut dyn io::Write) -> io::Result<()> {
    print_with(module, registry, &PrintOptions::default(), out)
}

/// Writes `module` in the generic form. Streams: of the text, only one operation is held in
/// memory. Pass a buffered writer.
pub fn print_with(
    module: &Module,
    registry: &Registry,
    options: &PrintOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut printer = Printer::new(registry, options, out);
    for (index, (name, item)) in module.items.iter().enumerate() {
        if index > 0 {
            printer.out.write_all(b"\n")?;
        }
        printer.item(*name, item)?;
    }
    Ok(())
}

/// Writes one item in the generic form.
pub fn print_item(
    name: Symbol,
    item: &Item,
    registry: &Registry,
    options: &PrintOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    Printer::new(registry, options, out).item(name, item)
}

/// The place of a value among those of its item that share its name, or among the unnamed ones.
const UNNUMBERED: u32 = u32::MAX;

struct Printer<'a> {
    registry: &'a Registry,
    options: &'a PrintOptions,
    out: &'a mut dyn io::Write,
    line: Line,
    types: FxHashMap<Type, String>,
    /// Number of each value of the current item, by index.
    numbers: Vec<u32>,
}

enum Step {
    Op(OpId),
    /// Region `index` of an operation: its separator or, past the last one, its end.
    Region(OpId, usize),
    Leave,
}

impl<'a> Printer<'a> {
    fn new(registry: &'a Registry, options: &'a PrintOptions, out: &'a mut dyn io::Write) -> Self {
        let (line, types, numbers) = Default::default();
        Printer { registry, options, out, line, types, numbers }
    }

    fn item(&mut self, name: Symbol, item: &Item) -> io::Result<()> {
        let signature = &item.signature;
        lexer::quote_into(signature.op.as_str(), self.line.text());
        self.line.push(" @");
        lexer::name_into(name.as_str(), self.line.text());
        if !signature.attrs.is_empty() {
            self.line.push(" ");
            let def = self.registry.def(signature.op);
            write_dict(signature.attrs, def, self.options, &mut self.line);
        }
        self.line.push(" : ");
        self.ty(signature.ty);
        let Some(body) = &item.body else { return self.line.flush(0, self.out) };
        self.line.push(" {");
        self.line.flush(0, self.out)?;
        self.number(body);
        self.body(body)?;
        self.out.write_all(b"}\n")
    }

    /// Gives every value its number, in the order of printing.
    fn number(&mut self, body: &Body) {
        self.numbers.clear();
        self.numbers.resize(body.value_capacity(), UNNUMBERED);
        let mut counts: FxHashMap<Option<Symbol>, u32> = FxHashMap::default();
        let mut unnamed = 0;
        let numbers = &mut self.numbers;
        let mut visit = |value: ValueId| {
            let count = match body.name_hint(value).name {
                None => &mut unnamed,
                name => counts.entry(name).or_default(),
            };
            numbers[value.index()] = *count;
            *count += 1;
        };
        body.block_args(body.entry()).iter().for_each(|arg| visit(*arg));
        for op in body.walk() {
            // Results print before what is inside the operation.
            body.results(op).for_each(&mut visit);
            for region in body.regions(op) {
                body.block_args(body.block_of(*region)).iter().for_each(|arg| visit(*arg));
            }
        }
    }

    fn body(&mut self, body: &Body) -> io::Result<()> {
        let mut pending = vec![Step::Leave];
        let mut depth = 1;
        self.block_head(body, body.entry(), depth)?;
        pending.extend(body.first_op(body.entry()).map(Step::Op));
        while let Some(step) = pending.pop() {
            match step {
                Step::Op(op) => {
                    pending.extend(body.next_op(op).map(Step::Op));
                    self.op_head(body, op);
                    if body.has_regions(op) {
                        self.line.push(" (");
                        pending.push(Step::Region(op, 0));
                    } else {
                        self.op_tail(body, op);
                        self.line.flush(depth, self.out)?;
                    }
                }
                Step::Region(op, index) => match body.regions(op).get(index) {
                    None => {
                        self.line.push("})");
                        self.op_tail(body, op);
                        self.line.flush(depth, self.out)?;
                    }
                    Some(region) => {
                        self.line.push(if index == 0 { "{" } else { "}, {" });
                        self.line.flush(depth, self.out)?;
                        depth += 1;
                        let block = body.block_of(*region);
                        self.block_head(body, block, depth)?;
                        pending.extend([Step::Region(op, index + 1), Step::Leave]);
                        pending.extend(body.first_op(block).map(Step::Op));
                    }
                },
                Step::Leave => depth -= 1,
            }
        }
        Ok(())
    }

    fn block_head(&mut self, body: &Body, block: BlockId, depth: usize) -> io::Result<()> {
        let args = body.block_args(block);
        if args.is_empty() {
            return Ok(());
        }
        self.line.push("^");
        self.line.open('(');
        for (index, arg) in args.iter().enumerate() {
            if index > 0 {
                self.line.comma();
            }
            self.value(body, *arg);
            self.line.push(": ");
            self.ty(body.ty(*arg));
        }
        self.line.close(')');
        self.line.push(":");
        self.line.flush(depth, self.out)
    }

    fn op_head(&mut self, body: &Body, op: OpId) {
        let mut results = body.results(op).peekable();
        if let Some(first) = results.peek() {
            if body.name_hint(*first).binding == Binding::Let {
                self.line.push("let ");
            }
            for (index, result) in results.enumerate() {
                if index > 0 {
                    self.line.push(", ");
                }
                self.value(body, result);
            }
            self.line.push(" = ");
        }
        lexer::quote_into(body.op_name(op).as_str(), self.line.text());
        self.line.open('(');
        for (index, operand) in body.operands(op).enumerate() {
            if index > 0 {
                self.line.comma();
            }
            self.value(body, operand);
        }
        self.line.close(')');
    }

    fn op_tail(&mut self, body: &Body, op: OpId) {
        let attrs = body.attrs(op);
        if !attrs.is_empty() {
            self.line.push(" ");
            write_dict(attrs, self.registry.def_of(body, op), self.options, &mut self.line);
        }
        self.line.push(" : ");
        self.types(body.operands(op).map(|value| body.ty(value)));
        self.line.push(" -> ");
        match body.result_count(op) {
            1 => self.ty(body.ty(body.result(op, 0))),
            _ => self.types(body.results(op).map(|value| body.ty(value))),
        }
    }

    fn types(&mut self, types: impl Iterator<Item = Type>) {
        self.line.open('(');
        for (index, ty) in types.enumerate() {
            if index > 0 {
                self.line.comma();
            }
            self.ty(ty);
        }
        self.line.close(')');
    }

    fn ty(&mut self, ty: Type) {
        self.line.push(self.types.entry(ty).or_insert_with(|| ty.to_string()));
    }

    fn value(&mut self, body: &Body, value: ValueId) {
        let text = self.line.text();
        text.push('%');
        let number = self.numbers[value.index()];
        // Writing to a string does not fail.
        let _ = match body.name_hint(value).name {
            _ if number == UNNUMBERED => text.write_str("\"<outside the item>\""),
            None => write!(text, "{number}"),
            Some(name) => {
                lexer::name_into(name.as_str(), text);
                if number == 0 { Ok(()) } else { write!(text, "#{number}") }
            }
        };
    }
}
