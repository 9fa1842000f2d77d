//! Extents of tensors as numbers, and tensors of extents that are numbers.

use ir_core::{OpId, ValueId};
use prog::{Expect, Extent, Order, Reshape};

use super::Writer;

impl Writer<'_, '_> {
    /// An extent as a number.
    pub(super) fn extent(&mut self, number: usize, op: OpId, extent: &Extent) {
        let result = self.functions[number].body.result(op, 0);
        if self.is_read(number, result) {
            let (p, axis) = (&self.cx.prefix, extent.axis);
            let (to, tensor) = (self.name(number, result), self.name(number, extent.tensor));
            self.line(&format!("{to} = {p}extent({tensor}, {axis});"));
        }
    }

    /// The same tensor, of these extents.
    pub(super) fn expect(&mut self, number: usize, op: OpId, expect: &Expect) {
        let result = self.functions[number].body.result(op, 0);
        let (p, site) = (self.cx.prefix.clone(), self.site(number, op));
        let name = self.name(number, expect.tensor).to_string();
        let dims = expect.expected.as_tensor().map_or(&[][..], |tensor| &tensor.shape);
        let known = dims.iter().enumerate().filter_map(|(axis, dim)| {
            Some(format!("{p}extent({name}, {axis}) != {}", dim.known()?))
        });
        let misfits: Vec<String> = known.collect();
        if !misfits.is_empty() {
            self.line(&format!("if ({}) {{", misfits.join(" || ")));
            self.line(&format!("    return {p}fail(p, 2, {site});"));
            self.line("}");
        }
        if self.is_read(number, result) {
            let to = self.name(number, result);
            self.line(&format!("{to} = {name};"));
        }
    }

    /// The same elements, of other extents.
    pub(super) fn reshape(&mut self, number: usize, op: OpId, reshape: &Reshape) {
        let result = self.functions[number].body.result(op, 0);
        let (p, site) = (self.cx.prefix.clone(), self.site(number, op));
        let (from, to) = (self.name(number, reshape.tensor), self.name(number, result));
        let tensor = self.ty(number, reshape.tensor).as_tensor().expect("a tensor is reshaped");
        let (rank, size) = (tensor.rank(), tensor.dtype.bytes());
        let extents: Vec<&str> =
            reshape.extents.iter().map(|extent| self.name(number, *extent)).collect();
        let (axes, extents) = (extents.len(), extents.join(", "));
        let call = format!(
            "{p}reshape(p, {from}, {rank}, {size}, (const int64_t[]){{{extents}}}, {axes}, {site}, &{to})"
        );
        self.line(&format!("if ({call}) {{ return 1; }}"));
    }

    /// The indices of elements that hold.
    pub(super) fn indices(&mut self, number: usize, op: OpId, tensor: ValueId) {
        let result = self.functions[number].body.result(op, 0);
        let (p, site) = (&self.cx.prefix, self.site(number, op));
        let rank = self.ty(number, tensor).as_tensor().map_or(0, |tensor| tensor.rank());
        let (from, to) = (self.name(number, tensor), self.name(number, result));
        let call = format!("{p}indices(p, {from}, {rank}, {site}, &{to})");
        self.line(&format!("if ({call}) {{ return 1; }}"));
    }

    /// The places of the first elements of rows.
    pub(super) fn order(&mut self, number: usize, op: OpId, order: &Order) {
        let result = self.functions[number].body.result(op, 0);
        let (p, site) = (&self.cx.prefix, self.site(number, op));
        let tensor = self.ty(number, order.tensor).as_tensor().expect("a tensor has rows");
        let (rank, size) = (tensor.rank(), tensor.dtype.bytes());
        let (from, to) = (self.name(number, order.tensor), self.name(number, result));
        let wanted = self.name(number, order.wanted);
        let call = format!("{p}order(p, {from}, {rank}, {size}, {wanted}, {site}, &{to})");
        self.line(&format!("if ({call}) {{ return 1; }}"));
    }
}
