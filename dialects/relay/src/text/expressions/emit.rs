//! Operations and blocks, added where the machine stands.

use ir_core::{
    AttrDict, Body, Diagnostic, InsertPoint, Loc, OpId, OpParts, Symbol, TensorData, Type, ValueId,
};

use super::{Machine, Scope};
use crate::text::codes;
use crate::text::parser::Parser;

impl Machine<'_, '_> {
    pub(super) fn loc(&self, start: u32) -> Loc {
        self.parser.function.loc(start)
    }

    pub(super) fn emit(
        &mut self,
        name: Symbol,
        operands: &[ValueId],
        attrs: AttrDict,
        start: u32,
    ) -> ValueId {
        self.emit_regions(name, operands, attrs, Type::unknown(), 0, start).1
    }

    pub(super) fn emit_regions(
        &mut self,
        name: Symbol,
        operands: &[ValueId],
        attrs: AttrDict,
        ty: Type,
        regions: usize,
        start: u32,
    ) -> (OpId, ValueId) {
        let loc = self.loc(start);
        let results = [ty];
        let operands = match operands.len() <= self.parser.max_operands {
            true => operands,
            false => self.too_wide(operands.len(), start),
        };
        let parts = OpParts::new(name, operands, &results).attrs(attrs).regions(regions).at(loc);
        let body = &mut self.parser.function.body;
        let op = body.insert_op(InsertPoint::End(self.block), parts);
        (op, body.result(op, 0))
    }

    /// Reports an operation with too many operands; those that it gets instead.
    fn too_wide(&mut self, found: usize, start: u32) -> &'static [ValueId] {
        let message = format!("an operation has at most {} operands", self.parser.max_operands);
        let place = self.parser.cursor.since(start);
        let error = Diagnostic::error(codes::OPERANDS, message).at(place);
        let error = error.note(format!("found {found}"));
        self.parser.cursor.report(error.help("split it, such as a tuple into tuples"));
        &[]
    }

    pub(super) fn form(
        &mut self,
        name: &str,
        operands: &[ValueId],
        attrs: AttrDict,
        start: u32,
    ) -> ValueId {
        self.emit(Symbol::new(name), operands, attrs, start)
    }

    pub(super) fn constant(&mut self, value: TensorData, start: u32) -> ValueId {
        let ty = value.ty();
        let attrs = Parser::form_attrs("value", &value);
        self.emit_regions(Symbol::new("relay.constant"), &[], attrs, ty, 0, start).1
    }

    /// A value in place of something wrong, which has been reported.
    pub(super) fn poison(&mut self, start: u32) -> ValueId {
        self.form("relay.tuple", &[], AttrDict::empty(), start)
    }

    pub(super) fn finish_block(&mut self, value: ValueId) {
        let operands = [value];
        let parts = OpParts::new("relay.yield", &operands, &[]);
        self.parser.function.body.insert_op(InsertPoint::End(self.block), parts);
    }

    /// Makes the only block of region `index` of `op` the current one.
    pub(super) fn enter(&mut self, op: OpId, index: usize) -> Scope {
        let function = &mut self.parser.function;
        function.nested = true;
        let scope = Scope {
            block: self.block,
            locals: function.shadowed.len(),
            graph: function.graph_shadowed.len(),
        };
        self.block = function.body.region_block(op, index);
        scope
    }

    /// Ends the current block with `value`.
    pub(super) fn leave(&mut self, value: ValueId, scope: Scope) {
        self.finish_block(value);
        self.restore(scope);
    }

    fn restore(&mut self, scope: Scope) {
        self.parser.function.unbind(scope.locals);
        self.parser.function.unbind_graph(scope.graph);
        self.block = scope.block;
    }
}

/// Turns a constructor that was taken for one without fields into a function value.
pub(in crate::text) fn constructor_as_value(body: &mut Body, op: OpId, name: Symbol) {
    if !body.is_live(op) || body.op_name(op) != "relay.construct" {
        return;
    }
    let before = body.result(op, 0);
    let (ty, loc, hint) = (body.ty(before), body.loc(op), body.name_hint(before));
    let results = [ty];
    let attrs = Parser::form_attrs("name", &name.to_string());
    let parts = OpParts::new("relay.constructor", &[], &results).attrs(attrs).at(loc);
    let constructor = body.insert_op(InsertPoint::Before(op), parts);
    let after = body.result(constructor, 0);
    body.set_name_hint(after, hint);
    body.replace_all_uses(before, after);
    body.erase(op);
}
