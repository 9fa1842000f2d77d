//! Checking rewrite rules: both sides are typed and evaluated on random, small and adversarial
//! operands, and must agree.

use ir_core::registry::AttrField;
use ir_core::{
    Attr, AttrData, AttrDict, DType, Diagnostic, Dim, DimExprData, InferCx, OpDef, Random,
    Registry, Scalar, SmallVec, Symbol, TensorData, Type, TypeData,
};
use relay::interpreter::{EvalCx, Evaluate, Value, approx_equal};
use rewrites::codes::{REFUTED, UNTRIED};
use rewrites::family::{expansions, has_families};
use rewrites::functions::Functions;
use rewrites::instantiate::{Conditions, Operand, Plan, Refusal, plan};
use rewrites::matching::{Match, TermGraph};
use rewrites::rule::{Expr, FloatClass, Node, OpNode, Rest, Rule, Sample};
use rustc_hash::FxHashMap;

/// What a check found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Trials whose operands fit the left side and the conditions.
    pub tried: u32,
    /// What is wrong, for the smallest operands that were found.
    pub error: Option<Diagnostic>,
    /// Conditions without which no trial failed, as text.
    pub unneeded: Vec<String>,
}

/// Rules about families are tried for so many members.
const FAMILIES: [usize; 2] = [2, 3];

/// How a rule fails a trial.
struct Failure {
    size: usize,
    reason: String,
    operands: Vec<String>,
}

enum Trial {
    /// The operands do not fit, or the numbers leave what the rule promises something about.
    Skipped,
    /// With the operands, where they are asked for.
    Agrees(Vec<String>),
    Fails(Failure),
}

/// Tries `rule`, in both directions where it has two, on up to `trials` random operands. The same
/// for the same rule on every machine.
pub fn check(rule: &Rule, registry: &Registry, trials: u32) -> Verdict {
    let functions = Functions::new(registry);
    let rule = &wherever_it_holds(rule);
    let mut verdict = Verdict { tried: 0, error: None, unneeded: vec![] };
    let mut directions = vec![rule.clone()];
    directions.extend(rule.bidirectional.then(|| rule.reversed()));
    if has_families(rule) {
        let counts = |rule| FAMILIES.iter().flat_map(move |members| expansions(rule, *members));
        directions = directions.iter().flat_map(counts).collect();
    }
    for direction in &directions {
        let (tried, failure) = run(direction, registry, &functions, trials, false);
        verdict.tried += tried;
        if let Some(failure) = failure {
            let message = format!("rule `{}` is wrong: {}", rule.name, failure.reason);
            let mut error = Diagnostic::error(REFUTED, message).at(rule.span);
            error.notes = failure.operands;
            verdict.error.get_or_insert(error);
        } else if tried == 0 {
            let message = format!("rule `{}` was not tried: no operands fit it", rule.name);
            let error = Diagnostic::error(UNTRIED, message).at(rule.span);
            let help = "say what they look like: `for %x: Tensor[(n, k), float32]`";
            verdict.error.get_or_insert(error.help(help));
        }
    }
    if verdict.error.is_none() && !rule.bidirectional {
        verdict.unneeded = unneeded(rule, registry, &functions, trials);
    }
    verdict
}

/// `rule` without the conditions that say where it is of use: it must hold wherever it could be
/// applied.
fn wherever_it_holds(rule: &Rule) -> Rule {
    let mut rule = rule.clone();
    rule.conditions.retain(|condition| !condition.is_of_use());
    rule
}

/// Operands on which both sides of `rule` agree, as text.
pub fn example(rule: &Rule, registry: &Registry) -> Vec<String> {
    let functions = Functions::new(registry);
    let rule = members(wherever_it_holds(rule));
    let trials =
        (0..4000).map(|seed| Operands::new(registry, seed, true).run(&rule, &functions, seed));
    trials
        .filter_map(|trial| if let Trial::Agrees(operands) = trial { Some(operands) } else { None })
        .next()
        .unwrap_or_default()
}

/// A rule about families for two members; another one as it is.
fn members(rule: Rule) -> Rule {
    if has_families(&rule) { expansions(&rule, 2).swap_remove(0) } else { rule }
}

/// Conditions without which the rule passes as well.
fn unneeded(rule: &Rule, registry: &Registry, functions: &Functions, trials: u32) -> Vec<String> {
    let mut found = Vec::new();
    for index in 0..rule.conditions.len() {
        let mut mutant = rule.clone();
        let condition = mutant.conditions.remove(index);
        let mutant = members(mutant);
        if run(&mutant, registry, functions, trials, true).1.is_none() {
            let mut text = String::new();
            let _ = rule.write_expr(&condition, 0, &mut text);
            found.push(text);
        }
    }
    if rule.typed {
        let mutant = Rule { typed: false, ..rule.clone() };
        let mutant = members(mutant);
        if run(&mutant, registry, functions, trials, true).1.is_none() {
            found.push("typed".to_string());
        }
    }
    found
}

fn run(
    rule: &Rule,
    registry: &Registry,
    functions: &Functions,
    trials: u32,
    first: bool,
) -> (u32, Option<Failure>) {
    let (mut tried, mut worst): (u32, Option<Failure>) = (0, None);
    let is_open = |node: &Node| matches!(node, Node::Op(op) if op.rest != Rest::Default);
    let leaves_open = rule.nodes.iter().any(is_open);
    for open in [false, true] {
        let enough = tried + trials;
        // Many random operands do not fit a left side; typing them is cheap.
        for seed in 0..trials.saturating_mul(40) {
            if tried >= enough || (open && !leaves_open) {
                break;
            }
            let mut trial = Operands::new(registry, seed, false);
            trial.open = open.then(|| Open::new(seed, rule));
            match trial.run(rule, functions, seed) {
                Trial::Skipped => {}
                Trial::Agrees(_) => tried += 1,
                Trial::Fails(failure) => {
                    tried += 1;
                    if worst.as_ref().is_none_or(|worst| failure.size < worst.size) {
                        worst = Some(failure);
                    }
                    if first {
                        return (tried, worst);
                    }
                }
            }
        }
    }
    (tried, worst)
}

/// The values of one trial; patterns and conditions see all of them as constants.
struct Operands<'a> {
    registry: &'a Registry,
    random: Random,
    /// Where attributes that a pattern leaves open are not only those that samples say.
    open: Option<Open>,
    values: Vec<(Type, Value)>,
    /// Whether operands on which the sides agree are asked for.
    shows: bool,
}

impl TermGraph for Operands<'_> {
    type Value = usize;

    fn forms(&self, _: usize) -> usize {
        0
    }
    fn name(&self, _: usize, _: usize) -> Symbol {
        Symbol::new("")
    }
    fn attrs(&self, _: usize, _: usize) -> AttrDict {
        AttrDict::empty()
    }
    fn operands(&self, _: usize, _: usize) -> SmallVec<[usize; 4]> {
        SmallVec::new()
    }
    fn ty(&self, value: usize) -> Type {
        self.values[value].0
    }
    fn constant(&self, value: usize) -> Option<Attr> {
        Some(Attr::of(self.values[value].1.as_tensor()?))
    }
    fn is_weight(&self, _: usize) -> bool {
        true
    }
    fn users(&self, _: usize, _: Symbol) -> Vec<usize> {
        vec![]
    }
}

/// What a pattern leaves open may be there as well: flags, numbers, element types and layouts.
struct Open {
    random: Random,
    /// The order of axes in layouts, and in the operands that have them.
    axes: Vec<usize>,
}

impl Open {
    fn new(seed: u32, rule: &Rule) -> Open {
        let mut random = Random::new(0x09e4 + u64::from(seed));
        let ranks = rule.samples.iter().filter_map(|sample| match sample {
            Sample::Type(_, ty) => ty.as_tensor().map(|tensor| tensor.shape.len()),
            Sample::Attributes(..) => None,
        });
        let axes = shuffled(ranks.max().unwrap_or(2), &mut random);
        Open { random, axes }
    }

    /// `items` in another order half of the time, where there is one for so many.
    fn reorder<T: Clone>(&mut self, items: Vec<T>) -> Vec<T> {
        if items.len() != self.axes.len() || self.random.one_in(2) {
            return items;
        }
        self.axes.iter().map(|axis| items[*axis].clone()).collect()
    }

    /// Some of the attributes of `def` that are not in `written`: the layouts, or one other.
    fn attributes(&mut self, def: &OpDef, written: &[Symbol]) -> Vec<(Symbol, Attr)> {
        let is_layout = |field: &AttrField| {
            field.default.is_some_and(|default| matches!(default().data(), AttrData::String(_)))
        };
        let layouts = self.random.one_in(2);
        let mut fields: Vec<&AttrField> = def
            .attrs
            .iter()
            .filter(|field| !written.contains(&Symbol::new(field.name)))
            .filter(|field| field.default.is_some() && is_layout(field) == layouts)
            .collect();
        if !layouts {
            fields = self.random.choose(&fields).copied().into_iter().collect();
        }
        let entries = fields
            .into_iter()
            .filter_map(|field| Some((Symbol::new(field.name), self.attribute(field)?)));
        entries.collect()
    }

    fn attribute(&mut self, field: &AttrField) -> Option<Attr> {
        let attr = match (field.default?)().data() {
            AttrData::String(layout) => {
                let letters = self.reorder(layout.chars().collect());
                Attr::of(&letters.into_iter().collect::<String>())
            }
            AttrData::Bool(flag) => Attr::of(&!flag),
            AttrData::Int(_) => Attr::of(&(self.random.below(4) as i64)),
            AttrData::Array(items) => {
                let items = items.iter().map(|_| self.random.below(3) as i64);
                Attr::of(&items.collect::<Vec<_>>())
            }
            _ => Attr::of(self.random.choose(&DTYPES)?),
        };
        (field.normalize)(attr)
    }
}

/// The numbers below `count` in some order.
fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    for index in (1..count).rev() {
        numbers.swap(index, random.below(index + 1));
    }
    numbers
}

/// Element types that rules are tried on.
const DTYPES: [DType; 6] =
    [DType::FLOAT32, DType::FLOAT64, DType::INT32, DType::INT8, DType::UINT8, DType::BOOL];

impl Operands<'_> {
    fn new(registry: &Registry, seed: u32, shows: bool) -> Operands<'_> {
        let random = Random::new(0x5eed + u64::from(seed));
        Operands { registry, random, open: None, values: vec![], shows }
    }

    fn run(&mut self, rule: &Rule, functions: &Functions, seed: u32) -> Trial {
        self.attempt(rule, functions, seed).unwrap_or(Trial::Skipped)
    }

    /// `None` where the operands do not fit.
    fn attempt(&mut self, rule: &Rule, functions: &Functions, seed: u32) -> Option<Trial> {
        let dtype = DTYPES[self.random.below(DTYPES.len())];
        // Integers wrap, and rules are exact on them.
        let adversarial = seed % 4 == 3 && (rule.class == FloatClass::Exact || !dtype.is_float());
        let small = seed % 4 < 2;
        let mut found: Match<usize> = Match {
            values: SmallVec::from_elem(None, rule.values.len()),
            attributes: SmallVec::from_elem(None, rule.attributes.len()),
            equations: SmallVec::new(),
            ops: SmallVec::new(),
            swapped: SmallVec::new(),
        };
        let mut extents = FxHashMap::default();
        // Of several samples of one variable, one is taken.
        let chosen: Vec<usize> = rule
            .samples
            .iter()
            .map(|sample| {
                let same = |other: &&Sample| other.is_about_same(sample);
                self.random.below(rule.samples.iter().filter(same).count())
            })
            .collect();
        for (index, sample) in rule.samples.iter().enumerate() {
            let same = |other: &usize| rule.samples[*other].is_about_same(sample);
            let (first, place) = match (0..rule.samples.len()).find(same) {
                Some(first) => (first, (first..index).filter(same).count()),
                None => (index, 0),
            };
            if chosen[first] != place {
                continue;
            }
            match sample {
                Sample::Attributes(var, choices) => {
                    found.attributes[var.0] = self.random.choose(choices).copied();
                }
                Sample::Type(var, ty) => {
                    let ty = self.instance(*ty, dtype, &mut extents)?;
                    let value = self.tensor(ty, small, adversarial)?;
                    found.values[var.0] = Some(value);
                }
            }
        }
        // Most operators want operands of one shape, or of shapes that broadcast.
        let rank = self.random.below(4);
        let shape: Vec<i64> = (0..rank).map(|_| 1 + self.random.below(3) as i64).collect();
        let mut made: Vec<Option<usize>> = vec![None; rule.nodes.len()];
        // The variables for what `..` stands for that an operation before has as well.
        let mut said: Vec<usize> = Vec::new();
        for equation in &rule.left {
            for id in rule.reachable([equation.node]) {
                if made[id.0].is_some() {
                    continue;
                }
                made[id.0] = Some(match rule.node(id) {
                    Node::Value(var) => match found.values[var.0] {
                        Some(value) => value,
                        None => {
                            let is_condition = self.random.one_in(6);
                            let dtype = if is_condition { DType::BOOL } else { dtype };
                            let shape = self.vary(&shape);
                            let ty = Type::tensor(shape, dtype);
                            let value = self.tensor(ty, small, adversarial)?;
                            found.values[var.0] = Some(value);
                            value
                        }
                    },
                    Node::Choice(_) => return None,
                    Node::Number(number) => {
                        let shape = self.around(&shape);
                        let tensor = self.elements(&shape, dtype, &mut |_| *number)?;
                        // A number that the type does not hold is another number.
                        (tensor.element(0)?.as_f64() == number.as_f64()).then_some(())?;
                        self.values.push((tensor.ty(), tensor.into()));
                        self.values.len() - 1
                    }
                    Node::Op(op) => {
                        let mut entries: Vec<(Symbol, Attr)> = Vec::new();
                        for (key, value) in &op.attrs {
                            let attr = match value {
                                Expr::Literal(attr) => *attr,
                                Expr::Attribute(var) => match found.attributes[var.0] {
                                    Some(attr) => attr,
                                    None => {
                                        let attr = self.attribute(op.name, *key, rank)?;
                                        found.attributes[var.0] = Some(attr);
                                        attr
                                    }
                                },
                                _ => return None,
                            };
                            entries.push((*key, attr));
                        }
                        match op.rest {
                            Rest::Default => {}
                            Rest::Variable(var) => {
                                let known = found.attributes[var.0];
                                let rest =
                                    match known.filter(|_| said.contains(&var.0)).map(Attr::data) {
                                        Some(AttrData::Dict(rest)) => *rest,
                                        _ => self.rest(op, &entries, known),
                                    };
                                said.push(var.0);
                                found.attributes[var.0] = Some(Attr::of(&rest));
                                entries.extend(rest.entries());
                            }
                            Rest::Ignored => {
                                entries.extend(self.required(op.name, op, &made)?);
                                let rest = self.rest(op, &entries, None);
                                entries.extend(rest.entries());
                            }
                        }
                        let def = self.registry.def(op.name)?;
                        let attrs = def.normalize_attrs(AttrDict::new(entries)).ok()?;
                        // What a variable stands for is the canonical attribute.
                        for ((key, value), default) in op.attrs.iter().zip(&op.defaults) {
                            if let Expr::Attribute(var) = value {
                                found.attributes[var.0] = attrs.get(*key).or(*default);
                            }
                        }
                        let operands: Option<Vec<usize>> =
                            op.operands.iter().map(|operand| made[operand.0]).collect();
                        self.op(op.name, attrs, &operands?)?
                    }
                });
            }
            let value = made[equation.node.0]?;
            if let Some(name) = equation.name {
                found.values[name.0] = Some(value);
            }
            if found.equations.contains(&value) {
                return None;
            }
            found.equations.push(value);
        }
        let size = self.values.iter().filter_map(|(_, v)| v.as_tensor()).map(TensorData::len).sum();
        let shown = |this: &Self| {
            let values = rule.values.iter().zip(&found.values);
            let values = values.filter_map(|(name, value)| Some((name, (*value)?)));
            let mut shown: Vec<String> =
                values.map(|(name, value)| format!("%{name} = {}", this.values[value].1)).collect();
            let attributes = rule.attributes.iter().zip(&found.attributes);
            shown.extend(
                attributes.filter_map(|(name, attr)| Some(format!("?{name} = {:?}", (*attr)?))),
            );
            shown.iter_mut().for_each(|line| {
                if let Some((end, _)) = line.char_indices().nth(160) {
                    line.replace_range(end.., "…");
                }
            });
            shown
        };
        let plan = match plan(self, (rule, Conditions::All), &found, self.registry, functions) {
            Ok(plan) => plan,
            Err(Refusal::Condition) => return Some(Trial::Skipped),
            Err(Refusal::IllTyped(error)) => {
                let operands = shown(self);
                return Some(Trial::Fails(Failure { size, reason: error.message, operands }));
            }
        };
        let made = match self.evaluate(&plan) {
            Ok(made) => made,
            Err(message) => {
                let (reason, operands) = (format!("the right side fails: {message}"), shown(self));
                return Some(Trial::Fails(Failure { size, reason, operands }));
            }
        };
        for (old, new) in &plan.replacements {
            let expected = &self.values[*old].1;
            let new = match new {
                Operand::Value(value) => *value,
                Operand::New(index) => made[*index],
            };
            let finite =
                rule.class == FloatClass::Exact || self.values.iter().all(|v| is_finite(&v.1));
            if !finite {
                return Some(Trial::Skipped);
            }
            let wide =
                matches!(expected, Value::Tensor(tensor) if tensor.dtype() == DType::FLOAT64);
            let (rtol, atol) = match rule.class {
                FloatClass::Exact => (0.0, 0.0),
                FloatClass::Reassociated if wide => (1e-10, 1e-9),
                FloatClass::Reassociated => (1e-4, 1e-3),
                FloatClass::Approximate(tolerance) => (tolerance, tolerance),
            };
            if rule.class == FloatClass::Exact && !same_zeros(&self.values[new].1, expected) {
                let (reason, operands) = ("zeros differ in sign".to_string(), shown(self));
                return Some(Trial::Fails(Failure { size, reason, operands }));
            }
            if let Err(mismatch) = approx_equal(&self.values[new].1, expected, rtol, atol) {
                let (reason, operands) = (format!("the sides differ: {mismatch}"), shown(self));
                return Some(Trial::Fails(Failure { size, reason, operands }));
            }
        }
        Some(Trial::Agrees(if self.shows { shown(self) } else { vec![] }))
    }

    /// The same shape, or one that broadcasts to it.
    fn vary(&mut self, shape: &[i64]) -> Vec<i64> {
        let mut shape = shape.to_vec();
        match self.random.below(6) {
            0 => shape.iter_mut().for_each(|extent| {
                if self.random.one_in(2) {
                    *extent = 1;
                }
            }),
            1 => _ = shape.drain(..self.random.below(shape.len() + 1)),
            _ => {}
        }
        shape
    }

    /// The shape of a constant: none, or one that may broadcast its neighbours.
    fn around(&mut self, shape: &[i64]) -> Vec<i64> {
        match self.random.below(4) {
            0 => shape.to_vec(),
            1 => std::iter::once(2).chain(shape.iter().copied()).collect(),
            _ => vec![],
        }
    }

    /// `ty` with extents for names, and `dtype` for `float32`.
    fn instance(
        &mut self,
        ty: Type,
        dtype: DType,
        extents: &mut FxHashMap<Symbol, i64>,
    ) -> Option<Type> {
        let TypeData::Tensor(tensor) = ty.data() else { return None };
        let shape = tensor.shape.iter().map(|dim| match dim {
            Dim::Known(extent) => Some(*extent),
            Dim::Any => Some(1 + self.random.below(4) as i64),
            Dim::Expr(expr) => match expr.data() {
                DimExprData::Parameter(name) => {
                    let random = 1 + self.random.below(4) as i64;
                    Some(*extents.entry(name).or_insert(random))
                }
                _ => None,
            },
        });
        let mut shape = shape.collect::<Option<Vec<i64>>>()?;
        if let Some(open) = &mut self.open {
            shape = open.reorder(shape);
        }
        let dtype = if tensor.dtype == DType::FLOAT32 { dtype } else { tensor.dtype };
        Some(Type::tensor(shape, dtype))
    }

    fn tensor(&mut self, ty: Type, small: bool, adversarial: bool) -> Option<usize> {
        let tensor = ty.as_tensor()?;
        let (shape, dtype) = (tensor.known_shape()?, tensor.dtype);
        let data = if small || dtype.is_bool() {
            let least = if dtype.is_float() || dtype.is_signed() { -3 } else { 0 };
            self.elements(&shape, dtype, &mut |random| Scalar::Int(least + random.below(7) as i64))?
        } else if adversarial && dtype.is_float() {
            const HARD: [f64; 8] =
                [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, 1.5, -2.5, 1e30];
            self.elements(&shape, dtype, &mut |random| Scalar::Float(HARD[random.below(8)]))?
        } else if adversarial {
            let (least, greatest) = match dtype.is_signed() {
                true => (i64::MIN >> (64 - dtype.bits()), i64::MAX >> (64 - dtype.bits())),
                false => (0, -1),
            };
            let hard = [least, greatest, 0x7f, -1, 1, 2, 12];
            self.elements(&shape, dtype, &mut |random| Scalar::Int(hard[random.below(7)]))?
        } else if dtype.is_float() {
            self.elements(&shape, dtype, &mut |random| Scalar::Float(random.unit() * 8.0 - 4.0))?
        } else {
            self.random.tensor(&shape, dtype).ok()?
        };
        self.values.push((data.ty(), data.into()));
        Some(self.values.len() - 1)
    }

    fn elements(
        &mut self,
        shape: &[i64],
        dtype: DType,
        element: &mut dyn FnMut(&mut Random) -> Scalar,
    ) -> Option<TensorData> {
        let count: i64 = shape.iter().product();
        let values: Vec<Scalar> = (0..count).map(|_| element(&mut self.random)).collect();
        TensorData::from_scalars(dtype, shape, values).ok()
    }

    /// A random attribute for field `key` of `name`.
    fn attribute(&mut self, name: Symbol, key: Symbol, rank: usize) -> Option<Attr> {
        let field = self.registry.def(name)?.attr(key.as_str())?;
        for _ in 0..8 {
            let attr = match self.random.below(6) {
                0 => field.default.map(|default| default())?,
                1 => Attr::of(&(self.random.below(5) as i64 - 2)),
                2 => Attr::of(&self.random.one_in(2)),
                3 => Attr::of(&(self.random.unit() * 4.0 - 2.0)),
                4 => {
                    let mut axes: Vec<i64> = (0..rank as i64).collect();
                    for index in (1..axes.len()).rev() {
                        axes.swap(index, self.random.below(index + 1));
                    }
                    Attr::of(&axes)
                }
                _ => {
                    let length = 1 + self.random.below(3);
                    let items = (0..length).map(|_| self.random.below(4) as i64);
                    Attr::of(&items.collect::<Vec<_>>())
                }
            };
            if let Some(attr) = (field.normalize)(attr) {
                return Some(attr);
            }
        }
        None
    }

    /// What stands for `..` after the `written` attributes: what is `known`, by a sample or an
    /// operation before, and where that is all that is said, what may be there as well.
    fn rest(&mut self, op: &OpNode, written: &[(Symbol, Attr)], known: Option<Attr>) -> AttrDict {
        let known = match known.map(Attr::data) {
            Some(AttrData::Dict(known)) => *known,
            _ => AttrDict::empty(),
        };
        let Some(open) = &mut self.open else { return known };
        let Some(def) = self.registry.def(op.name) else { return known };
        let written = written.iter().chain(known.entries()).map(|(key, _)| *key);
        let added = open.attributes(def, &written.collect::<Vec<_>>());
        AttrDict::new(known.entries().iter().copied().chain(added))
    }

    /// Random values for the required attributes that `..` leaves out.
    fn required(
        &mut self,
        name: Symbol,
        op: &OpNode,
        made: &[Option<usize>],
    ) -> Option<Vec<(Symbol, Attr)>> {
        let def = self.registry.def(name)?;
        let operand = op.operands.first().and_then(|operand| made[operand.0]);
        let elements = operand.and_then(|value| self.values[value].0.as_tensor()?.elements());
        let mut entries = Vec::new();
        for field in def.attrs.iter().filter(|field| field.default.is_none()) {
            let key = Symbol::new(field.name);
            if op.attrs.iter().any(|(written, _)| *written == key) {
                continue;
            }
            // A shape has to have as many elements as there are.
            let shape = elements.map(|n| Attr::of(&vec![n])).filter(|_| self.random.one_in(2));
            let attr = match shape.and_then(field.normalize) {
                Some(attr) => attr,
                None => self.attribute(name, key, 2)?,
            };
            entries.push((key, attr));
        }
        Some(entries)
    }

    /// Types and evaluates an operation; `None` where its operands do not fit.
    fn op(&mut self, name: Symbol, attrs: AttrDict, operands: &[usize]) -> Option<usize> {
        let types: Vec<Type> = operands.iter().map(|value| self.values[*value].0).collect();
        let constants = |index: usize| self.constant(*operands.get(index)?);
        let infer = self.registry.def(name)?.infer?;
        let ty = infer(&mut InferCx::with_constants(&types, attrs, &constants)).ok()?;
        let value = self.value(name, attrs, operands, ty).ok()?;
        self.values.push((ty, value));
        Some(self.values.len() - 1)
    }

    fn value(
        &self,
        name: Symbol,
        attrs: AttrDict,
        operands: &[usize],
        ty: Type,
    ) -> Result<Value, String> {
        let operands: Vec<Value> =
            operands.iter().map(|value| self.values[*value].1.clone()).collect();
        value(self.registry, name, attrs, &operands, ty)
    }

    fn evaluate(&mut self, plan: &Plan<usize>) -> Result<Vec<usize>, String> {
        let mut made: Vec<usize> = Vec::new();
        for op in &plan.ops {
            let operands: Vec<usize> = op
                .operands
                .iter()
                .map(|operand| match operand {
                    Operand::Value(value) => *value,
                    Operand::New(index) => made[*index],
                })
                .collect();
            let value = self.value(op.name, op.attrs, &operands, op.ty)?;
            self.values.push((op.ty, value));
            made.push(self.values.len() - 1);
        }
        Ok(made)
    }
}

/// Whether zeros have the same signs: by them, quotients differ.
fn same_zeros(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => {
            !a.dtype().is_float()
                || a.elements().zip(b.elements()).all(|(a, b)| {
                    let (a, b) = (a.as_f64(), b.as_f64());
                    a != 0.0 || b != 0.0 || a.is_sign_negative() == b.is_sign_negative()
                })
        }
        (Value::Tuple(a), Value::Tuple(b)) => a.iter().zip(b.iter()).all(|(a, b)| same_zeros(a, b)),
        _ => true,
    }
}

fn is_finite(value: &Value) -> bool {
    match value {
        Value::Tensor(tensor) => {
            !tensor.dtype().is_float() || tensor.elements().all(|x| x.as_f64().is_finite())
        }
        Value::Tuple(fields) => fields.iter().all(is_finite),
        _ => true,
    }
}

/// What an operation gives.
///
/// # Errors
/// When it has no evaluator, or no value on these operands.
pub fn value(
    registry: &Registry,
    name: Symbol,
    attrs: AttrDict,
    operands: &[Value],
    ty: Type,
) -> Result<Value, String> {
    match name.as_str() {
        "relay.tuple" => return Ok(Value::tuple(operands.iter().cloned())),
        "relay.constant" => {
            let tensor = attrs.value::<TensorData>("value").ok_or("no value")?;
            return Ok(tensor.into());
        }
        "relay.tuple_get" => {
            let index = attrs.value::<i64>("index").and_then(|index| usize::try_from(index).ok());
            let fields = operands.first().and_then(Value::as_tuple);
            let field = index.and_then(|index| fields?.get(index).cloned());
            return field.ok_or_else(|| "no such field".to_string());
        }
        _ => {}
    }
    let hook = registry.hook::<Evaluate>(name).ok_or("no evaluator")?;
    (hook.0)(&EvalCx { operands, attrs, result: ty }).map_err(String::from)
}
