//! Products of matrices that belong together, computed as one.

use indexmap::IndexMap;
use ir_core::{
    AttrDict, BlockId, Diagnostics, FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult,
    Symbol, TensorType, Type, ValueId,
};
use relay::language::is_primitive;
use relay_operators::broadcast::{Add, Multiply};
use relay_operators::index::slice::StridedSlice;
use relay_operators::join::Concatenate;
use relay_operators::nn::linear::{Dense, Matmul};
use relay_operators::shape::Transpose;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::emit::{self, Emit};
use crate::together::Looks;

/// Computes products of matrices that share a factor, or are summed up, as one product.
///
/// - Products of several matrices with the same one, none of which depends on the result of another, are that of
///   the rows of all of them; slices take the result apart.
/// - A sum of products is the product of the first factors side by side with the second ones below one another.
/// - A product of one column and one row that is left multiplies elements, as any `multiply` does: what is next to it can
///   be computed with it.
///
/// An unrolled recurrent network multiplies the input of each step by the same weights, and its gradient sums up a
/// change of the weights for each step. Where these are larger than what a step has, reading them once takes a part of
/// the time. Products whose factors are larger than what is saved stay. Sums are computed in another order, which may change their
/// last digits.
///
/// ```relay
/// def @main(%a: Tensor[(2, 8), float32], %b: Tensor[(2, 8), float32], %w: Tensor[(8, 8), float32]) {
///   %0 = nn.matmul(%a, %w);
///   %1 = nn.matmul(%b, %w);
///   (%0, %1)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%a: Tensor[(2, 8), float32], %b: Tensor[(2, 8), float32], %w: Tensor[(8, 8), float32])
///     -> (Tensor[(2, 8), float32], Tensor[(2, 8), float32]) {
///   %0 = (%a, %b);
///   %1 = concatenate(%0);
///   %2 = nn.matmul(%1, %w);
///   %3 = strided_slice(%2, begin=[0], end=[2], axes=[0]);
///   %4 = strided_slice(%2, begin=[2], end=[4], axes=[0]);
///   (%3, %4)
/// }
/// ```
///
/// The cost is linear in the size of the function: what products depend on is looked at for so many groups of them that
/// each operation is seen a bounded number of times.
#[derive(Pass)]
#[pass(name = "combine-products", function)]
pub struct CombineProducts {
    /// The least number of products that are computed as one.
    #[default(2)]
    pub least: usize,
}

impl FunctionPass for CombineProducts {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if is_primitive(f.signature.attrs) {
            return Ok(());
        }
        let stacked = self.stack(f)?;
        let summed = self.sum(f)?;
        let outer = multiply_outer(f)?;
        // A sum of one zero has no sign.
        if summed + outer > 0 {
            cx.rounded_otherwise();
        }
        cx.count("products by the same matrix", stacked);
        cx.count("sums of products", summed);
        cx.count("products of a column and a row", outer);
        Ok(())
    }
}

/// A product of two matrices.
struct Product {
    factors: [ValueId; 2],
    /// By factor: the axis along which elements are multiplied and summed up.
    inner: [usize; 2],
    /// Rows, terms of each sum, and columns.
    extents: [i64; 3],
}

impl Product {
    fn of(f: &FuncMut<'_>, op: OpId) -> Option<Product> {
        let (factors, inner) = if let Some(op) = f.body.view::<Matmul>(op) {
            let inner = [usize::from(!op.transpose_a), usize::from(op.transpose_b)];
            ([op.tensor_a, op.tensor_b], inner)
        } else {
            let op = f.body.view::<Dense>(op)?;
            ([op.data, op.weight], [1, 1])
        };
        let [a, b] = factors.map(|factor| matrix(f, factor));
        let (a, b) = (a?, b?);
        let extents = [a[1 - inner[0]], a[inner[0]], b[1 - inner[1]]];
        Some(Product { factors, inner, extents })
    }

    /// The elements of both factors.
    fn read(&self) -> i64 {
        let [rows, terms, columns] = self.extents;
        rows.saturating_add(columns).saturating_mul(terms)
    }

    fn written(&self) -> i64 {
        self.extents[0].saturating_mul(self.extents[2])
    }
}

/// The extents of a matrix.
fn matrix(f: &FuncMut<'_>, value: ValueId) -> Option<[i64; 2]> {
    match f.body.ty(value).as_tensor()?.shape.as_slice() {
        [rows, columns] => Some([rows.known()?, columns.known()?]),
        _ => None,
    }
}

fn element_types(f: &FuncMut<'_>, values: [ValueId; 2]) -> Option<[ir_core::DType; 2]> {
    let [a, b] = values.map(|value| f.body.ty(value).as_tensor().map(|ty| ty.dtype));
    Some([a?, b?])
}

/// What products by the same matrix have in common.
#[derive(PartialEq, Eq, Hash)]
struct Shared {
    block: Option<BlockId>,
    matrix: ValueId,
    operator: Symbol,
    attributes: AttrDict,
    data: ir_core::DType,
}

impl CombineProducts {
    /// Products by the same matrix; how many were made.
    fn stack(&self, f: &mut FuncMut<'_>) -> Result<u64, Diagnostics> {
        let mut groups: IndexMap<Shared, Vec<OpId>, FxBuildHasher> = IndexMap::default();
        let mut operations = 0;
        for op in f.body.walk() {
            operations += 1;
            let Some(product) = Product::of(f, op) else { continue };
            let Some([data, _]) = element_types(f, product.factors) else { continue };
            // The matrix is larger than what is copied.
            let [rows, terms, columns] = product.extents;
            if rows.saturating_mul(terms.saturating_add(columns)) > terms.saturating_mul(columns) {
                continue;
            }
            let shared = Shared {
                block: f.body.op_block(op),
                matrix: product.factors[1],
                operator: f.body.op_name(op),
                attributes: f.body.attrs(op),
                data,
            };
            groups.entry(shared).or_default().push(op);
        }
        let (mut looks, mut made) = (Looks::of(operations), 0);
        for group in groups.into_values().filter(|group| group.len() >= self.least.max(2)) {
            made += u64::from(stack_group(f, &group, &mut looks)?);
        }
        Ok(made)
    }

    /// Sums of products; how many were made.
    fn sum(&self, f: &mut FuncMut<'_>) -> Result<u64, Diagnostics> {
        let sums: Vec<OpId> = f.body.walk().filter(|op| is_sum(f, *op)).collect();
        let roots: Vec<OpId> = sums.into_iter().filter(|op| outer_sum(f, *op).is_none()).collect();
        // Both factors of a gradient may be read by several sums.
        let mut joined = FxHashMap::default();
        let mut made = 0;
        for root in roots {
            made += self.sum_group(f, root, &mut joined)?;
        }
        Ok(made)
    }

    /// Makes one product of those that `root` sums up, for each kind of them.
    fn sum_group(
        &self,
        f: &mut FuncMut<'_>,
        root: OpId,
        joined: &mut FxHashMap<(Option<BlockId>, Vec<ValueId>, usize), ValueId>,
    ) -> Result<u64, Diagnostics> {
        let mut terms = Vec::new();
        let mut pending = vec![f.body.result(root, 0)];
        while let Some(value) = pending.pop() {
            let sum = f.body.defining_op(value);
            match sum.filter(|op| *op == root || outer_sum(f, *op).is_some()) {
                // What is pushed last comes first.
                Some(sum) => pending.extend([f.body.operand(sum, 1), f.body.operand(sum, 0)]),
                None => terms.push(value),
            }
        }
        let mut kinds: IndexMap<_, Vec<(ValueId, Product)>, FxBuildHasher> = IndexMap::default();
        for term in &terms {
            let Some(op) = f.body.defining_op(*term) else { continue };
            let Some(product) = Product::of(f, op).filter(|_| f.body.has_one_use(*term)) else {
                continue;
            };
            let kind = (f.body.op_name(op), f.body.attrs(op), element_types(f, product.factors));
            kinds.entry(kind).or_default().push((*term, product));
        }
        let (mut made, mut gone) = (Vec::new(), FxHashSet::default());
        for products in kinds.into_values() {
            let read =
                products.iter().fold(0i64, |n, (_, product)| n.saturating_add(product.read()));
            let saved = products[1..].iter().fold(0i64, |n, (_, p)| n.saturating_add(p.written()));
            if products.len() < self.least.max(2) || read > saved {
                continue;
            }
            let (first, product) = &products[0];
            let Some(op) = f.body.defining_op(*first) else { continue };
            let mut factors = [*first; 2];
            for side in [0, 1] {
                let parts: Vec<ValueId> = products.iter().map(|(_, p)| p.factors[side]).collect();
                let key = (f.body.op_block(root), parts, product.inner[side]);
                factors[side] = match joined.get(&key) {
                    Some(both) => *both,
                    None => {
                        let mut emit = Emit::before(f, root, "combine-products");
                        let data = emit.tuple(key.1.clone());
                        let both = emit.op(&Concatenate { data, axis: key.2 as i64 })?;
                        joined.insert(key, both);
                        both
                    }
                };
            }
            made.push(Emit::before(f, root, "combine-products").again(op, &factors)?);
            gone.extend(products.iter().map(|(term, _)| *term));
        }
        let count = made.len() as u64;
        if count > 0 {
            // Nobody else reads the other terms.
            let kept = terms.into_iter().filter(|term| !gone.contains(term)).chain(made);
            let mut emit = Emit::before(f, root, "combine-products");
            let total = kept.map(Ok).reduce(|lhs, rhs| emit.op(&Add { lhs: lhs?, rhs: rhs? }));
            if let Some(total) = total {
                emit::replace(f, root, total?);
            }
        }
        Ok(count)
    }
}

/// Makes multiplications of products of a column and a row; how many there were.
fn multiply_outer(f: &mut FuncMut<'_>) -> Result<u64, Diagnostics> {
    let is_outer = |op: &OpId| {
        let product = Product::of(f, *op).filter(|product| product.extents[1] == 1)?;
        let result = f.body.ty(f.body.result(*op, 0)).as_tensor()?.dtype;
        (element_types(f, product.factors)? == [result; 2]).then_some((*op, product))
    };
    let products: Vec<(OpId, Product)> = f.body.walk().filter_map(|op| is_outer(&op)).collect();
    let made = products.len() as u64;
    for (op, product) in products {
        let mut emit = Emit::before(f, op, "combine-products");
        // A column is as high as the first factor has rows.
        let mut factors = product.factors;
        for (side, factor) in factors.iter_mut().enumerate() {
            if product.inner[side] == side {
                *factor = emit.op(&Transpose { data: *factor, axes: Some(vec![1, 0]) })?;
            }
        }
        let [lhs, rhs] = factors;
        let product = emit.op(&Multiply { lhs, rhs })?;
        emit::replace(f, op, product);
    }
    Ok(made)
}

/// Whether `op` adds tensors of one type, of known extents.
fn is_sum(f: &FuncMut<'_>, op: OpId) -> bool {
    let Some(add) = f.body.view::<Add>(op) else { return false };
    let ty = f.body.ty(f.body.result(op, 0));
    let is_matrix = |ty: &TensorType| ty.shape.len() == 2 && ty.elements().is_some();
    let same = |value: ValueId| -> Type { f.body.ty(value) };
    ty.as_tensor().is_some_and(is_matrix) && same(add.lhs) == ty && same(add.rhs) == ty
}

/// The sum beside `op`, also a sum, that alone reads its result.
fn outer_sum(f: &FuncMut<'_>, op: OpId) -> Option<OpId> {
    if !is_sum(f, op) || !f.body.has_one_use(f.body.result(op, 0)) {
        return None;
    }
    let (user, _) = f.body.uses(f.body.result(op, 0)).next()?;
    (f.body.op_block(user) == f.body.op_block(op) && is_sum(f, user)).then_some(user)
}

/// Makes one product of `group`, products by the same matrix in one block. Whether it could: not
/// where one depends on the result of another.
fn stack_group(
    f: &mut FuncMut<'_>,
    group: &[OpId],
    looks: &mut Looks,
) -> Result<bool, Diagnostics> {
    let products: Vec<Product> = group.iter().filter_map(|op| Product::of(f, *op)).collect();
    let Some(rows) = products.iter().try_fold(0i64, |n, p| n.checked_add(p.extents[0])) else {
        return Ok(false);
    };
    let Some(last) = looks.make_room(f, group) else { return Ok(false) };
    let axis = 1 - products[0].inner[0];
    let mut emit = Emit::before(f, last, "combine-products");
    let data = emit.tuple(products.iter().map(|product| product.factors[0]).collect());
    let data = emit.op(&Concatenate { data, axis: axis as i64 })?;
    let all = emit.again(group[0], &[data, products[0].factors[1]])?;
    let (mut begin, mut parts) = (0, Vec::new());
    for product in &products {
        let end = begin + product.extents[0];
        parts.push(emit.op(&StridedSlice::along(all, 0, begin, end))?);
        begin = end;
    }
    debug_assert_eq!(begin, rows, "parts are all of it");
    for (op, part) in group.iter().zip(parts) {
        emit::replace(f, *op, part);
    }
    Ok(true)
}
