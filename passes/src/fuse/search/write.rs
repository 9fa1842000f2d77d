//! Writes the kernels of a changed program into its block.

use ir_core::{
    Attr, AttrData, AttrDict, BlockId, FuncMut, InsertPoint, NameHint, OpFields, OpId, OpParts,
    TensorData, ValueId,
};
use relay::language::{Constant, Tuple};
use rewrites::compute::Known;
use rustc_hash::{FxHashMap, FxHashSet};

use super::notes::Notes;
use super::program::{Kernel, Kind, Program};
use super::window::Operation;
use crate::compute::compute;
use crate::fuse::graph::Graph;
use crate::fuse::kernels;

/// Writes the operations of the kernels of `program` into `block`, in place of those of `graph`;
/// the kernels. What is folded is none of them.
pub(super) fn write(
    f: &mut FuncMut<'_>,
    block: BlockId,
    graph: &Graph,
    program: &Program,
    notes: Option<&mut Notes<'_>>,
) -> Vec<kernels::Kernel> {
    let Some(start) = f.body.first_op(block) else { return vec![] };
    let mut values = vec![None; program.values.len()];
    for (number, value) in program.values.iter().enumerate() {
        match value.kind {
            Kind::Outside(value) => values[number] = Some(value),
            Kind::Constant(_, Some(value)) => {
                values[number] = Some(value);
                // Operations move to where the first of their kernels is.
                let op = f.body.defining_op(value).filter(|op| *op != start);
                if let Some(op) = op.filter(|op| f.body.op_block(*op) == Some(block)) {
                    f.body.move_op(op, InsertPoint::Before(start));
                }
            }
            _ => {}
        }
    }
    let known = FxHashMap::default();
    let mut writer = Writer { f, program, graph, start, values, known, notes };
    let written: Vec<kernels::Kernel> =
        program.kernels.iter().filter_map(|kernel| writer.kernel(kernel)).collect();
    writer.replace();
    // What is fixed stays where it is, though nobody may use its result.
    let kept: FxHashSet<OpId> =
        written.iter().flat_map(|kernel| &kernel.members).copied().collect();
    for node in graph.nodes.iter().rev() {
        if !kept.contains(&node.op) && f.body.is_unused(f.body.result(node.op, 0)) {
            f.body.erase(node.op);
        }
    }
    written
}

struct Writer<'w, 'f, 'n> {
    f: &'w mut FuncMut<'f>,
    program: &'w Program,
    graph: &'w Graph,
    /// The first operation of the block, before which constants stand.
    start: OpId,
    /// By number, where it is.
    values: Vec<Option<ValueId>>,
    /// What was computed by folding.
    known: FxHashMap<usize, Known>,
    notes: Option<&'w mut Notes<'n>>,
}

impl Writer<'_, '_, '_> {
    /// Writes `kernel`; its operations, unless they are folded.
    fn kernel(&mut self, kernel: &Kernel) -> Option<kernels::Kernel> {
        let program = self.program;
        let root = kernel.root();
        if kernel.fixed {
            let op = self.graph.nodes[root].op;
            for (index, operand) in program.operands(root).iter().enumerate() {
                if let Some(value) = self.value(program.find(*operand)) {
                    self.f.body.set_operand(op, index, value);
                }
            }
            self.values[root] = Some(self.f.body.result(op, 0));
            return Some(kernels::Kernel { members: vec![op], also: vec![] });
        }
        if kernel.folded
            && let Some(value) = self.fold(root)
        {
            self.known.insert(root, value);
            if let Some(notes) = self.notes.as_deref_mut() {
                notes.fold(program, root, self.f.registry);
            }
            return None;
        }
        let at = InsertPoint::Before(program.outside[kernel.level]);
        let mut members: Vec<OpId> = vec![];
        let mut written: FxHashMap<usize, ValueId> = FxHashMap::default();
        for &member in &kernel.members {
            let Kind::Op(Operation { name, attrs, ty }, operands) = &program.values[member].kind
            else {
                continue;
            };
            let mut values: Vec<ValueId> = Vec::with_capacity(operands.len());
            for operand in operands {
                let inside = program.inside(kernel, *operand);
                values.extend(match inside.and_then(|inside| written.get(&inside).copied()) {
                    Some(value) => Some(value),
                    None => self.value(program.find(*operand)),
                });
            }
            let origin = program.values[member].origin.map(|node| self.graph.nodes[node].op);
            let same =
                |op: OpId| self.f.body.op_name(op) == *name && self.f.body.attrs(op) == *attrs;
            let loc = match origin {
                Some(op) if same(op) => self.f.body.loc(op),
                Some(op) => self.f.body.loc(op).by_pass("fuse"),
                None => self.f.body.loc(program.outside[kernel.level]).by_pass("fuse"),
            };
            let types = [*ty];
            let parts = OpParts::new(*name, &values, &types).attrs(*attrs).at(loc);
            let op = self.f.body.insert_op(at, parts);
            written.insert(member, self.f.body.result(op, 0));
            members.push(op);
        }
        for number in kernel.results() {
            let result = *written.get(&number)?;
            if let Some(node) = program.values[number].origin {
                let hint: NameHint =
                    self.f.body.name_hint(self.f.body.result(self.graph.nodes[node].op, 0));
                self.f.body.set_name_hint(result, hint);
            }
            self.values[number] = Some(result);
        }
        let also = kernel.also.iter().filter_map(|number| written.get(number));
        let also = also.filter_map(|value| self.f.body.defining_op(*value)).collect();
        Some(kernels::Kernel { members, also })
    }

    /// The value numbered `number`, where it is stored.
    fn value(&mut self, number: usize) -> Option<ValueId> {
        if self.values[number].is_none() {
            self.values[number] = match (&self.program.values[number].kind, self.known.get(&number))
            {
                (Kind::Constant(operation, _), _) => Some(self.insert(operation, &[])),
                (_, Some(known)) => Some(self.emit(&known.clone())),
                _ => None,
            };
        }
        self.values[number]
    }

    fn insert(&mut self, operation: &Operation, operands: &[ValueId]) -> ValueId {
        let types = [operation.ty];
        let loc = self.f.body.loc(self.start).by_pass("fuse");
        let parts = OpParts::new(operation.name, operands, &types).attrs(operation.attrs).at(loc);
        let op = self.f.body.insert_op(InsertPoint::Before(self.start), parts);
        self.f.body.result(op, 0)
    }

    /// Writes what was folded.
    fn emit(&mut self, known: &Known) -> ValueId {
        let fields = match known {
            Known::Tensor(tensor) => return self.constant(tensor),
            Known::Tuple(fields) => fields,
        };
        let fields: Vec<ValueId> = fields.iter().map(|field| self.constant(field)).collect();
        let ty = ir_core::Type::tuple(fields.iter().map(|field| self.f.body.ty(*field)));
        let attrs = AttrDict::empty();
        self.insert(&Operation { name: Tuple::NAME.into(), attrs, ty }, &fields)
    }

    fn constant(&mut self, tensor: &TensorData) -> ValueId {
        let (ty, constant) = (tensor.ty(), Constant { value: tensor.clone() });
        let name = Constant::NAME.into();
        let attrs = OpFields::<ValueId>::attrs(&constant);
        self.insert(&Operation { name, attrs, ty }, &[])
    }

    /// What the operation `number` computes from constants; `None` where it fails.
    fn fold(&self, number: usize) -> Option<Known> {
        let Kind::Op(Operation { name, attrs, ty }, operands) = &self.program.values[number].kind
        else {
            return None;
        };
        let operands: Option<Vec<Known>> = (operands.iter())
            .map(|operand| {
                let operand = self.program.find(*operand);
                match &self.program.values[operand].kind {
                    Kind::Constant(constant, _) => {
                        match constant.attrs.get("value").map(Attr::data)? {
                            AttrData::Tensor(tensor) => Some(Known::Tensor(tensor.clone())),
                            _ => None,
                        }
                    }
                    _ => self.known.get(&operand).cloned(),
                }
            })
            .collect();
        compute(self.f.registry, *name, *attrs, &operands?, *ty)
    }

    /// Lets what is outside of the graph read what was written.
    fn replace(&mut self) {
        let inside: FxHashSet<OpId> = self.graph.nodes.iter().map(|node| node.op).collect();
        for (number, node) in self.graph.nodes.iter().enumerate() {
            let old = self.f.body.result(node.op, 0);
            let is_used = self.f.body.uses(old).any(|(user, _)| !inside.contains(&user));
            if is_used && let Some(new) = self.value(self.program.find(number)) {
                self.f.body.replace_uses_where(old, new, |_, (user, _)| !inside.contains(&user));
            }
        }
    }
}
