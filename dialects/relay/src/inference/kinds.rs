//! Kinds: names in types exist, are applied to the right number of parameters, and stand either
//! for types or for extents.

use ir_core::diagnostics::did_you_mean;
use ir_core::{Diagnostic, Dim, DimExprData, SmallVec, Span, Symbol, Type, TypeData, TypeParam};
use rustc_hash::{FxHashMap, FxHashSet};

use super::codes;
use super::environment::DataTypes;
use super::rebuild::{for_each_dim, for_each_dim_leaf, for_each_part};
use super::solver::as_dim;
use crate::types::is_built_in;

/// What a parameter stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Type,
    Shape,
}

/// The type parameters in scope, innermost last, and what the type under check has shown of them.
#[derive(Clone, Default, Debug)]
pub(super) struct Scope {
    names: Vec<Symbol>,
    /// The places of each name among `names`, innermost last.
    places: FxHashMap<Symbol, SmallVec<[u32; 1]>>,
    /// The kinds that uses have shown, by place.
    kinds: FxHashMap<u32, Kind>,
}

/// Something wrong with a type.
pub(super) struct Problem {
    code: &'static str,
    message: String,
    help: String,
}

impl Problem {
    /// The diagnostic for the type of `subject`, at `span`.
    pub(super) fn into_diagnostic(self, span: Option<Span>, subject: &str) -> Diagnostic {
        Diagnostic::error(self.code, format!("in the type of {subject}: {}", self.message))
            .at(span)
            .help(self.help)
    }
}

impl Scope {
    /// Adds the parameters of a binder.
    pub(super) fn bind(&mut self, names: &[Symbol], problems: &mut Vec<Problem>) {
        let mut own: FxHashSet<Symbol> = FxHashSet::default();
        for name in names {
            if !own.insert(*name) {
                problems.push(Problem {
                    code: codes::DUPLICATE_PARAMETER,
                    message: format!("type parameter `{name}` is declared twice"),
                    help: "give the parameters different names".to_string(),
                });
            }
            self.places.entry(*name).or_default().push(self.names.len() as u32);
            self.names.push(*name);
        }
    }

    /// Makes the parameters of any kind again, for the next type.
    pub(super) fn forget_kinds(&mut self) {
        self.kinds.clear();
    }

    /// How many parameters there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Takes away the innermost parameters, so that `len` are left.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.names.len() > len
            && let Some(name) = self.names.pop()
        {
            self.kinds.remove(&(self.names.len() as u32));
            if let Some(places) = self.places.get_mut(&name) {
                places.pop();
            }
        }
    }

    fn learn(&mut self, name: Symbol, kind: Kind, problems: &mut Vec<Problem>) {
        let say = |kind| match kind {
            Kind::Type => "a type",
            Kind::Shape => "an extent",
        };
        let Some(place) = self.places.get(&name).and_then(|places| places.last()) else {
            let near = did_you_mean(name.as_str(), self.names.iter().map(|name| name.as_str()));
            return problems.push(Problem {
                code: codes::UNKNOWN_TYPE,
                message: format!("`{name}` is not a type parameter in scope"),
                help: near.unwrap_or_else(|| {
                    format!("declare it: `fn [{name}](…)` or `def @f[{name}](…)`")
                }),
            });
        };
        let known = *self.kinds.entry(*place).or_insert(kind);
        if known != kind {
            problems.push(Problem {
                code: codes::KIND,
                message: format!(
                    "`{name}` is used as {} here and as {} elsewhere",
                    say(kind),
                    say(known)
                ),
                help: "use two parameters".to_string(),
            });
        }
    }
}

/// Checks types against the declared data types. Types without parameters are checked once.
pub(super) struct Kinds<'a> {
    types: &'a DataTypes,
    checked: FxHashSet<Type>,
}

impl<'a> Kinds<'a> {
    pub(super) fn new(types: &'a DataTypes) -> Kinds<'a> {
        Kinds { types, checked: FxHashSet::default() }
    }

    /// Whether `ty` needs no check.
    pub(super) fn is_checked(&self, ty: Type) -> bool {
        ty.facts().depth == 1 && !ty.facts().has_parameter && ty.as_tensor().is_some()
            || self.checked.contains(&ty)
    }

    /// Checks `ty`, in which names are from `scope`; a name with several faults is reported for
    /// each once per type.
    pub(super) fn check(&mut self, ty: Type, scope: &mut Scope, problems: &mut Vec<Problem>) {
        let mut seen: FxHashSet<Type> = FxHashSet::default();
        enum Step {
            Visit(Type),
            Leave(usize),
        }
        let mut steps = vec![Step::Visit(ty)];
        while let Some(step) = steps.pop() {
            let ty = match step {
                Step::Leave(outer) => {
                    scope.truncate(outer);
                    continue;
                }
                Step::Visit(ty) => ty,
            };
            let free = !ty.facts().has_parameter;
            if free && self.checked.contains(&ty) || !seen.insert(ty) {
                continue;
            }
            let before = problems.len();
            if let Some(function) = ty.as_function().filter(|f| !f.type_params.is_empty()) {
                // Binders inside types open a scope of their own.
                steps.push(Step::Leave(scope.len()));
                scope.bind(&function.type_params, problems);
            }
            match ty.data() {
                TypeData::Parameter(name) => scope.learn(*name, Kind::Type, problems),
                TypeData::Named { name, params } => self.named(*name, params, scope, problems),
                _ => for_each_dim(ty, |dim| learn_dim(dim, scope, problems)),
            }
            match ty.data() {
                // A shape parameter may be written as a type is: `Vector[n]`.
                TypeData::Named { name, params } => {
                    let is_shape = |i: usize| {
                        let adt = self.types.adts.get(name);
                        adt.is_some_and(|adt| adt.shape_params.get(i) == Some(&true))
                    };
                    for (index, param) in params.iter().enumerate().rev() {
                        match param {
                            TypeParam::Type(ty) if !is_shape(index) => {
                                steps.push(Step::Visit(*ty));
                            }
                            _ => {}
                        }
                    }
                }
                _ => {
                    let start = steps.len();
                    for_each_part(ty, |part| steps.push(Step::Visit(part)));
                    steps[start..].reverse();
                }
            }
            if free && problems.len() == before {
                self.checked.insert(ty);
            }
        }
    }

    fn named(
        &self,
        name: Symbol,
        params: &[TypeParam],
        scope: &mut Scope,
        problems: &mut Vec<Problem>,
    ) {
        let Some(adt) = self.types.adts.get(&name) else {
            // A type of another dialect: `te.buffer`.
            if name.as_str().contains('.') || is_built_in(name, params.len()) {
                return;
            }
            let known = self.types.adts.keys().chain(&scope.names).map(|name| name.as_str());
            problems.push(Problem {
                code: codes::UNKNOWN_TYPE,
                message: format!("unknown type `{name}`"),
                help: did_you_mean(name.as_str(), known)
                    .unwrap_or_else(|| format!("declare it: `type {name} {{ … }}`")),
            });
            return;
        };
        if adt.decl.params.len() != params.len() {
            let expected = adt.decl.params.len();
            problems.push(Problem {
                code: codes::TYPE_PARAMETERS,
                message: format!(
                    "`{name}` expects {expected} type parameter{}, found {}",
                    if expected == 1 { "" } else { "s" },
                    params.len()
                ),
                help: match expected {
                    0 => format!("write `{name}`"),
                    _ => {
                        let names: Vec<&str> =
                            adt.decl.params.iter().map(|name| name.as_str()).collect();
                        format!("write `{name}[{}]`", names.join(", "))
                    }
                },
            });
            return;
        }
        for (param, is_shape) in params.iter().zip(&adt.shape_params) {
            match (is_shape, param) {
                (true, param) => match as_dim(*param) {
                    Some(dim) => learn_dim(dim, scope, problems),
                    None => problems.push(Problem {
                        code: codes::KIND,
                        message: format!("`{name}` expects an extent, found a type"),
                        help: "give a number, a shape parameter or `?`".to_string(),
                    }),
                },
                (false, TypeParam::Type(_)) => {}
                (false, _) => problems.push(Problem {
                    code: codes::KIND,
                    message: format!("`{name}` expects a type, found an extent"),
                    help: "give a type such as `float32`".to_string(),
                }),
            }
        }
    }
}

fn learn_dim(dim: Dim, scope: &mut Scope, problems: &mut Vec<Problem>) {
    for_each_dim_leaf(dim, |leaf| {
        if let DimExprData::Parameter(name) = leaf {
            scope.learn(name, Kind::Shape, problems);
        }
    });
}

/// Finds which parameters of the declared types are extents: those used as one in a field, or
/// handed on to such a parameter.
pub(super) fn infer_parameter_kinds(types: &mut DataTypes) {
    loop {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (index, adt) in types.adts.values().enumerate() {
            let mut names: FxHashSet<Symbol> = FxHashSet::default();
            let mut seen: FxHashSet<Type> = FxHashSet::default();
            let mut pending: Vec<Type> =
                adt.decl.constructors.iter().flat_map(|c| c.fields.iter().copied()).collect();
            while let Some(ty) = pending.pop() {
                if !ty.facts().has_parameter || !seen.insert(ty) {
                    continue;
                }
                let mut add = |dim| {
                    for_each_dim_leaf(dim, |leaf| {
                        if let DimExprData::Parameter(name) = leaf {
                            names.insert(name);
                        }
                    });
                };
                for_each_dim(ty, &mut add);
                if let TypeData::Named { name, params } = ty.data() {
                    let inner = types.adts.get(name).map_or(&[][..], |adt| &adt.shape_params);
                    for (param, _) in params.iter().zip(inner).filter(|(_, is_shape)| **is_shape) {
                        as_dim(*param).into_iter().for_each(&mut add);
                    }
                }
                for_each_part(ty, |part| pending.push(part));
            }
            for (param, name) in adt.decl.params.iter().enumerate() {
                if names.contains(name) && !adt.shape_params[param] {
                    found.push((index, param));
                }
            }
        }
        if found.is_empty() {
            return;
        }
        for (adt, param) in found {
            types.adts[adt].shape_params[param] = true;
        }
    }
}
