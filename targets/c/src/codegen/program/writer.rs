//! Functions of programs as C functions.

mod bounded;
mod calls;
mod frames;
mod holes;
mod rows;
mod scalars;
mod shapes;
mod sized;

use ir_core::{Attr, BlockId, Body, Diagnostics, OpId, Symbol, Type, ValueDef, ValueId};
use prog::{
    Bounded, Call, Cell, Constant, Construct, Drop, Dup, Expect, Extent, Fail, If, Indices, Kernel,
    Open, Operate, Order, Read, Reshape, Rows, Sized, Switch, Tail, Write, Yield,
};
use rustc_hash::{FxHashMap, FxHashSet};
use target_core::package::c::comment;

use super::kinds::field;
use super::{Called, Context, c_type, tensor_bytes};
use frames::Waits;
use holes::Holes;

/// What a function of the program is called in C.
pub(super) fn function_name(cx: &Context<'_>, name: Symbol) -> String {
    let place = cx.module.items.get_index_of(&name).expect("a function of the module");
    format!("{}function_{place}", cx.prefix)
}

/// The functions of `group` as C functions. The kernels that they call are added to `callees`.
pub(super) fn group(
    cx: &Context<'_>,
    group: &[Symbol],
    numbers: &FxHashMap<Symbol, usize>,
    callees: &mut Vec<Symbol>,
) -> Result<String, Diagnostics> {
    let mut writer = Writer {
        cx,
        members: group.iter().copied().collect(),
        first: group.iter().map(|name| numbers[name]).min().expect("a group has functions"),
        functions: Vec::new(),
        names: FxHashMap::default(),
        variables: String::new(),
        count: 0,
        out: String::new(),
        depth: 1,
        jumps: false,
        waits: Waits::default(),
        holes: Holes::default(),
        registers: Vec::new(),
        callees,
    };
    Ok(writer.group(group))
}

/// A function of a group.
struct Function<'m> {
    name: Symbol,
    body: &'m Body,
    params: Vec<Type>,
    results: Vec<Type>,
}

/// What is left to write.
enum Step {
    /// The operations of a block from here on.
    From(Option<OpId>),
    /// A line of its own.
    Line(String),
    /// Lines, and one level further in.
    Inside(Vec<String>),
    /// One level back out, then a line.
    Close(String),
}

/// Blocks of C lie in one another no deeper than about this: deeper ones are jumped to. Compilers have to take
/// 127 levels, and lines stay readable.
const DEEPEST: usize = 24;

/// The end of a block.
fn close() -> Step {
    Step::Close("}".to_string())
}

struct Writer<'w, 'a> {
    cx: &'w Context<'a>,
    members: FxHashSet<Symbol>,
    /// Tells the names of this group from those of others.
    first: usize,
    functions: Vec<Function<'w>>,
    /// The variable of each value, by function.
    names: FxHashMap<(usize, ValueId), String>,
    /// Their declarations.
    variables: String,
    count: usize,
    out: String,
    depth: usize,
    /// Whether a function of the group is jumped to.
    jumps: bool,
    waits: Waits,
    /// The calls that nothing waits for, where the function is alone.
    holes: Holes,
    /// Variables for the results of a function that something of the group waits for, by their types.
    registers: Vec<(Vec<Type>, Vec<String>)>,
    callees: &'w mut Vec<Symbol>,
}

impl<'w> Writer<'w, '_> {
    fn group(&mut self, group: &[Symbol]) -> String {
        let module = self.cx.module;
        for &name in group {
            let item = module.get(name).expect("groups are of functions of the module");
            let body = item.body.as_deref().expect("functions of programs have bodies");
            let ty = item.signature.ty.as_function().expect("functions have their types");
            let (params, results) = (ty.params.to_vec(), prog::results(&ty.result).to_vec());
            self.functions.push(Function { name, body, params, results });
        }
        if let [Function { name, body, results, .. }] = &self.functions[..] {
            self.holes = Holes::of(*name, body, results);
        }
        for number in 0..self.functions.len() {
            let body = self.functions[number].body;
            for block in body.walk_blocks() {
                for &argument in body.block_args(block) {
                    self.declare(number, argument);
                }
            }
            for op in body.walk() {
                for result in body.results(op) {
                    self.declare(number, result);
                }
                let is_member = |name: &Symbol| self.members.contains(name);
                self.jumps |= body.view::<Tail>(op).is_some_and(|op| is_member(&op.function));
                self.jumps |= body.view::<Call>(op).is_some_and(|op| is_member(&op.function));
            }
        }
        for number in 0..self.functions.len() {
            self.waits.find(number, self.functions[number].body, &self.members, &self.holes);
        }
        for number in 0..self.functions.len() {
            self.function(number);
        }
        self.assemble()
    }

    /// The members of the group, and the functions that others call.
    fn assemble(&mut self) -> String {
        let p = &self.cx.prefix;
        let frames = self.frame_types();
        let variables = std::mem::take(&mut self.variables);
        let body = std::mem::take(&mut self.out);
        let mut text = String::new();
        for (number, function) in self.functions.iter().enumerate() {
            let comment = comment(&format!("@{}", function.name));
            if let [_] = self.functions[..] {
                let leave = self.leave(number);
                text += &format!("\n/* {comment} */\n{frames}{}\n{{\n", self.prototype(number));
                text += &format!("{variables}{}{body}{leave}}}\n", self.start(&[number]));
            } else if self.cx.entered.contains(&function.name) {
                text += &self.wrapper(number, &comment);
            }
        }
        if self.functions.len() > 1 {
            let numbers: Vec<usize> = (0..self.functions.len()).collect();
            let mut leave = String::new();
            if self.waits.any() {
                leave += "leave:\n";
            }
            leave += "    switch (entry) {\n";
            for number in numbers.iter().copied() {
                leave += &format!("    case {number}:\n{}", self.stores(number, "        "));
                leave += "        break;\n";
            }
            leave += "    }\n    return 0;\n";
            let returned = self.returned();
            let types: String = numbers.iter().map(|number| self.call_type(*number)).collect();
            let head =
                format!("static int {p}group_{}({p}state *p, int entry, void *call)", self.first);
            text = format!(
                "\n{types}{frames}{head};\n{text}\n{head}\n{{\n{variables}{}{body}{returned}{leave}}}\n",
                self.start(&numbers)
            );
        }
        text
    }

    fn declare(&mut self, function: usize, value: ValueId) {
        let name = format!("v{}", self.count);
        self.count += 1;
        let body = self.functions[function].body;
        // Kernels and functions elsewhere write their results anyway.
        let is_written = match body.def(value) {
            ValueDef::Result(op, _) => {
                let call = body.view::<Call>(op);
                body.is::<Kernel>(op)
                    || body.is::<Rows>(op)
                    || body.is::<Bounded>(op)
                    || body.is::<Sized>(op)
                    || body.is::<Reshape>(op)
                    || body.is::<Indices>(op)
                    || body.is::<Order>(op)
                    || call.is_some_and(|call| !self.members.contains(&call.function))
            }
            _ => false,
        };
        if is_written || (self.is_read(function, value) && !self.holes.is_result(value)) {
            let c = c_type(&self.cx.prefix, body.ty(value));
            self.variables += &format!("    {c} {name};\n");
        }
        self.names.insert((function, value), name);
    }

    fn name(&self, function: usize, value: ValueId) -> &str {
        &self.names[&(function, value)]
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out += "    ";
        }
        self.out += text;
        self.out.push('\n');
    }

    fn ty(&self, function: usize, value: ValueId) -> Type {
        self.functions[function].body.ty(value)
    }

    /// The address of the object that `value` is or that owns it; none of a scalar.
    fn object(&self, function: usize, value: ValueId) -> Option<String> {
        let name = self.name(function, value);
        let ty = self.ty(function, value);
        let object =
            if ty.as_tensor().is_some() { format!("{name}.owner") } else { name.to_string() };
        prog::is_counted(ty).then_some(object)
    }

    fn function(&mut self, number: usize) {
        let body = self.functions[number].body;
        if self.jumps {
            self.out += &format!("enter_{number}:;\n");
        }
        self.count("visit", self.functions[number].name);
        let mut pending = vec![Step::From(body.first_op(body.entry()))];
        while let Some(step) = pending.pop() {
            match step {
                Step::Line(line) => self.line(&line),
                Step::Inside(lines) => {
                    lines.iter().for_each(|line| self.line(line));
                    self.depth += 1;
                }
                Step::Close(line) => {
                    self.depth -= 1;
                    if !line.is_empty() {
                        self.line(&line);
                    }
                }
                Step::From(None) => {}
                Step::From(Some(op)) => {
                    pending.push(Step::From(body.next_op(op)));
                    self.operation(number, op, &mut pending);
                }
            }
        }
    }

    fn operation(&mut self, number: usize, op: OpId, pending: &mut Vec<Step>) {
        let body = self.functions[number].body;
        let p = self.cx.prefix.clone();
        if let Some(Constant { value }) = body.view(op) {
            let name = self.name(number, body.result(op, 0)).to_string();
            match value.rank() {
                0 => {
                    let text = scalars::text(&value);
                    let c = c_type(&p, value.ty());
                    self.line(&scalars::assign(&name, &c, &text));
                }
                _ => {
                    let index = self.cx.constants[&Attr::of(&value)];
                    let data = format!("p->constants[{index}]");
                    self.line(&format!("{name} = ({p}tensor){{{data}, {p}NOBODY}};"));
                }
            }
        } else if let Some(Kernel { function, inputs }) = body.view(op) {
            self.kernel(number, op, function, &inputs);
        } else if let Some(rows) = body.view::<Rows>(op) {
            self.rows(number, op, &rows);
        } else if let Some(bounded) = body.view::<Bounded>(op) {
            self.bounded(number, op, &bounded);
        } else if let Some(sized) = body.view::<Sized>(op) {
            self.sized(number, op, &sized);
        } else if let Some(reshape) = body.view::<Reshape>(op) {
            self.reshape(number, op, &reshape);
        } else if let Some(Indices { tensor }) = body.view(op) {
            self.indices(number, op, tensor);
        } else if let Some(order) = body.view::<Order>(op) {
            self.order(number, op, &order);
        } else if let Some(expect) = body.view::<Expect>(op) {
            self.expect(number, op, &expect);
        } else if let Some(extent) = body.view::<Extent>(op) {
            self.extent(number, op, &extent);
        } else if let Some(Operate { inputs, .. }) = body.view(op) {
            self.operate(number, op, &inputs);
        } else if let Some(Open { tensor }) = body.view(op) {
            self.open(number, op, tensor);
        } else if let Some(Call { function, arguments }) = body.view(op) {
            self.call(number, op, function, &arguments);
        } else if let Some(Tail { function, arguments }) = body.view(op) {
            self.tail(number, function, &arguments);
        } else if let Some(If { condition }) = body.view(op) {
            let condition = self.name(number, condition).to_string();
            let blocks = self.blocks(number, op);
            if self.depth >= DEEPEST {
                let [other, end] = self.labels();
                pending.push(Step::Line(format!("{end}:;")));
                pending.push(Step::From(body.first_op(blocks[1])));
                pending.push(Step::Line(format!("{other}:;")));
                pending.push(Step::Line(format!("goto {end};")));
                pending.push(Step::From(body.first_op(blocks[0])));
                self.line(&format!("if (!{condition}) {{ goto {other}; }}"));
                return;
            }
            pending.push(close());
            pending.push(Step::From(body.first_op(blocks[1])));
            pending.push(Step::Inside(vec!["} else {".to_string()]));
            pending.push(Step::Close(String::new()));
            pending.push(Step::From(body.first_op(blocks[0])));
            pending.push(Step::Inside(vec![format!("if ({condition}) {{")]));
        } else if let Some(switch) = body.view::<Switch>(op) {
            self.switch(number, op, &switch, pending);
        } else if let Some(call) = self.holes.call(op) {
            self.start_again(number, op, call);
        } else if let Some(Construct { tag, fields }) = body.view(op) {
            let result = body.result(op, 0);
            let (first, _) = self.cx.kinds.data(body.ty(result));
            match fields.is_empty() {
                true => {
                    let name = self.name(number, result).to_string();
                    let value = (tag as u64) << 1 | 1;
                    self.line(&format!("{name} = ({p}object *)(uintptr_t){value}u;"));
                }
                false => self.object_of(number, op, first + tag as usize, &fields),
            }
        } else if let Some(Cell { values }) = body.view(op) {
            let held: Vec<Type> = values.iter().map(|value| body.ty(*value)).collect();
            self.object_of(number, op, self.cx.kinds.of_cell(&held), &values);
        } else if let Some(Read { cell }) = body.view(op) {
            let results: Vec<ValueId> = body.results(op).collect();
            let kind = self.cell_kind(number, cell);
            self.load(number, &results, cell, kind);
            for result in results {
                self.dup(number, result);
            }
        } else if let Some(Write { cell, values }) = body.view(op) {
            let kind = self.cell_kind(number, cell);
            let of = format!("(({p}kind_{kind} *)(void *){})", self.name(number, cell));
            self.line("{");
            self.depth += 1;
            let mut old = Vec::new();
            for (index, &value) in values.iter().enumerate() {
                let owner = self.owner_field(number, index, value);
                if let Some(owner) = owner {
                    self.line(&format!("{p}object *old{index} = {of}->{owner};"));
                    old.push(index);
                }
            }
            self.store(number, &of, &values);
            for index in old {
                self.line(&format!("{p}drop(p, old{index});"));
            }
            self.depth -= 1;
            self.line("}");
        } else if let Some(Dup { value }) = body.view(op) {
            self.dup(number, value);
        } else if let Some(Drop { value }) = body.view(op) {
            self.drop(number, value);
        } else if body.is::<Fail>(op) {
            let site = self.site(number, op);
            self.line(&format!("return {p}fail(p, 2, {site});"));
        } else if self.holes.is_end(op) {
            // The function has started again.
        } else if let Some(Yield { values }) = body.view(op) {
            self.end(number, op, &values);
        }
    }

    /// Says from where on time is that of `name`, where that is counted.
    fn count(&mut self, how: &str, name: Symbol) {
        if let Some(counter) = self.cx.counters.get_index_of(&name) {
            let p = &self.cx.prefix;
            self.line(&format!("{p}{how}(p, {counter});"));
        }
    }

    /// The number of the first site of `op`.
    fn site(&self, number: usize, op: OpId) -> usize {
        let found = self.cx.sites.get(&(self.functions[number].name, op));
        found.copied().unwrap_or(0) // An operation that cannot fail says so nowhere.
    }

    /// Whether anything reads `value`. Compilers warn of variables that nothing reads.
    fn is_read(&self, function: usize, value: ValueId) -> bool {
        !self.functions[function].body.is_unused(value)
    }

    fn blocks(&self, number: usize, op: OpId) -> Vec<BlockId> {
        let body = self.functions[number].body;
        body.regions(op).iter().map(|region| body.block_of(*region)).collect()
    }

    fn is_constant(&self, number: usize, value: ValueId) -> bool {
        self.functions[number].body.view_def::<Constant>(value).is_some()
    }

    fn dup(&mut self, number: usize, value: ValueId) {
        if let Some(object) =
            self.object(number, value).filter(|_| !self.is_constant(number, value))
        {
            let p = &self.cx.prefix;
            self.line(&format!("{p}dup({object});"));
        }
    }

    fn drop(&mut self, number: usize, value: ValueId) {
        if let Some(object) =
            self.object(number, value).filter(|_| !self.is_constant(number, value))
        {
            let p = &self.cx.prefix;
            self.line(&format!("{p}drop(p, {object});"));
        }
    }

    /// Ends a block with `values`.
    fn end(&mut self, number: usize, op: OpId, values: &[ValueId]) {
        let body = self.functions[number].body;
        let around = body.op_block(op).and_then(|block| body.block_parent(block));
        if let Some(around) = around {
            let results = body.results(around).zip(values);
            for (result, value) in
                results.filter(|(result, _)| self.is_read(number, *result)).collect::<Vec<_>>()
            {
                let (to, from) = (self.name(number, result), self.name(number, *value));
                self.line(&format!("{to} = {from};"));
            }
            return;
        }
        self.give(number, values);
    }

    /// A new object of `kind` with `fields`, as the result of `op`.
    fn object_of(&mut self, number: usize, op: OpId, kind: usize, fields: &[ValueId]) {
        let p = self.cx.prefix.clone();
        let result = self.functions[number].body.result(op, 0);
        let name = self.name(number, result).to_string();
        let (size, site) = (format!("sizeof({p}kind_{kind})"), self.site(number, op));
        self.line(&format!("{name} = {p}allocate(p, {kind}, {size}, 16, {site});"));
        self.line(&format!("if (!{name}) {{ return 1; }}"));
        let of = format!("(({p}kind_{kind} *)(void *){name})");
        self.store(number, &of, fields);
    }

    /// Makes what `made` does, with a hole for the result of `call`, and starts the function again, which
    /// fills it.
    fn start_again(&mut self, number: usize, made: OpId, call: OpId) {
        let body = self.functions[number].body;
        let (Some(Construct { tag, fields }), Some(Call { arguments, .. })) =
            (body.view(made), body.view(call))
        else {
            return;
        };
        let p = self.cx.prefix.clone();
        let result = body.result(made, 0);
        let (first, _) = self.cx.kinds.data(body.ty(result));
        let kind = first + tag as usize;
        self.object_of(number, made, kind, &fields);
        let name = self.name(number, result).to_string();
        let hole = fields.iter().position(|field| self.holes.is_result(*field));
        let hole = hole.expect("what is constructed holds the result of the call");
        self.line(&format!("*hole = {name};"));
        self.line(&format!("hole = &(({p}kind_{kind} *)(void *){name})->{};", field(hole)));
        self.jump(number, number, &arguments);
    }

    /// The field for the address that owns what field `index` holds, `value`; none for a scalar.
    fn owner_field(&self, number: usize, index: usize, value: ValueId) -> Option<String> {
        let ty = self.ty(number, value);
        match (prog::is_counted(ty), ty.as_tensor().is_some()) {
            (false, _) => None,
            (true, true) => Some(format!("owner{index}")),
            (true, false) => Some(field(index)),
        }
    }

    /// Stores `values` into the fields of the object `of`.
    fn store(&mut self, number: usize, of: &str, values: &[ValueId]) {
        for (index, &value) in values.iter().enumerate() {
            if self.holes.is_result(value) {
                continue;
            }
            let name = self.name(number, value).to_string();
            let is_tensor = self.ty(number, value).as_tensor().is_some();
            match self.owner_field(number, index, value).filter(|_| is_tensor) {
                Some(owner) => {
                    self.line(&format!("{of}->{owner} = {name}.owner;"));
                    self.line(&format!("{of}->f{index} = {name}.data;"));
                }
                None => self.line(&format!("{of}->f{index} = {name};")),
            }
        }
    }

    /// Loads the fields of `object`, which is of `kind`, into `values`.
    fn load(&mut self, number: usize, values: &[ValueId], object: ValueId, kind: usize) {
        let p = &self.cx.prefix;
        let of = format!("(({p}kind_{kind} *)(void *){})", self.name(number, object));
        for (index, &value) in values.iter().enumerate() {
            if !self.is_read(number, value) {
                continue;
            }
            let name = self.name(number, value).to_string();
            let is_tensor = self.ty(number, value).as_tensor().is_some();
            match self.owner_field(number, index, value).filter(|_| is_tensor) {
                Some(owner) => {
                    self.line(&format!("{name}.owner = {of}->{owner};"));
                    self.line(&format!("{name}.data = {of}->f{index};"));
                }
                None => self.line(&format!("{name} = {of}->f{index};")),
            }
        }
    }

    fn cell_kind(&self, number: usize, cell: ValueId) -> usize {
        let held = prog::contents(self.ty(number, cell)).expect("cells are read and written");
        self.cx.kinds.of_cell(&held)
    }

    /// Jumps to the block for the constructor of some data.
    fn switch(&mut self, number: usize, op: OpId, switch: &Switch, pending: &mut Vec<Step>) {
        let body = self.functions[number].body;
        let p = self.cx.prefix.clone();
        let name = self.name(number, switch.data).to_string();
        let (first, declaration) = self.cx.kinds.data(body.ty(switch.data));
        let constructors = &declaration.constructors;
        let with_fields: Vec<usize> =
            (0..constructors.len()).filter(|tag| !constructors[*tag].fields.is_empty()).collect();
        let tag_of_object = match with_fields[..] {
            [only] => only.to_string(),
            _ => format!("(uintptr_t)({name}->kind - {first}u)"),
        };
        let tag = match with_fields.len() {
            0 => format!("(uintptr_t){name} >> 1"),
            count if count == constructors.len() => tag_of_object,
            _ => format!("{p}is_object({name}) ? {tag_of_object} : (uintptr_t){name} >> 1"),
        };
        let blocks = self.blocks(number, op);
        let is_deep = self.depth >= DEEPEST;
        let [arm, end] = if is_deep { self.labels() } else { Default::default() };
        let mut jumps = vec![format!("switch ({tag}) {{")];
        pending.push(if is_deep { Step::Line(format!("{end}:;")) } else { close() });
        for (index, &block) in blocks.iter().enumerate().rev() {
            let leave = if is_deep { format!("goto {end};") } else { "break;".to_string() };
            pending.extend((!is_deep).then(close));
            pending.push(Step::Line(leave));
            pending.push(Step::From(body.first_op(block)));
            // The last block is for whatever is left, so that C sees that one is taken.
            let is_last = index + 1 == blocks.len();
            let label = match switch.tags.get(index).filter(|_| !is_last) {
                Some(tag) => format!("case {tag}:"),
                None => "default:".to_string(),
            };
            if let Some(&tag) = switch.tags.get(index) {
                let args = body.block_args(block).to_vec();
                let start = self.captured(|writer| {
                    writer.take(number, switch.data, first + tag as usize, &args);
                });
                pending.extend(start.into_iter().rev().map(Step::Line));
            } else {
                let start = self.captured(|writer| writer.drop(number, switch.data));
                pending.extend(start.into_iter().rev().map(Step::Line));
            }
            if is_deep {
                jumps.push(format!("{label} goto {arm}_{index};"));
                pending.push(Step::Line(format!("{arm}_{index}:;")));
            } else {
                pending.push(Step::Inside(vec![format!("{label} {{")]));
            }
        }
        match is_deep {
            true => jumps.iter().chain([&"}".to_string()]).for_each(|line| self.line(line)),
            false => pending.push(Step::Inside(jumps)),
        }
    }

    /// Labels that nothing else has.
    fn labels(&mut self) -> [String; 2] {
        self.count += 1;
        [format!("other_{}", self.count), format!("end_{}", self.count)]
    }

    /// The lines that `write` writes.
    fn captured(&mut self, write: impl FnOnce(&mut Self)) -> Vec<String> {
        let (out, depth) = (std::mem::take(&mut self.out), std::mem::take(&mut self.depth));
        write(self);
        self.depth = depth;
        let text = std::mem::replace(&mut self.out, out);
        text.lines().map(str::to_string).collect()
    }

    /// Takes the fields of `data`, an object of `kind`, as `fields`, and one owner from it.
    fn take(&mut self, number: usize, data: ValueId, kind: usize, fields: &[ValueId]) {
        if fields.is_empty() {
            return;
        }
        let p = self.cx.prefix.clone();
        let name = self.name(number, data).to_string();
        self.load(number, fields, data, kind);
        self.line(&format!("if ({name}->owners == 1) {{"));
        self.line(&format!("    {p}free(p, {name});"));
        self.line("} else {");
        self.line(&format!("    {name}->owners--;"));
        self.depth += 1;
        for &value in fields {
            self.dup(number, value);
        }
        self.depth -= 1;
        self.line("}");
    }

    /// Calls a kernel. Its results are new tensors, or one is an operand that nobody else has any more.
    fn kernel(&mut self, number: usize, op: OpId, function: Symbol, inputs: &[ValueId]) {
        let body = self.functions[number].body;
        self.callees.push(function);
        let called = (self.cx.kernels)(function).expect("kernels are written before");
        let checks = prog::sites::checks(self.cx.module, function).len();
        let site = self.site(number, op);
        let mut arguments = Vec::new();
        for &input in inputs {
            arguments.push(self.argument(number, input));
        }
        for (index, result) in body.results(op).enumerate() {
            let last = self
                .last_use(number, op, inputs, index, &called)
                .filter(|_| prog::is_counted(body.ty(result)));
            if let Some(input) = last {
                self.take_over(number, input, result);
            }
            self.new_tensor(number, result, site + checks);
            if last.is_some() {
                self.depth -= 1;
                self.line("}");
            }
            arguments.push(self.argument(number, result));
        }
        self.call_kernel(number, function, &called, arguments, (site, checks));
    }

    /// The operand of the kernel `called` that its result `index` may take the place of: one that is dropped
    /// behind `op`, and is no other operand as well.
    fn last_use(
        &self,
        number: usize,
        op: OpId,
        inputs: &[ValueId],
        index: usize,
        called: &Called,
    ) -> Option<ValueId> {
        let body = self.functions[number].body;
        let in_place = called.in_place.filter(|x| x.output == inputs.len() + index)?;
        let input = inputs[in_place.input];
        let is_alone = inputs.iter().filter(|other| **other == input).count() == 1;
        let drops = std::iter::successors(body.next_op(op), |op| body.next_op(*op));
        let mut drops = drops.map_while(|op| body.view::<Drop>(op));
        let is_dropped = drops.any(|drop| drop.value == input);
        let is_own = prog::is_counted(body.ty(input)) && !self.is_constant(number, input);
        (is_alone && is_dropped && is_own).then_some(input)
    }

    /// Gives `result` the memory of `input` where that has no other owner. What is written up to the end of
    /// the block is for where it has.
    fn take_over(&mut self, number: usize, input: ValueId, result: ValueId) {
        let p = &self.cx.prefix;
        let (from, to) = (self.name(number, input), self.name(number, result));
        // It is dropped behind the call.
        let lines = [
            format!("if ({p}is_alone({from}.owner)) {{"),
            format!("    {p}dup({from}.owner);"),
            format!("    {to} = {from};"),
            "} else {".to_string(),
        ];
        lines.iter().for_each(|line| self.line(line));
        self.depth += 1;
    }

    /// Calls the kernel `function` on `arguments`, whose checks have so many sites from a first one on.
    fn call_kernel(
        &mut self,
        number: usize,
        function: Symbol,
        called: &Called,
        mut arguments: Vec<String>,
        (site, checks): (usize, usize),
    ) {
        let p = self.cx.prefix.clone();
        if checks > 0 {
            self.line("{");
            self.depth += 1;
            self.line(&format!("int32_t failed[{checks}];"));
            arguments.push("failed".to_string());
        }
        if called.workspace > 0 {
            arguments.push("p->scratch".to_string());
        }
        if called.takes_threads {
            arguments.push("p->threads".to_string());
        }
        let is_counted = self.cx.counters.contains(&function);
        if is_counted {
            self.count("visit", function);
        }
        self.line(&format!("{}({});", called.symbol, arguments.join(", ")));
        if is_counted {
            self.count("resume", self.functions[number].name);
        }
        if checks > 0 {
            self.line(&format!("for (int i = 0; i < {checks}; i++) {{"));
            self.line(&format!("    if (failed[i]) {{ return {p}fail(p, 2, {site} + i); }}"));
            self.line("}");
            self.depth -= 1;
            self.line("}");
        }
    }

    /// Memory for `value`, a tensor of known extents; what is said at `site` where there is none.
    fn new_tensor(&mut self, number: usize, value: ValueId, site: usize) {
        let ty = self.ty(number, value);
        if prog::is_counted(ty) {
            let (name, p) = (self.name(number, value).to_string(), &self.cx.prefix);
            let bytes = tensor_bytes(ty).expect("tensors have known extents");
            let (kind, bytes) = self.cx.kinds.of_tensor(bytes);
            let new = format!("{p}allocate(p, {kind}, {bytes}u, 64, {site})");
            self.line(&format!("{name}.owner = {new};"));
            self.line(&format!("if (!{name}.owner) {{ return 1; }}"));
            let header = super::kinds::HEADER;
            self.line(&format!("{name}.data = (unsigned char *){name}.owner + {header};"));
        }
    }

    /// `values` as the elements of an array of buffers, which has at least one.
    fn buffers(&self, number: usize, values: &[ValueId]) -> String {
        let buffers: Vec<String> =
            values.iter().map(|value| self.argument(number, *value)).collect();
        if buffers.is_empty() { "0".to_string() } else { buffers.join(", ") }
    }

    /// Computes an operator. Its results are new tensors.
    fn operate(&mut self, number: usize, op: OpId, inputs: &[ValueId]) {
        let body = self.functions[number].body;
        let (p, name) = (self.cx.prefix.clone(), self.functions[number].name);
        let operator = self.cx.operators[&(name, op)];
        let site = self.site(number, op);
        let results: Vec<ValueId> = body.results(op).collect();
        let inputs = self.buffers(number, inputs);
        self.line("{");
        self.depth += 1;
        self.line(&format!("void *inputs[] = {{{inputs}}};"));
        self.line(&format!("int64_t bytes[{}];", results.len().max(1)));
        self.line(&format!("if (!{p}operate || {p}operate({operator}, inputs, bytes)) {{"));
        self.line(&format!("    return {p}fail(p, 2, {site});"));
        self.line("}");
        for (index, &result) in results.iter().enumerate() {
            if prog::is_open(body.ty(result)) {
                let (name, memory) = (self.name(number, result).to_string(), site + 1);
                let new = format!("{p}new_open(p, (size_t)bytes[{index}], {memory}, &{name})");
                self.line(&format!("if ({new}) {{ return 1; }}"));
            } else {
                self.new_tensor(number, result, site + 1);
            }
        }
        let outputs = self.buffers(number, &results);
        self.line("{");
        self.depth += 1;
        self.line(&format!("void *outputs[] = {{{outputs}}};"));
        self.line(&format!("if ({p}operate(-1, outputs, bytes)) {{"));
        self.line(&format!("    return {p}fail(p, 2, {site});"));
        self.line("}");
        for _ in 0..2 {
            self.depth -= 1;
            self.line("}");
        }
    }

    /// `tensor` with its extents, as the result of `op`.
    fn open(&mut self, number: usize, op: OpId, tensor: ValueId) {
        let result = self.functions[number].body.result(op, 0);
        let (ty, p, site) =
            (self.ty(number, tensor), self.cx.prefix.clone(), self.site(number, op));
        let bytes = tensor_bytes(ty).expect("tensors have known extents");
        let shape = ty.as_tensor().and_then(|tensor| tensor.known_shape());
        let shape = shape.expect("tensors have known extents");
        let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
        let (from, to) = (self.name(number, tensor), self.name(number, result));
        let axes = extents.len();
        let call = format!("{p}open(p, {from}, {bytes}u, extents, {axes}, {site}, &{to})");
        self.line("{");
        self.line(&format!("    const int64_t extents[] = {{{}}};", extents.join(", ")));
        self.line(&format!("    if ({call}) {{ return 1; }}"));
        self.line("}");
    }

    /// `value` as a buffer of a kernel.
    fn argument(&self, number: usize, value: ValueId) -> String {
        let name = self.name(number, value);
        match prog::is_counted(self.ty(number, value)) {
            true => format!("(void *){name}.data"),
            false => format!("&{name}"),
        }
    }
}
