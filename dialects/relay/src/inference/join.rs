//! Types of values that come from several places: what all of them fit.

use ir_core::{
    Body, Dim, FunctionType, OpId, Signatures, Symbol, TensorType, Type, TypeData, TypeParam,
};
use rustc_hash::FxHashMap;

use super::rebuild::for_each_part;
use super::solver::{Mismatch, Mode, Solver, Substitution, as_dim, shape_parameters, substitute};
use crate::language::Call;
use crate::types::free_parameters;

/// Which of two types that differ in `?` only is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Bound {
    /// The one that values of both have: `?` where one has it.
    Upper,
    /// The one whose values have both: what either knows.
    Lower,
}

/// What the type parameters of a function stand for in one of its calls.
pub struct TypeArguments(Substitution);

impl TypeArguments {
    /// Those of the call `op`; `None` where they are not all known, or are themselves in terms of
    /// type parameters, which may have the same names.
    pub fn of_call(body: &Body, op: OpId, signatures: &Signatures) -> Option<TypeArguments> {
        let found = TypeArguments::open_of_call(body, op, signatures)?;
        let closed = found.0.values().all(|param| match param {
            TypeParam::Type(ty) => free_parameters(*ty).is_empty(),
            TypeParam::Dim(dim) => !dim.facts().has_parameter,
            _ => true,
        });
        closed.then_some(found)
    }

    /// The same, where they may be in terms of the type parameters of the caller.
    pub fn open_of_call(body: &Body, op: OpId, signatures: &Signatures) -> Option<TypeArguments> {
        let call = body.view::<Call>(op)?;
        let args: Vec<Type> = call.args.iter().map(|arg| body.ty(*arg)).collect();
        let (callee, result) = (body.ty(call.callee), body.ty(body.result(op, 0)));
        let mut solver = Solver::new(signatures);
        solver.type_arguments(callee, &call.type_args, &args, result).map(TypeArguments)
    }

    /// What type parameter `name` of the function stands for.
    pub fn get(&self, name: Symbol) -> Option<TypeParam> {
        self.0.get(&name).copied()
    }

    /// Whether the function has no type parameters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `ty` in terms of the caller.
    pub fn replace(&self, ty: Type) -> Type {
        substitute(ty, &self.0)
    }
}

impl Bound {
    fn reversed(self) -> Bound {
        match self {
            Bound::Upper => Bound::Lower,
            Bound::Lower => Bound::Upper,
        }
    }

    fn dim(self, a: Dim, b: Dim) -> Dim {
        match (self, a, b) {
            (Bound::Upper, _, Dim::Any) | (Bound::Lower, Dim::Any, _) => b,
            _ => a,
        }
    }
}

impl Solver<'_> {
    /// The type of a value that is either of type `a` or of type `b`: both unified, and `?` where
    /// one of them has `?`.
    pub(super) fn join(&mut self, a: Type, b: Type) -> Result<Type, Mismatch> {
        let (mut a, mut b) = (self.resolve(a), self.resolve(b));
        // Of a polymorphic function and an instance of one, the value is the instance.
        let is_polymorphic =
            |ty: Type| ty.as_function().map(|function| !function.type_params.is_empty());
        match (is_polymorphic(a), is_polymorphic(b)) {
            (Some(true), Some(false)) => a = self.instantiate(a, &[]),
            (Some(false), Some(true)) => b = self.instantiate(b, &[]),
            _ => {}
        }
        self.refine(a, b)?;
        let (a, b) = (self.resolve(a), self.resolve(b));
        if a == b || !(a.facts().has_any || b.facts().has_any) {
            return Ok(a);
        }
        let joined = self.bound(a, b, Bound::Upper);
        self.flow(joined, a)?;
        self.flow(joined, b)?;
        Ok(joined)
    }

    /// The type of a call: the function type `callee` with its type parameters replaced by `given`
    /// or, where none are given, by variables. `args` are the types of the arguments, and `result`
    /// is what the result is to be, where that is known.
    ///
    /// A parameter for types becomes what all arguments fit that it stands for, and one for extents
    /// what is known of it, whatever the order of the arguments.
    pub(crate) fn instance(
        &mut self,
        callee: Type,
        given: &[TypeParam],
        args: &[Type],
        result: Type,
    ) -> Type {
        let first = self.type_count();
        let instance = self.instantiate(callee, given);
        let function = match instance.as_function() {
            Some(function) if instance != callee => function,
            _ => return instance,
        };
        let known: Vec<Type> = args.iter().map(|arg| self.settle(*arg)).collect();
        let dynamic = |ty: &Type| ty.facts().has_any;
        if !dynamic(&result) && !known.iter().any(dynamic) {
            return instance;
        }
        let mut pairs: Vec<(Type, Type)> = Vec::with_capacity(known.len() + 1);
        if !result.is_unknown() {
            pairs.push((result, function.result));
        }
        for later in [false, true] {
            let args = function.params.iter().copied().zip(known.iter().copied());
            pairs.extend(args.filter(|(_, arg)| dynamic(arg) == later));
        }
        self.widen(first, &pairs);
        instance
    }

    /// What the type parameters of the function type `callee` stand for in such a call; `None`
    /// where something of that is not known.
    pub(super) fn type_arguments(
        &mut self,
        callee: Type,
        given: &[Type],
        args: &[Type],
        result: Type,
    ) -> Option<Substitution> {
        let names = &callee.as_function()?.type_params;
        let first = self.type_count();
        let shape = shape_parameters(callee);
        let params: Vec<TypeParam> = match given.is_empty() {
            true => self.fresh_params(names.iter().map(|name| shape.contains(name))).to_vec(),
            false => given.iter().map(|ty| TypeParam::Type(*ty)).collect(),
        };
        // An extent that is given is written as a type.
        let extent = |(name, param)| match shape.contains(name) {
            true => as_dim(param).map_or(param, TypeParam::Dim),
            false => param,
        };
        let params: Vec<TypeParam> = names.iter().zip(params).map(extent).collect();
        let instance = self.instantiate(callee, &params);
        let function = instance.as_function()?;
        let args = function.params.iter().copied().zip(args.iter().copied());
        let pairs: Vec<(Type, Type)> =
            [(result, function.result)].into_iter().chain(args).collect();
        self.widen(first, &pairs);
        let found = names.iter().zip(params).map(|(name, param)| {
            let param = match param {
                TypeParam::Type(ty) => TypeParam::Type(self.resolve(ty)),
                TypeParam::Dim(dim) => TypeParam::Dim(self.resolve_dim(dim)),
                other => other,
            };
            let known = match param {
                TypeParam::Type(ty) => !ty.facts().has_variable && !ty.facts().has_unknown,
                TypeParam::Dim(dim) => !dim.facts().has_variable,
                _ => true,
            };
            known.then_some((*name, param))
        });
        found.collect()
    }

    /// Relates pairs of what is expected and what is found, as far as that goes. The variables
    /// from `first` on become `?` where different extents meet in them.
    pub(crate) fn widen(&mut self, first: u32, pairs: &[(Type, Type)]) {
        self.soft = first..self.type_count();
        loop {
            self.widened = false;
            for (expected, found) in pairs {
                // Whoever asks relates them once more, and reports what does not fit.
                let _ = self.relate(*expected, *found, Mode::Value);
            }
            // Each round makes some extent `?`.
            if !self.widened {
                break;
            }
        }
        self.soft = 0..0;
    }

    /// What the variable `index` has to become so that `found` fits it, where it is among those
    /// that may still become wider.
    pub(super) fn wider(&mut self, index: u32, found: Type) -> Option<Type> {
        if !self.soft.contains(&index) {
            return None;
        }
        let present = self.shallow(Type::variable(index));
        let (present, found) = (self.resolve(present), self.resolve(found));
        if matches!(present.data(), TypeData::Variable(_)) || !found.facts().has_any {
            return None;
        }
        Some(self.bound(present, found, Bound::Upper)).filter(|wider| *wider != present)
    }

    /// The least type above, or the greatest below, the types `a` and `b`, which are equal but for
    /// `?`. Where they are not, it is what it is in `a`.
    pub(super) fn bound(&self, a: Type, b: Type, bound: Bound) -> Type {
        type Pair = (Type, Type, Bound);
        enum Step {
            Visit(Pair),
            Build(Pair, usize),
        }
        let mut done: Vec<Type> = Vec::new();
        let mut memo: FxHashMap<Pair, Type> = FxHashMap::default();
        let mut steps = vec![Step::Visit((a, b, bound))];
        while let Some(step) = steps.pop() {
            match step {
                Step::Visit(pair @ (a, b, bound)) => {
                    if let Some(known) = memo.get(&pair) {
                        done.push(*known);
                    } else if let Some(parts) = self.parts(a, b, bound) {
                        steps.push(Step::Build(pair, parts.len()));
                        steps.extend(parts.into_iter().rev().map(Step::Visit));
                    } else {
                        done.push(a);
                    }
                }
                Step::Build(pair @ (a, b, bound), parts) => {
                    let built = with_parts(a, b, bound, &done.split_off(done.len() - parts));
                    memo.insert(pair, built);
                    done.push(built);
                }
            }
        }
        done.pop().expect("what was visited was built")
    }

    /// The parts of `a` and `b` of which bounds are looked for; `None` where `a` stays as it is.
    fn parts(&self, a: Type, b: Type, bound: Bound) -> Option<Vec<(Type, Type, Bound)>> {
        if a == b || !(a.facts().has_any || b.facts().has_any) {
            return None;
        }
        let alike = match (a.data(), b.data()) {
            (TypeData::Tensor(x), TypeData::Tensor(y)) => x.rank() == y.rank(),
            (TypeData::Tuple(x), TypeData::Tuple(y)) => x.len() == y.len(),
            (TypeData::Function(x), TypeData::Function(y)) => {
                x.params.len() == y.params.len()
                    && x.type_params.is_empty()
                    && y.type_params.is_empty()
            }
            (TypeData::Named { name: x, params: xs }, TypeData::Named { name: y, params: ys }) => {
                x == y && xs.len() == ys.len() && self.data_types.is_immutable(*x)
            }
            _ => false,
        };
        if !alike {
            return None;
        }
        let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
        for_each_part(a, |part| of_a.push(part));
        for_each_part(b, |part| of_b.push(part));
        let params = a.as_function().map_or(0, |function| function.params.len());
        let parts = of_a.into_iter().zip(of_b).enumerate();
        let pair = |(index, (a, b))| (a, b, if index < params { bound.reversed() } else { bound });
        Some(parts.map(pair).collect())
    }
}

/// `a` with these parts, and with the extents of both.
fn with_parts(a: Type, b: Type, bound: Bound, parts: &[Type]) -> Type {
    match (a.data(), b.data()) {
        (TypeData::Tensor(x), TypeData::Tensor(y)) => {
            let dims = x.shape.iter().zip(&y.shape).map(|(a, b)| bound.dim(*a, *b));
            Type::new(TypeData::Tensor(TensorType { shape: dims.collect(), dtype: x.dtype }))
        }
        (TypeData::Tuple(_), _) => Type::tuple(parts.iter().copied()),
        (TypeData::Function(_), _) => match parts.split_last() {
            Some((result, params)) => Type::new(TypeData::Function(FunctionType {
                type_params: Default::default(),
                params: params.into(),
                result: *result,
            })),
            None => a,
        },
        (TypeData::Named { name, params: xs }, TypeData::Named { params: ys, .. }) => {
            let mut parts = parts.iter();
            let params = xs.iter().zip(ys).map(|(x, y)| match (*x, *y) {
                (TypeParam::Type(_), _) => {
                    TypeParam::Type(*parts.next().expect("each parameter is a part"))
                }
                (TypeParam::Dim(x), TypeParam::Dim(y)) => TypeParam::Dim(bound.dim(x, y)),
                (x, _) => x,
            });
            Type::named(*name, params)
        }
        _ => a,
    }
}
