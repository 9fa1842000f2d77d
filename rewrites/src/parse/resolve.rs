//! Checks of what rules name: operations, attributes and variables.

use ir_core::diagnostics::{did_you_mean, did_you_mean_with};
use ir_core::registry::Arity;
use ir_core::{AttrDict, Diagnostic, Diagnostics, OpDef, Registry, Span, Symbol};

use crate::codes;
use crate::family::has_siblings;
use crate::rule::{Expr, Node, NodeId, OpNode, Rest, Rule, Sample};

/// Whether there is a dialect `name`.
pub(super) fn dialect(registry: &Registry, name: &str, span: Span) -> Result<(), Diagnostics> {
    let known: Vec<&str> = registry.dialects().map(|dialect| dialect.name).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let help = did_you_mean(name, known.iter().copied())
        .unwrap_or_else(|| format!("the dialects are {}", known.join(", ")));
    let message = format!("unknown dialect `{name}`");
    Err(Diagnostic::error(codes::OPERATION, message).at(span).help(help).into())
}

/// The full name of the operation that is written `written`.
pub(super) fn operation(
    registry: &Registry,
    dialect: &str,
    written: &str,
    span: Span,
) -> (Symbol, Option<Diagnostic>) {
    let full = Symbol::new(&format!("{dialect}.{written}"));
    if registry.def(full).is_some() {
        return (full, None);
    }
    let name = Symbol::new(written);
    if registry.def(name).is_some() {
        return (name, None);
    }
    let prefix = format!("{dialect}.");
    let known = registry.ops().filter_map(|op| op.def.name.strip_prefix(&prefix));
    let message = format!("unknown operation `{written}`");
    let mut error = Diagnostic::error(codes::OPERATION, message).at(span);
    error.help = did_you_mean(written, known);
    (full, Some(error))
}

/// Brings literal attributes into their canonical form, and reports what does not fit.
pub(super) fn fields(registry: &Registry, op: &mut OpNode) -> Diagnostics {
    let Some(def) = registry.def(op.name) else { return Diagnostics::new() };
    let mut found = Diagnostics::new();
    let default = |key: &Symbol| def.attr(key.as_str())?.default.map(|default| default());
    op.defaults = op.attrs.iter().map(|(key, _)| default(key)).collect();
    let error = |message: String| Diagnostic::error(codes::ATTRIBUTES, message).at(op.span);
    if !OpDef::arity_fits(def.operands, op.operands.len()) {
        let fields = def.operands.iter().map(|field| match field.arity {
            Arity::One => field.name.to_string(),
            Arity::Optional => format!("{}?", field.name),
            Arity::Many => format!("{}…", field.name),
        });
        let fields: Vec<String> = fields.collect();
        let message = format!(
            "`{}` takes the operands ({}), found {}",
            def.name,
            fields.join(", "),
            op.operands.len()
        );
        found.push(error(message));
    }
    for (key, value) in &mut op.attrs {
        let Some(field) = def.attr(key.as_str()) else {
            if !def.open_attrs {
                let message = format!("`{}` has no attribute `{key}`", def.name);
                let mut error = error(message);
                error.help = did_you_mean(key.as_str(), def.attrs.iter().map(|field| field.name));
                found.push(error);
            }
            continue;
        };
        if let Expr::Literal(attr) = value {
            match (field.normalize)(*attr) {
                Some(canonical) => *attr = canonical,
                None => found.push(error(format!(
                    "attribute `{key}` of `{}` expects {}",
                    def.name, field.expects
                ))),
            }
        }
    }
    if op.rest == Rest::Default {
        let written = |name: &str| op.attrs.iter().any(|(key, _)| *key == name);
        for field in def.attrs.iter().filter(|f| f.default.is_none() && !written(f.name)) {
            let message = format!("`{}` needs the attribute `{}`", def.name, field.name);
            found.push(error(message).help(format!("write `{}=?{}`", field.name, field.name)));
        }
    }
    found
}

/// What is wrong with a rule whose parts are resolved.
pub(super) fn faults(rule: &Rule) -> Diagnostics {
    let mut found = direction(rule);
    if found.is_empty() && rule.bidirectional {
        found = direction(&rule.reversed())
            .into_iter()
            .map(|error| error.note("the rule is read from right to left here"))
            .collect();
        if found.is_empty() && rule.left.len().max(rule.right.len()) > 1 {
            let message = "a rule with several equations has one direction";
            found.push(Diagnostic::error(codes::SHAPE, message).at(rule.span));
        }
        if found.is_empty() && rule.safer {
            let message = "of two sides, one alone is `safer`, so that the rule has one direction";
            found.push(Diagnostic::error(codes::SHAPE, message).at(rule.span));
        }
    }
    found
}

fn direction(rule: &Rule) -> Diagnostics {
    let mut found = Diagnostics::new();
    let left = rule.reachable(rule.left.iter().map(|equation| equation.node));
    let mut values = vec![false; rule.values.len()];
    let mut attributes = vec![false; rule.attributes.len()];
    rule.left.iter().filter_map(|e| e.name).for_each(|var| values[var.0] = true);
    for node in &left {
        match rule.node(*node) {
            Node::Value(var) => values[var.0] = true,
            Node::Number(_) => {}
            Node::Choice(choice) => {
                let message = "`if` stands on the left side";
                let error = Diagnostic::error(codes::SHAPE, message).at(choice.span);
                found.push(error.help("only a right side chooses; write two rules"));
            }
            Node::Op(op) => {
                for (key, value) in &op.attrs {
                    match value {
                        Expr::Attribute(var) => attributes[var.0] = true,
                        Expr::Literal(_) | Expr::Member => {}
                        _ => {
                            let message = format!("attribute `{key}` is computed on the left side");
                            let error = Diagnostic::error(codes::SHAPE, message).at(op.span);
                            let help = "match a variable, and compare it in a condition";
                            found.push(error.help(help));
                        }
                    }
                }
                if let Rest::Variable(var) = op.rest {
                    attributes[var.0] = true;
                }
            }
        }
    }
    for equation in &rule.left {
        if !matches!(rule.node(equation.node), Node::Op(_)) {
            let message = "the left side is no operation, so it would match everything";
            found.push(Diagnostic::error(codes::SHAPE, message).at(rule.span));
        }
    }
    if has_siblings(rule) && rule.left.len() > 1 {
        let message = "a left side that is a family of operations has no other equations";
        found.push(Diagnostic::error(codes::SHAPE, message).at(rule.span));
    }
    if rule.roots().is_empty() {
        let message = "the right side replaces nothing";
        let error = Diagnostic::error(codes::SHAPE, message).at(rule.span);
        found.push(error.help("give an equation of both sides the same name: `%a = …`"));
    }
    found.extend(connection(rule));

    // Names of the right side become known one after the other.
    let mut known = values.clone();
    let span_of = |node: &NodeId| match rule.node(*node) {
        Node::Op(op) => op.span,
        _ => rule.span,
    };
    let unbound_value = |index: usize, span: Span, known: &[bool]| {
        let names = known.iter().zip(&rule.values).filter(|(known, _)| **known);
        unbound("%", rule.values[index], span, names.map(|(_, name)| *name))
    };
    let mut expressions: Vec<(&Expr, Span)> = Vec::new();
    for equation in &rule.right {
        for node in rule.reachable([equation.node]) {
            match rule.node(node) {
                Node::Value(var) if !known[var.0] => {
                    found.push(unbound_value(var.0, rule.span, &known));
                }
                Node::Op(op) => {
                    if let Rest::Ignored = op.rest {
                        let message = "`..` says nothing about the attributes of the right side";
                        let error = Diagnostic::error(codes::SHAPE, message).at(op.span);
                        found.push(error.help("bind them on the left: `..?rest`"));
                    }
                    if let Rest::Variable(var) = op.rest
                        && !attributes[var.0]
                    {
                        let message =
                            format!("`?{}` is not bound on the left side", rule.attributes[var.0]);
                        found.push(Diagnostic::error(codes::VARIABLE, message).at(op.span));
                    }
                    expressions.extend(op.attrs.iter().map(|(_, e)| (e, span_of(&node))));
                }
                Node::Choice(choice) => expressions.push((&choice.condition, choice.span)),
                _ => {}
            }
        }
        equation.name.iter().for_each(|var| known[var.0] = true);
    }
    expressions.extend(rule.conditions.iter().map(|condition| (condition, rule.span)));
    for (expression, span) in expressions {
        expression.visit(&mut |part| match part {
            Expr::Value(var) if !values[var.0] => found.push(unbound_value(var.0, span, &values)),
            Expr::Attribute(var) if !attributes[var.0] => {
                let names = attributes.iter().zip(&rule.attributes).filter(|(known, _)| **known);
                let names = names.map(|(_, name)| *name);
                found.push(unbound("?", rule.attributes[var.0], span, names));
            }
            _ => {}
        });
    }
    for sample in &rule.samples {
        let (bound, sigil, name) = match sample {
            Sample::Type(var, _) => (values[var.0], '%', rule.values[var.0]),
            Sample::Attributes(var, _) => (attributes[var.0], '?', rule.attributes[var.0]),
        };
        if !bound {
            let message = format!("`{sigil}{name}` is not bound on the left side");
            found.push(Diagnostic::error(codes::VARIABLE, message).at(rule.span));
        }
    }
    found
}

/// A variable is not among the `known` ones of the left side.
pub(super) fn unbound(
    sigil: &str,
    name: Symbol,
    span: Span,
    known: impl Iterator<Item = Symbol>,
) -> Diagnostic {
    let message = format!("`{sigil}{name}` is not bound on the left side");
    let mut error = Diagnostic::error(codes::VARIABLE, message).at(span);
    let known: Vec<Symbol> = known.collect();
    let known = known.iter().map(|name| name.as_str());
    error.help = did_you_mean_with(sigil, name.as_str(), known);
    error
}

/// Every equation after the first is found from what is bound before it.
fn connection(rule: &Rule) -> Diagnostics {
    let mut found = Diagnostics::new();
    let mut bound = vec![false; rule.values.len()];
    for (index, equation) in rule.left.iter().enumerate() {
        let known = |node: &NodeId| matches!(rule.node(*node), Node::Value(var) if bound[var.0]);
        let direct = match rule.node(equation.node) {
            Node::Op(op) => op.operands.iter().any(known),
            _ => false,
        };
        if index > 0 && !direct && !equation.name.is_some_and(|var| bound[var.0]) {
            let message = "this equation shares no operand with the earlier ones";
            let span = match rule.node(equation.node) {
                Node::Op(op) => op.span,
                _ => rule.span,
            };
            found.push(Diagnostic::error(codes::SHAPE, message).at(span));
        }
        for node in rule.reachable([equation.node]) {
            if let Node::Value(var) = rule.node(node) {
                bound[var.0] = true;
            }
        }
        equation.name.iter().for_each(|var| bound[var.0] = true);
    }
    found
}

/// Literal attributes of an operation, defaults left out: what normalization gives.
pub(crate) fn canonical(
    registry: &Registry,
    name: Symbol,
    attrs: AttrDict,
) -> Result<AttrDict, String> {
    match registry.def(name) {
        Some(def) => def.normalize_attrs(attrs).map_err(|errors| errors.join("; ")),
        None => Ok(attrs),
    }
}
