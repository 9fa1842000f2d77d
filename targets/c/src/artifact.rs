//! Whole programs as C that others compile and call without us.
//!
//! What is written: `NAME.c` with static kernels and `NAME_run`, which calls them; `NAME.h`;
//! `weights.bin`, and `weights.S` that gives each constant in it a symbol; an example `main.c`, a
//! `Makefile`, `README.txt`, and `manifest.json`, which says the same to programs.
//!
//! **The code allocates nothing, prints nothing, and has no variables that change**: intermediate
//! results lie in a workspace that the caller passes, and so do threads. A whole program takes all of its
//! memory from there, and says where that was too little.

mod interface;
mod surroundings;

use ir_core::{Diagnostic, Diagnostics, Module, TensorData, Verified};
use target_core::package::c::{self, Tensor};
use target_core::package::{self, Contents, File, Model};
use target_core::{ALIGNMENT, Kernel};

use crate::CTarget;
use crate::codegen::{self, Source, Style};

/// A column of data that the program takes or gives.
struct Column {
    /// An element. Its field is that of the elements.
    tensor: Tensor,
    /// The field of their number.
    count: String,
    /// What its numbers mean.
    note: String,
    example: Option<TensorData>,
}

/// What there is to a whole program.
struct Whole {
    taken: Vec<Column>,
    given: Vec<Column>,
    /// Of each site, whether it is one for want of memory.
    memory: Vec<bool>,
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
    /// What else there is to a whole program.
    whole: Option<Whole>,
}

/// The files of `model`.
pub(crate) fn package(
    target: &CTarget,
    module: Verified<'_, Module>,
    model: &Model,
) -> Result<Vec<File>, Diagnostics> {
    model.check_name(&["weights"])?;
    let style = Style {
        prefix: prefix(&model.name),
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

/// What the names of the kernels of a model start with: none is called like a function of the interface.
fn prefix(model: &str) -> String {
    format!("{model}_kernel_")
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
            // The last buffer of a whole program is its state.
            let behind = layout.checks.len() + usize::from(model.program.is_some());
            let results = layout.outputs + behind;
            kernel.params.len() == layout.inputs + layout.data.len() + results
                && model.inputs.len() == layout.inputs
        };
        let Some(main) = main.filter(fits) else {
            let message = format!("there is no kernel `@{}` of these inputs", model.main);
            return Err(Diagnostic::error("E0910", message).into());
        };
        let mut names = main.names.clone();
        let whole = model.program.as_ref();
        let whole = whole.map(|whole| Whole::new(whole, model, &mut names)).transpose()?;
        let mut params = names.iter().zip(&main.params);
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
        Ok(Program { model, target, source, main, inputs, weights, outputs, checks, flags, whole })
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

    /// The columns that the program takes.
    fn taken(&self) -> &[Column] {
        self.whole.as_ref().map_or(&[], |whole| &whole.taken)
    }

    /// The columns that it gives.
    fn given(&self) -> &[Column] {
        self.whole.as_ref().map_or(&[], |whole| &whole.given)
    }

    /// All inputs of the example, with what was given for them.
    fn example_inputs(&self) -> impl Iterator<Item = (&Tensor, Option<&TensorData>)> {
        let tensors = self.inputs.iter().zip(&self.model.inputs);
        let tensors = tensors.map(|(tensor, input)| (tensor, input.example.as_ref()));
        tensors.chain(self.taken().iter().map(|column| (&column.tensor, column.example.as_ref())))
    }

    /// The example inputs, with their files.
    fn examples(&self) -> impl Iterator<Item = (String, &TensorData)> {
        self.example_inputs()
            .filter_map(|(tensor, example)| Some((tensor.example_file(), example?)))
    }
}

impl Whole {
    /// What there is to `program`, whose inputs and results get their fields in `names`.
    fn new(
        program: &package::Program,
        model: &Model,
        names: &mut [String],
    ) -> Result<Whole, Diagnostics> {
        let inputs: Vec<&str> = model.inputs.iter().map(|input| &input.name[..]).collect();
        let outputs: Vec<&str> = model.outputs.iter().map(String::as_str).collect();
        let (tensors, taken) = fields(&inputs, &program.taken)?;
        names.iter_mut().zip(tensors).for_each(|(name, field)| *name = field);
        let (tensors, given) = fields(&outputs, &program.given)?;
        let first = inputs.len() + model.layout.data.len();
        let results = names.iter_mut().skip(first);
        results.zip(tensors).for_each(|(name, field)| *name = field);
        Ok(Whole { taken, given, memory: program.memory.clone() })
    }
}

/// The fields of tensors with `names`, and `columns` with theirs.
fn fields(
    names: &[&str],
    columns: &[package::Column],
) -> Result<(Vec<String>, Vec<Column>), Diagnostics> {
    let counts =
        columns.iter().flat_map(|column| [column.name.clone(), format!("{}.count", column.name)]);
    let all = names.iter().map(|name| name.to_string()).chain(counts);
    let mut fields = c::fields(all).into_iter();
    let tensors = fields.by_ref().take(names.len()).collect();
    let mut made = Vec::with_capacity(columns.len());
    for package::Column { name, column, note, example } in columns {
        let (Some(field), Some(count)) = (fields.next(), fields.next()) else { break };
        let tensor = Tensor::new(name, field, column.ty)?;
        made.push(Column { tensor, count, note: note.clone(), example: example.clone() });
    }
    Ok((tensors, made))
}
