//! Packages for devices: all but the code that talks to a driver, which each target writes.
//!
//! What is written: `NAME.c`, which opens a device, keeps the constants there and calls it; `NAME.h`;
//! `data.S`, which makes the constants and the code for the device parts of the program; these as files of
//! their own; an example `main.c`, a `Makefile`, `README.txt`, and `manifest.json`.
//!
//! `NAME.c` has tables of [where](super::plan) each buffer lies and of launches, then the code of the
//! target, which calls the driver as the tables say, and then what checks the arguments of a run.

mod surroundings;

use ir_core::{Diagnostic, Diagnostics, Module};
use te::loops::parameters;

use super::launches::{calls_of, refuse_programs};
use super::plan::{Part, Plan};
use crate::calls::Site;
use crate::package::c::{Embedded, Row, Tensor, assembly, comment, fields, set, string};
use crate::package::{Contents, File, Model};
use crate::{ALIGNMENT, Gpu};

/// The status of the first check; those before are for what is passed, and for devices.
const FIRST_CHECK: usize = 16;

/// What a package for a device is written from.
pub struct Host<'a> {
    /// The program, as its users see it.
    pub model: &'a Model,
    /// The target as text, with all options that matter.
    pub target: String,
    /// What runs it, for readers, such as `a Vulkan 1.1 device`.
    pub device: &'static str,
    /// Part of the name of the device that the example asks for.
    pub wanted: Option<String>,
    /// What it is called with, in order.
    pub sites: Vec<Site>,
    /// Where its buffers lie.
    pub plan: Plan,
    inputs: Vec<Tensor>,
    weights: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

/// A file of code for the device, and the symbol of what it holds.
pub struct Code {
    /// The file.
    pub file: File,
    /// Its bytes.
    pub bytes: usize,
    /// The symbol.
    pub symbol: String,
}

impl<'a> Host<'a> {
    /// What the package of `model`, whose kernels are `module`, has in common with those of other targets
    /// than `target`. Its buffers start at multiples of what `gpu` says.
    ///
    /// # Errors
    /// `E0902` for whole programs and what else is no list of launches, `E0910` without a main kernel,
    /// `E0911` for names that C does not have.
    pub fn new(
        module: &Module,
        model: &'a Model,
        gpu: &Gpu,
        (target, text, device): (&str, String, &'static str),
    ) -> Result<Host<'a>, Diagnostics> {
        model.check_name(&["data", "weights"])?;
        refuse_programs(module, target)?;
        let layout = &model.layout;
        let main = ir_core::Symbol::new(&model.main);
        let item = module.items.get(&main);
        let params = item.map_or(vec![], |item| parameters(&item.signature).to_vec());
        let count = layout.inputs + layout.data.len() + layout.outputs + layout.checks.len();
        let Some(item) = item.filter(|_| params.len() == count) else {
            let message = format!("there is no kernel `@{main}` of these inputs");
            return Err(Diagnostic::error("E0910", message).into());
        };
        let calls = calls_of(main, item)?;
        if !calls.constants.is_empty() {
            let message = format!("`@{main}` has constants that are no parameters");
            return Err(Diagnostic::error("E0910", message).into());
        }
        let kept = layout.inputs..layout.inputs + layout.data.len();
        let plan = Plan::new(&params, kept.clone(), &calls, gpu.alignment.unsigned_abs());
        let plan = plan.ok_or_else(|| {
            let message = format!("`@{main}` has buffers of unknown extents");
            Diagnostic::error("E0902", message).at(item.signature.span)
        })?;
        let mut made = Host {
            model,
            target: text,
            device,
            wanted: None,
            sites: calls.sites,
            plan,
            inputs: vec![],
            weights: vec![],
            outputs: vec![],
        };
        let names = fields(model.inputs.iter().map(|input| input.name.clone())).into_iter();
        for ((input, field), ty) in model.inputs.iter().zip(names).zip(&params) {
            made.inputs.push(Tensor::new(&input.name, field, *ty)?);
        }
        for (index, ty) in params[kept.clone()].iter().enumerate() {
            let name = format!("weight_{index}");
            made.weights.push(Tensor::new(&name, format!("{}_{name}", model.name), *ty)?);
        }
        let named = |index: usize| {
            let name = model.outputs.get(index).cloned();
            name.unwrap_or_else(|| format!("out_{index}"))
        };
        let names: Vec<String> = (0..layout.outputs).map(named).collect();
        let results = params[kept.end..].iter();
        for ((name, field), ty) in names.iter().zip(fields(names.clone())).zip(results) {
            made.outputs.push(Tensor::new(name, field, *ty)?);
        }
        Ok(made)
    }

    /// What the names of macros start with.
    fn upper(&self) -> String {
        self.model.name.to_uppercase()
    }

    /// The inputs, as they lie on the device.
    fn input_parts(&self) -> &[Part] {
        &self.plan.params[..self.inputs.len()]
    }

    /// The results and what checks give, as they lie on the device.
    fn result_parts(&self) -> &[Part] {
        &self.plan.params[self.inputs.len() + self.weights.len()..]
    }

    /// Where each constant lies in `weights.bin`, and how many bytes it has.
    fn weight_places(&self) -> Vec<Part> {
        let mut end: u64 = 0;
        let places = self.weights.iter().map(|weight| {
            let offset = end.next_multiple_of(ALIGNMENT as u64);
            end = offset + weight.bytes as u64;
            Part { offset, bytes: weight.bytes as u64 }
        });
        places.collect()
    }

    /// Bytes of `weights.bin`.
    fn weight_bytes(&self) -> u64 {
        self.weight_places().last().map_or(0, |last| last.offset + last.bytes)
    }

    /// The files of the package, whose launches need `code` on the device. `driver` is the part of
    /// `NAME.c` that calls the driver: it defines `NAME_init`, `NAME_release`, and
    ///
    /// ```c
    /// static int compute(NAME_device *device, const void *const *in, void *const *out,
    ///                    NAME_failure *failure);
    /// ```
    ///
    /// by the macros of statuses and the tables that stand before it.
    pub fn files(&self, driver: &str, code: Vec<Code>) -> Vec<File> {
        let name = &self.model.name;
        let text = |name: String, text: String| File { name, contents: Contents::Text(text) };
        let mut files = vec![
            text(format!("{name}.h"), self.header()),
            text(format!("{name}.c"), self.code(driver, &code)),
        ];
        let mut embedded = Vec::new();
        if !self.weights.is_empty() {
            let contents = Contents::Tensors(self.model.layout.data.clone());
            files.push(File { name: "weights.bin".to_string(), contents });
            let symbols = vec![(format!("{name}_weights"), 0, self.weight_bytes() as usize)];
            embedded.push(Embedded { file: "weights.bin".to_string(), symbols });
        }
        for Code { file, bytes, symbol } in code {
            let symbols = vec![(symbol, 0, bytes)];
            embedded.push(Embedded { file: file.name.clone(), symbols });
            files.push(file);
        }
        if !embedded.is_empty() {
            let what = "What goes to the device";
            files.push(text("data.S".to_string(), assembly(name, what, &embedded)));
        }
        let has_data = !embedded.is_empty();
        files.push(text("main.c".to_string(), self.example()));
        files.push(text("Makefile".to_string(), self.makefile(&embedded)));
        files.push(text("README.txt".to_string(), self.readme(has_data)));
        for (tensor, input) in self.inputs.iter().zip(&self.model.inputs) {
            if let Some(example) = &input.example {
                let contents = Contents::Tensors(vec![example.clone()]);
                files.push(File { name: tensor.example_file(), contents });
            }
        }
        let manifest = self.manifest(&files);
        files.push(text("manifest.json".to_string(), manifest));
        files
    }

    /// The first lines of a file.
    fn title(&self, what: &str) -> String {
        let (source, target) = (comment(&self.model.source), comment(&self.target));
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "/* {what}\n\n   Compiled from {source} by relay-opt {version} for {target}. Do not edit.\n"
        )
    }

    /// `NAME.h`.
    fn header(&self) -> String {
        let (name, upper, device) = (&self.model.name, self.upper(), self.device);
        let title = self.title("The interface of a compiled model, which runs on a device.");
        let (inputs, outputs) = (members(&self.inputs, "const "), members(&self.outputs, ""));
        let bytes = self.plan.bytes;
        format!(
            "\
{title}
   Call {name}_init once, then set up {name}_inputs and {name}_outputs and call {name}_run as often as you
   like, and {name}_release at the end.

   Tensors are dense, row by row, in the memory of the caller. An input may be passed several times; an
   output shares no memory with anything else that is passed. */

#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {{
#endif

/* Bytes of the device's memory that the constants, inputs, outputs and intermediate results take. */
#define {upper}_DEVICE_BYTES {bytes}u

/* What the functions return. */
enum {{
    {upper}_OK = 0,
    /* A pointer is null. */
    {upper}_BAD_INPUT = 1,
    {upper}_BAD_OUTPUT = 2,
    {upper}_BAD_DEVICE = 3,
    /* There is no driver, or no device of the name that was asked for. */
    {upper}_NO_DEVICE = 4,
    /* The device lacks what the model needs. */
    {upper}_UNFIT_DEVICE = 5,
    /* The device or this machine has too little memory. */
    {upper}_NO_MEMORY = 6,
    /* The driver failed, or the device was lost. */
    {upper}_FAILED = 7,
    /* From here on: a number is not what an operator expects, such as a divisor of 0 or an index
       outside of an axis. The outputs hold nothing in particular then. */
    {upper}_CHECK = {FIRST_CHECK}
}};

/* What a status says; of a check also which operator of the source it belongs to. */
const char *{name}_message(int status);

/* More on what failed, such as which call of the driver gave which number; empty where there is no more
   to say than {name}_message does. */
typedef struct {{
    char text[512];
}} {name}_failure;

/* The model on {device}. */
typedef struct {name}_device {name}_device;

typedef struct {{
{inputs}}} {name}_inputs;

typedef struct {{
{outputs}}} {name}_outputs;

/* Opens the first device whose name contains `wanted`, which may be null, and copies the constants there.
   Sets `device`, to null where it does not return {upper}_OK. `failure` may be null, here and below. */
int {name}_init({name}_device **device, const char *wanted, {name}_failure *failure);

/* Computes the outputs from the inputs, and waits for them. One call at a time for a device; devices that
   were opened apart are independent. Returns {upper}_OK, or what is wrong; below {upper}_CHECK, no output
   was written then. */
int {name}_run({name}_device *device, const {name}_inputs *inputs, const {name}_outputs *outputs,
    {name}_failure *failure);

/* Ends the use of the device, and releases all that {name}_init made. It may be null. */
void {name}_release({name}_device *device);

#ifdef __cplusplus
}}
#endif

#endif
"
        )
    }

    /// `NAME.c`.
    fn code(&self, driver: &str, code: &[Code]) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let mut text =
            self.title("A compiled model on a device: see the header for how to call it.");
        text.truncate(text.trim_end().len());
        text += &format!(
            " */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include \"{name}.h\"

"
        );
        if !self.weights.is_empty() || !code.is_empty() {
            text += "/* In data.S. */\n";
        }
        if !self.weights.is_empty() {
            text += &format!("extern const unsigned char {name}_weights[];\n");
        }
        for Code { symbol, .. } in code {
            text += &format!("extern const unsigned char {symbol}[];\n");
        }
        let weights = match self.weights.is_empty() {
            true => "NULL".to_string(),
            false => format!("{name}_weights"),
        };
        text += &self.tables();
        text += &format!("\nstatic const unsigned char *const weight_data = {weights};\n");
        text += &driver.replace("{name}", name).replace("{macro}", &upper);
        text += &self.run();
        text + &self.message()
    }

    /// Where things lie, for all drivers.
    fn tables(&self) -> String {
        let (inputs, results) = (self.input_parts(), self.result_parts());
        let kept = &self.plan.params[self.inputs.len()..self.inputs.len() + self.weights.len()];
        let mut text = format!(
            "
/* ---- where things lie ---------------------------------------------------------------------- */

/* A part of the device's memory, in bytes. */
struct part {{
    uint64_t offset;
    uint64_t bytes;
}};

/* A constant: where it is in {name}_weights, and where on the device. */
struct weight {{
    uint64_t from;
    struct part to;
}};

enum {{ INPUTS = {}, RESULTS = {}, WEIGHTS = {} }};

/* Of the device's memory, what a run copies there and back lies first. */
#define CHANGING_BYTES UINT64_C({})
#define DEVICE_BYTES UINT64_C({})
#define WEIGHT_BYTES UINT64_C({})

",
            inputs.len(),
            results.len(),
            kept.len(),
            self.plan.changing,
            self.plan.bytes,
            self.weight_bytes(),
            name = self.model.name,
        );
        let row = |part: &Part| format!("    {{{}, {}}},\n", part.offset, part.bytes);
        for (table, count, parts) in [("inputs", "INPUTS", inputs), ("results", "RESULTS", results)]
        {
            let rows: String = parts.iter().map(row).collect();
            text += &format!(
                "static const struct part {table}[{count} + 1] = {{\n{rows}    {{0, 0}},\n}};\n\n"
            );
        }
        let weights = self.weight_places();
        let weights = weights.iter().zip(kept);
        let rows: String = weights
            .map(|(from, to)| {
                format!("    {{{}, {{{}, {}}}}},\n", from.offset, to.offset, to.bytes)
            })
            .collect();
        let last = "    {0, {0, 0}},\n};\n";
        text += &format!("static const struct weight weights[WEIGHTS + 1] = {{\n{rows}{last}");
        text += &format!(
            "
/* Notes what failed, with what the driver said; the status. */
static int failed({name}_failure *failure, int status, const char *what, long code)
{{
    if (failure != NULL) {{
        snprintf(failure->text, sizeof failure->text, \"%s: %ld\", what, code);
    }}
    return status;
}}

/* Notes what is missing; the status. */
static int refused({name}_failure *failure, int status, const char *what)
{{
    if (failure != NULL) {{
        snprintf(failure->text, sizeof failure->text, \"%s\", what);
    }}
    return status;
}}
",
            name = self.model.name
        );
        text
    }

    /// `NAME_run`.
    fn run(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let mut text = format!(
            "
/* ---- runs ---------------------------------------------------------------------------------- */

int {name}_run({name}_device *device, const {name}_inputs *inputs, const {name}_outputs *outputs,
    {name}_failure *failure)
{{
    if (failure != NULL) {{
        failure->text[0] = '\\0';
    }}
"
        );
        for (side, tensors) in [("input", &self.inputs), ("output", &self.outputs)] {
            let members = tensors.iter().map(|tensor| format!("{side}s->{} == NULL", tensor.field));
            let checks: Vec<String> =
                [format!("{side}s == NULL")].into_iter().chain(members).collect();
            let (checks, code) = (checks.join("\n        || "), side.to_uppercase());
            text += &format!("    if ({checks}) {{\n        return {upper}_BAD_{code};\n    }}\n");
        }
        text +=
            &format!("    if (device == NULL) {{\n        return {upper}_BAD_DEVICE;\n    }}\n");
        let given = self.inputs.iter().map(|input| format!("inputs->{}", input.field));
        let given: Vec<String> = given.chain(["NULL".to_string()]).collect();
        let mut taken: Vec<String> =
            self.outputs.iter().map(|output| format!("outputs->{}", output.field)).collect();
        let mut count = 0;
        for call in &self.model.layout.checks {
            taken.push(format!("failures + {count}"));
            count += call.sites.len();
        }
        taken.push("NULL".to_string());
        if count > 0 {
            text += &format!("    int32_t failures[{count}];\n");
        }
        text += &format!(
            "    const void *const in[] = {{{}}};
    void *const out[] = {{{}}};
    const int status = compute(device, in, out, failure);
",
            given.join(",\n        "),
            taken.join(",\n        ")
        );
        if count > 0 {
            text += &format!(
                "    for (int check = 0; status == {upper}_OK && check < {count}; check++) {{
        if (failures[check] != 0) {{
            return {upper}_CHECK + check;
        }}
    }}
"
            );
        }
        text + "    return status;\n}\n"
    }

    /// The function that tells what a status says.
    fn message(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let mut text =
            format!("\nconst char *{name}_message(int status)\n{{\n    switch (status) {{\n");
        let known = [
            ("OK", "done"),
            ("BAD_INPUT", "an input is null"),
            ("BAD_OUTPUT", "an output is null"),
            ("BAD_DEVICE", "the device is null"),
            ("NO_DEVICE", "there is no driver or device"),
            ("UNFIT_DEVICE", "the device lacks what the model needs"),
            ("NO_MEMORY", "there is too little memory"),
            ("FAILED", "the driver failed"),
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
}

/// The members of a structure.
fn members(tensors: &[Tensor], constness: &str) -> String {
    match tensors.is_empty() {
        true => "    /* There are none; C wants a member. */\n    int unused;\n".to_string(),
        false => tensors.iter().map(|tensor| tensor.member(constness, "", "")).collect(),
    }
}

/// The rows of the example's tables.
fn rows<'t>(host: &'t Host<'_>) -> (Vec<Row<'t>>, Vec<Row<'t>>) {
    let inputs = host.inputs.iter().zip(&host.model.inputs);
    let inputs = inputs
        .map(|(tensor, input)| Row { random: (input.seed, input.spread), ..Row::of(tensor) })
        .collect();
    (inputs, host.outputs.iter().map(Row::of).collect())
}

/// The function of the example that runs the model on buffers.
fn run_of_example(name: &str, inputs: &[Row<'_>], outputs: &[Row<'_>]) -> String {
    let arguments = set(name, "inputs", "arguments", "in", "const ", inputs);
    let results = set(name, "outputs", "results", "out", "", outputs);
    format!(
        "static int run({name}_device *device, const struct buffer *in, struct buffer *out,
               {name}_failure *failure)
{{
{arguments}{results}    return {name}_run(device, &arguments, &results, failure);
}}
"
    )
}
