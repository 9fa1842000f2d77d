//! What comes with the code: an example, how to build it, and descriptions.

use ir_core::{DTypeKind, Dim, Spread, Type};
use serde_json::{Value, json};
use target_core::ALIGNMENT;
use target_core::package::File;

use super::{Column, Program, Tensor, string};

impl Program<'_> {
    /// `main.c`.
    pub(super) fn example(&self) -> String {
        let name = &self.model.name;
        let shown: Vec<(&Tensor, String)> = self
            .outputs
            .iter()
            .map(|tensor| (tensor, tensor.ty.to_string()))
            .chain(self.given().iter().map(|column| (&column.tensor, column.ty())))
            .collect();
        let name_width = shown.iter().map(|(tensor, _)| tensor.name.len()).max().unwrap_or(0);
        let type_width = shown.iter().map(|(_, ty)| ty.len()).max().unwrap_or(0);
        let inputs = self.inputs.len() + self.taken().len();
        let mut tables = format!(
            "enum {{ INPUTS = {inputs}, OUTPUTS = {} }};\n\
             enum {{ NAME_WIDTH = {name_width}, TYPE_WIDTH = {type_width} }};\n\n",
            shown.len()
        );
        let random = self.model.inputs.iter().map(|input| (input.seed, input.spread));
        let usual = || (0, Spread::default());
        let tensors = self.inputs.iter().zip(random).map(|(one, random)| row(one, None, random));
        let columns = |columns: &[Column]| -> Vec<String> {
            let row = |column: &Column| row(&column.tensor, Some(column.ty()), usual());
            columns.iter().map(row).collect()
        };
        let rows = tensors.chain(columns(self.taken())).collect::<String>();
        let results = self.outputs.iter().map(|one| row(one, None, usual()));
        let results = results.chain(columns(self.given())).collect::<String>();
        for (table, count, rows) in [("inputs", "INPUTS", rows), ("outputs", "OUTPUTS", results)] {
            tables += &format!("static const struct tensor {table}[{count} + 1] = {{\n");
            tables += &rows;
            tables += "    {NULL, NULL, KIND_FLOAT, 1, 0, 0, 0, 0.0, 0.0},\n};\n\n";
        }
        tables += &self.run();
        include_str!("example.c")
            .replace("{name}", name)
            .replace("{macro}", &self.upper())
            .replace("{seed}", &self.model.seed.to_string())
            .replace("{tables}", &tables)
    }

    /// The functions that run the program on buffers, and say whether it wants more memory.
    fn run(&self) -> String {
        let name = &self.model.name;
        let inputs = self.set("inputs", "arguments", "in", "const ", &self.inputs, self.taken());
        let constness = if self.whole.is_some() { "" } else { "const " };
        let outputs = self.set("outputs", "results", "out", "", &self.outputs, &[]);
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

    /// Sets a struct of the interface from a list of buffers.
    fn set(
        &self,
        ty: &str,
        of: &str,
        list: &str,
        constness: &str,
        tensors: &[Tensor],
        columns: &[Column],
    ) -> String {
        let name = &self.model.name;
        if tensors.is_empty() && columns.is_empty() {
            return format!("    const {name}_{ty} {of} = {{0}};\n    (void){list};\n");
        }
        let mut text = format!("    const {name}_{ty} {of} = {{\n");
        let all = tensors.iter().chain(columns.iter().map(|column| &column.tensor));
        for (index, tensor) in all.enumerate() {
            let (field, element) = (&tensor.field, tensor.element());
            text += &format!(
                "        .{field} = ({constness}{element} *)(void *){list}[{index}].data,\n"
            );
        }
        for (index, column) in columns.iter().enumerate() {
            let index = tensors.len() + index;
            text += &format!("        .{} = {list}[{index}].count,\n", column.count);
        }
        text + "    };\n"
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
                    Some(_) => format!(" inputs/{}.bin", tensor.field),
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
        let inputs = self.inputs.iter().zip(&self.model.inputs).map(|(tensor, input)| {
            let mut value = described(tensor);
            value["seed"] = input.seed.into();
            value["spread"] = json!({ "least": input.spread.least, "width": input.spread.width });
            if input.example.is_some() {
                value["example"] = format!("inputs/{}.bin", tensor.field).into();
            }
            value
        });
        let outputs = self.outputs.iter().map(described);
        let columns = |columns: &[Column]| -> Vec<Value> {
            let column = |column: &Column| {
                let mut value = described(&column.tensor);
                value["count"] = column.count.clone().into();
                value["meaning"] = column.note.clone().into();
                if column.example.is_some() {
                    value["example"] = format!("inputs/{}.bin", column.tensor.field).into();
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
    /// Its type, of any number of elements.
    fn ty(&self) -> String {
        let shape =
            std::iter::once(Dim::Any).chain(self.tensor.shape.iter().copied().map(Dim::Known));
        Type::tensor(shape, self.tensor.dtype).to_string()
    }
}

/// A row of the example's tables. Columns have a type of their own.
fn row(tensor: &Tensor, column: Option<String>, (seed, spread): (u64, Spread)) -> String {
    let dtype = tensor.dtype;
    let kind = match dtype.kind() {
        _ if dtype.is_bool() => "BOOL",
        DTypeKind::Int => "INT",
        DTypeKind::UInt => "UINT",
        DTypeKind::BFloat => "BFLOAT",
        _ => "FLOAT",
    };
    let is_column = i32::from(column.is_some());
    let ty = column.unwrap_or_else(|| tensor.ty.to_string());
    let (name, ty) = (string(&tensor.name), string(&ty));
    let (bytes, count) = (dtype.bytes(), tensor.elements());
    let Spread { least, width } = spread;
    format!(
        "    {{{name}, {ty}, KIND_{kind}, {bytes}, {count}, {is_column}, {seed:#x}u, {least:?}, {width:?}}},\n"
    )
}

fn described(tensor: &Tensor) -> Value {
    json!({
        "name": tensor.name,
        "field": tensor.field,
        "dtype": tensor.dtype.to_string(),
        "shape": tensor.shape,
        "bytes": tensor.bytes,
    })
}
