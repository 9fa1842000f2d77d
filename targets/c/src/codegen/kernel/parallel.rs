//! Parallel loops: their bodies as functions of their own.

use ir_core::OpId;
use te::loops::{Call, For};

use super::{Emitter, Outlined, Variable, words};
use crate::codegen::layout::is_parallel;

impl Emitter<'_> {
    /// Whether it, or a kernel that it calls, has parallel loops.
    pub(super) fn needs_threads(&self) -> bool {
        self.body.walk().any(|op| {
            let callee = |call: Call| self.callees.known.get(&call.kernel);
            let calls = |call: Call| callee(call).is_some_and(|callee| callee.takes_threads);
            self.body.view::<For>(op).is_some_and(|op| is_parallel(&op))
                || self.body.view::<Call>(op).is_some_and(calls)
        })
    }

    /// Starts a parallel loop of `extent` iterations as a function of a range of its iterations, or of its tasks.
    pub(super) fn fork(&mut self, op: OpId, index: &str, extent: i64) {
        self.outlined_count += 1;
        self.outlined = Some(Outlined {
            count: self.layout.tasks(op).map_or(extent, |tasks| tasks.count),
            index: index.to_string(),
            function: format!("{}_loop{}", self.symbol, self.outlined_count),
            outside: self.scope.len(),
            around: std::mem::take(&mut self.out),
            depth: std::mem::replace(&mut self.depth, 1),
            workspace: self.workspace.clone(),
            streams: std::mem::take(&mut self.streams),
            kept: std::mem::take(&mut self.kept),
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
    pub(super) fn join(&mut self) {
        while self.depth > 1 {
            self.depth -= 1;
            self.line("}");
        }
        self.end_streams();
        let outlined = self.outlined.take().expect("a parallel loop was started");
        let Outlined { count, index, function, outside, around, depth, workspace, .. } = outlined;
        let attribute = self.attribute();
        (self.streams, self.kept) = (outlined.streams, outlined.kept);
        self.names.release(&index);
        self.scope.shift_remove(&index);
        let text = std::mem::replace(&mut self.out, around);
        (self.depth, self.workspace) = (depth, workspace);
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
            "{definition}{attribute}static void {function}(void *captures, ptrdiff_t begin, ptrdiff_t end)\n\
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
}
