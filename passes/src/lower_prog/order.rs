//! Sorting where extents are not known, and operators that sort.
//!
//! What is sorted are integers whose order is that of elements, in rows along the last axis, by
//! [`prog::Order`]; kernels make these, and take elements from the places that it finds.

use ir_core::{BlockId, Body, DType, Dim, InsertPoint, Loc, OpId, Scalar, SmallVec, TensorData};
use ir_core::{Type, ValueId};
use relay_operators::sort::{
    Argsort, Ranking, SearchSorted, Sort, TopK, TopKResult, Unique, define_less, define_ordinal,
};
use relay_operators::{dynamic, relation};
use te::compute::{ComputeBuilder, Expression, Tensor};

use super::function::Writer;
use super::open::Of;
use crate::lower_te::problems::Problem;

/// What is sorted: rows of a tensor along an axis.
#[derive(Clone, Copy)]
struct Rows {
    data: ValueId,
    dtype: DType,
    rank: usize,
    axis: usize,
}

impl Rows {
    /// The extents of the tensor of the rows, which lie along its last axis, with `length` elements each.
    fn shape(self, extents: &[i64], length: i64) -> SmallVec<[i64; 4]> {
        let mut shape = SmallVec::from_slice(&extents[..self.rank]);
        shape.remove(self.axis);
        shape.push(length);
        shape
    }

    /// Where the element at `i` lies in that tensor.
    fn place(self, i: &[ValueId]) -> SmallVec<[ValueId; 4]> {
        let mut at = SmallVec::from_slice(i);
        let place = at.remove(self.axis);
        at.push(place);
        at
    }

    /// The axes of the data, which is input 0.
    fn axes(self) -> Vec<(usize, usize)> {
        (0..self.rank).map(|axis| (0, axis)).collect()
    }
}

/// Where the results of an operator are written.
#[derive(Clone, Copy)]
struct At {
    to: BlockId,
    loc: Loc,
}

impl Writer<'_, '_> {
    /// Computes the operator `op` of `body` where it is one that sorts, and has no kernel; `None` where it is
    /// none.
    pub(super) fn order_operator(
        &mut self,
        body: &Body,
        op: OpId,
        of: &Of<'_>,
        to: BlockId,
    ) -> Result<Option<Vec<ValueId>>, Problem> {
        let (loc, result) = (body.loc(op), body.ty(body.result(op, 0)));
        let at = At { to, loc };
        // Rows of a known length are sorted by kernels.
        let sorted = body.view::<Sort>(op).map(|sort| (sort.data, sort.axis));
        let sorted = sorted.or(body.view::<Argsort>(op).map(|sort| (sort.data, sort.axis)));
        let sorted = sorted.or(body.view::<TopK>(op).map(|top| (top.data, top.ranking.axis)));
        if sorted.is_some_and(|(data, axis)| !is_open_along(body.ty(data), axis)) {
            return Ok(None);
        }
        let values = if let Some(sort) = body.view::<Sort>(op) {
            let ranking = ranking(sort.axis, TopKResult::Values, sort.is_ascend, DType::INT32);
            self.top(body, sort.data, None, &ranking, of, at)
        } else if let Some(sort) = body.view::<Argsort>(op) {
            let ranking = ranking(sort.axis, TopKResult::Indices, sort.is_ascend, sort.dtype);
            self.top(body, sort.data, None, &ranking, of, at)
        } else if let Some(top) = body.view::<TopK>(op) {
            let wanted = self.number(top.k.unwrap_or(0), at);
            self.top(body, top.data, Some(wanted), &top.ranking, of, at)
        } else if let Some(top) = body.view::<dynamic::TopK>(op) {
            let is_number = body.ty(top.k).as_tensor().is_some_and(|k| {
                k.known_shape().is_some_and(|shape| shape.iter().product::<i64>() == 1)
            });
            if !is_number {
                return Ok(None);
            }
            let k = of(self, top.k)[0];
            let wanted = self.elements(k, to, loc)[0];
            self.top(body, top.data, Some(wanted), &top.ranking, of, at)
        } else if let Some(unique) = body.view::<Unique>(op) {
            self.unique(body, &unique, of, at)
        } else if let Some(search) = body.view::<SearchSorted>(op) {
            self.search(body, &search, of, at)
        } else {
            return Ok(None);
        };
        let Some(values) = values? else { return Ok(None) };
        let types = self.lowering.flat(result)?;
        Ok(Some(self.fit(&values, &types, to, loc)))
    }

    /// The first elements of the rows of `data`, as many as are `wanted` or all, and their places.
    fn top(
        &mut self,
        body: &Body,
        data: ValueId,
        wanted: Option<ValueId>,
        ranking: &Ranking,
        of: &Of<'_>,
        at: At,
    ) -> Result<Option<Vec<ValueId>>, Problem> {
        let Some(rows) = self.rows(body, data, ranking.axis, of, at) else { return Ok(None) };
        let keys = self.keys(rows, ranking.is_ascend, at)?;
        let wanted = wanted.unwrap_or_else(|| self.number(0, at));
        let places = self.order(keys, wanted, at);
        let mut values = Vec::new();
        if ranking.ret_type != TopKResult::Indices {
            values.push(self.taken(rows, places, at)?);
        }
        if ranking.ret_type != TopKResult::Values {
            values.push(self.places(rows, places, ranking.dtype, at)?);
        }
        Ok(Some(values))
    }

    /// The rows of `data` along `axis`; `None` where kernels take none of it.
    fn rows(
        &mut self,
        body: &Body,
        data: ValueId,
        axis: i64,
        of: &Of<'_>,
        At { to, loc }: At,
    ) -> Option<Rows> {
        let tensor = body.ty(data).as_tensor()?;
        let (rank, dtype) = (tensor.rank(), tensor.dtype);
        let axis = relation::axis(axis, rank).ok()?;
        if rank > prog::MOST_OPEN_AXES || dtype.lanes() != 1 || dtype.as_small_float().is_some() {
            return None;
        }
        let data = self.opened(of(self, data)[0], to, loc);
        Some(Rows { data, dtype, rank, axis })
    }

    /// A number of the program.
    fn number(&mut self, number: i64, At { to, loc }: At) -> ValueId {
        let value = TensorData::scalar(DType::INT64, Scalar::Int(number));
        let ty = value.ty();
        self.new.add(InsertPoint::End(to), loc, &prog::Constant { value }, ty)
    }

    /// What `write` writes for `inputs`, for any extents: those of these `axes`, each the number of an input and
    /// one of its axes.
    fn along(
        &mut self,
        name: &str,
        inputs: &[ValueId],
        axes: &[(usize, usize)],
        At { to, loc }: At,
        write: impl Fn(&mut ComputeBuilder, &[i64]) -> Vec<Tensor>,
    ) -> Result<Vec<ValueId>, Problem> {
        let index = Type::scalar(DType::INT64);
        let mut extents = Vec::with_capacity(axes.len());
        for (input, axis) in axes {
            let extent = prog::Extent { tensor: inputs[*input], axis: *axis as i64 };
            extents.push(self.new.add(InsertPoint::End(to), loc, &extent, index));
        }
        self.compute(name, inputs, &extents, (to, loc), write)
    }

    /// The numbers in whose order the elements of rows are sorted, with the rows along the last axis.
    fn keys(&mut self, rows: Rows, ascending: bool, at: At) -> Result<ValueId, Problem> {
        let keys = self.along("keys", &[rows.data], &rows.axes(), at, |builder, extents| {
            let data = builder.input("data", extents, rows.dtype);
            let shape = rows.shape(extents, extents[rows.axis]);
            vec![builder.compute("keys", &shape, |e, i| {
                let (mut place, last) = (i.to_vec(), i[rows.rank - 1]);
                place.pop();
                place.insert(rows.axis, last);
                let value = e.load(&data, &place);
                // Ordinals are greater where elements come earlier.
                define_ordinal(e, value, !ascending)
            })]
        })?;
        Ok(keys[0])
    }

    /// The places of the first elements of the rows of `keys`.
    fn order(&mut self, keys: ValueId, wanted: ValueId, At { to, loc }: At) -> ValueId {
        let rank = self.new.ty(keys).as_tensor().map_or(0, |tensor| tensor.rank());
        let order = prog::Order { tensor: keys, wanted };
        let ty = Type::tensor(vec![Dim::Any; rank], DType::INT32);
        self.new.add(InsertPoint::End(to), loc, &order, ty)
    }

    /// The elements of `rows` at `places`.
    fn taken(&mut self, rows: Rows, places: ValueId, at: At) -> Result<ValueId, Problem> {
        let mut axes = rows.axes();
        axes.push((1, rows.rank - 1));
        let taken = self.along("sorted", &[rows.data, places], &axes, at, |builder, extents| {
            let (&length, extents) = extents.split_last().expect("the last one is that of places");
            let data = builder.input("data", extents, rows.dtype);
            let places = builder.input("places", &rows.shape(extents, length), DType::INT32);
            let mut shape = extents.to_vec();
            shape[rows.axis] = length;
            vec![builder.compute("sorted", &shape, |e, i| {
                let place = e.load(&places, &rows.place(i));
                let mut at = i.to_vec();
                at[rows.axis] = e.cast(place, DType::INT64);
                e.load(&data, &at)
            })]
        })?;
        Ok(taken[0])
    }

    /// `places` in rows as a tensor of `dtype` whose axes are those of `rows`.
    fn places(
        &mut self,
        rows: Rows,
        places: ValueId,
        dtype: DType,
        at: At,
    ) -> Result<ValueId, Problem> {
        if rows.axis + 1 == rows.rank && dtype == DType::INT32 {
            return Ok(places);
        }
        let given = self.along("places", &[places], &rows.axes(), at, |builder, extents| {
            let places = builder.input("places", extents, DType::INT32);
            let mut shape = extents.to_vec();
            let last = shape.pop().expect("there are rows");
            shape.insert(rows.axis, last);
            vec![builder.compute("places", &shape, |e, i| {
                let place = e.load(&places, &rows.place(i));
                e.cast(place, dtype)
            })]
        })?;
        Ok(given[0])
    }

    /// Where values belong in sorted rows of any length.
    fn search(
        &mut self,
        body: &Body,
        search: &SearchSorted,
        of: &Of<'_>,
        at: At,
    ) -> Result<Option<Vec<ValueId>>, Problem> {
        let (sequence, values) = (body.ty(search.sorted_sequence), body.ty(search.values));
        let Some((sequence, values)) = sequence.as_tensor().zip(values.as_tensor()) else {
            return Ok(None);
        };
        let (rows, rank) = (sequence.rank() - 1, values.rank());
        let (dtype, right, given) = (values.dtype, search.right, search.dtype);
        let is_known = sequence.shape[rows].known().is_some();
        let is_element = dtype.lanes() == 1 && dtype.as_small_float().is_none();
        if is_known || !is_element || sequence.rank().max(rank) > prog::MOST_OPEN_AXES {
            return Ok(None);
        }
        let [sequence, values] =
            [search.sorted_sequence, search.values].map(|value| of(self, value)[0]);
        let sequence = self.opened(sequence, at.to, at.loc);
        let values = if rank == 0 { values } else { self.opened(values, at.to, at.loc) };
        let axes: Vec<(usize, usize)> =
            (0..rank).map(|axis| (1, axis)).chain([(0, rows)]).collect();
        let found =
            self.along("searchsorted", &[sequence, values], &axes, at, |builder, extents| {
                let (&length, extents) =
                    extents.split_last().expect("the last one is that of rows");
                let shape = extents[..rows].iter().copied().chain([length]).collect::<Vec<_>>();
                let sequence = builder.input("sequence", &shape, dtype);
                let values = builder.input("values", extents, dtype);
                vec![builder.compute("searchsorted", extents, |e, i| {
                    let value = e.load(&values, i);
                    let (end, none) = (e.index(length), e.number(dtype, 0.0));
                    // So many elements stand before the value, or more, but not as many more as the last step.
                    let mut before = e.index(0);
                    for bit in (0..=LENGTH_BITS).rev() {
                        let more = e.add_index(before, 1 << bit);
                        let inside = e.le(more, end);
                        let last = e.add_index(more, -1);
                        let place: Vec<ValueId> = i[..rows].iter().copied().chain([last]).collect();
                        let element = e.load_if(inside, &sequence, &place, none);
                        let is_before = if right {
                            let greater = define_less(e, value, element);
                            e.not(greater)
                        } else {
                            define_less(e, element, value)
                        };
                        let is_before = e.and(inside, is_before);
                        before = e.select(is_before, more, before);
                    }
                    e.cast(before, given)
                })]
            })?;
        Ok(Some(found))
    }

    /// The different elements of a vector.
    fn unique(
        &mut self,
        body: &Body,
        unique: &Unique,
        of: &Of<'_>,
        at: At,
    ) -> Result<Option<Vec<ValueId>>, Problem> {
        let is_vector = body.ty(unique.data).as_tensor().is_some_and(|data| data.rank() == 1);
        let rows = if is_vector { self.rows(body, unique.data, 0, of, at) } else { None };
        let Some(rows) = rows else { return Ok(None) };
        let all = self.number(0, at);
        let keys = self.keys(rows, true, at)?;
        let order = self.order(keys, all, at);
        // By rank: 0 where an element is the first one of a run of equal ones, else 1.
        let others = self.vector("others", &[keys, order], at, |e, own, i, _| {
            let (zero, before) = (e.index(0), e.add_index(i, -1));
            let is_behind = e.gt(i, zero);
            let here = e.load(&own[1], &[i]);
            let before = e.load_if(is_behind, &own[1], &[before], here);
            let [key, other] = [here, before].map(|place| load_at(e, &own[0], place));
            let is_equal = e.eq(key, other);
            let is_other = e.and(is_behind, is_equal);
            e.cast(is_other, DType::INT32)
        })?;
        // By run: the rank of its first element. What comes behind all runs means nothing.
        let starts = self.order(others, all, at);
        // By rank: how many runs have begun.
        let begun = self.along("begun", &[others], &[(0, 0)], at, |builder, n| {
            let others = builder.input("others", n, DType::INT32);
            let none = TensorData::scalar(DType::INT32, Scalar::Int(0));
            vec![builder.scan("begun", n, 0, &[none], |e, i, before| {
                let (one, other) = (e.constant(DType::INT32, Scalar::Int(1)), e.load(&others, i));
                let first = e.sub(one, other);
                let now = e.add(before[0], first);
                SmallVec::from_slice(&[now, now])
            })]
        })?[0];
        let number = self.along("number", &[begun], &[(0, 0)], at, |builder, n| {
            let begun = builder.input("begun", n, DType::INT32);
            vec![builder.compute("number", &[1], |e, _| {
                let (end, zero) = (e.index(n[0]), e.index(0));
                let last = e.add_index(end, -1);
                let (some, none) = (e.gt(end, zero), e.constant(DType::INT32, Scalar::Int(0)));
                e.load_if(some, &begun, &[last], none)
            })]
        })?[0];
        let inside = |e: &mut Expression<'_>, number: &Tensor, place: ValueId| {
            let zero = e.index(0);
            let number = load_at(e, number, zero);
            let number = e.cast(number, DType::INT64);
            e.lt(place, number)
        };
        // By place in the result: its run. Runs have other places where they come as they appear.
        let appeared = match unique.sorted {
            true => None,
            false => {
                let first =
                    self.vector("first", &[order, starts, number], at, |e, own, i, _| {
                        let start = e.load(&own[1], &[i]);
                        let (is_run, first) = (inside(e, &own[2], i), load_at(e, &own[0], start));
                        let most = e.constant(DType::INT32, Scalar::Int(i32::MAX.into()));
                        e.select(is_run, first, most)
                    })?;
                let runs = self.order(first, all, at);
                Some((runs, self.order(runs, all, at)))
            }
        };
        let (runs, places) = appeared.unzip();
        let run = |e: &mut Expression<'_>, runs: Option<&Tensor>, place: ValueId| match runs {
            Some(runs) => {
                let run = e.load(runs, &[place]);
                e.cast(run, DType::INT64)
            }
            None => place,
        };
        let inputs =
            |others: &[ValueId]| -> Vec<ValueId> { others.iter().copied().chain(runs).collect() };
        let of_runs = [order, starts, number];
        let first = self.vector("first", &inputs(&of_runs), at, |e, own, i, _| {
            let run = run(e, own.get(3), i);
            let start = load_at(e, &own[1], run);
            let (is_run, first) = (inside(e, &own[2], i), load_at(e, &own[0], start));
            let zero = e.constant(DType::INT32, Scalar::Int(0));
            e.select(is_run, first, zero)
        })?;
        let values = self.vector("unique", &[rows.data, first, number], at, |e, own, i, _| {
            let first = e.load(&own[1], &[i]);
            let (is_run, value) = (inside(e, &own[2], i), load_at(e, &own[0], first));
            let zero = e.number(own[0].dtype, 0.0);
            e.select(is_run, value, zero)
        })?;
        // By element: its rank.
        let ranks = self.order(order, all, at);
        let mut inputs_of_inverse = vec![begun, ranks];
        inputs_of_inverse.extend(places);
        let inverse = self.vector("inverse", &inputs_of_inverse, at, |e, own, i, _| {
            let rank = e.load(&own[1], &[i]);
            let (begun, one) =
                (load_at(e, &own[0], rank), e.constant(DType::INT32, Scalar::Int(1)));
            let run = e.sub(begun, one);
            own.get(2).map_or(run, |places| load_at(e, places, run))
        })?;
        let mut fields = vec![values, first, inverse, number];
        if unique.return_counts {
            fields.push(self.vector("counts", &inputs(&of_runs), at, |e, own, i, n| {
                let run = run(e, own.get(3), i);
                let (start, next) = (load_at(e, &own[1], run), e.add_index(run, 1));
                let (is_run, has_next) = (inside(e, &own[2], i), inside(e, &own[2], next));
                let end = e.index(n);
                let end = e.cast(end, DType::INT32);
                let end = e.load_if(has_next, &own[1], &[next], end);
                let (count, zero) = (e.sub(end, start), e.constant(DType::INT32, Scalar::Int(0)));
                e.select(is_run, count, zero)
            })?);
        }
        Ok(Some(fields))
    }

    /// A vector of as many elements as the first of `inputs` has, which are vectors as long, or of one element:
    /// what `write` writes for them, an index, and the length.
    fn vector(
        &mut self,
        name: &str,
        inputs: &[ValueId],
        at: At,
        write: impl Fn(&mut Expression<'_>, &[Tensor], ValueId, i64) -> ValueId,
    ) -> Result<ValueId, Problem> {
        let types = self.types(inputs.iter().copied());
        let given = self.along(name, inputs, &[(0, 0)], at, |builder, n| {
            let own: Vec<Tensor> = types
                .iter()
                .map(|ty| {
                    let dtype = ty.as_tensor().expect("vectors are tensors").dtype;
                    builder.input("x", if prog::is_open(*ty) { n } else { &[1] }, dtype)
                })
                .collect();
            vec![builder.compute(name, n, |e, i| write(e, &own, i[0], n[0]))]
        })?;
        Ok(given[0])
    }
}

/// Whether the extent of `axis` of tensors of type `ty` is not known.
fn is_open_along(ty: Type, axis: i64) -> bool {
    let axis = ty.as_tensor().and_then(|tensor| {
        let axis = relation::axis(axis, tensor.rank()).ok()?;
        Some(tensor.shape[axis].known())
    });
    axis == Some(None)
}

/// The bits of the numbers of elements that tensors of any extents may have along an axis.
const LENGTH_BITS: u32 = 30;

/// The element of a vector at a computed place.
fn load_at(e: &mut Expression<'_>, vector: &Tensor, place: ValueId) -> ValueId {
    let place = e.cast(place, DType::INT64);
    e.load(vector, &[place])
}

/// What [`Writer::top`] is asked for.
fn ranking(axis: i64, ret_type: TopKResult, is_ascend: bool, dtype: DType) -> Ranking {
    Ranking { axis, ret_type, is_ascend, dtype }
}
