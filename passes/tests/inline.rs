//! Inlining: a module grows in proportion to what it was.

use crate::common;

use std::fmt::Write;

use common::{parse, registry, run};

/// Functions that call themselves, each of which calls a chain of plain ones that all share.
fn shared_chain(length: usize) -> String {
    let mut text = "def @h0(%x: float32) -> float32 { tanh(%x) }\n".to_string();
    let mut main = "let %y0 = %x;\n".to_string();
    for index in 1..length {
        let below = index - 1;
        let functions = format!(
            "def @h{index}(%x: float32) -> float32 {{ @h{below}(add(%x, 1f)) }}
             def @g{index}(%x: float32) -> float32 {{
               if (less(%x, 0f)) {{ %x }} else {{ @g{index}(@h{index}(%x)) }}
             }}\n"
        );
        text += &functions;
        writeln!(main, "let %y{index} = @g{index}(%y{below});").unwrap();
    }
    format!("{text}def @main(%x: float32) -> float32 {{ {main} %y{} }}", length - 1)
}

#[test]
fn shared_functions_are_not_copied_into_each_caller() {
    let registry = registry();
    for length in [100, 2_000] {
        let mut module = parse("in", &shared_chain(length), &registry).unwrap();
        let before = module.op_count();
        run(&mut module, "inline{all growth=0}", &registry).unwrap();
        assert!(module.op_count() <= 4 * before, "{} of {before}", module.op_count());
    }
}

#[test]
fn chains_of_functions_become_one() {
    let registry = registry();
    let mut text = "def @f0(%x: float32) -> float32 { tanh(%x) }\n".to_string();
    let length = 20_000;
    for index in 1..length {
        let below = index - 1;
        text += &format!("def @f{index}(%x: float32) -> float32 {{ @f{below}(add(%x, 1f)) }}\n");
    }
    text += &format!("def @main(%x: float32) -> float32 {{ @f{}(%x) }}", length - 1);
    let mut module = parse("in", &text, &registry).unwrap();
    let before = module.op_count();
    run(&mut module, "inline{all growth=0}", &registry).unwrap();
    assert!(module.op_count() <= 2 * before);
    let main = module.body("main").unwrap();
    assert!(main.walk().all(|op| main.op_name(op) != "relay.call"));
}
