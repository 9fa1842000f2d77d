//! Data types.

use ir_core::{AttrDict, Signature, Signatures, Symbol, Type, TypeData};

use crate::DATA;

/// The declaration of a data type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Declaration {
    /// Its constructors; their position is their number.
    pub constructors: Vec<Constructor>,
}

/// The declaration of a constructor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constructor {
    /// Its name in the source.
    pub name: String,
    /// Types of its fields.
    pub fields: Vec<Type>,
}

impl Declaration {
    /// This declaration as the attributes of an item of kind [`DATA`].
    pub fn to_attrs(&self) -> AttrDict {
        let constructor = |constructor: &Constructor| {
            let Constructor { name, fields } = constructor;
            AttrDict::empty().with("name", name).with("fields", fields)
        };
        let constructors: Vec<AttrDict> = self.constructors.iter().map(constructor).collect();
        AttrDict::empty().with("constructors", &constructors)
    }

    /// The declaration in the attributes of an item of kind [`DATA`]; `None` where they are not one.
    pub fn from_attrs(attrs: AttrDict) -> Option<Declaration> {
        let constructors: Vec<AttrDict> = attrs.value("constructors")?;
        let constructor = |attrs: AttrDict| {
            Some(Constructor { name: attrs.value("name")?, fields: attrs.value("fields")? })
        };
        let constructors = constructors.into_iter().map(constructor).collect::<Option<_>>()?;
        Some(Declaration { constructors })
    }

    /// The declaration of data of type `ty` in a module; `None` where it is no data.
    pub fn of(ty: Type, signatures: &Signatures) -> Option<Declaration> {
        Declaration::of_item(signatures.get(&name(ty)?)?)
    }

    /// The declaration that an item holds.
    pub fn of_item(signature: &Signature) -> Option<Declaration> {
        let is_data = signature.op == DATA;
        is_data.then(|| Declaration::from_attrs(signature.attrs)).flatten()
    }
}

/// The name of the data type `ty`.
pub fn name(ty: Type) -> Option<Symbol> {
    match ty.data() {
        TypeData::Named { name, params } if params.is_empty() => Some(*name),
        _ => None,
    }
}
