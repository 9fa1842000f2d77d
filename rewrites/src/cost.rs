//! What operations cost.

use ir_core::{
    Arithmetic, AttrDict, CostTable, KernelRole, Registry, Symbol, Traits, Type, TypeData, Work,
};

/// What extraction makes small.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CostModel {
    /// The number of operations that compute something.
    Ops,
    /// Arithmetic operations.
    Flops,
    /// Bytes read and written, each operation on its own.
    Bytes,
    /// Microseconds of a machine on which each operation is a kernel.
    Roofline(CostTable),
    /// The same of a trained network that runs there. Parts of a value are views, which cost
    /// nothing, and an activation may be a part of the product before it. What is computed from
    /// weights alone is computed before the network runs.
    Inference(CostTable),
}

impl Default for CostModel {
    fn default() -> CostModel {
        CostModel::Roofline(CostTable::NOMINAL)
    }
}

impl CostModel {
    /// All models and their names.
    pub const ALL: [(&'static str, CostModel); 5] = [
        ("ops", CostModel::Ops),
        ("flops", CostModel::Flops),
        ("bytes", CostModel::Bytes),
        ("roofline", CostModel::Roofline(CostTable::NOMINAL)),
        ("inference", CostModel::Inference(CostTable::NOMINAL)),
    ];

    /// This model on a machine with these costs, where it is about one.
    pub fn on(self, table: CostTable) -> CostModel {
        match self {
            CostModel::Roofline(_) => CostModel::Roofline(table),
            CostModel::Inference(_) => CostModel::Inference(table),
            other @ (CostModel::Ops | CostModel::Flops | CostModel::Bytes) => other,
        }
    }

    /// The machine that it is about, where one can be chosen.
    pub fn table(self) -> Option<CostTable> {
        match self {
            CostModel::Roofline(table) | CostModel::Inference(table) => Some(table),
            CostModel::Ops | CostModel::Flops | CostModel::Bytes => None,
        }
    }

    /// Whether all that is computed from constants alone is free, large fills included, or only
    /// what the compiler computes.
    pub fn weights_are_free(self) -> bool {
        matches!(self, CostModel::Inference(_))
    }

    /// Whether `after`, applied to the result of `before`, costs no more than `before` alone.
    pub fn fuses(self, registry: &Registry, before: Symbol, after: Symbol) -> bool {
        matches!(self, CostModel::Inference(_))
            && role(registry, before) == Some(KernelRole::Anchor)
            && role(registry, after) == Some(KernelRole::Epilogue)
    }

    /// What one operation costs. Everything costs a little, so that of equal programs the smaller
    /// one is taken; what is `folded` costs no more, since it is computed once, by the compiler.
    pub fn cost(
        self,
        registry: &Registry,
        name: Symbol,
        attrs: AttrDict,
        operands: &[Type],
        result: Type,
        folded: bool,
    ) -> f64 {
        const LITTLE: f64 = 1e-4;
        let constant = registry.def(name).is_some_and(|def| def.traits.contains(Traits::CONSTANT));
        let work = registry.hook::<Work>(name).map(|work| (work.0)(operands, attrs, result));
        // What says how much it computes multiplies and adds, or computes nothing.
        let kind = if work.is_some() { Arithmetic::Product } else { Arithmetic::Plain };
        let flops = work.unwrap_or_else(|| elements(result));
        let views_are_free = matches!(self, CostModel::Inference(_));
        let view = views_are_free && role(registry, name) == Some(KernelRole::View);
        if constant || folded || view || flops == 0.0 {
            return LITTLE;
        }
        let bytes = operands.iter().map(|ty| bytes(*ty)).sum::<f64>() + bytes(result);
        LITTLE
            + match self {
                CostModel::Ops => 1.0,
                CostModel::Flops => flops,
                CostModel::Bytes => bytes,
                CostModel::Roofline(table) | CostModel::Inference(table) => {
                    table.kernel(bytes, table.computing(kind, flops))
                }
            }
    }
}

fn role(registry: &Registry, name: Symbol) -> Option<KernelRole> {
    registry.hook::<KernelRole>(name).copied()
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
