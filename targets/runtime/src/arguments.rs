//! Values for the parameters of a function: arrays with their names, or random numbers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use arrays::Arrays;
use indexmap::IndexMap;
use ir_core::diagnostics::did_you_mean;
use ir_core::{
    Diagnostic, Diagnostics, Item, Module, Registry, Signatures, Span, Spread, Type, TypeData,
};
use relay::interpreter::{Value, check_type, random_value, spreads};
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::MAIN;

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
}

/// The parameters of a function.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// All of them, in order.
    pub all: Vec<Parameter>,
    function: String,
    span: Option<Span>,
    /// Of each name, the last parameter.
    places: IndexMap<String, usize, FxBuildHasher>,
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
    /// Those of the function `name`, which is `item`.
    pub fn of(name: &str, item: &Item, registry: &Registry) -> Parameters {
        let (function, span) = (name.to_string(), item.signature.span);
        let mut parameters =
            Parameters { all: vec![], function, span, places: IndexMap::default() };
        let Some(body) = &item.body else { return parameters };
        let args = body.block_args(body.entry()).iter().zip(spreads(item, registry));
        for (index, (arg, spread)) in args.enumerate() {
            let hint = body.name_hint(*arg).name;
            let name = hint.map_or_else(|| format!("arg{index}"), |hint| hint.to_string());
            parameters.places.insert(name.clone(), index);
            parameters.all.push(Parameter { name, ty: body.ty(*arg), spread });
        }
        parameters
    }

    /// Those of `@main`; none where there is none.
    pub fn of_main(module: &Module, registry: &Registry) -> Parameters {
        let none = || Parameters {
            all: vec![],
            function: MAIN.into(),
            span: None,
            places: IndexMap::default(),
        };
        module.get(MAIN).map_or_else(none, |item| Parameters::of(MAIN, item, registry))
    }

    /// The one that an array called `array` is for: of this name, else of what follows `in_` or
    /// `param_`.
    pub fn find(&self, array: &str) -> Option<&Parameter> {
        let short = || PREFIXES.iter().find_map(|prefix| array.strip_prefix(prefix));
        let place = self.places.get(array).or_else(|| self.places.get(short()?))?;
        self.all.get(*place)
    }

    /// The arrays of a file that parameters have names and types for; no other takes memory. Those
    /// that no parameter has a name for are warnings among `found`.
    ///
    /// # Errors
    /// When the file cannot be read, or arrays do not fit their parameters.
    pub fn load(&self, path: &Path, found: &mut Diagnostics) -> Result<Arrays, Diagnostics> {
        let mut errors = Diagnostics::new();
        let mut wanted = |array: &str, ty: Type| {
            let Some(parameter) = self.find(array) else {
                found.push(self.unknown(array));
                return false;
            };
            let expected = parameter.ty;
            let fits = takes(expected, ty);
            if !fits {
                let message = format!(
                    "array `{array}` does not fit its parameter: expected {expected}, found {ty}"
                );
                errors.push(Diagnostic::error("E0732", message).at(self.span));
            }
            fits
        };
        let arrays = arrays::load_where(path, &mut wanted)?;
        if errors.is_empty() { Ok(arrays) } else { Err(errors) }
    }

    /// The arrays by the names of their parameters.
    pub fn named(&self, arrays: Arrays) -> Vec<(String, ir_core::TensorData)> {
        let named = arrays.into_iter();
        named
            .filter_map(|(array, tensor)| Some((self.find(&array)?.name.clone(), tensor)))
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
        for Parameter { name, ty, spread } in &self.all {
            if let Some(place) = place_of(name, arrays)
                && let Some((array, tensor)) = arrays.get_index(place)
            {
                if array != name {
                    let message = format!("array `{array}` is taken for parameter `{name}`");
                    found.push(Diagnostic::remark("E0731", message));
                }
                let value = Value::Tensor(tensor.clone());
                if let Err(message) = check_type(&value, *ty) {
                    let message = format!("array `{array}` does not fit its parameter: {message}");
                    found.push(Diagnostic::error("E0732", message).at(self.span));
                }
                used[place] = true;
                let constant = constants.contains(array);
                arguments.push(Argument { name: name.clone(), value, constant });
            } else if let Some(seed) = seed {
                match random_value(*ty, *spread, signatures, seed_of(seed, name)) {
                    Ok(value) => {
                        arguments.push(Argument { name: name.clone(), value, constant: false });
                    }
                    Err(message) => {
                        let message = format!("cannot fill parameter `{name}`: {message}");
                        found.push(Diagnostic::error("E0730", message).at(self.span));
                    }
                }
            } else {
                missing.push(format!("%{name}: {ty}"));
            }
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

    fn unknown(&self, array: &str) -> Diagnostic {
        let message = format!("array `{array}` fits no parameter of @{}", self.function);
        let mut warning = Diagnostic::warning("E0731", message);
        warning.help = did_you_mean(array, self.places.keys().map(String::as_str));
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

/// Which array is for the parameter `name`.
fn place_of(name: &str, arrays: &Arrays) -> Option<usize> {
    let with_prefix = |prefix: &&str| arrays.get_index_of(&format!("{prefix}{name}"));
    arrays.get_index_of(name).or_else(|| PREFIXES.iter().find_map(with_prefix))
}

/// Whether a parameter of type `expected` takes an array of type `found`.
fn takes(expected: Type, found: Type) -> bool {
    match (expected.data(), found.data()) {
        (TypeData::Tensor(expected), TypeData::Tensor(found)) => {
            let mut extents = expected.shape.iter().zip(&found.shape);
            expected.dtype == found.dtype
                && expected.rank() == found.rank()
                && extents.all(|(expected, found)| expected.known().is_none() || expected == found)
        }
        (TypeData::Tensor(_) | TypeData::Tuple(_) | TypeData::Ref(_), _) => false,
        _ => true,
    }
}

/// Where the random numbers of a parameter start.
pub fn seed_of(seed: u64, parameter: &str) -> u64 {
    // Fixed keys: the same hash in every run.
    let mut hasher = DefaultHasher::new();
    (seed, parameter).hash(&mut hasher);
    hasher.finish()
}
