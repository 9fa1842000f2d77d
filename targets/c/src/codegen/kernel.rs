//! Statements: a kernel as a C function.

use indexmap::IndexMap;
use ir_core::diagnostics::Diagnostic;
use ir_core::{BlockId, Body, DType, EntityId, Item, OpId, Symbol, ValueId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use te::compute::{Combiner, Load, Yield};
use te::loops::{Alloc, Atomic, Barrier, Call, Data, For, If, Store};
use te::scalar::{ScalarOp, dtype_of};

use super::Style;
use super::affine::{Affine, Linear};
use super::expr::{Expr, SUM, computed, is_half, literal, scalar, storage, unsigned, value};
use super::helpers::{Helpers, Operand};
use super::layout::{Home, Layout, Variables, is_parallel};
use super::names::Names;
use super::plan::{Place, Plan};
use super::ranges::Ranges;
use super::values::{LANE, Repr};

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
    /// Variables, each of so many lanes, in pieces.
    Variables { names: Vec<Vec<String>>, lanes: usize, shape: Vec<i64>, declared: Variables },
}

impl Buffer {
    /// The name of the array.
    pub(super) fn name(&self) -> &str {
        match self {
            Buffer::Array { name, .. } => name,
            Buffer::Variables { .. } => "NULL",
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
    op: OpId,
    index: String,
    function: String,
    /// Variables that exist outside.
    outside: usize,
    /// The text around it, and its depth.
    around: String,
    depth: usize,
    workspace: String,
    streams: bool,
}

/// What is left to write.
enum Step {
    Op(OpId),
    /// Ends a branch.
    Close,
    /// Ends a loop over the variable.
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
    pub(super) plan: Plan,
    pub(super) helpers: Helpers,
    pub(super) style: &'a Style,
    pub(super) names: Names,
    pub(super) values: FxHashMap<ValueId, Repr>,
    pub(super) buffers: FxHashMap<ValueId, Buffer>,
    layout: Layout,
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
    /// Whether the function at hand stores past the caches.
    streams: bool,
    /// How the workspace at hand is called.
    workspace: String,
    /// How the threads of the caller are called, where the function takes them.
    threads: Option<String>,
    /// Functions of parallel loops, and constant arrays.
    functions: String,
    constants: String,
    errors: Vec<Diagnostic>,
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
    /// Whether its last parameter is the threads of the caller.
    pub(super) takes_threads: bool,
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

/// The function of a kernel.
pub(super) fn write(
    item: &Item,
    body: &Body,
    symbol: &str,
    style: &Style,
    callees: &Callees,
) -> Result<Written, Vec<Diagnostic>> {
    let ranges = Ranges::of(body);
    let affine = Affine::of(body, &ranges);
    let plan = Plan::of(body, &affine);
    let workspace =
        |call: &Call| callees.known.get(&call.kernel).map_or(0, |known| known.workspace);
    let layout = Layout::of(body, &affine, &ranges, workspace);
    let mut emitter = Emitter {
        body,
        ranges,
        affine,
        plan,
        helpers: Helpers::default(),
        style,
        names: Names::default(),
        values: FxHashMap::default(),
        buffers: FxHashMap::default(),
        layout,
        callees,
        item,
        symbol: symbol.to_string(),
        scope: IndexMap::default(),
        out: String::new(),
        depth: 1,
        outlined: None,
        outlined_count: 0,
        streams: false,
        workspace: "workspace".to_string(),
        threads: None,
        functions: String::new(),
        constants: String::new(),
        errors: Vec::new(),
    };
    // No variable hides a function that is called.
    for call in body.walk().filter_map(|op| body.view::<Call>(op)) {
        if let Some(callee) = callees.known.get(&call.kernel) {
            emitter.names.fresh(&callee.symbol);
        }
    }
    let written = emitter.kernel();
    if emitter.errors.is_empty() { Ok(written) } else { Err(emitter.errors) }
}

impl Emitter<'_> {
    fn kernel(&mut self) -> Written {
        let body = self.body;
        let entry = body.entry();
        let params = body.block_args(entry).to_vec();
        let mut is_written = vec![false; body.value_capacity()];
        for op in body.walk() {
            let store = body.view::<Store>(op).map(|store| store.buffer);
            let atomic = body.view::<Atomic>(op).map(|atomic| atomic.buffer);
            let call = body.view::<Call>(op).map(|call| self.written_by(&call)).unwrap_or_default();
            for buffer in store.into_iter().chain(atomic).chain(call) {
                is_written[buffer.index()] = true;
            }
        }
        let outputs: i64 = self.item.signature.attrs.value(te::loops::OUTPUTS).unwrap_or(0);
        let inputs = params.len().saturating_sub(usize::try_from(outputs).unwrap_or(0));
        let (mut names, mut types, mut writes, mut list) = (vec![], vec![], vec![], vec![]);
        let model = self.style.model.as_ref().filter(|_| self.needs_threads());
        self.threads = model.map(|_| self.names.fresh("threads"));
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
            list.push(format!("{ty}restrict {name}"));
            self.declare(&name, &ty, true);
            self.buffers.insert(param, Buffer::Array { name: name.clone(), shape });
            names.push(name);
            types.push(ty);
            writes.push(is_written);
        }
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
        let mut out = String::new();
        for name in &names {
            if !mentions(&self.out, name) {
                out += &format!("    (void){name};\n");
            }
        }
        if self.layout.bytes > 0 && !mentions(&self.out, "workspace") {
            out += "    (void)workspace;\n";
        }
        out += &self.out;
        let text = format!("{}{prototype}\n{{\n{out}}}\n", self.functions);
        let text = format!("{}{}", self.constants, without_unused(&text));
        let workspace = self.layout.bytes;
        Written {
            text,
            prototype,
            names,
            types,
            writes,
            workspace,
            has_parallel_loops: self.outlined_count > 0,
            takes_threads: self.threads.is_some(),
            is_external: false,
            callees: body.walk().filter_map(|op| Some(body.view::<Call>(op)?.kernel)).collect(),
            helpers: std::mem::take(&mut self.helpers),
        }
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
            takes_threads: false,
            is_external: true,
            callees: vec![],
            helpers: Helpers::default(),
        }
    }

    /// The buffers that a call writes to.
    fn written_by(&self, call: &Call) -> Vec<ValueId> {
        let callee = self.callees.known.get(&call.kernel);
        let writes = |index: usize| {
            callee.and_then(|callee| callee.writes.get(index)).copied().unwrap_or(true)
        };
        let buffers = call.buffers().iter().enumerate();
        buffers.filter(|(index, _)| writes(*index)).map(|(_, buffer)| *buffer).collect()
    }

    /// Whether it, or a kernel that it calls, has parallel loops.
    fn needs_threads(&self) -> bool {
        self.body.walk().any(|op| {
            let callee = |call: Call| self.callees.known.get(&call.kernel);
            let calls = |call: Call| callee(call).is_some_and(|callee| callee.takes_threads);
            self.body.view::<For>(op).is_some_and(|op| is_parallel(&op))
                || self.body.view::<Call>(op).is_some_and(calls)
        })
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

    /// The buffer and the place in it that `indices` stand for.
    pub(super) fn place(
        &mut self,
        buffer: ValueId,
        indices: &[ValueId],
    ) -> Option<(Buffer, Linear)> {
        let found = self.buffers.get(&buffer)?.clone();
        let place = self.affine.address(self.body, &self.ranges, found.shape(), indices)?;
        Some((found, place))
    }

    // ---- control -------------------------------------------------------------------------------

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
            1 => return steps.extend(first),
            _ => {}
        }
        let extent = for_loop.extent;
        let name = self.index_name(index);
        if is_parallel(for_loop) && self.outlined.is_none() {
            self.fork(op, &name, extent);
            steps.push(Step::Join);
        } else {
            self.line(&format!("for (int64_t {name} = 0; {name} < {extent}; {name}++) {{"));
            self.depth += 1;
            steps.push(Step::EndLoop(name.clone()));
        }
        self.declare(&name, "int64_t", false);
        self.values.insert(index, Repr::Scalar(Expr::atom(name)));
        steps.extend(first);
    }

    fn index_name(&mut self, index: ValueId) -> String {
        let hint = self.body.name_hint(index).name.map_or("i", Symbol::as_str);
        self.names.fresh(hint)
    }

    /// Starts a parallel loop as a function of a range of its iterations, or of its tasks.
    fn fork(&mut self, op: OpId, index: &str, extent: i64) {
        self.outlined_count += 1;
        self.outlined = Some(Outlined {
            op,
            index: index.to_string(),
            function: format!("{}_loop{}", self.symbol, self.outlined_count),
            outside: self.scope.len(),
            around: std::mem::take(&mut self.out),
            depth: std::mem::replace(&mut self.depth, 1),
            workspace: self.workspace.clone(),
            streams: std::mem::take(&mut self.streams),
        });
        let Some(tasks) = self.layout.tasks(op) else {
            self.line(&format!("for (int64_t {index} = begin; {index} < end; {index}++) {{"));
            self.depth += 1;
            return;
        };
        self.line("for (ptrdiff_t task = begin; task < end; task++) {");
        self.depth += 1;
        let own = self.names.fresh("task_workspace");
        self.line(&format!(
            "unsigned char *const {own} = {} + {} + task * {};",
            self.workspace, tasks.offset, tasks.bytes
        ));
        self.declare(&own, "unsigned char *", true);
        self.workspace = own;
        let count = tasks.count;
        if count == extent {
            self.line(&format!("const int64_t {index} = task;"));
            self.line("{");
        } else {
            self.line(&format!("const int64_t {index}_end = (task + 1) * {extent} / {count};"));
            self.line(&format!(
                "for (int64_t {index} = task * {extent} / {count}; {index} < {index}_end; \
                 {index}++) {{"
            ));
        }
        self.depth += 1;
    }

    /// Ends a parallel loop: its function goes before the kernel, and a call of it here.
    fn join(&mut self) {
        while self.depth > 1 {
            self.depth -= 1;
            self.line("}");
        }
        self.end_streams();
        let Some(outlined) = self.outlined.take() else { return };
        let Outlined { op, index, function, outside, around, depth, workspace, streams } = outlined;
        self.streams = streams;
        self.names.release(&index);
        self.scope.shift_remove(&index);
        let text = std::mem::replace(&mut self.out, around);
        (self.depth, self.workspace) = (depth, workspace);
        let extent = self.body.view::<For>(op).map_or(1, |op| op.extent);
        let count = self.layout.tasks(op).map_or(extent, |tasks| tasks.count);
        let words: rustc_hash::FxHashSet<&str> = words(&text).collect();
        let captured: Vec<(&String, &Variable)> = self
            .scope
            .iter()
            .take(outside)
            .filter(|(name, _)| words.contains(name.as_str()))
            .collect();
        let mut definition = String::new();
        let mut unpacked = String::new();
        if captured.is_empty() {
            unpacked += "    (void)captures;\n";
        } else {
            definition += &format!("struct {function} {{\n");
            unpacked += &format!("    const struct {function} *const outer = captures;\n");
            for (name, Variable { ty, is_array }) in &captured {
                let space = if ty.ends_with('*') { "" } else { " " };
                definition += &format!("    {ty}{space}{name};\n");
                let local = match is_array {
                    true => format!("{ty}const restrict {name}"),
                    false => format!("const {ty}{space}{name}"),
                };
                unpacked += &format!("    {local} = outer->{name};\n");
            }
            definition += "};\n\n";
        }
        self.functions += &format!(
            "{definition}static void {function}(void *captures, ptrdiff_t begin, ptrdiff_t end)\n\
             {{\n{unpacked}{text}}}\n\n"
        );
        let list: Vec<&str> = captured.iter().map(|(name, _)| name.as_str()).collect();
        let list = list.join(", ");
        let threads = self.threads.as_ref().map_or(String::new(), |name| format!("{name}, "));
        let parallel = format!("{}parallel({threads}{function}", self.style.prefix);
        if list.is_empty() {
            self.line(&format!("{parallel}, NULL, {count});"));
        } else {
            let name = self.names.fresh("parallel_loop");
            self.line(&format!("struct {function} {name} = {{{list}}};"));
            self.line(&format!("{parallel}, &{name}, {count});"));
        }
    }

    /// Waits, at the end of a function that stores past the caches, until others see what it stored:
    /// such stores are not in order with those that tell others of it.
    fn end_streams(&mut self) {
        if std::mem::take(&mut self.streams) {
            let fence = self.helpers.stream_end();
            self.line(&format!("{fence}();"));
        }
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

    // ---- memory --------------------------------------------------------------------------------

    fn alloc(&mut self, op: OpId, alloc: &Alloc) {
        let buffer = self.body.result(op, 0);
        let Some((dtype, shape)) = self.tensor(buffer) else {
            return self.refuse(op, format!("C has no buffer of {}", alloc.dtype));
        };
        let hint = self.body.name_hint(buffer).name.map_or("buffer", Symbol::as_str);
        let c = storage(dtype);
        let name = match self.layout.home(buffer).cloned() {
            Some(Home::Variables(variables)) => {
                return self.variables(buffer, hint, dtype, shape, variables);
            }
            Some(Home::Workspace(offset)) => {
                let name = self.names.fresh(hint);
                // Planned places may overlap, and are those of the whole kernel.
                let (base, restrict) = match alloc.offset {
                    Some(_) => ("workspace", ""),
                    None => (self.workspace.as_str(), "restrict "),
                };
                let address = match offset {
                    0 => base.to_string(),
                    _ => format!("({base} + {offset})"),
                };
                let text = format!("{c} *const {restrict}{name} = (void *){address};");
                self.line(&text);
                name
            }
            _ => {
                let name = self.names.fresh(hint);
                let elements = shape.iter().product::<i64>().max(1);
                self.line(&format!("_Alignas(64) {c} {name}[{elements}];"));
                name
            }
        };
        self.declare(&name, &format!("{c} *"), true);
        self.buffers.insert(buffer, Buffer::Array { name, shape });
    }

    /// A buffer as variables, named after the place of their first element.
    fn variables(
        &mut self,
        buffer: ValueId,
        hint: &str,
        dtype: DType,
        shape: Vec<i64>,
        variables: Variables,
    ) {
        let lanes = variables.lanes;
        let vector = dtype.with_lanes(lanes as u16).unwrap_or(dtype);
        let (ty, pieces, is_array) = if lanes == 1 {
            (value(dtype).to_string(), 1, false)
        } else if self.has_vectors(vector) {
            let (elem, width) = self.natural(vector);
            (self.helpers.vector_type(elem, width), lanes / width, false)
        } else {
            (value(dtype).to_string(), 1, true)
        };
        let mut names = Vec::new();
        for (index, declared) in variables.declared_at.iter().enumerate() {
            let base = format!("{hint}_{}", coordinates(index, lanes, &shape));
            let mut list = Vec::new();
            for piece in 0..pieces {
                let base = if pieces == 1 { base.clone() } else { format!("{base}_{piece}") };
                let name = self.names.fresh(&base);
                if !variables.used[index] {
                    // Compilers warn of variables that nothing uses.
                } else if is_array {
                    self.line(&format!("{ty} {name}[{lanes}] = {{0}};"));
                } else if declared.is_none() {
                    let zero = if lanes == 1 { "0" } else { "{0}" };
                    self.line(&format!("{ty} {name} = {zero};"));
                }
                list.push(name);
            }
            names.push(list);
        }
        self.buffers.insert(buffer, Buffer::Variables { names, lanes, shape, declared: variables });
    }

    fn store(&mut self, op: OpId, store: &Store) {
        let Some((buffer, place)) = self.place(store.buffer, &store.indices) else {
            return self.refuse(op, "an index overflows".to_string());
        };
        let dtype = dtype_of(self.body.ty(store.value)).unwrap_or(DType::INT64);
        let sum = self.compound(store, dtype);
        let repr = match sum {
            Some(other) => self.repr(other),
            None => self.repr(store.value),
        };
        let assign = if sum.is_some() { "+=" } else { "=" };
        if let Buffer::Variables { names, lanes, declared, .. } = &buffer {
            let at = usize::try_from(place.constant).unwrap_or(0);
            let declares = declared.declared_at[at / lanes] == Some(op);
            return self.set_variable(
                &names[at / lanes],
                *lanes,
                at % lanes,
                repr,
                (dtype, declares, assign),
            );
        }
        if dtype.lanes() > 1 && self.has_vectors(dtype) && self.is_consecutive(&place) {
            let (elem, lanes) = match (&repr, dtype.is_bool()) {
                (Repr::Vector(vector), true) => (vector.elem, vector.lanes),
                _ => self.natural(dtype),
            };
            let vector = self.vector(repr, dtype, elem, lanes);
            self.streams |= store.streaming;
            for (index, piece) in vector.pieces.iter().enumerate() {
                let address = self.address(&buffer, &place, index * vector.lanes);
                let width = (vector.elem, vector.lanes);
                let statement =
                    self.helpers.store_vector(store.streaming, dtype, width, &address, piece);
                self.line(&format!("{statement};"));
            }
            return;
        }
        let value = self.lane(repr, dtype);
        let value = self.stored(value, dtype);
        let index = self.index(&place);
        let target = Expr::element(buffer.name(), &index);
        let statement = format!("{} {assign} {};", target.text, value.text);
        match dtype.lanes() {
            1 => self.line(&statement),
            lanes => self.lane_loop(0, lanes as usize, &statement),
        }
    }

    /// What is added, where the store adds to the very element that it sets.
    pub(super) fn compound(&self, store: &Store, dtype: DType) -> Option<ValueId> {
        if !dtype.is_float() || is_half(dtype) || self.plan.get(store.value) != Place::Inline {
            return None;
        }
        let sum = self.body.defining_op(store.value)?;
        if ScalarOp::of(self.body.op_name(sum)) != Some(ScalarOp::Add) {
            return None;
        }
        let (old, added) = (self.body.operand(sum, 0), self.body.operand(sum, 1));
        let (_, load) = self.body.view_def::<Load>(old)?;
        // Vectors in memory are read and written by functions.
        let assignable = !self.has_vectors(dtype)
            || matches!(self.buffers.get(&store.buffer)?, Buffer::Variables { .. });
        let same = load.tensor == store.buffer
            && load.indices == store.indices
            && self.plan.get(old) == Place::Inline;
        (same && assignable).then_some(added)
    }

    /// `value` as it is stored.
    fn stored(&mut self, value: Expr, dtype: DType) -> Expr {
        if !is_half(dtype) {
            return value;
        }
        let narrow = self.helpers.half_of(scalar(dtype));
        Expr::call(&narrow, &[&value])
    }

    fn set_variable(
        &mut self,
        names: &[String],
        lanes: usize,
        lane: usize,
        repr: Repr,
        (dtype, declares, assign): (DType, bool, &str),
    ) {
        if dtype.lanes() == 1 {
            let value = self.lane(repr, dtype);
            let width = lanes / names.len().max(1);
            let target = match lanes {
                1 if declares => format!("{} {}", value_type(dtype), names[0]),
                1 => names[0].clone(),
                _ => format!("{}[{}]", names[lane / width], lane % width),
            };
            return self.line(&format!("{target} {assign} {};", value.text));
        }
        if !self.has_vectors(dtype) {
            let value = self.lane(repr, dtype);
            let statement = format!("{}[{LANE}] {assign} {};", names[0], value.text);
            return self.lane_loop(0, lanes, &statement);
        }
        let (elem, width) = self.natural(dtype);
        let vector = match repr {
            // A scalar is added to every lane.
            Repr::Scalar(expr) | Repr::Splat(expr) if assign == "+=" => {
                for name in names {
                    self.line(&format!("{name} += {};", expr.text));
                }
                return;
            }
            other => self.vector(other, dtype, elem, width),
        };
        let ty = self.helpers.vector_type(elem, width);
        for (name, piece) in names.iter().zip(&vector.pieces) {
            let declaration = if declares { format!("{ty} ") } else { String::new() };
            self.line(&format!("{declaration}{name} {assign} {};", piece.text));
        }
    }

    fn atomic(&mut self, op: OpId, atomic: &Atomic) {
        let Some((buffer @ Buffer::Array { .. }, place)) =
            self.place(atomic.buffer, &atomic.indices)
        else {
            return self.refuse(op, "an index overflows".to_string());
        };
        let dtype = dtype_of(self.body.ty(atomic.value)).unwrap_or(DType::INT64);
        let combine = match atomic.combiner {
            Combiner::Max => ScalarOp::Max,
            Combiner::Min => ScalarOp::Min,
            _ => ScalarOp::Add,
        };
        let repr = self.repr(atomic.value);
        let value = self.lane(repr, dtype);
        let index = self.index(&place);
        let statement = if self.outlined.is_some() {
            let function = self.helpers.atomic(combine, scalar(dtype));
            let address = Expr::address(buffer.name(), &index);
            format!("{};", Expr::call(&function, &[&address, &value]).text)
        } else {
            let target = Expr::element(buffer.name(), &index);
            let old = match (is_half(dtype), dtype.is_bool()) {
                (true, _) => {
                    let widen = self.helpers.of_half(scalar(dtype));
                    Expr::call(&widen, &[&target])
                }
                (_, true) => Expr::binary("!=", &target, &Expr::atom("0")),
                _ => target.clone(),
            };
            let any = super::ranges::Range::of_type(dtype);
            let operands = [old, value].map(|expr| Operand { expr, range: any });
            let combined = self.helpers.scalar(combine, dtype, &operands);
            let combined = self.stored(combined, dtype);
            format!("{} = {};", target.text, combined.text)
        };
        match dtype.lanes() {
            1 => self.line(&statement),
            lanes => self.lane_loop(0, lanes as usize, &statement),
        }
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
            let elements = self.tensor(*buffer).map_or(0, |(_, shape)| shape.iter().product());
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
            let offset = Expr::atom(self.layout.call(op).unwrap_or(0).to_string());
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

    fn data(&mut self, op: OpId, data: &Data) {
        let tensor = &data.value;
        let dtype = tensor.dtype();
        if dtype.lanes() != 1 {
            return self.refuse(op, format!("C has no buffer of {dtype}"));
        }
        let buffer = self.body.result(op, 0);
        let hint = self.body.name_hint(buffer).name.map_or("data", Symbol::as_str);
        let name = self.names.fresh(&format!("{}_{hint}", self.symbol));
        let literals: Vec<String> = if is_half(dtype) {
            let bits = tensor
                .bytes()
                .chunks_exact(2)
                .map(|pair| u16::from_ne_bytes(pair.first_chunk().copied().unwrap_or_default()));
            bits.map(|bits| format!("{bits:#06x}")).collect()
        } else {
            let stored = if dtype.is_bool() { unsigned(dtype) } else { dtype };
            let elements = tensor.elements().map(|element| {
                let (expr, needs_math) = literal(stored, element);
                self.helpers.math |= needs_math;
                expr.text
            });
            elements.collect()
        };
        let rows: Vec<String> =
            literals.chunks(8).map(|row| format!("    {},\n", row.join(", "))).collect();
        let (count, c) = (literals.len().max(1), storage(dtype));
        let rows = if rows.is_empty() { "    0,\n".to_string() } else { rows.concat() };
        self.constants +=
            &format!("static const _Alignas(64) {c} {name}[{count}] = {{\n{rows}}};\n\n");
        self.buffers.insert(buffer, Buffer::Array { name, shape: tensor.shape().to_vec() });
    }
}

fn value_type(dtype: DType) -> &'static str {
    value(computed(dtype))
}

/// The place of the first element of variable `index`, by axis; axes of one variable are left out.
fn coordinates(index: usize, lanes: usize, shape: &[i64]) -> String {
    let mut rest = index * lanes;
    let mut parts = Vec::new();
    for (axis, extent) in shape.iter().rev().enumerate() {
        let extent = usize::try_from(*extent).unwrap_or(1).max(1);
        let (mut at, mut count) = (rest % extent, extent);
        rest /= extent;
        if axis == 0 && extent % lanes == 0 {
            (at, count) = (at / lanes, extent / lanes);
        }
        if count > 1 {
            parts.push(at.to_string());
        }
    }
    if parts.is_empty() {
        return "0".to_string();
    }
    parts.reverse();
    parts.join("_")
}

/// The names in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

fn mentions(text: &str, name: &str) -> bool {
    words(text).any(|word| word == name)
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
