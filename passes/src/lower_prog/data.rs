//! What becomes of types: data types of one sort each, and tuples taken apart.

use indexmap::IndexMap;
use ir_core::module::FreshNames;
use ir_core::{Dim, Item, Symbol, Type, TypeData, TypeParam};
use prog::data::{Constructor, Declaration};
use relay::inference::DataTypes;
use relay::language::ConstructorDecl;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::lower_te::problems::{Problem, tensor_problem};
use crate::specialize::types::{any_part, with_parts};

/// The data types of a program.
#[derive(Default)]
pub(super) struct Data {
    /// By type in Relay, what it became.
    instances: IndexMap<Type, Instance, FxBuildHasher>,
    names: FreshNames,
    taken: FxHashSet<Symbol>,
    /// What types become.
    flat: FxHashMap<Type, Vec<Type>>,
    /// The data types that are used with tensors whose extents are not known.
    open: FxHashSet<Symbol>,
}

/// A data type for one choice of its parameters.
struct Instance {
    name: Symbol,
    /// Its constructors in Relay.
    source: Vec<ConstructorDecl>,
    /// By constructor: the types of its fields.
    fields: Vec<Vec<Type>>,
}

impl Data {
    /// The data types of functions with values of `types`. Those that are used with tensors of unknown
    /// extents are one for all extents, since data of some goes where data of others is expected.
    pub(super) fn new(types: impl Iterator<Item = Type>) -> Data {
        let mut data = Data::default();
        let mut seen = FxHashSet::default();
        let is_open = |ty: Type| ty.facts().has_any || ty.facts().has_parameter;
        for ty in types.filter(|ty| is_open(*ty)) {
            if !seen.insert(ty) {
                continue;
            }
            any_part(ty, &mut |part| {
                if let TypeData::Named { name, .. } = part.data()
                    && is_open(part)
                {
                    data.open.insert(*name);
                }
                false
            });
        }
        data
    }

    /// `ty` without the extents that make no difference to what it becomes. Recursion is bounded by the
    /// depth of types.
    fn canonical(&self, ty: Type) -> Type {
        if self.open.is_empty() {
            return ty;
        }
        match ty.data() {
            TypeData::Named { name, .. } if self.open.contains(name) => without_extents(ty),
            _ => with_parts(ty, &mut |part| self.canonical(part)),
        }
    }

    /// The types of the values that a value of type `ty` becomes.
    pub(super) fn flat(&mut self, ty: Type, types: &DataTypes) -> Result<Vec<Type>, Problem> {
        if let Some(flat) = self.flat.get(&ty) {
            return Ok(flat.clone());
        }
        // What data consists of comes later, since it may consist of itself.
        let mut new = Vec::new();
        let flat = self.shallow(ty, types, &mut new)?;
        while let Some(instance) = new.pop() {
            let mut fields = Vec::new();
            for constructor in self.instances[&instance].source.clone() {
                let mut flat = Vec::new();
                for field in constructor.fields {
                    flat.extend(self.shallow(field, types, &mut new)?);
                }
                fields.push(flat);
            }
            self.instances[&instance].fields = fields;
        }
        self.flat.insert(ty, flat.clone());
        Ok(flat)
    }

    /// The same, without what is in new data types, which are added to `new`. Types nest within a
    /// limit.
    fn shallow(
        &mut self,
        ty: Type,
        types: &DataTypes,
        new: &mut Vec<Type>,
    ) -> Result<Vec<Type>, Problem> {
        match ty.data() {
            TypeData::Tensor(tensor) => match tensor_problem(ty, ty) {
                Some(Problem::Type(_)) if tensor.rank() > prog::MOST_OPEN_AXES => {
                    Err(Problem::Axes(ty, prog::MOST_OPEN_AXES))
                }
                Some(Problem::Type(_)) if tensor.dtype.lanes() == 1 => Ok(vec![prog::opened(ty)]),
                Some(problem) => Err(problem),
                None => Ok(vec![ty]),
            },
            TypeData::Tuple(fields) => {
                let mut flat = Vec::new();
                for field in fields {
                    flat.extend(self.shallow(*field, types, new)?);
                }
                Ok(flat)
            }
            TypeData::Ref(content) => {
                let content = self.shallow(*content, types, new)?;
                Ok(vec![Type::reference(match content[..] {
                    [one] => one,
                    _ => Type::tuple(content),
                })])
            }
            TypeData::Named { name, .. } => {
                let ty = self.canonical(ty);
                if !self.instances.contains_key(&ty) {
                    let source = types.constructors_of(ty).ok_or(Problem::Data(ty))?;
                    let taken = &self.taken;
                    let name = self.names.fresh(name.as_str(), "_", |name| taken.contains(&name));
                    self.taken.insert(name);
                    let instance = Instance { name, source, fields: Vec::new() };
                    self.instances.insert(ty, instance);
                    new.push(ty);
                }
                Ok(vec![Type::named(self.instances[&ty].name, [])])
            }
            TypeData::Function(_) => Err(Problem::FunctionValue),
            _ => Err(Problem::Type(ty)),
        }
    }

    /// Constructor `name` of the data type `ty`, which was seen before: its tag, the types of its
    /// fields in Relay, and those of the values that they become.
    pub(super) fn constructor(&self, ty: Type, name: Symbol) -> Option<(usize, &[Type], &[Type])> {
        let instance = self.instances.get(&self.canonical(ty))?;
        let tag = instance.source.iter().position(|constructor| constructor.name == name)?;
        Some((tag, &instance.source[tag].fields, instance.fields.get(tag)?))
    }

    /// How many constructors the data type `ty` has.
    pub(super) fn constructors(&self, ty: Type) -> usize {
        self.instances.get(&self.canonical(ty)).map_or(0, |instance| instance.source.len())
    }

    /// The data types, in the order in which they were seen.
    pub(super) fn into_items(self) -> impl Iterator<Item = (Symbol, Item)> {
        self.instances.into_values().map(|Instance { name, source, fields }| {
            let constructor = |(source, fields): (ConstructorDecl, Vec<Type>)| Constructor {
                name: source.name.to_string(),
                fields,
            };
            let constructors = source.into_iter().zip(fields).map(constructor).collect();
            let mut item = Item::new(prog::DATA, Type::unit(), None);
            item.signature.attrs = Declaration { constructors }.to_attrs();
            (name, item)
        })
    }
}

/// `ty` with `?` for all extents, as the types of data are one that is used with tensors of unknown extents.
/// Recursion is bounded by the depth of types.
pub fn without_extents(ty: Type) -> Type {
    match ty.data() {
        TypeData::Tensor(_) => prog::opened(ty),
        TypeData::Named { name, params } => {
            let without = |param: &TypeParam| match param {
                TypeParam::Type(ty) => TypeParam::Type(without_extents(*ty)),
                TypeParam::Dim(_) => TypeParam::Dim(Dim::Any),
                other => *other,
            };
            Type::named(*name, params.iter().map(without).collect::<Vec<_>>())
        }
        _ => with_parts(ty, &mut without_extents),
    }
}
