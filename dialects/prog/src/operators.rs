//! Operators on tensors of any extents, which whoever runs a program computes.

use ir_core::{Module, OpId, Symbol, TensorData, Type, TypeData};

use crate::sites::functions;
use crate::{Operate, opened};

/// Computes operators while a program runs.
pub trait Operators {
    /// The results of number `number` of [`of`] the program on the tensors `inputs`; `None` where it has
    /// none.
    fn compute(&mut self, number: usize, inputs: Vec<TensorData>) -> Option<Vec<TensorData>>;

    /// The types of the tensors that number `number` takes and gives; `None` where there is no such number.
    fn types(&self, number: usize) -> Option<(&[Type], &[Type])>;
}

/// For programs without operators.
impl Operators for () {
    fn compute(&mut self, _: usize, _: Vec<TensorData>) -> Option<Vec<TensorData>> {
        None
    }

    fn types(&self, _: usize) -> Option<(&[Type], &[Type])> {
        None
    }
}

/// An operator of a program.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The function that it is part of.
    pub function: Symbol,
    /// Its operation.
    pub op: OpId,
    /// What it is, without its inputs.
    pub operate: Operate<()>,
    /// The types of the tensors that it takes.
    pub inputs: Vec<Type>,
    /// The types of the tensors that it gives.
    pub outputs: Vec<Type>,
}

/// The operators of `module`, in the order in which they are numbered.
pub fn of(module: &Module) -> Vec<Operator> {
    let mut found = Vec::new();
    for (function, body) in functions(module) {
        for op in body.walk() {
            let Some(Operate { operator, attributes, operands, result, inputs }) = body.view(op)
            else {
                continue;
            };
            let inputs = inputs.iter().map(|input| body.ty(*input)).collect();
            let outputs = body.results(op).map(|result| body.ty(result)).collect();
            let operate = Operate { operator, attributes, operands, result, inputs: vec![] };
            found.push(Operator { function, op, operate, inputs, outputs });
        }
    }
    found
}

/// The tensors of a value of type `ty`, a tensor or a tuple; `None` where it is neither.
pub fn tensors(ty: Type) -> Option<Vec<Type>> {
    let (mut tensors, mut pending) = (Vec::new(), vec![ty]);
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tensor(_) => tensors.push(ty),
            TypeData::Tuple(fields) => pending.extend(fields.iter().rev()),
            _ => return None,
        }
    }
    Some(tensors)
}

/// Whether a tensor of type `found` stands for one of type `declared`, of which less may be known.
pub(crate) fn stands_for(found: Type, declared: Type) -> bool {
    opened(found) == opened(declared)
}
