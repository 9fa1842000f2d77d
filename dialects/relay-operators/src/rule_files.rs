//! The rewrite rules about relay's operators, and the strategies that apply them. The texts stand in
//! `rewrites/rules/relay`, which `rules` is a link to, so that they are part of this crate.

use ir_core::Registry;
use ir_core::registry::RuleDefaults;

/// Files of rules by name; earlier rules are tried first.
const RULES: &[(&str, &str)] = &[
    ("simplify.rules", include_str!("../rules/simplify.rules")),
    ("compare.rules", include_str!("../rules/compare.rules")),
    ("finite-math.rules", include_str!("../rules/finite-math.rules")),
    ("real-math.rules", include_str!("../rules/real-math.rules")),
    ("fast-math.rules", include_str!("../rules/fast-math.rules")),
    ("algebra.rules", include_str!("../rules/algebra.rules")),
    ("motion.rules", include_str!("../rules/motion.rules")),
    ("join.rules", include_str!("../rules/join.rules")),
    ("linear.rules", include_str!("../rules/linear.rules")),
    ("convolution.rules", include_str!("../rules/convolution.rules")),
    ("winograd.rules", include_str!("../rules/winograd.rules")),
    ("reduction.rules", include_str!("../rules/reduction.rules")),
    ("recognize.rules", include_str!("../rules/recognize.rules")),
    ("inference.rules", include_str!("../rules/inference.rules")),
];

/// Strategies by name.
const STRATEGIES: &[(&str, &str)] = &[
    ("greedy", include_str!("../rules/greedy.strategy")),
    ("beam", include_str!("../rules/beam.strategy")),
    ("egraph", include_str!("../rules/egraph.strategy")),
    ("merge-first", include_str!("../rules/merge-first.strategy")),
    ("backoff", include_str!("../rules/backoff.strategy")),
    ("pulsed", include_str!("../rules/pulsed.strategy")),
    ("same-bits", include_str!("../rules/same-bits.strategy")),
    ("exact", include_str!("../rules/exact.strategy")),
];

/// None of class `real`: what is written to be stable stays so.
const DEFAULTS: RuleDefaults = RuleDefaults {
    dialect: "relay",
    sets: &[
        "simplify",
        "algebra",
        "join",
        "linear",
        "merge",
        "convolution",
        "fold",
        "reduction",
        "recognize",
    ],
};

pub(crate) fn register(registry: &mut Registry) {
    RULES.iter().for_each(|(name, text)| registry.add_rule_file(name, text));
    STRATEGIES.iter().for_each(|(name, text)| registry.add_strategy(name, text));
    registry.set_rule_defaults(DEFAULTS);
}
