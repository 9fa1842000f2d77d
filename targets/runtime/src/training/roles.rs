//! What each parameter of a loss is for.

use arrays::Arrays;
use ir_core::diagnostics::did_you_mean_with;
use ir_core::{Diagnostic, Diagnostics, Dim, Module, Registry, Span, TensorData, Type};

use super::{Settings, Source};
use crate::codes::NOT_TRAINED;
use crate::{MAIN, Parameter, Parameters};

/// Rows that a step takes where nobody says how many.
const BATCH: usize = 32;

/// What the parameters of `@main` are for.
pub(super) struct Roles {
    /// All of them, in order, of the types that the program declares.
    pub(super) all: Vec<Parameter>,
    /// Their types for batches.
    pub(super) types: Vec<Type>,
    pub(super) fed: Vec<Fed>,
    /// The numbers of those that are trained, and of those that keep their arrays.
    pub(super) trained: Vec<usize>,
    pub(super) frozen: Vec<usize>,
    /// Rows of the data.
    pub(super) rows: usize,
    /// Rows of a batch.
    pub(super) batch: usize,
}

/// A parameter that is given rows of an array.
pub(super) struct Fed {
    pub(super) parameter: usize,
    pub(super) array: TensorData,
}

/// The parameters of `@main` with the places where the program names them.
struct Named {
    all: Vec<Parameter>,
    spans: Vec<Option<Span>>,
}

impl Named {
    fn of(module: &Module, registry: &Registry) -> Named {
        let all = Parameters::of_main(module, registry).all;
        let base = module.get(MAIN).and_then(|item| item.signature.span);
        let spans = module.body(MAIN).map_or(vec![], |body| {
            let params = body.block_args(body.entry()).iter();
            params.map(|param| body.value_loc(*param).span(base)).collect()
        });
        Named { all, spans }
    }

    fn error(&self, parameter: usize, message: String) -> Diagnostic {
        Diagnostic::error(NOT_TRAINED, message).at(self.spans[parameter])
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|parameter| parameter.name == name)
    }

    fn unknown(&self, what: &str, name: &str) -> Diagnostic {
        let message = format!("{what} `{name}` is for no parameter of @{MAIN}");
        let names = self.all.iter().map(|parameter| parameter.name.as_str());
        let mut warning = Diagnostic::warning(NOT_TRAINED, message);
        warning.help = did_you_mean_with("", name, names);
        warning
    }
}

impl Roles {
    /// Tells the parameters of `@main` of `module` apart. Arrays that are for none of them are warnings among
    /// `found`.
    ///
    /// # Errors
    /// All that is missing or does not fit.
    pub(super) fn of(
        module: &Module,
        registry: &Registry,
        source: Source<'_>,
        settings: &Settings,
        found: &mut Diagnostics,
    ) -> Result<Roles, Diagnostics> {
        let named = Named::of(module, registry);
        let mut errors = Diagnostics::new();
        for name in source.data.keys().filter(|name| named.place(name).is_none()) {
            found.push(named.unknown("the array", name));
        }
        for name in source.weights.keys().filter(|name| named.place(name).is_none()) {
            found.push(named.unknown("the weight", name));
        }
        for name in settings.frozen.iter().filter(|name| named.place(name).is_none()) {
            errors.push(Diagnostic::error(
                NOT_TRAINED,
                format!("`@{MAIN}` has no parameter `{name}` to keep as it is"),
            ));
        }
        let (mut fed, mut trained, mut frozen) = (vec![], vec![], vec![]);
        for (index, parameter) in named.all.iter().enumerate() {
            let name = &parameter.name;
            if let Some(array) = source.data.get(name) {
                match rows_fit(parameter.ty, array) {
                    true => fed.push(Fed { parameter: index, array: array.clone() }),
                    false => errors.push(named.error(
                        index,
                        format!(
                            "the data for `%{name}` does not fit: expected rows for {}, found {}",
                            parameter.ty,
                            array.ty()
                        ),
                    )),
                }
            } else if settings.frozen.contains(name) {
                frozen.push(index);
            } else if parameter.ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_float()) {
                trained.push(index);
            } else {
                let message = format!("there is no data for `%{name}`, of type {}", parameter.ty);
                errors.push(
                    named
                        .error(index, message)
                        .help("only tensors of floats are trained: give it data, or freeze it"),
                );
            }
        }
        errors.extend(weights_that_do_not_fit(&named, &trained, &frozen, source.weights));
        if fed.is_empty() && errors.is_empty() {
            let names = named.all.iter().map(|one| format!("`{}`", one.name)).collect::<Vec<_>>();
            errors.push(
                Diagnostic::error(NOT_TRAINED, "the data has no array for a parameter of the loss")
                    .at(module.get(MAIN).and_then(|item| item.signature.span))
                    .help(format!("its parameters are {}", names.join(", "))),
            );
        }
        if trained.is_empty() && errors.is_empty() {
            let message = "no parameter is left to train: all have data or are frozen";
            let span = module.get(MAIN).and_then(|item| item.signature.span);
            errors.push(Diagnostic::error(NOT_TRAINED, message).at(span));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let rows = rows(&named, &fed)?;
        let batch = batch(&named, &fed, settings.batch, rows)?;
        let types = named.all.iter().enumerate().map(|(index, parameter)| {
            match fed.iter().find(|fed| fed.parameter == index) {
                Some(fed) => rows_type(&fed.array, batch),
                None => parameter.ty,
            }
        });
        let types = types.collect();
        Ok(Roles { all: named.all, types, fed, trained, frozen, rows, batch })
    }

    /// The names of these parameters.
    pub(super) fn names(&self, of: &[usize]) -> Vec<String> {
        of.iter().map(|index| self.all[*index].name.clone()).collect()
    }

    /// The arrays of what is frozen.
    pub(super) fn frozen_arrays(&self, weights: &Arrays) -> Vec<(String, TensorData)> {
        let names = self.names(&self.frozen).into_iter();
        names.map(|name| (name.clone(), weights[&name].clone())).collect()
    }
}

/// The type of `rows` rows of `array`.
pub(super) fn rows_type(array: &TensorData, rows: usize) -> Type {
    let rest = array.shape()[1..].iter().map(|extent| Dim::Known(*extent));
    Type::tensor(std::iter::once(Dim::Known(rows as i64)).chain(rest), array.dtype())
}

/// Whether rows of `array` are for a parameter of type `ty`.
pub(super) fn rows_fit(ty: Type, array: &TensorData) -> bool {
    ty.as_tensor().is_some_and(|tensor| {
        let rest = tensor.shape.iter().zip(array.shape()).skip(1);
        tensor.rank() > 0
            && tensor.rank() == array.rank()
            && tensor.dtype == array.dtype()
            && rest.into_iter().all(|(dim, extent)| dim.known().is_none_or(|dim| dim == *extent))
    })
}

/// The errors of weights that have arrays of other types, or of unknown extents, or that are frozen without an
/// array.
fn weights_that_do_not_fit(
    named: &Named,
    trained: &[usize],
    frozen: &[usize],
    weights: &Arrays,
) -> Diagnostics {
    let mut errors = Diagnostics::new();
    for index in trained.iter().chain(frozen) {
        let Parameter { name, ty, .. } = &named.all[*index];
        let is_known = ty.as_tensor().is_some_and(|tensor| tensor.known_shape().is_some());
        let message = match weights.get(name) {
            _ if !is_known => {
                format!("expected the weight `%{name}` to have known extents, found {ty}")
            }
            Some(array) if array.ty() != *ty => {
                let found = array.ty();
                format!("the array for `%{name}` does not fit: expected {ty}, found {found}")
            }
            None if frozen.contains(index) => {
                format!("there is no array for `%{name}`, which is frozen")
            }
            _ => continue,
        };
        errors.push(named.error(*index, message));
    }
    errors
}

/// How many rows all arrays have.
fn rows(named: &Named, fed: &[Fed]) -> Result<usize, Diagnostic> {
    let count = |fed: &Fed| fed.array.shape()[0];
    let rows = count(&fed[0]);
    match fed.iter().find(|fed| count(fed) != rows) {
        None => Ok(rows as usize),
        Some(other) => {
            let [first, second] =
                [&fed[0], other].map(|fed| (&named.all[fed.parameter].name, count(fed)));
            let message = format!(
                "expected as many rows for each parameter, found {} for `%{}` and {} for `%{}`",
                first.1, first.0, second.1, second.0
            );
            Err(named.error(other.parameter, message))
        }
    }
}

/// How many rows a step takes: what the program says, else what was asked for.
fn batch(
    named: &Named,
    fed: &[Fed],
    wanted: Option<usize>,
    rows: usize,
) -> Result<usize, Diagnostic> {
    let first = |fed: &Fed| named.all[fed.parameter].ty.as_tensor()?.shape[0].known();
    let mut known = fed.iter().filter_map(|fed| Some((fed.parameter, first(fed)?)));
    let fixed = known.next();
    if let Some((first, batch)) = fixed
        && let Some((second, other)) = known.find(|(_, other)| *other != batch)
    {
        let [first, name] = [first, second].map(|index| &named.all[index].name);
        let message =
            format!("`%{name}` takes {other} rows, and `%{first}` {batch}: expected one number");
        return Err(named.error(second, message));
    }
    let batch = match (fixed, wanted) {
        (Some((parameter, extent)), Some(wanted)) if extent != wanted as i64 => {
            let name = &named.all[parameter].name;
            let message =
                format!("`%{name}` takes {extent} rows, and a batch of {wanted} is asked for");
            let help = "write `?` for the first extent of what has rows, or leave the batch out";
            return Err(named.error(parameter, message).help(help));
        }
        (Some((_, extent)), _) => extent as usize,
        (None, wanted) => {
            wanted.unwrap_or(BATCH).min(if wanted.is_some() { usize::MAX } else { rows })
        }
    };
    if batch == 0 || batch > rows {
        let message = format!("a batch of {batch} rows is none of data with {rows}");
        let error = named.error(fed[0].parameter, message);
        return Err(match rows {
            0 => error,
            _ => error.help(format!("a batch has 1 to {rows} rows")),
        });
    }
    Ok(batch)
}
