//! Buffers whose extents are open counts, as rows of elements.
//!
//! Loops of an open function index its tensors by dimensions, as those of any other. A buffer has
//! strides that are constants, though, and these are products of counts. So the loops are written as if
//! the counts had bounds, and then every access of a parameter that ends at a count becomes one of a
//! vector of elements, at the sum of its indices times their strides. **What is known of the extents is
//! used before**; behind it, no operation knows that there were several dimensions.

use ir_core::{Body, DType, InsertPoint, Item, OpFields, OpId, Scalar, TensorData, Type, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Alloc, Atomic, Fetch, Store};
use crate::checks::scalar;
use crate::compute::counts::{COUNTS, bounds, open_bound, open_count};
use crate::compute::{Load, LoadIf};
use crate::scalar::{Constant, ScalarOp, insert};
use crate::schedule::Refused;

/// What stands for the number of elements of a buffer that is a row of them. No memory has so many.
pub const ELEMENTS: i64 = 1 << 40;

/// The type of a buffer of so many elements as there are, of type `dtype`.
pub fn row(dtype: DType) -> Type {
    Type::tensor([ELEMENTS], dtype)
}

fn is_row(ty: Type) -> bool {
    ty.as_tensor().is_some_and(|tensor| ty == row(tensor.dtype))
}

/// A dimension of a buffer: what an index of it is multiplied by.
#[derive(Clone)]
struct Stride {
    constant: i64,
    /// The product of the counts among the extents behind it; `None` where there are none.
    counts: Option<ValueId>,
    /// How many these are.
    factors: usize,
}

/// Makes rows of elements of the parameters of `kernel`, the loops of an open function, that end at
/// counts.
///
/// # Errors
/// Where it has memory of its own that ends at a count.
pub(crate) fn compact(kernel: &mut Item) -> Result<(), Refused> {
    let counts = bounds(&kernel.signature).len();
    let Some(body) = kernel.body_mut() else { return Ok(()) };
    let is_open = |shape: &[i64]| shape.iter().any(|extent| open_count(*extent).is_some());
    let mut allocations = body.walk().filter_map(|op| body.view::<Alloc>(op));
    if allocations.any(|alloc| is_open(&alloc.shape)) {
        return Err("its loops keep a tensor that ends at a count".to_string());
    }
    let entry = body.entry();
    let first = body.first_op(entry).ok_or("the kernel has no end")?;
    let mut strides =
        Strides { at: InsertPoint::Before(first), counts: vec![], products: FxHashMap::default() };
    let params = body.block_args(entry).to_vec();
    for (number, &param) in params[..counts].iter().enumerate() {
        strides.counts.push(read_count(body, strides.at, number, param));
    }
    for param in params {
        let tensor = body.ty(param).as_tensor().ok_or("a buffer is a tensor")?;
        let shape = tensor.known_shape().ok_or("a buffer has extents")?;
        if !is_open(&shape) {
            continue;
        }
        let own = strides.of(body, &shape);
        let accesses: Vec<OpId> = body.uses(param).map(|(user, _)| user).collect();
        for op in accesses {
            access(body, op, param, &own)?;
        }
        body.set_ty(param, row(tensor.dtype));
    }
    let params = body.block_args(entry).iter().map(|arg| body.ty(*arg));
    let ty = Type::function(params.collect::<Vec<_>>(), Type::unit());
    kernel.signature.ty = ty;
    Ok(())
}

/// The kernel with rows of so many elements as parameters, in order.
///
/// `None` where it has another number of these.
pub fn with_sizes(kernel: &Item, sizes: &[i64]) -> Option<Item> {
    let mut kernel = kernel.clone();
    let body = kernel.body_mut()?;
    let mut sizes = sizes.iter();
    for param in body.block_args(body.entry()).to_vec() {
        let ty = body.ty(param);
        if is_row(ty) {
            body.set_ty(param, Type::tensor([*sizes.next()?], ty.as_tensor()?.dtype));
        }
    }
    let params: Vec<Type> = body.block_args(body.entry()).iter().map(|arg| body.ty(*arg)).collect();
    kernel.signature.ty = Type::function(params, Type::unit());
    kernel.signature.attrs = kernel.signature.attrs.without(COUNTS);
    sizes.next().is_none().then_some(kernel)
}

fn index(body: &mut Body, at: InsertPoint, value: i64) -> ValueId {
    let value = TensorData::scalar(DType::INT64, Scalar::Int(value));
    insert(body, at, &Constant { value }, Type::scalar(DType::INT64))
}

fn arithmetic(body: &mut Body, at: InsertPoint, op: ScalarOp, a: ValueId, b: ValueId) -> ValueId {
    scalar(body, at, op, &[a, b], Type::scalar(DType::INT64))
}

/// `value` from 0 to `most`.
fn clamped(body: &mut Body, at: InsertPoint, value: ValueId, most: i64) -> ValueId {
    let (zero, most) = (index(body, at, 0), index(body, at, most));
    let value = arithmetic(body, at, ScalarOp::Max, value, zero);
    arithmetic(body, at, ScalarOp::Min, value, most)
}

fn read_count(body: &mut Body, at: InsertPoint, number: usize, param: ValueId) -> ValueId {
    let load = Load { tensor: param, indices: vec![] };
    let value = insert(body, at, &load, Type::scalar(DType::INT64));
    clamped(body, at, value, open_bound(number))
}

/// The products of counts, each computed once where the kernel begins.
struct Strides {
    at: InsertPoint,
    counts: Vec<ValueId>,
    products: FxHashMap<SmallVec<[usize; 4]>, ValueId>,
}

impl Strides {
    /// Those of a buffer of extents `shape`.
    fn of(&mut self, body: &mut Body, shape: &[i64]) -> Vec<Stride> {
        let mut strides = Vec::with_capacity(shape.len());
        let (mut constant, mut factors) = (1i64, SmallVec::new());
        for extent in shape.iter().rev() {
            let counts = (!factors.is_empty()).then(|| self.product(body, &factors));
            strides.push(Stride { constant, counts, factors: factors.len() });
            match open_count(*extent) {
                Some(count) => factors.push(count),
                None => constant = constant.saturating_mul(*extent),
            }
        }
        strides.reverse();
        strides
    }

    fn product(&mut self, body: &mut Body, factors: &SmallVec<[usize; 4]>) -> ValueId {
        if let Some(known) = self.products.get(factors) {
            return *known;
        }
        let mut product = self.counts[factors[0]];
        for (number, factor) in factors.iter().enumerate().skip(1) {
            product = arithmetic(body, self.at, ScalarOp::Mul, product, self.counts[*factor]);
            // Elements before the last dimension are no more than all.
            if number > 1 {
                product = clamped(body, self.at, product, ELEMENTS);
            }
        }
        self.products.insert(factors.clone(), product);
        product
    }
}

/// Makes `op` access the row of elements that the buffer `param`, of these strides, becomes.
fn access(body: &mut Body, op: OpId, param: ValueId, strides: &[Stride]) -> Result<(), Refused> {
    let at = InsertPoint::Before(op);
    let place = |body: &mut Body, indices: &[ValueId]| vec![place(body, at, indices, strides)];
    if let Some(Load { tensor, indices }) = body.view(op) {
        let load = Load { tensor, indices: place(body, &indices) };
        body.set_operands(op, &load.operands());
    } else if let Some(LoadIf { condition, otherwise, tensor, indices }) = body.view(op) {
        let indices = place(body, &indices);
        let load = LoadIf { condition, otherwise, tensor, indices };
        body.set_operands(op, &load.operands());
    } else if let Some(store) = body.view::<Store>(op).filter(|store| store.buffer == param) {
        let indices = place(body, &store.indices);
        let store = Store { indices, ..store };
        body.set_operands(op, &store.operands());
    } else if let Some(atomic) = body.view::<Atomic>(op).filter(|atomic| atomic.buffer == param) {
        let indices = place(body, &atomic.indices);
        let atomic = Atomic { indices, ..atomic };
        body.set_operands(op, &atomic.operands());
    } else if let Some(fetch) = body.view::<Fetch>(op) {
        let indices = place(body, &fetch.indices);
        let fetch = Fetch { indices, ..fetch };
        body.set_operands(op, &fetch.operands());
    } else {
        return Err(format!("`{}` takes a buffer that ends at a count", body.op_name(op)));
    }
    Ok(())
}

/// The number of the element at `indices` of a buffer of these strides.
fn place(body: &mut Body, at: InsertPoint, indices: &[ValueId], strides: &[Stride]) -> ValueId {
    let mut sum: Option<ValueId> = None;
    let pairs = || indices.iter().zip(strides);
    // A product of three factors may be any number for what is known of it. It is an element, though.
    let is_large = strides.iter().any(|stride| stride.factors > 1);
    for (&value, stride) in pairs().filter(|(_, stride)| stride.counts.is_some()) {
        let mut term = value;
        if let Some(counts) = stride.counts {
            term = arithmetic(body, at, ScalarOp::Mul, term, counts);
        }
        term = times(body, at, term, stride.constant);
        sum = Some(sum.map_or(term, |sum| arithmetic(body, at, ScalarOp::Add, sum, term)));
    }
    if let Some(outer) = sum.filter(|_| is_large) {
        sum = Some(clamped(body, at, outer, ELEMENTS));
    }
    for (&value, stride) in pairs().filter(|(_, stride)| stride.counts.is_none()) {
        let term = times(body, at, value, stride.constant);
        sum = Some(sum.map_or(term, |sum| arithmetic(body, at, ScalarOp::Add, sum, term)));
    }
    sum.expect("a buffer that ends at a count has dimensions")
}

fn times(body: &mut Body, at: InsertPoint, value: ValueId, factor: i64) -> ValueId {
    match factor {
        1 => value,
        _ => {
            let factor = index(body, at, factor);
            arithmetic(body, at, ScalarOp::Mul, value, factor)
        }
    }
}
