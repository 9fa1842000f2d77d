//! Type relations: the result type of an operation as a function of its operand types and
//! attributes. The same hook serves builders, type inference and the verifier.

use smallvec::SmallVec;

use crate::attributes::{Attr, AttrDict};
use crate::types::{Dim, TensorType, Type, TypeData};

/// Computes the type of the single result.
pub type InferFn = fn(&mut InferCx<'_>) -> Result<Type, Stop>;

/// Why a relation gives no type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// An operand type is not known well enough yet; try again when it is.
    Stuck,
    /// No type makes this right. The message starts in lower case and says what was expected and
    /// found; whoever reports it adds the place and the operand types.
    Error(String),
}

impl Stop {
    /// An error with `message`.
    pub fn error(message: impl Into<String>) -> Stop {
        Stop::Error(message.into())
    }
}

impl From<String> for Stop {
    fn from(message: String) -> Stop {
        Stop::Error(message)
    }
}

/// What a relation looks at, and what it says besides the result type.
pub struct InferCx<'a> {
    /// Types of the operands; may be or contain unknowns.
    pub operands: &'a [Type],
    /// Attributes, defaults left out.
    pub attrs: AttrDict,
    /// The constant behind an operand, by its index.
    constants: &'a dyn Fn(usize) -> Option<Attr>,
    /// What the relation learnt about operand types.
    pub refinements: SmallVec<[(usize, Type); 2]>,
    /// Extents that the relation requires to be equal.
    pub equations: SmallVec<[(Dim, Dim); 2]>,
}

impl<'a> InferCx<'a> {
    /// A context in which no operand is a known constant.
    pub fn new(operands: &'a [Type], attrs: AttrDict) -> InferCx<'a> {
        InferCx::with_constants(operands, attrs, &|_| None)
    }

    /// A context that finds constants with `constants`.
    pub fn with_constants(
        operands: &'a [Type],
        attrs: AttrDict,
        constants: &'a dyn Fn(usize) -> Option<Attr>,
    ) -> InferCx<'a> {
        InferCx {
            operands,
            attrs,
            constants,
            refinements: SmallVec::new(),
            equations: SmallVec::new(),
        }
    }

    /// What relation `infer` says here. An extent below 0, in the result or in what an operand must
    /// be, is an error.
    pub fn answer(&mut self, infer: InferFn) -> Result<Type, Stop> {
        let result = infer(self)?;
        let types = self.refinements.iter().map(|(_, ty)| *ty).chain([result]);
        match types.filter_map(negative_extent).next() {
            Some(extent) => {
                Err(Stop::Error(format!("expected extents of at least 0, found {extent}")))
            }
            None => Ok(result),
        }
    }

    /// The constant behind operand `index`, where it is known.
    pub fn constant(&self, index: usize) -> Option<Attr> {
        (self.constants)(index)
    }

    /// Operand `index` as a tensor: stuck while it is unknown, an error when it is none.
    pub fn tensor(&self, index: usize) -> Result<&'static TensorType, Stop> {
        tensor(self.operands[index])
    }

    /// The type of operand `index`, a tensor of floats: stuck while it is unknown, an error when it
    /// is none.
    pub fn floats(&self, index: usize) -> Result<Type, Stop> {
        let ty = self.operands[index];
        match tensor(ty)?.dtype.is_float() {
            true => Ok(ty),
            false => Err(Stop::error(format!("expected a tensor of floats, found {ty}"))),
        }
    }

    /// Says that operand `index` must have type `ty`. Inference uses this to find the types of
    /// parameters without annotation; where the type is known already, it is checked.
    pub fn refine(&mut self, index: usize, ty: Type) {
        self.refinements.push((index, ty));
    }

    /// Requires two extents to be equal. Errors when both are known and differ; `?` is checked at
    /// run time, and other unknowns become an equation for the inference.
    pub fn require_equal(&mut self, a: Dim, b: Dim) -> Result<(), Stop> {
        match (a, b) {
            _ if a == b => Ok(()),
            (Dim::Any, _) | (_, Dim::Any) => Ok(()),
            (Dim::Known(x), Dim::Known(y)) => {
                Err(Stop::Error(format!("expected equal extents, found {x} and {y}")))
            }
            _ => {
                self.equations.push((a, b));
                Ok(())
            }
        }
    }
}

/// An extent of `ty`, or of a tensor in the tuple `ty`, that is below 0.
fn negative_extent(ty: Type) -> Option<i64> {
    let negative = |tensor: &TensorType| {
        tensor.shape.iter().filter_map(|dim| dim.known()).find(|extent| *extent < 0)
    };
    match ty.data() {
        TypeData::Tensor(tensor) => negative(tensor),
        TypeData::Tuple(fields) => {
            fields.iter().filter_map(|field| field.as_tensor()).find_map(negative)
        }
        _ => None,
    }
}

/// `ty` as a tensor: stuck while it is unknown, an error when it is none.
pub fn tensor(ty: Type) -> Result<&'static TensorType, Stop> {
    match ty.data() {
        TypeData::Tensor(tensor) => Ok(tensor),
        TypeData::Unknown | TypeData::Variable(_) => Err(Stop::Stuck),
        _ => Err(Stop::Error(format!("expected a tensor, found {ty}"))),
    }
}

/// `ty` as a tuple: stuck while it is unknown, an error when it is none.
pub fn tuple(ty: Type) -> Result<&'static [Type], Stop> {
    match ty.data() {
        TypeData::Tuple(fields) => Ok(fields),
        TypeData::Unknown | TypeData::Variable(_) => Err(Stop::Stuck),
        _ => Err(Stop::Error(format!("expected a tuple, found {ty}"))),
    }
}
