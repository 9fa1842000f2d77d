//! What cannot be lowered.

use indexmap::IndexMap;
use ir_core::tensor::tensor_bytes;
use ir_core::{Body, Diagnostic, Loc, OpId, PassContext, Registry, Span, Type, TypeData};
use relay::define::{Define, tensor_types};
use relay::language::{
    Call, Constant, Construct, Constructor, Fn, Global, If, Match, Operator, RefCreate, RefRead,
    RefWrite, Tuple, TupleGet, Yield, fn_attributes, is_primitive, short_name,
};
use rustc_hash::FxBuildHasher;

use crate::codes::{OPEN, OPEN_HELP};

/// A reason why something cannot be lowered.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Problem {
    /// An operator without a definition.
    Undefined(String),
    /// An operator whose result has a shape that is known at run time only.
    AtRunTime(String),
    /// An operator whose definition refuses its operands, with a message.
    Refused(String, String),
    /// An operator whose definition has no form for all extents of its operands, with a reason.
    Open(String, String),
    /// A tensor of unknown extents that has more axes than such tensors may have.
    Axes(Type, usize),
    /// A form of the language that is no straight-line code.
    Form(&'static str),
    /// A function as a value.
    FunctionValue,
    /// A call of a function of the module.
    Call(String),
    /// Parameters that are no tensors of known extents, as they are declared.
    Parameters(Vec<String>),
    /// A value that is no tensor of known extents.
    Type(Type),
    /// A value of a data type that is made outside, or that is none.
    Data(Type),
    /// A call of a function whose types the call chooses.
    Polymorphic(String),
    /// An operator of a package that has no kernel for extents that are not known.
    Packaged(String),
    /// A tensor of vectors.
    Vectors(Type),
    /// A tensor of floats that loops do not compute with.
    SmallFloats(Type),
    /// A tensor that no memory holds.
    Size(Type),
}

/// Problems in the order in which they were found, and where.
#[derive(Default)]
pub(crate) struct Problems {
    found: IndexMap<Problem, Vec<Loc>, FxBuildHasher>,
}

/// Further places of a problem that a diagnostic points at.
const MOST_LABELS: usize = 3;

impl Problems {
    /// Adds a problem at `loc`.
    pub(crate) fn add(&mut self, problem: Problem, loc: Loc) {
        self.found.entry(problem).or_default().push(loc);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether no problem asks for more than a list of kernels.
    pub(crate) fn are_of_kernels(&self) -> bool {
        let is_form = |problem: &Problem| match problem {
            Problem::Form(_) | Problem::FunctionValue | Problem::Call(_) => true,
            // Data, a cell, or what nobody knows the extents of before it is there.
            Problem::Type(_) | Problem::AtRunTime(_) | Problem::Undefined(_) => true,
            Problem::Parameters(_) => true,
            _ => false,
        };
        !self.found.keys().any(is_form)
    }

    /// Reports each problem once, with its places. `base` is where the function starts.
    pub(crate) fn report(self, base: Option<Span>, cx: &mut PassContext<'_>) {
        for (problem, locs) in self.found {
            let (code, message, help) = problem.text();
            let mut diagnostic = Diagnostic::error(code, message).help(help);
            let mut spans = locs.iter().map(|loc| loc.span(base));
            diagnostic = diagnostic.at(spans.next().flatten());
            for span in spans.take(MOST_LABELS) {
                diagnostic = diagnostic.related(span, "also here");
            }
            if locs.len() > 1 {
                diagnostic = diagnostic.note(format!("there are {} such places", locs.len()));
            }
            cx.report(diagnostic);
        }
    }
}

impl Problem {
    /// Code, message and help.
    fn text(&self) -> (&'static str, String, &'static str) {
        match self {
            Problem::Undefined(name) => (
                "E0621",
                format!("`{name}` has no definition as tensor expressions"),
                "run the program in the interpreter, `--executor interp`, or give the operator a \
                 definition with `Define`",
            ),
            Problem::AtRunTime(name) => (
                "E0621",
                format!(
                    "`{name}` has no definition as tensor expressions: the shape of its result is \
                     known at run time only"
                ),
                "run `dynamic-to-static` where constants say the shape, or run the program in the \
                 interpreter, `--executor interp`",
            ),
            Problem::Packaged(name) => (
                "E0621",
                format!(
                    "`{name}` has no definition as tensor expressions here, and nobody computes it in a \
                     package"
                ),
                "run the program with `relay-opt run`, or give the operands extents that are known",
            ),
            Problem::Refused(name, message) => (
                "E0622",
                format!("`{name}` cannot be written as tensor expressions here: {message}"),
                "change the operands or attributes that the message names",
            ),
            Problem::Open(name, reason) => (
                "E0622",
                format!("`{name}` has no kernel for extents that are not known: {reason}"),
                "give the operands extents that are known, or bounds: `--dim NAME=LOW..HIGH`",
            ),
            Problem::Axes(ty, most) => (
                OPEN,
                format!("expected at most {most} axes where extents are not known, found {ty}"),
                "reshape it to fewer axes, or give it extents that are known",
            ),
            Problem::Form(form) => (
                "E0623",
                format!("{form} cannot be lowered to tensor expressions"),
                "`lower-te` takes straight-line code: operators, tuples, and calls of kernels; run \
                 `lower-prog` for the rest of the language",
            ),
            Problem::FunctionValue => (
                "E0623",
                "a function value cannot be lowered to tensor expressions".to_string(),
                "run `defunctionalize` first, which makes data of functions, or run the program in the \
                 interpreter, `--executor interp`",
            ),
            Problem::Call(name) => (
                "E0623",
                format!("the call of `@{name}` cannot be lowered to tensor expressions"),
                "run `inline{all}` first, or `lower-prog`, which lowers calls",
            ),
            Problem::Parameters(declared) => (
                OPEN,
                format!("expected parameters of known extents, found {}", declared.join(", ")),
                OPEN_HELP,
            ),
            Problem::Type(ty) => (
                OPEN,
                format!("expected tensors of known extents, found {ty}"),
                "run `dynamic-to-static` where constants say the extents, or run the program in the \
                 interpreter, `--executor interp`",
            ),
            Problem::Data(ty) => (
                "E0623",
                format!("a value of type {ty} cannot be taken apart in compiled code"),
                "declare the constructors of the data type",
            ),
            Problem::Polymorphic(name) => (
                "E0623",
                format!("the call of `@{name}`, whose types it chooses, cannot be lowered"),
                "run `defunctionalize` first, which copies such functions",
            ),
            Problem::Vectors(ty) => (
                OPEN,
                format!("expected elements of one lane, found {ty}"),
                "write the lanes as a further axis: schedules make vectors of it",
            ),
            Problem::SmallFloats(ty) => (
                OPEN,
                format!("expected integers, or floats of at least 16 bits, found {ty}"),
                "run the program in the interpreter, `--executor interp`",
            ),
            Problem::Size(ty) => (
                OPEN,
                format!("a tensor of type {ty} has more bytes than can be addressed"),
                "make its extents smaller",
            ),
        }
    }
}

/// What in the body of `@main` cannot be lowered. Of values of unknown extents those are named that
/// others follow from.
pub(crate) fn check(body: &Body, registry: &Registry) -> Problems {
    let mut problems = Problems::default();
    let mut open = Vec::new();
    for (index, &param) in body.block_args(body.entry()).iter().enumerate() {
        let ty = body.ty(param);
        match type_problem(ty) {
            Some(Problem::Type(_)) if tensor_types(ty).is_some() => {
                open.push(declared(body, index))
            }
            Some(problem) => problems.add(problem, Loc::UNKNOWN),
            None => {}
        }
    }
    if !open.is_empty() {
        problems.add(Problem::Parameters(open), Loc::UNKNOWN);
    }
    for op in body.walk() {
        let loc = body.loc(op);
        let follows = body.operands(op).any(|operand| is_open(body.ty(operand)));
        match check_operation(body, op, registry) {
            Some(Problem::AtRunTime(_)) if follows => {}
            Some(problem) => problems.add(problem, loc),
            None if follows => {}
            None => {
                let types = body.results(op).map(|result| body.ty(result));
                // What a function value is for is checked where it is used.
                let types = types.filter(|ty| ty.as_function().is_none());
                for problem in types.filter_map(type_problem) {
                    problems.add(problem, loc);
                }
            }
        }
    }
    problems
}

/// Parameter `index` of `body` as it is declared.
pub(crate) fn declared(body: &Body, index: usize) -> String {
    let param = body.block_args(body.entry())[index];
    let name = body.name_hint(param).name;
    let name = name.map_or_else(|| format!("arg{index}"), |name| name.to_string());
    format!("`%{name}: {}`", body.ty(param))
}

/// Whether values of type `ty` are data other than tensors of known extents, or functions.
fn is_open(ty: Type) -> bool {
    matches!(type_problem(ty), Some(Problem::Type(_)))
}

/// What is wrong with values of type `ty`.
fn type_problem(ty: Type) -> Option<Problem> {
    match (ty.data(), tensor_types(ty)) {
        (TypeData::Function(_), _) => Some(Problem::FunctionValue),
        (_, Some(tensors)) => tensors.into_iter().find_map(|tensor| tensor_problem(tensor, ty)),
        _ => Some(Problem::Type(ty)),
    }
}

/// What is wrong with `tensor`, which is part of `whole`.
pub(crate) fn tensor_problem(tensor: Type, whole: Type) -> Option<Problem> {
    let Some((shape, dtype)) =
        tensor.as_tensor().and_then(|tensor| Some((tensor.known_shape()?, tensor.dtype)))
    else {
        return Some(Problem::Type(whole));
    };
    if dtype.lanes() != 1 {
        return Some(Problem::Vectors(whole));
    }
    if dtype.as_small_float().is_some() {
        return Some(Problem::SmallFloats(whole));
    }
    tensor_bytes(&shape, dtype).is_none().then_some(Problem::Size(whole))
}

fn check_operation(body: &Body, op: OpId, registry: &Registry) -> Option<Problem> {
    let name = body.op_name(op);
    match name.as_str() {
        Constant::NAME | Tuple::NAME | TupleGet::NAME | Yield::NAME | Global::NAME => None,
        Fn::NAME if is_primitive(fn_attributes(body, op)) => None,
        Fn::NAME | Operator::NAME | Constructor::NAME => Some(Problem::FunctionValue),
        If::NAME => Some(Problem::Form("`if`")),
        Match::NAME => Some(Problem::Form("`match`")),
        Construct::NAME => Some(Problem::Form("a constructor")),
        RefCreate::NAME | RefRead::NAME | RefWrite::NAME => Some(Problem::Form("a mutable cell")),
        Call::NAME => {
            let callee = body.view::<Call>(op)?.callee;
            if let Some((_, Global { name })) = body.view_def(callee) {
                return Some(Problem::Call(name.to_string()));
            }
            let kernel = body.defining_op(callee);
            let is_kernel = kernel.is_some_and(|op| is_primitive(fn_attributes(body, op)));
            (!is_kernel).then_some(Problem::FunctionValue)
        }
        text => match registry.hook::<Define>(name) {
            Some(_) => None,
            None => {
                let name = short_name(text).to_string();
                Some(match body.results(op).any(|result| is_open(body.ty(result))) {
                    true => Problem::AtRunTime(name),
                    false => Problem::Undefined(name),
                })
            }
        },
    }
}
