//! Equality of modules up to names, the order of pure operations, and how values are bound.

use ir_core::{
    Attr, AttrData, AttrDict, BlockId, Body, Item, Module, OpId, Symbol, TensorData, Type,
    ValueDef, ValueId,
};
use relay::language::{FUNC, Global, fn_attributes, fn_params, is_primitive};
use rustc_hash::FxHashMap;

/// What is compared besides the dataflow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Compare {
    /// Requires the blocks that hold equal values to correspond: which scope a value is computed
    /// in.
    pub scopes: bool,
}

/// Whether `a` and `b` are the same up to names. Walks from the results of the functions to what
/// they use, so the order of operations does not matter; sharing does: a value of one module
/// corresponds to one value of the other. The error tells the first difference.
///
/// Functions of equal names correspond, and so do functions referred to at corresponding places.
/// Kernels (`Primitive=1`) are compared through the arguments of their calls, so the order of
/// their parameters does not matter.
pub(crate) fn alpha_equal(a: &Module, b: &Module, compare: Compare) -> Result<(), String> {
    let is_function = |item: &Item| item.signature.op == FUNC;
    let mut pending: Vec<(Symbol, Symbol)> = a
        .items
        .iter()
        .filter(|(name, item)| is_function(item) && b.get(**name).is_some_and(is_function))
        .map(|(name, _)| (*name, *name))
        .collect();
    let mut paired: FxHashMap<Symbol, Symbol> = pending.iter().copied().collect();
    while let Some((left, right)) = pending.pop() {
        let (Some(left_item), Some(right_item)) = (a.get(left), b.get(right)) else {
            return Err(format!("@{left} or @{right} does not exist"));
        };
        let (Some(left_body), Some(right_body)) = (&left_item.body, &right_item.body) else {
            match left_item.body.is_some() == right_item.body.is_some() {
                true => continue,
                false => return Err(format!("only one of @{left} and @{right} has a body")),
            }
        };
        let mut bodies = Bodies {
            a: left_body,
            b: right_body,
            compare,
            values: FxHashMap::default(),
            inverse: FxHashMap::default(),
            blocks: FxHashMap::default(),
            pending: vec![],
            globals: vec![],
        };
        bodies.run().map_err(|error| format!("in @{left} and @{right}: {error}"))?;
        for (left, right) in bodies.globals {
            match paired.insert(left, right) {
                None => pending.push((left, right)),
                Some(known) if known == right => {}
                Some(known) => {
                    return Err(format!("@{left} stands for @{known} and for @{right}"));
                }
            }
        }
    }
    for (module, side) in [(a, "left"), (b, "right")] {
        for (name, item) in &module.items {
            let known = match side {
                "left" => paired.contains_key(name),
                _ => paired.values().any(|other| other == name),
            };
            if is_function(item) && !known {
                return Err(format!("only the {side} module has @{name}"));
            }
        }
    }
    Ok(())
}

enum Pair {
    Values(ValueId, ValueId),
    Blocks(BlockId, BlockId),
}

struct Bodies<'a> {
    a: &'a Body,
    b: &'a Body,
    compare: Compare,
    values: FxHashMap<ValueId, ValueId>,
    inverse: FxHashMap<ValueId, ValueId>,
    blocks: FxHashMap<BlockId, BlockId>,
    pending: Vec<Pair>,
    globals: Vec<(Symbol, Symbol)>,
}

/// Printed inline at every use, so that sharing cannot be seen.
const ATOMS: [&str; 4] = ["relay.constant", "relay.global", "relay.operator", "relay.constructor"];

fn is_atom(body: &Body, op: OpId) -> bool {
    ATOMS.contains(&body.op_name(op).as_str())
}

impl Bodies<'_> {
    fn run(&mut self) -> Result<(), String> {
        self.blocks(self.a.entry(), self.b.entry())?;
        while let Some(pair) = self.pending.pop() {
            match pair {
                Pair::Values(a, b) => self.values(a, b)?,
                Pair::Blocks(a, b) => self.blocks(a, b)?,
            }
        }
        // What no result reaches: dead bindings.
        let dead = |body: &Body, reached: &dyn Fn(ValueId) -> bool| -> Vec<String> {
            let mut dead: Vec<String> = body
                .walk()
                .filter(|op| !is_atom(body, *op) && !belongs_to_kernel(body, *op))
                .filter(|op| !body.results(*op).all(reached))
                .map(|op| body.op_name(op).to_string())
                .collect();
            dead.sort();
            dead
        };
        let left = dead(self.a, &|value| self.values.contains_key(&value));
        let right = dead(self.b, &|value| self.inverse.contains_key(&value));
        if left != right {
            return Err(format!("unused: {left:?} and {right:?}"));
        }
        for op in self.a.walk().filter(|op| !is_atom(self.a, *op)) {
            let Some(value) = self.a.results(op).next() else { continue };
            let Some(twin) = self.values.get(&value).and_then(|v| self.b.defining_op(*v)) else {
                continue;
            };
            let (Some(left), Some(right)) = (self.a.op_block(op), self.b.op_block(twin)) else {
                continue;
            };
            if self.compare.scopes && self.blocks.get(&left) != Some(&right) {
                return Err(format!("{} is in another scope", describe(self.a, op)));
            }
        }
        Ok(())
    }

    fn blocks(&mut self, a: BlockId, b: BlockId) -> Result<(), String> {
        self.blocks.insert(a, b);
        let (left, right) = (self.a.block_args(a), self.b.block_args(b));
        if left.len() != right.len() {
            return Err(format!("{} parameters and {}", left.len(), right.len()));
        }
        for (left, right) in left.iter().zip(right) {
            self.same(*left, *right)?;
        }
        // Operations with a visible order correspond in that order; dead ones among them too.
        let ordered = |body: &Body, block| -> Vec<OpId> {
            let all = body.block_ops(block);
            all.filter(|op| body.op_name(*op).as_str().starts_with("relay.ref")).collect()
        };
        let (left, right) = (ordered(self.a, a), ordered(self.b, b));
        for (left, right) in left.into_iter().zip(right) {
            let (left, right) = (self.a.result(left, 0), self.b.result(right, 0));
            self.pending.push(Pair::Values(left, right));
        }
        match (self.a.last_op(a), self.b.last_op(b)) {
            (Some(left), Some(right)) => {
                let (left, right) = (self.a.operand(left, 0), self.b.operand(right, 0));
                self.pending.push(Pair::Values(left, right));
                Ok(())
            }
            _ => Err("a block is empty".to_string()),
        }
    }

    /// Records that two values correspond; whether that is new.
    fn same(&mut self, a: ValueId, b: ValueId) -> Result<bool, String> {
        let (left, right) = (self.a.ty(a), self.b.ty(b));
        if !same_type(left, right) {
            return Err(format!("{left} and {right} of {}", self.describe_pair(a, b)));
        }
        let new = match (self.values.get(&a), self.inverse.get(&b)) {
            (None, None) => true,
            (Some(known), _) if *known == b => false,
            _ => {
                return Err(format!("one value stands for two: {}", self.describe_pair(a, b)));
            }
        };
        self.values.insert(a, b);
        self.inverse.insert(b, a);
        Ok(new)
    }

    fn describe_pair(&self, a: ValueId, b: ValueId) -> String {
        let show = |body: &Body, value| match body.defining_op(value) {
            Some(op) => describe(body, op),
            None => format!("argument {value:?}"),
        };
        format!("{} / {}", show(self.a, a), show(self.b, b))
    }

    fn values(&mut self, a: ValueId, b: ValueId) -> Result<(), String> {
        match (self.a.def(a), self.b.def(b)) {
            (ValueDef::Argument(..), ValueDef::Argument(..)) => {
                match self.values.get(&a) == Some(&b) {
                    true => Ok(()),
                    false => Err(format!("other arguments: {}", self.describe_pair(a, b))),
                }
            }
            (ValueDef::Result(left, i), ValueDef::Result(right, j)) if i == j => {
                if is_atom(self.a, left) && is_atom(self.b, right) {
                    return self.atoms(left, right);
                }
                if self.same(a, b)? { self.ops(left, right) } else { Ok(()) }
            }
            _ => Err(format!("an argument and a result: {}", self.describe_pair(a, b))),
        }
    }

    fn atoms(&mut self, left: OpId, right: OpId) -> Result<(), String> {
        if let (Some(left), Some(right)) =
            (self.a.view::<Global>(left), self.b.view::<Global>(right))
        {
            self.globals.push((left.name, right.name));
            return Ok(());
        }
        self.heads(left, right)
    }

    /// Compares names and attributes.
    fn heads(&self, left: OpId, right: OpId) -> Result<(), String> {
        let same = self.a.op_name(left) == self.b.op_name(right)
            && same_dict(self.a.attrs(left), self.b.attrs(right));
        match same {
            true => Ok(()),
            false => Err(format!("{} / {}", describe(self.a, left), describe(self.b, right))),
        }
    }

    fn ops(&mut self, left: OpId, right: OpId) -> Result<(), String> {
        self.heads(left, right)?;
        match (called_kernel(self.a, left), called_kernel(self.b, right)) {
            (Some(one), Some(other)) => return self.kernels(left, right, one, other),
            (None, None) => {}
            _ => return Err(format!("only one is a kernel: {}", describe(self.a, left))),
        }
        if self.a.operand_count(left) != self.b.operand_count(right) {
            return Err(format!("{} / {}", describe(self.a, left), describe(self.b, right)));
        }
        let operands = self.a.operands(left).zip(self.b.operands(right));
        self.pending.extend(operands.map(|(a, b)| Pair::Values(a, b)));
        let (regions, others) = (self.a.regions(left).len(), self.b.regions(right).len());
        if regions != others {
            return Err(format!("{regions} and {others} regions"));
        }
        for index in 0..regions {
            let blocks = (self.a.region_block(left, index), self.b.region_block(right, index));
            self.pending.push(Pair::Blocks(blocks.0, blocks.1));
        }
        Ok(())
    }

    /// Compares two calls of kernels. A kernel may serve several calls, so its inside is compared
    /// for every call anew.
    fn kernels(&mut self, left: OpId, right: OpId, one: OpId, other: OpId) -> Result<(), String> {
        let (a, b) = (self.a, self.b);
        let calls = || format!("{} / {}", describe(a, left), describe(b, right));
        self.heads(one, other)?;
        let (block, twin) = (a.region_block(one, 0), b.region_block(other, 0));
        if fn_params(a, one).len() != fn_params(b, other).len()
            || a.block_ops(block).filter(|op| !is_atom(a, *op)).count()
                != b.block_ops(twin).filter(|op| !is_atom(b, *op)).count()
        {
            return Err(format!("kernels of another size: {}", calls()));
        }
        let (Some(last), Some(end)) = (a.last_op(block), b.last_op(twin)) else {
            return Err("a kernel is empty".to_string());
        };
        let (mut known, mut inverse) = (FxHashMap::default(), FxHashMap::default());
        let mut pending = vec![(a.operand(last, 0), b.operand(end, 0))];
        while let Some((x, y)) = pending.pop() {
            if !same_type(a.ty(x), b.ty(y)) {
                return Err(format!("{} and {} in {}", a.ty(x), b.ty(y), calls()));
            }
            match (a.def(x), b.def(y)) {
                (ValueDef::Argument(_, i), ValueDef::Argument(_, j)) => {
                    let arguments = (a.operand(left, i + 1), b.operand(right, j + 1));
                    self.pending.push(Pair::Values(arguments.0, arguments.1));
                }
                (ValueDef::Result(p, _), ValueDef::Result(q, _)) => {
                    let sharing = !is_atom(a, p);
                    if sharing {
                        match (known.insert(x, y), inverse.insert(y, x)) {
                            (None, None) => {}
                            (Some(before), Some(_)) if before == y => continue,
                            _ => return Err(format!("one value stands for two in {}", calls())),
                        }
                    }
                    self.heads(p, q)?;
                    if a.operand_count(p) != b.operand_count(q) {
                        return Err(format!("{} / {}", describe(a, p), describe(b, q)));
                    }
                    pending.extend(a.operands(p).zip(b.operands(q)));
                }
                _ => return Err(format!("a parameter and a result in {}", calls())),
            }
        }
        Ok(())
    }
}

/// Whether `op` is a kernel that is only called.
fn is_kernel(body: &Body, op: OpId) -> bool {
    body.op_name(op) == "relay.fn"
        && is_primitive(fn_attributes(body, op))
        && body
            .uses(body.result(op, 0))
            .all(|(user, index)| index == 0 && body.op_name(user) == "relay.call")
}

/// Whether `op` is a kernel or inside one.
fn belongs_to_kernel(body: &Body, op: OpId) -> bool {
    let mut around = Some(op);
    while let Some(op) = around {
        if is_kernel(body, op) {
            return true;
        }
        around = body.op_block(op).and_then(|block| body.block_parent(block));
    }
    false
}

/// The kernel that `op` calls.
fn called_kernel(body: &Body, op: OpId) -> Option<OpId> {
    if body.op_name(op) != "relay.call" {
        return None;
    }
    body.defining_op(body.operand(op, 0)).filter(|callee| is_kernel(body, *callee))
}

fn describe(body: &Body, op: OpId) -> String {
    let operands: Vec<String> = body
        .operands(op)
        .map(|value| match body.defining_op(value) {
            Some(op) => body.op_name(op).to_string(),
            None => format!("{:?}", body.name_hint(value).name),
        })
        .collect();
    format!("{}({}) {:?}", body.op_name(op), operands.join(", "), body.attrs(op))
}

/// Types without parameters are compared; the names of parameters differ.
fn same_type(a: Type, b: Type) -> bool {
    let open = |ty: Type| ty.is_unknown() || ty.facts().has_parameter;
    a == b || open(a) || open(b) || a.as_function().is_some() || b.as_function().is_some()
}

/// Bookkeeping of the original that has no meaning.
const IGNORED: [&str; 2] = ["hash", "type_args"];

fn same_dict(a: AttrDict, b: AttrDict) -> bool {
    let entries = |dict: AttrDict| {
        let all = dict.entries().iter().filter(|(key, _)| !IGNORED.contains(&key.as_str()));
        all.collect::<Vec<_>>()
    };
    let (a, b) = (entries(a), entries(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && same_attr(a.1, b.1))
}

// Attributes are as deep as the text that the tests bring along.
fn same_attr(a: Attr, b: Attr) -> bool {
    match (a.data(), b.data()) {
        _ if a == b => true,
        (AttrData::Float(a), AttrData::Float(b)) => near(a.0, b.0),
        (AttrData::Tensor(a), AttrData::Tensor(b)) => same_tensor(a, b),
        (AttrData::Dict(a), AttrData::Dict(b)) => same_dict(*a, *b),
        (AttrData::Array(a), AttrData::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_attr(*a, *b))
        }
        (AttrData::Type(a), AttrData::Type(b)) => same_type(*a, *b),
        _ => false,
    }
}

fn same_tensor(a: &TensorData, b: &TensorData) -> bool {
    a.ty() == b.ty() && a.elements().zip(b.elements()).all(|(a, b)| near(a.as_f64(), b.as_f64()))
}

/// Equal up to the rounding of another implementation.
fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-5 * a.abs().max(b.abs()) || (a.is_nan() && b.is_nan())
}
