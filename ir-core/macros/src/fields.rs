//! What both macros read from a struct.

use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, Lit, Meta, Result, Token,
};

/// The doc comment of an item, without the space that rustdoc strips too.
pub(crate) fn doc(attrs: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("doc")) {
        if let Meta::NameValue(meta) = &attr.meta
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value
        {
            let text = text.value();
            lines.push(text.strip_prefix(' ').unwrap_or(&text).to_string());
        }
    }
    lines.join("\n").trim().to_string()
}

/// The named fields of a struct; a unit struct has none.
pub(crate) fn named_fields(input: &DeriveInput) -> Result<Vec<&Field>> {
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields.named.iter().collect()),
            Fields::Unit => Ok(vec![]),
            Fields::Unnamed(_) => Err(Error::new_spanned(input, "the fields need names")),
        },
        _ => Err(Error::new_spanned(input, "only a struct declares fields")),
    }
}

/// The tokens in `#[default(…)]`.
pub(crate) fn default(field: &Field) -> Result<Option<TokenStream>> {
    match field.attrs.iter().find(|attr| attr.path().is_ident("default")) {
        Some(attr) => attr.parse_args().map(Some),
        None => Ok(None),
    }
}

/// The comma-separated entries of `#[name(…)]`.
pub(crate) fn entries(input: &DeriveInput, name: &str) -> Result<Vec<Meta>> {
    let Some(attr) = input.attrs.iter().find(|attr| attr.path().is_ident(name)) else {
        return Err(Error::new_spanned(&input.ident, format!("expected #[{name}(…)]")));
    };
    let entries = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
    Ok(entries.into_iter().collect())
}

/// The string literal of an expression.
pub(crate) fn string(expr: &Expr) -> Result<String> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.value()),
        other => Err(Error::new_spanned(other, "expected a string literal")),
    }
}
