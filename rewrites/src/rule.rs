//! Rules as data: two patterns over operations, conditions, and what is promised about floats.

use ir_core::{Attr, Scalar, Span, Symbol, Type};

/// A variable of a rule, by its place in [`Rule::values`] or [`Rule::attributes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Var(pub usize);

/// A node of a pattern, by its place in [`Rule::nodes`]. Operands come before their users.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(pub usize);

/// What a rule promises about floats. On integers, every rule is exact.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FloatClass {
    /// The same numbers, infinities, NaN and the signs of zeros included.
    Exact,
    /// The same up to rounding, as long as all numbers of the left side are finite.
    Reassociated,
    /// The same up to this relative error, as long as all numbers of the left side are finite.
    Approximate(f64),
    /// The same as real numbers: up to rounding near 1, as long as all numbers of both sides are
    /// finite. Elsewhere the right side may overflow, be NaN or have other digits.
    Real,
}

impl FloatClass {
    /// The names of all classes.
    pub const NAMES: [&str; 4] = ["exact", "reassoc", "approx", "real"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FloatClass::Exact => "exact",
            FloatClass::Reassociated => "reassoc",
            FloatClass::Approximate(_) => "approx",
            FloatClass::Real => "real",
        }
    }

    /// Whether numbers that are finite stay so.
    pub fn keeps_finite(self) -> bool {
        self != FloatClass::Real
    }
}

/// A node of a pattern.
#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    /// `%x`: any value, the same one wherever it stands.
    Value(Var),
    /// `0`: a constant all of whose elements are this number; on the right side, a scalar.
    Number(Scalar),
    /// An operation.
    Op(OpNode),
    /// One of two, on the right side.
    Choice(Choice),
}

/// `if (condition) { pattern } else { pattern }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// What decides.
    pub condition: Expr,
    /// What stands here where it holds, and where it does not.
    pub branches: [NodeId; 2],
    /// Where it stands.
    pub span: Span,
}

/// An operation in a pattern.
#[derive(Clone, PartialEq, Debug)]
pub struct OpNode {
    /// Full name.
    pub name: Symbol,
    /// Operands in order.
    pub operands: Vec<NodeId>,
    /// Attributes that are written. On the left side each is a variable or a literal, and an
    /// attribute that is not written has its default.
    pub attrs: Vec<(Symbol, Expr)>,
    /// The defaults of those attributes, where they have one.
    pub defaults: Vec<Option<Attr>>,
    /// The attributes that are not written.
    pub rest: Rest,
    /// Where it stands.
    pub span: Span,
}

/// What a pattern says about attributes that it does not name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// They have their defaults.
    Default,
    /// `..`: they are of no interest.
    Ignored,
    /// `..?a`: they are those that `?a` stands for.
    Variable(Var),
}

/// `%a = pattern`, or a pattern alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Equation {
    /// The name.
    pub name: Option<Var>,
    /// The pattern.
    pub node: NodeId,
}

/// An expression over attributes, types and constants.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A value that is written out.
    Literal(Attr),
    /// What is known about `%x`.
    Value(Var),
    /// The attribute that `?p` stands for.
    Attribute(Var),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `f(a, b)`.
    Call(Symbol, Vec<Expr>),
    /// `a[i]`; a negative index counts from the end.
    Index(Box<Expr>, Box<Expr>),
    /// `-a`.
    Negative(Box<Expr>),
    /// `not a`.
    Not(Box<Expr>),
    /// `same(a)`: of a family, `a` is the same for all members.
    Same(Box<Expr>),
    /// The number of a member of a family, from 0; written as `%s.*`, the field of that number.
    Member,
    /// `a + b` and the like.
    Binary(Operator, Box<Expr>, Box<Expr>),
}

/// An operator of expressions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// `or`.
    Or,
    /// `and`.
    And,
    /// `==`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterEqual,
    /// `+`: a sum, or two lists one after the other.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`: a quotient of floats; of integers, one without remainder.
    Divide,
    /// `%`: the remainder of integers, not negative for a positive divisor.
    Remainder,
}

/// What a rule says about the operands that it is tried on.
#[derive(Clone, PartialEq, Debug)]
pub enum Sample {
    /// `%x: T`, where names in shapes stand for any extent and `float32` for any element type.
    Type(Var, Type),
    /// `?p in [a, b]`: one of several attributes.
    Attributes(Var, Vec<Attr>),
}

/// A rewrite rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Name, unique in its library.
    pub name: Symbol,
    /// The set that it stands in.
    pub set: Option<Symbol>,
    /// Further names under which it can be chosen.
    pub tags: Vec<Symbol>,
    /// What it promises about floats.
    pub class: FloatClass,
    /// Whether the left side is of no use once the right side is there.
    pub subsume: bool,
    /// Whether the right side may be finite where the left side is not. Then the left side is no
    /// other way to compute what is computed otherwise.
    pub safer: bool,
    /// Whether it holds, and may be used, in both directions.
    pub bidirectional: bool,
    /// Names of values, without `%`.
    pub values: Vec<Symbol>,
    /// Which values are families, `%x..`: one for each of any number of members.
    pub families: Vec<bool>,
    /// Names of attributes, without `?`.
    pub attributes: Vec<Symbol>,
    /// The nodes of both sides.
    pub nodes: Vec<Node>,
    /// What it looks for.
    pub left: Vec<Equation>,
    /// What it makes.
    pub right: Vec<Equation>,
    /// What must hold.
    pub conditions: Vec<Expr>,
    /// `where typed`: it applies only where the right side has the types of the left side. Without
    /// it, a right side of another type is an error of the rule.
    pub typed: bool,
    /// `where unshared`: it applies only where nothing else uses what the left side computes below
    /// its roots. In an e-graph, where costs decide, that is no matter.
    pub unshared: bool,
    /// What it is tried on when it is checked.
    pub samples: Vec<Sample>,
    /// Where it stands.
    pub span: Span,
}

impl Sample {
    /// Whether both say something about the same variable.
    pub fn is_about_same(&self, other: &Sample) -> bool {
        match (self, other) {
            (Sample::Type(a, _), Sample::Type(b, _)) => a == b,
            (Sample::Attributes(a, _), Sample::Attributes(b, _)) => a == b,
            _ => false,
        }
    }
}

impl Node {
    /// The nodes that it is made of.
    pub fn parts(&self) -> &[NodeId] {
        match self {
            Node::Op(op) => &op.operands,
            Node::Choice(choice) => &choice.branches,
            Node::Value(_) | Node::Number(_) => &[],
        }
    }
}

impl Rule {
    /// What is replaced and by what, as nodes of the left and right side.
    pub fn roots(&self) -> Vec<(NodeId, NodeId)> {
        if let ([left], [right]) = (&*self.left, &*self.right)
            && (left.name.is_none() || right.name.is_none())
        {
            return vec![(left.node, right.node)];
        }
        let left = |name: Var| self.left.iter().find(|equation| equation.name == Some(name));
        let replaced = self.right.iter().filter_map(|right| Some((left(right.name?)?, right)));
        replaced.map(|(left, right)| (left.node, right.node)).collect()
    }

    /// The rule read from right to left.
    pub fn reversed(&self) -> Rule {
        Rule { left: self.right.clone(), right: self.left.clone(), ..self.clone() }
    }

    /// The node `id`.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The nodes that can be reached from `roots`, operands first.
    pub fn reachable(&self, roots: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let mut seen = vec![false; self.nodes.len()];
        let mut pending: Vec<NodeId> = roots.into_iter().collect();
        while let Some(id) = pending.pop() {
            if !std::mem::replace(&mut seen[id.0], true) {
                pending.extend(self.node(id).parts());
            }
        }
        (0..seen.len()).filter(|index| seen[*index]).map(NodeId).collect()
    }
}

impl Expr {
    /// Whether this condition says where a rule is of use, rather than where it holds: what an
    /// operand is computed from is no matter of its elements.
    pub fn is_of_use(&self) -> bool {
        let mut condition = self;
        while let Expr::Not(part) = condition {
            condition = part;
        }
        let functions = ["is_constant", "is_weight", "pays"];
        matches!(condition, Expr::Call(name, _) if functions.contains(&name.as_str()))
    }

    /// Visits this expression and all its parts. Recursion is bounded by the parser's limit.
    pub fn visit(&self, visitor: &mut dyn FnMut(&Expr)) {
        visitor(self);
        match self {
            Expr::Literal(_) | Expr::Value(_) | Expr::Attribute(_) | Expr::Member => {}
            Expr::List(parts) | Expr::Call(_, parts) => {
                parts.iter().for_each(|part| part.visit(visitor));
            }
            Expr::Negative(part) | Expr::Not(part) | Expr::Same(part) => part.visit(visitor),
            Expr::Index(a, b) | Expr::Binary(_, a, b) => {
                a.visit(visitor);
                b.visit(visitor);
            }
        }
    }
}

impl Operator {
    /// How it is written.
    pub fn text(self) -> &'static str {
        match self {
            Operator::Or => "or",
            Operator::And => "and",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterEqual => ">=",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
        }
    }

    /// How strongly it binds.
    pub fn precedence(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Add | Operator::Subtract => 4,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 5,
            _ => 3,
        }
    }
}
