//! What comes with the code: an example, how to build it, and descriptions.

use ir_core::{Dim, Type};
use serde_json::{Value, json};
use target_core::ALIGNMENT;
use target_core::package::File;
use target_core::package::c::{self, Example, Row, Tensor};

use super::{Column, Program};

impl Program<'_> {
    /// `main.c`.
    pub(super) fn example(&self) -> String {
        let (name, upper) = (&self.model.name, self.upper());
        let random = self.model.inputs.iter().map(|input| (input.seed, input.spread));
        let tensors = self.inputs.iter().zip(random);
        let tensors = tensors.map(|(tensor, random)| Row { tensor, column: None, random });
        let inputs: Vec<Row<'_>> = tensors.chain(self.taken().iter().map(Column::row)).collect();
        let results: Vec<Row<'_>> = self.outputs.iter().map(Row::of).collect();
        let functions = self.run(&inputs, &results);
        let outputs = results.into_iter().chain(self.given().iter().map(Column::row)).collect();
        let start = format!(
            "    size_t bytes = {name}_workspace_bytes();
    void *workspace = allocate(bytes);
    int status = run(in, out, workspace, bytes);
    while (wants_memory(status) && bytes < SIZE_MAX / 4) {{
        free(workspace);
        bytes *= 4;
        workspace = allocate(bytes);
        status = run(in, out, workspace, bytes);
    }}
    if (status != {upper}_OK) {{
        fprintf(stderr, \"error: %s (status %d)\\n\", {name}_message(status), status);
        return EXIT_FAILURE;
    }}
"
        );
        let statements = (start, "    free(workspace);\n".to_string());
        let alignment = format!("{upper}_ALIGNMENT");
        Example { model: self.model, inputs, outputs, alignment, functions, statements }.text()
    }

    /// The functions that run the program on buffers, and say whether it wants more memory.
    fn run(&self, inputs: &[Row<'_>], results: &[Row<'_>]) -> String {
        let name = &self.model.name;
        let inputs = c::set(name, "inputs", "arguments", "in", "const ", inputs);
        let constness = if self.whole.is_some() { "" } else { "const " };
        let outputs = c::set(name, "outputs", "results", "out", "", results);
        let outputs = outputs.replacen("const ", constness, 1);
        let head = "static int run(const struct buffer *in, struct buffer *out, void *workspace, \
                    size_t bytes)\n{\n";
        if self.whole.is_none() {
            return format!(
                "{head}{inputs}{outputs}    (void)bytes;\n    \
                 return {name}_run(&arguments, &results, workspace, NULL);\n}}\n\n\
                 static int wants_memory(int status)\n{{\n    (void)status;\n    return 0;\n}}\n"
            );
        }
        let mut given = String::new();
        for (index, Column { tensor, count, .. }) in self.given().iter().enumerate() {
            let (index, field) = (self.outputs.len() + index, &tensor.field);
            given += &format!(
                "    out[{index}].data = (unsigned char *)results.{field};\n    \
                 out[{index}].count = results.{count};\n"
            );
        }
        format!(
            "{head}{inputs}{outputs}    \
             const int status = {name}_run(&arguments, &results, workspace, bytes, NULL);\n{given}    \
             return status;\n}}\n\n\
             static int wants_memory(int status)\n{{\n    \
             return {name}_wants_memory(status);\n}}\n"
        )
    }

    /// The files that are compiled.
    fn sources(&self) -> String {
        let weights = if self.weights.is_empty() { "" } else { " weights.S" };
        format!("main.c {}.c{weights}", self.model.name)
    }

    /// What is written on a command line that runs the example on the example inputs.
    fn arguments(&self) -> String {
        let mut text = String::new();
        if self.example_inputs().any(|(_, example)| example.is_some()) {
            for (tensor, example) in self.example_inputs() {
                text += &match example {
                    Some(_) => format!(" {}", tensor.example_file()),
                    None => " -".to_string(),
                };
            }
        }
        text
    }

    /// `Makefile`.
    pub(super) fn makefile(&self) -> String {
        let (name, flags, arguments) = (&self.model.name, self.flags.join(" "), self.arguments());
        let compiler = self.compiler();
        let (mut objects, mut weights) = (format!("main.o {name}.o"), String::new());
        if !self.weights.is_empty() {
            objects += " weights.o";
            weights = "\nweights.o: weights.S weights.bin\n\t$(CC) $(CFLAGS) -c weights.S\n".into();
        }
        format!(
            "\
# `make` builds the example, `make run` runs it, `make OPENMP=-fopenmp` uses threads.
CC = {compiler}
CFLAGS = {flags}
OPENMP =
LDLIBS = -lm

example: {objects}
\t$(CC) $(CFLAGS) $(OPENMP) -o example {objects} $(LDLIBS)

main.o: main.c {name}.h
\t$(CC) $(CFLAGS) $(OPENMP) -c main.c

{name}.o: {name}.c {name}.h
\t$(CC) $(CFLAGS) $(OPENMP) -c {name}.c
{weights}
run: example
\t./example{arguments}

clean:
\trm -f example {objects}

.PHONY: run clean
"
        )
    }

    /// `README.txt`.
    pub(super) fn readme(&self) -> String {
        let (name, flags, arguments) = (&self.model.name, self.flags.join(" "), self.arguments());
        let compiler = self.compiler();
        let (sources, upper) = (self.sources(), self.upper());
        let files = match self.weights.is_empty() {
            true => format!("{name}.c and {name}.h"),
            false => format!("{name}.c, {name}.h, weights.S and weights.bin"),
        };
        let pedantic = match self.target.capabilities.vector_bits {
            0 => "The code is C11, for any compiler; weights.S is for GCC and Clang.",
            _ => "The code is C11 with GNU vectors, for GCC and Clang.",
        };
        let objects = if self.weights.is_empty() { "" } else { " and weights.S" };
        let growing = match self.whole {
            Some(_) => {
                format!(";\n  where {name}_wants_memory(status), call it again with a larger one")
            }
            None => String::new(),
        };
        format!(
            "\
A compiled model. Build and run the example, which prints the results:

    {compiler} {flags} -o example {sources} -lm
    ./example{arguments}

With threads, where the compiler has OpenMP:

    {compiler} {flags} -fopenmp -o example {sources} -lm

In a program of your own, you need {files}:

- compile {name}.c{objects} with the same flags;
- include {name}.h, which says how {name}_run is called;
- pass it a workspace of {upper}_WORKSPACE_BYTES bytes, aligned to {upper}_ALIGNMENT{growing}.

{pedantic} It calls functions of
the C library's math.h and string.h, and no others.
"
        )
    }

    /// `manifest.json`.
    pub(super) fn manifest(&self, files: &[File]) -> String {
        let inputs = self.inputs.iter().zip(&self.model.inputs);
        let inputs = inputs.map(|(tensor, input)| tensor.described_input(input));
        let outputs = self.outputs.iter().map(Tensor::described);
        let columns = |columns: &[Column]| -> Vec<Value> {
            let column = |column: &Column| {
                let mut value = column.tensor.described();
                value["count"] = column.count.clone().into();
                value["meaning"] = column.note.clone().into();
                if column.example.is_some() {
                    value["example"] = column.tensor.example_file().into();
                }
                value
            };
            columns.iter().map(column).collect()
        };
        let constants = self.weights.iter().map(|weight| {
            let tensor = &weight.tensor;
            json!({
                "symbol": tensor.field,
                "name": tensor.name,
                "dtype": tensor.dtype.to_string(),
                "shape": tensor.shape,
                "offset": weight.offset,
                "bytes": tensor.bytes,
            })
        });
        let kernels = self.source.kernels.iter().map(|kernel| {
            let (name, symbol, bytes) = (&kernel.name, &kernel.symbol, kernel.workspace);
            json!({ "name": name, "symbol": symbol, "workspace_bytes": bytes })
        });
        let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        names.push("manifest.json");
        let value = json!({
            "generator": "relay-opt compile",
            "version": env!("CARGO_PKG_VERSION"),
            "name": self.model.name,
            "source": self.model.source,
            "target": self.target_text(),
            "flags": self.flags,
            "inputs": inputs.chain(columns(self.taken())).collect::<Vec<Value>>(),
            "outputs": outputs.chain(columns(self.given())).collect::<Vec<Value>>(),
            "workspace": {
                "bytes": self.main.workspace,
                "alignment": ALIGNMENT,
                "grows": self.whole.is_some(),
            },
            "weights": {
                "bytes": self.weight_bytes(),
                "alignment": ALIGNMENT,
                "byte_order": if cfg!(target_endian = "big") { "big" } else { "little" },
                "constants": constants.collect::<Vec<Value>>(),
            },
            "kernels": kernels.collect::<Vec<Value>>(),
            "files": names,
        });
        format!("{value:#}\n")
    }
}

impl Column {
    /// It in the example, of any number of elements.
    fn row(&self) -> Row<'_> {
        let shape =
            std::iter::once(Dim::Any).chain(self.tensor.shape.iter().copied().map(Dim::Known));
        let ty = Type::tensor(shape, self.tensor.dtype).to_string();
        Row { column: Some((ty, &self.count)), ..Row::of(&self.tensor) }
    }
}
