//! Operators that give tensors of unknown extents, and do little or nothing to elements.

use ir_core::{AttrDict, BlockId, Body, DType, InsertPoint, Loc, OpFields, OpId, OpParts};
use ir_core::{Type, ValueId};
use relay_operators::annotation::CheckShape;
use relay_operators::index::gather::ArgWhere;
use relay_operators::{dynamic, shape};
use te::compute::{ComputeBuilder, Expression, Tensor};

use super::function::Writer;
use super::open::Of;
use crate::lower_te::function::Function;
use crate::lower_te::problems::Problem;

/// Numbers that an operator is given.
pub(super) enum Numbers {
    /// These.
    Known(Vec<i64>),
    /// The elements of a vector of so many, of this type.
    Elements(ValueId, usize, DType),
}

impl Numbers {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        match self {
            Numbers::Known(numbers) => numbers.len(),
            Numbers::Elements(_, count, _) => *count,
        }
    }

    /// The number at `place`, where there is one, of a function that takes the vector as `vector`.
    pub(super) fn number(
        &self,
        e: &mut Expression<'_>,
        place: usize,
        vector: Option<&Tensor>,
    ) -> Option<ValueId> {
        match (self, vector) {
            _ if place >= self.count() => None,
            (Numbers::Known(numbers), _) => Some(e.index(numbers[place])),
            (_, vector) => {
                let place = e.index(place as i64);
                let value = e.load(vector.expect("a vector of numbers"), &[place]);
                Some(e.cast(value, DType::INT64))
            }
        }
    }
}

impl Writer<'_, '_> {
    /// Computes the operator `op` of `body`, on tensors of unknown extents, where it is one of those that
    /// programs have operations for; `None` where it is none.
    pub(super) fn shape_operator(
        &mut self,
        body: &Body,
        op: OpId,
        of: &Of<'_>,
        to: BlockId,
    ) -> Result<Option<Vec<ValueId>>, Problem> {
        let (loc, result) = (body.loc(op), body.ty(body.result(op, 0)));
        let Some(ty) = result.as_tensor() else { return Ok(None) };
        if let Some(CheckShape { data, shape }) = body.view(op) {
            let tensor = of(self, data)[0];
            let result = self.lowering.flat(result)?[0];
            let expected = Type::tensor(shape.0, ty.dtype);
            if !prog::is_open(self.new.ty(tensor)) {
                return Ok(None);
            }
            let expect = prog::Expect { tensor, expected };
            return Ok(Some(vec![self.new.add(InsertPoint::End(to), loc, &expect, result)]));
        }
        if let Some(ArgWhere { condition }) = body.view(op) {
            return self.argwhere(body, (condition, loc), of, to);
        }
        if let Some(reshape) = body.view::<shape::ReshapeLike>(op) {
            let is_whole = (reshape.lhs_begin, reshape.rhs_begin) == (0, 0)
                && (reshape.lhs_end, reshape.rhs_end) == (None, None);
            let rank = body.ty(reshape.data).as_tensor().map_or(0, |tensor| tensor.rank());
            if !is_whole || rank == 0 || ty.rank() == 0 {
                return Ok(None);
            }
            let [tensor, like] = [reshape.data, reshape.shape_like]
                .map(|value| self.opened(of(self, value)[0], to, loc));
            let extents = self.extents(like, ty.rank(), to, loc);
            return self.reshape(tensor, extents, result, to, loc).map(Some);
        }
        let (data, wanted, allowzero) = if let Some(reshape) = body.view::<shape::Reshape>(op) {
            (reshape.data, Numbers::Known(reshape.newshape), reshape.allowzero)
        } else if let Some(reshape) = body.view::<dynamic::Reshape>(op) {
            let newshape = reshape.newshape;
            let vector = body.ty(newshape).as_tensor();
            let vector = vector.and_then(|vector| Some((vector.known_shape()?, vector.dtype)));
            let Some((extents, dtype)) = vector else { return Ok(None) };
            let [count] = extents[..] else { return Ok(None) };
            let wanted = Numbers::Elements(of(self, newshape)[0], count as usize, dtype);
            (reshape.data, wanted, reshape.allowzero)
        } else {
            return Ok(None);
        };
        let axes = match &wanted {
            // Others than 0 and -1 take or give several extents.
            Numbers::Known(numbers) if numbers.iter().any(|number| *number < -1) => {
                return Ok(None);
            }
            _ => wanted.count(),
        };
        let rank = body.ty(data).as_tensor().map_or(0, |tensor| tensor.rank());
        if rank == 0 || axes == 0 || axes != ty.rank() {
            return Ok(None);
        }
        let tensor = self.opened(of(self, data)[0], to, loc);
        let extents = self.reshaped(tensor, rank, wanted, allowzero, to, loc);
        self.reshape(tensor, extents, result, to, loc).map(Some)
    }

    /// `tensor` with these `extents`, as a value of type `result`.
    fn reshape(
        &mut self,
        tensor: ValueId,
        extents: Vec<ValueId>,
        result: Type,
        to: BlockId,
        loc: Loc,
    ) -> Result<Vec<ValueId>, Problem> {
        let reshape = prog::Reshape { tensor, extents };
        let value = self.new.add(InsertPoint::End(to), loc, &reshape, prog::opened(result));
        let types = self.lowering.flat(result)?;
        Ok(self.fit(&[value], &types, to, loc))
    }

    /// The extents of `tensor`, of `rank` axes.
    pub(super) fn extents(
        &mut self,
        tensor: ValueId,
        rank: usize,
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        let index = Type::scalar(DType::INT64);
        (0..rank)
            .map(|axis| {
                let extent = prog::Extent { tensor, axis: axis as i64 };
                self.new.add(InsertPoint::End(to), loc, &extent, index)
            })
            .collect()
    }

    /// `value` as a tensor whose extents are a part of it.
    pub(super) fn opened(&mut self, value: ValueId, to: BlockId, loc: Loc) -> ValueId {
        let ty = self.new.ty(value);
        self.fit(&[value], &[prog::opened(ty)], to, loc)[0]
    }

    /// The indices of the elements of `condition` that are not 0.
    fn argwhere(
        &mut self,
        body: &Body,
        (condition, loc): (ValueId, Loc),
        of: &Of<'_>,
        to: BlockId,
    ) -> Result<Option<Vec<ValueId>>, Problem> {
        let ty = body.ty(condition);
        let Some(tensor) = ty.as_tensor().filter(|tensor| tensor.rank() > 0) else {
            return Ok(None);
        };
        let values = of(self, condition);
        let mask = match tensor.dtype.is_bool() {
            true => values[0],
            false => {
                let mut alone = Body::new();
                let entry = alone.entry();
                let operands = [alone.add_block_arg(entry, ty)];
                let types = [Type::tensor(tensor.shape.iter().copied(), DType::BOOL)];
                let attrs = AttrDict::empty().with("dtype", &DType::BOOL);
                let parts = OpParts::new("relay.cast", &operands, &types).attrs(attrs).at(loc);
                let cast = alone.insert_op(InsertPoint::End(entry), parts);
                self.apply(&alone, cast, &|_, _| values.clone(), to)?[0]
            }
        };
        let indices = prog::Indices { tensor: self.opened(mask, to, loc) };
        let rows = Type::tensor([ir_core::Dim::Any; 2], DType::INT32);
        Ok(Some(vec![self.new.add(InsertPoint::End(to), loc, &indices, rows)]))
    }

    /// The extents that `tensor`, of `rank` axes, gets where those `wanted` are asked for: 0 stands for its
    /// own extent, unless `allowzero`, and -1 for what makes the number of elements the same.
    fn reshaped(
        &mut self,
        tensor: ValueId,
        rank: usize,
        wanted: Numbers,
        allowzero: bool,
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        let index = Type::scalar(DType::INT64);
        let mut inputs = self.extents(tensor, rank, to, loc);
        let mut builder = ComputeBuilder::new();
        let own: Vec<Tensor> =
            (0..rank).map(|axis| builder.input(&format!("n{axis}"), &[], DType::INT64)).collect();
        let mut vector = None;
        let axes = match &wanted {
            Numbers::Known(numbers) => numbers.len(),
            Numbers::Elements(value, count, dtype) => {
                inputs.push(*value);
                vector = Some(builder.input("shape", &[*count as i64], *dtype));
                *count
            }
        };
        let number = |e: &mut Expression<'_>, place: usize| {
            wanted.number(e, place, vector.as_ref()).expect("each axis has one")
        };
        // What 0 stands for.
        let copied = |e: &mut Expression<'_>, place: usize| match own.get(place) {
            _ if allowzero => e.index(0),
            Some(own) => e.load(own, &[]),
            None => e.index(-1),
        };
        let mut results = Vec::with_capacity(axes);
        for axis in 0..axes {
            results.push(builder.compute("extent", &[], |e, _| {
                let (zero, one, inferred) = (e.index(0), e.index(1), e.index(-1));
                let value = number(e, axis);
                let (mut elements, mut given, mut asked) = (one, one, zero);
                for own in &own {
                    let own = e.load(own, &[]);
                    elements = e.mul(elements, own);
                }
                for place in 0..axes {
                    let other = number(e, place);
                    let is_inferred = e.eq(other, inferred);
                    let more = e.select(is_inferred, one, zero);
                    asked = e.add(asked, more);
                    let is_copied = e.eq(other, zero);
                    let copied = copied(e, place);
                    let other = e.select(is_copied, copied, other);
                    let other = e.select(is_inferred, one, other);
                    given = e.mul(given, other);
                }
                let divisor = e.max(given, one);
                let quotient = e.scalar(te::scalar::ScalarOp::FloorDiv, &[elements, divisor]);
                let (several, none) = (e.gt(asked, one), e.lt(given, one));
                let wrong = e.or(several, none);
                let quotient = e.select(wrong, inferred, quotient);
                let is_inferred = e.eq(value, inferred);
                let is_copied = e.eq(value, zero);
                let copied = copied(e, axis);
                let value = e.select(is_copied, copied, value);
                e.select(is_inferred, quotient, value)
            }));
        }
        let item = builder.finish(&results).expect("arithmetic of numbers is well typed");
        let function = Function { name: "reshape".to_string(), item, constants: vec![] };
        let types = vec![index; axes];
        self.scalars(function, inputs, &types, to, loc)
    }

    /// What `function` of numbers gives, of `types`.
    pub(super) fn scalars(
        &mut self,
        function: Function,
        inputs: Vec<ValueId>,
        types: &[Type],
        to: BlockId,
        loc: Loc,
    ) -> Vec<ValueId> {
        let kernel = prog::Kernel { function: self.lowering.add(function), inputs };
        let parts = OpParts::new(prog::Kernel::<ValueId>::NAME, &kernel.inputs, types);
        let op = self.insert(to, parts.attrs(kernel.attrs()).at(loc));
        self.new.results(op).collect()
    }
}
