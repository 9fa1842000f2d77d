//! What embedders call: the header, the function that it declares, and the symbols of weights.

use target_core::ALIGNMENT;

use super::{Program, Tensor, comment, string};

/// The status of the first check; those before are for what is passed.
const FIRST_CHECK: usize = 16;

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
        let inputs = self.fields(&self.inputs, "const ");
        let outputs = self.fields(&self.outputs, "");
        let provided = crate::codegen::provided(&self.source.externals);
        let statuses = self.statuses();
        format!(
            "\
{title}
   Set up {name}_inputs and {name}_outputs, and call {name}_run.

   Tensors are dense, row by row. Pointers are aligned as their types are. An input may be passed
   several times; an output shares no memory with anything else that is passed. */

#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {{
#endif

/* The workspace, where intermediate results lie: its bytes, and what its address is a multiple of.
   Nothing has to be kept in it between calls. */
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

/* Computes the outputs from the inputs. Nothing is allocated, and nothing is kept: calls at one
   time are safe, each with a workspace and outputs of its own. Without `threads`, which may be
   null, parallel loops run by OpenMP where that was on when {name}.c was compiled, else here.
   Returns {upper}_OK, or what is wrong; below {upper}_CHECK, no output was written then. */
int {name}_run(const {name}_inputs *inputs, const {name}_outputs *outputs, void *workspace,
    const {name}_threads *threads);

#ifdef __cplusplus
}}
#endif

#endif
"
        )
    }

    /// What `NAME_run` returns, and the function that explains it.
    fn statuses(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
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
    /* From here on: a number is not what an operator expects, such as a divisor of 0 or an index
       outside of an axis. The outputs hold nothing in particular then. */
    {upper}_CHECK = {FIRST_CHECK}
}};

/* What a status says; of a check also which operator of the source it belongs to. */
const char *{name}_message(int status);
"
        )
    }

    /// The members of a struct.
    fn fields(&self, tensors: &[Tensor], constness: &str) -> String {
        let mut text = String::new();
        for tensor in tensors {
            let note = match tensor.dtype {
                dtype if dtype.is_bool() => "; each 0 or 1",
                dtype if dtype.is_float() && dtype.bits() < 32 => "; bits of floats",
                _ => "",
            };
            let (name, ty) = (comment(&tensor.name), comment(&tensor.ty.to_string()));
            let (elements, element, field) = (tensor.elements(), tensor.element(), &tensor.field);
            let plural = if elements == 1 { "" } else { "s" };
            text += &format!("    /* {name}: {ty}, {elements} element{plural}{note} */\n");
            text += &format!("    {constness}{element} *{field};\n");
        }
        if tensors.is_empty() {
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
        text += &format!(
            "\nint {name}_run(const {name}_inputs *inputs, const {name}_outputs *outputs, \
             void *workspace,\n    const {name}_threads *threads)\n{{\n"
        );
        text += &self.refusals();
        text += &self.call();
        text += &format!("    return {upper}_OK;\n}}\n");
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
            let (checks, code) = (checks.join("\n        || "), side.to_uppercase());
            text += &format!("    if ({checks}) {{\n        return {upper}_BAD_{code};\n    }}\n");
        }
        text += &match self.main.workspace {
            0 => "    (void)workspace;\n".to_string(),
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
        for (check, message) in self.model.messages.iter().enumerate() {
            let message = string(message);
            text += &format!("    case {upper}_CHECK + {check}:\n        return {message};\n");
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
        let name = &self.model.name;
        let mut text = format!(
            "\
/* The constants of {name}, which lie in weights.bin. The assembler looks for that file in the
   current folder, and in those that `-I` names. */

#if defined(__APPLE__)
#define SYMBOL(name) _##name
#else
#define SYMBOL(name) name
#endif

#if defined(__ELF__)
#define WEIGHT(name, offset, bytes) \\
    .globl name; .hidden name; .type name, %object; .size name, bytes; .set name, first + offset
    .section .rodata.{name}_weights, \"a\", %progbits
#elif defined(__APPLE__)
#define WEIGHT(name, offset, bytes) \\
    .globl name; .private_extern name; .set name, first + offset
    .const
#else
#define WEIGHT(name, offset, bytes) \\
    .globl name; .set name, first + offset
    .section .rdata, \"dr\"
#endif

    .balign {ALIGNMENT}
first:
    .incbin \"weights.bin\"
    /* So that a constant without elements has a place. */
    .byte 0

"
        );
        for weight in &self.weights {
            let (field, offset, bytes) = (&weight.tensor.field, weight.offset, weight.tensor.bytes);
            text += &format!("WEIGHT(SYMBOL({field}), {offset}, {bytes})\n");
        }
        text + "\n#if defined(__ELF__)\n    .section .note.GNU-stack, \"\", %progbits\n#endif\n"
    }
}
