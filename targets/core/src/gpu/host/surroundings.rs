//! What comes with the code: an example, how to build it, and descriptions.

use serde_json::{Value, json};

use super::{Host, rows, run_of_example};
use crate::ALIGNMENT;
use crate::package::File;
use crate::package::c::{Embedded, Example, Tensor, string};

/// The flags of the compiler.
const FLAGS: &str = "-std=c11 -O2";

impl Host<'_> {
    /// `main.c`.
    pub(super) fn example(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let (inputs, outputs) = rows(self);
        let functions = run_of_example(name, &inputs, &outputs);
        let wanted = self.wanted.as_ref().map_or_else(|| "NULL".to_string(), |name| string(name));
        let start = format!(
            "    {name}_device *device = NULL;
    {name}_failure failure;
    int status = {name}_init(&device, {wanted}, &failure);
    if (status == {upper}_OK) {{
        status = run(device, in, out, &failure);
    }}
    {name}_release(device);
    if (status != {upper}_OK) {{
        fprintf(stderr, \"error: %s (status %d)%s%s\\n\", {name}_message(status), status,
                failure.text[0] != '\\0' ? \": \" : \"\", failure.text);
        return EXIT_FAILURE;
    }}
"
        );
        let (statements, alignment) = ((start, String::new()), ALIGNMENT.to_string());
        Example { model: self.model, inputs, outputs, alignment, functions, statements }.text()
    }

    /// The files that are compiled.
    fn sources(&self, has_data: bool) -> String {
        let data = if has_data { " data.S" } else { "" };
        format!("main.c {}.c{data}", self.model.name)
    }

    /// What is written on a command line that runs the example on the example inputs.
    fn arguments(&self) -> String {
        if self.model.inputs.iter().all(|input| input.example.is_none()) {
            return String::new();
        }
        let inputs = self.inputs.iter().zip(&self.model.inputs);
        let files = inputs.map(|(tensor, input)| match input.example {
            Some(_) => format!(" {}", tensor.example_file()),
            None => " -".to_string(),
        });
        files.collect()
    }

    /// `Makefile`.
    pub(super) fn makefile(&self, embedded: &[Embedded]) -> String {
        let (name, arguments) = (&self.model.name, self.arguments());
        let (mut objects, mut data) = (format!("main.o {name}.o"), String::new());
        if !embedded.is_empty() {
            let files: Vec<&str> = embedded.iter().map(|one| one.file.as_str()).collect();
            let files = files.join(" ");
            objects += " data.o";
            data = format!("\ndata.o: data.S {files}\n\t$(CC) $(CFLAGS) -c data.S\n");
        }
        format!(
            "\
# `make` builds the example, `make run` runs it.
CC = cc
CFLAGS = {FLAGS}
LDLIBS = -ldl -lm

example: {objects}
\t$(CC) $(CFLAGS) -o example {objects} $(LDLIBS)

main.o: main.c {name}.h
\t$(CC) $(CFLAGS) -c main.c

{name}.o: {name}.c {name}.h
\t$(CC) $(CFLAGS) -c {name}.c
{data}
run: example
\t./example{arguments}

clean:
\trm -f example {objects}

.PHONY: run clean
"
        )
    }

    /// `README.txt`.
    pub(super) fn readme(&self, has_data: bool) -> String {
        let (name, device, arguments) = (&self.model.name, self.device, self.arguments());
        let sources = self.sources(has_data);
        let (files, objects) = match has_data {
            true => (format!("{name}.c, {name}.h, data.S and the files it names"), " and data.S"),
            false => (format!("{name}.c and {name}.h"), ""),
        };
        format!(
            "\
A compiled model, which runs on {device}. Build and run the example, which prints the
results:

    cc {FLAGS} -o example {sources} -ldl -lm
    ./example{arguments}

In a program of your own, you need {files}:

- compile {name}.c{objects}, and link with -ldl where the C library has dlopen in a library of its own;
- include {name}.h, which says how {name}_init, {name}_run and {name}_release are called.

The code is C11 for systems with dlopen, and needs no header or library of the driver to be built.
data.S is for GCC and Clang.
"
        )
    }

    /// `manifest.json`.
    pub(super) fn manifest(&self, files: &[File]) -> String {
        let inputs = self.inputs.iter().zip(&self.model.inputs);
        let inputs: Vec<Value> =
            inputs.map(|(tensor, input)| tensor.described_input(input)).collect();
        let outputs: Vec<Value> = self.outputs.iter().map(Tensor::described).collect();
        let constants = self.weights.iter().zip(self.weight_places());
        let constants: Vec<Value> = constants
            .map(|(weight, place)| {
                json!({
                    "dtype": weight.dtype.to_string(),
                    "shape": weight.shape,
                    "offset": place.offset,
                    "bytes": place.bytes,
                })
            })
            .collect();
        let launches: Vec<&str> = self.sites.iter().map(|site| site.kernel.as_str()).collect();
        let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        names.push("manifest.json");
        let value = json!({
            "generator": "relay-opt compile",
            "version": env!("CARGO_PKG_VERSION"),
            "name": self.model.name,
            "source": self.model.source,
            "target": self.target,
            "flags": FLAGS.split(' ').collect::<Vec<&str>>(),
            "inputs": inputs,
            "outputs": outputs,
            "device": { "bytes": self.plan.bytes },
            "weights": {
                "bytes": self.weight_bytes(),
                "alignment": ALIGNMENT,
                "byte_order": if cfg!(target_endian = "big") { "big" } else { "little" },
                "constants": constants,
            },
            "launches": launches,
            "files": names,
        });
        format!("{value:#}\n")
    }
}
