//! Expressions: how each value of a kernel is written in C.
//!
//! Vectors have two forms. A [`Repr::Vector`] is a list of GNU vectors as wide as the target's. A
//! [`Repr::Lanes`] is the text of *one* lane, in terms of the variable `lane`, for loops over
//! lanes: portable code knows only these, and native code has them for indices, for gathers, and
//! for numbers of lanes that no vector has.

use ir_core::{DType, OpId, Scalar, ValueId};
use te::compute::{Load, LoadIf};
use te::loops::{Broadcast, Extract, Ramp};
use te::scalar::{Cast, Check, Constant, Reinterpret, ScalarOp, Select, dtype_of};

use super::affine::Linear;
use super::expr::{
    ATOM, Expr, UNARY, computed, integer, is_half, scalar, signed, storage, stored_bits, type_of,
    value,
};
use super::helpers::{Lane, Operand, Regroup, bool_choice};
use super::kernel::{Buffer, Emitter};
use super::plan::Place;

/// A value in C.
#[derive(Clone, Debug)]
pub(super) enum Repr {
    /// A scalar.
    Scalar(Expr),
    /// A vector whose lanes are all this scalar.
    Splat(Expr),
    /// A vector, as the text of its lane `lane`.
    Lanes(Expr),
    /// A vector in pieces.
    Vector(Vector),
}

/// A vector as GNU vectors.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    /// Element type of the pieces; a signed integer for masks.
    pub(super) elem: DType,
    /// Lanes of each piece.
    pub(super) lanes: usize,
    pub(super) pieces: Vec<Expr>,
}

/// The variable of loops over lanes.
pub(super) const LANE: &str = "lane";

/// Longer expressions are split.
const MAX_TEXT: usize = 200;

impl Emitter<'_> {
    // ---- from values to text -----------------------------------------------------------------

    /// How `value` is written.
    pub(super) fn repr(&mut self, value: ValueId) -> Repr {
        let dtype = self.dtype(value);
        if let Some(constant) = self.ranges.get(self.body, value).constant() {
            let literal = integer(scalar(dtype), constant);
            return if dtype.lanes() == 1 { Repr::Scalar(literal) } else { Repr::Splat(literal) };
        }
        if self.affine.is_sum(value) {
            let sum = self.affine.get(self.body, &self.ranges, value);
            let by_lane = self.varies(&sum);
            let text = self.index(&sum);
            return match (dtype.lanes(), by_lane) {
                (1, _) => Repr::Scalar(text),
                (_, false) => Repr::Splat(text),
                (_, true) => Repr::Lanes(text),
            };
        }
        match self.values.get(&value) {
            Some(repr) => repr.clone(),
            None => self.refused(value),
        }
    }

    /// What stands for a value without text: the result of an operation that was refused, or of one
    /// that uses such a value. Then there are errors, and nobody sees the text.
    fn refused(&self, value: ValueId) -> Repr {
        assert!(self.is_refused(), "{value:?} is used before it has a text");
        Repr::Scalar(Expr::atom("0"))
    }

    pub(super) fn dtype(&self, value: ValueId) -> DType {
        type_of(self.body, value)
    }

    /// Whether a sum differs from lane to lane.
    pub(super) fn varies(&self, sum: &Linear) -> bool {
        sum.step != 0 || sum.terms.iter().any(|(value, _)| self.dtype(*value).lanes() > 1)
    }

    /// A sum as text; one lane of it, where it varies.
    pub(super) fn index(&mut self, sum: &Linear) -> Expr {
        let mut terms: Vec<(Expr, i64)> = Vec::new();
        for &(value, coefficient) in &sum.terms {
            let repr = self.values.get(&value).cloned().unwrap_or_else(|| self.refused(value));
            let text = self.lane(repr, DType::INT64);
            terms.push((text, coefficient));
        }
        if sum.step != 0 {
            terms.push((Expr::atom(LANE), sum.step));
        }
        let mut result: Option<Expr> = None;
        for (text, coefficient) in terms {
            let size = Expr::atom(coefficient.unsigned_abs().to_string());
            let product = match coefficient {
                1 | -1 => text,
                _ => Expr::binary("*", &text, &size),
            };
            result = Some(match result {
                Some(sum) if coefficient < 0 => Expr::binary("-", &sum, &product),
                Some(sum) => Expr::binary("+", &sum, &product),
                None if coefficient < 0 => Expr::unary("-", &product),
                None => product,
            });
        }
        let constant = Expr::atom(integer(DType::INT64, i128::from(sum.constant).abs()).text);
        match result {
            None => integer(DType::INT64, sum.constant.into()),
            Some(sum_text) if sum.constant > 0 => Expr::binary("+", &sum_text, &constant),
            Some(sum_text) if sum.constant < 0 => Expr::binary("-", &sum_text, &constant),
            Some(sum_text) => sum_text,
        }
    }

    /// A scalar value as text.
    pub(super) fn scalar(&mut self, value: ValueId) -> Expr {
        match self.repr(value) {
            Repr::Scalar(expr) | Repr::Splat(expr) | Repr::Lanes(expr) => expr,
            Repr::Vector(_) => unreachable!("{value:?} is one number"),
        }
    }

    fn operand(&mut self, value: ValueId, expr: Expr) -> Operand {
        Operand { expr, range: self.ranges.get(self.body, value) }
    }

    // ---- operations ----------------------------------------------------------------------------

    /// Computes the result of `op`, where it is of use, and gives it a name, where it has one.
    pub(super) fn value(&mut self, op: OpId) {
        let result = self.body.result(op, 0);
        let place = self.plan.get(result);
        if place == Place::Dead
            || self.affine.is_sum(result)
            || self.is_added(op)
            || self.chains.is_inside(op)
            || self.words.is_part(result)
        {
            return;
        }
        let Some(repr) = self.compute(op, result) else { return };
        let name = place == Place::Named || (place == Place::Inline && length(&repr) > MAX_TEXT);
        let repr = if name { self.named(result, repr) } else { repr };
        self.values.insert(result, repr);
    }

    /// The result of `op`; `None` where it is refused.
    fn compute(&mut self, op: OpId, result: ValueId) -> Option<Repr> {
        let Some(dtype) = dtype_of(self.body.ty(result)) else {
            self.refuse(op, format!("C has no `{}`", self.body.op_name(op)));
            return None;
        };
        if let Some(word) = self.word(op) {
            return Some(word);
        }
        if let Some(scalar_op) = ScalarOp::of(self.body.op_name(op)) {
            let operands: Vec<ValueId> = self.body.operands(op).collect();
            return Some(self.elementwise(scalar_op, &operands));
        }
        if let Some(Constant { value }) = self.body.view(op) {
            let elements: Vec<Scalar> = value.elements().collect();
            return Some(self.constant(dtype, &elements));
        }
        if let Some(cast) = self.body.view::<Cast>(op) {
            return Some(self.cast(cast.a, dtype));
        }
        if let Some(reading) = self.body.view::<Reinterpret>(op) {
            return Some(self.reinterpret(reading.a, dtype));
        }
        if let Some(select) = self.body.view::<Select>(op) {
            return Some(self.select(&select, result, dtype));
        }
        if let Some(Check { condition, a, otherwise, .. }) = self.body.view(op) {
            // A kernel alone has nobody to tell; those of programs report before they come here.
            let choice = Select { condition, a, b: otherwise };
            return Some(self.select(&choice, result, dtype));
        }
        if let Some(load) = self.body.view::<Load>(op) {
            return self.load(op, load.tensor, &load.indices, dtype);
        }
        if let Some(load) = self.body.view::<LoadIf>(op) {
            return self.load_if(op, &load, dtype);
        }
        if let Some(Broadcast { a, .. }) = self.body.view(op) {
            return Some(Repr::Splat(self.scalar(a)));
        }
        if let Some(ramp) = self.body.view::<Ramp>(op) {
            return Some(self.ramp(&ramp, dtype));
        }
        if let Some(extract) = self.body.view::<Extract>(op) {
            return Some(Repr::Scalar(self.extract(&extract)));
        }
        self.refuse(op, format!("C has no `{}`", self.body.op_name(op)));
        None
    }

    fn constant(&mut self, dtype: DType, elements: &[Scalar]) -> Repr {
        let literals: Vec<Expr> =
            elements.iter().map(|element| self.helpers.literal(scalar(dtype), *element)).collect();
        match literals.as_slice() {
            [one] => Repr::Scalar(one.clone()),
            [first, rest @ ..] if rest.iter().all(|other| other == first) => {
                Repr::Splat(first.clone())
            }
            _ => {
                let name = self.names.fresh("constant");
                let list: Vec<&str> =
                    literals.iter().map(|literal| literal.text.as_str()).collect();
                let ty = value(dtype);
                self.declare(&name, &format!("const {ty} *"), true);
                self.line(&format!("const {ty} {name}[{}] = {{{}}};", list.len(), list.join(", ")));
                Repr::Lanes(Expr::element(&name, &Expr::atom(LANE)))
            }
        }
    }

    /// A ramp that is no index or may overflow.
    fn ramp(&mut self, ramp: &Ramp, dtype: DType) -> Repr {
        let base = self.scalar(ramp.base);
        let base = self.operand(ramp.base, base);
        let lane = Operand {
            expr: Expr::atom(LANE),
            range: super::ranges::Range::Int { low: 0, high: i128::from(ramp.lanes) - 1 },
        };
        let elem = scalar(dtype);
        let lane = Operand { expr: self.helpers.cast(DType::INT32, elem, &lane), ..lane };
        let any = |expr| Operand { expr, range: super::ranges::Range::of_type(elem) };
        let stride = self.helpers.literal(elem, Scalar::Int(ramp.stride));
        let step = self.helpers.scalar(ScalarOp::Mul, elem, &[any(lane.expr), any(stride)]);
        Repr::Lanes(self.helpers.scalar(ScalarOp::Add, elem, &[any(base.expr), any(step)]))
    }

    /// Whether `op` multiplies words, in vectors, and only a sum reads them, which one instruction computes where
    /// processors have it.
    fn is_added(&self, op: OpId) -> bool {
        let scalar = |op: OpId| ScalarOp::of(self.body.op_name(op));
        if !matches!(scalar(op), Some(ScalarOp::PairDot | ScalarOp::QuadDot)) {
            return false;
        }
        let result = self.body.result(op, 0);
        let mut uses = self.body.uses(result);
        let (user, more) = (uses.next(), uses.next());
        let is_sum =
            |(user, operand): (OpId, usize)| operand == 1 && scalar(user) == Some(ScalarOp::Add);
        self.has_vectors(self.dtype(result)) && more.is_none() && user.is_some_and(is_sum)
    }

    /// A sum whose second operand is the products of words that [`is_added`](Self::is_added).
    fn sum_of_words(&mut self, dot: ScalarOp, sum: ValueId, products: OpId) -> Repr {
        let dtype = self.dtype(sum);
        let (elem, lanes) = self.natural(dtype);
        let operands = [sum, self.body.operand(products, 0), self.body.operand(products, 1)];
        let vectors = operands.map(|value| {
            let repr = self.repr(value);
            self.vector(repr, dtype, elem, lanes)
        });
        let function = self.helpers.sum_of_words(dot, lanes);
        let [sums, a, b] = vectors;
        let pieces = sums.pieces.iter().zip(a.pieces.iter().zip(&b.pieces));
        let pieces = pieces.map(|(sum, (a, b))| Expr::call(&function, &[sum, a, b])).collect();
        Repr::Vector(Vector { elem, lanes, pieces })
    }

    fn elementwise(&mut self, op: ScalarOp, values: &[ValueId]) -> Repr {
        if let (ScalarOp::Add, [sum, added]) = (op, values)
            && let Some(products) = self.body.defining_op(*added).filter(|op| self.is_added(*op))
            && let Some(dot) = ScalarOp::of(self.body.op_name(products))
        {
            return self.sum_of_words(dot, *sum, products);
        }
        let dtype = self.dtype(values[0]);
        let reprs: Vec<Repr> = values.iter().map(|value| self.repr(*value)).collect();
        let splat = reprs.iter().all(|repr| matches!(repr, Repr::Scalar(_) | Repr::Splat(_)));
        if splat || self.by_lane(dtype, &reprs) {
            let operands: Vec<Operand> = values
                .iter()
                .zip(reprs)
                .map(|(value, repr)| {
                    let expr = self.lane(repr, dtype);
                    self.operand(*value, expr)
                })
                .collect();
            let expr = self.helpers.scalar(op, dtype, &operands);
            return match (dtype.lanes(), splat) {
                (1, _) => Repr::Scalar(expr),
                (_, true) => Repr::Splat(expr),
                (_, false) => Repr::Lanes(expr),
            };
        }
        if dtype.is_bool() {
            return Repr::Vector(self.masks(op, reprs, dtype));
        }
        let (elem, lanes) = self.natural(dtype);
        let mut operands: Vec<Vec<Lane>> = Vec::new();
        for repr in reprs {
            operands.push(match repr {
                Repr::Scalar(expr) | Repr::Splat(expr) => vec![Lane::Splat(expr)],
                other => {
                    let vector = self.vector(other, dtype, elem, lanes);
                    vector.pieces.into_iter().map(Lane::Vector).collect()
                }
            });
        }
        // Operators of one operand look at no other.
        let second = self.ranges.get(self.body, values.get(1).copied().unwrap_or(values[0]));
        let count = dtype.lanes() as usize / lanes;
        let pieces = (0..count).map(|piece| {
            // A splat is the same in each piece.
            let one: Vec<Lane> =
                operands.iter().map(|pieces| pieces[piece.min(pieces.len() - 1)].clone()).collect();
            self.helpers.vector(op, dtype, lanes, &one, second)
        });
        let pieces = pieces.collect();
        let elem = match op.result_dtype(dtype) {
            Some(result) if result.is_bool() => signed(elem),
            _ => elem,
        };
        Repr::Vector(Vector { elem, lanes, pieces })
    }

    /// `op` on masks, all bits of a lane being set or clear.
    fn masks(&mut self, op: ScalarOp, reprs: Vec<Repr>, dtype: DType) -> Vector {
        use ScalarOp::*;
        let (elem, lanes) = self.mask_form(&reprs, dtype);
        let vectors: Vec<Vector> =
            reprs.into_iter().map(|repr| self.vector(repr, dtype, elem, lanes)).collect();
        let (a, b) = (&vectors[0], &vectors[vectors.len() - 1]);
        let not = |expr: &Expr| Expr::unary("~", expr);
        let pieces = a.pieces.iter().zip(&b.pieces).map(|(a, b)| match op {
            And | Mul | Min | Div | FloorDiv => Expr::binary("&", a, b),
            Or | Add | Max => Expr::binary("|", a, b),
            Xor | Sub | Ne => Expr::binary("^", a, b),
            Eq => not(&Expr::binary("^", a, b)),
            Not => not(a),
            Lt => Expr::binary("&", &not(a), b),
            Le => Expr::binary("|", &not(a), b),
            Gt | ShiftRight => Expr::binary("&", a, &not(b)),
            Ge | Pow => Expr::binary("|", a, &not(b)),
            Mod | FloorMod => Expr::binary("^", a, a),
            Neg | Abs | ShiftLeft => a.clone(),
            _ => unreachable!("`{}` takes floats only", op.name()),
        });
        Vector { elem, lanes, pieces: pieces.collect() }
    }

    /// The element type and lanes of the first mask among `reprs`.
    fn mask_form(&self, reprs: &[Repr], dtype: DType) -> (DType, usize) {
        let found = reprs.iter().find_map(|repr| match repr {
            Repr::Vector(vector) => Some((vector.elem, vector.lanes)),
            _ => None,
        });
        // Where no operand says it, the result may.
        found.unwrap_or_else(|| self.natural(dtype))
    }

    fn cast(&mut self, a: ValueId, to: DType) -> Repr {
        let from = self.dtype(a);
        let repr = self.repr(a);
        let range = self.ranges.get(self.body, a);
        let splat = matches!(repr, Repr::Scalar(_) | Repr::Splat(_));
        if splat || !self.has_vectors(from) || !self.has_vectors(to) {
            let expr = self.lane(repr, from);
            let expr = self.helpers.cast(from, to, &Operand { expr, range });
            return match (to.lanes(), splat) {
                (1, _) => Repr::Scalar(expr),
                (_, true) => Repr::Splat(expr),
                (_, false) => Repr::Lanes(expr),
            };
        }
        let (elem, lanes) = match from.is_bool() {
            true => self.mask_form(std::slice::from_ref(&repr), from),
            false => self.natural(from),
        };
        let vector = self.vector(repr, from, elem, lanes);
        if to.is_bool() {
            let mask = self.helpers.vector_type(signed(elem), lanes);
            let zero = Expr::atom("0");
            let pieces = vector.pieces.iter().map(|piece| match from.is_bool() {
                true => piece.clone(),
                false => Expr::cast(&mask, &Expr::binary("!=", piece, &zero)),
            });
            return Repr::Vector(Vector { elem: signed(elem), lanes, pieces: pieces.collect() });
        }
        let (target, wide) = self.natural(to);
        let common = lanes.min(wide);
        let vector = self.regrouped(vector, common);
        let pieces = vector
            .pieces
            .iter()
            .map(|piece| self.helpers.cast_vector((from, elem), to, common, piece, range))
            .collect();
        let converted = Vector { elem: target, lanes: common, pieces };
        Repr::Vector(self.regrouped(converted, wide))
    }

    /// The bits of `a` as the element type `to`.
    fn reinterpret(&mut self, a: ValueId, to: DType) -> Repr {
        let from = self.dtype(a);
        if from.is_integer() && to.is_integer() {
            return self.cast(a, to);
        }
        let repr = self.repr(a);
        let splat = matches!(repr, Repr::Scalar(_) | Repr::Splat(_));
        let whole =
            !is_half(from) && !is_half(to) && self.has_vectors(from) && self.has_vectors(to);
        if splat || !whole {
            let expr = self.lane(repr, from);
            let expr = self.helpers.reinterpret(from, to, &expr);
            return match (to.lanes(), splat) {
                (1, _) => Repr::Scalar(expr),
                (_, true) => Repr::Splat(expr),
                (_, false) => Repr::Lanes(expr),
            };
        }
        let (elem, lanes) = self.natural(from);
        let vector = self.vector(repr, from, elem, lanes);
        let target = self.helpers.vector_type(scalar(to), lanes);
        let pieces = vector.pieces.iter().map(|piece| Expr::cast(&target, piece)).collect();
        Repr::Vector(Vector { elem: scalar(to), lanes, pieces })
    }

    fn select(&mut self, select: &Select, result: ValueId, dtype: DType) -> Repr {
        let condition = self.repr(select.condition);
        let (a, b) = (self.repr(select.a), self.repr(select.b));
        let truth = self.dtype(select.condition);
        let reprs = [condition.clone(), a.clone(), b.clone()];
        let splat = reprs.iter().all(|repr| matches!(repr, Repr::Scalar(_) | Repr::Splat(_)));
        if splat || self.by_lane(dtype, &reprs) {
            let (condition, a, b) =
                (self.lane(condition, truth), self.lane(a, dtype), self.lane(b, dtype));
            let expr = if dtype.is_bool() {
                bool_choice(&condition, &a, &b)
            } else if self.arms.are_computed(select, result) && !self.is_wrapped(select, dtype) {
                let function = self.helpers.select_scalar(dtype);
                Expr::call(&function, &[&condition, &a, &b])
            } else {
                // Of two loads at places that a condition tells apart, GCC makes loads under masks.
                self.kept.branches |= self.arms.are_computed(select, result);
                Expr::choice(&condition, &a, &b)
            };
            return match (dtype.lanes(), splat) {
                (1, _) => Repr::Scalar(expr),
                (_, true) => Repr::Splat(expr),
                (_, false) => Repr::Lanes(expr),
            };
        }
        let (elem, lanes) = match dtype.is_bool() {
            true => self.mask_form(&reprs[1..], dtype),
            false => self.natural(dtype),
        };
        let (a, b) = (self.vector(a, dtype, elem, lanes), self.vector(b, dtype, elem, lanes));
        let mut pieces = Vec::new();
        if let Repr::Scalar(condition) | Repr::Splat(condition) = condition {
            for (a, b) in a.pieces.iter().zip(&b.pieces) {
                pieces.push(Expr::choice(&condition, a, b));
            }
        } else {
            let mask = self.vector(condition, truth, signed(elem), lanes);
            let function = self.helpers.select(elem, lanes);
            for ((mask, a), b) in mask.pieces.iter().zip(&a.pieces).zip(&b.pieces) {
                pieces.push(Expr::call(&function, &[mask, a, b]));
            }
        }
        Repr::Vector(Vector { elem, lanes, pieces })
    }

    /// Whether a choice of indices is one that compilers make no branch of: of a constant, or of a number and the
    /// same with a constant added, as places from the end are.
    fn is_wrapped(&self, select: &Select, dtype: DType) -> bool {
        let is_constant = |value: ValueId| self.body.view_def::<Constant>(value).is_some();
        let is_moved = |sum: ValueId, value: ValueId| {
            self.body.defining_op(sum).is_some_and(|op| {
                ScalarOp::of(self.body.op_name(op)) == Some(ScalarOp::Add)
                    && self.body.operand(op, 0) == value
                    && is_constant(self.body.operand(op, 1))
            })
        };
        let (a, b) = (select.a, select.b);
        dtype.is_integer()
            && dtype.bits() == 64
            && !self.arms.read_more(select)
            && (is_constant(a) || is_constant(b) || is_moved(a, b) || is_moved(b, a))
    }

    fn extract(&mut self, extract: &Extract) -> Expr {
        let dtype = self.dtype(extract.a);
        let at = usize::try_from(extract.lane).expect("the lane is one of the vector");
        let repr = match self.repr(extract.a) {
            Repr::Scalar(expr) | Repr::Splat(expr) => return expr,
            other => self.named(extract.a, other),
        };
        match repr {
            Repr::Vector(vector) => {
                let piece = &vector.pieces[at / vector.lanes];
                let lane =
                    Expr::element(&piece.at(ATOM), &Expr::atom((at % vector.lanes).to_string()));
                match dtype.is_bool() {
                    true => Expr::binary("!=", &lane, &Expr::atom("0")),
                    false => lane,
                }
            }
            // A named vector by lanes is an array.
            Repr::Scalar(expr) | Repr::Splat(expr) | Repr::Lanes(expr) => {
                let text = expr.text.replace(&format!("[{LANE}]"), &format!("[{at}]"));
                Expr::new(text, expr.level)
            }
        }
    }

    // ---- forms of vectors
    // ------------------------------------------------------------------------

    /// Whether vectors of `dtype` are GNU vectors.
    pub(super) fn has_vectors(&self, dtype: DType) -> bool {
        let lanes = dtype.lanes() as usize;
        // Indices are better off as text, from which addresses follow.
        let index = dtype.is_integer() && dtype.bits() == 64;
        self.style.vector_bits > 0
            && lanes.is_power_of_two()
            && lanes > 1
            && !index
            && self.natural(dtype).1 > 1
    }

    /// Whether an operation on `reprs` is written lane by lane.
    fn by_lane(&self, dtype: DType, reprs: &[Repr]) -> bool {
        let vectors = reprs.iter().any(|repr| matches!(repr, Repr::Vector(_)));
        !self.has_vectors(dtype) || (dtype.is_bool() && !vectors)
    }

    /// The element type and number of lanes of a GNU vector of `dtype`; masks are as they come, but
    /// of bytes where nothing else is known.
    pub(super) fn natural(&self, dtype: DType) -> (DType, usize) {
        let elem = if dtype.is_bool() { DType::INT8 } else { computed(dtype) };
        let most = (self.style.vector_bits / stored_bits(elem)).max(1);
        (elem, most.min(dtype.lanes() as usize))
    }

    /// One lane of `repr`, as text.
    pub(super) fn lane(&mut self, repr: Repr, dtype: DType) -> Expr {
        match repr {
            Repr::Scalar(expr) | Repr::Splat(expr) | Repr::Lanes(expr) => expr,
            Repr::Vector(vector) => self.lanes_of(vector, dtype),
        }
    }

    /// One lane of a vector of `dtype`, as text.
    pub(super) fn lanes_of(&mut self, vector: Vector, dtype: DType) -> Expr {
        let Vector { elem, lanes, pieces } = vector;
        let ty = self.helpers.vector_type(elem, lanes);
        let name = if let [piece] = pieces.as_slice() {
            self.name_expr("vector", &format!("const {ty}"), piece).text
        } else {
            let name = self.names.fresh("lanes");
            let c = storage(elem);
            self.declare(&name, &format!("const {c} *"), true);
            self.line(&format!("{c} {name}[{}];", lanes * pieces.len()));
            for (index, piece) in pieces.iter().enumerate() {
                let address = Expr::address(&name, &Expr::atom((index * lanes).to_string()));
                let store = self.helpers.store_vector(false, elem, (elem, lanes), &address, piece);
                self.line(&format!("{store};"));
            }
            name
        };
        let lane = Expr::element(&name, &Expr::atom(LANE));
        // A lane of a mask has all bits set or clear. A comparison with 0 would say the same, but
        // GCC 12 takes its result for a lane again, which is -1 (-O3 with AVX2).
        match dtype.is_bool() {
            true => Expr::binary("&", &lane, &Expr::atom("1")),
            false => lane,
        }
    }

    /// `repr` of type `dtype` as GNU vectors of `lanes` lanes of `elem`.
    pub(super) fn vector(&mut self, repr: Repr, dtype: DType, elem: DType, lanes: usize) -> Vector {
        let count = dtype.lanes() as usize / lanes;
        // A lane of a mask has all bits set or clear.
        let stored = |expr: &Expr| match dtype.is_bool() {
            true => Expr::cast(storage(elem), &Expr::new(format!("-{}", expr.at(ATOM)), UNARY)),
            false => expr.clone(),
        };
        match repr {
            Repr::Scalar(expr) | Repr::Splat(expr) => {
                let expr = match count > 1 && expr.text.len() > 20 {
                    true => self.name_expr("lane_value", &format!("const {}", value(dtype)), &expr),
                    false => expr,
                };
                let piece = self.helpers.splat(elem, lanes, &stored(&expr));
                Vector { elem, lanes, pieces: vec![piece; count] }
            }
            Repr::Lanes(expr) => {
                let ty = self.helpers.vector_type(elem, lanes);
                let mut pieces = Vec::new();
                for piece in 0..count {
                    let name = self.names.fresh("gathered");
                    self.declare(&name, &ty, false);
                    self.line(&format!("{ty} {name};"));
                    let first = piece * lanes;
                    let target = match first {
                        0 => format!("{name}[{LANE}]"),
                        _ => format!("{name}[{LANE} - {first}]"),
                    };
                    let statement = format!("{target} = {};", stored(&expr).text);
                    self.lane_loop(first, first + lanes, &statement);
                    pieces.push(Expr::atom(name));
                }
                Vector { elem, lanes, pieces }
            }
            Repr::Vector(vector) if vector.elem == elem => self.regrouped(vector, lanes),
            Repr::Vector(vector) => {
                // Masks of another width.
                let common = vector.lanes.min(lanes);
                let vector = self.regrouped(vector, common);
                let convert =
                    |piece: &Expr| self.helpers.converted(vector.elem, elem, common, piece);
                let pieces = vector.pieces.iter().map(convert).collect();
                self.regrouped(Vector { elem, lanes: common, pieces }, lanes)
            }
        }
    }

    /// `vector` in pieces of `lanes` lanes.
    fn regrouped(&mut self, mut vector: Vector, lanes: usize) -> Vector {
        while vector.lanes > lanes {
            let low = self.helpers.regroup(Regroup::Low, vector.elem, vector.lanes);
            let high = self.helpers.regroup(Regroup::High, vector.elem, vector.lanes);
            let ty = self.helpers.vector_type(vector.elem, vector.lanes);
            let mut pieces = Vec::new();
            for piece in &vector.pieces {
                let whole = self.name_expr("whole", &format!("const {ty}"), piece);
                pieces.push(Expr::call(&low, &[&whole]));
                pieces.push(Expr::call(&high, &[&whole]));
            }
            vector = Vector { lanes: vector.lanes / 2, pieces, ..vector };
        }
        while vector.lanes < lanes {
            let join = self.helpers.regroup(Regroup::Join, vector.elem, vector.lanes);
            let pairs = vector.pieces.chunks(2);
            let pieces = pairs.map(|pair| Expr::call(&join, &[&pair[0], &pair[pair.len() - 1]]));
            vector = Vector { pieces: pieces.collect(), lanes: vector.lanes * 2, ..vector };
        }
        vector
    }

    // ---- names ---------------------------------------------------------------------------------

    /// `expr` in a variable, unless it is one.
    fn name_expr(&mut self, base: &str, ty: &str, expr: &Expr) -> Expr {
        if is_name(&expr.text) {
            return expr.clone();
        }
        let name = self.names.fresh(base);
        self.declare(&name, ty.trim_start_matches("const "), false);
        self.line(&format!("{ty} {name} = {};", expr.text));
        Expr::atom(name)
    }

    /// Gives `value` variables that hold `repr`.
    fn named(&mut self, value_id: ValueId, repr: Repr) -> Repr {
        let dtype = self.dtype(value_id);
        let base = self.base_name(value_id);
        match repr {
            Repr::Scalar(expr) => Repr::Scalar(self.new_variable(&base, value(dtype), &expr)),
            Repr::Splat(expr) => Repr::Splat(self.new_variable(&base, value(dtype), &expr)),
            Repr::Vector(vector) => {
                let ty = self.helpers.vector_type(vector.elem, vector.lanes);
                let mut pieces = Vec::new();
                for piece in &vector.pieces {
                    pieces.push(self.new_variable(&base, &ty, piece));
                }
                Repr::Vector(Vector { pieces, ..vector })
            }
            Repr::Lanes(expr) if self.has_vectors(dtype) => {
                let (elem, lanes) = self.natural(dtype);
                Repr::Vector(self.vector(Repr::Lanes(expr), dtype, elem, lanes))
            }
            Repr::Lanes(expr) => {
                let name = self.names.fresh(&base);
                let (ty, count) = (value(dtype), dtype.lanes() as usize);
                self.declare(&name, &format!("const {ty} *"), true);
                self.line(&format!("{ty} {name}[{count}];"));
                self.lane_loop(0, count, &format!("{name}[{LANE}] = {};", expr.text));
                Repr::Lanes(Expr::element(&name, &Expr::atom(LANE)))
            }
        }
    }

    pub(super) fn new_variable(&mut self, base: &str, ty: &str, expr: &Expr) -> Expr {
        let name = self.names.fresh(base);
        self.declare(&name, ty, false);
        self.line(&format!("const {ty} {name} = {};", expr.text));
        Expr::atom(name)
    }

    /// What to call `value`: its own name, or that of the buffer it comes from.
    fn base_name(&self, value: ValueId) -> String {
        if let Some(name) = self.body.name_hint(value).name {
            return name.as_str().to_string();
        }
        let loaded = match self.body.view_def::<Load>(value) {
            Some((_, load)) => Some(load.tensor),
            None => self.body.view_def::<LoadIf>(value).map(|(_, load)| load.tensor),
        };
        match loaded.and_then(|tensor| self.buffers.get(&tensor)) {
            Some(Buffer::Array { name, .. }) => format!("{name}_"),
            _ => "t".to_string(),
        }
    }

    /// A loop over lanes.
    pub(super) fn lane_loop(&mut self, first: usize, end: usize, statement: &str) {
        self.line(&format!("for (int {LANE} = {first}; {LANE} < {end}; {LANE}++) {{"));
        self.line(&format!("    {statement}"));
        self.line("}");
    }
}
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The length of the longest piece.
fn length(repr: &Repr) -> usize {
    let pieces = match repr {
        Repr::Scalar(expr) | Repr::Splat(expr) | Repr::Lanes(expr) => std::slice::from_ref(expr),
        Repr::Vector(vector) => &vector.pieces,
    };
    pieces.iter().map(|piece| piece.text.len()).fold(0, usize::max)
}
