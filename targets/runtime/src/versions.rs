//! Programs with extents that inputs decide: compiled for those of the inputs.

use ir_core::pipeline::Step;
use ir_core::{Diagnostic, Diagnostics, Module, Registry, TensorData, Type, verify};
use passes::bind_extents::{bind_extents, deciding_parameters};
use passes::dynamic_to_static::DynamicToStatic;
use passes::extents::has_open_values;
use passes::inline::Inline;
use relay::interpreter::Value;

use crate::program::{bind_at, run_passes};
use crate::{BuildOptions, Error, MAIN, Program};

/// The most programs that are kept.
const MOST: usize = 16;

/// A program for inputs of any extents. It is compiled for the extents that it is called with, and what was
/// compiled last is kept for the next calls.
pub struct Versions<'a> {
    module: Module,
    registry: &'a Registry,
    options: BuildOptions<'a>,
    /// The last one that was called comes first.
    kept: Vec<Version>,
    /// Warnings and remarks.
    found: Diagnostics,
}

/// The program for some extents.
struct Version {
    types: Vec<Type>,
    bound: Vec<(usize, TensorData)>,
    program: Program,
}

impl Version {
    fn is_for(&self, inputs: &[TensorData]) -> bool {
        self.types.iter().copied().eq(inputs.iter().map(TensorData::ty))
            && self.bound.iter().all(|(index, value)| inputs.get(*index) == Some(value))
    }
}

impl<'a> Versions<'a> {
    pub(crate) fn new(
        module: Module,
        registry: &'a Registry,
        options: BuildOptions<'a>,
    ) -> Versions<'a> {
        Versions { module, registry, options, kept: vec![], found: Diagnostics::new() }
    }

    /// The results on `inputs`, which are in the order of the parameters, by the program for their
    /// extents, and for the values of those that decide further ones.
    ///
    /// # Errors
    /// When the program does not take such inputs, cannot be compiled for their extents, or fails.
    pub fn call(&mut self, inputs: &[TensorData]) -> Result<Vec<TensorData>, Error> {
        match self.kept.iter().position(|version| version.is_for(inputs)) {
            Some(place) => self.kept[..=place].rotate_right(1),
            None => {
                let version = self.build(inputs);
                let version = version.map_err(|found| Error::new(found, &self.module.sources))?;
                self.kept.truncate(MOST - 1);
                self.kept.insert(0, version);
            }
        }
        let Version { bound, program, .. } = &mut self.kept[0];
        let is_bound = |index: usize| bound.iter().any(|(other, _)| *other == index);
        let open = inputs.iter().enumerate().filter(|(index, _)| !is_bound(*index));
        program.call(&open.map(|(_, input)| input.clone()).collect::<Vec<_>>())
    }

    fn build(&mut self, inputs: &[TensorData]) -> Result<Version, Diagnostics> {
        let mut module = self.module.clone();
        let values: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
        let bound = settle(&mut module, self.registry, &values)?;
        let (program, _) = Program::build(module, self.registry, &self.options, &mut self.found)?;
        Ok(Version { types: inputs.iter().map(TensorData::ty).collect(), bound, program })
    }

    /// How many programs are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Warnings and remarks so far.
    pub fn found(&self) -> &[Diagnostic] {
        &self.found
    }
}

/// Makes of `module` the program for `values`, which are for the parameters of `@main`: their extents are
/// known, and values that decide further extents are constants. Returns those, with the places of their
/// parameters, which are gone. A program without open extents stays as it is.
///
/// # Errors
/// When the program does not take such values.
pub(crate) fn settle(
    module: &mut Module,
    registry: &Registry,
    values: &[Value],
) -> Result<Vec<(usize, TensorData)>, Diagnostics> {
    let main = module.get(MAIN).and_then(|main| main.signature.ty.as_function());
    let Some(main) = main.filter(|_| has_open_values(module)) else { return Ok(vec![]) };
    if main.params.len() != values.len() {
        let (expected, found) = (main.params.len(), values.len());
        let message = format!("expected {expected} inputs, found {found}");
        return Err(Diagnostic::error("E0733", message).into());
    }
    let types = main.params.iter().zip(values);
    let types: Vec<Type> = types.map(|(ty, value)| type_of(value, *ty)).collect();
    for (value, ty) in values.iter().zip(&main.params) {
        relay::interpreter::check_type(value, *ty)
            .map_err(|message| Diagnostic::error("E0733", message))?;
    }
    bind_types(module, registry, &types)?;
    let mut bound = vec![];
    for index in deciding_parameters(module, registry) {
        let Some(Value::Tensor(tensor)) = values.get(index) else { continue };
        bound.push((index, tensor.clone()));
    }
    // The places of those in front stay.
    for (index, value) in bound.iter().rev() {
        bind_at(module, *index, value);
    }
    if !bound.is_empty() {
        let remarks = &mut Diagnostics::new();
        run_passes(module, registry, [Step::of::<DynamicToStatic>()], remarks)?;
    }
    verify(module, registry)?;
    Ok(bound)
}

/// Gives the parameters of `@main` the types `types`, which are its own but for extents.
///
/// # Errors
/// When extents contradict each other, or the program.
pub(crate) fn bind_types(
    module: &mut Module,
    registry: &Registry,
    types: &[Type],
) -> Result<(), Diagnostics> {
    let remarks = &mut Diagnostics::new();
    run_passes(module, registry, [Step::of::<Inline>().flag("all")], remarks)?;
    bind_extents(module, registry, types).or(())?;
    run_passes(module, registry, [Step::of::<DynamicToStatic>()], remarks)
}

/// The type of `value`, which is for a parameter of type `declared`.
fn type_of(value: &Value, declared: Type) -> Type {
    match (value, declared.as_tuple()) {
        (Value::Tensor(tensor), _) => tensor.ty(),
        // Types, and so what tuples hold of tuples, nest at most 1,000 levels.
        (Value::Tuple(fields), Some(types)) => {
            let fields = fields.iter().zip(types).map(|(value, ty)| type_of(value, *ty));
            Type::tuple(fields.collect::<Vec<_>>())
        }
        _ => declared,
    }
}
