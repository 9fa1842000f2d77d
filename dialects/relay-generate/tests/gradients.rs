//! Rules of gradients, and what is derived from definitions.

use ir_core::Registry;
use relay_operators::gradient::check::{Report, check_all};

fn reports() -> Vec<Report> {
    let registry = Registry::from([te::dialect(), relay_operators::dialect()]);
    check_all(&registry, 4, |seed| relay_generate::random_network(&registry, seed, 10))
}

/// Operators that some derivative is not derived of, and why.
const UNDERIVED: &[(&str, &str)] =
    &[("relay.scatter_elements", "`scatter_elements` scatters by a combination that is no sum")];

#[test]
fn rules_and_what_is_derived_are_derivatives() {
    let mut failures = vec![];
    let mut underived = vec![];
    let (mut limits, mut transposed, mut second) = (0, 0, 0);
    for Report { name, findings, excluded, samples, .. } in reports() {
        if samples == 0 {
            let why = excluded.expect("what is not checked has a reason");
            assert_ne!(why, "no operands were found", "{name}");
        }
        limits += findings.limits;
        transposed += findings.transposed;
        second += findings.second;
        failures.extend(findings.faults.iter().map(|fault| format!("{name} {fault}")));
        underived.extend(findings.underived.into_iter().map(|why| (name, why)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let underived: Vec<(&str, &str)> =
        underived.iter().map(|(name, why)| (*name, why.as_str())).collect();
    assert_eq!(underived, UNDERIVED);
    assert!(limits > 800 && transposed > 300 && second > 300, "{limits} {transposed} {second}");
}
