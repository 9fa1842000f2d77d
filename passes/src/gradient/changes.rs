//! The types of changes: what the derivative by a value is a value of.
//!
//! A tensor of floats changes by a tensor of its type, a tuple by a tuple, and what has no floats by the
//! empty tuple. Data changes by data of a type of its own: with a constructor that says that nothing
//! changes, and one for each constructor that has floats, with the changes of the fields that have some.

use indexmap::{IndexMap, IndexSet};
use ir_core::module::FreshNames;
use ir_core::{AttrDict, Item, Module, Symbol, Type, TypeData, ValueId};
use relay::builder::Builder;
use relay::language::{
    AdtDecl, Call, Construct, ConstructorDecl, FUNC, Global, Pattern, TYPE, Tuple, TupleGet,
};
use relay_operators::broadcast::Add;
use relay_operators::elementwise::OnesLike;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

/// How data of a type changes.
struct DataChange {
    /// The type of its changes.
    ty: Type,
    /// The constructor that says that nothing changes.
    unchanged: Symbol,
    /// By constructor of the data, that of its changes; `None` where it has no floats.
    forms: Vec<Option<Symbol>>,
    /// The function that adds two changes.
    add: Symbol,
    /// The function that gives the change of data by 1 for each of its floats.
    ones: Symbol,
}

/// A constructor of changes.
pub(super) struct Form {
    /// Its name.
    pub(super) name: Symbol,
    /// The type of the changes.
    pub(super) ty: Type,
    /// Which fields of the data have changes, with the types of these fields.
    pub(super) fields: Vec<(usize, Type)>,
}

/// The changes of the data of a module.
pub(crate) struct Changes {
    declared: FxHashMap<Symbol, AdtDecl>,
    /// By constructor, the data type and its place there.
    constructors: FxHashMap<Symbol, (Symbol, usize)>,
    /// The data types that hold floats.
    differentiable: FxHashSet<Symbol>,
    made: IndexMap<Symbol, DataChange, FxBuildHasher>,
    /// The data types whose changes are added.
    added: IndexSet<Symbol, FxBuildHasher>,
    /// The data types all of whose floats are summed.
    summed: IndexSet<Symbol, FxBuildHasher>,
    taken: FxHashSet<Symbol>,
    names: FreshNames,
}

impl Changes {
    /// Those of the data types of `module`, none of which is needed yet. Linear in the declarations.
    pub(crate) fn of(module: &Module) -> Changes {
        let declared: FxHashMap<Symbol, AdtDecl> = module
            .items
            .iter()
            .filter(|(_, item)| item.signature.op == TYPE)
            .filter_map(|(name, item)| Some((*name, AdtDecl::from_attrs(item.signature.attrs)?)))
            .collect();
        let mut constructors = FxHashMap::default();
        for (name, adt) in &declared {
            let places = adt.constructors.iter().enumerate();
            constructors.extend(places.map(|(place, c)| (c.name, (*name, place))));
        }
        let taken = module.items.keys().chain(constructors.keys()).copied().collect();
        Changes {
            differentiable: with_floats(&declared),
            declared,
            constructors,
            made: IndexMap::default(),
            added: IndexSet::default(),
            summed: IndexSet::default(),
            taken,
            names: FreshNames::default(),
        }
    }

    /// A name for an item or constructor that is not taken.
    pub(super) fn fresh(&mut self, base: &str) -> Symbol {
        let taken = &self.taken;
        let name = self.names.fresh(base, "_", |name| taken.contains(&name));
        self.taken.insert(name);
        name
    }

    /// Whether values of type `ty` have floats. Those in cells count: where they matter, that is an error.
    pub(super) fn is_differentiable(&self, ty: Type) -> bool {
        let mut pending = vec![ty];
        while let Some(ty) = pending.pop() {
            match ty.data() {
                TypeData::Tensor(tensor) if tensor.dtype.is_float() => return true,
                TypeData::Tuple(fields) => pending.extend(fields),
                TypeData::Named { name, .. } if self.differentiable.contains(name) => return true,
                TypeData::Ref(content) => pending.push(*content),
                _ => {}
            }
        }
        false
    }

    // Recursion is bounded by the nesting of types.
    /// The type of changes of values of type `ty`.
    pub(super) fn ty(&mut self, ty: Type) -> Type {
        match ty.data() {
            _ if !self.is_differentiable(ty) => Type::unit(),
            TypeData::Tuple(fields) => Type::tuple(fields.iter().map(|field| self.ty(*field))),
            TypeData::Named { name, .. } => self.data(*name).ty,
            _ => ty,
        }
    }

    fn data(&mut self, name: Symbol) -> &DataChange {
        if !self.made.contains_key(&name) {
            let ty = Type::named(self.fresh(&format!("{name}Change")), []);
            let unchanged = self.fresh(&format!("{name}Unchanged"));
            let add = self.fresh(&format!("add_{name}"));
            let ones = self.fresh(&format!("ones_{name}"));
            let has_floats: Vec<(Symbol, bool)> = self.declared[&name]
                .constructors
                .iter()
                .map(|c| (c.name, c.fields.iter().any(|field| self.is_differentiable(*field))))
                .collect();
            let forms = has_floats
                .into_iter()
                .map(|(name, has_floats)| has_floats.then(|| self.fresh(&format!("{name}Change"))));
            let forms = forms.collect();
            self.made.insert(name, DataChange { ty, unchanged, forms, add, ones });
        }
        &self.made[&name]
    }

    /// The constructor of changes of data of type `ty` that says that nothing changes.
    pub(super) fn unchanged(&mut self, ty: Type) -> Option<Symbol> {
        match ty.data() {
            TypeData::Named { name, .. } => Some(self.data(*name).unchanged),
            _ => None,
        }
    }

    /// The constructor of changes of data that `constructor` makes; `None` where it has no floats.
    pub(super) fn form(&mut self, constructor: Symbol) -> Option<Form> {
        let (data, place) = *self.constructors.get(&constructor)?;
        let change = self.data(data);
        let (name, ty) = (change.forms[place]?, change.ty);
        let fields = &self.declared[&data].constructors[place].fields;
        let fields = fields.iter().copied().enumerate();
        let fields = fields.filter(|(_, field)| self.is_differentiable(*field)).collect();
        Some(Form { name, ty, fields })
    }

    /// The types of the fields of data that `constructor` makes.
    pub(super) fn field_types(&self, constructor: Symbol) -> &[Type] {
        let (data, place) = self.constructors[&constructor];
        &self.declared[&data].constructors[place].fields
    }

    /// The function that adds changes of type `ty`, which is that of changes of data.
    pub(super) fn adder(&mut self, ty: Type) -> Symbol {
        let found = self.made.iter().find(|(_, change)| change.ty == ty);
        let (name, change) = found.expect("changes of data are of a type that was made for them");
        self.added.insert(*name);
        change.add
    }

    /// The function that gives the change, by 1 for each float, of data of type `ty`.
    pub(super) fn ones(&mut self, ty: Type) -> Symbol {
        let TypeData::Named { name, .. } = ty.data() else { unreachable!("it is data") };
        self.summed.insert(*name);
        self.data(*name).ones
    }

    /// Declares the types of changes in `module`, and the functions that add them.
    pub(super) fn finish(mut self, module: &mut Module) {
        let mut next = 0;
        while let Some(name) = self.added.get_index(next).copied() {
            next += 1;
            let item = self.addition(name);
            module.items.insert(self.made[&name].add, item);
        }
        let mut next = 0;
        while let Some(name) = self.summed.get_index(next).copied() {
            next += 1;
            let item = self.all_ones(name);
            module.items.insert(self.made[&name].ones, item);
        }
        let mut next = 0;
        // Declaring one may ask for others.
        while let Some((name, _)) = self.made.get_index(next) {
            let name = *name;
            next += 1;
            let constructors: Vec<Symbol> =
                self.declared[&name].constructors.iter().map(|c| c.name).collect();
            let mut declared = vec![ConstructorDecl::new(self.made[&name].unchanged, vec![])];
            for constructor in constructors {
                let Some(form) = self.form(constructor) else { continue };
                let fields = form.fields.iter().map(|(_, field)| self.ty(*field)).collect();
                declared.push(ConstructorDecl::new(form.name, fields));
            }
            let Some(TypeData::Named { name, .. }) = self.made.get(&name).map(|c| c.ty.data())
            else {
                continue;
            };
            declare(module, *name, declared);
        }
    }

    /// The function that adds two changes of data `name`, both of what one constructor made, or of nothing.
    fn addition(&mut self, name: Symbol) -> Item {
        let (ty, unchanged) = (self.data(name).ty, self.data(name).unchanged);
        let constructors: Vec<Symbol> =
            self.declared[&name].constructors.iter().map(|c| c.name).collect();
        let forms: Vec<Form> = constructors.into_iter().filter_map(|c| self.form(c)).collect();
        let types: Vec<Vec<Type>> = forms
            .iter()
            .map(|form| form.fields.iter().map(|(_, field)| self.ty(*field)).collect())
            .collect();
        let none = (Pattern::Constructor(unchanged, vec![]), vec![]);
        let clauses = forms.iter().zip(&types).map(|(form, types)| {
            let variables = vec![Pattern::Variable; types.len()];
            (Pattern::Constructor(form.name, variables), types.clone())
        });
        let clauses: Vec<(Pattern, Vec<Type>)> =
            std::iter::once(none.clone()).chain(clauses).collect();
        let (mut builder, params) = Builder::new(&[ty, ty]);
        let sum = builder.matches(params[0], ty, &clauses, |builder, clause, left| {
            let Some(index) = clause.checked_sub(1) else { return params[1] };
            let both = [clauses[clause].clone(), none.clone()];
            // The other one is of data that the same constructor made.
            builder.matches_some(params[1], ty, &both, |builder, clause, right| {
                if clause == 1 {
                    return params[0];
                }
                let fields = left.iter().zip(right).map(|(a, b)| self.sum(builder, *a, *b));
                let fields = fields.collect();
                builder.add(&Construct { name: forms[index].name.to_string(), fields }, ty)
            })
        });
        builder.yields(sum);
        Item::new(FUNC, Type::function([ty, ty], ty), Some(builder.body))
    }

    /// The function that gives the change by 1 for each float of data `name`.
    fn all_ones(&mut self, name: Symbol) -> Item {
        let (data, ty, unchanged) =
            (Type::named(name, []), self.data(name).ty, self.data(name).unchanged);
        let constructors = self.declared[&name].constructors.clone();
        let clauses = constructors.iter().map(|c| {
            let pattern = Pattern::Constructor(c.name, vec![Pattern::Variable; c.fields.len()]);
            (pattern, c.fields.clone())
        });
        let clauses: Vec<(Pattern, Vec<Type>)> = clauses.collect();
        let (mut builder, params) = Builder::new(&[data]);
        let change = builder.matches(params[0], ty, &clauses, |builder, clause, fields| {
            let Some(form) = self.form(constructors[clause].name) else {
                return builder.add(&Construct { name: unchanged.to_string(), fields: vec![] }, ty);
            };
            let changed = form.fields.iter().map(|(index, _)| self.one(builder, fields[*index]));
            let changed = changed.collect();
            builder.add(&Construct { name: form.name.to_string(), fields: changed }, ty)
        });
        builder.yields(change);
        Item::new(FUNC, Type::function([data], ty), Some(builder.body))
    }

    // Recursion is bounded by the nesting of types.
    fn one(&mut self, builder: &mut Builder, value: ValueId) -> ValueId {
        let ty = builder.body.ty(value);
        match ty.data() {
            _ if !self.is_differentiable(ty) => {
                builder.add(&Tuple { fields: vec![] }, Type::unit())
            }
            TypeData::Tuple(types) => {
                let fields = types.iter().enumerate().map(|(index, ty)| {
                    let field = TupleGet { tuple: value, index: index as i64 };
                    let field = builder.add(&field, *ty);
                    self.one(builder, field)
                });
                let fields = fields.collect();
                let ty = self.ty(ty);
                builder.add(&Tuple { fields }, ty)
            }
            TypeData::Named { .. } => {
                let (name, change) = (self.ones(ty), self.ty(ty));
                let callee = builder.add(&Global { name }, Type::function([ty], change));
                builder.add(&call(callee, vec![value]), change)
            }
            _ => builder.add(&OnesLike { data: value }, ty),
        }
    }

    // Recursion is bounded by the nesting of types.
    fn sum(&mut self, builder: &mut Builder, a: ValueId, b: ValueId) -> ValueId {
        let ty = builder.body.ty(a);
        match ty.data() {
            TypeData::Tuple(types) => {
                let fields = types.iter().enumerate().map(|(index, ty)| {
                    let get = |tuple| TupleGet { tuple, index: index as i64 };
                    let (a, b) = (builder.add(&get(a), *ty), builder.add(&get(b), *ty));
                    self.sum(builder, a, b)
                });
                let fields = fields.collect();
                builder.add(&Tuple { fields }, ty)
            }
            TypeData::Named { .. } => {
                let name = self.adder(ty);
                let callee = builder.add(&Global { name }, Type::function([ty, ty], ty));
                builder.add(&call(callee, vec![a, b]), ty)
            }
            _ => builder.add(&Add { lhs: a, rhs: b }, ty),
        }
    }
}

/// A call of `callee` with `args`.
pub(super) fn call(callee: ValueId, args: Vec<ValueId>) -> Call {
    Call { type_args: vec![], attributes: AttrDict::empty(), callee, args }
}

/// Declares a data type without parameters in `module`.
pub(super) fn declare(module: &mut Module, name: Symbol, constructors: Vec<ConstructorDecl>) {
    let decl = AdtDecl { params: vec![], constructors, is_extern: false };
    let mut item = Item::new(TYPE, Type::unknown(), None);
    item.signature.attrs = decl.to_attrs();
    module.items.insert(name, item);
}

/// The data types that hold floats, themselves or in data that they hold.
fn with_floats(declared: &FxHashMap<Symbol, AdtDecl>) -> FxHashSet<Symbol> {
    let mut holders: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
    let mut pending = vec![];
    for (name, adt) in declared {
        let mut parts: Vec<Type> =
            adt.constructors.iter().flat_map(|c| &c.fields).copied().collect();
        while let Some(ty) = parts.pop() {
            match ty.data() {
                TypeData::Tensor(tensor) if tensor.dtype.is_float() => pending.push(*name),
                TypeData::Tuple(fields) => parts.extend(fields),
                TypeData::Ref(content) => parts.push(*content),
                TypeData::Named { name: part, .. } => holders.entry(*part).or_default().push(*name),
                _ => {}
            }
        }
    }
    let mut found = FxHashSet::default();
    while let Some(name) = pending.pop() {
        if found.insert(name) {
            pending.extend(holders.get(&name).into_iter().flatten());
        }
    }
    found
}
