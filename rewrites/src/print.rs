//! Rules as text that reads back.

use std::fmt::{self, Write};

use ir_core::text::PrintOptions;
use ir_core::text::attributes::write_attr;
use ir_core::text::layout::Line;
use ir_core::{Attr, AttrData, Scalar, Symbol};

use crate::rule::{
    Choice, Equation, Expr, FloatClass, Node, NodeId, Operator, Rest, Rule, Sample, Var,
};

/// Writes the rule as it would be written in a file, without its set.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} {}", self.name, self.class)?;
        if self.subsume {
            f.write_str(" subsume")?;
        }
        if self.safer {
            f.write_str(" safer")?;
        }
        if !self.tags.is_empty() {
            let tags: Vec<&str> = self.tags.iter().map(|tag| tag.as_str()).collect();
            write!(f, " [{}]", tags.join(", "))?;
        }
        f.write_str(": ")?;
        self.write_side(&self.left, f)?;
        f.write_str(if self.bidirectional { " <=> " } else { " => " })?;
        self.write_side(&self.right, f)?;
        let mut conditions: Vec<String> = Vec::new();
        if self.typed {
            conditions.push("typed".to_string());
        }
        if self.unshared {
            conditions.push("unshared".to_string());
        }
        for condition in &self.conditions {
            let mut text = String::new();
            self.write_expr(condition, 0, &mut text)?;
            conditions.push(text);
        }
        if !conditions.is_empty() {
            write!(f, " where {}", conditions.join(", "))?;
        }
        for (index, sample) in self.samples.iter().enumerate() {
            f.write_str(if index == 0 { " for " } else { ", " })?;
            match sample {
                Sample::Type(var, ty) => write!(f, "{}: {ty}", self.value(*var))?,
                Sample::Attributes(var, choices) => {
                    let list = Attr::new(AttrData::Array(choices.as_slice().into()));
                    write!(f, "?{} in {}", self.attributes[var.0], attribute(list))?;
                }
            }
        }
        f.write_str(";")
    }
}

impl fmt::Display for FloatClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FloatClass::Approximate(tolerance) => write!(f, "approx({tolerance:?})"),
            class => f.write_str(class.name()),
        }
    }
}

/// Text of a whole file, sets included.
pub fn file(rules: &[Rule]) -> String {
    let mut text = String::new();
    let mut open: Option<Symbol> = None;
    for rule in rules {
        if rule.set != open {
            if open.is_some() {
                text.push_str("}\n");
            }
            if let Some(set) = rule.set {
                text.push_str(&format!("set {set} {{\n"));
            }
            open = rule.set;
        }
        text.push_str(&format!("{rule}\n"));
    }
    if open.is_some() {
        text.push_str("}\n");
    }
    text
}

fn attribute(attr: Attr) -> String {
    let mut line = Line::default();
    match attr.data() {
        // The generic form writes an element type as a type; a rule writes it as a word.
        AttrData::DType(dtype) => return dtype.to_string(),
        AttrData::None => return "None".to_string(),
        AttrData::Bool(true) => return "True".to_string(),
        AttrData::Bool(false) => return "False".to_string(),
        AttrData::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| attribute(*item)).collect();
            return format!("[{}]", items.join(", "));
        }
        AttrData::Dict(entries) => {
            let entries = entries.entries().iter();
            let entries: Vec<String> =
                entries.map(|(key, value)| format!("{key}={}", attribute(*value))).collect();
            return format!("{{{}}}", entries.join(", "));
        }
        _ => write_attr(attr, &PrintOptions::complete(), &mut line),
    }
    std::mem::take(line.text())
}

impl Rule {
    /// A value as it is written.
    fn value(&self, var: Var) -> String {
        let family = self.families.get(var.0).copied().unwrap_or(false);
        format!("%{}{}", self.values[var.0], if family { ".." } else { "" })
    }

    fn write_side(&self, side: &[Equation], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, equation) in side.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            if let Some(name) = equation.name {
                write!(f, "{} = ", self.value(name))?;
            }
            let mut text = String::new();
            self.write_node(equation.node, &mut text)?;
            f.write_str(&text)?;
        }
        Ok(())
    }

    // Recursion is bounded by the parser's limit.
    fn write_node(&self, node: NodeId, text: &mut String) -> fmt::Result {
        let op = match self.node(node) {
            Node::Value(var) => return write!(text, "{}", self.value(*var)),
            Node::Number(Scalar::Int(value)) => return write!(text, "{value}"),
            Node::Number(Scalar::Float(value)) => return write!(text, "{value:?}"),
            Node::Choice(Choice { condition, branches: [holds, fails], .. }) => {
                text.push_str("if (");
                self.write_expr(condition, 0, text)?;
                text.push_str(") { ");
                self.write_node(*holds, text)?;
                text.push_str(" } else { ");
                self.write_node(*fails, text)?;
                text.push_str(" }");
                return Ok(());
            }
            Node::Op(op) => op,
        };
        let (_, name) = op.name.as_str().split_once('.').unwrap_or(("", op.name.as_str()));
        if name == "tuple_get"
            && let ([tuple], [(_, Expr::Literal(index))]) = (&*op.operands, &*op.attrs)
        {
            self.write_node(*tuple, text)?;
            return write!(text, ".{}", attribute(*index));
        }
        if name == "tuple_get"
            && let ([tuple], [(_, Expr::Member)]) = (&*op.operands, &*op.attrs)
        {
            self.write_node(*tuple, text)?;
            return write!(text, ".*");
        }
        text.push_str(if name == "tuple" { "" } else { name });
        text.push('(');
        let mut separator = "";
        for operand in &op.operands {
            text.push_str(std::mem::replace(&mut separator, ", "));
            self.write_node(*operand, text)?;
        }
        for (key, value) in &op.attrs {
            write!(text, "{}{key}=", std::mem::replace(&mut separator, ", "))?;
            self.write_expr(value, 0, text)?;
        }
        match op.rest {
            Rest::Default => {}
            Rest::Ignored => write!(text, "{separator}..")?,
            Rest::Variable(var) => write!(text, "{separator}..?{}", self.attributes[var.0])?,
        }
        text.push(')');
        Ok(())
    }

    /// Writes `expr`, in parentheses where it binds less strongly than `around`.
    pub fn write_expr(&self, expr: &Expr, around: u8, text: &mut String) -> fmt::Result {
        match expr {
            Expr::Literal(attr) => text.push_str(&attribute(*attr)),
            Expr::Value(var) => text.push_str(&self.value(*var)),
            Expr::Attribute(var) => write!(text, "?{}", self.attributes[var.0])?,
            Expr::List(items) => {
                text.push('[');
                self.write_list(items, text)?;
                text.push(']');
            }
            Expr::Call(name, arguments) => {
                write!(text, "{name}(")?;
                self.write_list(arguments, text)?;
                text.push(')');
            }
            Expr::Same(part) => {
                text.push_str("same(");
                self.write_expr(part, 0, text)?;
                text.push(')');
            }
            Expr::Member => text.push('*'),
            Expr::Index(list, index) => {
                self.write_expr(list, 7, text)?;
                text.push('[');
                self.write_expr(index, 0, text)?;
                text.push(']');
            }
            Expr::Negative(inner) => {
                text.push_str("-(");
                self.write_expr(inner, 0, text)?;
                text.push(')');
            }
            Expr::Not(inner) => {
                text.push_str("not (");
                self.write_expr(inner, 0, text)?;
                text.push(')');
            }
            Expr::Binary(operator, a, b) => self.write_binary(*operator, a, b, around, text)?,
        }
        Ok(())
    }

    fn write_binary(
        &self,
        operator: Operator,
        a: &Expr,
        b: &Expr,
        around: u8,
        text: &mut String,
    ) -> fmt::Result {
        let precedence = operator.precedence();
        let parentheses = precedence < around;
        text.push_str(if parentheses { "(" } else { "" });
        self.write_expr(a, precedence, text)?;
        write!(text, " {} ", operator.text())?;
        self.write_expr(b, precedence + 1, text)?;
        text.push_str(if parentheses { ")" } else { "" });
        Ok(())
    }

    fn write_list(&self, items: &[Expr], text: &mut String) -> fmt::Result {
        for (index, item) in items.iter().enumerate() {
            text.push_str(if index > 0 { ", " } else { "" });
            self.write_expr(item, 0, text)?;
        }
        Ok(())
    }
}
