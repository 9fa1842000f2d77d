//! A program as a list of calls: what its main kernel is, for those that make the calls themselves.

use ir_core::{Body, EntityId, Loc, Module, Span, Symbol, TensorData, Type};
use te::compute::Yield;
use te::loops::{Alloc, Call, Data};

/// What a call reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// A parameter of the main kernel.
    Param(usize),
    /// A buffer that it allocates.
    Local(usize),
    /// A constant of it.
    Constant(usize),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Site {
    /// What is called.
    pub kernel: Symbol,
    /// Its buffers.
    pub places: Vec<Place>,
    /// Where the call comes from.
    pub loc: Loc,
}

/// A buffer that a main kernel allocates.
#[derive(Clone, Debug)]
pub struct Local {
    /// Its size.
    pub ty: Type,
    /// The last call that uses it.
    pub last: usize,
    /// Its place in the workspace in bytes, where memory was planned.
    pub offset: Option<i64>,
}

/// The calls of a main kernel, in order.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// The calls.
    pub sites: Vec<Site>,
    /// The buffers that it allocates.
    pub locals: Vec<Local>,
    /// Its constants.
    pub constants: Vec<TensorData>,
    /// Where the main kernel starts in its source.
    pub base: Option<Span>,
    /// Whether there is something besides calls of whole buffers.
    pub is_opaque: bool,
}

impl Calls {
    /// The calls of the kernel `main` of `module`; none where there is no such kernel.
    pub fn of(module: &Module, main: &str) -> Calls {
        let Some(item) = module.get(main) else { return Calls::default() };
        let Some(body) = item.body.as_deref() else { return Calls::default() };
        Calls { base: item.signature.span, ..Calls::of_body(body) }
    }

    /// The calls of a kernel.
    pub fn of_body(body: &Body) -> Calls {
        let mut calls = Calls::default();
        let mut places: Vec<Option<Place>> = vec![None; body.value_capacity()];
        for (index, param) in body.block_args(body.entry()).iter().enumerate() {
            places[param.index()] = Some(Place::Param(index));
        }
        for op in body.block_ops(body.entry()) {
            if let Some(alloc) = body.view::<Alloc>(op) {
                let buffer = body.result(op, 0);
                places[buffer.index()] = Some(Place::Local(calls.locals.len()));
                calls.locals.push(Local { ty: body.ty(buffer), last: 0, offset: alloc.offset });
            } else if let Some(data) = body.view::<Data>(op) {
                let buffer = body.result(op, 0);
                places[buffer.index()] = Some(Place::Constant(calls.constants.len()));
                calls.constants.push(data.value);
            } else if let Some(call) = body.view::<Call>(op) {
                calls.add(&call, body.loc(op), &places);
            } else if body.view::<Yield>(op).is_none() {
                calls.is_opaque = true;
            }
        }
        calls
    }

    fn add(&mut self, call: &Call, loc: Loc, places: &[Option<Place>]) {
        let known: Option<Vec<Place>> =
            call.buffers().iter().map(|buffer| places.get(buffer.index()).copied()?).collect();
        let Some(known) = known.filter(|_| !call.parts) else {
            self.is_opaque = true;
            return;
        };
        for place in &known {
            if let Place::Local(local) = place {
                self.locals[*local].last = self.sites.len();
            }
        }
        self.sites.push(Site { kernel: call.kernel, places: known, loc });
    }
}
