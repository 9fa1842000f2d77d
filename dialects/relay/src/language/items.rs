//! The kinds of items: functions, data types, and what is kept as text.

use ir_core::{AttrDict, Symbol, Type};

/// The kind of a function item. Its signature holds the function type and, as attributes, what
/// the source wrote after the parameters (`Primitive=1`).
pub const FUNC: &str = "relay.func";

/// The kind of a data type item; its signature's attributes are an [`AdtDecl`].
pub const TYPE: &str = "relay.type";

/// The kind of an item that is a function of the original's tensor-level language: text that is
/// kept, and not understood.
pub const EXTERNAL: &str = "relay.external";

/// The type of a reference to an [`EXTERNAL`] item. Nothing but `vm.invoke_tvm_op` takes one.
pub const EXTERNAL_TYPE: &str = "tir.PrimFunc";

/// The declaration of a data type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AdtDecl {
    /// Type parameters.
    pub params: Vec<Symbol>,
    /// Constructors in declared order; their position is their tag.
    pub constructors: Vec<ConstructorDecl>,
    /// Whether it is `extern`: its values are made outside.
    pub is_extern: bool,
}

/// The declaration of a constructor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConstructorDecl {
    /// Name, unique in the module.
    pub name: Symbol,
    /// Types of the fields, in terms of the data type's parameters.
    pub fields: Vec<Type>,
    /// What it is a copy of, where a pass copied its data type: values are printed with that name.
    pub original: Option<Symbol>,
}

impl ConstructorDecl {
    /// A constructor that is no copy.
    pub fn new(name: impl Into<Symbol>, fields: Vec<Type>) -> ConstructorDecl {
        ConstructorDecl { name: name.into(), fields, original: None }
    }

    /// The name with which its values are printed.
    pub fn shown(&self) -> Symbol {
        self.original.unwrap_or(self.name)
    }
}

impl AdtDecl {
    /// This declaration as the attributes of a [`TYPE`] item.
    pub fn to_attrs(&self) -> AttrDict {
        let names = |names: &[Symbol]| names.iter().map(Symbol::to_string).collect::<Vec<_>>();
        let constructors: Vec<AttrDict> = self
            .constructors
            .iter()
            .map(|c| {
                let attrs = AttrDict::empty().with("name", &c.name.to_string());
                let attrs = attrs.with("fields", &c.fields);
                match c.original {
                    Some(original) => attrs.with("original", &original.to_string()),
                    None => attrs,
                }
            })
            .collect();
        AttrDict::empty()
            .with("params", &names(&self.params))
            .with("constructors", &constructors)
            .with("extern", &self.is_extern)
    }

    /// The declaration in the attributes of a [`TYPE`] item; `None` where they are not one.
    pub fn from_attrs(attrs: AttrDict) -> Option<AdtDecl> {
        let params: Vec<String> = attrs.value("params")?;
        let constructors: Vec<AttrDict> = attrs.value("constructors")?;
        let constructors = constructors
            .into_iter()
            .map(|c| {
                let name: String = c.value("name")?;
                let original = c.value::<String>("original").map(|name| Symbol::new(&name));
                Some(ConstructorDecl {
                    original,
                    ..ConstructorDecl::new(name.as_str(), c.value("fields")?)
                })
            })
            .collect::<Option<_>>()?;
        Some(AdtDecl {
            params: params.iter().map(|name| Symbol::new(name)).collect(),
            constructors,
            is_extern: attrs.value("extern")?,
        })
    }
}
