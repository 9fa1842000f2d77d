//! Inputs: parameters of `@main`, and what is known of them before the graph is read.

use std::collections::BTreeMap;

use ir_core::{DType, Diagnostic, Diagnostics, Dim, NameHint, Symbol, Type};

use super::{Importer, Reported, Value};
use crate::proto::{Extent, Graph, ValueInfo, ValueType};
use crate::tensors::element_type;
use crate::texts::{TEXT, is_texts};

impl<'a> Importer<'a> {
    /// Makes the inputs of `graph` parameters of `@main`; their types.
    pub(super) fn inputs(&mut self, graph: &Graph<'a>) -> Reported<Vec<Type>> {
        let mut params = Vec::new();
        for input in &graph.inputs {
            // Of an old file, the inputs say which constants may be overridden; none is.
            if let Some(Value::Constant(_)) = self.scopes[0].get(input.name) {
                continue;
            }
            if self.scopes[0].contains_key(input.name) {
                let (name, offset) = (input.name, input.offset);
                let message =
                    format!("input `{name}`, at byte {offset}: there are two of this name");
                return Err(Diagnostics::from(Diagnostic::error("E0806", message)));
            }
            let ty = self.input_type(input)?;
            self.parameter(input.name, ty);
            params.push(ty);
            if ty == Type::tuple([]) && matches!(input.ty, ValueType::Optional(_)) {
                self.scopes[0].insert(input.name, Value::Absent);
            }
        }
        // Only now, so that two inputs of one name are told from a constant.
        for input in &graph.inputs {
            let Some(Value::Computed(id)) = self.scopes[0].get(input.name) else { continue };
            let ty = self.body.ty(*id);
            let known = self.options.values.get(input.name);
            if let Some(value) = known.filter(|value| fits(value.ty(), ty)) {
                self.scopes[0].insert(input.name, Value::Constant(value.clone()));
            }
            if is_texts(&input.ty)
                && let Some(points) = self.scopes[0].get(input.name).cloned()
            {
                let texts = self.texts(&points).map_err(|message| {
                    let error = self.of_input(input, message);
                    Diagnostics::from(Diagnostic { help: self.open_help(), ..error })
                });
                self.scopes[0].insert(input.name, texts?);
            }
        }
        Ok(params)
    }

    /// Makes constants of `graph` parameters of `@main`, where they are as large as the options say;
    /// their types.
    pub(super) fn large_weights(&mut self, graph: &Graph<'a>) -> Vec<Type> {
        let Some(limit) = self.options.weights_over else { return vec![] };
        let names = graph.initializers.iter().map(|tensor| tensor.name);
        let large: Vec<&'a str> = names.filter(|name| self.is_constant_over(name, limit)).collect();
        let mut params = Vec::new();
        for name in large {
            if let Some(Value::Constant(tensor)) = self.scopes[0].get(name).cloned() {
                self.parameter(name, tensor.ty());
                params.push(tensor.ty());
                self.weights.insert(name.to_string(), tensor);
            }
        }
        params
    }

    /// Refuses extents of the options that the model does not have.
    pub(super) fn check_dims(&self) -> Reported<()> {
        for name in self.options.dims.keys() {
            let name = Symbol::new(name);
            let known: Vec<Symbol> = self.open_names().collect();
            if !known.contains(&name) {
                let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                return Err(unknown_dim(name.as_str(), &known).into());
            }
        }
        Ok(())
    }

    /// Adds a parameter of `@main`.
    fn parameter(&mut self, name: &'a str, ty: Type) {
        let value = self.body.add_block_arg(self.body.entry(), ty);
        let hint = NameHint { name: Some(Symbol::new(name)), ..NameHint::default() };
        self.body.set_name_hint(value, hint);
        self.scopes[0].insert(name, Value::Computed(value));
    }

    fn is_constant_over(&self, name: &str, limit: usize) -> bool {
        match self.scopes[0].get(name) {
            Some(Value::Constant(tensor)) => tensor.bytes().len() > limit,
            _ => false,
        }
    }

    fn input_type(&mut self, input: &ValueInfo<'a>) -> Reported<Type> {
        self.value_type(input.name, &input.ty)
            .map_err(|message| self.of_input(input, message).into())
    }

    /// The error at `input`.
    fn of_input(&self, input: &ValueInfo<'a>, message: String) -> Diagnostic {
        let (name, offset) = (input.name, input.offset);
        Diagnostic::error("E0806", format!("input `{name}`, at byte {offset}: {message}"))
    }

    /// The type of the input `name`, which the file says is `ty`. The error is a message.
    fn value_type(&mut self, name: &str, ty: &ValueType<'a>) -> Result<Type, String> {
        match ty {
            ValueType::Tensor(element, extents) => {
                let is_texts = *element == TEXT;
                let dtype = if is_texts { DType::INT32 } else { element_type(*element)? };
                let given = self.options.extents.as_ref().and_then(|extents| extents.get(name));
                let known = |extents: &[i64]| Type::tensor(extents.iter().copied(), dtype);
                let Some(extents) = extents else {
                    let given = given.ok_or("expected a tensor of known rank")?;
                    return Ok(known(given));
                };
                // Texts have their code points along one more axis.
                let length = is_texts.then_some(Extent::Unknown);
                let extents: Vec<Extent<'a>> = extents.iter().copied().chain(length).collect();
                let given = given.filter(|given| given.len() == extents.len());
                let extents = extents.iter().enumerate();
                let dims = extents.map(|(axis, extent)| {
                    let dim = self.dim(*extent, name, axis);
                    match given {
                        Some(given) if dim.known().is_none() => Dim::Known(given[axis]),
                        _ => dim,
                    }
                });
                Ok(Type::tensor(dims.collect::<Vec<Dim>>(), dtype))
            }
            ValueType::Maps => Err("expected tensors, found a sequence of maps".to_string()),
            ValueType::Sequence(element, _) => {
                let (extents, dtype) = (self.known_extents()?, element_type(*element)?);
                let given = (0..).map_while(|at| extents.get(&format!("{name}.{at}")));
                Ok(Type::tuple(given.map(|given| Type::tensor(given.iter().copied(), dtype))))
            }
            ValueType::Optional(of) => {
                let mut given = self.known_extents()?.keys();
                let part = format!("{name}.");
                match given.any(|given| given == name || given.starts_with(&part)) {
                    // One level down: what is optional is a tensor or a sequence.
                    true => self.value_type(name, of),
                    false => Ok(Type::tuple([])),
                }
            }
            ValueType::Unknown => Err("expected a type, found none".to_string()),
            ValueType::Other(found) => Err(format!("expected a tensor, found {found}")),
        }
    }

    /// The extents of the inputs, which say what sequences and optional values consist of.
    fn known_extents(&self) -> Result<&'a BTreeMap<String, Vec<i64>>, String> {
        let missing = || "expected a tensor, found a value whose parts only the inputs tell";
        self.options.extents.as_ref().ok_or_else(|| missing().to_string())
    }

    /// The extent of `axis` of `input`.
    fn dim(&mut self, extent: Extent<'a>, input: &str, axis: usize) -> Dim {
        let (name, is_named) = match (extent, extent.name(input, axis)) {
            (Extent::Known(extent), _) => return Dim::Known(extent),
            (_, None) => return Dim::Any,
            (_, Some(name)) => (Symbol::new(&name), matches!(extent, Extent::Named(_))),
        };
        let names = if is_named { &mut self.dim_names } else { &mut self.unnamed_dims };
        if !names.contains(&name) {
            names.push(name);
        }
        match self.options.dims.get(name.as_str()) {
            Some(extent) => Dim::Known(*extent),
            None if self.options.shape_variables && is_named => Dim::parameter(name),
            None => Dim::Any,
        }
    }

    /// How to give the extents that are open numbers.
    pub(super) fn open_help(&self) -> Option<String> {
        let known = |name: &&str| self.options.dims.contains_key(*name);
        let names: Vec<Symbol> = self.open_names().collect();
        crate::dim_help(names.iter().map(|name| name.as_str()).filter(|name| !known(name)))
    }

    /// The names by which options may give extents.
    pub(super) fn open_names(&self) -> impl Iterator<Item = Symbol> {
        self.dim_names.iter().chain(&self.unnamed_dims).copied()
    }
}

fn unknown_dim(name: &str, known: &[&str]) -> Diagnostic {
    let error = Diagnostic::error("E0808", format!("no input has an extent named `{name}`"));
    match ir_core::diagnostics::did_you_mean(name, known.iter().copied()) {
        Some(help) => error.help(help),
        None if known.is_empty() => error.help("all extents of the inputs are numbers"),
        None => error.help(format!("there are {}", known.join(", "))),
    }
}

/// Whether a tensor of type `found` is one of type `expected`, whose extents may be open.
fn fits(found: Type, expected: Type) -> bool {
    let (Some(found), Some(expected)) = (found.as_tensor(), expected.as_tensor()) else {
        return false;
    };
    let same = |(a, b): (&Dim, &Dim)| a == b || b.known().is_none();
    found.dtype == expected.dtype
        && found.rank() == expected.rank()
        && found.shape.iter().zip(&expected.shape).all(same)
}
