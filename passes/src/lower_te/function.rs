//! From operators to compute functions.

use ir_core::{Body, Item, OpId, Registry, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Operand, tensor_types};
use relay::language::{Constant, Tuple, TupleGet, fn_params, short_name, yielded};
use rustc_hash::{FxHashMap, FxHashSet};
use te::compute::{ComputeBuilder, Tensor};

use super::field_range;
use super::problems::Problem;

/// The most characters of a name.
const LONGEST_NAME: usize = 100;

/// A compute function.
pub(crate) struct Function {
    /// What it should be called.
    pub(crate) name: String,
    /// The function. It takes the tensors of its operands, then `constants`.
    pub(crate) item: Item,
    /// Constants that are no scalars.
    pub(crate) constants: Vec<TensorData>,
}

impl Function {
    /// The function of `kernel`, a `relay.fn` of straight-line code.
    pub(crate) fn of_kernel(
        registry: &Registry,
        body: &Body,
        kernel: OpId,
    ) -> Result<Function, Problem> {
        let mut writer = Writer::new(registry, body);
        let block = body.region_block(kernel, 0);
        for &param in fn_params(body, kernel) {
            writer.parameter(param);
        }
        let mut names = Vec::new();
        for op in body.block_ops(block) {
            names.extend(writer.operation(op)?);
        }
        let result = yielded(body, block).ok_or(Problem::FunctionValue)?;
        let results = writer.of(result)?;
        writer.finish(fused_name(names), &results)
    }

    /// The function of `body`, a function of straight-line code, whose equal expressions stay
    /// [apart](ComputeBuilder::apart).
    pub(crate) fn of_body(registry: &Registry, body: &Body) -> Result<Function, Problem> {
        let entry = body.entry();
        let mut writer = Writer { builder: ComputeBuilder::apart(), ..Writer::new(registry, body) };
        for &param in body.block_args(entry) {
            writer.parameter(param);
        }
        let mut names = Vec::new();
        for op in body.block_ops(entry) {
            names.extend(writer.operation(op)?);
        }
        let result = yielded(body, entry).ok_or(Problem::FunctionValue)?;
        let results = writer.of(result)?;
        let name = match &names[..] {
            [one] => one.clone(),
            _ => fused_name(names),
        };
        writer.finish(name, &results)
    }

    /// The function of the operator `op` alone, and the values that it takes.
    pub(crate) fn of_operator(
        registry: &Registry,
        body: &Body,
        op: OpId,
    ) -> Result<(Function, Vec<ValueId>), Problem> {
        let mut writer = Writer::new(registry, body);
        let (mut seen, mut args) = (FxHashSet::default(), vec![]);
        for operand in body.operands(op) {
            if seen.insert(operand) && writer.scalar(operand).is_none() {
                writer.parameter(operand);
                args.push(operand);
            }
        }
        let name = writer.operation(op)?.expect("operators have names");
        let results = writer.of(body.result(op, 0))?;
        Ok((writer.finish(name, &results)?, args))
    }

    /// The function that copies a tensor of type `ty`.
    pub(crate) fn copy(ty: Type) -> Result<Function, Problem> {
        let mut builder = ComputeBuilder::new();
        let tensor = input(&mut builder, "data", ty)?;
        let copy = builder.compute("copy", &tensor.shape, |e, i| e.load(&tensor, i));
        let item = builder.finish(&[copy]);
        let item = item.map_err(|error| Problem::Refused("copy".to_string(), error))?;
        Ok(Function { name: "copy".to_string(), item, constants: vec![] })
    }
}

/// What a function that computes these operators is called.
fn fused_name(operators: Vec<String>) -> String {
    let fits = |name: &String, operator: &String| name.len() + operator.len() < LONGEST_NAME;
    operators.into_iter().fold("fused".to_string(), |name, operator| match fits(&name, &operator) {
        true => format!("{name}_{operator}"),
        false => name,
    })
}

fn input(builder: &mut ComputeBuilder, name: &str, ty: Type) -> Result<Tensor, Problem> {
    let tensor = ty.as_tensor();
    let tensor = tensor.and_then(|tensor| Some((tensor.known_shape()?, tensor.dtype)));
    let (shape, dtype) = tensor.ok_or(Problem::Type(ty))?;
    Ok(builder.input(name, &shape, dtype))
}

/// Writes operators one after the other.
struct Writer<'a> {
    registry: &'a Registry,
    body: &'a Body,
    builder: ComputeBuilder,
    /// The tensors of each value.
    tensors: FxHashMap<ValueId, Vec<Tensor>>,
    constants: Vec<TensorData>,
    parameters: usize,
    /// The first problem with a parameter.
    error: Option<Problem>,
}

impl<'a> Writer<'a> {
    fn new(registry: &'a Registry, body: &'a Body) -> Writer<'a> {
        Writer {
            registry,
            body,
            builder: ComputeBuilder::new(),
            tensors: FxHashMap::default(),
            constants: vec![],
            parameters: 0,
            error: None,
        }
    }

    /// Adds a parameter for every tensor of `value`.
    fn parameter(&mut self, value: ValueId) {
        let name = self.body.name_hint(value).name;
        let Some(types) = tensor_types(self.body.ty(value)) else {
            self.error.get_or_insert(Problem::FunctionValue);
            return;
        };
        let mut tensors = Vec::with_capacity(types.len());
        for ty in types {
            let numbered = format!("p{}", self.parameters);
            let name =
                name.filter(|_| tensors.is_empty()).map_or(numbered, |name| name.to_string());
            self.parameters += 1;
            match input(&mut self.builder, &name, ty) {
                Ok(tensor) => tensors.push(tensor),
                Err(problem) => {
                    self.error.get_or_insert(problem);
                }
            }
        }
        self.tensors.insert(value, tensors);
    }

    /// The constant scalar `value`.
    fn scalar(&self, value: ValueId) -> Option<TensorData> {
        let (_, constant) = self.body.view_def::<Constant>(value)?;
        (constant.value.rank() == 0).then_some(constant.value)
    }

    /// The tensors of `value`.
    fn of(&mut self, value: ValueId) -> Result<Vec<Tensor>, Problem> {
        if let Some(tensors) = self.tensors.get(&value) {
            return Ok(tensors.clone());
        }
        // What is defined outside of a kernel is a constant.
        let constant = self.body.view_def::<Constant>(value);
        let (_, constant) = constant.ok_or(Problem::FunctionValue)?;
        let tensor = match constant.value.rank() {
            0 => self.builder.constant(&constant.value),
            _ => {
                let name = format!("c{}", self.constants.len());
                self.constants.push(constant.value.clone());
                input(&mut self.builder, &name, constant.value.ty())?
            }
        };
        self.tensors.insert(value, vec![tensor.clone()]);
        Ok(vec![tensor])
    }

    /// Writes `op`; its name, where it is an operator.
    fn operation(&mut self, op: OpId) -> Result<Option<String>, Problem> {
        let body = self.body;
        let full = body.op_name(op);
        if body.result_count(op) == 0 || full == Constant::NAME {
            return Ok(None);
        }
        let value = body.result(op, 0);
        if let Some(Tuple { fields }) = body.view(op) {
            let mut tensors = Vec::new();
            for field in fields {
                tensors.extend(self.of(field)?);
            }
            self.tensors.insert(value, tensors);
            return Ok(None);
        }
        if let Some(TupleGet { tuple, index }) = body.view(op) {
            let tensors = self.of(tuple)?[field_range(body.ty(tuple), index)].to_vec();
            self.tensors.insert(value, tensors);
            return Ok(None);
        }
        let short = short_name(full.as_str());
        let define = self.registry.hook::<Define>(full);
        let define = define.ok_or_else(|| Problem::Undefined(short.to_string()))?;
        let mut operands = Vec::new();
        for operand in body.operands(op) {
            let tensors = self.of(operand)?;
            operands.push(match (body.ty(operand).as_tensor(), &tensors[..]) {
                (Some(_), [tensor]) => Operand::Tensor(tensor.clone()),
                _ => Operand::Tuple(tensors),
            });
        }
        self.builder.at(body.loc(op));
        let mut cx = DefineCx {
            builder: &mut self.builder,
            name: full.as_str(),
            operands: &operands,
            attrs: body.attrs(op),
            result: body.ty(value),
            registry: self.registry,
        };
        let tensors = cx.write(define);
        let tensors = tensors.map_err(|error| Problem::Refused(short.to_string(), error))?;
        self.tensors.insert(value, tensors);
        Ok(Some(short.replace('.', "_")))
    }

    /// The function that returns `results`. Each is a stage of its own.
    fn finish(mut self, name: String, results: &[Tensor]) -> Result<Function, Problem> {
        let mut returned: Vec<Tensor> = Vec::with_capacity(results.len());
        for result in results {
            let again = returned.iter().any(|other| other.value == result.value);
            returned.push(match again || self.builder.is_given(result) {
                true => self.builder.compute("copy", &result.shape, |e, i| e.load(result, i)),
                false => result.clone(),
            });
        }
        if let Some(problem) = self.error {
            return Err(problem);
        }
        let item = self.builder.finish(&returned);
        let item = item.map_err(|error| Problem::Refused(name.clone(), error))?;
        Ok(Function { name, item, constants: self.constants })
    }
}
