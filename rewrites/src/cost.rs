//! What operations cost.

use ir_core::{AttrDict, Registry, Symbol, Traits, Type, TypeData, Work};

/// What extraction makes small.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CostModel {
    /// The number of operations that compute something.
    Ops,
    /// Arithmetic operations.
    Flops,
    /// Bytes read and written, each operation on its own.
    Bytes,
    /// Microseconds of a simple machine: a launch of 1 µs for each operation, and the larger of
    /// its bytes at 20 GB/s and its arithmetic at 100 Gflop/s.
    #[default]
    Roofline,
}

impl CostModel {
    /// All models and their names.
    pub const ALL: [(&'static str, CostModel); 4] = [
        ("ops", CostModel::Ops),
        ("flops", CostModel::Flops),
        ("bytes", CostModel::Bytes),
        ("roofline", CostModel::Roofline),
    ];

    /// What one operation costs. Everything costs a little, so that of equal programs the smaller
    /// one is taken; what is computed from constants alone costs no more, since it is computed
    /// once, by the compiler.
    pub fn cost(
        self,
        registry: &Registry,
        name: Symbol,
        attrs: AttrDict,
        operands: &[Type],
        result: Type,
        is_weight: bool,
    ) -> f64 {
        const LITTLE: f64 = 1e-4;
        let constant = registry.def(name).is_some_and(|def| def.traits.contains(Traits::CONSTANT));
        let work = registry.hook::<Work>(name).map(|work| (work.0)(operands, attrs, result));
        let flops = work.unwrap_or_else(|| elements(result));
        if constant || is_weight || flops == 0.0 {
            return LITTLE;
        }
        let bytes = operands.iter().map(|ty| bytes(*ty)).sum::<f64>() + bytes(result);
        LITTLE
            + match self {
                CostModel::Ops => 1.0,
                CostModel::Flops => flops,
                CostModel::Bytes => bytes,
                CostModel::Roofline => 1.0 + (bytes / 20e3).max(flops / 100e3),
            }
    }
}

/// The numbers in a value; unknown extents count as 1.
fn elements(ty: Type) -> f64 {
    sum(ty, |shape, _| shape)
}

/// The bytes of a value; unknown extents count as 1.
fn bytes(ty: Type) -> f64 {
    sum(ty, |shape, bytes| shape * bytes)
}

fn sum(ty: Type, of: fn(f64, f64) -> f64) -> f64 {
    let (mut pending, mut total) = (vec![ty], 0.0);
    while let Some(ty) = pending.pop() {
        match ty.data() {
            TypeData::Tensor(tensor) => {
                let extents = tensor.shape.iter().map(|dim| dim.known().unwrap_or(1) as f64);
                total += of(extents.product(), tensor.dtype.bytes() as f64);
            }
            TypeData::Tuple(fields) => pending.extend(fields.iter()),
            _ => {}
        }
    }
    total
}
