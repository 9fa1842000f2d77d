//! The operands of a trial: random ones that fit the left side of a rule.

use ir_core::registry::AttrField;
use ir_core::{
    Attr, AttrData, AttrDict, DType, Dim, DimExprData, InferCx, Magnitudes, OpDef, Random,
    Registry, Scalar, SmallVec, Symbol, TensorData, Type, TypeData,
};
use relay::interpreter::Value;
use rewrites::instantiate::{Operand, Plan};
use rewrites::matching::{Match, TermGraph};
use rewrites::rule::{Expr, FloatClass, Node, OpNode, Rest, Rule, Sample, Var};
use rustc_hash::FxHashMap;

use super::choices::Choices;
use super::stability::{last_digit, shaken};
use super::value;

/// Element types that rules are tried on, the simplest first.
const DTYPES: [DType; 9] = [
    DType::FLOAT32,
    DType::INT8,
    DType::INT32,
    DType::UINT8,
    DType::BOOL,
    DType::FLOAT64,
    DType::INT64,
    DType::FLOAT16,
    DType::BFLOAT16,
];

/// Those of floats, `float32` more often.
const FLOATS: [DType; 5] =
    [DType::FLOAT32, DType::FLOAT32, DType::FLOAT64, DType::FLOAT16, DType::BFLOAT16];

/// Which numbers tensors hold.
#[derive(Clone, Copy)]
enum Numbers {
    /// Integers around 0.
    Small,
    /// Any number around 0.
    Plain,
    /// Numbers much nearer to 0 than to 1, and zeros.
    Near,
    /// Infinities, NaN and zeros of both signs; the least and the greatest integers.
    Hard,
    /// Numbers of all magnitudes, subnormal ones among them.
    Far,
}

/// With how many digits floats are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Digits {
    /// Those of their types.
    Own,
    /// Those of float64.
    Float64,
    /// Those of float64, where the last digits of each number are others, in the way that this
    /// says.
    Shaken(u64),
}

/// The values of one trial; patterns and conditions see all of them as constants.
pub(super) struct Operands<'a> {
    registry: &'a Registry,
    pub(super) choices: Choices,
    pub(super) values: Vec<(Type, Value)>,
    digits: Digits,
    /// That of the operands that have fewest.
    last_digit: f64,
    dtype: DType,
    numbers: Numbers,
    /// Another element type, and the variable that has it; where there is none, each may have it.
    other: Option<(DType, Option<Var>)>,
    /// Whether extents are 0, 1 or 2.
    thin: bool,
    /// Whether extents that samples fix are random.
    free: bool,
    /// Samples that have another rank: that of one variable, or all of a rank; and that rank.
    rank: Option<(Alike, usize)>,
    /// Whether attributes may be others than samples say.
    loose: bool,
    /// The extents that names in samples stand for.
    extents: FxHashMap<Symbol, i64>,
    /// Where attributes that a pattern leaves open are not only those that samples say, but flags,
    /// numbers, element types and layouts: the order of axes in layouts, and in the operands that
    /// have them.
    open: Option<Vec<usize>>,
}

/// Which samples are alike.
enum Alike {
    /// Those of one variable, or of the members of one family.
    Name(Symbol),
    /// Those of one rank.
    Rank(usize),
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

impl Operands<'_> {
    pub(super) fn new(registry: &Registry, choices: Choices, digits: Digits) -> Operands<'_> {
        Operands {
            registry,
            choices,
            values: vec![],
            digits,
            last_digit: 0.0,
            dtype: DType::FLOAT32,
            numbers: Numbers::Small,
            other: None,
            thin: false,
            free: false,
            rank: None,
            loose: false,
            extents: FxHashMap::default(),
            open: None,
        }
    }

    /// Operands of the left side of `rule`, and what it gives; `None` where they do not fit it.
    pub(super) fn of_left_side(
        &mut self,
        rule: &Rule,
        open: bool,
        far: bool,
    ) -> Option<Match<usize>> {
        self.kind(rule, open, far);
        let mut found: Match<usize> = Match {
            values: SmallVec::from_elem(None, rule.values.len()),
            attributes: SmallVec::from_elem(None, rule.attributes.len()),
            equations: SmallVec::new(),
            ops: SmallVec::new(),
            swapped: SmallVec::new(),
        };
        // Most operators want operands of one shape, or of shapes that broadcast.
        let rank = self.choices.below(4);
        let mut shape = [0; 3].map(|_| self.extent());
        let shape = &mut shape[..rank];
        self.sampled(rule, &mut found)?;
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
                            let condition = self.choices.one_in(6);
                            let dtype = self.element_type(*var);
                            let dtype = if condition { DType::BOOL } else { dtype };
                            let shape = self.vary(shape);
                            let value = self.tensor(&shape, dtype, rule.class)?;
                            found.values[var.0] = Some(value);
                            value
                        }
                    },
                    Node::Number(number) => {
                        let shape = self.around(shape);
                        let tensor = elements(&shape, self.dtype, |_| *number)?;
                        // A number that the type does not hold is another number.
                        (tensor.element(0)?.as_f64() == number.as_f64()).then_some(())?;
                        self.push_exactly(tensor)?
                    }
                    Node::Op(op) => self.operation(op, &mut found, &made, rank, &mut said)?,
                    // Only right sides choose.
                    Node::Choice(_) => return None,
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
        Some(found)
    }

    /// What kind of operands they are.
    fn kind(&mut self, rule: &Rule, open: bool, far: bool) {
        use Numbers::{Far, Hard, Near, Plain, Small};
        let (dtypes, numbers) = match far {
            true => (&FLOATS[..], &[Far][..]),
            false => (&DTYPES[..], &[Small, Small, Small, Plain, Plain, Near, Hard, Hard][..]),
        };
        self.dtype = *self.choices.of(dtypes);
        self.numbers = *self.choices.of(numbers);
        if self.choices.one_in(6) {
            let other = *self.choices.of(&DTYPES);
            let only = self.choices.below(rule.values.len() + 1);
            self.other = Some((other, (only < rule.values.len()).then_some(Var(only))));
        }
        self.thin = self.choices.one_in(6);
        self.free = self.choices.one_in(if self.thin { 2 } else { 8 });
        self.loose = self.choices.one_in(6);
        let types = rule.samples.iter().filter_map(|sample| match sample {
            Sample::Type(var, ty) => Some((family(rule, *var), ty.as_tensor()?.rank())),
            Sample::Attributes(..) => None,
        });
        let types: Vec<(Symbol, usize)> = types.collect();
        if self.choices.one_in(6) && !types.is_empty() {
            let (name, rank) = *self.choices.of(&types);
            let alike = if self.choices.one_in(2) { Alike::Rank(rank) } else { Alike::Name(name) };
            // As many as there are, one more, none, one and so on.
            self.rank = Some((alike, (rank + self.choices.below(rank + 2)) % (rank + 2)));
        }
        self.open = open.then(|| {
            let mut axes: Vec<usize> =
                (0..types.iter().map(|(_, rank)| *rank).max().unwrap_or(2)).collect();
            for index in (1..axes.len()).rev() {
                axes.swap(index, index - self.choices.below(index + 1));
            }
            axes
        });
    }

    /// What samples say of variables. Of several samples of one variable, one is taken.
    fn sampled(&mut self, rule: &Rule, found: &mut Match<usize>) -> Option<()> {
        for (index, sample) in rule.samples.iter().enumerate() {
            if rule.samples[..index].iter().any(|before| before.is_about_same(sample)) {
                continue;
            }
            let same = rule.samples.iter().filter(|other| other.is_about_same(sample));
            match *self.choices.of(&same.collect::<Vec<_>>()) {
                Sample::Attributes(..) if self.loose && self.choices.one_in(2) => {}
                Sample::Attributes(_, choices) if choices.is_empty() => return None,
                Sample::Attributes(var, choices) => {
                    found.attributes[var.0] = Some(*self.choices.of(choices));
                }
                Sample::Type(var, ty) => {
                    let TypeData::Tensor(tensor) = ty.data() else { return None };
                    let shape = self.shape(&tensor.shape, family(rule, *var))?;
                    let given = tensor.dtype == DType::FLOAT32;
                    let dtype = if given { self.element_type(*var) } else { tensor.dtype };
                    found.values[var.0] = Some(self.tensor(&shape, dtype, rule.class)?);
                }
            }
        }
        Some(())
    }

    /// Types and evaluates `op` of a left side; `None` where its operands do not fit.
    fn operation(
        &mut self,
        op: &OpNode,
        found: &mut Match<usize>,
        made: &[Option<usize>],
        rank: usize,
        said: &mut Vec<usize>,
    ) -> Option<usize> {
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
                let rest = match known.filter(|_| said.contains(&var.0)).map(Attr::data) {
                    Some(AttrData::Dict(rest)) => *rest,
                    _ => self.rest(op, &entries, known),
                };
                said.push(var.0);
                found.attributes[var.0] = Some(Attr::of(&rest));
                entries.extend(rest.entries());
            }
            Rest::Ignored => {
                entries.extend(self.required(op, made)?);
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
        let operands = operands?;
        let types: Vec<Type> = operands.iter().map(|value| self.values[*value].0).collect();
        let constants = |index: usize| self.constant(*operands.get(index)?);
        let mut cx = InferCx::with_constants(&types, attrs, &constants);
        let ty = def.infer?(&mut cx).ok()?;
        let fits = cx.equations.is_empty()
            && cx.refinements.iter().all(|(index, ty)| types.get(*index) == Some(ty));
        fits.then_some(())?;
        /// The least number but 0.
        const LEAST: f64 = f64::from_bits(1);
        let value = self.value(op.name, attrs, &operands, ty).ok()?;
        match (self.digits, value) {
            (Digits::Shaken(_), Value::Tensor(result)) => self.push_rounded(result, LEAST),
            (_, value) => Some(self.push(ty, value)),
        }
    }

    /// An operand, with all the digits that are asked for.
    fn push_tensor(&mut self, tensor: TensorData) -> Option<usize> {
        if tensor.dtype().is_float() {
            self.last_digit = self.last_digit.max(last_digit(tensor.dtype()));
        }
        self.push_rounded(tensor, 0.0)
    }

    /// An operand or the result of an operation, as rounding may leave it. What is `least` may
    /// become 0 of a result.
    fn push_rounded(&mut self, tensor: TensorData, least: f64) -> Option<usize> {
        match self.digits {
            Digits::Shaken(way) => {
                let seed = (way << 32) + self.values.len() as u64;
                self.push_exactly(shaken(&tensor, self.last_digit, least, seed)?)
            }
            _ => self.push_exactly(tensor),
        }
    }

    fn push_exactly(&mut self, tensor: TensorData) -> Option<usize> {
        let tensor = match self.digits != Digits::Own && tensor.dtype().is_float() {
            true => {
                TensorData::from_scalars(DType::FLOAT64, tensor.shape(), tensor.elements()).ok()?
            }
            false => tensor,
        };
        Some(self.push(tensor.ty(), tensor.into()))
    }

    fn push(&mut self, ty: Type, value: Value) -> usize {
        self.values.push((ty, value));
        self.values.len() - 1
    }

    fn extent(&mut self) -> i64 {
        if self.thin { *self.choices.of(&[1, 0, 2]) } else { 1 + self.choices.below(4) as i64 }
    }

    fn element_type(&mut self, var: Var) -> DType {
        match self.other {
            Some((other, Some(only))) if only == var => other,
            Some((other, None)) if self.choices.one_in(2) => other,
            _ => self.dtype,
        }
    }

    /// The same shape, or one that broadcasts to it.
    fn vary(&mut self, shape: &[i64]) -> Vec<i64> {
        let mut shape = shape.to_vec();
        match self.choices.below(6) {
            4 => shape.iter_mut().for_each(|extent| {
                if self.choices.one_in(2) {
                    *extent = 1;
                }
            }),
            5 => _ = shape.drain(..self.choices.below(shape.len() + 1)),
            _ => {}
        }
        shape
    }

    /// The shape of a constant: none, or one that may broadcast its neighbours.
    fn around(&mut self, shape: &[i64]) -> Vec<i64> {
        match self.choices.below(4) {
            2 => shape.to_vec(),
            3 => std::iter::once(2).chain(shape.iter().copied()).collect(),
            _ => vec![],
        }
    }

    /// The shape of a sample, with extents for names.
    fn shape(&mut self, dims: &[Dim], name: Symbol) -> Option<Vec<i64>> {
        let mut shape = Vec::new();
        for dim in dims {
            shape.push(match dim {
                Dim::Known(extent) if self.free => self.named(Symbol::new(&extent.to_string())),
                Dim::Known(extent) => *extent,
                Dim::Any => self.extent(),
                Dim::Expr(expr) => match expr.data() {
                    DimExprData::Parameter(name) => self.named(name),
                    _ => return None,
                },
            });
        }
        let (alike, axes) = match self.rank {
            Some((Alike::Name(other), axes)) => (name == other, axes),
            Some((Alike::Rank(rank), axes)) => (rank == dims.len(), axes),
            None => (false, 0),
        };
        if alike {
            if axes > shape.len() {
                shape.insert(0, self.named(Symbol::new("")));
            }
            shape.drain(..shape.len().saturating_sub(axes));
        }
        Some(self.reordered(shape))
    }

    fn named(&mut self, name: Symbol) -> i64 {
        match self.extents.get(&name) {
            Some(extent) => *extent,
            None => {
                let extent = self.extent();
                self.extents.insert(name, extent);
                extent
            }
        }
    }

    fn tensor(&mut self, shape: &[i64], dtype: DType, class: FloatClass) -> Option<usize> {
        count_of(shape)?;
        // Only integers wrap, and only exact rules promise something about infinities.
        let numbers = match self.numbers {
            Numbers::Hard if dtype.is_float() && class != FloatClass::Exact => Numbers::Plain,
            // Products of such float16 are 0.
            Numbers::Near if dtype == DType::FLOAT16 => Numbers::Plain,
            numbers => numbers,
        };
        let tensor = match self.choices.below(1 << 16) {
            0 => elements(shape, dtype, |_| Scalar::Int(0)),
            1 => elements(shape, dtype, |_| Scalar::Int(1)),
            2 => elements(shape, dtype, |index| Scalar::Int(index as i64 + 1)),
            seed => random_tensor(shape, dtype, numbers, &mut Random::new(seed as u64)),
        }?;
        self.push_tensor(tensor)
    }

    /// A random attribute for field `key` of `name`.
    fn attribute(&mut self, name: Symbol, key: Symbol, rank: usize) -> Option<Attr> {
        let field = self.registry.def(name)?.attr(key.as_str())?;
        let choices = &mut self.choices;
        for _ in 0..8 {
            let attr = match choices.below(7) {
                0 => match field.default {
                    Some(default) => default(),
                    None => continue,
                },
                1 => Attr::of(&(choices.below(5) as i64 - 2)),
                2 => Attr::of(&choices.one_in(2)),
                3 => Attr::of(&(choices.below(17) as f64 / 4.0 - 2.0)),
                4 => {
                    let mut axes: Vec<i64> = (0..rank as i64).collect();
                    for index in (1..axes.len()).rev() {
                        axes.swap(index, index - choices.below(index + 1));
                    }
                    Attr::of(&axes)
                }
                5 => Attr::of(choices.of(&DTYPES)),
                _ => {
                    let length = 1 + choices.below(3);
                    let items = (0..length).map(|_| choices.below(4) as i64);
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
        let Some(def) = self.registry.def(op.name).filter(|_| self.open.is_some()) else {
            return known;
        };
        let written = written.iter().chain(known.entries()).map(|(key, _)| *key);
        let added = self.others(def, &written.collect::<Vec<_>>());
        AttrDict::new(known.entries().iter().copied().chain(added))
    }

    /// Some of the attributes of `def` that are not in `written`: the layouts, or one other.
    fn others(&mut self, def: &OpDef, written: &[Symbol]) -> Vec<(Symbol, Attr)> {
        let is_layout = |field: &AttrField| {
            field.default.is_some_and(|default| matches!(default().data(), AttrData::String(_)))
        };
        let layouts = self.choices.one_in(2);
        let mut fields: Vec<&AttrField> = def
            .attrs
            .iter()
            .filter(|field| !written.contains(&Symbol::new(field.name)))
            .filter(|field| field.default.is_some() && is_layout(field) == layouts)
            .collect();
        if !layouts && !fields.is_empty() {
            fields = vec![*self.choices.of(&fields)];
        }
        let entries = fields
            .into_iter()
            .filter_map(|field| Some((Symbol::new(field.name), self.other(field)?)));
        entries.collect()
    }

    /// Another value of `field` than its default.
    fn other(&mut self, field: &AttrField) -> Option<Attr> {
        let attr = match (field.default?)().data() {
            AttrData::String(layout) => {
                let letters = self.reordered(layout.chars().collect());
                Attr::of(&letters.into_iter().collect::<String>())
            }
            AttrData::Bool(flag) => Attr::of(&!flag),
            AttrData::Int(_) => Attr::of(&(self.choices.below(4) as i64)),
            AttrData::Array(items) => {
                let items = items.iter().map(|_| self.choices.below(3) as i64);
                Attr::of(&items.collect::<Vec<_>>())
            }
            _ => Attr::of(self.choices.of(&DTYPES)),
        };
        (field.normalize)(attr)
    }

    /// `items` in the order of axes half of the time, where there is one for so many.
    fn reordered<T: Clone>(&mut self, items: Vec<T>) -> Vec<T> {
        match &self.open {
            Some(axes) if items.len() == axes.len() && self.choices.one_in(2) => {
                axes.iter().map(|axis| items[*axis].clone()).collect()
            }
            _ => items,
        }
    }

    /// Random values for the required attributes that `..` leaves out.
    fn required(&mut self, op: &OpNode, made: &[Option<usize>]) -> Option<Vec<(Symbol, Attr)>> {
        let def = self.registry.def(op.name)?;
        let operand = op.operands.first().and_then(|operand| made[operand.0]);
        let count = operand.and_then(|value| self.values[value].0.as_tensor()?.elements());
        let mut entries = Vec::new();
        for field in def.attrs.iter().filter(|field| field.default.is_none()) {
            let key = Symbol::new(field.name);
            if op.attrs.iter().any(|(written, _)| *written == key) {
                continue;
            }
            // A shape has to have as many elements as there are.
            let shape = count.map(|n| Attr::of(&vec![n])).filter(|_| !self.choices.one_in(2));
            let attr = match shape.and_then(field.normalize) {
                Some(attr) => attr,
                None => self.attribute(op.name, key, 2)?,
            };
            entries.push((key, attr));
        }
        Some(entries)
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

    /// The values that `plan` makes.
    pub(super) fn evaluate(&mut self, plan: &Plan<usize>) -> Result<Vec<usize>, String> {
        let mut made: Vec<usize> = Vec::new();
        for op in &plan.ops {
            let operands = op.operands.iter().map(|operand| match operand {
                Operand::Value(value) => *value,
                Operand::New(index) => made[*index],
            });
            let operands: Vec<usize> = operands.collect();
            let value = self.value(op.name, op.attrs, &operands, op.ty)?;
            made.push(self.push(op.ty, value));
        }
        Ok(made)
    }
}

/// The name of a variable, or of the family that it is a member of.
fn family(rule: &Rule, var: Var) -> Symbol {
    let name = rule.values[var.0].as_str();
    Symbol::new(name.split_once('.').map_or(name, |(family, _)| family))
}

/// The elements of a tensor of `shape`; `None` where there are too many to try rules on.
fn count_of(shape: &[i64]) -> Option<usize> {
    const MOST: usize = 1 << 20;
    let mut extents = shape.iter().map(|extent| usize::try_from(*extent).ok());
    let count = extents.try_fold(1usize, |count, extent| count.checked_mul(extent?));
    count.filter(|count| *count <= MOST)
}

/// A tensor with the element that belongs to each index.
fn elements(
    shape: &[i64],
    dtype: DType,
    mut element: impl FnMut(usize) -> Scalar,
) -> Option<TensorData> {
    let values: Vec<Scalar> = (0..count_of(shape)?).map(&mut element).collect();
    TensorData::from_scalars(dtype, shape, values).ok()
}

fn random_tensor(
    shape: &[i64],
    dtype: DType,
    numbers: Numbers,
    random: &mut Random,
) -> Option<TensorData> {
    const HARD: [f64; 8] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, 1.5, -2.5, 1e30];
    const NEAR: f64 = 1.0 / 1024.0;
    let is_float = dtype.is_float();
    if dtype.is_bool() {
        return elements(shape, dtype, |_| Scalar::Int(random.below(2) as i64));
    }
    match numbers {
        Numbers::Small => {
            let least = if is_float || dtype.is_signed() { -3 } else { 0 };
            elements(shape, dtype, |_| Scalar::Int(least + random.below(7) as i64))
        }
        Numbers::Hard if is_float => {
            elements(shape, dtype, |_| Scalar::Float(HARD[random.below(8)]))
        }
        Numbers::Hard => {
            let (least, greatest) = match dtype.is_signed() {
                true => (i64::MIN >> (64 - dtype.bits()), i64::MAX >> (64 - dtype.bits())),
                false => (0, -1),
            };
            let hard = [least, greatest, greatest - 1, 0x7f, -1, 1, 2, 12];
            elements(shape, dtype, |_| Scalar::Int(hard[random.below(8)]))
        }
        Numbers::Near if is_float => elements(shape, dtype, |_| {
            let number = (random.unit() * 2.0 - 1.0) * NEAR;
            Scalar::Float(if random.one_in(4) { 0.0 } else { number })
        }),
        Numbers::Far if is_float => {
            let magnitudes = match Magnitudes::REACHES.get(random.below(4)) {
                Some(reach) => Magnitudes::up_to(*reach, dtype, random),
                None => Magnitudes::alike(dtype, random),
            };
            elements(shape, dtype, |_| Scalar::Float(magnitudes.number(random)))
        }
        _ if is_float => elements(shape, dtype, |_| Scalar::Float(random.unit() * 8.0 - 4.0)),
        _ => random.tensor(shape, dtype).ok(),
    }
}
