//! `#[derive(Pass)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Error, Meta, Result};

use crate::fields;

pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let ident = &input.ident;
    let (mut name, mut variant) = (None, None);
    for entry in fields::entries(&input, "pass")? {
        match &entry {
            Meta::NameValue(meta) if meta.path.is_ident("name") => {
                name = Some(fields::string(&meta.value)?);
            }
            Meta::Path(path) if path.is_ident("function") => variant = Some("Function"),
            Meta::Path(path) if path.is_ident("module") => variant = Some("Module"),
            other => {
                return Err(Error::new_spanned(other, "expected `name`, `function` or `module`"));
            }
        }
    }
    let (Some(name), Some(variant)) = (name, variant) else {
        let message = "expected #[pass(name = \"…\", function)] or #[pass(name = \"…\", module)]";
        return Err(Error::new_spanned(ident, message));
    };
    let variant = format_ident!("{variant}");
    let doc = fields::doc(&input.attrs);
    let (mut idents, mut options, mut defaults, mut reads) = (vec![], vec![], vec![], vec![]);
    for field in fields::named_fields(&input)? {
        let (Some(field_ident), ty) = (&field.ident, &field.ty) else { continue };
        let key = field_ident.to_string().replace('_', "-");
        let Some(default) = fields::default(field)? else {
            return Err(Error::new_spanned(field, "an option needs #[default(…)]"));
        };
        let doc = fields::doc(&field.attrs);
        options.push(quote!(::ir_core::pass::OptionField {
            name: #key,
            expects: <#ty as ::ir_core::pass::OptionValue>::EXPECTS,
            default: || {
                let value: #ty = #default;
                ::ir_core::pass::OptionValue::print(&value)
            },
            doc: #doc,
        }));
        defaults.push(quote!(let mut #field_ident: #ty = #default;));
        reads.push(quote! {
            #key => match <#ty as ::ir_core::pass::OptionValue>::parse(value) {
                ::core::option::Option::Some(value) => #field_ident = value,
                ::core::option::Option::None => {
                    return ::core::result::Result::Err(::std::format!(
                        "option `{}` of pass `{}` expects {}, found `{}`",
                        #key, #name, <#ty as ::ir_core::pass::OptionValue>::EXPECTS, value));
                }
            },
        });
        idents.push(field_ident);
    }
    Ok(quote! {
        impl ::ir_core::pass::Pass for #ident {
            fn def() -> ::ir_core::pass::PassDef {
                ::ir_core::pass::PassDef {
                    name: #name,
                    doc: #doc,
                    options: &[#(#options),*],
                    make: |options| {
                        #(#defaults)*
                        #[allow(clippy::never_loop)]
                        for (key, value) in options {
                            let _ = value;
                            match key.as_str() {
                                #(#reads)*
                                _ => {
                                    return ::core::result::Result::Err(
                                        ::ir_core::pass::unknown_option(
                                            &<#ident as ::ir_core::pass::Pass>::def(), key));
                                }
                            }
                        }
                        ::core::result::Result::Ok(::ir_core::pass::PassInstance::#variant(
                            ::std::boxed::Box::new(#ident { #(#idents),* })))
                    },
                }
            }
        }
    })
}
