//! What embedders call: the header, the function that it declares, and the symbols of weights.

use target_core::ALIGNMENT;
use target_core::package::c::{Embedded, Tensor, assembly, comment, string};

use super::{Column, Program, Whole};

/// The status of the first check; those before are for what is passed.
const FIRST_CHECK: usize = 16;

/// What the header says of the workspace of a program that needs the same memory in each run.
const STATIC_WORKSPACE: &str = "\
/* The workspace, where intermediate results lie: its bytes, and what its address is a multiple of.
   Nothing has to be kept in it between calls. */";

/// What it says of that of other programs.
const GROWING_WORKSPACE: &str = "\
/* The workspace, where all lies that the program makes: bytes to start with, and what its address is a
   multiple of. How much a run needs depends on its inputs; a larger workspace always does, too. Nothing
   has to be kept in it between calls. */";

/// What it says of data.
const DATA: &str = "

   Data is passed as columns, in the order of a walk over its nodes, each before what it consists of,
   fields in order. The first column says of each node by which constructor it was made; each field of a
   constructor that is a tensor has a column with that field of all nodes made by it. A tensor whose
   extents are not known has a column of these and one of its elements. Beside each column stands how
   many elements it has.";

impl Program<'_> {
    /// The first lines of a file.
    fn title(&self, what: &str) -> String {
        let source = comment(&self.model.source);
        let version = env!("CARGO_PKG_VERSION");
        let target = self.target_text();
        format!(
            "/* {what}\n\n   Compiled from {source} by relay-opt {version} for {target}. Do not edit.\n"
        )
    }

    /// `NAME.h`.
    pub(super) fn header(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let title = self.title("The interface of a compiled model.");
        let workspace = self.main.workspace;
        let inputs = self.fields(&self.inputs, self.taken(), "const ");
        let outputs = self.fields(&self.outputs, self.given(), "");
        let (about_workspace, run, wants) = match &self.whole {
            None => (STATIC_WORKSPACE, self.static_run(), String::new()),
            Some(whole) => (GROWING_WORKSPACE, self.growing_run(whole), self.wants_memory()),
        };
        let provided = crate::codegen::provided(&self.source.externals);
        let statuses = self.statuses();
        let about_data = match self.taken().is_empty() && self.given().is_empty() {
            true => "",
            false => DATA,
        };
        format!(
            "\
{title}
   Set up {name}_inputs and {name}_outputs, and call {name}_run.

   Tensors are dense, row by row. Pointers are aligned as their types are. An input may be passed
   several times; an output shares no memory with anything else that is passed.{about_data} */

#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {{
#endif

{about_workspace}
#define {upper}_WORKSPACE_BYTES {workspace}u
#define {upper}_ALIGNMENT {ALIGNMENT}u

{statuses}
typedef struct {{
{inputs}}} {name}_inputs;

typedef struct {{
{outputs}}} {name}_outputs;

/* Threads of your own. `run` calls body(captures, begin, end) for ranges that together are 0 to
   `count`, each number once, in any order and on any threads at a time, and returns when all have
   returned. It may be called several times for one {name}_run, and gets `context` as it is here. */
typedef struct {{
    void (*run)(void *context, void (*body)(void *captures, ptrdiff_t begin, ptrdiff_t end),
                void *captures, ptrdiff_t count);
    void *context;
}} {name}_threads;

{provided}/* {upper}_WORKSPACE_BYTES, for callers that do not read this file. */
size_t {name}_workspace_bytes(void);

{run}
{wants}#ifdef __cplusplus
}}
#endif

#endif
"
        )
    }

    /// What `NAME_run` returns, and the function that explains it.
    fn statuses(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let (of_program, memory) = match &self.whole {
            None => (String::new(), String::new()),
            Some(whole) => (
                format!(
                    "    /* The workspace is too small, wherever that was noticed. */\n    \
                     {upper}_SMALL_WORKSPACE = 5,\n    \
                     /* The columns of an input are not those of its type. */\n    \
                     {upper}_BAD_DATA = 6,\n"
                ),
                format!(
                    ",\n    /* From here on: the workspace is too small, which was noticed at a place that \
                     {name}_message tells. */\n    {upper}_MEMORY = {}",
                    FIRST_CHECK + whole.memory.len()
                ),
            ),
        };
        format!(
            "\
/* What {name}_run returns. */
enum {{
    {upper}_OK = 0,
    /* A pointer is null, or not aligned for its type. */
    {upper}_BAD_INPUT = 1,
    {upper}_BAD_OUTPUT = 2,
    /* The workspace is null, or its address no multiple of {upper}_ALIGNMENT. */
    {upper}_BAD_WORKSPACE = 3,
    /* The threads have no function `run`. */
    {upper}_BAD_THREADS = 4,
{of_program}    /* From here on: a number is not what an operator expects, such as a divisor of 0 or an index
       outside of an axis. The outputs hold nothing in particular then. */
    {upper}_CHECK = {FIRST_CHECK}{memory}
}};

/* What a status says; of a check also which operator of the source it belongs to. */
const char *{name}_message(int status);
"
        )
    }

    /// The function that runs a program that needs the same memory in each run.
    fn static_run(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        format!(
            "\
/* Computes the outputs from the inputs. Nothing is allocated, and nothing is kept: calls at one
   time are safe, each with a workspace and outputs of its own. Without `threads`, which may be
   null, parallel loops run by OpenMP where that was on when {name}.c was compiled, else here.
   Returns {upper}_OK, or what is wrong; below {upper}_CHECK, no output was written then. */
int {name}_run(const {name}_inputs *inputs, const {name}_outputs *outputs, void *workspace,
    const {name}_threads *threads);
"
        )
    }

    /// The function that runs a program that needs as much memory as its inputs ask for.
    fn growing_run(&self, whole: &Whole) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let given = match whole.given.is_empty() {
            true => "",
            false => {
                " Outputs that are data are set, and lie\n   in the workspace: they are there until \
                 it is used for something else."
            }
        };
        format!(
            "\
/* Computes the outputs from the inputs, with `bytes` bytes of workspace; where these are too few, call
   it again with more. Nothing is allocated, and nothing is kept: calls at one time are safe, each with
   a workspace and outputs of its own. Without `threads`, which may be null, parallel loops run by
   OpenMP where that was on when {name}.c was compiled, else here.{given}
   Returns {upper}_OK, or what is wrong: then no output was written. */
int {name}_run(const {name}_inputs *inputs, {name}_outputs *outputs, void *workspace, size_t bytes,
    const {name}_threads *threads);
"
        )
    }

    /// The declaration of the function that says whether memory was too little.
    fn wants_memory(&self) -> String {
        let name = &self.model.name;
        format!(
            "/* Whether {name}_run returned `status` for want of memory, so that a larger workspace may help. */\n\
             int {name}_wants_memory(int status);\n\n"
        )
    }

    /// The members of a struct.
    fn fields(&self, tensors: &[Tensor], columns: &[Column], constness: &str) -> String {
        let mut text = String::new();
        for tensor in tensors {
            text += &tensor.member(constness, "", "");
        }
        for Column { tensor, count, note, .. } in columns {
            let meaning = if note.is_empty() { String::new() } else { format!("; {note}") };
            text += &tensor.member(constness, " each", &meaning);
            text += &format!("    size_t {count};\n");
        }
        if tensors.is_empty() && columns.is_empty() {
            text += "    /* There are none; C wants a member. */\n    int unused;\n";
        }
        text
    }

    /// `NAME.c`.
    pub(super) fn code(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let mut text = self.title("A compiled model: see the header for how to call it.");
        text.truncate(text.trim_end().len());
        text += &format!(" */\n\n#include \"{name}.h\"\n\n{}", self.guard());
        text += &self.source.text;
        if !self.weights.is_empty() {
            text += "\n/* Constants, in weights.S. */\n";
        }
        for weight in &self.weights {
            let tensor = &weight.tensor;
            let (element, field) = (tensor.element(), &tensor.field);
            // An array of C has an element.
            let elements = tensor.elements().max(1);
            text += &format!("extern const {element} {field}[{elements}];\n");
        }
        text += &format!(
            "\nsize_t {name}_workspace_bytes(void)\n{{\n    return {upper}_WORKSPACE_BYTES;\n}}\n"
        );
        text += "\nstatic bool is_aligned(const void *pointer, size_t alignment)\n{\n    \
                 return pointer != NULL && (uintptr_t)pointer % alignment == 0;\n}\n";
        text += &match &self.whole {
            None => format!(
                "\nint {name}_run(const {name}_inputs *inputs, const {name}_outputs *outputs, \
                 void *workspace,\n    const {name}_threads *threads)\n{{\n"
            ),
            Some(_) => format!(
                "\nint {name}_run(const {name}_inputs *inputs, {name}_outputs *outputs, void *workspace, \
                 size_t bytes,\n    const {name}_threads *threads)\n{{\n"
            ),
        };
        text += &self.refusals();
        text += &match &self.whole {
            None => self.call(),
            Some(whole) => self.start(whole),
        };
        text += &format!("    return {upper}_OK;\n}}\n");
        if self.whole.is_some() {
            text += &format!(
                "\nint {name}_wants_memory(int status)\n{{\n    \
                 return status == {upper}_SMALL_WORKSPACE || status >= {upper}_MEMORY;\n}}\n"
            );
        }
        text + &self.message()
    }

    /// Statements that refuse what `NAME_run` cannot take.
    fn refusals(&self) -> String {
        let upper = self.upper();
        let mut text = String::new();
        for (side, tensors) in [("input", &self.inputs), ("output", &self.outputs)] {
            let mut checks = vec![format!("{side}s == NULL")];
            checks.extend(tensors.iter().map(|tensor| {
                let (field, element) = (&tensor.field, tensor.element());
                format!("!is_aligned({side}s->{field}, _Alignof({element}))")
            }));
            for Column { tensor, count, .. } in self.taken().iter().filter(|_| side == "input") {
                let (field, element) = (&tensor.field, tensor.element());
                checks.push(format!(
                    "(inputs->{count} != 0 && !is_aligned(inputs->{field}, _Alignof({element})))"
                ));
            }
            let (checks, code) = (checks.join("\n        || "), side.to_uppercase());
            text += &format!("    if ({checks}) {{\n        return {upper}_BAD_{code};\n    }}\n");
        }
        text += &match self.main.workspace {
            0 if self.whole.is_none() => "    (void)workspace;\n".to_string(),
            _ => format!(
                "    if (!is_aligned(workspace, {upper}_ALIGNMENT)) {{\n        \
                 return {upper}_BAD_WORKSPACE;\n    }}\n"
            ),
        };
        text += &format!(
            "    if (threads != NULL && threads->run == NULL) {{\n        \
             return {upper}_BAD_THREADS;\n    }}\n"
        );
        text
    }

    /// Statements that call the kernel of `@main`, and look at its checks.
    fn call(&self) -> String {
        let upper = self.upper();
        let mut text = String::new();
        let mut arguments: Vec<String> =
            self.inputs.iter().map(|input| format!("inputs->{}", input.field)).collect();
        arguments.extend(self.weights.iter().map(|weight| weight.tensor.field.clone()));
        arguments.extend(self.outputs.iter().map(|output| format!("outputs->{}", output.field)));
        let mut count = 0;
        for checks in &self.checks {
            arguments.push(format!("failed + {count}"));
            count += checks;
        }
        if count > 0 {
            text += &format!("    int32_t failed[{count}];\n");
        }
        if self.main.workspace > 0 {
            arguments.push("workspace".to_string());
        }
        if self.source.take_threads.contains(&self.main.name) {
            arguments.push("threads".to_string());
        }
        let (function, arguments) = (&self.main.symbol, arguments.join(",\n        "));
        text += &format!("    {function}({arguments});\n");
        if count > 0 {
            text += &format!(
                "    for (int check = 0; check < {count}; check++) {{\n        \
                 if (failed[check] != 0) {{\n            \
                 return {upper}_CHECK + check;\n        }}\n    }}\n"
            );
        }
        text
    }

    /// Statements that run a whole program, and look at how it ended.
    fn start(&self, whole: &Whole) -> String {
        let upper = self.upper();
        let p = crate::codegen::program_name(&super::prefix(&self.model.name), "");
        let mut buffers: Vec<String> =
            self.inputs.iter().map(|input| format!("(void *)inputs->{}", input.field)).collect();
        let weights = self.weights.iter();
        buffers.extend(weights.map(|weight| format!("(void *){}", weight.tensor.field)));
        buffers.extend(self.outputs.iter().map(|output| format!("outputs->{}", output.field)));
        buffers.push("NULL".to_string());
        let taken = whole.taken.len();
        let all = taken + whole.given.len();
        let mut text = format!(
            "    void *const buffers[] = {{{}}};\n    {p}column columns[{all} + 1];\n    \
             {p}state *const program = {p}start(workspace, bytes / {ALIGNMENT} * {ALIGNMENT}, \
             buffers + {});\n    if (program == NULL) {{\n        return {upper}_SMALL_WORKSPACE;\n    \
             }}\n    program->threads = threads;\n",
            buffers.join(",\n        "),
            self.inputs.len(),
        );
        for (index, Column { tensor, count, .. }) in whole.taken.iter().enumerate() {
            let field = &tensor.field;
            text += &format!(
                "    columns[{index}].at = (unsigned char *)inputs->{field};\n    \
                 columns[{index}].count = inputs->{count};\n"
            );
        }
        text += &format!(
            "    switch ({p}run(program, buffers, columns)) {{\n    case 0:\n        break;\n    \
             case 1:\n        return program->site < 0 ? {upper}_SMALL_WORKSPACE : \
             {upper}_MEMORY + (int)program->site;\n    case 2:\n        \
             return {upper}_CHECK + (int)program->site;\n    default:\n        \
             return {upper}_BAD_DATA;\n    }}\n"
        );
        for (index, Column { tensor, count, .. }) in whole.given.iter().enumerate() {
            let (index, field, element) = (taken + index, &tensor.field, tensor.element());
            text += &format!(
                "    outputs->{field} = ({element} *)(void *)columns[{index}].at;\n    \
                 outputs->{count} = (size_t)columns[{index}].count;\n"
            );
        }
        text
    }

    /// The function that tells what a status says.
    fn message(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let mut text =
            format!("\nconst char *{name}_message(int status)\n{{\n    switch (status) {{\n");
        let known = [
            ("OK", "done"),
            ("BAD_INPUT", "an input is null or not aligned"),
            ("BAD_OUTPUT", "an output is null or not aligned"),
            ("BAD_WORKSPACE", "the workspace is null or not aligned"),
            ("BAD_THREADS", "the threads have no function to run"),
        ];
        for (status, message) in known {
            text += &format!("    case {upper}_{status}:\n        return \"{message}\";\n");
        }
        if self.whole.is_some() {
            for (status, message) in [
                ("SMALL_WORKSPACE", "the workspace is too small"),
                ("BAD_DATA", "the columns of an input are not those of its type"),
            ] {
                text += &format!("    case {upper}_{status}:\n        return \"{message}\";\n");
            }
        }
        let memory = self.whole.as_ref().map_or(&[][..], |whole| &whole.memory);
        for (check, message) in self.model.messages.iter().enumerate() {
            let first = if memory.get(check) == Some(&true) { "MEMORY" } else { "CHECK" };
            let message = string(message);
            text += &format!("    case {upper}_{first} + {check}:\n        return {message};\n");
        }
        text + "    default:\n        return \"no status\";\n    }\n}\n"
    }

    /// Refuses compilers for machines whose vectors are shorter, where code is slow.
    fn guard(&self) -> String {
        let machine = &self.target.capabilities;
        let known = match machine.isa {
            "avx512" if machine.vector_bits >= 512 => "__AVX512F__",
            "avx512" | "avx2" if machine.vector_bits >= 256 => "__AVX2__",
            _ => return String::new(),
        };
        let (upper, flags) = (self.upper(), self.flags.join(" "));
        format!(
            "#if !defined({known}) && !defined({upper}_ANY_MACHINE)\n\
             #error \"written for {isa}: compile with {flags}, or write it again for this machine\"\n\
             #endif\n\n",
            isa = machine.isa
        )
    }

    /// `weights.S`.
    pub(super) fn assembly(&self) -> String {
        let weights = self.weights.iter();
        let symbols = weights
            .map(|weight| (weight.tensor.field.clone(), weight.offset, weight.tensor.bytes))
            .collect();
        let file = Embedded { file: "weights.bin".to_string(), symbols };
        assembly(&self.model.name, "The constants", &[file])
    }
}
