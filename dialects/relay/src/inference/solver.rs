//! Unification: a union-find over type and extent variables that knows which relations wait for
//! which variable.

use ir_core::types::MAX_TYPE_DEPTH;
use ir_core::{Dim, DimExprData, FunctionType, SmallVec, Symbol, Type, TypeData, TypeParam};
use rustc_hash::{FxHashMap, FxHashSet};

use super::environment::DeclaredTypes;
use super::extents::dim_variable;
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

/// How what is found must relate to what is expected, where one of them has `?`.
///
/// **The type of a value describes it**: so an extent may be forgotten, and `?` becomes a known
/// extent only where that is checked when the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mode {
    /// What an operator asks of its operands. It looks at them when it runs, so `?` fits.
    Operand,
    /// A value that goes somewhere, or a field of it: extents may be forgotten, and checked.
    Value,
    /// What a function takes or gives, or what data holds: extents may be forgotten only, since
    /// nobody sees all of these values.
    Part,
    /// What a reference holds: it is both written and read, and so neither.
    Same,
}

/// How a value fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// As it is.
    Whole,
    /// Where some of its extents, which are `?`, turn out to be those expected.
    Checked,
}

impl Fit {
    fn and(self, other: Fit) -> Fit {
        if self == Fit::Checked { self } else { other }
    }
}

/// The variables of one inference and what is known about them.
pub(crate) struct Solver<'t> {
    pub(super) data_types: &'t dyn DeclaredTypes,
    types: Vec<Cell<Type>>,
    dims: Vec<Cell<Dim>>,
    /// The type variables that still may become wider.
    pub(super) soft: std::ops::Range<u32>,
    /// Whether one has.
    pub(super) widened: bool,
    /// Relations that may have become solvable.
    pub(super) woken: Vec<RelationId>,
    /// Extents that must be equal and cannot be compared yet.
    pub(super) equations: Vec<(Dim, Dim, Mode)>,
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

impl<'t> Solver<'t> {
    pub(crate) fn new(data_types: &'t dyn DeclaredTypes) -> Solver<'t> {
        Solver {
            data_types,
            types: Vec::new(),
            dims: Vec::new(),
            soft: 0..0,
            widened: false,
            woken: Vec::new(),
            equations: Vec::new(),
            resolved: FxHashMap::default(),
            closed: FxHashMap::default(),
            summaries: FxHashMap::default(),
            disorder: None,
            steps: 0,
        }
    }

    /// The number of type variables.
    pub(crate) fn type_count(&self) -> u32 {
        self.types.len() as u32
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

    pub(super) fn set_dim(&mut self, index: u32, dim: Dim) {
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

    /// Makes an operand of type `found` fit what its operator asks for.
    pub(crate) fn refine(&mut self, expected: Type, found: Type) -> Result<(), Mismatch> {
        self.relate(expected, found, Mode::Operand).map(|_| ())
    }

    /// Makes a value of type `found` fit where `expected` is required and can be checked.
    pub(crate) fn fit(&mut self, expected: Type, found: Type) -> Result<Fit, Mismatch> {
        self.relate(expected, found, Mode::Value)
    }

    /// Makes a value of type `found` fit where `expected` is required, as it is.
    pub(crate) fn flow(&mut self, expected: Type, found: Type) -> Result<(), Mismatch> {
        self.relate(expected, found, Mode::Part).map(|_| ())
    }

    /// Makes `found` fit where `expected` is required. The first mismatch is returned, after
    /// everything that does fit has been unified.
    pub(super) fn relate(
        &mut self,
        expected: Type,
        found: Type,
        mode: Mode,
    ) -> Result<Fit, Mismatch> {
        if expected == found {
            return Ok(Fit::Whole);
        }
        let mut result = Ok(Fit::Whole);
        let mut seen: FxHashSet<(Type, Type, Mode)> = FxHashSet::default();
        let mut pending = vec![(expected, found, mode)];
        while let Some((expected, found, mode)) = pending.pop() {
            self.steps += 1;
            if let (&TypeData::Variable(index), Mode::Value | Mode::Part) = (expected.data(), mode)
                && let Some(wider) = self.wider(index, found)
            {
                self.forget();
                self.types[index as usize].binding = Some(wider);
                self.widened = true;
            }
            let (expected, found) = (self.shallow(expected), self.shallow(found));
            if expected == found || expected.is_unknown() || found.is_unknown() {
                continue;
            }
            let leaf = |ty: Type| matches!(ty.data(), TypeData::Variable(_) | TypeData::Tensor(_));
            if !leaf(expected) && !leaf(found) && !seen.insert((expected, found, mode)) {
                continue;
            }
            let outcome = self.relate_shallow(expected, found, mode, &mut pending);
            result = match (result, outcome) {
                (Ok(before), Ok(now)) => Ok(before.and(now)),
                (Err(first), _) | (_, Err(first)) => Err(first),
            };
        }
        result
    }

    /// The same for what is outermost in two different types; `pending` gets their parts.
    fn relate_shallow(
        &mut self,
        expected: Type,
        found: Type,
        mode: Mode,
        pending: &mut Vec<(Type, Type, Mode)>,
    ) -> Result<Fit, Mismatch> {
        let mismatch = Err(Mismatch::Types(expected, found));
        // What is inside something that is no tuple has no place at which to check it.
        let inner = if mode == Mode::Value { Mode::Part } else { mode };
        match (expected.data(), found.data()) {
            (&TypeData::Variable(a), &TypeData::Variable(b)) => {
                // The variable with fewer waiters joins the other; the newer one the older.
                let few = |i: u32| (self.types[i as usize].waiters.len(), std::cmp::Reverse(i));
                let (from, to) = if few(a) < few(b) { (a, b) } else { (b, a) };
                if to > from {
                    self.disorder = self.disorder.max(Some(to));
                }
                self.set(from, Type::variable(to));
                Ok(Fit::Whole)
            }
            (&TypeData::Variable(index), _) => self.bind(index, found).map(|()| Fit::Whole),
            (_, &TypeData::Variable(index)) => self.bind(index, expected).map(|()| Fit::Whole),
            (TypeData::Tensor(a), TypeData::Tensor(b)) => {
                if a.dtype != b.dtype || a.rank() != b.rank() {
                    return mismatch;
                }
                let dims = a.shape.iter().zip(&b.shape);
                all(dims.map(|(a, b)| self.relate_dims(*a, *b, mode)))
            }
            (TypeData::Tuple(a), TypeData::Tuple(b)) if a.len() == b.len() => {
                let fields = a.iter().copied().zip(b.iter().copied()).rev();
                pending.extend(fields.map(|(a, b)| (a, b, mode)));
                Ok(Fit::Whole)
            }
            (TypeData::Ref(a), TypeData::Ref(b)) => {
                let mode = if mode == Mode::Operand { mode } else { Mode::Same };
                pending.push((*a, *b, mode));
                Ok(Fit::Whole)
            }
            (TypeData::Function(a), TypeData::Function(b)) => {
                let found = self.instance_like(expected, a, found, b)?;
                let Some(b) = found.as_function() else { return mismatch };
                pending.push((a.result, b.result, inner));
                // A function is given its parameters: what is expected and what is found change
                // places.
                let params = b.params.iter().copied().zip(a.params.iter().copied()).rev();
                pending.extend(params.map(|(a, b)| (a, b, inner)));
                Ok(Fit::Whole)
            }
            (TypeData::Named { name: a, params: x }, TypeData::Named { name: b, params: y })
                if a == b && x.len() == y.len() =>
            {
                let fixed = inner == Mode::Part && !self.data_types.is_immutable(*a);
                let inner = if fixed { Mode::Same } else { inner };
                all(x.iter().zip(y).map(|pair| match pair {
                    (TypeParam::Type(a), TypeParam::Type(b)) => {
                        pending.push((*a, *b, inner));
                        Ok(Fit::Whole)
                    }
                    (a, b) if a == b => Ok(Fit::Whole),
                    // An extent may be written as if it were a type.
                    (a, b) => match (as_dim(*a), as_dim(*b)) {
                        (Some(a), Some(b)) => self.relate_dims(a, b, inner),
                        _ => mismatch,
                    },
                }))
            }
            _ => mismatch,
        }
    }

    /// The function type `found` with as many type parameters as `expected` has: those of it, or
    /// none.
    fn instance_like(
        &mut self,
        expected: Type,
        a: &'static FunctionType,
        found: Type,
        b: &'static FunctionType,
    ) -> Result<Type, Mismatch> {
        let mismatch = Err(Mismatch::Types(expected, found));
        if a.params.len() != b.params.len() {
            return mismatch;
        }
        match (a.type_params.len(), b.type_params.len()) {
            (0, 0) => Ok(found),
            // A polymorphic function may stand for each of its instances.
            (0, _) => Ok(self.instantiate(found, &[])),
            (n, m) if n == m => {
                let shape = shape_parameters(found);
                let names = a.type_params.iter().zip(&b.type_params);
                let renames = names.map(|(to, from)| (*from, parameter(*to, shape.contains(from))));
                Ok(substitute(without_type_params(found), &renames.collect()))
            }
            _ => mismatch,
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
}

/// How all parts together fit; the first mismatch, after all parts have been related.
fn all(parts: impl Iterator<Item = Result<Fit, Mismatch>>) -> Result<Fit, Mismatch> {
    let mut all = Ok(Fit::Whole);
    for part in parts {
        all = all.and_then(|all| Ok(all.and(part?)));
    }
    all
}

fn is_variable(ty: Type) -> bool {
    matches!(ty.data(), TypeData::Variable(_))
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

struct Resolve<'a, 't>(&'a mut Solver<'t>);

impl Rebuild for Resolve<'_, '_> {
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

struct Close<'a, 't>(&'a mut Solver<'t>);

impl Rebuild for Close<'_, '_> {
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

struct Open<'a, 't> {
    solver: &'a mut Solver<'t>,
    poisoned: bool,
}

impl Rebuild for Open<'_, '_> {
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
