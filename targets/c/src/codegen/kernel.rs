//! Statements: a kernel as a C function.

mod memory;
mod parallel;

use indexmap::IndexMap;
use ir_core::diagnostics::{Diagnostic, Diagnostics};
use ir_core::{BlockId, Body, DType, EntityId, Item, OpId, Symbol, ValueId};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use target_core::package::c::Names;
use te::compute::Yield;
use te::loops::{Alloc, Atomic, Barrier, Call, Data, Fetch, For, If, Store};

use super::Style;
use super::affine::{Affine, Linear};
use super::arms::Arms;
use super::chains::Chains;
use super::cuts::cut;
use super::expr::{Expr, SUM, storage};
use super::helpers::{Helpers, words};
use super::in_place::InPlace;
use super::kept::Kept;
use super::layout::{Layout, Variables, is_parallel};
use super::plan::Plan;
use super::ranges::Ranges;
use super::transposes::Transposes;
use super::values::Repr;
use super::words::{self, Words};

/// GCC writes out loops of as many iterations, by default. What these share would stay in registers, of which a tile has
/// left none, but for windows of 3.
const PEELED: std::ops::RangeInclusive<i64> = 4..=16;

/// What earlier kernels tell the later ones.
#[derive(Default)]
pub(super) struct Callees {
    pub(super) known: FxHashMap<Symbol, Callee>,
}

/// A kernel that others may call.
#[derive(Clone, Default)]
pub(super) struct Callee {
    /// Its function.
    pub(super) symbol: String,
    /// Bytes of its workspace.
    pub(super) workspace: usize,
    /// By buffer: whether it writes there.
    pub(super) writes: Vec<bool>,
    /// Whether it takes the threads of its caller.
    pub(super) takes_threads: bool,
}

/// A buffer in C.
#[derive(Clone, Debug)]
pub(super) enum Buffer {
    /// Elements in memory.
    Array { name: String, shape: Vec<i64> },
    /// Variables, each in pieces.
    Variables { names: Vec<Vec<String>>, shape: Vec<i64>, variables: Variables },
}

impl Buffer {
    /// The name of the array.
    ///
    /// # Panics
    /// Of a buffer in variables, which is asked for by element.
    pub(super) fn name(&self) -> &str {
        match self {
            Buffer::Array { name, .. } => name,
            Buffer::Variables { names, .. } => panic!("{names:?} are no array"),
        }
    }

    fn shape(&self) -> &[i64] {
        match self {
            Buffer::Array { shape, .. } | Buffer::Variables { shape, .. } => shape,
        }
    }
}

/// A variable that parallel loops may need.
struct Variable {
    ty: String,
    is_array: bool,
}

/// A parallel loop being written, as a function of its own.
struct Outlined {
    /// Its iterations or tasks.
    count: i64,
    index: String,
    function: String,
    /// Variables that exist outside.
    outside: usize,
    /// The text around it, and its depth.
    around: String,
    depth: usize,
    workspace: String,
    streams: bool,
    kept: Kept,
}

/// What is left to write.
enum Step {
    Op(OpId),
    /// Ends a branch.
    Close,
    /// Ends a loop over this index.
    EndLoop(String),
    /// Ends one branch and starts the other.
    Else(BlockId),
    /// Ends a parallel loop.
    Join,
}

/// Writes one kernel.
pub(super) struct Emitter<'a> {
    pub(super) body: &'a Body,
    pub(super) ranges: Ranges,
    pub(super) affine: Affine,
    pub(super) chains: Chains,
    pub(super) plan: Plan,
    pub(super) arms: Arms,
    pub(super) helpers: Helpers,
    pub(super) style: &'a Style,
    pub(super) names: Names,
    pub(super) values: FxHashMap<ValueId, Repr>,
    pub(super) buffers: FxHashMap<ValueId, Buffer>,
    pub(super) transposes: Transposes,
    pub(super) words: Words,
    layout: Layout,
    in_place: Option<InPlace>,
    callees: &'a Callees,
    item: &'a Item,
    /// The function's name.
    symbol: String,
    /// What exists so far, in order.
    scope: IndexMap<String, Variable, FxBuildHasher>,
    out: String,
    depth: usize,
    outlined: Option<Outlined>,
    outlined_count: usize,
    /// What the functions that are written keep.
    all_kept: Kept,
    /// Whether the function at hand stores past the caches.
    streams: bool,
    /// What it keeps.
    pub(super) kept: Kept,
    /// How the workspace at hand is called.
    workspace: String,
    /// How the threads of the caller are called, where the function takes them.
    threads: Option<String>,
    /// Functions of parallel loops, and constant arrays.
    functions: String,
    constants: String,
    errors: Diagnostics,
}

/// A kernel in C.
pub(super) struct Written {
    /// Constants, functions of parallel loops, and the function.
    pub(super) text: String,
    /// Its declaration, without `;`.
    pub(super) prototype: String,
    /// Names of its buffers.
    pub(super) names: Vec<String>,
    /// Types of its buffers in C.
    pub(super) types: Vec<String>,
    /// By buffer: whether it writes there.
    pub(super) writes: Vec<bool>,
    /// Bytes of workspace.
    pub(super) workspace: usize,
    pub(super) has_parallel_loops: bool,
    /// What its functions keep.
    pub(super) kept: Kept,
    /// Whether its last parameter is the threads of the caller.
    pub(super) takes_threads: bool,
    /// The operand and the result that may be one buffer.
    pub(super) in_place: Option<InPlace>,
    /// Whether it is declared only, and others provide it.
    pub(super) is_external: bool,
    /// The kernels that it calls.
    pub(super) callees: Vec<Symbol>,
    /// The types, functions and headers that it needs.
    pub(super) helpers: Helpers,
}

/// The function of others that `item` stands for. Code that is loaded into this process cannot rely
/// on one, and has the kernel's own.
pub(super) fn external(item: &Item, style: &Style) -> Option<String> {
    item.signature.attrs.value::<String>(te::compute::EXTERN).filter(|_| !style.entries)
}

/// The function of a kernel, which may change an operand where it is in a program (`is_program`).
pub(super) fn write(
    item: &Item,
    body: &Body,
    symbol: &str,
    style: &Style,
    is_program: bool,
    callees: &Callees,
) -> Result<Written, Diagnostics> {
    let (mut ranges, mut affine) = analyses(body);
    let parts = cut(body, &affine, &ranges);
    let body = parts.as_ref().unwrap_or(body);
    if parts.is_some() {
        (ranges, affine) = analyses(body);
    }
    let plan = Plan::of(body, &affine, &ranges);
    // A call of what has no body is refused.
    let workspace =
        |call: &Call| callees.known.get(&call.kernel).map_or(0, |known| known.workspace);
    let layout = Layout::of(body, &affine, &ranges, style.threads, workspace);
    let chains = Chains::of(body, &affine, &ranges);
    let arms = Arms::of(body, &layout);
    let transposes = Transposes::of(body, &affine, &ranges, style.vector_bits);
    let words = match style.vector_bits {
        // Portable C knows no order of bytes.
        0 => Words::none(body),
        _ => Words::of(&words::Kernel {
            body,
            ranges: &ranges,
            affine: &affine,
            layout: &layout,
            plan: &plan,
        }),
    };
    let inputs = body.block_args(body.entry()).len() - te::loops::outputs(&item.signature);
    let is_own = is_program && external(item, style).is_none();
    let in_place = is_own.then(|| InPlace::of(body, inputs, &affine, &ranges)).flatten();
    let mut emitter = Emitter {
        body,
        ranges,
        affine,
        chains,
        plan,
        arms,
        helpers: Helpers::new(style.vector_bits > 0),
        style,
        names: Names::default(),
        values: FxHashMap::default(),
        buffers: FxHashMap::default(),
        transposes,
        words,
        layout,
        in_place,
        callees,
        item,
        symbol: symbol.to_string(),
        scope: IndexMap::default(),
        out: String::new(),
        depth: 1,
        outlined: None,
        outlined_count: 0,
        all_kept: Kept::default(),
        streams: false,
        kept: Kept::default(),
        workspace: "workspace".to_string(),
        threads: None,
        functions: String::new(),
        constants: String::new(),
        errors: Diagnostics::new(),
    };
    // No variable hides a function that is called.
    for call in body.walk().filter_map(|op| body.view::<Call>(op)) {
        if let Some(callee) = callees.known.get(&call.kernel) {
            emitter.names.fresh_public(&callee.symbol);
        }
    }
    let written = emitter.kernel();
    if emitter.errors.is_empty() { Ok(written) } else { Err(emitter.errors) }
}

fn analyses(body: &Body) -> (Ranges, Affine) {
    let ranges = Ranges::of(body);
    let affine = Affine::of(body, &ranges);
    (ranges, affine)
}

impl Emitter<'_> {
    fn kernel(&mut self) -> Written {
        let body = self.body;
        let entry = body.entry();
        let model = self.style.model.as_ref().filter(|_| self.needs_threads());
        self.threads = model.map(|_| self.names.fresh("threads"));
        let (mut list, (names, types, writes)) = self.parameters();
        if let Some(name) = external(self.item, self.style) {
            return self.external(name, &list, (names, types, writes));
        }
        if self.layout.bytes > 0 {
            list.push("unsigned char *restrict workspace".to_string());
            self.declare("workspace", "unsigned char *", true);
        }
        if let (Some(model), Some(threads)) = (model, &self.threads) {
            list.push(format!("const {model}_threads *{threads}"));
        }
        if list.is_empty() {
            list.push("void".to_string());
        }
        let linkage = if self.style.model.is_some() { "static " } else { "" };
        let prototype = format!("{linkage}void {}({})", self.symbol, list.join(", "));
        self.statements(entry);
        self.end_streams();
        let out = self.unmentioned(&names) + &self.out;
        let attribute = self.attribute();
        let text = format!("{}{attribute}{prototype}\n{{\n{out}}}\n", self.functions);
        let text = format!("{}{}", self.constants, without_unused(&text));
        let workspace = self.layout.bytes;
        let mut helpers = std::mem::take(&mut self.helpers);
        helpers.retain_called(&text);
        Written {
            text,
            prototype,
            names,
            types,
            writes,
            workspace,
            has_parallel_loops: self.outlined_count > 0,
            kept: self.all_kept,
            takes_threads: self.threads.is_some(),
            in_place: self.in_place,
            is_external: false,
            callees: body.walk().filter_map(|op| Some(body.view::<Call>(op)?.kernel)).collect(),
            helpers,
        }
    }

    /// Declares the parameters: their list, and of each its name, its type, and whether it is
    /// written.
    fn parameters(&mut self) -> (Vec<String>, (Vec<String>, Vec<String>, Vec<bool>)) {
        let body = self.body;
        let params = body.block_args(body.entry()).to_vec();
        let is_written = self.written();
        let inputs = params.len() - te::loops::outputs(&self.item.signature);
        let (mut names, mut types, mut writes, mut list) = (vec![], vec![], vec![], vec![]);
        for (index, &param) in params.iter().enumerate() {
            let hint = body.name_hint(param).name.map(|name| name.as_str().to_string());
            let fallback = if index < inputs { "input" } else { "output" };
            let name = self.names.fresh(hint.as_deref().unwrap_or(fallback));
            let Some((dtype, shape)) = self.tensor(param) else {
                let ty = body.ty(param);
                let message = format!(
                    "`{}` takes {ty}, and C a buffer of known extents and scalar elements",
                    self.symbol
                );
                let error = Diagnostic::error("E0902", message);
                self.errors.push(error.at(self.item.signature.span));
                continue;
            };
            let is_written = is_written[param.index()] || index >= inputs;
            let constant = if is_written { "" } else { "const " };
            let ty = format!("{constant}{} *", storage(dtype));
            let is_shared = |x: &InPlace| [x.input, x.output].contains(&index);
            let restrict =
                if self.in_place.as_ref().is_some_and(is_shared) { "" } else { "restrict " };
            list.push(format!("{ty}{restrict}{name}"));
            self.declare(&name, &ty, true);
            self.buffers.insert(param, Buffer::Array { name: name.clone(), shape });
            names.push(name);
            types.push(ty);
            writes.push(is_written);
        }
        (list, (names, types, writes))
    }

    /// Whether each value is a buffer that the kernel writes.
    fn written(&self) -> Vec<bool> {
        let body = self.body;
        let mut is_written = vec![false; body.value_capacity()];
        for op in body.walk() {
            let store = body.view::<Store>(op).map(|store| store.buffer);
            let atomic = body.view::<Atomic>(op).map(|atomic| atomic.buffer);
            let call = body.view::<Call>(op).into_iter().flat_map(|call| self.written_by(&call));
            for buffer in store.into_iter().chain(atomic).chain(call) {
                is_written[buffer.index()] = true;
            }
        }
        is_written
    }

    /// Statements for the parameters, `names` and the workspace, that the kernel does not mention.
    fn unmentioned(&self, names: &[String]) -> String {
        let mentioned: FxHashSet<&str> = words(&self.out).collect();
        let workspace = (self.layout.bytes > 0).then_some("workspace");
        let names = names.iter().map(String::as_str).chain(workspace);
        let unused = names.filter(|name| !mentioned.contains(name));
        unused.map(|name| format!("    (void){name};\n")).collect()
    }

    /// What stands before the function at hand.
    fn attribute(&mut self) -> String {
        let kept = std::mem::take(&mut self.kept);
        self.all_kept |= kept;
        kept.attributes(&self.style.prefix)
    }

    /// A kernel that is the function `name` of others, with the parameters `list`.
    fn external(
        &mut self,
        name: String,
        list: &[String],
        (names, types, writes): (Vec<String>, Vec<String>, Vec<bool>),
    ) -> Written {
        if !super::is_name(&name) {
            let message = format!("`{name}` is no name for a function in C");
            let error = Diagnostic::error("E0902", message).at(self.item.signature.span);
            self.errors.push(error.help("`extern` is letters, digits and `_`, and no word of C"));
        }
        let list = if list.is_empty() { "void".to_string() } else { list.join(", ") };
        Written {
            text: String::new(),
            prototype: format!("void {name}({list})"),
            names,
            types,
            writes,
            workspace: 0,
            has_parallel_loops: false,
            kept: Kept::default(),
            takes_threads: false,
            in_place: None,
            is_external: true,
            callees: vec![],
            helpers: Helpers::default(),
        }
    }

    /// The buffers that a call writes to.
    fn written_by(&self, call: &Call) -> Vec<ValueId> {
        let callee = self.callees.known.get(&call.kernel);
        // What was refused may write anywhere.
        let writes = |index: usize| {
            callee.and_then(|callee| callee.writes.get(index)).copied().unwrap_or(true)
        };
        let buffers = call.buffers().iter().enumerate();
        buffers.filter(|(index, _)| writes(*index)).map(|(_, buffer)| *buffer).collect()
    }

    /// Element type and extents of a buffer.
    fn tensor(&self, buffer: ValueId) -> Option<(DType, Vec<i64>)> {
        let tensor = self.body.ty(buffer).as_tensor()?;
        let shape = tensor.known_shape()?.to_vec();
        (tensor.dtype.lanes() == 1).then_some((tensor.dtype, shape))
    }

    /// Notes that C cannot express `op`.
    pub(super) fn refuse(&mut self, op: OpId, message: String) {
        let span = self.body.loc(op).span(self.item.signature.span);
        self.errors.push(Diagnostic::error("E0902", message).at(span));
    }

    /// Whether something was refused, so that nobody sees the text.
    pub(super) fn is_refused(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Writes a line, indented.
    pub(super) fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out += "    ";
        }
        self.out += text;
        self.out.push('\n');
    }

    /// Notes that a variable of type `ty` exists; an array by the type of its address.
    pub(super) fn declare(&mut self, name: &str, ty: &str, is_array: bool) {
        self.scope.insert(name.to_string(), Variable { ty: ty.to_string(), is_array });
    }

    /// The buffer and the place in it that the `indices` of `op` stand for; `None` where one of them
    /// is refused.
    pub(super) fn place(
        &mut self,
        op: OpId,
        buffer: ValueId,
        indices: &[ValueId],
    ) -> Option<(Buffer, Linear)> {
        let Some(found) = self.buffers.get(&buffer).cloned() else {
            assert!(self.is_refused(), "{buffer:?} is used before it is declared");
            return None;
        };
        let place = self.affine.address(self.body, &self.ranges, found.shape(), indices);
        if place.is_none() {
            self.refuse(op, "an index overflows".to_string());
        }
        Some((found, place?))
    }

    fn statements(&mut self, block: BlockId) {
        let mut steps: Vec<Step> = self.body.first_op(block).map(Step::Op).into_iter().collect();
        while let Some(step) = steps.pop() {
            match step {
                Step::Op(op) => {
                    steps.extend(self.body.next_op(op).map(Step::Op));
                    self.statement(op, &mut steps);
                }
                Step::Close => {
                    self.depth -= 1;
                    self.line("}");
                }
                Step::EndLoop(name) => {
                    self.depth -= 1;
                    self.line("}");
                    // Loops beside one another may share a name.
                    self.names.release(&name);
                    self.scope.shift_remove(&name);
                }
                Step::Else(block) => {
                    self.depth -= 1;
                    self.line("} else {");
                    self.depth += 1;
                    steps.push(Step::Close);
                    steps.extend(self.body.first_op(block).map(Step::Op));
                }
                Step::Join => self.join(),
            }
        }
    }

    fn statement(&mut self, op: OpId, steps: &mut Vec<Step>) {
        let body = self.body;
        if let Some(InPlace { input, output, .. }) = self.in_place.filter(|x| x.copy == Some(op)) {
            let buffers = body.block_args(body.entry());
            let buffer = |number: usize| self.buffers.get(&buffers[number]);
            // A buffer that was refused has no name.
            if let (Some(from), Some(to)) = (buffer(input), buffer(output)) {
                let line = format!("if ({} != {}) {{", from.name(), to.name());
                self.line(&line);
                self.depth += 1;
                steps.push(Step::Close);
            }
        }
        if let Some(for_loop) = body.view::<For>(op) {
            self.for_loop(op, &for_loop, steps);
        } else if let Some(branch) = body.view::<If>(op) {
            self.branch(op, &branch, steps);
        } else if let Some(alloc) = body.view::<Alloc>(op) {
            self.alloc(op, &alloc);
        } else if let Some(store) = body.view::<Store>(op) {
            self.store(op, &store);
        } else if let Some(atomic) = body.view::<Atomic>(op) {
            self.atomic(op, &atomic);
        } else if let Some(fetch) = body.view::<Fetch>(op) {
            self.fetch(op, &fetch);
        } else if let Some(call) = body.view::<Call>(op) {
            self.call(op, &call);
        } else if let Some(data) = body.view::<Data>(op) {
            self.data(op, &data);
        } else if body.view::<Yield>(op).is_some_and(|end| end.values.is_empty()) {
            // The end of the kernel.
        } else if body.view::<Barrier>(op).is_some() {
            self.refuse(op, "C has no threads of a block, and so no barrier".to_string());
        } else if body.view::<Yield>(op).is_some() {
            // Ends every block, and says nothing.
        } else if body.result_count(op) == 1 {
            self.value(op);
        } else {
            self.refuse(op, format!("C has no `{}`", body.op_name(op)));
        }
    }

    fn for_loop(&mut self, op: OpId, for_loop: &For, steps: &mut Vec<Step>) {
        let block = self.body.region_block(op, 0);
        let index = self.body.block_args(block)[0];
        let first = self.body.first_op(block).map(Step::Op);
        // The index of a loop of one iteration is the constant 0 wherever it is used.
        match for_loop.extent {
            0 => return,
            1 if for_loop.limit.is_none() => return steps.extend(first),
            _ => {}
        }
        let extent = for_loop.extent;
        self.transpose_before(op);
        let name = self.index_name(index);
        if let Some(limit) = for_loop.limit {
            let end = self.end(&name, extent, limit);
            self.line(&format!("for (int64_t {name} = 0; {name} < {end}; {name}++) {{"));
            self.depth += 1;
            steps.push(Step::EndLoop(name.clone()));
        } else if is_parallel(for_loop) && self.outlined.is_none() {
            self.fork(op, &name, extent);
            steps.push(Step::Join);
        } else {
            if PEELED.contains(&extent) && self.fills_registers(block) {
                self.line("#pragma GCC unroll 1");
            }
            self.line(&format!("for (int64_t {name} = 0; {name} < {extent}; {name}++) {{"));
            self.depth += 1;
            steps.push(Step::EndLoop(name.clone()));
        }
        self.declare(&name, "int64_t", false);
        self.values.insert(index, Repr::Scalar(Expr::atom(name)));
        steps.extend(first);
    }

    /// Whether `block` changes a tile of registers.
    fn fills_registers(&self, block: BlockId) -> bool {
        let changes = self.body.block_ops(block).filter(|op| {
            let store = self.body.view::<Store>(*op);
            let buffer = store.and_then(|store| self.buffers.get(&store.buffer));
            matches!(buffer, Some(Buffer::Variables { .. }))
        });
        changes.count() >= memory::TILE
    }

    /// Where a loop over `index` of `extent` iterations at most ends, as a name.
    fn end(&mut self, index: &str, extent: i64, limit: ValueId) -> String {
        let is_within = self.ranges.get(self.body, limit).within(i64::MIN.into(), extent.into());
        let limit = self.scalar(limit).text;
        let end = self.names.fresh(&format!("{index}_end"));
        self.line(&match is_within {
            true => format!("const int64_t {end} = {limit};"),
            false => format!("const int64_t {end} = ({limit}) < {extent} ? ({limit}) : {extent};"),
        });
        self.declare(&end, "int64_t", false);
        end
    }

    fn index_name(&mut self, index: ValueId) -> String {
        let hint = self.body.name_hint(index).name.map_or("i", Symbol::as_str);
        self.names.fresh(hint)
    }

    fn is_empty(&self, block: BlockId) -> bool {
        let first = self.body.first_op(block);
        first.is_none_or(|op| self.body.view::<Yield>(op).is_some())
    }

    fn branch(&mut self, op: OpId, branch: &If, steps: &mut Vec<Step>) {
        let block = |index: usize| {
            self.body.regions(op).get(index).map(|region| self.body.block_of(*region))
        };
        let (then_block, else_block) = (block(0), block(1));
        let first = |block: Option<BlockId>| self.body.first_op(block?).map(Step::Op);
        match self.ranges.get(self.body, branch.condition).constant() {
            Some(0) => return steps.extend(first(else_block)),
            Some(_) => return steps.extend(first(then_block)),
            None => {}
        }
        self.kept.branches = true;
        let then_first = first(then_block);
        let condition = self.scalar(branch.condition);
        self.line(&format!("if ({}) {{", condition.text));
        self.depth += 1;
        steps.push(match else_block {
            Some(block) if !self.is_empty(block) => Step::Else(block),
            _ => Step::Close,
        });
        steps.extend(then_first);
    }

    fn call(&mut self, op: OpId, call: &Call) {
        let mut arguments = Vec::new();
        for (number, buffer) in call.buffers().iter().enumerate() {
            let Some(array @ Buffer::Array { .. }) = self.buffers.get(buffer).cloned() else {
                return self.refuse(op, "a call needs buffers in memory".to_string());
            };
            let Some(offset) = call.offsets().get(number) else {
                arguments.push(array.name().to_string());
                continue;
            };
            let elements = array.shape().iter().product();
            let place = self.affine.address(self.body, &self.ranges, &[elements], &[*offset]);
            let Some(place) = place else {
                return self.refuse(op, "an offset overflows".to_string());
            };
            arguments.push(self.address(&array, &place, 0).text);
        }
        let callees = self.callees;
        let Some(callee) = callees.known.get(&call.kernel) else {
            return self.refuse(op, format!("`@{}` has no body to call", call.kernel));
        };
        if callee.workspace > 0 {
            let base = Expr::atom(&self.workspace);
            let offset = self.layout.call(op).expect("the layout has a place for what it needs");
            let offset = Expr::atom(offset.to_string());
            arguments.push(match offset.text.as_str() {
                "0" => base.text,
                _ => Expr::new(format!("{} + {}", base.text, offset.text), SUM).text,
            });
        }
        if callee.takes_threads {
            // Inside a parallel loop, the other threads are busy.
            let threads = self.threads.clone().filter(|_| self.outlined.is_none());
            arguments.push(threads.unwrap_or_else(|| "NULL".to_string()));
        }
        self.line(&format!("{}({});", callee.symbol, arguments.join(", ")));
    }
}

/// `text` without the variables that nothing uses: whether a value is written out depends on how
/// its users are, which come later.
fn without_unused(text: &str) -> String {
    let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
    words(text).for_each(|word| *counts.entry(word).or_default() += 1);
    let mut kept: Vec<&str> = Vec::new();
    // Users come after what they use.
    for line in text.lines().rev() {
        let declared = line
            .trim_start()
            .strip_prefix("const ")
            .and_then(|line| line.split_once(" = "))
            .and_then(|(declaration, _)| words(declaration).last());
        if declared.is_some_and(|name| counts.get(name) == Some(&1)) {
            for word in words(line) {
                counts.entry(word).and_modify(|count| *count -= 1);
            }
        } else {
            kept.push(line);
        }
    }
    kept.iter().rev().flat_map(|line| [line, "\n"]).collect()
}
