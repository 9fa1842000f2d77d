//! `#[derive(Op)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    DeriveInput, Error, Expr, GenericArgument, GenericParam, Ident, Meta, PathArguments, Result,
    Token, Type,
};

use crate::attributes::Attributes;
use crate::fields;

/// What `#[op(…)]` says.
#[derive(Default)]
struct Options {
    name: Option<String>,
    traits: Vec<Expr>,
    effects: Vec<Expr>,
    infer: Option<Expr>,
    verify: Option<Expr>,
    fold: Option<Expr>,
    regions: Vec<Expr>,
    hooks: Vec<Expr>,
    /// `None` for one, unnamed.
    results: Option<Vec<Expr>>,
    open_attrs: bool,
}

impl Options {
    fn read(input: &DeriveInput) -> Result<Options> {
        let mut options = Options::default();
        for entry in fields::entries(input, "op")? {
            let key = entry.path().get_ident().map(Ident::to_string).unwrap_or_default();
            match (key.as_str(), &entry) {
                ("name", Meta::NameValue(meta)) => {
                    options.name = Some(fields::string(&meta.value)?);
                }
                ("infer", Meta::NameValue(meta)) => options.infer = Some(meta.value.clone()),
                ("verify", Meta::NameValue(meta)) => options.verify = Some(meta.value.clone()),
                ("fold", Meta::NameValue(meta)) => options.fold = Some(meta.value.clone()),
                ("results", Meta::NameValue(meta)) => {
                    let zero = matches!(&meta.value, Expr::Lit(lit)
                        if matches!(&lit.lit, syn::Lit::Int(n) if n.base10_digits() == "0"));
                    if !zero {
                        return Err(Error::new_spanned(meta, "expected `results = 0`"));
                    }
                    options.results = Some(vec![]);
                }
                ("open_attrs", Meta::Path(_)) => options.open_attrs = true,
                ("traits" | "effects" | "regions" | "results" | "hooks", Meta::List(list)) => {
                    let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
                    let exprs = parser.parse2(list.tokens.clone())?.into_iter().collect();
                    match key.as_str() {
                        "traits" => options.traits = exprs,
                        "effects" => options.effects = exprs,
                        "regions" => options.regions = exprs,
                        "results" => options.results = Some(exprs),
                        _ => options.hooks = exprs,
                    }
                }
                _ => return Err(Error::new_spanned(&entry, "unknown key, or in the wrong form")),
            }
        }
        Ok(options)
    }
}

enum Kind {
    Operand,
    OptionalOperand,
    OperandList,
    Attribute,
}

fn kind(ty: &Type, operand: Option<&Ident>) -> Kind {
    let (Type::Path(path), Some(operand)) = (ty, operand) else { return Kind::Attribute };
    if path.path.is_ident(operand) {
        return Kind::Operand;
    }
    let Some(last) = path.path.segments.last() else { return Kind::Attribute };
    let PathArguments::AngleBracketed(args) = &last.arguments else { return Kind::Attribute };
    let inner = match args.args.first() {
        Some(GenericArgument::Type(Type::Path(inner))) => inner.path.is_ident(operand),
        _ => false,
    };
    match (inner, last.ident.to_string().as_str()) {
        (true, "Option") => Kind::OptionalOperand,
        (true, "Vec") => Kind::OperandList,
        _ => Kind::Attribute,
    }
}

/// The declaration of a region or result: `name`, or `names..` for any number.
fn field(declared: &Expr) -> TokenStream {
    let (name, arity) = match declared {
        Expr::Range(syn::ExprRange { start: Some(name), end: None, .. }) => {
            (quote!(#name).to_string(), quote!(Many))
        }
        name => (quote!(#name).to_string(), quote!(One)),
    };
    quote!(::ir_core::registry::Field {
        name: #name, arity: ::ir_core::registry::Arity::#arity, doc: "",
    })
}

pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let options = Options::read(&input)?;
    let ident = &input.ident;
    let Some(name) = &options.name else {
        return Err(Error::new_spanned(ident, "expected `name = \"dialect.op\"`"));
    };
    let operand = input.generics.params.iter().find_map(|param| match param {
        GenericParam::Type(param) => Some(&param.ident),
        _ => None,
    });
    let with = |v: TokenStream| match operand {
        Some(_) => quote!(#ident<#v>),
        None => quote!(#ident),
    };

    let mut idents = Vec::new();
    let (mut operand_fields, mut take_operands) = (Vec::new(), Vec::new());
    let mut push_operands = Vec::new();
    let mut attributes = Attributes::default();
    let mut last_operand: Option<&Ident> = None;
    for field in fields::named_fields(&input)? {
        let Some(field_ident) = &field.ident else { continue };
        let (doc, ty) = (fields::doc(&field.attrs), &field.ty);
        let field_name = field_ident.to_string().trim_start_matches("r#").to_string();
        idents.push(field_ident);
        let kind = kind(ty, operand);
        if let (Some(last), false) = (last_operand, matches!(kind, Kind::Attribute)) {
            let message = format!("`{last}` must be the last operand");
            return Err(Error::new_spanned(field_ident, message));
        }
        let mut operand_field = |arity: TokenStream| {
            operand_fields.push(quote!(::ir_core::registry::Field {
                name: #field_name,
                arity: ::ir_core::registry::Arity::#arity,
                doc: #doc,
            }));
        };
        match kind {
            Kind::Operand => {
                operand_field(quote!(One));
                take_operands.push(quote! {
                    let #field_ident = match __operands.next() {
                        ::core::option::Option::Some(value) => value,
                        ::core::option::Option::None => {
                            return ::core::result::Result::Err(::std::format!(
                                "`{}` needs the operand `{}`", #name, #field_name));
                        }
                    };
                });
                push_operands.push(quote!(__out.push(self.#field_ident.clone());));
            }
            Kind::OptionalOperand => {
                operand_field(quote!(Optional));
                last_operand = Some(field_ident);
                take_operands.push(quote!(let #field_ident = __operands.next();));
                push_operands.push(quote!(__out.extend(self.#field_ident.clone());));
            }
            Kind::OperandList => {
                operand_field(quote!(Many));
                last_operand = Some(field_ident);
                take_operands.push(quote! {
                    let #field_ident = ::core::iter::Iterator::collect(__operands.by_ref());
                });
                push_operands.push(quote!(__out.extend(self.#field_ident.iter().cloned());));
            }
            Kind::Attribute => attributes.add(field, &quote!(#name))?,
        }
    }

    let doc = fields::doc(&input.attrs);
    let (traits, effects, hooks) = (&options.traits, &options.effects, &options.hooks);
    let open_attrs = options.open_attrs;
    let option = |expr: &Option<Expr>| match expr {
        Some(expr) => quote!(::core::option::Option::Some(#expr)),
        None => quote!(::core::option::Option::None),
    };
    let (verify, fold) = (option(&options.verify), option(&options.fold));
    let typed = with(quote!(::ir_core::Type));
    let infer = match &options.infer {
        Some(relation) => quote!(::core::option::Option::Some(|cx| {
            let fields = <#typed as ::ir_core::OpFields<::ir_core::Type>>::decode(
                cx.operands, cx.attrs).map_err(::ir_core::Stop::Error)?;
            (#relation)(fields, cx)
        })),
        None => quote!(::core::option::Option::None),
    };
    let regions = options.regions.iter().map(field);
    let results = match &options.results {
        None => quote!(::ir_core::registry::ONE_RESULT),
        Some(results) => {
            let results = results.iter().map(field);
            quote!(&[#(#results),*])
        }
    };
    let Attributes { declared, decode, encode } = &attributes;
    let view = with(quote!(::ir_core::ValueId));
    let generic = with(quote!(__V));
    Ok(quote! {
        impl<__V: ::core::clone::Clone> ::ir_core::OpFields<__V> for #generic {
            const NAME: &'static str = #name;

            fn decode(
                operands: &[__V],
                __attrs: ::ir_core::AttrDict,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                #[allow(unused_mut)]
                let mut __operands = operands.iter().cloned();
                #(#take_operands)*
                #(#decode)*
                if __operands.next().is_some() {
                    return ::core::result::Result::Err(::std::format!(
                        "`{}` takes fewer than {} operands", #name, operands.len()));
                }
                ::core::result::Result::Ok(Self { #(#idents),* })
            }

            fn operands(&self) -> ::ir_core::SmallVec<[__V; 4]> {
                #[allow(unused_mut)]
                let mut __out = ::ir_core::SmallVec::new();
                #(#push_operands)*
                __out
            }

            fn attrs(&self) -> ::ir_core::AttrDict {
                #[allow(unused_mut)]
                let mut __entries: ::std::vec::Vec<(::ir_core::Symbol, ::ir_core::Attr)> =
                    ::std::vec::Vec::new();
                {
                    #[allow(unused_variables)]
                    let __entries = &mut __entries;
                    #(#encode)*
                }
                ::ir_core::AttrDict::new(__entries)
            }
        }

        impl #view {
            /// Full name of the operation, `dialect.op`.
            pub const NAME: &'static str = #name;
        }

        impl ::ir_core::Op for #view {
            fn info() -> ::ir_core::OpInfo {
                use ::ir_core::{op::AttrPart as __Part, registry::AttrField as __Field};
                const __PARTS: &[__Part] = &[#(#declared),*];
                const __ATTRS: [__Field; __Part::count(__PARTS)] = __Part::flatten(__PARTS);
                ::ir_core::OpInfo::new(::ir_core::OpDef {
                    traits: ::ir_core::Traits::empty() #(.union(::ir_core::Traits::#traits))*,
                    effects: ::ir_core::Effects::empty() #(.union(::ir_core::Effects::#effects))*,
                    operands: &[#(#operand_fields),*],
                    attrs: &__ATTRS,
                    open_attrs: #open_attrs,
                    results: #results,
                    regions: &[#(#regions),*],
                    infer: #infer,
                    verify: #verify,
                    fold: #fold,
                    ..::ir_core::OpDef::new(#name, #doc)
                })
                #(.with(#hooks))*
            }
        }
    })
}
