//! How good weights are, on data that they may not be trained with.

use arrays::Arrays;
use ir_core::{
    AttrDict, Body, Diagnostic, Diagnostics, InsertPoint, Module, Symbol, TensorData, Type,
    TypeData, ValueId,
};
use relay::language::{Call, FUNC, Global, Tuple, yielded};

use super::roles::{Roles, rows_type};
use super::{Settings, Source, Trainer};
use crate::codes::NOT_TRAINED;
use crate::program::bind;
use crate::versions::bind_types;
use crate::{BuildOptions, MAIN, Parameter, Parameters, Program};

/// The function that says what a program predicts.
const PREDICT: &str = "predict";

/// The most rows that are evaluated at a time, where the program takes any number of them.
const MOST_ROWS: usize = 1024;

/// A loss over data of its own, and how many predictions are right, where the program has a function
/// `@predict`.
///
/// That takes parameters of `@main`, by name, and gives what is predicted for each row. The parameter of `@main`
/// that has data and that it does not take is what was to be predicted.
pub struct Evaluation {
    fed: Vec<(String, TensorData)>,
    /// What was to be predicted, for each row.
    target: Option<TensorData>,
    rows: usize,
    /// The program for as many rows as are evaluated at a time, and the one for the rest.
    programs: Vec<Evaluated>,
}

/// A program that gives the loss, and what is predicted.
struct Evaluated {
    rows: usize,
    program: Program,
    /// The names of its inputs.
    inputs: Vec<String>,
}

/// How good weights are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score {
    /// The mean of the loss over all rows.
    pub loss: f64,
    /// The part of the rows whose prediction is right.
    pub accuracy: Option<f64>,
}

impl Evaluation {
    /// Compiles what gives the loss of `@main` of `module`, a verified Relay program that `trainer` trains, on the
    /// data of `source`. Warnings and remarks go to `found`.
    ///
    /// # Errors
    /// When arrays are missing or do not fit, `@predict` does not fit the loss, and what [`Program::build`]
    /// says.
    pub fn new(
        mut module: Module,
        trainer: &Trainer<'_>,
        source: Source<'_>,
        settings: &Settings,
        options: &BuildOptions<'_>,
        found: &mut Diagnostics,
    ) -> Result<Evaluation, Diagnostics> {
        let registry = trainer.registry;
        let settings = Settings { batch: None, ..settings.clone() };
        let roles = Roles::of(&module, registry, source, &settings, found)?;
        let weights = trainer.carried[..trainer.weights].iter().map(|weight| &weight.name);
        if !roles.names(&roles.trained).iter().eq(weights) {
            let names = roles.fed.iter().map(|fed| &roles.all[fed.parameter].name);
            let names = names.map(|name| format!("`%{name}`")).collect::<Vec<_>>().join(", ");
            let message = "the data for testing is for other parameters than that for training";
            let error = Diagnostic::error(NOT_TRAINED, message);
            return Err(error.note(format!("it is for {names}")).into());
        }
        let target = predict(&mut module, &roles)?;
        let rows = roles.rows;
        let is_open = |parameter: &Parameter| {
            parameter.ty.as_tensor().is_some_and(|tensor| tensor.shape[0].known().is_none())
        };
        let any_rows = roles.fed.iter().all(|fed| is_open(&roles.all[fed.parameter]));
        let (most, rest) = match any_rows {
            true => (rows.min(MOST_ROWS), rows % rows.min(MOST_ROWS)),
            false => (roles.batch, 0),
        };
        let left = rows % most;
        if !any_rows && left > 0 {
            let message = format!(
                "{left} rows of {rows} are not evaluated: the program takes {most} at a time"
            );
            found.push(Diagnostic::remark(NOT_TRAINED, message));
        }
        let fed = roles.fed.iter();
        let fed = fed.map(|fed| (roles.all[fed.parameter].name.clone(), fed.array.clone()));
        let mut evaluation = Evaluation { fed: fed.collect(), target, rows, programs: vec![] };
        for rows in [most, rest].into_iter().filter(|rows| *rows > 0) {
            let mut module = module.clone();
            let types = roles.all.iter().map(|parameter| {
                let fed = evaluation.fed.iter().find(|(name, _)| *name == parameter.name);
                fed.map_or(parameter.ty, |(_, array)| rows_type(array, rows))
            });
            bind_types(&mut module, registry, &types.collect::<Vec<_>>())?;
            if let Some(target) = &evaluation.target {
                expect_predictions(&module, target, rows)?;
            }
            bind(&mut module, &roles.frozen_arrays(source.weights));
            let inputs = Parameters::of_main(&module, registry).all.into_iter();
            let inputs = inputs.map(|parameter| parameter.name).collect();
            let (program, _) = Program::build(module, registry, options, found)?;
            evaluation.programs.push(Evaluated { rows, program, inputs });
        }
        Ok(evaluation)
    }

    /// How good `weights` are, which have an array for each parameter that is trained.
    ///
    /// # Errors
    /// Where a check of the program fails, and where a weight has no array of its type.
    pub fn score(&mut self, weights: &Arrays) -> Result<Score, Diagnostics> {
        let (mut start, mut loss, mut right) = (0, 0.0, 0);
        for index in 0..self.programs.len() {
            let Evaluated { program, inputs, rows } = &mut self.programs[index];
            let rows = *rows;
            for (input, name) in inputs.iter().enumerate() {
                if self.fed.iter().any(|(fed, _)| fed == name) {
                    continue;
                }
                let ty = program.inputs()[input];
                let Some(value) = weights.get(name).filter(|value| value.ty() == ty) else {
                    let message =
                        format!("expected an array of type {ty} for the weight `%{name}`");
                    let help = "give the weights of the trainer that this was made for";
                    return Err(Diagnostic::error(NOT_TRAINED, message).help(help).into());
                };
                program.input_mut(input).copy_from_slice(value.bytes());
            }
            while start + rows <= self.rows {
                for (input, name) in inputs.iter().enumerate() {
                    let Some((_, array)) = self.fed.iter().find(|(fed, _)| fed == name) else {
                        continue;
                    };
                    let bytes = program.input_mut(input);
                    let from = start * (bytes.len() / rows);
                    bytes.copy_from_slice(&array.bytes()[from..from + bytes.len()]);
                }
                program.run()?;
                loss += program.output(0)?.to_f64()[0] * rows as f64;
                if let Some(target) = &self.target {
                    right += equal_rows(&program.output(1)?, target, start, rows);
                }
                start += rows;
            }
        }
        let count = start as f64;
        let accuracy = self.target.as_ref().map(|_| right as f64 / count);
        Ok(Score { loss: loss / count, accuracy })
    }
}

/// Checks that `@main` of `module`, whose extents are known, gives predictions that can be compared with `rows`
/// rows of `target`.
fn expect_predictions(module: &Module, target: &TensorData, rows: usize) -> Result<(), Diagnostic> {
    let result = module.get(MAIN).and_then(|item| Some(item.signature.ty.as_function()?.result));
    let found = result.and_then(|result| result.as_tuple()?.get(1).copied());
    let shape = |ty: Type| ty.as_tensor().map(|tensor| tensor.shape.clone());
    let expected = rows_type(target, rows);
    match found {
        Some(found) if shape(found) == shape(expected) => Ok(()),
        _ => {
            let found = found.map_or("nothing".to_string(), |found| found.to_string());
            let message = format!(
                "for {rows} rows, `@{PREDICT}` gives {found}, and is compared with {expected}"
            );
            let span = module.get(PREDICT).and_then(|item| item.signature.span);
            Err(Diagnostic::error(NOT_TRAINED, message)
                .at(span)
                .help("give a prediction for each row, by `argmax` for one"))
        }
    }
}

/// How many of the `rows` rows of `found` are those of `target` from row `start` on.
fn equal_rows(found: &TensorData, target: &TensorData, start: usize, rows: usize) -> usize {
    let found = found.to_f64();
    let width = found.len() / rows;
    let target = target.to_f64();
    let target = &target[start * width..];
    let is_equal = |row: &usize| {
        let place = row * width..(row + 1) * width;
        found[place.clone()] == target[place]
    };
    (0..rows).filter(is_equal).count()
}

/// Makes `@main` give `(loss, prediction)`, where there is a function `@predict`; what was to be predicted.
///
/// # Errors
/// When that does not take what `@main` takes, or it is not clear what was to be predicted.
fn predict(module: &mut Module, roles: &Roles) -> Result<Option<TensorData>, Diagnostics> {
    let Some(item) = module.get(PREDICT).filter(|item| item.signature.op == FUNC) else {
        return Ok(None);
    };
    let span = item.signature.span;
    let error = |message: String| Diagnostic::error(NOT_TRAINED, message).at(span);
    let (Some(function), Some(body)) = (item.signature.ty.as_function(), &item.body) else {
        return Err(error(format!("`@{PREDICT}` has no body")).into());
    };
    let function = function.clone();
    let params = body.block_args(body.entry()).iter().zip(&function.params);
    let mut places = vec![];
    for (param, ty) in params {
        let name = body.name_hint(*param).name.map(|name| name.to_string()).unwrap_or_default();
        match roles.all.iter().position(|own| own.name == name && own.ty == *ty) {
            Some(place) => places.push(place),
            None => {
                let message = format!(
                    "`@{PREDICT}` takes `%{name}`, of type {ty}, and `@{MAIN}` has no such parameter"
                );
                let help = "its parameters are some of those of the loss";
                return Err(error(message).help(help).into());
            }
        }
    }
    let fed: Vec<_> = roles.fed.iter().filter(|fed| !places.contains(&fed.parameter)).collect();
    let [target] = fed[..] else {
        let message = format!("it is not clear what `@{PREDICT}` predicts");
        let help = format!(
            "all data of `@{MAIN}` but one array is for parameters of `@{PREDICT}` too, and it gives that one"
        );
        return Err(error(message).help(help).into());
    };
    let predicted = function.result.as_tensor().map(|tensor| &tensor.shape[..]);
    let parameter = &roles.all[target.parameter];
    if predicted != parameter.ty.as_tensor().map(|tensor| &tensor.shape[..]) {
        let message = format!(
            "`@{PREDICT}` gives {}, and is compared with `%{}`, of type {}",
            function.result, parameter.name, parameter.ty
        );
        return Err(error(message)
            .help("give a prediction for each row, by `argmax` for one")
            .into());
    }
    let target = target.array.clone();
    let item = module.items.get_mut(&Symbol::new(MAIN)).expect("a loss is a function");
    let main = item.signature.ty.as_function().expect("a function has the type of one").clone();
    let body = item.body_mut().expect("a loss has a body");
    let result = add_call(body, Type::new(TypeData::Function(function.clone())), &places);
    let main = ir_core::FunctionType { result, ..main };
    item.signature.ty = Type::new(TypeData::Function(main));
    Ok(Some(target))
}

/// Makes `body` give what it gave and what `@predict`, of type `ty`, gives for its parameters at `places`; the
/// type of that.
fn add_call(body: &mut Body, ty: Type, places: &[usize]) -> Type {
    let entry = body.entry();
    let end = body.last_op(entry).expect("functions give values");
    let loss = yielded(body, entry).expect("functions give values");
    let (at, loc) = (InsertPoint::Before(end), body.loc(end));
    let args: Vec<ValueId> = places.iter().map(|place| body.block_args(entry)[*place]).collect();
    let result = ty.as_function().expect("a function has the type of one").result;
    let callee = body.add(at, loc, &Global { name: Symbol::new(PREDICT) }, ty);
    let call = Call { type_args: vec![], attributes: AttrDict::empty(), callee, args };
    let prediction = body.add(at, loc, &call, result);
    let ty = Type::tuple([body.ty(loss), result]);
    let both = body.add(at, loc, &Tuple { fields: vec![loss, prediction] }, ty);
    body.set_operand(end, 0, both);
    ty
}
