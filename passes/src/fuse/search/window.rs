//! A closed part of a program: what is solved at once, and what comes out.
//!
//! Nothing here names a value of the program, so that equal parts are equal, and one solution
//! serves all of them.

use ir_core::{AttrDict, Symbol, Type};
use rustc_hash::FxHashMap;

/// An operation without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Operation {
    pub(super) name: Symbol,
    pub(super) attrs: AttrDict,
    pub(super) ty: Type,
}

/// Where an operation takes an operand from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Source {
    /// An input of the window.
    Input(usize),
    /// A small constant.
    Constant(Operation),
    /// An operation of the window.
    Op(usize),
}

/// An operation of a window.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct WindowOp {
    pub(super) operation: Operation,
    pub(super) operands: Vec<Source>,
    /// The input that has the same value, where a kernel before the window stores it.
    pub(super) stored: Option<usize>,
    /// No kernel may hide it.
    pub(super) bound: bool,
}

/// An input of a window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Input {
    pub(super) ty: Type,
    /// It is a constant.
    pub(super) weight: bool,
}

/// A kernel of a window as it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct WindowKernel {
    /// Its operations, each after those that it reads; the last one is the result.
    pub(super) members: Vec<usize>,
    /// It is folded.
    pub(super) folded: bool,
}

/// A closed part of a program.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Window {
    pub(super) inputs: Vec<Input>,
    /// Each after those that it reads.
    pub(super) ops: Vec<WindowOp>,
    /// The kernels as they are, each after those that it reads.
    pub(super) kernels: Vec<WindowKernel>,
    /// The operations whose results must be stored, each once.
    pub(super) needed: Vec<usize>,
}

impl Window {
    /// The same where the value of each constant is its number, in order of use: windows of which
    /// these are equal cost the same as they are, though rules may make something else of them.
    pub(super) fn without_values(&self) -> Window {
        let mut window = self.clone();
        let mut numbers: FxHashMap<AttrDict, usize> = FxHashMap::default();
        for source in window.ops.iter_mut().flat_map(|op| &mut op.operands) {
            if let Source::Constant(constant) = source {
                let next = numbers.len();
                let number = *numbers.entry(constant.attrs).or_insert(next);
                constant.attrs = AttrDict::empty().with("number", &(number as i64));
            }
        }
        window
    }
}

/// Where an operation of a new kernel takes an operand from, or what has the value of a needed
/// operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Input(usize),
    Constant(Operation),
    /// The result of a new kernel.
    Kernel(usize),
    /// An operation of the same kernel.
    Member(usize),
}

/// An operation of a new kernel.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct NewOp {
    pub(super) operation: Operation,
    pub(super) operands: Vec<Place>,
    /// An operation of the window with the same value, if there is one.
    pub(super) origin: Option<usize>,
}

/// A new kernel.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct NewKernel {
    /// Each after those that it reads; the last one is the result.
    pub(super) members: Vec<NewOp>,
    pub(super) cost: f64,
    /// It is computed from constants alone: the compiler does that.
    pub(super) folded: bool,
    /// It has an operator such as a convolution.
    pub(super) anchors: bool,
}

/// What takes the place of a window.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Solution {
    /// Each after those that it reads.
    pub(super) kernels: Vec<NewKernel>,
    /// What has the value of each needed operation, in the order of [`Window::needed`].
    pub(super) outputs: Vec<Place>,
}
