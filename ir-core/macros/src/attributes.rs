//! What both structs of attributes, operations and groups, derive from those of their fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Field, Ident, Result};

use crate::fields;

/// The declarations of attributes, and the statements that read and write them, in order.
#[derive(Default)]
pub(crate) struct Attributes {
    /// Each an `AttrPart`.
    pub(crate) declared: Vec<TokenStream>,
    /// Each binds a field to what `__attrs` says, or returns an error.
    pub(crate) decode: Vec<TokenStream>,
    /// Each adds what a field of `self` says to `__entries`.
    pub(crate) encode: Vec<TokenStream>,
}

impl Attributes {
    /// Adds the attribute or group of attributes that `field` declares. Messages call the operation
    /// that has it `owner`, an expression.
    pub(crate) fn add(&mut self, field: &Field, owner: &TokenStream) -> Result<()> {
        let Some(ident) = &field.ident else { return Ok(()) };
        match field.attrs.iter().find(|attr| attr.path().is_ident("flatten")) {
            Some(flatten) => {
                flatten.meta.require_path_only()?;
                self.add_group(field, ident, owner)
            }
            None => self.add_attribute(field, ident, owner),
        }
    }

    fn add_group(&mut self, field: &Field, ident: &Ident, owner: &TokenStream) -> Result<()> {
        let own = ["default", "key"];
        if let Some(attr) =
            field.attrs.iter().find(|a| own.iter().any(|key| a.path().is_ident(key)))
        {
            return Err(Error::new_spanned(attr, "a group has keys and defaults of its own"));
        }
        let ty = &field.ty;
        self.declared.push(quote! {
            ::ir_core::op::AttrPart::Group(<#ty as ::ir_core::AttrGroup>::PARTS)
        });
        self.decode.push(quote! {
            let #ident: #ty = <#ty as ::ir_core::AttrGroup>::decode(#owner, __attrs)?;
        });
        self.encode.push(quote! {
            ::ir_core::AttrGroup::encode(&self.#ident, __entries);
        });
        Ok(())
    }

    fn add_attribute(&mut self, field: &Field, ident: &Ident, owner: &TokenStream) -> Result<()> {
        let (doc, ty) = (fields::doc(&field.attrs), &field.ty);
        let key = key(field, ident)?;
        let default = fields::default(field)?;
        let value = quote!(<#ty as ::ir_core::AttrValue>);
        let (default_attr, missing) = match &default {
            Some(default) => (
                quote!(::core::option::Option::Some(|| {
                    let value: #ty = #default;
                    ::ir_core::AttrValue::to_attr(&value)
                })),
                quote!(#default),
            ),
            None => (
                quote!(::core::option::Option::None),
                quote!(
                    return ::core::result::Result::Err(::std::format!(
                    "`{}` needs the attribute `{}`, {}", #owner, #key, #value::EXPECTS))
                ),
            ),
        };
        self.declared.push(quote! {
            ::ir_core::op::AttrPart::Field(::ir_core::registry::AttrField {
                name: #key,
                expects: #value::EXPECTS,
                normalize: |attr| {
                    let value = #value::from_attr(attr)?;
                    ::core::option::Option::Some(::ir_core::AttrValue::to_attr(&value))
                },
                default: #default_attr,
                doc: #doc,
            })
        });
        self.decode.push(quote! {
            let #ident: #ty = match __attrs.get(#key) {
                ::core::option::Option::Some(attr) => match #value::from_attr(attr) {
                    ::core::option::Option::Some(value) => value,
                    ::core::option::Option::None => {
                        return ::core::result::Result::Err(::std::format!(
                            "attribute `{}` of `{}` expects {}", #key, #owner, #value::EXPECTS));
                    }
                },
                ::core::option::Option::None => #missing,
            };
        });
        let push = quote!(__entries.push((::ir_core::Symbol::new(#key), __attr)););
        let is_written = default.map(|default| {
            quote! {
                let __default: #ty = #default;
                if __attr != ::ir_core::AttrValue::to_attr(&__default)
            }
        });
        self.encode.push(quote! {
            let __attr = ::ir_core::AttrValue::to_attr(&self.#ident);
            #is_written { #push }
        });
        Ok(())
    }
}

/// The key of an attribute in dictionaries.
fn key(field: &Field, ident: &Ident) -> Result<String> {
    match field.attrs.iter().find(|attr| attr.path().is_ident("key")) {
        Some(attr) => fields::string(&attr.meta.require_name_value()?.value),
        None => Ok(ident.to_string().trim_start_matches("r#").to_string()),
    }
}

/// `#[derive(AttrGroup)]`.
pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let mut attributes = Attributes::default();
    let fields = fields::named_fields(&input)?;
    for field in &fields {
        attributes.add(field, &quote!(__op))?;
    }
    let idents = fields.iter().map(|field| &field.ident);
    let Attributes { declared, decode, encode } = &attributes;
    let ident = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        impl #impl_generics ::ir_core::AttrGroup for #ident #ty_generics #where_clause {
            const PARTS: &'static [::ir_core::op::AttrPart] = &[#(#declared),*];

            fn decode(
                __op: &str,
                __attrs: ::ir_core::AttrDict,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                #(#decode)*
                ::core::result::Result::Ok(Self { #(#idents),* })
            }

            fn encode(
                &self,
                __entries: &mut ::std::vec::Vec<(::ir_core::Symbol, ::ir_core::Attr)>,
            ) {
                #(#encode)*
            }
        }
    })
}
