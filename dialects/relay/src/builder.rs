//! Building bodies operation by operation, types given.

use ir_core::{
    AttrDict, BlockId, Body, InsertPoint, Loc, OpFields, OpId, OpParts, Scalar, TensorData, Type,
    ValueId,
};

use crate::language::{Constant, Fn, If, Match, Pattern, Yield};

/// Appends operations to one block of a body at a time. Types are the caller's business, so
/// programs can be built that inference has yet to see, or that are wrong on purpose.
#[derive(Clone, Debug)]
pub struct Builder {
    /// The body so far.
    pub body: Body,
    /// The block that grows.
    pub block: BlockId,
}

impl Builder {
    /// A builder of a function with parameters of the given types.
    pub fn new(params: &[Type]) -> (Builder, Vec<ValueId>) {
        let mut body = Body::new();
        let block = body.entry();
        let params = params.iter().map(|ty| body.add_block_arg(block, *ty)).collect();
        (Builder { body, block }, params)
    }

    /// Appends `op` with a result of type `ty`.
    pub fn add<T: OpFields<ValueId>>(&mut self, op: &T, ty: Type) -> ValueId {
        self.body.add(InsertPoint::End(self.block), Loc::UNKNOWN, op, ty)
    }

    /// Appends a constant.
    pub fn constant(&mut self, value: TensorData) -> ValueId {
        let ty = value.ty();
        self.add(&Constant { value }, ty)
    }

    /// Appends an `int32` scalar.
    pub fn int(&mut self, value: i64) -> ValueId {
        self.constant(TensorData::scalar(ir_core::DType::INT32, Scalar::Int(value)))
    }

    /// Ends the block with `value`.
    pub fn yields(&mut self, value: ValueId) {
        let (op, operands) = (Yield { value }, [value]);
        let name = <Yield as OpFields<ValueId>>::NAME;
        let parts = OpParts::new(name, &operands, &[]).attrs(op.attrs());
        self.body.insert_op(InsertPoint::End(self.block), parts);
    }

    fn with_regions<T: OpFields<ValueId>>(&mut self, op: &T, ty: Type, regions: usize) -> OpId {
        let operands = op.operands();
        let results = [ty];
        let parts = OpParts::new(T::NAME, &operands, &results).attrs(op.attrs()).regions(regions);
        self.body.insert_op(InsertPoint::End(self.block), parts)
    }

    /// Fills region `index` of `op` with what `fill` builds and yields. `fill` gets the arguments
    /// of the region.
    fn region(
        &mut self,
        op: OpId,
        index: usize,
        args: &[Type],
        fill: &mut dyn FnMut(&mut Builder, &[ValueId]) -> ValueId,
    ) {
        let inner = self.body.region_block(op, index);
        let args: Vec<ValueId> =
            args.iter().map(|ty| self.body.add_block_arg(inner, *ty)).collect();
        let outer = std::mem::replace(&mut self.block, inner);
        let value = fill(self, &args);
        self.yields(value);
        self.block = outer;
    }

    /// Appends an `if`.
    pub fn if_else(
        &mut self,
        condition: ValueId,
        ty: Type,
        mut then_branch: impl FnMut(&mut Builder) -> ValueId,
        mut else_branch: impl FnMut(&mut Builder) -> ValueId,
    ) -> ValueId {
        let op = self.with_regions(&If { condition }, ty, 2);
        self.region(op, 0, &[], &mut |builder, _| then_branch(builder));
        self.region(op, 1, &[], &mut |builder, _| else_branch(builder));
        self.body.result(op, 0)
    }

    /// Appends a `match`. A clause is a pattern, the types of its variables, and what builds its
    /// value; `fill` gets the clause's index and the variables.
    pub fn matches(
        &mut self,
        data: ValueId,
        ty: Type,
        clauses: &[(Pattern, Vec<Type>)],
        fill: impl FnMut(&mut Builder, usize, &[ValueId]) -> ValueId,
    ) -> ValueId {
        self.clauses(true, data, ty, clauses, fill)
    }

    /// Appends a `match?`, for data that is known to fit one of the clauses.
    pub fn matches_some(
        &mut self,
        data: ValueId,
        ty: Type,
        clauses: &[(Pattern, Vec<Type>)],
        fill: impl FnMut(&mut Builder, usize, &[ValueId]) -> ValueId,
    ) -> ValueId {
        self.clauses(false, data, ty, clauses, fill)
    }

    fn clauses(
        &mut self,
        complete: bool,
        data: ValueId,
        ty: Type,
        clauses: &[(Pattern, Vec<Type>)],
        mut fill: impl FnMut(&mut Builder, usize, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let patterns = clauses.iter().map(|(pattern, _)| pattern.clone()).collect();
        let op = Match { data, patterns, complete };
        let op = self.with_regions(&op, ty, clauses.len());
        for (index, (_, variables)) in clauses.iter().enumerate() {
            self.region(op, index, variables, &mut |builder, args| fill(builder, index, args));
        }
        self.body.result(op, 0)
    }

    /// Appends a `match?` with one clause, for data that is known to fit it.
    pub fn takes_apart(
        &mut self,
        data: ValueId,
        ty: Type,
        (pattern, variables): (Pattern, &[Type]),
        mut fill: impl FnMut(&mut Builder, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let op = Match { data, patterns: vec![pattern], complete: false };
        let op = self.with_regions(&op, ty, 1);
        self.region(op, 0, variables, &mut fill);
        self.body.result(op, 0)
    }

    /// Appends a function value. The body gets the parameters and, where it is recursive, the
    /// function itself as last value.
    pub fn function(
        &mut self,
        params: &[Type],
        result: Type,
        recursive: bool,
        mut fill: impl FnMut(&mut Builder, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let op = Fn { recursive, attributes: AttrDict::empty() };
        self.function_of(&op, params, result, &mut fill)
    }

    /// Appends a kernel: a function marked `Primitive=1`, which takes nothing from outside.
    pub fn kernel(
        &mut self,
        params: &[Type],
        result: Type,
        mut fill: impl FnMut(&mut Builder, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let attributes = AttrDict::empty().with("Primitive", &1i64);
        self.function_of(&Fn { recursive: false, attributes }, params, result, &mut fill)
    }

    fn function_of(
        &mut self,
        op: &Fn,
        params: &[Type],
        result: Type,
        fill: &mut dyn FnMut(&mut Builder, &[ValueId]) -> ValueId,
    ) -> ValueId {
        let ty = Type::function(params.iter().copied(), result);
        let recursive = op.recursive;
        let op = self.with_regions(op, ty, 1);
        let mut args = params.to_vec();
        args.extend(recursive.then_some(ty));
        self.region(op, 0, &args, fill);
        self.body.result(op, 0)
    }
}
