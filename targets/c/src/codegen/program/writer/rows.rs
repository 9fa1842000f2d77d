//! Tensors computed in blocks of rows.

use ir_core::tensor::tensor_bytes;
use ir_core::{OpId, Type, ValueId};
use prog::Rows;
use prog::rows::{Block, blocks};

use super::Writer;

/// What a row of tensors of a type is.
struct Row {
    bytes: usize,
    /// The extents of a tensor behind the first, as the elements of an array, and how many these
    /// are.
    others: String,
    count: usize,
}

impl Row {
    /// That of tensors of type `ty`.
    fn of(ty: Type) -> Row {
        let tensor = ty.as_tensor().expect("rows are of tensors");
        let shape = tensor.known_shape().expect("a block has known extents");
        let others: Vec<String> = shape[1..].iter().map(i64::to_string).collect();
        let bytes =
            tensor_bytes(&shape[1..], tensor.dtype).expect("a row is smaller than its block");
        let (count, others) = (others.len(), others.join(", "));
        // An array of C has an element.
        Row { bytes, others: if count == 0 { "0".to_string() } else { others }, count }
    }

    /// The arguments for its other extents.
    fn extents(&self) -> String {
        format!("(const int64_t[]){{{}}}, {}", self.others, self.count)
    }
}

impl Writer<'_, '_> {
    /// Computes rows by kernels for some of them. The results are new tensors.
    pub(super) fn rows(&mut self, number: usize, op: OpId, rows: &Rows) {
        let body = self.functions[number].body;
        let p = self.cx.prefix.clone();
        let types: Vec<Type> = rows.inputs.iter().map(|input| body.ty(*input)).collect();
        let all = blocks(self.cx.module, rows, &types).expect("kernels are written before");
        let (first, last) = (&all[0], &all[all.len() - 1]);
        let site = self.site(number, op);
        let checks: Vec<usize> = all
            .iter()
            .map(|block| prog::sites::checks(self.cx.module, block.kernel).len())
            .collect();
        let memory = site + 1 + checks.iter().sum::<usize>();
        self.line("{");
        self.depth += 1;
        self.line("int64_t rows, row = 0;");
        let open = rows
            .inputs
            .iter()
            .zip(&first.inputs)
            .filter(|(input, _)| prog::is_open(body.ty(**input)));
        for (index, (input, ty)) in open.enumerate() {
            let name = self.name(number, *input).to_string();
            if index == 0 {
                self.line(&format!("memcpy(&rows, {name}.data - 48, sizeof rows);"));
            }
            let extents = Row::of(*ty).extents();
            self.line(&format!("if (!{p}has_rows({name}, rows, {extents})) {{"));
            self.line(&format!("    return {p}fail(p, 2, {site});"));
            self.line("}");
        }
        for (result, ty) in body.results(op).zip(&first.results) {
            let (name, row) = (self.name(number, result).to_string(), Row::of(*ty));
            let (bytes, extents) = (row.bytes, row.extents());
            self.line(&format!(
                "if ({p}new_rows(p, rows, {bytes}u, {extents}, {memory}, &{name})) {{"
            ));
            self.line("    return 1;");
            self.line("}");
        }
        self.line("while (row < rows) {");
        self.depth += 1;
        self.line("const int64_t left = rows - row;");
        let least = last.rows;
        self.line(&format!("const int64_t rounded = (left - 1) / {least} * {least} + {least};"));
        let mut before = site + 1;
        for (index, (block, checks)) in all.iter().zip(checks).enumerate() {
            let fits = format!("left >= {0} || rounded == {0}", block.rows);
            self.line(&match (index, index + 1 == all.len()) {
                (0, true) => "{".to_string(),
                (0, false) => format!("if ({fits}) {{"),
                (_, true) => "} else {".to_string(),
                (_, false) => format!("}} else if ({fits}) {{"),
            });
            self.depth += 1;
            self.block(number, op, rows, block, (before, checks, memory));
            self.depth -= 1;
            before += checks;
        }
        self.line("}");
        for _ in 0..2 {
            self.depth -= 1;
            self.line("}");
        }
    }

    /// Computes the next rows by the kernel of `block`, whose checks have sites of their own from
    /// the first number on; what is said where there is no memory has the last one.
    fn block(
        &mut self,
        number: usize,
        op: OpId,
        rows: &Rows,
        block: &Block,
        (first, checks, memory): (usize, usize, usize),
    ) {
        let body = self.functions[number].body;
        let p = self.cx.prefix.clone();
        let all = block.rows;
        self.callees.push(block.kernel);
        let called = (self.cx.kernels)(block.kernel).expect("kernels are written before");
        let results: Vec<ValueId> = body.results(op).collect();
        // Where the rows of each tensor start, and how many bytes one has.
        let mut tensors = Vec::new();
        let mut arguments = Vec::new();
        for (value, ty) in
            rows.inputs.iter().chain(&results).zip(block.inputs.iter().chain(&block.results))
        {
            if !prog::is_open(body.ty(*value)) {
                arguments.push(self.argument(number, *value));
                continue;
            }
            arguments.push(format!("(void *)at[{}]", tensors.len()));
            tensors.push((self.name(number, *value).to_string(), Row::of(*ty).bytes));
        }
        let inputs = tensors.len() - results.len();
        self.line(&format!("const size_t taken = left < {all} ? (size_t)left : {all};"));
        self.line(&format!("unsigned char *at[{}];", tensors.len()));
        self.line(&format!("{p}tensor filled[{}];", tensors.len()));
        for (index, (name, bytes)) in tensors.iter().enumerate() {
            self.line(&format!("at[{index}] = {name}.data + (size_t)row * {bytes}u;"));
        }
        self.line(&format!("if (taken < {all}) {{"));
        for (index, (_, bytes)) in tensors.iter().enumerate() {
            let new = match index < inputs {
                true => format!(
                    "{p}fill_rows(p, at[{index}], {bytes}u, taken, {all}, {memory}, filled + {index})"
                ),
                false => format!("{p}new_open(p, {all} * {bytes}u, {memory}, filled + {index})"),
            };
            self.line(&format!("    if ({new}) {{ return 1; }}"));
            self.line(&format!("    at[{index}] = filled[{index}].data;"));
        }
        self.line("}");
        if checks > 0 {
            self.line(&format!("int32_t failed[{checks}];"));
            arguments.push("failed".to_string());
        }
        if called.workspace > 0 {
            arguments.push("p->scratch".to_string());
        }
        if called.takes_threads {
            arguments.push("p->threads".to_string());
        }
        let is_counted = self.cx.counters.contains(&block.kernel);
        if is_counted {
            self.count("visit", block.kernel);
        }
        self.line(&format!("{}({});", called.symbol, arguments.join(", ")));
        if is_counted {
            self.count("resume", self.functions[number].name);
        }
        if checks > 0 {
            self.line(&format!("for (int i = 0; i < {checks}; i++) {{"));
            self.line(&format!("    if (failed[i]) {{ return {p}fail(p, 2, {first} + i); }}"));
            self.line("}");
        }
        self.line(&format!("if (taken < {all}) {{"));
        for (index, (name, bytes)) in tensors.iter().enumerate() {
            if index >= inputs {
                self.line(&format!(
                    "    memcpy({name}.data + (size_t)row * {bytes}u, at[{index}], taken * {bytes}u);"
                ));
            }
            self.line(&format!("    {p}drop(p, filled[{index}].owner);"));
        }
        self.line("}");
        self.line("row += (int64_t)taken;");
    }
}
