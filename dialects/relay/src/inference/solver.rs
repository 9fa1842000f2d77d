//! Unification: a union-find over type and extent variables that knows which relations wait for
//! which variable.

use ir_core::types::MAX_TYPE_DEPTH;
use ir_core::{Dim, DimExprData, DimOp, FunctionType, SmallVec, Symbol, Type, TypeData, TypeParam};
use rustc_hash::{FxHashMap, FxHashSet};

use super::rebuild::{
    Leaf, Rebuild, for_each_dim, for_each_dim_leaf, for_each_part, rebuild, rebuild_dim,
    rebuild_with,
};

/// The index of a pending relation.
pub(super) type RelationId = u32;

/// An unknown of the inference.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Variable {
    /// Of a type.
    Type(u32),
    /// Of an extent.
    Dim(u32),
}

/// What a type contains, variables filled in.
#[derive(Clone, Copy, Default)]
struct Summary {
    /// The newest variable that the type mentions, not counting what variables are bound to.
    newest: Option<u32>,
    /// Levels of nesting, at least: a variable that was open counts as a leaf.
    depth: u32,
}

struct Cell<T> {
    binding: Option<T>,
    /// Something went wrong where this variable comes from, and has been reported.
    poisoned: bool,
    /// Levels of nesting of what it was bound to, at least; 1 while it is open.
    depth: u32,
    waiters: Vec<RelationId>,
}

impl<T> Cell<T> {
    fn new(poisoned: bool) -> Cell<T> {
        Cell { binding: None, poisoned, depth: 1, waiters: Vec::new() }
    }
}

/// Why two types do not unify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch {
    /// These parts differ: expected, found.
    Types(Type, Type),
    /// These extents differ: expected, found.
    Dims(Dim, Dim),
    /// The type would contain itself.
    Infinite,
    /// The type would nest deeper than [`MAX_TYPE_DEPTH`].
    Deep,
}

/// The variables of one inference and what is known about them.
#[derive(Default)]
pub(crate) struct Solver {
    types: Vec<Cell<Type>>,
    dims: Vec<Cell<Dim>>,
    /// Relations that may have become solvable.
    pub(super) woken: Vec<RelationId>,
    /// Extents that must be equal and cannot be compared yet.
    pub(super) equations: Vec<(Dim, Dim)>,
    /// Types with everything known filled in; forgotten as soon as more becomes known. Types
    /// nest, and without this each level would pay for all those inside it.
    resolved: FxHashMap<Type, Type>,
    /// Types without variables, as they are written into bodies. These never change.
    closed: FxHashMap<Type, Type>,
    /// What is known of types at little cost; see [`Solver::summary`].
    summaries: FxHashMap<Type, Summary>,
    /// The newest variable in what an older one was bound to. Only variables newer than this are
    /// sure to be bound to older ones only.
    disorder: Option<u32>,
    /// Parts of types that have been looked at.
    steps: u64,
}

impl Solver {
    pub(crate) fn new() -> Solver {
        Solver::default()
    }

    /// A new type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.types.push(Cell::new(false));
        Type::variable(self.types.len() as u32 - 1)
    }

    /// A new type variable that stands for something wrong and already reported.
    pub(super) fn fresh_poisoned(&mut self) -> Type {
        self.types.push(Cell::new(true));
        Type::variable(self.types.len() as u32 - 1)
    }

    fn fresh_dim(&mut self) -> Dim {
        self.dims.push(Cell::new(false));
        Dim::variable(self.dims.len() as u32 - 1)
    }

    /// `ty` with what is known about an outermost variable.
    pub(super) fn shallow(&mut self, ty: Type) -> Type {
        let mut root = ty;
        while let TypeData::Variable(index) = *root.data() {
            match self.types[index as usize].binding {
                Some(next) => root = next,
                None => break,
            }
        }
        // Path compression.
        let mut at = ty;
        while let TypeData::Variable(index) = *at.data() {
            match self.types[index as usize].binding.replace(root) {
                Some(next) if next != root => at = next,
                Some(_) => break,
                None => {
                    self.types[index as usize].binding = None;
                    break;
                }
            }
        }
        root
    }

    fn shallow_dim(&mut self, dim: Dim) -> Dim {
        let mut root = dim;
        while let Some(index) = dim_variable(root) {
            match self.dims[index as usize].binding {
                Some(next) => root = next,
                None => break,
            }
        }
        if let (Some(index), true) = (dim_variable(dim), root != dim) {
            self.dims[index as usize].binding = Some(root);
        }
        root
    }

    /// `ty` with everything known filled in.
    pub(crate) fn resolve(&mut self, ty: Type) -> Type {
        if !ty.facts().has_variable {
            return ty;
        }
        let mut memo = std::mem::take(&mut self.resolved);
        let ty = rebuild_with(ty, &mut Resolve(self), &mut memo);
        self.resolved = memo;
        ty
    }

    /// How much work on types this inference has done so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Something more is known: what was resolved before may not be up to date.
    fn forget(&mut self) {
        if !self.resolved.is_empty() {
            // A new map, since clearing a large one costs its size.
            self.resolved = FxHashMap::default();
        }
    }

    /// `dim` with everything known filled in.
    pub(super) fn resolve_dim(&mut self, dim: Dim) -> Dim {
        match dim {
            Dim::Expr(_) => rebuild_dim(dim, &mut Resolve(self)),
            _ => dim,
        }
    }

    /// `ty` as it is written into a body: what is still open becomes unknown, and extents `?`.
    pub(super) fn close(&mut self, ty: Type) -> Type {
        let ty = self.resolve(ty);
        let mut memo = std::mem::take(&mut self.closed);
        let ty = rebuild_with(ty, &mut Close(self), &mut memo);
        self.closed = memo;
        ty
    }

    /// `ty` with a new variable for each unknown part.
    pub(super) fn open(&mut self, ty: Type, poisoned: bool) -> Type {
        match ty.facts().has_unknown {
            true => rebuild(ty, &mut Open { solver: self, poisoned }),
            false => ty,
        }
    }

    /// The unbound variables of `ty`, in order of first occurrence.
    pub(super) fn variables(&mut self, ty: Type) -> Vec<Variable> {
        let ty = self.resolve(ty);
        let mut found = Vec::new();
        let mut seen: FxHashSet<Type> = FxHashSet::default();
        let mut known: FxHashSet<Variable> = FxHashSet::default();
        let mut add = |variable| {
            if known.insert(variable) {
                found.push(variable);
            }
        };
        let mut pending = vec![ty];
        while let Some(ty) = pending.pop() {
            self.steps += 1;
            if !ty.facts().has_variable || !seen.insert(ty) {
                continue;
            }
            if let TypeData::Variable(index) = *ty.data() {
                add(Variable::Type(index));
            }
            for_each_dim(ty, |dim| {
                for_each_dim_leaf(dim, |leaf| {
                    if let DimExprData::Variable(index) = leaf {
                        add(Variable::Dim(index));
                    }
                });
            });
            let start = pending.len();
            for_each_part(ty, |part| pending.push(part));
            pending[start..].reverse();
        }
        found
    }

    /// Lets `relation` be woken when `variable` becomes known.
    pub(super) fn wait(&mut self, variable: Variable, relation: RelationId) {
        match variable {
            Variable::Type(index) => self.types[index as usize].waiters.push(relation),
            Variable::Dim(index) => self.dims[index as usize].waiters.push(relation),
        }
    }

    /// Marks an unbound variable as reported.
    pub(super) fn poison(&mut self, variable: Variable) {
        match variable {
            Variable::Type(index) => self.types[index as usize].poisoned = true,
            Variable::Dim(index) => self.dims[index as usize].poisoned = true,
        }
    }

    /// Poisons all variables of the resolved type `ty`; whether one of them was poisoned before.
    /// `done` are the types for which this has been called since something became known.
    pub(super) fn poison_all(&mut self, ty: Type, done: &mut FxHashSet<Type>) -> bool {
        let mut before = false;
        let mut inside: FxHashSet<Type> = FxHashSet::default();
        let mut found: Vec<Variable> = Vec::new();
        let mut pending = vec![ty];
        while let Some(ty) = pending.pop() {
            self.steps += 1;
            if !ty.facts().has_variable {
                continue;
            }
            if done.contains(&ty) {
                before = true;
                continue;
            }
            if !inside.insert(ty) {
                continue;
            }
            if let TypeData::Variable(index) = *ty.data() {
                found.push(Variable::Type(index));
            }
            for_each_dim(ty, |dim| {
                for_each_dim_leaf(dim, |leaf| {
                    if let DimExprData::Variable(index) = leaf {
                        found.push(Variable::Dim(index));
                    }
                });
            });
            for_each_part(ty, |part| pending.push(part));
        }
        before |= found.iter().any(|variable| self.is_poisoned(*variable));
        found.into_iter().for_each(|variable| self.poison(variable));
        done.extend(inside);
        before
    }

    /// Whether what `variable` comes from has been reported as wrong.
    pub(super) fn is_poisoned(&self, variable: Variable) -> bool {
        match variable {
            Variable::Type(index) => self.types[index as usize].poisoned,
            Variable::Dim(index) => self.dims[index as usize].poisoned,
        }
    }

    /// Makes an unbound variable the parameter `name`.
    pub(super) fn generalise(&mut self, variable: Variable, name: Symbol) {
        match variable {
            Variable::Type(index) => self.set(index, Type::parameter(name)),
            Variable::Dim(index) => self.set_dim(index, Dim::parameter(name)),
        }
    }

    fn set(&mut self, index: u32, ty: Type) {
        self.forget();
        let depth = self.depth(ty);
        let cell = &mut self.types[index as usize];
        cell.binding = Some(ty);
        cell.depth = depth;
        let waiters = std::mem::take(&mut cell.waiters);
        if let TypeData::Variable(other) = *ty.data() {
            // Two unknowns that became one: nothing is known that a relation could use.
            let poisoned = self.types[index as usize].poisoned;
            let other = &mut self.types[other as usize];
            other.poisoned |= poisoned;
            other.waiters.extend(waiters);
        } else {
            self.woken.extend(waiters);
        }
    }

    fn set_dim(&mut self, index: u32, dim: Dim) {
        self.forget();
        let cell = &mut self.dims[index as usize];
        cell.binding = Some(dim);
        let (waiters, poisoned) = (std::mem::take(&mut cell.waiters), cell.poisoned);
        self.woken.extend_from_slice(&waiters);
        if let Some(other) = dim_variable(dim) {
            let other = &mut self.dims[other as usize];
            other.poisoned |= poisoned;
            other.waiters.extend(waiters);
        }
    }

    /// Makes an unbound variable `ty`, unless `ty` contains it or becomes too deep.
    fn bind(&mut self, index: u32, ty: Type) -> Result<(), Mismatch> {
        let Summary { newest, depth } = self.summary(ty);
        if depth > MAX_TYPE_DEPTH {
            return Err(Mismatch::Deep);
        }
        // What older variables lead to, but for those in disorder, is older still. So a variable
        // that is newer than all of it does not occur in it.
        if Some(index) > newest.max(self.disorder) {
            self.set(index, ty);
            return Ok(());
        }
        let resolved = self.resolve(ty);
        if resolved.facts().depth > MAX_TYPE_DEPTH {
            return Err(Mismatch::Deep);
        }
        if resolved.facts().has_variable
            && self.variables(resolved).contains(&Variable::Type(index))
        {
            return Err(Mismatch::Infinite);
        }
        self.disorder = self.disorder.max(self.summary(resolved).newest);
        self.set(index, resolved);
        Ok(())
    }

    /// The levels of nesting of `ty`, at least: what variables stand for may have become deeper.
    pub(super) fn depth(&mut self, ty: Type) -> u32 {
        self.summary(ty).depth
    }

    /// `ty` with everything known filled in, where that is little work.
    pub(super) fn settle(&mut self, ty: Type) -> Type {
        const SMALL: u32 = 8;
        let ty = self.shallow(ty);
        if self.depth(ty) <= SMALL { self.resolve(ty) } else { ty }
    }

    /// A part is looked at once, whatever it is part of.
    fn summary(&mut self, ty: Type) -> Summary {
        if !ty.facts().has_variable {
            return Summary { newest: None, depth: ty.facts().depth };
        }
        let mut steps = vec![(ty, false)];
        while let Some((ty, parts_done)) = steps.pop() {
            if self.summaries.contains_key(&ty) && !is_variable(ty) {
                continue;
            }
            self.steps += 1;
            if let TypeData::Variable(index) = *ty.data() {
                let depth = self.types[index as usize].depth;
                self.summaries.insert(ty, Summary { newest: Some(index), depth });
            } else if !parts_done {
                steps.push((ty, true));
                for_each_part(ty, |part| {
                    if part.facts().has_variable {
                        steps.push((part, false));
                    }
                });
            } else {
                let mut all = Summary::default();
                for_each_part(ty, |part| {
                    let leaf = Summary { newest: None, depth: part.facts().depth };
                    let part = self.summaries.get(&part).copied().unwrap_or(leaf);
                    all.newest = all.newest.max(part.newest);
                    all.depth = all.depth.max(part.depth);
                });
                all.depth += 1;
                self.summaries.insert(ty, all);
            }
        }
        self.summaries.get(&ty).copied().unwrap_or_default()
    }

    /// Makes `found` fit where `expected` is required. The first mismatch is returned, after
    /// everything that does fit has been unified.
    pub(crate) fn unify(&mut self, expected: Type, found: Type) -> Result<(), Mismatch> {
        if expected == found {
            return Ok(());
        }
        let mut result = Ok(());
        let mut seen: FxHashSet<(Type, Type)> = FxHashSet::default();
        let mut pending = vec![(expected, found)];
        while let Some((expected, found)) = pending.pop() {
            self.steps += 1;
            let (expected, found) = (self.shallow(expected), self.shallow(found));
            if expected == found || expected.is_unknown() || found.is_unknown() {
                continue;
            }
            let leaf = |ty: Type| matches!(ty.data(), TypeData::Variable(_) | TypeData::Tensor(_));
            if !leaf(expected) && !leaf(found) && !seen.insert((expected, found)) {
                continue;
            }
            let mismatch = Err(Mismatch::Types(expected, found));
            let outcome = match (expected.data(), found.data()) {
                (&TypeData::Variable(a), &TypeData::Variable(b)) => {
                    // The variable with fewer waiters joins the other; the newer one the older.
                    let few = |i: u32| (self.types[i as usize].waiters.len(), std::cmp::Reverse(i));
                    let (from, to) = if few(a) < few(b) { (a, b) } else { (b, a) };
                    if to > from {
                        self.disorder = self.disorder.max(Some(to));
                    }
                    self.set(from, Type::variable(to));
                    Ok(())
                }
                (&TypeData::Variable(index), _) => self.bind(index, found),
                (_, &TypeData::Variable(index)) => self.bind(index, expected),
                (TypeData::Tensor(a), TypeData::Tensor(b)) => {
                    if a.dtype != b.dtype || a.rank() != b.rank() {
                        mismatch
                    } else {
                        let dims = a.shape.iter().zip(&b.shape);
                        dims.map(|(a, b)| self.unify_dims(*a, *b))
                            .reduce(Result::and)
                            .unwrap_or(Ok(()))
                    }
                }
                (TypeData::Tuple(a), TypeData::Tuple(b)) if a.len() == b.len() => {
                    pending.extend(a.iter().copied().zip(b.iter().copied()).rev());
                    Ok(())
                }
                (TypeData::Ref(a), TypeData::Ref(b)) => {
                    pending.push((*a, *b));
                    Ok(())
                }
                (TypeData::Function(a), TypeData::Function(b)) => {
                    self.unify_functions(expected, a, found, b, &mut pending)
                }
                (
                    TypeData::Named { name: a, params: x },
                    TypeData::Named { name: b, params: y },
                ) if a == b && x.len() == y.len() => x
                    .iter()
                    .zip(y)
                    .map(|pair| match pair {
                        (TypeParam::Type(a), TypeParam::Type(b)) => {
                            pending.push((*a, *b));
                            Ok(())
                        }
                        (TypeParam::Dim(a), TypeParam::Dim(b)) => self.unify_dims(*a, *b),
                        (a, b) if a == b => Ok(()),
                        _ => mismatch,
                    })
                    .reduce(Result::and)
                    .unwrap_or(Ok(())),
                _ => mismatch,
            };
            result = result.and(outcome);
        }
        result
    }

    fn unify_functions(
        &mut self,
        expected: Type,
        a: &'static FunctionType,
        found: Type,
        b: &'static FunctionType,
        pending: &mut Vec<(Type, Type)>,
    ) -> Result<(), Mismatch> {
        let mismatch = Err(Mismatch::Types(expected, found));
        if a.params.len() != b.params.len() {
            return mismatch;
        }
        let found = match (a.type_params.len(), b.type_params.len()) {
            (0, 0) => found,
            // A polymorphic function may stand for each of its instances.
            (0, _) => self.instantiate(found, &[]),
            (n, m) if n == m => {
                let shape = shape_parameters(found);
                let names = a.type_params.iter().zip(&b.type_params);
                let renames = names.map(|(to, from)| (*from, parameter(*to, shape.contains(from))));
                substitute(without_type_params(found), &renames.collect())
            }
            _ => return mismatch,
        };
        let Some(b) = found.as_function() else { return mismatch };
        pending.push((a.result, b.result));
        // A function is given its parameters: what is expected and what is found change places.
        pending.extend(b.params.iter().copied().zip(a.params.iter().copied()).rev());
        Ok(())
    }

    /// Makes two extents equal. `?` fits everything.
    pub(super) fn unify_dims(&mut self, expected: Dim, found: Dim) -> Result<(), Mismatch> {
        if expected == found {
            return Ok(());
        }
        let (a, b) = (self.resolve_dim(expected), self.resolve_dim(found));
        if a == b {
            return Ok(());
        }
        if let Some(index) = dim_variable(a) {
            return self.bind_dim(index, b, Mismatch::Dims(a, b));
        }
        if let Some(index) = dim_variable(b) {
            return self.bind_dim(index, a, Mismatch::Dims(a, b));
        }
        match (a, b) {
            (Dim::Any, _) | (_, Dim::Any) => Ok(()),
            (Dim::Known(_), Dim::Known(_)) => Err(Mismatch::Dims(a, b)),
            _ => match (solve_for_variable(a, b), a.facts().has_variable || b.facts().has_variable)
            {
                (Some((index, value)), _) => self.bind_dim(index, value, Mismatch::Dims(a, b)),
                (None, true) => {
                    self.equations.push((a, b));
                    Ok(())
                }
                (None, false) => match Polynomial::of(a) == Polynomial::of(b) {
                    true => Ok(()),
                    false => Err(Mismatch::Dims(a, b)),
                },
            },
        }
    }

    fn bind_dim(&mut self, index: u32, dim: Dim, mismatch: Mismatch) -> Result<(), Mismatch> {
        let mut inside = false;
        for_each_dim_leaf(dim, |leaf| inside |= leaf == DimExprData::Variable(index));
        if inside {
            // `n = n + 1` has no solution, `n = n * 1` was folded; the rest is left alone.
            return Err(mismatch);
        }
        self.set_dim(index, dim);
        Ok(())
    }

    /// Tries the equations again that could not be solved when they came up. Returns those that
    /// contradict each other.
    pub(super) fn retry_equations(&mut self) -> Vec<Mismatch> {
        let mut failed = Vec::new();
        loop {
            let equations = std::mem::take(&mut self.equations);
            let before = equations.len();
            for (a, b) in equations {
                if let Err(mismatch) = self.unify_dims(a, b) {
                    failed.push(mismatch);
                }
            }
            if self.equations.len() >= before || self.equations.is_empty() {
                return failed;
            }
        }
    }

    /// The polymorphic function type `ty` with its type parameters replaced by `given` or, where
    /// none are given, by new variables. Other types stay as they are.
    pub(crate) fn instantiate(&mut self, ty: Type, given: &[TypeParam]) -> Type {
        let ty = self.resolve(ty);
        let Some(function) = ty.as_function() else { return ty };
        if function.type_params.is_empty() {
            return ty;
        }
        let shape = shape_parameters(ty);
        let map = function.type_params.iter().enumerate().map(|(i, name)| {
            let is_shape = shape.contains(name);
            let value = match given.get(i) {
                Some(param) if is_shape => as_dim(*param).map_or(*param, TypeParam::Dim),
                Some(param) => *param,
                None if is_shape => TypeParam::Dim(self.fresh_dim()),
                None => TypeParam::Type(self.fresh()),
            };
            (*name, value)
        });
        let map: Substitution = map.collect();
        substitute(without_type_params(ty), &map)
    }

    /// New variables for type parameters, `true` for those that are extents.
    pub(super) fn fresh_params(
        &mut self,
        kinds: impl IntoIterator<Item = bool>,
    ) -> SmallVec<[TypeParam; 2]> {
        let fresh = |is_shape| match is_shape {
            true => TypeParam::Dim(self.fresh_dim()),
            false => TypeParam::Type(self.fresh()),
        };
        kinds.into_iter().map(fresh).collect()
    }

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
        self.unify(a, b)?;
        let (a, b) = (self.resolve(a), self.resolve(b));
        Ok(if a == b || !b.facts().has_any { a } else { with_any_of(a, b) })
    }
}

/// `a`, with `?` for the extents of tensors, in tuples too, that are `?` in `b`.
fn with_any_of(a: Type, b: Type) -> Type {
    enum Step {
        Visit(Type, Type),
        Build(usize),
    }
    let mut done: Vec<Type> = Vec::new();
    let mut memo: FxHashMap<(Type, Type), Type> = FxHashMap::default();
    let mut open: Vec<(Type, Type)> = Vec::new();
    let mut steps = vec![Step::Visit(a, b)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Visit(a, b) => match (a.data(), b.data()) {
                _ if a == b || !b.facts().has_any => done.push(a),
                (TypeData::Tensor(x), TypeData::Tensor(y)) if x.rank() == y.rank() => {
                    let either = |(a, b): (&Dim, &Dim)| if *b == Dim::Any { *b } else { *a };
                    done.push(Type::tensor(x.shape.iter().zip(&y.shape).map(either), x.dtype));
                }
                (TypeData::Tuple(x), TypeData::Tuple(y)) if x.len() == y.len() => {
                    match memo.get(&(a, b)) {
                        Some(known) => done.push(*known),
                        None => {
                            open.push((a, b));
                            steps.push(Step::Build(x.len()));
                            let fields = x.iter().zip(y).rev();
                            steps.extend(fields.map(|(a, b)| Step::Visit(*a, *b)));
                        }
                    }
                }
                _ => done.push(a),
            },
            Step::Build(fields) => {
                let tuple = Type::tuple(done.split_off(done.len() - fields));
                if let Some(pair) = open.pop() {
                    memo.insert(pair, tuple);
                }
                done.push(tuple);
            }
        }
    }
    done.pop().unwrap_or(a)
}

fn is_variable(ty: Type) -> bool {
    matches!(ty.data(), TypeData::Variable(_))
}

fn dim_variable(dim: Dim) -> Option<u32> {
    match dim {
        Dim::Expr(expr) => match expr.data() {
            DimExprData::Variable(index) => Some(index),
            _ => None,
        },
        _ => None,
    }
}

/// The variable and its value when `a = b` is `v + k = n`, `v - k = n`, `v * k = n` or such.
fn solve_for_variable(a: Dim, b: Dim) -> Option<(u32, Dim)> {
    let (mut open, mut value) = if a.facts().has_variable { (a, b) } else { (b, a) };
    if value.facts().has_variable {
        return None;
    }
    loop {
        let Dim::Expr(expr) = open else { return None };
        match expr.data() {
            DimExprData::Variable(index) => return Some((index, value)),
            DimExprData::Parameter(_) => return None,
            DimExprData::Binary(op, x, y) => {
                let (inner, other, left) = match (x.facts().has_variable, y.facts().has_variable) {
                    (true, false) => (x, y, true),
                    (false, true) => (y, x, false),
                    _ => return None,
                };
                value = match (op, left) {
                    (DimOp::Add, _) => Dim::binary(DimOp::Sub, value, other),
                    (DimOp::Sub, true) => Dim::binary(DimOp::Add, value, other),
                    (DimOp::Sub, false) => Dim::binary(DimOp::Sub, other, value),
                    (DimOp::Mul, _) => match (value, other) {
                        (Dim::Known(n), Dim::Known(k)) if k != 0 && n % k == 0 => Dim::Known(n / k),
                        _ => return None,
                    },
                    _ => return None,
                };
                open = inner;
            }
        }
    }
}

/// A sum of products of atoms, in which every extent without division is equal to every other way
/// of writing it. Atoms are parameters, and quotients and the like as they are written.
#[derive(PartialEq, Eq, Debug)]
struct Polynomial(std::collections::BTreeMap<Vec<String>, i64>);

impl Polynomial {
    /// More terms than this are compared as they are written.
    const MAX_TERMS: usize = 64;

    fn atom(dim: Dim) -> Polynomial {
        Polynomial([(vec![dim.to_string()], 1)].into())
    }

    fn of(dim: Dim) -> Polynomial {
        struct Parts(FxHashMap<ir_core::DimExpr, Polynomial>);
        impl Parts {
            fn get(&self, dim: Dim) -> Option<Polynomial> {
                match dim {
                    Dim::Known(0) => Some(Polynomial([].into())),
                    Dim::Known(n) => Some(Polynomial([(vec![], n)].into())),
                    Dim::Any => Some(Polynomial::atom(dim)),
                    Dim::Expr(expr) => self.0.get(&expr).map(|p| Polynomial(p.0.clone())),
                }
            }
        }
        let mut parts = Parts(FxHashMap::default());
        let mut steps = vec![dim];
        while let Some(&top) = steps.last() {
            let Dim::Expr(expr) = top else { break };
            let polynomial = match expr.data() {
                DimExprData::Binary(op @ (DimOp::Add | DimOp::Sub | DimOp::Mul), a, b) => {
                    match (parts.get(a), parts.get(b)) {
                        (None, _) => {
                            steps.push(a);
                            continue;
                        }
                        (_, None) => {
                            steps.push(b);
                            continue;
                        }
                        (Some(x), Some(y)) => {
                            Polynomial::combine(op, &x, &y).unwrap_or_else(|| Polynomial::atom(top))
                        }
                    }
                }
                _ => Polynomial::atom(top),
            };
            parts.0.insert(expr, polynomial);
            steps.pop();
        }
        parts.get(dim).unwrap_or_else(|| Polynomial::atom(dim))
    }

    fn combine(op: DimOp, x: &Polynomial, y: &Polynomial) -> Option<Polynomial> {
        let mut sum = std::collections::BTreeMap::new();
        let mut add = |atoms: Vec<String>, factor: i64| {
            let term: &mut i64 = sum.entry(atoms).or_default();
            *term = term.checked_add(factor)?;
            Some(())
        };
        match op {
            DimOp::Mul => {
                for (a, n) in &x.0 {
                    for (b, m) in &y.0 {
                        let mut atoms = [a.as_slice(), b.as_slice()].concat();
                        atoms.sort_unstable();
                        add(atoms, n.checked_mul(*m)?)?;
                    }
                }
            }
            _ => {
                let sign = if op == DimOp::Sub { -1 } else { 1 };
                for (atoms, n) in &x.0 {
                    add(atoms.clone(), *n)?;
                }
                for (atoms, n) in &y.0 {
                    add(atoms.clone(), n.checked_mul(sign)?)?;
                }
            }
        }
        sum.retain(|_, factor| *factor != 0);
        (sum.len() <= Polynomial::MAX_TERMS).then_some(Polynomial(sum))
    }
}

/// What type and shape parameters stand for.
pub(super) type Substitution = FxHashMap<Symbol, TypeParam>;

/// `ty` with parameters replaced.
pub(super) fn substitute(ty: Type, map: &Substitution) -> Type {
    match map.is_empty() {
        true => ty,
        false => rebuild(ty, &mut Substitute(map)),
    }
}

/// The names used as extents in `ty`; its other parameters are types.
pub(super) fn shape_parameters(ty: Type) -> FxHashSet<Symbol> {
    let mut names = FxHashSet::default();
    let mut seen: FxHashSet<Type> = FxHashSet::default();
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        if !ty.facts().has_parameter || !seen.insert(ty) {
            continue;
        }
        for_each_dim(ty, |dim| {
            for_each_dim_leaf(dim, |leaf| {
                if let DimExprData::Parameter(name) = leaf {
                    names.insert(name);
                }
            });
        });
        for_each_part(ty, |part| pending.push(part));
    }
    names
}

/// A parameter of a named type read as an extent, where it can be one.
pub(super) fn as_dim(param: TypeParam) -> Option<Dim> {
    match param {
        TypeParam::Dim(dim) => Some(dim),
        TypeParam::Int(n) => Some(Dim::Known(n)),
        TypeParam::Type(ty) => match *ty.data() {
            TypeData::Parameter(name) => Some(Dim::parameter(name)),
            _ => None,
        },
        TypeParam::Symbol(_) | TypeParam::DType(_) => None,
    }
}

fn parameter(name: Symbol, is_shape: bool) -> TypeParam {
    match is_shape {
        true => TypeParam::Dim(Dim::parameter(name)),
        false => TypeParam::Type(Type::parameter(name)),
    }
}

/// The function type `ty` without its binder.
pub(super) fn without_type_params(ty: Type) -> Type {
    match ty.as_function() {
        Some(function) => Type::function(function.params.iter().copied(), function.result),
        None => ty,
    }
}

struct Resolve<'a>(&'a mut Solver);

impl Rebuild for Resolve<'_> {
    const FOLLOW_DIMS: bool = true;
    fn step(&mut self) {
        self.0.steps += 1;
    }
    fn relevant(&self, ty: Type) -> bool {
        ty.facts().has_variable
    }
    fn leaf(&mut self, ty: Type) -> Leaf {
        match ty.data() {
            TypeData::Variable(_) => match self.0.shallow(ty) {
                same if same == ty => Leaf::Becomes(ty),
                other if matches!(other.data(), TypeData::Variable(_)) => Leaf::Becomes(other),
                other => Leaf::Follow(other),
            },
            _ => Leaf::Open,
        }
    }
    fn dim(&mut self, dim: DimExprData) -> Option<Dim> {
        let DimExprData::Variable(index) = dim else { return None };
        let variable = Dim::variable(index);
        Some(self.0.shallow_dim(variable)).filter(|dim| *dim != variable)
    }
}

struct Close<'a>(&'a mut Solver);

impl Rebuild for Close<'_> {
    fn step(&mut self) {
        self.0.steps += 1;
    }
    fn relevant(&self, ty: Type) -> bool {
        ty.facts().has_variable
    }
    fn leaf(&mut self, ty: Type) -> Leaf {
        match ty.data() {
            TypeData::Variable(_) => Leaf::Becomes(Type::unknown()),
            _ => Leaf::Open,
        }
    }
    fn dim(&mut self, dim: DimExprData) -> Option<Dim> {
        matches!(dim, DimExprData::Variable(_)).then_some(Dim::Any)
    }
}

struct Open<'a> {
    solver: &'a mut Solver,
    poisoned: bool,
}

impl Rebuild for Open<'_> {
    // Two unknown parts are unknown independently of each other.
    const SHARING: bool = false;
    fn step(&mut self) {
        self.solver.steps += 1;
    }
    fn relevant(&self, ty: Type) -> bool {
        ty.facts().has_unknown
    }
    fn leaf(&mut self, ty: Type) -> Leaf {
        match (ty.data(), self.poisoned) {
            (TypeData::Unknown, true) => Leaf::Becomes(self.solver.fresh_poisoned()),
            (TypeData::Unknown, false) => Leaf::Becomes(self.solver.fresh()),
            _ => Leaf::Open,
        }
    }
    fn dim(&mut self, _: DimExprData) -> Option<Dim> {
        None
    }
}

struct Substitute<'a>(&'a Substitution);

impl Rebuild for Substitute<'_> {
    fn relevant(&self, ty: Type) -> bool {
        ty.facts().has_parameter
    }
    fn leaf(&mut self, ty: Type) -> Leaf {
        match ty.data() {
            TypeData::Parameter(name) => match self.0.get(name) {
                Some(TypeParam::Type(new)) => Leaf::Becomes(*new),
                _ => Leaf::Becomes(ty),
            },
            TypeData::Function(function) if !function.type_params.is_empty() => {
                Leaf::Becomes(substitute_under_binder(ty, function, self.0))
            }
            _ => Leaf::Open,
        }
    }
    fn dim(&mut self, dim: DimExprData) -> Option<Dim> {
        let DimExprData::Parameter(name) = dim else { return None };
        as_dim(*self.0.get(&name)?)
    }
}

/// `map` applied inside a polymorphic function type, whose own parameters get new names so that
/// they neither are replaced nor capture a name in what is put in. Recursion goes through
/// [`substitute`], once per nested binder, and so is bounded by [`MAX_TYPE_DEPTH`].
fn substitute_under_binder(ty: Type, function: &FunctionType, map: &Substitution) -> Type {
    let shape = shape_parameters(ty);
    let captured = |name: Symbol| {
        map.values().any(|value| match value {
            TypeParam::Type(ty) => ty.facts().has_parameter && mentions(*ty, name),
            TypeParam::Dim(dim) => {
                let mut found = false;
                for_each_dim_leaf(*dim, |leaf| found |= leaf == DimExprData::Parameter(name));
                found
            }
            _ => false,
        })
    };
    let mut inner = map.clone();
    let mut names = Vec::with_capacity(function.type_params.len());
    for &name in &function.type_params {
        let mut new = name;
        let mut number = 1;
        while captured(new) || (new != name && mentions(ty, new)) || names.contains(&new) {
            new = Symbol::new(&format!("{name}{number}"));
            number += 1;
        }
        names.push(new);
        inner.insert(name, parameter(new, shape.contains(&name)));
    }
    let body = substitute(without_type_params(ty), &inner);
    match body.as_function() {
        Some(body) => Type::new(TypeData::Function(FunctionType {
            type_params: names.into(),
            params: body.params.clone(),
            result: body.result,
        })),
        None => ty,
    }
}

fn mentions(ty: Type, name: Symbol) -> bool {
    let mut seen: FxHashSet<Type> = FxHashSet::default();
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        if !ty.facts().has_parameter || !seen.insert(ty) {
            continue;
        }
        if *ty.data() == TypeData::Parameter(name) {
            return true;
        }
        for_each_part(ty, |part| pending.push(part));
    }
    shape_parameters(ty).contains(&name)
}
