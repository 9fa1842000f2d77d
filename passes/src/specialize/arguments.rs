//! What a copy of a function is for.

use ir_core::{AttrDict, Dim, Symbol, TensorType, Type, TypeData, TypeParam};
use rustc_hash::FxHashSet;

use super::types::with_parts;

/// What the parameters of a function stand for in a copy of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Arguments {
    /// For each type parameter; one for an extent that stays is itself.
    pub(super) types: Vec<TypeParam>,
    /// For each parameter, the function that it is known to be; empty where there is none.
    pub(super) functions: Vec<Option<Known>>,
}

/// A function that is known by name, applied to its first arguments, which are not part of this.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Known {
    /// The operation that names it: `relay.global`, `relay.operator` or `relay.constructor`.
    pub(super) op: Symbol,
    /// The attributes of that operation.
    pub(super) attrs: AttrDict,
    /// Its type, those first arguments included.
    pub(super) ty: Type,
}

impl Known {
    /// The types of the arguments that it has in place of a parameter of type `formal`.
    pub(super) fn captured(&self, formal: Type) -> &'static [Type] {
        let (Some(own), Some(formal)) = (self.ty.as_function(), formal.as_function()) else {
            return &[];
        };
        &own.params[..own.params.len().saturating_sub(formal.params.len())]
    }
}

/// Makes extents that no copy can know parameters of the copy.
pub(super) struct Opening<'n> {
    /// Names that parameters of the copy cannot have.
    pub(super) taken: &'n FxHashSet<Symbol>,
    /// The parameters that there are now, by the extents that they stand for, in order.
    pub(super) opened: Vec<(Dim, Symbol)>,
}

impl Opening<'_> {
    /// `ty` with parameters for the extents that are neither numbers nor `?`. Recursion is bounded by
    /// the depth of types.
    pub(super) fn ty(&mut self, ty: Type) -> Type {
        if !ty.facts().has_parameter {
            return ty;
        }
        match ty.data() {
            TypeData::Tensor(tensor) => Type::new(TypeData::Tensor(TensorType {
                shape: tensor.shape.iter().map(|dim| self.dim(*dim)).collect(),
                dtype: tensor.dtype,
            })),
            TypeData::Named { name, params } => {
                let params: Vec<TypeParam> = params
                    .iter()
                    .map(|param| match param {
                        TypeParam::Type(ty) => TypeParam::Type(self.ty(*ty)),
                        TypeParam::Dim(dim) => TypeParam::Dim(self.dim(*dim)),
                        other => *other,
                    })
                    .collect();
                Type::named(*name, params)
            }
            // What a function binds itself stays as it is.
            TypeData::Function(function) if !function.type_params.is_empty() => ty,
            _ => with_parts(ty, &mut |part| self.ty(part)),
        }
    }

    fn dim(&mut self, dim: Dim) -> Dim {
        if !matches!(dim, Dim::Expr(_)) {
            return dim;
        }
        if let Some((_, name)) = self.opened.iter().find(|(known, _)| *known == dim) {
            return Dim::parameter(*name);
        }
        let is_taken = |name: &Symbol| {
            self.taken.contains(name) || self.opened.iter().any(|(_, known)| known == name)
        };
        let names = (0..).map(|number| Symbol::new(&format!("n{number}")));
        let name = names.into_iter().find(|name| !is_taken(name)).expect("numbers go on");
        self.opened.push((dim, name));
        Dim::parameter(name)
    }
}

/// The numbers among the extents that `arguments` mention.
pub(super) fn known_extents(arguments: &[TypeParam]) -> FxHashSet<i64> {
    let mut found = FxHashSet::default();
    let mut seen: FxHashSet<Type> = FxHashSet::default();
    let mut pending: Vec<Type> = vec![];
    let mut note = |param: &TypeParam, pending: &mut Vec<Type>| match param {
        TypeParam::Type(ty) => pending.push(*ty),
        TypeParam::Dim(Dim::Known(extent)) => _ = found.insert(*extent),
        _ => {}
    };
    arguments.iter().for_each(|argument| note(argument, &mut pending));
    while let Some(ty) = pending.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match ty.data() {
            TypeData::Tensor(tensor) => {
                tensor.shape.iter().for_each(|dim| note(&TypeParam::Dim(*dim), &mut pending));
            }
            TypeData::Named { params, .. } => {
                params.iter().for_each(|param| note(param, &mut pending));
            }
            _ => {
                with_parts(ty, &mut |part| {
                    pending.push(part);
                    part
                });
            }
        }
    }
    found
}

/// The deepest of the types among `arguments`, and the most parts that one has.
pub(super) fn size(arguments: &[TypeParam]) -> (u32, u32) {
    arguments.iter().fold((0, 0), |(depth, parts), argument| match argument {
        TypeParam::Type(ty) => (depth.max(ty.facts().depth), parts.max(ty.facts().parts)),
        _ => (depth, parts),
    })
}

/// How far copies of a group of functions, or of data types, have grown since the first of them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Growth {
    /// The deepest type so far.
    depth: u32,
    /// How often there was a deeper one.
    steps: usize,
}

/// Larger and larger copies of one function that ask for each other, at most.
const MAX_NESTED_COPIES: usize = 32;

/// Parts of a type that a copy is for, at most, and how deep it nests.
const MAX_PARTS: u32 = 1 << 16;
const MAX_DEPTH: u32 = 500;

impl Growth {
    /// That of a copy for `arguments` which is the first of its group.
    pub(super) fn first(arguments: &[TypeParam]) -> Growth {
        Growth { depth: size(arguments).0, steps: 0 }
    }

    /// That of a copy for `arguments`, which one that has grown like this asks for. `None` where it is
    /// too much for a group of `members` that use each other.
    pub(super) fn further(self, arguments: &[TypeParam], members: usize) -> Option<Growth> {
        let (depth, parts) = size(arguments);
        if depth <= self.depth {
            return Some(self);
        }
        let steps = self.steps + 1;
        let fits = steps <= MAX_NESTED_COPIES * members && parts <= MAX_PARTS && depth <= MAX_DEPTH;
        fits.then_some(Growth { depth, steps })
    }
}

/// For each node, the number of its strongly connected component, and how many nodes each of these has.
pub(super) fn groups(edges: &[Vec<usize>]) -> (Vec<usize>, Vec<usize>) {
    use petgraph::graph::DiGraph;
    let pairs = edges.iter().zip(0u32..);
    let pairs = pairs.flat_map(|(to, from)| to.iter().map(move |to| (from, *to as u32)));
    let mut graph = DiGraph::<(), ()>::from_edges(pairs);
    while graph.node_count() < edges.len() {
        graph.add_node(());
    }
    let (mut group, mut members) = (vec![0; edges.len()], vec![]);
    for (number, nodes) in petgraph::algo::kosaraju_scc(&graph).iter().enumerate() {
        nodes.iter().for_each(|node| group[node.index()] = number);
        members.push(nodes.len());
    }
    (group, members)
}
