//! Loads: which lanes lie how in memory, and what a target with vectors makes of that.

use ir_core::{DType, OpId, ValueId};
use te::compute::LoadIf;
use te::scalar::ScalarOp;

use super::affine::Linear;
use super::expr::{Expr, is_half, scalar};
use super::kernel::{Buffer, Emitter};
use super::values::{LANE, Repr, Vector};

/// The lanes of a vector from `low` to before `end`, which may be any numbers; from lane to lane an
/// address grows by `step` elements.
struct Between {
    low: Expr,
    end: Expr,
    step: i64,
}

impl Emitter<'_> {
    pub(super) fn load(
        &mut self,
        op: OpId,
        tensor: ValueId,
        indices: &[ValueId],
        dtype: DType,
    ) -> Option<Repr> {
        let (buffer, place) = self.place(op, tensor, indices)?;
        if let Buffer::Variables { names, variables, .. } = &buffer {
            let (number, lane) = variables.lane(place.element());
            let lanes = variables.all[number].lanes;
            return Some(self.variable(&names[number], (lanes, lane), dtype));
        }
        if let Some(column) = self.load_transposed(op, &place, &buffer) {
            return Some(column);
        }
        if self.has_vectors(dtype) {
            if self.is_vector(&place) {
                return Some(Repr::Vector(self.load_vector(&buffer, &place, dtype)));
            }
            if let Some(vector) = self.load_repeated(&buffer, &place, dtype) {
                return Some(Repr::Vector(vector));
            }
            if let Some(vector) = self.load_gathered(&buffer, &place, dtype) {
                return Some(Repr::Vector(vector));
            }
        }
        let varies = self.varies(&place);
        let element = self.element(&buffer, &place, dtype);
        Some(match (dtype.lanes(), varies) {
            (1, _) => Repr::Scalar(element),
            (_, false) => Repr::Splat(element),
            (_, true) => Repr::Lanes(element),
        })
    }

    /// Whether lanes lie next to one another.
    pub(super) fn is_consecutive(&self, place: &Linear) -> bool {
        place.step == 1 && place.terms.iter().all(|(value, _)| self.dtype(*value).lanes() == 1)
    }

    /// Whether lanes lie next to one another, or are every second element.
    fn is_vector(&self, place: &Linear) -> bool {
        matches!(place.step, 1 | 2) && self.is_consecutive(&Linear { step: 1, ..place.clone() })
    }

    fn load_vector(&mut self, buffer: &Buffer, place: &Linear, dtype: DType) -> Vector {
        let (elem, lanes) = self.natural(dtype);
        let mut pieces = Vec::new();
        for piece in 0..dtype.lanes() as usize / lanes {
            let address = self.address(buffer, place, piece * lanes * place.step as usize);
            pieces.push(match place.step {
                1 => self.helpers.load_vector(dtype, lanes, &address),
                _ => self.helpers.load_every_second(dtype, lanes, &address),
            });
        }
        Vector { elem, lanes, pieces }
    }

    /// The vector at `place`, where it has each of its elements in several lanes that follow one another.
    fn load_repeated(&mut self, buffer: &Buffer, place: &Linear, dtype: DType) -> Option<Vector> {
        let (first, times) = self.affine.repeated(place, |value| self.dtype(value).lanes() > 1)?;
        let (elem, lanes) = self.natural(dtype);
        // A whole number of elements, and several of them, make a vector.
        if lanes % times != 0 || lanes <= times {
            return None;
        }
        let mut pieces = Vec::new();
        for piece in 0..dtype.lanes() as usize / lanes {
            let address = self.address(buffer, &first, piece * lanes / times);
            pieces.push(self.helpers.load_repeated(dtype, lanes, times, &address));
        }
        Some(Vector { elem, lanes, pieces })
    }

    /// The vector of what lies at `place`, which is loaded for each lane, where one instruction loads from there. Places
    /// are stored first: GCC computes them in vectors then.
    fn load_gathered(&mut self, buffer: &Buffer, place: &Linear, dtype: DType) -> Option<Vector> {
        // What is computed of loop variables, compilers may find to lie side by side.
        let is_loaded =
            |value: ValueId| self.dtype(value).lanes() > 1 && self.arms.is_loaded(value);
        if !place.terms.iter().any(|(value, _)| is_loaded(*value)) {
            return None;
        }
        let (elem, lanes) = self.natural(dtype);
        let function = self.helpers.gather(scalar(dtype), lanes)?;
        let index = self.index(place);
        let (name, count) = (self.names.fresh("places"), dtype.lanes() as usize);
        self.declare(&name, "const int64_t *", true);
        self.line(&format!("int64_t {name}[{count}];"));
        self.lane_loop(0, count, &format!("{name}[{LANE}] = {};", index.text));
        let array = Expr::atom(buffer.name());
        let piece = |piece: usize| {
            let places = Expr::address(&name, &Expr::atom((piece * lanes).to_string()));
            Expr::call(&function, &[&array, &places])
        };
        Some(Vector { elem, lanes, pieces: (0..count / lanes).map(piece).collect() })
    }

    /// The vector at `place` in its lanes `between`, and that of `otherwise` in the others, which are
    /// not read.
    fn load_between(
        &mut self,
        buffer: &Buffer,
        place: &Linear,
        dtype: DType,
        between: &Between,
        otherwise: &Vector,
    ) -> Vector {
        let Vector { elem, lanes, pieces } = otherwise;
        let mut loaded = Vec::new();
        for (piece, other) in pieces.iter().enumerate() {
            let first = (piece * lanes) as i64;
            let bound = |bound: &Expr| match first {
                0 => bound.clone(),
                _ => Expr::binary("-", bound, &Expr::atom(first.to_string())),
            };
            let (low, end) = (bound(&between.low), bound(&between.end));
            let mut place = Linear { step: 0, ..place.clone() };
            place.constant = place.constant.saturating_add(first * between.step);
            let index = self.index(&place);
            let function = self.helpers.load_between(dtype, *lanes, between.step);
            let array = Expr::atom(buffer.name());
            loaded.push(Expr::call(&function, &[&array, &index, &low, &end, other]));
        }
        Vector { elem: *elem, lanes: *lanes, pieces: loaded }
    }

    /// The lanes, of so many, for which all `conditions` hold, where they follow one another: they compare an index
    /// that grows from lane to lane with numbers. `step` is what belongs to the result.
    fn between(&mut self, conditions: &[ValueId], lanes: u32, step: i64) -> Option<Between> {
        let mut between =
            Between { low: Expr::atom("0"), end: Expr::atom(lanes.to_string()), step };
        let (mut lows, mut ends, mut others) = (vec![], vec![], vec![]);
        let mut pending = conditions.to_vec();
        while let Some(value) = pending.pop() {
            if matches!(self.repr(value), Repr::Scalar(_) | Repr::Splat(_)) {
                others.push(value);
                continue;
            }
            let op = self.body.defining_op(value)?;
            let scalar_op = ScalarOp::of(self.body.op_name(op))?;
            if scalar_op == ScalarOp::And {
                pending.extend(self.body.operands(op));
                continue;
            }
            let [a, b] = [0, 1].map(|side| self.body.operand(op, side));
            if self.dtype(a).lane() != DType::INT64 {
                return None;
            }
            let [a, b] = [a, b].map(|side| self.affine.get(self.body, &self.ranges, side));
            let difference = a.plus(&b, -1)?;
            if difference.terms.iter().any(|(term, _)| self.dtype(*term).lanes() > 1) {
                return None;
            }
            let (step, rest) = (difference.step, Linear { step: 0, ..difference });
            let (is_end, first) = lane_of_border(scalar_op, step, &rest)?;
            let mut first = self.index(&first);
            if step.abs() == 2 {
                first = Expr::call(&self.helpers.half(), &[&first]);
            }
            let first = self.new_variable(if is_end { "end" } else { "low" }, "int64_t", &first);
            if is_end { ends.push(first) } else { lows.push(first) }
        }
        for low in lows {
            between.low = match between.low.text.as_str() {
                "0" => low,
                _ => Expr::choice(&Expr::binary(">", &low, &between.low), &low, &between.low),
            };
        }
        let whole = lanes.to_string();
        for end in ends {
            between.end = match between.end.text == whole {
                true => end,
                false => Expr::choice(&Expr::binary("<", &end, &between.end), &end, &between.end),
            };
        }
        for other in others {
            let condition = self.scalar(other);
            between.end = Expr::choice(&condition, &between.end, &Expr::atom("0"));
        }
        Some(between)
    }

    /// The address of the first lane of `place`, `offset` elements later.
    pub(super) fn address(&mut self, buffer: &Buffer, place: &Linear, offset: usize) -> Expr {
        let mut first = Linear { step: 0, ..place.clone() };
        first.constant = first.constant.saturating_add(offset as i64);
        let index = self.index(&first);
        Expr::address(buffer.name(), &index)
    }

    /// The element at `place`, or at one lane of it, as a number to compute with.
    pub(super) fn element(&mut self, buffer: &Buffer, place: &Linear, dtype: DType) -> Expr {
        let index = self.index(place);
        let stored = Expr::element(buffer.name(), &index);
        if dtype.is_bool() {
            return Expr::binary("!=", &stored, &Expr::atom("0"));
        }
        if is_half(dtype) {
            let widen = self.helpers.of_half(scalar(dtype));
            return Expr::call(&widen, &[&stored]);
        }
        stored
    }

    /// What lies at a constant place of a buffer in variables.
    fn variable(&mut self, pieces: &[String], (lanes, lane): (usize, usize), dtype: DType) -> Repr {
        if dtype.lanes() == 1 {
            return Repr::Scalar(lane_of(pieces, lanes, lane));
        }
        let exprs = pieces.iter().map(Expr::atom).collect();
        if !self.has_vectors(dtype) {
            return Repr::Lanes(Expr::element(&pieces[0], &Expr::atom(LANE)));
        }
        let (elem, width) = self.natural(dtype);
        Repr::Vector(Vector { elem, lanes: width, pieces: exprs })
    }

    pub(super) fn load_if(&mut self, op: OpId, load: &LoadIf, dtype: DType) -> Option<Repr> {
        if let Some(chain) = self.chains.get(op).cloned() {
            return self.chain(&chain, dtype);
        }
        let otherwise = self.repr(load.otherwise);
        match self.ranges.get(self.body, load.condition).constant() {
            Some(0) => Some(otherwise),
            Some(_) => self.load(op, load.tensor, &load.indices, dtype),
            None => self.load_where(op, load, &[load.condition], &otherwise, dtype),
        }
    }

    /// What `load` loads in the lanes for which all `conditions` hold, and that of `otherwise` in the others.
    pub(super) fn load_where(
        &mut self,
        op: OpId,
        load: &LoadIf,
        conditions: &[ValueId],
        otherwise: &Repr,
        dtype: DType,
    ) -> Option<Repr> {
        let (buffer, place) = self.place(op, load.tensor, &load.indices)?;
        let is_vector = self.has_vectors(dtype) && self.is_vector(&place);
        let reprs: Vec<Repr> = conditions.iter().map(|condition| self.repr(*condition)).collect();
        if let ([Repr::Splat(condition)], true) = (&reprs[..], is_vector) {
            let vector = self.load_vector(&buffer, &place, dtype);
            let other = self.vector(otherwise.clone(), dtype, vector.elem, vector.lanes);
            let pieces = vector.pieces.iter().zip(&other.pieces);
            let pieces = pieces.map(|(a, b)| Expr::choice(condition, a, b)).collect();
            return Some(Repr::Vector(Vector { pieces, ..vector }));
        }
        if is_vector
            && matches!(buffer, Buffer::Array { .. })
            && let Some(between) = self.between(conditions, dtype.lanes(), place.step)
        {
            let (elem, lanes) = self.natural(dtype);
            let otherwise = self.vector(otherwise.clone(), dtype, elem, lanes);
            self.kept.branches = true;
            let vector = self.load_between(&buffer, &place, dtype, &between, &otherwise);
            return Some(Repr::Vector(vector));
        }
        let is_same = |repr: &Repr| matches!(repr, Repr::Scalar(_) | Repr::Splat(_));
        let splat = reprs.iter().all(is_same) && is_same(otherwise) && !self.varies(&place);
        self.kept.branches = true;
        let mut all: Option<Expr> = None;
        for (condition, repr) in conditions.iter().zip(reprs) {
            let condition = self.lane(repr, self.dtype(*condition));
            all = Some(match all {
                None => condition,
                Some(all) => Expr::binary("&", &all, &condition),
            });
        }
        let otherwise = self.lane(otherwise.clone(), dtype);
        let element = self.element(&buffer, &place, dtype);
        let expr = match all {
            None => element,
            Some(all) => Expr::choice(&all, &element, &otherwise),
        };
        Some(match (dtype.lanes(), splat) {
            (1, _) => Repr::Scalar(expr),
            (_, true) => Repr::Splat(expr),
            (_, false) => Repr::Lanes(expr),
        })
    }
}

/// The lane at which `rest + step · lane` begins to compare with 0 in another way, times the size of the step:
/// whether it is the first for which the comparison does not hold, or else for which it does.
fn lane_of_border(comparison: ScalarOp, step: i64, rest: &Linear) -> Option<(bool, Linear)> {
    use ScalarOp::{Ge, Gt, Le, Lt};
    let size = step.abs();
    if !(1..=2).contains(&size) {
        return None;
    }
    // The quotient by the size is rounded down. That `rest + lane` is less than 0 is that `lane` is less
    // than `-rest`.
    let sign = -step.signum();
    let first = |after: i64| Linear::constant(after).plus(rest, sign);
    Some(match (comparison, step > 0) {
        (Lt, true) => (true, first(size - 1)?),
        (Le, true) | (Ge, false) => (true, first(size)?),
        (Gt, false) => (true, first(size - 1)?),
        (Ge, true) | (Le, false) => (false, first(size - 1)?),
        (Gt, true) | (Lt, false) => (false, first(size)?),
        _ => return None,
    })
}

/// Element `at` of a vector in variables.
fn lane_of(pieces: &[String], lanes: usize, at: usize) -> Expr {
    let width = lanes / pieces.len().max(1);
    match lanes {
        1 => Expr::atom(&pieces[0]),
        _ => Expr::atom(format!("{}[{}]", pieces[at / width], at % width)),
    }
}
