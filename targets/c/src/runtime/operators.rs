//! Operators that generated programs leave to whoever runs them.
//!
//! A program calls one function twice for an operator: with the tensors that it takes, for the bytes of the
//! results, and then with memory for these. What runs on this thread is found through a variable of the
//! thread, so that the program hands nothing through.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use ir_core::TensorData;
use ir_core::tensor::tensor_bytes;
use prog::columns::EXTENTS;
use prog::operators::Operators;

/// What a program calls, by the name that [`crate::codegen::operate_name`] gives.
pub(super) type Operate = unsafe extern "C" fn(i64, *const *mut c_void, *mut i64) -> i64;

/// A program that runs.
struct Running<'o> {
    operators: &'o mut dyn Operators,
    /// The results of the last operator, and whether their extents are a part of them.
    results: Vec<(TensorData, bool)>,
}

thread_local! {
    /// The innermost program that runs on this thread; null where there is none.
    static RUNNING: Cell<*mut Running<'static>> = const { Cell::new(ptr::null_mut()) };
}

/// Puts back what ran before.
struct Restored(*mut Running<'static>);

impl Drop for Restored {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Calls `run`, which may run a program whose operators `operators` computes.
pub(crate) fn with_operators<R>(operators: &mut dyn Operators, run: impl FnOnce() -> R) -> R {
    let mut running = Running { operators, results: Vec::new() };
    // Only for as long as `running` lives, since `before` is dropped first.
    let before = Restored(RUNNING.replace(ptr::from_mut(&mut running).cast()));
    let result = run();
    drop(before);
    result
}

/// See [`Operate`].
///
/// # Safety
/// Generated programs call it: with the number of one of their operators, and the addresses of tensors of
/// the types of what it takes, or with -1 behind such a call, and addresses of memory for its results, as
/// many bytes as it said. `bytes` has a place for each result.
pub(super) unsafe extern "C" fn operate(
    number: i64,
    values: *const *mut c_void,
    bytes: *mut i64,
) -> i64 {
    let call = || {
        // SAFETY: it is null, or set by `with_operators` on this thread, whose `running` lives until the
        // program has returned, and which nothing else refers to meanwhile.
        let running = unsafe { RUNNING.get().as_mut() }?;
        match usize::try_from(number) {
            // SAFETY: what the program promises.
            Ok(number) => unsafe { compute(running, number, values, bytes) },
            Err(_) => {
                // SAFETY: what the program promises.
                unsafe { give(running, values) };
                Some(())
            }
        }
    };
    // A panic does not unwind through C.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Some(())) => 0,
        Ok(None) | Err(_) => 1,
    }
}

/// Computes an operator, and sets the bytes of its results.
///
/// # Safety
/// See [`operate`].
unsafe fn compute(
    running: &mut Running<'_>,
    number: usize,
    values: *const *mut c_void,
    bytes: *mut i64,
) -> Option<()> {
    let (takes, gives) = running.operators.types(number)?;
    let gives = gives.to_vec();
    let mut inputs = Vec::with_capacity(takes.len());
    for (index, ty) in takes.iter().enumerate() {
        let tensor = ty.as_tensor()?;
        // SAFETY: there is an address for each tensor that the operator takes.
        let data = unsafe { *values.add(index) }.cast::<u8>().cast_const();
        let shape: Vec<i64> = match tensor.known_shape() {
            Some(shape) => shape.to_vec(),
            // SAFETY: extents that are a part of a tensor stand there, each in 8 bytes; elements start at
            // multiples of 64.
            None => unsafe {
                let extents = data.sub(EXTENTS).cast::<i64>();
                std::slice::from_raw_parts(extents, tensor.rank()).to_vec()
            },
        };
        let size = tensor_bytes(&shape, tensor.dtype)?;
        // SAFETY: a tensor has as many bytes as its type and extents say.
        let elements = unsafe { std::slice::from_raw_parts(data, size) }.to_vec();
        inputs.push(TensorData::from_bytes(tensor.dtype, &shape, elements).ok()?);
    }
    let results = running.operators.compute(number, inputs)?;
    if results.len() != gives.len() {
        return None;
    }
    running.results.clear();
    for (index, (result, ty)) in results.into_iter().zip(&gives).enumerate() {
        let is_open = prog::is_open(*ty);
        let found = if is_open { prog::opened(result.ty()) } else { result.ty() };
        if found != *ty {
            return None;
        }
        // SAFETY: there is a place for each result.
        unsafe { *bytes.add(index) = i64::try_from(result.bytes().len()).ok()? };
        running.results.push((result, is_open));
    }
    Some(())
}

/// Writes the results of the last operator.
///
/// # Safety
/// See [`operate`].
unsafe fn give(running: &mut Running<'_>, values: *const *mut c_void) {
    for (index, (result, is_open)) in running.results.drain(..).enumerate() {
        // SAFETY: there is an address for each result, of as many bytes as it has, and nothing else lies
        // there; before it there is room for extents, where they are a part of the tensor.
        unsafe {
            let data = (*values.add(index)).cast::<u8>();
            ptr::copy_nonoverlapping(result.bytes().as_ptr(), data, result.bytes().len());
            if is_open {
                let extents = data.sub(EXTENTS).cast::<i64>();
                ptr::copy_nonoverlapping(result.shape().as_ptr(), extents, result.rank());
            }
        }
    }
}
