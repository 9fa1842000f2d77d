//! What a body may refer to: operations, functions, data types and their constructors.

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use ir_core::diagnostics::did_you_mean;
use ir_core::{
    Diagnostic, Diagnostics, FunctionType, OpInfo, Registry, Signature, Signatures, Span, Symbol,
    Type, TypeData, TypeParam,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::codes;
use super::kinds::{Kinds, Scope};
use super::rebuild::for_each_part;
use super::solver::{Substitution, substitute};
use crate::language::items::{AdtDecl, ConstructorDecl, TYPE};

/// The forms of the language whose types unification finds; everything else has a relation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Global,
    Operator,
    Constructor,
    Construct,
    Call,
    Fn,
    If,
    Match,
    Tuple,
    TupleGet,
    RefCreate,
    RefRead,
    RefWrite,
    Yield,
}

const FORMS: [(&str, Form); 14] = [
    ("relay.global", Form::Global),
    ("relay.operator", Form::Operator),
    ("relay.constructor", Form::Constructor),
    ("relay.construct", Form::Construct),
    ("relay.call", Form::Call),
    ("relay.fn", Form::Fn),
    ("relay.if", Form::If),
    ("relay.match", Form::Match),
    ("relay.tuple", Form::Tuple),
    ("relay.tuple_get", Form::TupleGet),
    ("relay.ref", Form::RefCreate),
    ("relay.ref_read", Form::RefRead),
    ("relay.ref_write", Form::RefWrite),
    ("relay.yield", Form::Yield),
];

/// How the type of an operation is found.
#[derive(Clone, Copy)]
pub(super) enum Rule<'a> {
    Form(Form),
    Relation(&'a OpInfo),
}

/// A declared data type.
pub(crate) struct Adt {
    pub(crate) decl: AdtDecl,
    /// Whether each parameter is an extent.
    pub(crate) shape_params: Vec<bool>,
    pub(crate) span: Option<Span>,
}

impl Adt {
    /// What the parameters of this type stand for in its application to `params`.
    pub(super) fn substitution(&self, params: &[TypeParam]) -> Substitution {
        self.decl.params.iter().copied().zip(params.iter().copied()).collect()
    }

    /// The field types of constructor `tag` of this type applied to `params`.
    pub(crate) fn fields(&self, tag: usize, params: &[TypeParam]) -> Vec<Type> {
        let map = self.substitution(params);
        self.decl.constructors[tag].fields.iter().map(|ty| substitute(*ty, &map)).collect()
    }
}

/// The data types and constructors of a module.
#[derive(Default)]
pub struct DataTypes {
    pub(crate) adts: IndexMap<Symbol, Adt, FxBuildHasher>,
    constructors: IndexMap<Symbol, (Symbol, usize), FxBuildHasher>,
    /// Those whose values hold functions or references, or may.
    opaque: FxHashSet<Symbol>,
}

impl DataTypes {
    /// The declarations among `signatures`.
    pub(crate) fn new<'s>(
        signatures: impl IntoIterator<Item = (Symbol, &'s Signature)>,
    ) -> DataTypes {
        let mut types = DataTypes::default();
        for (name, signature) in signatures {
            if signature.op != TYPE {
                continue;
            }
            let Some(decl) = AdtDecl::from_attrs(signature.attrs) else { continue };
            for (tag, constructor) in decl.constructors.iter().enumerate() {
                types.constructors.entry(constructor.name).or_insert((name, tag));
            }
            let shape_params = vec![false; decl.params.len()];
            types.adts.insert(name, Adt { decl, shape_params, span: signature.span });
        }
        super::kinds::infer_parameter_kinds(&mut types);
        types.find_opaque();
        types
    }

    /// Finds the data types whose values do not consist of tensors, tuples and such data alone.
    fn find_opaque(&mut self) {
        // The data types whose fields mention one.
        let mut users: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
        let mut found: Vec<Symbol> = Vec::new();
        for (name, adt) in &self.adts {
            let mut pending: Vec<Type> =
                adt.decl.constructors.iter().flat_map(|c| c.fields.iter().copied()).collect();
            let mut seen: FxHashSet<Type> = FxHashSet::default();
            let mut opaque = adt.decl.is_extern;
            while let Some(ty) = pending.pop() {
                if !seen.insert(ty) {
                    continue;
                }
                match ty.data() {
                    TypeData::Function(_) | TypeData::Ref(_) => opaque = true,
                    TypeData::Named { name: inner, .. } => {
                        opaque |= !self.adts.contains_key(inner);
                        users.entry(*inner).or_default().push(*name);
                    }
                    _ => {}
                }
                for_each_part(ty, |part| pending.push(part));
            }
            if opaque {
                found.push(*name);
            }
        }
        while let Some(name) = found.pop() {
            if self.opaque.insert(name) {
                found.extend(users.remove(&name).unwrap_or_default());
            }
        }
    }

    /// The data type, its name and the tag of constructor `name`.
    pub(crate) fn constructor(&self, name: Symbol) -> Option<(Symbol, &Adt, usize)> {
        let (adt, tag) = *self.constructors.get(&name)?;
        Some((adt, self.adts.get(&adt)?, tag))
    }

    /// The constructors of the data type `ty`, in the order of their tags, with the types of their
    /// fields in it; `None` of other types, and of data that is made outside.
    pub fn constructors_of(&self, ty: Type) -> Option<Vec<ConstructorDecl>> {
        let TypeData::Named { name, params } = ty.data() else { return None };
        let adt = self.adts.get(name).filter(|adt| !adt.decl.is_extern)?;
        let constructors = adt.decl.constructors.iter().enumerate();
        let constructor = |(tag, declared): (usize, &ConstructorDecl)| ConstructorDecl {
            fields: adt.fields(tag, params),
            ..declared.clone()
        };
        Some(constructors.map(constructor).collect())
    }

    /// The names of all constructors.
    pub(crate) fn constructor_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.constructors.keys().map(|name| name.as_str())
    }

    /// The help text for an unknown constructor.
    pub(super) fn constructor_help(&self, name: Symbol) -> String {
        let known = self.constructors.keys().map(|name| name.as_str());
        did_you_mean(name.as_str(), known).unwrap_or_else(|| {
            "declare it in a `type` declaration, or import the prelude".to_string()
        })
    }

    /// Checks the declaration of data type `name` against the others.
    pub fn check(&self, name: Symbol) -> Diagnostics {
        self.adts.get(&name).map_or_else(Diagnostics::new, |adt| self.check_declaration(name, adt))
    }

    /// Checks the declaration `adt` of data type `name`.
    pub(crate) fn check_declaration(&self, name: Symbol, adt: &Adt) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        let mut problems = Vec::new();
        let mut kinds = Kinds::new(self);
        let mut scope = Scope::default();
        scope.bind(&adt.decl.params, &mut problems);
        for (tag, constructor) in adt.decl.constructors.iter().enumerate() {
            if let Some((owner, first)) = self.constructors.get(&constructor.name)
                && (*owner, *first) != (name, tag)
            {
                let span = self.adts.get(owner).and_then(|adt| adt.span);
                let text = format!("constructor `{}` is declared twice", constructor.name);
                diagnostics.push(
                    Diagnostic::error(codes::DUPLICATE_CONSTRUCTOR, text)
                        .at(adt.span)
                        .related(span, format!("`{owner}` declares it first"))
                        .help("rename one of them"),
                );
            }
            if let Some(other) =
                self.adts.get(&constructor.name).filter(|_| constructor.name != name)
            {
                let text =
                    format!("constructor `{}` has the name of a data type", constructor.name);
                diagnostics.push(
                    Diagnostic::error(codes::DUPLICATE_CONSTRUCTOR, text)
                        .at(adt.span)
                        .related(other.span, "the data type is declared here")
                        .help("rename one of them"),
                );
            }
            for field in &constructor.fields {
                kinds.check(*field, &mut scope, &mut problems);
            }
        }
        let subject = format!("`{name}`");
        diagnostics.extend(problems.into_iter().map(|p| p.into_diagnostic(adt.span, &subject)));
        diagnostics
    }

    /// Checks that what the type of function `name` mentions is declared.
    pub(crate) fn check_function(&self, name: Symbol, signature: &Signature) -> Diagnostics {
        let mut problems = Vec::new();
        Kinds::new(self).check(signature.ty, &mut Scope::default(), &mut problems);
        let subject = format!("`@{name}`");
        let found = problems.into_iter().map(|p| p.into_diagnostic(signature.span, &subject));
        found.collect()
    }
}

/// What unification asks of data types.
pub(crate) trait DeclaredTypes {
    /// Whether values of data type `name` consist of tensors, tuples and such data alone. A list of
    /// them is a list of whatever its elements may be taken for.
    fn is_immutable(&self, name: Symbol) -> bool;
}

impl DeclaredTypes for DataTypes {
    fn is_immutable(&self, name: Symbol) -> bool {
        self.adts.contains_key(&name) && !self.opaque.contains(&name)
    }
}

impl DeclaredTypes for Types<'_> {
    fn is_immutable(&self, name: Symbol) -> bool {
        DataTypes::is_immutable(self, name)
    }
}

impl DeclaredTypes for Signatures {
    fn is_immutable(&self, name: Symbol) -> bool {
        data_types(self).is_immutable(name)
    }
}

/// Data types whose declarations are not at hand, where what depends on them is checked elsewhere.
pub(crate) struct Undeclared;

impl DeclaredTypes for Undeclared {
    fn is_immutable(&self, _: Symbol) -> bool {
        true
    }
}

/// The forms by the names of their operations.
static FORM_NAMES: LazyLock<FxHashMap<Symbol, Form>> =
    LazyLock::new(|| FORMS.into_iter().map(|(name, form)| (Symbol::new(name), form)).collect());

/// What a group of functions may depend on besides itself. **Nothing is asked for that the
/// functions do not mention**, so that who answers knows what the group depends on.
pub trait Surroundings {
    /// The type and the place of function `name`; what is unknown in the type could not be
    /// inferred.
    fn function(&self, name: Symbol) -> Option<(Type, Option<Span>)>;
    /// The names of all functions, for suggestions.
    fn functions(&self) -> Vec<Symbol>;
    /// The declared data types.
    fn types(&self) -> Arc<DataTypes>;
}

/// The declared data types, asked for at the first use.
pub(super) struct Types<'a> {
    surroundings: &'a dyn Surroundings,
    types: OnceCell<Arc<DataTypes>>,
}

impl Deref for Types<'_> {
    type Target = DataTypes;
    fn deref(&self) -> &DataTypes {
        self.types.get_or_init(|| self.surroundings.types())
    }
}

/// Everything a body may refer to.
pub(super) struct Environment<'a> {
    pub(super) registry: &'a Registry,
    pub(super) types: Types<'a>,
    pub(super) surroundings: &'a dyn Surroundings,
    forms: &'static FxHashMap<Symbol, Form>,
}

impl<'a> Environment<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        surroundings: &'a dyn Surroundings,
    ) -> Environment<'a> {
        let types = Types { surroundings, types: OnceCell::new() };
        Environment { registry, types, surroundings, forms: &FORM_NAMES }
    }

    /// How the type of operation `name` is found; `None` for an unregistered one.
    pub(super) fn rule(&self, name: Symbol) -> Option<Rule<'a>> {
        let info = self.registry.info(name)?;
        Some(self.forms.get(&name).map_or(Rule::Relation(info), |form| Rule::Form(*form)))
    }
}

/// The data types that `signatures` declare.
pub fn data_types(signatures: &Signatures) -> Arc<DataTypes> {
    signatures.derived(|signatures| {
        DataTypes::new(signatures.iter().map(|(name, signature)| (*name, signature)))
    })
}

/// The function type of constructor `name`: polymorphic in the parameters of its data type.
pub(crate) fn constructor_type(types: &DataTypes, name: Symbol) -> Option<Type> {
    let (adt_name, adt, tag) = types.constructor(name)?;
    let constructor = adt.decl.constructors.get(tag)?;
    let params =
        adt.decl.params.iter().zip(&adt.shape_params).map(|(name, is_shape)| match is_shape {
            true => TypeParam::Dim(ir_core::Dim::parameter(*name)),
            false => TypeParam::Type(Type::parameter(*name)),
        });
    Some(Type::new(TypeData::Function(FunctionType {
        type_params: adt.decl.params.as_slice().into(),
        params: constructor.fields.as_slice().into(),
        result: Type::named(adt_name, params),
    })))
}
