//! `#[derive(Pass)]` and `#[derive(Options)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Error, Meta, Result};

use crate::fields;

pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let ident = &input.ident;
    let (mut name, mut variant, mut never_after) = (None, None, vec![]);
    for entry in fields::entries(&input, "pass")? {
        match &entry {
            Meta::NameValue(meta) if meta.path.is_ident("name") => {
                name = Some(fields::string(&meta.value)?);
            }
            Meta::NameValue(meta) if meta.path.is_ident("never_after") => {
                let names = fields::string(&meta.value)?;
                never_after.extend(names.split_whitespace().map(str::to_string));
            }
            Meta::Path(path) if path.is_ident("function") => variant = Some("Function"),
            Meta::Path(path) if path.is_ident("module") => variant = Some("Module"),
            other => {
                let message = "expected `name`, `never_after`, `function` or `module`";
                return Err(Error::new_spanned(other, message));
            }
        }
    }
    let (Some(name), Some(variant)) = (name, variant) else {
        let message = "expected #[pass(name = \"…\", function)] or #[pass(name = \"…\", module)]";
        return Err(Error::new_spanned(ident, message));
    };
    let variant = format_ident!("{variant}");
    let doc = fields::doc(&input.attrs);
    let options = options(&input, &format!("pass `{name}`"))?;
    Ok(quote! {
        #options

        impl ::ir_core::pass::Pass for #ident {
            fn def() -> ::ir_core::pass::PassDef {
                ::ir_core::pass::PassDef {
                    name: #name,
                    doc: #doc,
                    never_after: &[#(#never_after),*],
                    options: <#ident as ::ir_core::pass::Options>::FIELDS,
                    make: |options| {
                        let pass = <#ident as ::ir_core::pass::Options>::read(options)?;
                        ::core::result::Result::Ok(::ir_core::pass::PassInstance::#variant(
                            ::std::boxed::Box::new(pass)))
                    },
                }
            }
        }
    })
}

/// `#[derive(Options)]`.
pub(crate) fn expand_options(input: DeriveInput) -> Result<TokenStream> {
    let mut owner = None;
    for entry in fields::entries(&input, "options")? {
        match &entry {
            Meta::NameValue(meta) if meta.path.is_ident("of") => {
                owner = Some(fields::string(&meta.value)?);
            }
            other => return Err(Error::new_spanned(other, "expected `of`")),
        }
    }
    match owner {
        Some(owner) => options(&input, &owner),
        None => Err(Error::new_spanned(&input.ident, "expected #[options(of = \"…\")]")),
    }
}

/// The options of `owner`, as messages call it.
fn options(input: &DeriveInput, owner: &str) -> Result<TokenStream> {
    let ident = &input.ident;
    let (mut idents, mut options, mut defaults, mut reads) = (vec![], vec![], vec![], vec![]);
    for field in fields::named_fields(input)? {
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
            settle: <#ty as ::ir_core::pass::OptionValue>::settle,
            doc: #doc,
        }));
        defaults.push(quote!(let mut #field_ident: #ty = #default;));
        reads.push(quote! {
            #key => match <#ty as ::ir_core::pass::OptionValue>::parse(value) {
                ::core::option::Option::Some(value) => #field_ident = value,
                ::core::option::Option::None => {
                    return ::core::result::Result::Err(::std::format!(
                        "option `{}` of {} expects {}, found `{}`",
                        #key, #owner, <#ty as ::ir_core::pass::OptionValue>::EXPECTS, value));
                }
            },
        });
        idents.push(field_ident);
    }
    Ok(quote! {
        impl ::ir_core::pass::Options for #ident {
            const OWNER: &'static str = #owner;
            const FIELDS: &'static [::ir_core::pass::OptionField] = &[#(#options),*];

            fn read(
                options: &[(::std::string::String, ::std::string::String)],
            ) -> ::core::result::Result<Self, ::std::string::String> {
                #(#defaults)*
                #[allow(clippy::never_loop)]
                for (key, value) in options {
                    let _ = value;
                    match key.as_str() {
                        #(#reads)*
                        _ => {
                            return ::core::result::Result::Err(::ir_core::pass::unknown_option(
                                #owner, <Self as ::ir_core::pass::Options>::FIELDS, key));
                        }
                    }
                }
                ::core::result::Result::Ok(#ident { #(#idents),* })
            }
        }
    })
}
