//! Buffers and variables, and what is stored in them.

use ir_core::{DType, OpId, Symbol, ValueId};
use te::compute::{Combiner, Load};
use te::loops::{Alloc, Atomic, Data, Fetch, Store};
use te::scalar::ScalarOp;

use super::{Buffer, Emitter};
use crate::codegen::expr::{Expr, computed, is_half, literal, scalar, storage, unsigned, value};
use crate::codegen::helpers::Operand;
use crate::codegen::layout::{Home, Variables};
use crate::codegen::plan::Place;
use crate::codegen::ranges::Range;
use crate::codegen::values::{LANE, Repr};

/// As many variables are a tile that fills registers.
pub(super) const TILE: usize = 4;

impl Emitter<'_> {
    /// Waits, at the end of a function that stores past the caches, until others see what it
    /// stored: such stores are not in order with those that tell others of it.
    pub(super) fn end_streams(&mut self) {
        if std::mem::take(&mut self.streams) {
            let fence = self.helpers.stream_end();
            self.line(&format!("{fence}();"));
        }
    }

    pub(super) fn alloc(&mut self, op: OpId, alloc: &Alloc) {
        let buffer = self.body.result(op, 0);
        let Some((dtype, shape)) = self.tensor(buffer) else {
            return self.refuse(op, format!("C has no buffer of {}", alloc.dtype));
        };
        let hint = self.body.name_hint(buffer).name.map_or("buffer", Symbol::as_str);
        let c = storage(dtype);
        let name = match self.layout.home(buffer).cloned() {
            Some(Home::Variables(variables)) => {
                return self.variables(buffer, hint, dtype, shape, variables);
            }
            Some(Home::Workspace(offset)) => {
                let name = self.names.fresh(hint);
                // Planned places are those of the whole kernel. What shares memory is not `restrict`.
                let (base, restrict) = match alloc.offset {
                    Some(_) => ("workspace", ""),
                    None if self.layout.shares => (self.workspace.as_str(), ""),
                    None => (self.workspace.as_str(), "restrict "),
                };
                let address = match offset {
                    0 => base.to_string(),
                    _ => format!("({base} + {offset})"),
                };
                let text = format!("{c} *const {restrict}{name} = (void *){address};");
                self.line(&text);
                name
            }
            _ => {
                let name = self.names.fresh(hint);
                let elements = shape.iter().product::<i64>().max(1);
                let zeros = if self.transposes.may_be_partial(buffer) { " = {0}" } else { "" };
                self.line(&format!("_Alignas(64) {c} {name}[{elements}]{zeros};"));
                if shape.contains(&0) {
                    // Loops over it are not written.
                    self.line(&format!("(void){name};"));
                }
                name
            }
        };
        self.declare(&name, &format!("{c} *"), true);
        self.buffers.insert(buffer, Buffer::Array { name, shape });
    }

    /// A buffer as variables, named after the place of their first element.
    pub(super) fn variables(
        &mut self,
        buffer: ValueId,
        hint: &str,
        dtype: DType,
        shape: Vec<i64>,
        variables: Variables,
    ) {
        let common = variables.common_lanes();
        let (mut names, mut count) = (Vec::new(), 0);
        for variable in &variables.all {
            let lanes = variable.lanes;
            let vector = dtype.with_lanes(lanes as u16).expect("the lanes are those of an access");
            let (ty, pieces, is_array) = if lanes == 1 {
                (value(dtype).to_string(), 1, false)
            } else if self.has_vectors(vector) {
                let (elem, width) = self.natural(vector);
                (self.helpers.vector_type(elem, width), lanes / width, false)
            } else {
                (value(dtype).to_string(), 1, true)
            };
            let base = format!("{hint}_{}", coordinates(variable.first, common, &shape));
            let mut list = Vec::new();
            for piece in 0..pieces {
                let base = if pieces == 1 { base.clone() } else { format!("{base}_{piece}") };
                let name = self.names.fresh(&base);
                if !variable.is_used {
                    // Compilers warn of variables that nothing uses.
                } else if is_array {
                    self.line(&format!("{ty} {name}[{lanes}] = {{0}};"));
                } else if variable.declared_at.is_none() {
                    let zero = if lanes == 1 { "0" } else { "{0}" };
                    self.line(&format!("{ty} {name} = {zero};"));
                }
                list.push(name);
            }
            count += pieces;
            names.push(list);
        }
        self.kept.registers |= count >= TILE;
        self.buffers.insert(buffer, Buffer::Variables { names, shape, variables });
    }

    pub(super) fn store(&mut self, op: OpId, store: &Store) {
        let Some((buffer, place)) = self.place(op, store.buffer, &store.indices) else { return };
        let dtype = self.dtype(store.value);
        let sum = self.compound(store, dtype);
        let repr = match sum {
            Some(other) => self.repr(other),
            None => self.repr(store.value),
        };
        let assign = if sum.is_some() { "+=" } else { "=" };
        if let Buffer::Variables { names, variables, .. } = &buffer {
            let (number, lane) = variables.lane(place.element());
            let variable = &variables.all[number];
            let declares = variable.declared_at == Some(op);
            return self.set_variable(
                &names[number],
                variable.lanes,
                lane,
                repr,
                (dtype, declares, assign),
            );
        }
        if dtype.lanes() > 1 && self.has_vectors(dtype) && self.is_consecutive(&place) {
            let (elem, lanes) = match (&repr, dtype.is_bool()) {
                (Repr::Vector(vector), true) => (vector.elem, vector.lanes),
                _ => self.natural(dtype),
            };
            let vector = self.vector(repr, dtype, elem, lanes);
            self.streams |= store.streaming;
            for (index, piece) in vector.pieces.iter().enumerate() {
                let address = self.address(&buffer, &place, index * vector.lanes);
                let width = (vector.elem, vector.lanes);
                let statement =
                    self.helpers.store_vector(store.streaming, dtype, width, &address, piece);
                self.line(&format!("{statement};"));
            }
            return;
        }
        let value = self.lane(repr, dtype);
        let value = self.stored(value, dtype);
        let index = self.index(&place);
        let target = Expr::element(buffer.name(), &index);
        let statement = format!("{} {assign} {};", target.text, value.text);
        match dtype.lanes() {
            1 => self.line(&statement),
            lanes => self.lane_loop(0, lanes as usize, &statement),
        }
    }

    /// What is added, where the store adds to the very element that it sets.
    pub(in crate::codegen) fn compound(&self, store: &Store, dtype: DType) -> Option<ValueId> {
        if !dtype.is_float() || is_half(dtype) || self.plan.get(store.value) != Place::Inline {
            return None;
        }
        let sum = self.body.defining_op(store.value)?;
        if ScalarOp::of(self.body.op_name(sum)) != Some(ScalarOp::Add) {
            return None;
        }
        let (old, added) = (self.body.operand(sum, 0), self.body.operand(sum, 1));
        let (_, load) = self.body.view_def::<Load>(old)?;
        // Vectors in memory are read and written by functions.
        let assignable = !self.has_vectors(dtype)
            || matches!(self.buffers.get(&store.buffer)?, Buffer::Variables { .. });
        let same = load.tensor == store.buffer
            && load.indices == store.indices
            && self.plan.get(old) == Place::Inline;
        (same && assignable).then_some(added)
    }

    /// `value` as it is stored.
    fn stored(&mut self, value: Expr, dtype: DType) -> Expr {
        if !is_half(dtype) {
            return value;
        }
        let narrow = self.helpers.half_of(scalar(dtype));
        Expr::call(&narrow, &[&value])
    }

    fn set_variable(
        &mut self,
        names: &[String],
        lanes: usize,
        lane: usize,
        repr: Repr,
        (dtype, declares, assign): (DType, bool, &str),
    ) {
        if dtype.lanes() == 1 {
            let value = self.lane(repr, dtype);
            let width = lanes / names.len().max(1);
            let target = match lanes {
                1 if declares => format!("{} {}", value_type(dtype), names[0]),
                1 => names[0].clone(),
                _ => format!("{}[{}]", names[lane / width], lane % width),
            };
            return self.line(&format!("{target} {assign} {};", value.text));
        }
        if !self.has_vectors(dtype) {
            let value = self.lane(repr, dtype);
            let statement = format!("{}[{LANE}] {assign} {};", names[0], value.text);
            return self.lane_loop(0, lanes, &statement);
        }
        let (elem, width) = self.natural(dtype);
        let vector = match repr {
            // A scalar is added to every lane.
            Repr::Scalar(expr) | Repr::Splat(expr) if assign == "+=" => {
                for name in names {
                    self.line(&format!("{name} += {};", expr.text));
                }
                return;
            }
            other => self.vector(other, dtype, elem, width),
        };
        let ty = self.helpers.vector_type(elem, width);
        for (name, piece) in names.iter().zip(&vector.pieces) {
            let declaration = if declares { format!("{ty} ") } else { String::new() };
            self.line(&format!("{declaration}{name} {assign} {};", piece.text));
        }
    }

    pub(super) fn atomic(&mut self, op: OpId, atomic: &Atomic) {
        let Some((buffer, place)) = self.place(op, atomic.buffer, &atomic.indices) else { return };
        let dtype = self.dtype(atomic.value);
        let combine = match atomic.combiner {
            Combiner::Sum => ScalarOp::Add,
            Combiner::Max => ScalarOp::Max,
            Combiner::Min => ScalarOp::Min,
            other => unreachable!("the verifier lets no {} through", other.name()),
        };
        let repr = self.repr(atomic.value);
        let value = self.lane(repr, dtype);
        let index = self.index(&place);
        let statement = if self.outlined.is_some() {
            let function = self.helpers.atomic(combine, scalar(dtype));
            let address = Expr::address(buffer.name(), &index);
            format!("{};", Expr::call(&function, &[&address, &value]).text)
        } else {
            let target = Expr::element(buffer.name(), &index);
            let old = match (is_half(dtype), dtype.is_bool()) {
                (true, _) => {
                    let widen = self.helpers.of_half(scalar(dtype));
                    Expr::call(&widen, &[&target])
                }
                (_, true) => Expr::binary("!=", &target, &Expr::atom("0")),
                _ => target.clone(),
            };
            let any = Range::of_type(dtype);
            let operands = [old, value].map(|expr| Operand { expr, range: any });
            let combined = self.helpers.scalar(combine, dtype, &operands);
            let combined = self.stored(combined, dtype);
            format!("{} = {};", target.text, combined.text)
        };
        match dtype.lanes() {
            1 => self.line(&statement),
            lanes => self.lane_loop(0, lanes as usize, &statement),
        }
    }

    pub(super) fn fetch(&mut self, op: OpId, fetch: &Fetch) {
        let Some((buffer, place)) = self.place(op, fetch.buffer, &fetch.indices) else { return };
        // Variables are as near as can be.
        let Buffer::Array { name, .. } = buffer else { return };
        let Some(tensor) = self.body.ty(fetch.buffer).as_tensor() else { return };
        let bytes = tensor.dtype.bits().div_ceil(8);
        let offset = Expr::binary("*", &self.index(&place), &Expr::atom(bytes.to_string()));
        let function = self.helpers.fetch();
        let statement = Expr::call(&function, &[&Expr::atom(name), &offset]);
        self.line(&format!("{};", statement.text));
    }

    pub(super) fn data(&mut self, op: OpId, data: &Data) {
        let tensor = &data.value;
        let dtype = tensor.dtype();
        if dtype.lanes() != 1 {
            return self.refuse(op, format!("C has no buffer of {dtype}"));
        }
        let buffer = self.body.result(op, 0);
        let hint = self.body.name_hint(buffer).name.map_or("data", Symbol::as_str);
        let name = self.names.fresh_public(&format!("{}_{hint}", self.symbol));
        let literals: Vec<String> = if is_half(dtype) {
            let bits = tensor.bytes().as_chunks().0.iter().map(|pair| u16::from_ne_bytes(*pair));
            bits.map(|bits| format!("{bits:#06x}")).collect()
        } else {
            let stored = if dtype.is_bool() { unsigned(dtype) } else { dtype };
            let elements = tensor.elements().map(|element| {
                let (expr, needs_math) = literal(stored, element);
                self.helpers.math |= needs_math;
                expr.text
            });
            elements.collect()
        };
        let rows: Vec<String> =
            literals.chunks(8).map(|row| format!("    {},\n", row.join(", "))).collect();
        let (count, c) = (literals.len().max(1), storage(dtype));
        let rows = if rows.is_empty() { "    0,\n".to_string() } else { rows.concat() };
        self.constants +=
            &format!("static const _Alignas(64) {c} {name}[{count}] = {{\n{rows}}};\n\n");
        self.buffers.insert(buffer, Buffer::Array { name, shape: tensor.shape().to_vec() });
    }
}

fn value_type(dtype: DType) -> &'static str {
    value(computed(dtype))
}

/// The place of the first element of variable `index`, by axis; axes of one variable are left out.
fn coordinates(first: usize, lanes: usize, shape: &[i64]) -> String {
    let mut rest = first;
    let mut parts = Vec::new();
    for (axis, extent) in shape.iter().rev().enumerate() {
        let extent = usize::try_from(*extent).expect("extents count elements");
        let (mut at, mut count) = (rest % extent, extent);
        rest /= extent;
        if axis == 0 && extent % lanes == 0 {
            (at, count) = (at / lanes, extent / lanes);
        }
        if count > 1 {
            parts.push(at.to_string());
        }
    }
    if parts.is_empty() {
        return "0".to_string();
    }
    parts.reverse();
    parts.join("_")
}
