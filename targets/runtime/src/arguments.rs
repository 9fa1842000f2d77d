//! Values for the parameters of a function: arrays with their names, or random numbers.
//!
//! A parameter that is a tensor is an array of its name. The parts of a tuple have the number of their
//! field behind it, as `x.0`; those that are data, or cells, are given as [columns](prog::columns), as
//! `x.tags` and `x.Node.0`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use arrays::Arrays;
use indexmap::IndexMap;
use ir_core::diagnostics::did_you_mean;
use ir_core::{
    DTypeKind, Diagnostic, Diagnostics, Dim, Module, Registry, Signatures, Span, Spread,
    TensorData, Type, TypeData,
};
use prog::columns::Filled;
use relay::inference::data_types;
use relay::interpreter::{Value, check_type, random_value, spreads};
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::MAIN;
use crate::interface::{Leaf, whole_value};

/// Prefixes of array names that are ignored where no parameter has the whole name.
const PREFIXES: [&str; 2] = ["in_", "param_"];

/// A parameter of a function.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name in the program, or `arg0` and so on.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where random floats for it lie.
    pub spread: Spread,
    /// What it consists of.
    pub(crate) leaves: Vec<Leaf>,
}

/// What an array may be for.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Which parameter.
    parameter: usize,
    /// What type the array has.
    ty: Type,
    /// Whether it may be of any integers.
    is_tags: bool,
}

/// The parameters of a function.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// All of them, in order.
    pub all: Vec<Parameter>,
    function: String,
    span: Option<Span>,
    /// What arrays are for, by name; of one name, the last.
    slots: IndexMap<String, Slot, FxBuildHasher>,
}

/// A value for a parameter.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The parameter.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Whether it is the same in every run.
    pub constant: bool,
}

/// Where values come from.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Arrays, by the names of parameters.
    pub arrays: &'a Arrays,
    /// Those that are the same in every run.
    pub constants: &'a FxHashSet<String>,
    /// Fills what has no array with random numbers.
    pub seed: Option<u64>,
}

impl Parameters {
    /// Those of the function `name` of `module`; none where there is none.
    pub fn of(name: &str, module: &Module, registry: &Registry) -> Parameters {
        let item = module.get(name);
        let (function, span) = (name.to_string(), item.and_then(|item| item.signature.span));
        let mut parameters = Parameters { all: vec![], function, span, slots: IndexMap::default() };
        let Some((item, body)) = item.and_then(|item| Some((item, item.body.as_deref()?))) else {
            return parameters;
        };
        let types = data_types(&module.signatures());
        let args = body.block_args(body.entry()).iter().zip(spreads(item, registry));
        for (index, (arg, spread)) in args.enumerate() {
            let hint = body.name_hint(*arg).name;
            let name = hint.map_or_else(|| format!("arg{index}"), |hint| hint.to_string());
            let ty = body.ty(*arg);
            let leaves = Leaf::all(&name, ty, &types);
            parameters.add(Parameter { name, ty, spread, leaves });
        }
        parameters
    }

    /// Those of `@main`; none where there is none.
    pub fn of_main(module: &Module, registry: &Registry) -> Parameters {
        Parameters::of(MAIN, module, registry)
    }

    fn add(&mut self, parameter: Parameter) {
        let index = self.all.len();
        let slot = |ty, is_tags| Slot { parameter: index, ty, is_tags };
        // An array of the name of what is no tensor fits nothing, which is said then.
        self.slots.insert(parameter.name.clone(), slot(parameter.ty, false));
        for leaf in &parameter.leaves {
            match &leaf.data {
                None => {
                    self.slots.insert(leaf.name.clone(), slot(leaf.ty, false));
                }
                Some(data) => {
                    for (place, column) in data.layout.columns.iter().enumerate() {
                        let name = format!("{}.{}", leaf.name, column.name);
                        self.slots.insert(name, slot(column.type_of(Dim::Any), place == 0));
                    }
                }
            }
        }
        self.all.push(parameter);
    }

    /// What an array called `array` is for, and what that is called: of this name, else of what follows
    /// `in_` or `param_`.
    fn slot(&self, array: &str) -> Option<(&str, Slot)> {
        let short = || PREFIXES.iter().find_map(|prefix| array.strip_prefix(prefix));
        let found = self.slots.get_full(array).or_else(|| self.slots.get_full(short()?))?;
        let (_, name, slot) = found;
        Some((name, *slot))
    }

    /// The arrays of a file that parameters have names and types for; no other takes memory. Those
    /// that no parameter has a name for are warnings among `found`.
    ///
    /// # Errors
    /// When the file cannot be read, or arrays do not fit their parameters.
    pub fn load(&self, path: &Path, found: &mut Diagnostics) -> Result<Arrays, Diagnostics> {
        let mut errors = Diagnostics::new();
        let mut wanted = |array: &str, ty: Type| self.wants(array, ty, found, &mut errors);
        let arrays = arrays::load_where(path, &mut wanted)?;
        if errors.is_empty() { Ok(arrays) } else { Err(errors) }
    }

    /// Those of `arrays` that parameters have names and types for, as [`load`](Parameters::load) does.
    ///
    /// # Errors
    /// When arrays do not fit their parameters.
    pub fn select(
        &self,
        mut arrays: Arrays,
        found: &mut Diagnostics,
    ) -> Result<Arrays, Diagnostics> {
        let mut errors = Diagnostics::new();
        arrays.retain(|array, tensor| self.wants(array, tensor.ty(), found, &mut errors));
        if errors.is_empty() { Ok(arrays) } else { Err(errors) }
    }

    /// Whether a parameter takes an array of this name and type.
    fn wants(
        &self,
        array: &str,
        ty: Type,
        found: &mut Diagnostics,
        errors: &mut Diagnostics,
    ) -> bool {
        let Some((_, slot)) = self.slot(array) else {
            found.push(self.unknown(array));
            return false;
        };
        let fits = slot.takes(ty);
        if !fits {
            let expected = slot.ty;
            let message = format!(
                "array `{array}` does not fit its parameter: expected {expected}, found {ty}"
            );
            let error = Diagnostic::error("E0732", message).at(self.span);
            errors.push(match self.arrays_of(&self.all[slot.parameter]) {
                names if names.contains(", ") => error.help(format!("its arrays are {names}")),
                _ => error,
            });
        }
        fits
    }

    /// The names of the arrays that `parameter` takes.
    fn arrays_of(&self, parameter: &Parameter) -> String {
        let names = parameter.leaves.iter().flat_map(|leaf| match &leaf.data {
            None => vec![leaf.name.clone()],
            Some(data) => {
                let columns = data.layout.columns.iter();
                columns.map(|column| format!("{}.{}", leaf.name, column.name)).collect()
            }
        });
        names.collect::<Vec<_>>().join(", ")
    }

    /// The arrays by the names of what they are for.
    pub fn named(&self, arrays: Arrays) -> Vec<(String, TensorData)> {
        let named = arrays.into_iter();
        named
            .filter_map(|(array, tensor)| Some((self.slot(&array)?.0.to_string(), tensor)))
            .collect()
    }

    /// A value for each parameter. Arrays that are taken for a parameter of another name, or for none,
    /// are remarks and warnings among `found`.
    ///
    /// # Errors
    /// When there is no array for some, or one does not fit.
    pub fn arguments(
        &self,
        given: Given<'_>,
        signatures: &Signatures,
        found: &mut Diagnostics,
    ) -> Result<Vec<Argument>, Diagnostics> {
        let Given { arrays, constants, seed } = given;
        let mut used = vec![false; arrays.len()];
        let (mut missing, mut arguments) = (Vec::new(), Vec::new());
        for parameter in &self.all {
            let Parameter { name, ty, spread, .. } = parameter;
            let mut taken =
                Taken { arrays, used: &mut used, found: &mut *found, constants, span: self.span };
            let (value, constant) = match taken.value(parameter) {
                Some(Ok((value, constant))) => (value, constant),
                Some(Err(error)) => {
                    found.push(error);
                    continue;
                }
                None => match seed {
                    Some(seed) => match random_value(*ty, *spread, signatures, seed_of(seed, name))
                    {
                        Ok(value) => (value, false),
                        Err(message) => {
                            let message = format!("cannot fill parameter `{name}`: {message}");
                            found.push(Diagnostic::error("E0730", message).at(self.span));
                            continue;
                        }
                    },
                    None => {
                        missing.push(match self.arrays_of(parameter) {
                            names if names.contains(", ") => format!("%{name}: {ty}, as {names}"),
                            _ => format!("%{name}: {ty}"),
                        });
                        continue;
                    }
                },
            };
            arguments.push(Argument { name: name.clone(), value, constant });
        }
        let unused = arrays.keys().zip(&used).filter(|(_, used)| !**used);
        found.extend(unused.map(|(array, _)| self.unknown(array)));
        if !missing.is_empty() {
            return Err(self.missing(missing).into());
        }
        match found.iter().rposition(Diagnostic::is_error) {
            Some(last) => Err(found.remove(last).into()),
            None => Ok(arguments),
        }
    }

    /// A value for `parameter`, one of these: of the arrays that `examples` has for it, else random.
    ///
    /// # Errors
    /// When arrays do not fit, and where there are no random values of its type.
    pub fn value(
        &self,
        parameter: &Parameter,
        examples: &Arrays,
        signatures: &Signatures,
        seed: u64,
    ) -> Result<Value, Diagnostics> {
        let (mut used, mut found) = (vec![false; examples.len()], Diagnostics::new());
        let constants = FxHashSet::default();
        let mut taken = Taken {
            arrays: examples,
            used: &mut used,
            found: &mut found,
            constants: &constants,
            span: self.span,
        };
        if let Some(value) = taken.value(parameter) {
            return Ok(value?.0);
        }
        let Parameter { name, ty, spread, .. } = parameter;
        random_value(*ty, *spread, signatures, seed).map_err(|error| {
            let message = format!("cannot fill parameter `{name}`: {error}");
            Diagnostic::error("E0730", message).at(self.span).into()
        })
    }

    fn unknown(&self, array: &str) -> Diagnostic {
        let message = format!("array `{array}` fits no parameter of @{}", self.function);
        let mut warning = Diagnostic::warning("E0731", message);
        warning.help = did_you_mean(array, self.slots.keys().map(String::as_str));
        warning
    }

    fn missing(&self, parameters: Vec<String>) -> Diagnostic {
        let name = &self.function;
        let message = match parameters.len() {
            1 => format!("there is no array for a parameter of @{name}"),
            count => format!("there are no arrays for {count} parameters of @{name}"),
        };
        let mut error = Diagnostic::error(MISSING, message).at(self.span);
        error.notes = parameters;
        error
    }
}

/// The code of parameters without arrays.
pub const MISSING: &str = "E0731";

/// Which array is for the parameter, or part of one, `name`.
fn place_of(name: &str, arrays: &Arrays) -> Option<usize> {
    let with_prefix = |prefix: &&str| arrays.get_index_of(&format!("{prefix}{name}"));
    arrays.get_index_of(name).or_else(|| PREFIXES.iter().find_map(with_prefix))
}

/// Arrays that become values.
struct Taken<'t> {
    arrays: &'t Arrays,
    used: &'t mut [bool],
    found: &'t mut Diagnostics,
    constants: &'t FxHashSet<String>,
    span: Option<Span>,
}

impl<'t> Taken<'t> {
    /// The array called `name`, if there is one.
    fn array(&mut self, name: &str) -> Option<(&'t str, &'t TensorData)> {
        let place = place_of(name, self.arrays)?;
        let (array, tensor) = self.arrays.get_index(place)?;
        if array != name {
            let message = format!("array `{array}` is taken for parameter `{name}`");
            self.found.push(Diagnostic::remark("E0731", message));
        }
        self.used[place] = true;
        Some((array, tensor))
    }

    fn misfit(&self, name: &str, message: String) -> Diagnostic {
        let message = format!("array `{name}` does not fit its parameter: {message}");
        Diagnostic::error("E0732", message).at(self.span)
    }

    /// The value of `parameter`, and whether it is the same in every run; `None` where there is no array
    /// for it.
    fn value(&mut self, parameter: &Parameter) -> Option<Result<(Value, bool), Diagnostic>> {
        if parameter.ty.as_tuple().is_none()
            && parameter.leaves.iter().all(|leaf| leaf.data.is_none())
        {
            let (array, tensor) = self.array(&parameter.name)?;
            let value = Value::Tensor(tensor.clone());
            let fits = check_type(&value, parameter.ty);
            let constant = self.constants.contains(array);
            return Some(
                fits.map(|()| (value, constant)).map_err(|error| self.misfit(array, error)),
            );
        }
        let leaves = parameter.leaves.iter().map(|leaf| self.leaf(leaf));
        let leaves: Vec<Option<Result<Value, Diagnostic>>> = leaves.collect();
        // Of nothing, such as the empty tuple, nothing is missing.
        if !leaves.is_empty() && leaves.iter().all(Option::is_none) {
            return None;
        }
        let mut flat = Vec::with_capacity(leaves.len());
        for (value, leaf) in leaves.into_iter().zip(&parameter.leaves) {
            match value {
                Some(Ok(value)) => flat.push(value),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    let message = format!("there is no array for a part of `{}`", parameter.name);
                    let error = Diagnostic::error(MISSING, message).at(self.span);
                    return Some(Err(error.note(format!("%{}: {}", leaf.name, leaf.ty))));
                }
            }
        }
        let value = whole_value(parameter.ty, &mut flat.into_iter());
        let missing = || self.misfit(&parameter.name, "it has other parts".to_string());
        Some(value.map(|value| (value, false)).ok_or_else(missing))
    }

    /// The value of a part of a parameter; `None` where there is no array for it.
    fn leaf(&mut self, leaf: &Leaf) -> Option<Result<Value, Diagnostic>> {
        let Some(data) = &leaf.data else {
            let (array, tensor) = self.array(&leaf.name)?;
            let value = Value::Tensor(tensor.clone());
            let fits = check_type(&value, leaf.ty);
            return Some(fits.map(|()| value).map_err(|error| self.misfit(array, error)));
        };
        let mut columns = Vec::with_capacity(data.layout.columns.len());
        let mut is_given = false;
        for (place, column) in data.layout.columns.iter().enumerate() {
            let name = format!("{}.{}", leaf.name, column.name);
            // A column of no elements may be missing.
            let Some((array, tensor)) = self.array(&name) else {
                columns.push(Filled::default());
                continue;
            };
            is_given = true;
            let slot = Slot { parameter: 0, ty: column.type_of(Dim::Any), is_tags: place == 0 };
            if !slot.takes(tensor.ty()) {
                let message = format!("expected {}, found {}", slot.ty, tensor.ty());
                return Some(Err(self.misfit(array, message)));
            }
            let count = tensor.shape().first().map_or(0, |count| *count as usize);
            let bytes = match slot.is_tags {
                true => tags(tensor),
                false => tensor.bytes().to_vec(),
            };
            columns.push(Filled { bytes, count });
        }
        let columns: Vec<(&[u8], usize)> =
            columns.iter().map(|column| (&column.bytes[..], column.count)).collect();
        let value = is_given.then(|| data.read(&columns))?;
        Some(value.map_err(|message| {
            let text = format!("the columns of `{}` are no {}: {message}", leaf.name, leaf.ty);
            Diagnostic::error("E0732", text).at(self.span)
        }))
    }
}

/// The numbers of constructors in an array of integers, as a column has them.
fn tags(tensor: &TensorData) -> Vec<u8> {
    let numbers = tensor.elements().map(|element| element.as_integer(tensor.dtype()));
    // No type has so many constructors that another number becomes one of them.
    numbers.flat_map(|number| i64::try_from(number).unwrap_or(-1).to_ne_bytes()).collect()
}

impl Slot {
    /// Whether an array of type `found` may be given.
    fn takes(&self, found: Type) -> bool {
        match (self.ty.data(), found.data()) {
            (TypeData::Tensor(expected), TypeData::Tensor(found)) => {
                let mut extents = expected.shape.iter().zip(&found.shape);
                let is_integer = matches!(found.dtype.kind(), DTypeKind::Int | DTypeKind::UInt);
                (expected.dtype == found.dtype || (self.is_tags && is_integer))
                    && expected.rank() == found.rank()
                    && extents
                        .all(|(expected, found)| expected.known().is_none() || expected == found)
            }
            (TypeData::Tensor(_) | TypeData::Tuple(_) | TypeData::Ref(_), _) => false,
            (TypeData::Named { .. }, _) => false,
            _ => true,
        }
    }
}

/// Where the random numbers of a parameter start.
pub fn seed_of(seed: u64, parameter: &str) -> u64 {
    // Fixed keys: the same hash in every run.
    let mut hasher = DefaultHasher::new();
    (seed, parameter).hash(&mut hasher);
    hasher.finish()
}
