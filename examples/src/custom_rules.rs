//! Rewrite rules of a dialect, with a function of its own.

// ANCHOR: rules
use ir_core::{Attr, Registry, RuleFunction};

const IS_POWER_OF_TWO: RuleFunction = RuleFunction {
    name: "is_power_of_two",
    params: &["number"],
    doc: "Whether a number is 1, 2, 4 and so on, or its reciprocal is.",
    eval: |arguments| {
        let number: f64 = arguments[0].attr()?;
        Some(Attr::of(&(number > 0.0 && number.log2().fract() == 0.0)))
    },
};

const RULES: &str = "
dialect relay;
rule divide-by-power-of-two exact [powers]:
  divide(%x, %c) => multiply(%x, constant(value=scalar(1.0 / splat(%c), dtype(%x))))
  where typed, is_float(%x), is_power_of_two(splat(%c));
";

/// Adds the rule and the function that its condition calls.
pub fn register(registry: &mut Registry) {
    registry.add_rule_function(IS_POWER_OF_TWO);
    registry.add_rule_file("powers.rules", RULES);
}
// ANCHOR_END: rules
