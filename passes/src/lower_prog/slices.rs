//! Slices whose extents are no sums of others, and ranges of numbers: their extents are computed first.

use ir_core::{BlockId, Body, DType, Loc, OpId, Type, ValueId};
use relay_operators::attributes::Integers;
use relay_operators::create::Arange;
use relay_operators::elements::MAX_ELEMENTS;
use relay_operators::index::slice::{SliceLike, SliceMode, StridedSlice};
use relay_operators::{dynamic, relation};
use te::compute::{ComputeBuilder, Expression, Tensor};
use te::scalar::ScalarOp;

use super::function::Writer;
use super::open::Of;
use super::shapes::Numbers;
use crate::lower_te::function::Function;
use crate::lower_te::problems::Problem;
use crate::open_kernels::MOST_VARIABLES;

/// Larger numbers say nothing else of an axis.
const FAR: i64 = 1 << 40;

/// Slices of some axes of a tensor.
struct Slices {
    axes: Vec<usize>,
    /// Of each axis, as written; missing ends are the end, and missing strides 1.
    begin: Numbers,
    end: Numbers,
    strides: Numbers,
    mode: SliceMode,
}

impl Writer<'_, '_> {
    /// Computes the operator `op` of `body` where it is a slice or a range; `None` where it is none.
    pub(super) fn slice_operator(
        &mut self,
        body: &Body,
        op: OpId,
        of: &Of<'_>,
        to: BlockId,
    ) -> Result<Option<Vec<ValueId>>, Problem> {
        let (loc, result) = (body.loc(op), body.ty(body.result(op, 0)));
        let value = if let Some(slice) = body.view::<StridedSlice>(op) {
            let Some(axes) = sliced(body, slice.data, &slice.axes, slice.begin.0.len()) else {
                return Ok(None);
            };
            let strides = slice.strides.map_or(vec![], |strides| strides.0);
            let [begin, end, strides] = [slice.begin.0, slice.end.0, strides].map(Numbers::Known);
            let slices = Slices { axes, begin, end, strides, mode: slice.slice_mode };
            self.slice(of(self, slice.data)[0], &slices, to, loc)?
        } else if let Some(slice) = body.view::<dynamic::StridedSlice>(op) {
            let numbers = [slice.begin, slice.end, slice.strides]
                .map(|value| self.numbers_of(body.ty(value), of(self, value)[0]));
            let [Some(begin), Some(end), Some(strides)] = numbers else { return Ok(None) };
            let Some(axes) = sliced(body, slice.data, &slice.axes, begin.count()) else {
                return Ok(None);
            };
            let slices = Slices { axes, begin, end, strides, mode: slice.slice_mode };
            self.slice(of(self, slice.data)[0], &slices, to, loc)?
        } else if let Some(slice) = body.view::<SliceLike>(op) {
            let rank = |value| body.ty(value).as_tensor().map_or(0, |tensor| tensor.rank());
            let (like, rank) = (rank(slice.shape_like), rank(slice.data));
            let axes = slice.axes.filter(|axes| !axes.0.is_empty());
            let all = || (0..like as i64).collect();
            let axes = relation::axes(&axes.map_or_else(all, |axes| axes.0), rank).ok();
            let Some(axes) = axes.filter(|axes| {
                (1..=prog::MOST_OPEN_AXES).contains(&rank) && axes.iter().all(|axis| *axis < like)
            }) else {
                return Ok(None);
            };
            let [data, like] = [slice.data, slice.shape_like]
                .map(|value| self.opened(of(self, value)[0], to, loc));
            self.slice_like(data, like, &axes, to, loc)?
        } else if let Some(range) = body.view::<Arange>(op) {
            let ends = [range.start, range.stop, range.step].map(|value| of(self, value)[0]);
            self.range(ends, range.dtype, to, loc)?
        } else {
            return Ok(None);
        };
        let Some(value) = value else { return Ok(None) };
        let types = self.lowering.flat(result)?;
        Ok(Some(self.fit(&[value], &types, to, loc)))
    }

    /// The numbers that `value` holds, of this type in Relay; `None` where it is no vector of a known length.
    fn numbers_of(&self, ty: Type, value: ValueId) -> Option<Numbers> {
        if let Some((_, constant)) = self.new.view_def::<prog::Constant>(value) {
            return Some(Numbers::Known(constant.value.to_i64()));
        }
        let vector = ty.as_tensor()?;
        let [count] = vector.known_shape()?[..] else { return None };
        Some(Numbers::Elements(value, count as usize, vector.dtype))
    }

    /// A slice of `data`; `None` where it has too many axes.
    fn slice(
        &mut self,
        data: ValueId,
        slices: &Slices,
        to: BlockId,
        loc: Loc,
    ) -> Result<Option<ValueId>, Problem> {
        let ty = self.new.ty(data);
        let Some(tensor) = ty
            .as_tensor()
            .filter(|tensor| is_taken(tensor.dtype, tensor.rank(), slices.axes.len()))
        else {
            return Ok(None);
        };
        let (rank, dtype) = (tensor.rank(), tensor.dtype);
        let data = self.opened(data, to, loc);
        let extents = self.extents(data, rank, to, loc);
        let mut builder = ComputeBuilder::new();
        let mut inputs = Vec::new();
        let own: Vec<Tensor> = slices
            .axes
            .iter()
            .map(|axis| {
                inputs.push(extents[*axis]);
                builder.input("n", &[], DType::INT64)
            })
            .collect();
        let mut vector = |numbers: &Numbers| match numbers {
            Numbers::Known(_) => None,
            Numbers::Elements(value, count, dtype) => {
                inputs.push(*value);
                Some(builder.input("numbers", &[*count as i64], *dtype))
            }
        };
        let [begins, ends, strides] =
            [&slices.begin, &slices.end, &slices.strides].map(|numbers| (numbers, vector(numbers)));
        let mut results = Vec::new();
        for (place, own) in own.iter().enumerate() {
            let number = |e: &mut Expression<'_>, of: &(&Numbers, Option<Tensor>)| {
                let value = of.0.number(e, place, of.1.as_ref())?;
                let (least, most) = (e.index(-FAR), e.index(FAR));
                let value = e.max(value, least);
                Some(e.min(value, most))
            };
            let parts = |e: &mut Expression<'_>| {
                let [zero, one, far] = [0, 1, FAR].map(|number| e.index(number));
                let extent = e.load(own, &[]);
                let begin = number(e, &begins).unwrap_or(zero);
                let (stride, end) = match slices.mode {
                    SliceMode::End => {
                        let stride = number(e, &strides).unwrap_or(one);
                        let is_none = e.eq(stride, zero);
                        let is_some = e.not(is_none);
                        let message = "expected strides other than 0";
                        let stride = e.check(is_some, stride, one, message);
                        (stride, number(e, &ends).unwrap_or(far))
                    }
                    SliceMode::Size => {
                        let size = number(e, &ends).unwrap_or_else(|| e.index(-1));
                        let end = e.add(begin, size);
                        // A range up to the end from a negative begin.
                        let (is_last, is_behind) = (e.eq(end, zero), e.lt(begin, zero));
                        let is_last = e.and(is_last, is_behind);
                        let is_all = e.lt(size, zero);
                        let is_all = e.or(is_all, is_last);
                        (one, e.select(is_all, far, end))
                    }
                };
                let (ahead, before) = (e.gt(stride, zero), e.index(-1));
                let last = e.add(extent, before);
                let least = e.select(ahead, zero, before);
                let most = e.select(ahead, extent, last);
                let [begin, end] = [begin, end].map(|index| {
                    let (from_back, is_back) = (e.add(index, extent), e.lt(index, zero));
                    let index = e.select(is_back, from_back, index);
                    let index = e.max(index, least);
                    e.min(index, most)
                });
                let (forth, back) = (e.sub(end, begin), e.sub(begin, end));
                let distance = e.select(ahead, forth, back);
                let distance = e.max(distance, zero);
                let opposite = e.sub(zero, stride);
                let step = e.max(stride, opposite);
                let (above, more) = (e.sub(step, one), e.max(step, one));
                let sum = e.add(distance, above);
                let count = e.scalar(ScalarOp::FloorDiv, &[sum, more]);
                [begin, stride, count]
            };
            for part in 0..3 {
                results.push(builder.compute("slice", &[], |e, _| parts(e)[part]));
            }
        }
        let item = builder.finish(&results).expect("arithmetic of numbers is well typed");
        let function = Function { name: "slice".to_string(), item, constants: vec![] };
        let types = vec![Type::scalar(DType::INT64); results.len()];
        let numbers = self.scalars(function, inputs, &types, to, loc);
        // Elements that follow one another are read so.
        let is_dense = slices.mode == SliceMode::Size
            || matches!(&slices.strides, Numbers::Known(all) if all.iter().all(|one| *one == 1));
        let mut inputs = vec![data];
        let mut counts = extents;
        for number in numbers.chunks(3) {
            inputs.extend(&number[..if is_dense { 1 } else { 2 }]);
            counts.push(number[2]);
        }
        let axes = &slices.axes;
        let value = self.compute("slice", &inputs, &counts, (to, loc), |builder, extents| {
            let (own, others) = extents.split_at(rank);
            let data = builder.input("data", own, dtype);
            let mut places = Vec::with_capacity(axes.len());
            let mut shape = own.to_vec();
            for (axis, count) in axes.iter().zip(others) {
                shape[*axis] = *count;
                let begin = builder.input("begin", &[], DType::INT64);
                let stride = (!is_dense).then(|| builder.input("stride", &[], DType::INT64));
                places.push((*axis, begin, stride));
            }
            vec![builder.compute("slice", &shape, |e, i| {
                let mut at = i.to_vec();
                for (axis, begin, stride) in &places {
                    if let Some(stride) = stride {
                        let stride = e.load(stride, &[]);
                        at[*axis] = e.mul(at[*axis], stride);
                    }
                    let begin = e.load(begin, &[]);
                    at[*axis] = e.add(at[*axis], begin);
                }
                e.load(&data, &at)
            })]
        })?;
        Ok(Some(value[0]))
    }

    /// The first elements of `data` along `axes`, as many as `like` has.
    fn slice_like(
        &mut self,
        data: ValueId,
        like: ValueId,
        axes: &[usize],
        to: BlockId,
        loc: Loc,
    ) -> Result<Option<ValueId>, Problem> {
        let tensor = self.new.ty(data).as_tensor().expect("a slice is one of a tensor");
        let (rank, dtype) = (tensor.rank(), tensor.dtype);
        if !is_taken(dtype, rank, axes.len()) {
            return Ok(None);
        }
        let like_rank = self.new.ty(like).as_tensor().map_or(0, |tensor| tensor.rank());
        let (own, others) =
            (self.extents(data, rank, to, loc), self.extents(like, like_rank, to, loc));
        let mut builder = ComputeBuilder::new();
        let (mut inputs, mut results) = (Vec::new(), Vec::new());
        for axis in axes {
            inputs.extend([own[*axis], others[*axis]]);
            let [has, wants] = ["has", "wants"].map(|name| builder.input(name, &[], DType::INT64));
            results.push(builder.compute("extent", &[], |e, _| {
                let (has, wants, none) = (e.load(&has, &[]), e.load(&wants, &[]), e.index(0));
                let fits = e.le(wants, has);
                let message =
                    format!("expected an extent of at most that of the data on axis {axis}");
                e.check(fits, wants, none, message)
            }));
        }
        let item = builder.finish(&results).expect("arithmetic of numbers is well typed");
        let function = Function { name: "slice_like".to_string(), item, constants: vec![] };
        let types = vec![Type::scalar(DType::INT64); results.len()];
        let mut counts = own;
        counts.extend(self.scalars(function, inputs, &types, to, loc));
        let value =
            self.compute("slice_like", &[data], &counts, (to, loc), |builder, extents| {
                let (own, others) = extents.split_at(rank);
                let data = builder.input("data", own, dtype);
                let mut shape = own.to_vec();
                axes.iter().zip(others).for_each(|(axis, count)| shape[*axis] = *count);
                vec![builder.compute("slice_like", &shape, |e, i| e.load(&data, i))]
            })?;
        Ok(Some(value[0]))
    }

    /// The numbers from the first of `ends` on to before the second, the third of them apart.
    fn range(
        &mut self,
        ends: [ValueId; 3],
        dtype: DType,
        to: BlockId,
        loc: Loc,
    ) -> Result<Option<ValueId>, Problem> {
        if !is_taken(dtype, 1, 0) {
            return Ok(None);
        }
        let mut builder = ComputeBuilder::new();
        let given = ["start", "stop", "step"].map(|name| builder.input(name, &[], dtype));
        let count = builder.compute("count", &[], |e, _| {
            let [start, stop, step] = [&given[0], &given[1], &given[2]].map(|end| {
                let end = e.load(end, &[]);
                e.cast(end, DType::FLOAT64)
            });
            let (zero, one) = (e.number(DType::FLOAT64, 0.0), e.number(DType::FLOAT64, 1.0));
            let most = e.number(DType::FLOAT64, MAX_ELEMENTS as f64);
            let (distance, stays) = (e.sub(stop, start), e.eq(step, zero));
            let goes_on = e.not(stays);
            let step = e.select(goes_on, step, one);
            let steps = e.div(distance, step);
            let steps = e.scalar(ScalarOp::Ceil, &[steps]);
            let (is_some, is_many) = (e.gt(steps, zero), e.gt(steps, most));
            let steps = e.select(is_some, steps, zero);
            let reaches = e.not(is_many);
            let reaches = e.and(goes_on, reaches);
            let steps = e.check(reaches, steps, zero, "expected a step that reaches the end");
            e.cast(steps, DType::INT64)
        });
        let item = builder.finish(&[count]).map_err(|reason| open("arange", reason))?;
        let function = Function { name: "count".to_string(), item, constants: vec![] };
        let index = [Type::scalar(DType::INT64)];
        let counts = self.scalars(function, ends.to_vec(), &index, to, loc);
        let [start, _, step] = ends;
        let value =
            self.compute("arange", &[start, step], &counts, (to, loc), |builder, extents| {
                let [start, step] = ["start", "step"].map(|name| builder.input(name, &[], dtype));
                // Floats are computed in the width of the reference.
                let sums = if dtype.is_float() { DType::FLOAT64 } else { dtype };
                vec![builder.compute("arange", extents, |e, i| {
                    let (start, step) = (e.load(&start, &[]), e.load(&step, &[]));
                    let [start, step, index] = [start, step, i[0]].map(|value| e.cast(value, sums));
                    let distance = e.mul(step, index);
                    let value = e.add(start, distance);
                    e.cast(value, dtype)
                })]
            })?;
        Ok(Some(value[0]))
    }
}

/// Whether kernels take tensors of `rank` axes and such elements, and give some of which so many extents are others.
fn is_taken(dtype: DType, rank: usize, others: usize) -> bool {
    (1..=prog::MOST_OPEN_AXES).contains(&rank)
        && rank + others <= MOST_VARIABLES
        && dtype.lanes() == 1
        && dtype.as_small_float().is_none()
}

/// The axes of which `count` slices are, in order: those given, or the first ones.
fn sliced(body: &Body, data: ValueId, axes: &Option<Integers>, count: usize) -> Option<Vec<usize>> {
    let rank = body.ty(data).as_tensor()?.rank();
    let axes = match axes {
        Some(axes) => relation::axes(&axes.0, rank).ok()?.to_vec(),
        None => (0..count).collect(),
    };
    (axes.len() == count && count <= rank).then_some(axes)
}

/// Why `name` has no kernel.
fn open(name: &str, reason: String) -> Problem {
    Problem::Open(name.to_string(), reason)
}
