//! Tensors whose extents are not known before they are there.

use std::rc::Rc;

use ir_core::{BlockId, Body, InsertPoint, Loc, OpId, OpParts, Symbol, TensorData, Type, ValueId};
use relay::define::Define;
use relay::interpreter::Evaluate;
use relay::language::{Constant, Fn, fn_attributes, fn_params, is_primitive, short_name, yielded};

use relay_operators::dynamic;

use super::function::Writer;
use super::sized::Given;
use crate::dynamic_to_static::deciding_operands;
use crate::extents::is_open;
use crate::lower_te::function::Function;
use crate::lower_te::problems::Problem;
use crate::open_kernels::OpenKernels;
use crate::specialize::types::extents;

/// What the values in a body became.
pub(super) type Of<'f> = dyn std::ops::Fn(&Writer<'_, '_>, ValueId) -> Vec<ValueId> + 'f;

impl Writer<'_, '_> {
    /// The types of values of the new body.
    pub(super) fn types(&self, values: impl Iterator<Item = ValueId>) -> Vec<Type> {
        values.map(|value| self.new.ty(value)).collect()
    }

    /// `values` as values of `types`, where these differ in what is known of extents.
    pub(super) fn fit(
        &mut self,
        values: &[ValueId],
        types: &[Type],
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        let pairs = values.iter().zip(types);
        let fitted = pairs.map(|(value, ty)| self.fit_one(*value, *ty, to, loc)).collect();
        // Of other numbers, the verifier tells.
        if values.len() == types.len() { fitted } else { values.to_vec() }
    }

    fn fit_one(&mut self, value: ValueId, ty: Type, to: BlockId, loc: Loc) -> ValueId {
        let found = self.new.ty(value);
        if prog::is_open(ty) && prog::opened(found) == ty && prog::is_fixed(found) {
            return self.new.add(InsertPoint::End(to), loc, &prog::Open { tensor: value }, ty);
        }
        if prog::is_open(found) && prog::opened(ty) == found && prog::is_fixed(ty) {
            let expect = prog::Expect { tensor: value, expected: ty };
            return self.new.add(InsertPoint::End(to), loc, &expect, ty);
        }
        value
    }

    fn operate(
        &mut self,
        operate: &prog::Operate,
        types: &[Type],
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        use ir_core::OpFields;
        let parts = OpParts::new(prog::Operate::<ValueId>::NAME, &operate.inputs, types);
        let op = self.insert(to, parts.attrs(operate.attrs()).at(loc));
        self.new.results(op).collect()
    }

    /// What function `name` takes and gives.
    pub(super) fn interface(&mut self, name: Symbol) -> Result<(Vec<Type>, Vec<Type>), Problem> {
        let item = self.lowering.module.get(name);
        let ty = item.map(|item| item.signature.ty);
        let function = ty.and_then(|ty| ty.as_function());
        let (Some(ty), Some(function)) = (ty, function) else {
            return Err(Problem::Call(name.to_string()));
        };
        let known = extents(ty);
        if !function.type_params.iter().all(|param| known.contains(param)) {
            return Err(Problem::Polymorphic(name.to_string()));
        }
        let mut params = Vec::new();
        for param in &function.params {
            params.extend(self.lowering.flat(*param)?);
        }
        Ok((params, self.lowering.flat(function.result)?))
    }

    /// The kernel that a call of `callee` is of.
    pub(super) fn kernel_of(&self, callee: ValueId) -> Option<OpId> {
        let body = self.body;
        let kernel = body.defining_op(callee).filter(|op| body.is::<Fn>(*op))?;
        is_primitive(fn_attributes(body, kernel)).then_some(kernel)
    }

    /// The compute function of `kernel` on `inputs`; `None` where there is none, as an extent in it is not
    /// known, or nothing defines an operator of it.
    pub(super) fn compiled(&self, kernel: OpId, inputs: &[ValueId]) -> Option<Function> {
        let body = self.body;
        let mut results =
            body.block_ops(body.region_block(kernel, 0)).flat_map(|op| body.results(op));
        let is_open = inputs.iter().any(|input| prog::is_open(self.new.ty(*input)))
            || results.any(|result| is_open(body.ty(result)));
        let function = || Function::of_kernel(self.lowering.registry, body, kernel).ok();
        if is_open { None } else { function() }
    }

    /// The kernels of `kernel`, a group of operators, on `args`; `None` where there are none.
    pub(super) fn kernels_of_group(
        &mut self,
        kernel: OpId,
        args: &[ValueId],
    ) -> Option<Rc<[OpenKernels]>> {
        let body = self.body;
        let block = body.region_block(kernel, 0);
        let params = fn_params(body, kernel).iter().zip(args);
        let params: Vec<_> = params.map(|(param, arg)| (*param, body.ty(*arg))).collect();
        let ops: Vec<OpId> =
            body.block_ops(block).filter(|op| body.result_count(*op) > 0).collect();
        // One may be more than a kernel, such as a reshape.
        if ops.len() == 1 {
            return None;
        }
        self.open_kernels(body, &ops, (&params, &[]), &[], yielded(body, block)?).ok()
    }

    /// Computes the operator `op` of `body`: by compute functions where it has some, else while the program
    /// runs. `of` tells what operands became.
    pub(super) fn apply(
        &mut self,
        body: &Body,
        op: OpId,
        of: &Of<'_>,
        to: BlockId,
    ) -> Result<Vec<ValueId>, Problem> {
        let registry = self.lowering.registry;
        let (name, loc, result) = (body.op_name(op), body.loc(op), body.ty(body.result(op, 0)));
        let inputs: Vec<ValueId> =
            body.operands(op).flat_map(|operand| of(self, operand)).collect();
        let types = self.lowering.flat(result)?;
        let mut tensors = self.types(inputs.iter().copied());
        tensors.extend(types.iter().copied());
        let compiled = match tensors.iter().any(|ty| prog::is_open(*ty)) {
            true => None,
            false => Some(Function::of_operator(registry, body, op)),
        };
        let refused = match compiled {
            Some(Ok((function, used))) => {
                let inputs = used.iter().flat_map(|operand| of(self, *operand)).collect();
                return self.kernel((body, op), function, inputs, to);
            }
            other => other.and_then(Result::err),
        };
        if let Some(values) = self.shape_operator(body, op, of, to)? {
            return Ok(values);
        }
        if let Some(values) = self.order_operator(body, op, of, to)? {
            return Ok(values);
        }
        if body.is::<dynamic::StridedSlice>(op)
            && let Some(values) = self.slice_operator(body, op, of, to)?
        {
            return Ok(values);
        }
        let constants: Vec<(ValueId, TensorData)> = deciding_operands(body, op)
            .into_iter()
            .filter_map(|index| {
                let operand = body.operand(op, index);
                let (_, constant) =
                    self.new.view_def::<prog::Constant>(*of(self, operand).first()?)?;
                Some((operand, constant.value))
            })
            .collect();
        let (mut params, mut values) = distinct(body, op);
        let is_constant = |value: &ValueId| constants.iter().any(|(other, _)| other == value);
        params.retain(|(value, _)| !is_constant(value));
        values.retain(|(value, _)| !is_constant(value));
        let short = || short_name(name.as_str()).to_string();
        let open = |reason: &str| match registry.hook::<Define>(name) {
            Some(_) => Problem::Open(short(), reason.to_string()),
            None => Problem::Undefined(short()),
        };
        let of_op =
            self.open_kernels(body, &[op], (&params, &values), &constants, body.result(op, 0));
        let kernels = match of_op {
            Ok(kernels) => kernels,
            Err(reason) => {
                if let Some(values) = self.slice_operator(body, op, of, to)? {
                    return Ok(values);
                }
                let problem = refused.unwrap_or_else(|| open(&reason));
                return self.evaluate((body, op), inputs, problem, to);
            }
        };
        let [params, values] = [params, values].map(|list| {
            list.iter().flat_map(|(operand, _)| of(self, *operand)).collect::<Vec<_>>()
        });
        let Given { values, otherwise } = self.sized(&kernels, (&params, &values), &types, to, loc);
        let Some(to) = otherwise else { return Ok(values) };
        if let Some(values) = self.slice_operator(body, op, of, to)? {
            self.yields(&values, to, loc);
        } else if self.lowering.packaged {
            self.fails(&kernels, otherwise, loc);
        } else {
            let problem = open("extents may be others than its kernel is written for");
            let values = self.evaluate((body, op), inputs, problem, to)?;
            self.yields(&values, to, loc);
        }
        Ok(values)
    }

    /// Has whoever runs the program compute the operator `op` of `body`, which has no kernel because of
    /// `problem`; an error where nobody can.
    fn evaluate(
        &mut self,
        (body, op): (&Body, OpId),
        inputs: Vec<ValueId>,
        problem: Problem,
        to: BlockId,
    ) -> Result<Vec<ValueId>, Problem> {
        let registry = self.lowering.registry;
        let (name, loc, result) = (body.op_name(op), body.loc(op), body.ty(body.result(op, 0)));
        if self.lowering.packaged {
            return Err(match problem {
                Problem::Undefined(name) | Problem::AtRunTime(name) => Problem::Packaged(name),
                problem => problem,
            });
        }
        let types = self.lowering.flat(result)?;
        let are_tensors = prog::operators::tensors(result).is_some()
            && body.operands(op).all(|value| prog::operators::tensors(body.ty(value)).is_some());
        if registry.hook::<Evaluate>(name).is_none() || !are_tensors {
            return Err(problem);
        }
        let operate = prog::Operate {
            operator: name,
            attributes: body.attrs(op),
            operands: body.operands(op).map(|operand| body.ty(operand)).collect(),
            result,
            inputs,
        };
        Ok(self.operate(&operate, &types, to, loc))
    }
}

/// Operands, and their types.
type Operands = Vec<(ValueId, Type)>;

/// The most elements of an operand that decide extents.
const MOST_ELEMENTS: i64 = 4;

/// The operands of `op` that are no constants, each once; apart from the others those whose elements decide
/// extents.
fn distinct(body: &Body, op: OpId) -> (Operands, Operands) {
    let deciding = deciding_operands(body, op);
    let is_small = |ty: Type| {
        let tensor = ty.as_tensor().filter(|tensor| tensor.dtype.is_integer() && tensor.rank() < 2);
        let shape = tensor.and_then(|tensor| tensor.known_shape());
        shape.is_some_and(|shape| shape.iter().product::<i64>() <= MOST_ELEMENTS)
    };
    let (mut params, mut values): (Operands, Operands) = Default::default();
    for (index, operand) in body.operands(op).enumerate() {
        let ty = body.ty(operand);
        let is_known = params.iter().chain(&values).any(|(value, _)| *value == operand);
        if is_known || body.view_def::<Constant>(operand).is_some() {
            continue;
        }
        let decides = deciding.contains(&index) && is_small(ty);
        if decides { &mut values } else { &mut params }.push((operand, ty));
    }
    (params, values)
}
