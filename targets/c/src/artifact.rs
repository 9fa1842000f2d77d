//! Whole programs as C that others compile and call without us.
//!
//! What is written: `NAME.c` with static kernels and `NAME_run`, which calls them; `NAME.h`;
//! `weights.bin`, and `weights.S` that gives each constant in it a symbol; an example `main.c`, a
//! `Makefile`, `README.txt`, and `manifest.json`, which says the same to programs.
//!
//! **The code allocates nothing, prints nothing, and has no variables that change**: intermediate
//! results lie in a workspace that the caller passes, and so do threads.

mod interface;
mod surroundings;

use ir_core::tensor::tensor_bytes;
use ir_core::{DType, Diagnostic, Diagnostics, Module, TensorData, Type, Verified};
use target_core::package::{Contents, File, Model};
use target_core::{ALIGNMENT, Kernel};

use crate::CTarget;
use crate::codegen::{self, Source, Style, comment};

/// Names that would make one file of two, or one function.
const TAKEN: [&str; 4] = ["main", "weights", "example", "manifest"];

/// A buffer of the program.
struct Tensor {
    /// Its name in the program; for results without one, `out_0` and so on.
    name: String,
    /// Its name in C.
    field: String,
    ty: Type,
    dtype: DType,
    shape: Vec<i64>,
    bytes: usize,
}

impl Tensor {
    fn new(name: &str, field: String, ty: Type) -> Result<Tensor, Diagnostics> {
        let tensor = ty.as_tensor().and_then(|tensor| {
            let shape = tensor.known_shape()?.to_vec();
            let bytes = tensor_bytes(&shape, tensor.dtype)?;
            Some((tensor.dtype, shape, bytes))
        });
        let Some((dtype, shape, bytes)) = tensor else {
            let message = format!("`{name}` is of type {ty}, and C takes tensors of known extents");
            return Err(Diagnostic::error("E0902", message).into());
        };
        Ok(Tensor { name: name.to_string(), field, ty, dtype, shape, bytes })
    }

    fn elements(&self) -> usize {
        self.bytes / self.dtype.bytes().max(1)
    }

    /// The type of its elements in C.
    fn element(&self) -> &'static str {
        codegen::storage(self.dtype)
    }
}

/// A constant, in `weights.bin`.
struct Weight {
    tensor: Tensor,
    offset: usize,
}

/// What the texts are written from.
struct Program<'a> {
    model: &'a Model,
    target: &'a CTarget,
    source: Source,
    main: Kernel,
    inputs: Vec<Tensor>,
    weights: Vec<Weight>,
    outputs: Vec<Tensor>,
    /// By call that checks numbers: how many.
    checks: Vec<usize>,
    flags: Vec<String>,
}

/// The files of `model`.
pub(crate) fn package(
    target: &CTarget,
    module: Verified<'_, Module>,
    model: &Model,
) -> Result<Vec<File>, Diagnostics> {
    if !codegen::is_name(&model.name) || TAKEN.contains(&model.name.as_str()) {
        let message = format!("`{}` is no name for files and functions in C", model.name);
        let help = "take letters, digits and `_`, and no word of C or name of another file";
        return Err(Diagnostic::error("E0911", message).help(help).into());
    }
    let style = Style {
        // No kernel is called like a function of the interface.
        prefix: format!("{}_kernel_", model.name),
        model: Some(model.name.clone()),
        ..target.style(false)
    };
    let source = codegen::generate(module, &style)?;
    let program = Program::new(target, source, model)?;
    let mut files = Vec::new();
    let text = |name: String, text: String| File { name, contents: Contents::Text(text) };
    files.push(text(format!("{}.h", model.name), program.header()));
    files.push(text(format!("{}.c", model.name), program.code()));
    if !program.weights.is_empty() {
        let contents = Contents::Tensors(model.layout.data.clone());
        files.push(File { name: "weights.bin".to_string(), contents });
        files.push(text("weights.S".to_string(), program.assembly()));
    }
    files.push(text("main.c".to_string(), program.example()));
    files.push(text("Makefile".to_string(), program.makefile()));
    files.push(text("README.txt".to_string(), program.readme()));
    for (path, example) in program.examples() {
        files.push(File { name: path, contents: Contents::Tensors(vec![example.clone()]) });
    }
    let manifest = program.manifest(&files);
    files.push(text("manifest.json".to_string(), manifest));
    Ok(files)
}

impl<'a> Program<'a> {
    fn new(
        target: &'a CTarget,
        source: Source,
        model: &'a Model,
    ) -> Result<Program<'a>, Diagnostics> {
        let layout = &model.layout;
        let main = source.kernels.iter().find(|kernel| kernel.name == model.main).cloned();
        let fits = |kernel: &Kernel| {
            let results = layout.outputs + layout.checks.len();
            kernel.params.len() == layout.inputs + layout.data.len() + results
                && model.inputs.len() == layout.inputs
        };
        let Some(main) = main.filter(fits) else {
            let message = format!("there is no kernel `@{}` of these inputs", model.main);
            return Err(Diagnostic::error("E0910", message).into());
        };
        let mut params = main.names.iter().zip(&main.params);
        let (mut inputs, mut weights, mut outputs) = (vec![], vec![], vec![]);
        for (input, (name, ty)) in model.inputs.iter().zip(params.by_ref()) {
            inputs.push(Tensor::new(&input.name, name.clone(), *ty)?);
        }
        let mut offset: usize = 0;
        for index in 0..layout.data.len() {
            let (name, ty) = params.next().expect("each weight is a parameter");
            let tensor = Tensor::new(name, format!("{}_weight_{index}", model.name), *ty)?;
            let bytes = tensor.bytes;
            weights.push(Weight { tensor, offset });
            offset = offset.saturating_add(bytes).next_multiple_of(ALIGNMENT);
        }
        for (index, (field, ty)) in params.take(layout.outputs).enumerate() {
            outputs.push(match model.outputs.get(index) {
                Some(name) => Tensor::new(name, field.clone(), *ty)?,
                None => Tensor::new(&format!("out_{index}"), format!("out_{index}"), *ty)?,
            });
        }
        let mut flags = target.flags();
        if target.style(false).vector_bits == 0 {
            // No extension of the language is used.
            flags.retain(|flag| !flag.starts_with("-std="));
            flags.insert(0, "-std=c11".to_string());
        }
        let checks = layout.checks.iter().map(|call| call.sites.len()).collect();
        Ok(Program { model, target, source, main, inputs, weights, outputs, checks, flags })
    }

    /// What the names of macros start with.
    fn upper(&self) -> String {
        self.model.name.to_uppercase()
    }

    /// The command of the compiler.
    fn compiler(&self) -> &str {
        self.target.options.compiler.as_deref().unwrap_or("cc")
    }

    /// Bytes of `weights.bin`.
    fn weight_bytes(&self) -> usize {
        self.weights.last().map_or(0, |last| last.offset + last.tensor.bytes)
    }

    /// The target, all of its options that matter written out.
    fn target_text(&self) -> String {
        let machine = &self.target.capabilities;
        let (isa, width, threads) = (machine.isa, machine.lanes(32), machine.threads);
        format!("c{{isa={isa},width={width},threads={threads}}}")
    }

    /// The example inputs, with their files.
    fn examples(&self) -> impl Iterator<Item = (String, &TensorData)> {
        let inputs = self.model.inputs.iter().zip(&self.inputs);
        inputs.filter_map(|(input, tensor)| {
            Some((format!("inputs/{}.bin", tensor.field), input.example.as_ref()?))
        })
    }
}

/// `text` as a string of C.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if !matches!(byte, b'"' | b'\\' | b'?') => quoted.push(byte as char),
            // Three digits: none that follows belongs to them.
            _ => quoted += &format!("\\{byte:03o}"),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_comments_and_strings() {
        assert_eq!(comment("a*/ b\n\\"), "a* / b__");
        assert_eq!(string("a\"é?1"), "\"a\\042\\303\\251\\0771\"");
    }
}
