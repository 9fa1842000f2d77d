//! Properties of inference: programs that are well typed by construction are accepted with the
//! type they were made for, and what inference accepts the verifier accepts.

use ir_core::{Body, EntityId, Module, OpId, Registry, Type, ValueDef, ValueId};
use proptest::prelude::*;
use relay::inference::infer_module;
use relay::text::parse;

fn registry() -> Registry {
    Registry::new().with(relay::dialect())
}

/// The types that [`expression`] makes values of.
#[derive(Clone, Copy, Debug)]
enum Ty {
    Int,
    Bool,
    List,
    Pair,
    Fn,
}

impl Ty {
    fn text(self) -> &'static str {
        match self {
            Ty::Int => "int32",
            Ty::Bool => "bool",
            Ty::List => "List[int32]",
            Ty::Pair => "(int32, List[int32])",
            Ty::Fn => "fn (int32) -> int32",
        }
    }
}

/// An expression of type `ty`, at most `depth` forms deep; `choices` decides which, and every
/// variable has a name of its own.
fn expression(ty: Ty, depth: u32, choices: &mut dyn FnMut() -> u32, names: &mut u32) -> String {
    let leaf = depth == 0;
    let form = choices() % 6;
    let mut inner = |ty| expression(ty, depth.saturating_sub(1), choices, names);
    let text = match (ty, form) {
        (Ty::Int, _) if leaf => "%n".to_string(),
        (Ty::Bool, _) if leaf => "True".to_string(),
        (Ty::List, _) if leaf => "Nil".to_string(),
        (Ty::Pair, _) if leaf => "(%n, Nil)".to_string(),
        (Ty::Fn, _) if leaf => "@id".to_string(),
        (_, 0) => {
            let (condition, then, otherwise) = (inner(Ty::Bool), inner(ty), inner(ty));
            format!("if ({condition}) {{ {then} }} else {{ {otherwise} }}")
        }
        (_, 1) => format!("@id({})", inner(ty)),
        (_, 2) => {
            let (bound, body) = (inner(Ty::Pair), inner(ty));
            *names += 1;
            format!("@second((fn (%v{names}) {{ %v{names}.0 }})({bound}), {body})")
        }
        (Ty::Int, 3) => format!("add({}, {})", inner(Ty::Int), inner(Ty::Int)),
        (Ty::Int, 4) => format!("({}).0", inner(Ty::Pair)),
        (Ty::Int, _) => format!("({})({})", inner(Ty::Fn), inner(Ty::Int)),
        (Ty::Bool, _) => format!("less({}, {})", inner(Ty::Int), inner(Ty::Int)),
        (Ty::List, 3) => format!("@map({}, {})", inner(Ty::Fn), inner(Ty::List)),
        (Ty::List, 4) => format!("({}).1", inner(Ty::Pair)),
        (Ty::List, _) => format!("Cons({}, {})", inner(Ty::Int), inner(Ty::List)),
        (Ty::Pair, _) => format!("({}, {})", inner(Ty::Int), inner(Ty::List)),
        (Ty::Fn, 3) => "negative".to_string(),
        (Ty::Fn, _) => {
            let body = inner(Ty::Int);
            *names += 1;
            format!("fn (%v{names}) {{ add(%v{names}, {body}) }}")
        }
    };
    text
}

fn program(result: Ty, choices: Vec<u32>) -> String {
    let mut choices = choices.into_iter();
    let (mut next, mut names) = (|| choices.next().unwrap_or(5), 0);
    let body = expression(result, 5, &mut next, &mut names);
    format!(
        "{}def @second(%a, %b) {{ %b }}\ndef @main(%n: int32) {{ {body} }}\n",
        relay::prelude::TEXT
    )
}

fn ty() -> impl Strategy<Value = Ty> {
    prop::sample::select(vec![Ty::Int, Ty::Bool, Ty::List, Ty::Pair, Ty::Fn])
}

fn read(text: &str, registry: &Registry) -> Module {
    let (module, diagnostics) = parse("test", text, registry);
    assert!(diagnostics.is_empty(), "{text}\n{diagnostics:#?}");
    module
}

/// The values that `op` may use.
fn in_scope(body: &Body, op: OpId) -> Vec<ValueId> {
    let all = (0..body.value_capacity()).map(ValueId::from_index);
    let usable = |value: &ValueId| {
        let Some(anchor) = body.def_block(*value).and_then(|block| body.ancestor_in(op, block))
        else {
            return false;
        };
        match body.def(*value) {
            ValueDef::Argument(..) => true,
            ValueDef::Result(def, _) => def != anchor && body.is_before(def, anchor),
        }
    };
    all.filter(usable).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn well_typed_programs_are_accepted(
        result in ty(),
        choices in prop::collection::vec(0u32..1000, 200),
    ) {
        let registry = registry();
        let text = program(result, choices);
        let mut module = read(&text, &registry);
        let diagnostics = infer_module(&mut module, &registry);
        prop_assert!(diagnostics.is_empty(), "{}\n{:#?}", text, diagnostics);
        let ty = module.get("main").unwrap().signature.ty.as_function().unwrap().result.to_string();
        // `id` may stand for one of its instances.
        prop_assert!(ty == result.text() || ty == "fn [A](A) -> A", "{}\n{}", text, ty);
        prop_assert!(ir_core::verify::verify(&module, &registry).is_ok(), "{}", text);
    }

    #[test]
    fn what_inference_accepts_is_verified(
        result in ty(),
        choices in prop::collection::vec(0u32..1000, 200),
        mutations in prop::collection::vec((0usize..1000, 0usize..8, 0usize..1000), 1..4),
    ) {
        let registry = registry();
        let mut module = read(&program(result, choices), &registry);
        let item = module.items.get_mut(&"main".into()).unwrap();
        let body = item.body_mut().unwrap();
        for (op, operand, value) in mutations {
            let ops: Vec<OpId> =
                body.walk().filter(|op| body.operand_count(*op) > 0).collect();
            let op = ops[op % ops.len()];
            let values = in_scope(body, op);
            if !values.is_empty() {
                let operand = operand % body.operand_count(op);
                body.set_operand(op, operand, values[value % values.len()]);
            }
        }
        let diagnostics = infer_module(&mut module, &registry);
        let unknown = |ty: Type| ty.facts().has_unknown || ty.facts().has_variable;
        if diagnostics.iter().all(|diagnostic| !diagnostic.is_error()) {
            let verified = ir_core::verify::verify(&module, &registry).map(|_| ());
            prop_assert!(verified.is_ok(), "{:#?}", verified);
        } else {
            let body = module.body("main").unwrap();
            let variables = body
                .walk()
                .flat_map(|op| body.results(op))
                .filter(|value| body.ty(*value).facts().has_variable)
                .count();
            prop_assert_eq!(variables, 0, "no variable stays in a body");
        }
        let ty = module.get("second").unwrap().signature.ty;
        prop_assert!(!unknown(ty), "an error in one function stays there");
    }
}
