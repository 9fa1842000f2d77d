//! Boolean expressions over features: `REQUIRES: linux && !(debug || asan)`.

use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Open,
    Or,
    And,
    Not,
}

/// Whether `expression` holds where `features` are present.
///
/// `!` binds before `&&`, and that before `||`; `true` always holds.
///
/// # Errors
/// What was expected, and what was found.
pub(super) fn holds(expression: &str, features: &BTreeSet<String>) -> Result<bool, String> {
    let mut values: Vec<bool> = Vec::new();
    let mut operators: Vec<Operator> = Vec::new();
    let mut wants_operand = true;
    let mut rest = expression.trim_start();
    while !rest.is_empty() {
        let expected = if wants_operand { "a feature, ! or (" } else { "&&, || or )" };
        let (operator, length) = match rest.as_bytes() {
            [b'!', ..] if wants_operand => (Some(Operator::Not), 1),
            [b'(', ..] if wants_operand => (Some(Operator::Open), 1),
            [b')', ..] if !wants_operand => (None, 1),
            [b'&', b'&', ..] if !wants_operand => (Some(Operator::And), 2),
            [b'|', b'|', ..] if !wants_operand => (Some(Operator::Or), 2),
            _ => {
                let length = rest.bytes().take_while(|&b| is_feature_byte(b)).count();
                if length == 0 || !wants_operand {
                    return Err(format!("expected {expected}, found '{rest}' in '{expression}'"));
                }
                let name = &rest[..length];
                values.push(name == "true" || features.contains(name));
                wants_operand = false;
                rest = rest[length..].trim_start();
                continue;
            }
        };
        match operator {
            Some(prefix @ (Operator::Not | Operator::Open)) => operators.push(prefix),
            Some(infix) => {
                apply_while(&mut values, &mut operators, |top| top as u8 >= infix as u8);
                operators.push(infix);
                wants_operand = true;
            }
            None => {
                apply_while(&mut values, &mut operators, |top| top != Operator::Open);
                if operators.pop().is_none() {
                    return Err(format!("expected the end, found ')' in '{expression}'"));
                }
            }
        }
        rest = rest[length..].trim_start();
    }
    if wants_operand {
        return Err(format!("expected a feature, found the end of '{expression}'"));
    }
    apply_while(&mut values, &mut operators, |top| top != Operator::Open);
    if !operators.is_empty() {
        return Err(format!("expected ), found the end of '{expression}'"));
    }
    Ok(values.pop().unwrap_or(false))
}

/// Applies the operators on top of the stack that `ready` accepts.
fn apply_while(
    values: &mut Vec<bool>,
    operators: &mut Vec<Operator>,
    ready: impl Fn(Operator) -> bool,
) {
    while let Some(operator) = operators.pop_if(|top| *top != Operator::Open && ready(*top)) {
        let right = values.pop().unwrap_or(false);
        let value = match operator {
            Operator::Not => !right,
            Operator::And => values.pop().unwrap_or(false) && right,
            Operator::Or | Operator::Open => values.pop().unwrap_or(false) || right,
        };
        values.push(value);
    }
}

fn is_feature_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+=._".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_and_parentheses() {
        let features = BTreeSet::from(["a".to_owned(), "b-1.0".to_owned()]);
        for (expression, expected) in [
            ("a", true),
            ("c", false),
            ("!c && a", true),
            ("!(c || a)", false),
            ("c && c || a", true),
            ("a || c && c", true),
            ("(a || c) && c", false),
            ("!!a && b-1.0", true),
            ("true", true),
        ] {
            assert_eq!(holds(expression, &features), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn wrong_expressions_say_what_was_expected() {
        for expression in ["", "a b", "a &&", "(a", "a)", "&& a", "a & b", "!"] {
            let error = holds(expression, &BTreeSet::new()).err();
            assert!(error.is_some_and(|e| e.starts_with("expected")), "{expression}");
        }
    }
}
