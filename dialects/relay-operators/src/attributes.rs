//! Types of attributes shared by several operators.

use ir_core::{Attr, AttrData, AttrValue};

/// Declares an attribute that is one of a few strings.
macro_rules! keywords {
    ($(#[doc = $doc:tt])* $name:ident { $($(#[doc = $item_doc:tt])* $item:ident = $text:literal,)+ }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[doc = $item_doc])* $item,)+ }

        impl ir_core::AttrValue for $name {
            const EXPECTS: &'static str =
                concat!("one of the strings" $(, " \"", $text, "\"")+);
            fn from_attr(attr: ir_core::Attr) -> Option<Self> {
                match attr.data() {
                    ir_core::AttrData::String(text) => match &**text {
                        $($text => Some($name::$item),)+
                        _ => None,
                    },
                    _ => None,
                }
            }
            fn to_attr(&self) -> ir_core::Attr {
                let text: &str = match self { $($name::$item => $text,)+ };
                ir_core::AttrValue::to_attr(&text.to_string())
            }
        }
    };
}
pub(crate) use keywords;

/// A list of integers; one integer is read as a list of one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Integers(pub Vec<i64>);

impl AttrValue for Integers {
    const EXPECTS: &'static str = "an integer or a list of integers";
    fn from_attr(attr: Attr) -> Option<Integers> {
        match i64::from_attr(attr) {
            Some(value) => Some(Integers(vec![value])),
            None => Vec::from_attr(attr).map(Integers),
        }
    }
    fn to_attr(&self) -> Attr {
        self.0.to_attr()
    }
}

/// How to split an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sections {
    /// Into so many equal parts.
    Equal(i64),
    /// Before each of these indices.
    At(Vec<i64>),
}

impl AttrValue for Sections {
    const EXPECTS: &'static str = "an integer or a list of integers";
    fn from_attr(attr: Attr) -> Option<Sections> {
        match attr.data() {
            AttrData::Int(count) => Some(Sections::Equal(*count)),
            _ => Vec::from_attr(attr).map(Sections::At),
        }
    }
    fn to_attr(&self) -> Attr {
        match self {
            Sections::Equal(count) => count.to_attr(),
            Sections::At(indices) => indices.to_attr(),
        }
    }
}
