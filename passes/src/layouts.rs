//! Carrying layouts through a function: what the layout passes share.
//!
//! A pass says which operations ask for a layout, the anchors. The walk back collects the layouts
//! that the users of every value would like; the walk forward rewrites the anchors, and every
//! operation with a [`LayoutRule`] in the layout that moves the fewest elements. A value is
//! brought to another layout where it is first needed in it, once. What a `layout_transform` of
//! the program makes is there in both layouts.

mod carry;

use ir_core::{AttrDict, Body, Diagnostics, Dim, FuncMut, OpId, Symbol, TensorType, Type, ValueId};
use relay::language::{Tuple, fn_attributes, is_primitive};
use relay_operators::LayoutRule;
use relay_operators::layout::{Layout, LayoutTransform};
use relay_operators::shape::Reshape;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::emit::{self, Emit};
use crate::worklist::rewrite;

pub use carry::carry;

/// A tensor in another layout than the function was written for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Change {
    /// The layout as written, without blocks.
    pub from: Layout,
    /// The layout instead.
    pub to: Layout,
}

impl Change {
    /// The shape in the new layout of a tensor that has `shape` in the old one; `None` where it has
    /// another rank, or a block does not divide its axis for sure.
    pub fn shape(&self, shape: &[Dim]) -> Option<Vec<Dim>> {
        let order = self.from.names();
        let extents = self.from.logical(&order, shape).ok()?;
        let mut axes = order.chars().zip(&extents);
        if axes.any(|(name, extent)| self.to.block(name) > 1 && extent.known().is_none()) {
            return None;
        }
        self.to.physical(&order, &extents).ok()
    }

    fn inverse(&self) -> Change {
        Change { from: self.to.clone(), to: self.from.clone() }
    }
}

/// How an operation is made again in other layouts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The operation.
    pub name: Symbol,
    /// Its attributes.
    pub attrs: AttrDict,
    /// Its operands and what becomes of them.
    pub inputs: Vec<(ValueId, Need)>,
    /// Whether the inputs are fields of a tuple that is the only operand.
    pub joined: bool,
    /// The layout of its result.
    pub result: Change,
}

/// What an operand has to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Need {
    /// As written.
    Same,
    /// In another layout.
    As(Change),
    /// Reshaped so that it broadcasts to a tensor in this layout; its axes are these letters.
    Spread(String, Layout),
}

/// What is known of the layout of the first operand of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Given<'c> {
    /// Nothing yet: its users are asked first.
    Unknown,
    /// It is there as written, and in no other layout.
    AsWritten,
    /// It is there in another layout.
    In(&'c Change),
}

/// How an operation that asks for a layout is rewritten: `None` for all others. The layout that
/// its first operand has by now is known on the second asking.
pub type Anchor<'p> = dyn Fn(&FuncMut<'_>, OpId, Given<'_>) -> Option<Plan> + 'p;

/// Rewrites the anchors of the function and carries their layouts to the operations between them.
/// Kernels stay as they are. Returns how many operations were rewritten.
pub fn propagate(
    f: &mut FuncMut<'_>,
    pass: &'static str,
    anchor: &Anchor<'_>,
) -> Result<u64, Diagnostics> {
    let ops = open_operations(f);
    let mut rewritten = 0;
    let asks = |op: &OpId| {
        f.view::<LayoutTransform>(*op).is_some() || anchor(f, *op, Given::Unknown).is_some()
    };
    if ops.iter().any(asks) {
        let mut walk = Propagation {
            f,
            pass,
            anchor,
            wishes: FxHashMap::default(),
            changed: FxHashMap::default(),
            made: FxHashMap::default(),
            plain: FxHashSet::default(),
            rewritten: vec![],
        };
        for op in ops.iter().rev() {
            walk.collect_wishes(*op);
        }
        for op in &ops {
            walk.visit(*op)?;
        }
        rewritten = walk.rewritten.len() as u64;
        walk.finish()?;
    }
    rewrite(f, &mut |f, op| cancel(f, op, pass))?;
    Ok(rewritten)
}

/// The operations of the function that are not inside a kernel, in program order.
pub fn open_operations(f: &FuncMut<'_>) -> Vec<OpId> {
    let mut ops = vec![];
    if is_primitive(f.signature.attrs) {
        return ops;
    }
    let mut pending = vec![f.body.first_op(f.body.entry())];
    while let Some(next) = pending.pop() {
        let Some(op) = next else { continue };
        ops.push(op);
        pending.push(f.body.next_op(op));
        if f.body.has_regions(op) && !is_primitive(fn_attributes(f.body, op)) {
            let blocks = f.body.regions(op).iter().rev().map(|region| f.body.block_of(*region));
            pending.extend(blocks.map(|block| f.body.first_op(block)));
        }
    }
    ops
}

/// A layout that users of a value would like it to have; none is the layout as written.
struct Wish {
    layout: Option<Change>,
    /// Whether some user takes no other layout.
    needed: bool,
    /// The number of users.
    users: u32,
}

struct Propagation<'p, 'f, 'a> {
    f: &'f mut FuncMut<'a>,
    pass: &'static str,
    anchor: &'p Anchor<'p>,
    wishes: FxHashMap<ValueId, SmallVec<[Wish; 2]>>,
    /// The results of rewritten operations: the layout, and the value in it.
    changed: FxHashMap<ValueId, (Change, ValueId)>,
    /// Values brought to a layout.
    made: FxHashMap<ValueId, Vec<(Change, ValueId)>>,
    /// Values of `changed` that something takes as written.
    plain: FxHashSet<ValueId>,
    rewritten: Vec<OpId>,
}

impl Propagation<'_, '_, '_> {
    fn wish(&mut self, value: ValueId, layout: Option<Change>, needed: bool) {
        let wishes = self.wishes.entry(value).or_default();
        match wishes.iter_mut().find(|wish| wish.layout == layout) {
            Some(wish) => {
                wish.users += 1;
                wish.needed |= needed;
            }
            None => wishes.push(Wish { layout, needed, users: 1 }),
        }
    }

    /// Adds what `op` wishes of its operands; its users have been asked.
    fn collect_wishes(&mut self, op: OpId) {
        if let Some(plan) = (self.anchor)(self.f, op, Given::Unknown) {
            for (value, need) in plan.inputs {
                self.wish(value, layout_of(need), true);
            }
            return;
        }
        if let Some((transform, change)) = self.written_transform(op) {
            let layout = change.from.is_plain().then_some(change);
            self.wish(transform.data, layout, false);
            return;
        }
        let Some(rule) = self.rule(op) else {
            if !only_joined(self.f, op) {
                let operands: SmallVec<[ValueId; 4]> = self.f.body.operands(op).collect();
                operands.into_iter().for_each(|value| self.wish(value, None, true));
            }
            return;
        };
        let result = self.f.body.result(op, 0);
        let wanted: SmallVec<[Option<Change>; 2]> =
            self.wishes_of(result).iter().map(|wish| wish.layout.clone()).collect();
        for layout in wanted {
            let plan = layout.and_then(|change| {
                carry(self.f, op, rule, &change).filter(|plan| plan.result == change)
            });
            match plan {
                Some(plan) => {
                    for (value, need) in plan.inputs {
                        if let Need::As(change) = need {
                            self.wish(value, Some(change), false);
                        }
                    }
                }
                // A small result is brought to the layout rather than what it is made of.
                None => {
                    for value in carry::inputs(self.f, op, rule) {
                        if elements(self.f.body, value) <= elements(self.f.body, result) {
                            self.wish(value, None, false);
                        }
                    }
                }
            }
        }
    }

    /// The rule of an operation with one tensor as result.
    fn rule(&self, op: OpId) -> Option<LayoutRule> {
        let rule = self.f.registry.hook::<LayoutRule>(self.f.body.op_name(op))?;
        let one = self.f.body.result_count(op) == 1;
        let tensor = one && self.f.body.ty(self.f.body.result(op, 0)).as_tensor().is_some();
        tensor.then_some(*rule)
    }

    /// A `layout_transform` of the program, and what it does.
    fn written_transform(&self, op: OpId) -> Option<(LayoutTransform, Change)> {
        let transform: LayoutTransform = self.f.view(op)?;
        let from = Layout::parse(&transform.src_layout).ok()?;
        let to = Layout::parse(&transform.dst_layout).ok()?;
        Some((transform, Change { from, to }))
    }

    fn wishes_of(&self, value: ValueId) -> &[Wish] {
        self.wishes.get(&value).map_or(&[], |wishes| wishes)
    }

    /// Rewrites `op` where it is an anchor or better off in another layout.
    fn visit(&mut self, op: OpId) -> Result<(), Diagnostics> {
        let first = (self.f.body.operand_count(op) > 0).then(|| self.f.body.operand(op, 0));
        let changed = first.and_then(|value| self.changed.get(&value));
        let data = changed.map_or(Given::AsWritten, |(change, _)| Given::In(change));
        let rule = self.rule(op);
        if let Some((transform, change)) = self.written_transform(op) {
            // Its result is there in both layouts.
            let result = self.f.body.result(op, 0);
            if change.to.is_plain() {
                self.changed.insert(result, (change.inverse(), transform.data));
            }
            self.plain.extend([result, transform.data]);
            return Ok(());
        }
        let plan = (self.anchor)(self.f, op, data).or_else(|| self.choose(op, rule?));
        match (plan, rule) {
            (Some(plan), _) => self.rewrite(op, plan)?,
            (None, Some(rule)) => self.plain.extend(carry::inputs(self.f, op, rule)),
            (None, None) if only_joined(self.f, op) => {}
            (None, None) => self.plain.extend(self.f.body.operands(op)),
        }
        Ok(())
    }

    /// The layout in which the fewest elements move around `op`; `None` for the one as written.
    fn choose(&self, op: OpId, rule: LayoutRule) -> Option<Plan> {
        let inputs = carry::inputs(self.f, op, rule);
        let wishes = self.wishes_of(self.f.body.result(op, 0));
        let offered: SmallVec<[&Change; 2]> =
            inputs.iter().filter_map(|value| Some(&self.changed.get(value)?.0)).collect();
        let wanted: SmallVec<[&Change; 2]> =
            wishes.iter().filter_map(|wish| wish.layout.as_ref()).collect();
        if offered.is_empty() && wanted.is_empty() {
            return None;
        }
        let mut best: Option<(f64, Option<Plan>)> = None;
        let mut consider = |plan: Option<Plan>| {
            let cost = self.cost(op, &inputs, plan.as_ref());
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, plan));
            }
        };
        // On a tie the layout that is there stays, and a layout that is only wanted comes late.
        let plan = |change: &Change| carry(self.f, op, rule, change);
        offered.into_iter().filter_map(plan).for_each(|plan| consider(Some(plan)));
        consider(None);
        wanted.into_iter().filter_map(plan).for_each(|plan| consider(Some(plan)));
        best.and_then(|(_, plan)| plan)
    }

    /// How many elements move when `op` follows `plan`, or stays.
    fn cost(&self, op: OpId, inputs: &[ValueId], plan: Option<&Plan>) -> f64 {
        let operands: f64 = match plan {
            Some(plan) => plan
                .inputs
                .iter()
                .map(|(value, need)| match need {
                    Need::As(change) => self.cost_of(*value, Some(change)),
                    Need::Same => self.cost_of(*value, None),
                    Need::Spread(..) => 0.0,
                })
                .sum(),
            None => inputs.iter().map(|value| self.cost_of(*value, None)).sum(),
        };
        let result = self.f.body.result(op, 0);
        let layout = plan.map(|plan| &plan.result);
        let others = self.wishes_of(result).iter().filter(|wish| wish.layout.as_ref() != layout);
        operands + others.count() as f64 * elements(self.f.body, result)
    }

    /// How many elements move to have `value` in `layout`, its share where others want it too.
    fn cost_of(&self, value: ValueId, layout: Option<&Change>) -> f64 {
        let changed = self.changed.get(&value).map(|(change, _)| change);
        let made = self.made.get(&value).map_or(&[][..], |made| made);
        let there = match layout {
            None => changed.is_none() || self.plain.contains(&value),
            Some(layout) => {
                changed == Some(layout)
                    || made.iter().any(|(made, _)| made == layout)
                    || self.f.registry.constant(self.f.body, value).is_some()
            }
        };
        match self.wishes_of(value).iter().find(|wish| wish.layout.as_ref() == layout) {
            _ if there => 0.0,
            Some(wish) if wish.needed => 0.0,
            Some(wish) => elements(self.f.body, value) / f64::from(wish.users),
            None => elements(self.f.body, value),
        }
    }

    /// Makes `op` again by `plan`. The operation itself stays until the end, for those who use it
    /// as written.
    fn rewrite(&mut self, op: OpId, plan: Plan) -> Result<(), Diagnostics> {
        let result = self.f.body.result(op, 0);
        let Some(expected) = self.result_type(result, &plan.result) else { return Ok(()) };
        let mut operands = vec![];
        for (value, need) in plan.inputs {
            operands.push(match need {
                Need::Same => {
                    self.plain.insert(value);
                    value
                }
                Need::As(change) => self.in_layout(op, value, &change)?,
                Need::Spread(axes, layout) => self.spread(op, value, &axes, &layout)?,
            });
        }
        let mut emit = Emit::before(self.f, op, self.pass);
        if plan.joined {
            operands = vec![emit.tuple(operands)];
        }
        let value = emit.named(plan.name, &operands, plan.attrs)?;
        if self.f.body.ty(value) != expected {
            emit::erase_unused(self.f, self.f.body.defining_op(value));
            self.plain.extend(self.f.body.operands(op));
            return Ok(());
        }
        self.changed.insert(result, (plan.result, value));
        self.rewritten.push(op);
        Ok(())
    }

    /// The type of `value` after `change`; `None` where it could not be changed back.
    fn result_type(&self, value: ValueId, change: &Change) -> Option<Type> {
        let tensor = self.f.body.ty(value).as_tensor()?;
        let shape = change.shape(&tensor.shape)?;
        let back = change.inverse().shape(&shape)?;
        let ty = Type::tensor(shape, tensor.dtype);
        (back[..] == tensor.shape[..]).then_some(ty)
    }

    /// `value` in another layout, for `op`.
    fn in_layout(
        &mut self,
        op: OpId,
        value: ValueId,
        change: &Change,
    ) -> Result<ValueId, Diagnostics> {
        let changed = self.changed.get(&value).filter(|(own, _)| own.from == change.from);
        if let Some((_, value)) = changed.filter(|(own, _)| own == change) {
            return Ok(*value);
        }
        if change.from == change.to {
            self.plain.insert(value);
            return Ok(value);
        }
        let made = self.made.get(&value).into_iter().flatten();
        if let Some((_, value)) = made
            .filter(|(made, _)| made == change)
            .find(|(_, value)| is_visible(self.f.body, *value, op))
        {
            return Ok(*value);
        }
        let (data, source) = match changed {
            Some((own, value)) => (*value, &own.to),
            None => {
                self.plain.insert(value);
                (value, &change.from)
            }
        };
        let transform = LayoutTransform {
            data,
            src_layout: source.to_string(),
            dst_layout: change.to.to_string(),
        };
        let made = Emit::before(self.f, op, self.pass).op(&transform)?;
        self.made.entry(value).or_default().push((change.clone(), made));
        Ok(made)
    }

    /// `value`, whose axes are the letters of `axes`, reshaped so that it broadcasts to a tensor
    /// in `layout`. Its extents are known and not 0.
    fn spread(
        &mut self,
        op: OpId,
        value: ValueId,
        axes: &str,
        layout: &Layout,
    ) -> Result<ValueId, Diagnostics> {
        self.plain.insert(value);
        let shape = self.f.body.ty(value).as_tensor().and_then(TensorType::known_shape);
        let Some(shape) = shape else { return Ok(value) };
        let mut shape = shape.to_vec();
        let long: Vec<(char, i64)> =
            axes.chars().zip(shape.iter().copied()).filter(|(_, extent)| *extent != 1).collect();
        if long.is_empty() {
            return Ok(value);
        }
        let extent_of = |axis: char| long.iter().find(|(name, _)| *name == axis).map(|(_, n)| *n);
        let source = Layout::plain(&long.iter().map(|(name, _)| *name).collect::<String>());
        let target = layout.keep(|name| extent_of(name).is_some());
        // Where the digits stay in order, a reshape splits them.
        let in_order =
            target.axes().is_sorted_by_key(|x| (source.position(x.name), x.block.is_some()));
        let mut emit = Emit::before(self.f, op, self.pass);
        let mut value = value;
        let mut reshaped = |emit: &mut Emit<'_, '_>, data, to: Vec<i64>| {
            if to == shape {
                return Ok(data);
            }
            shape.clone_from(&to);
            emit.op(&Reshape { data, newshape: to, allowzero: false })
        };
        if !in_order {
            value = reshaped(&mut emit, value, long.iter().map(|(_, extent)| *extent).collect())?;
            value = emit.op(&LayoutTransform {
                data: value,
                src_layout: source.to_string(),
                dst_layout: target.to_string(),
            })?;
        }
        let spread = layout.axes().iter().map(|axis| match (extent_of(axis.name), axis.block) {
            (None, _) => 1,
            (Some(_), Some(block)) => block,
            (Some(extent), None) => extent / layout.block(axis.name),
        });
        let spread = spread.skip_while(|extent| *extent == 1).collect();
        reshaped(&mut emit, value, spread)
    }

    /// Erases what was rewritten; what someone still takes as written is changed back.
    fn finish(self) -> Result<(), Diagnostics> {
        let f = self.f;
        for op in self.rewritten.into_iter().rev() {
            // Erased with its last user.
            if !f.body.is_live(op) {
                continue;
            }
            let result = f.body.result(op, 0);
            let Some((change, value)) = self.changed.get(&result) else { continue };
            let back = if f.body.is_unused(result) || change.from == change.to {
                *value
            } else {
                Emit::before(f, op, self.pass).op(&LayoutTransform {
                    data: *value,
                    src_layout: change.to.to_string(),
                    dst_layout: change.from.to_string(),
                })?
            };
            emit::replace(f, op, back);
        }
        let made = self.made.into_values().flatten().filter_map(|(_, v)| f.body.defining_op(v));
        let made: Vec<OpId> = made.collect();
        emit::erase_unused(f, made);
        Ok(())
    }
}

fn layout_of(need: Need) -> Option<Change> {
    match need {
        Need::As(change) => Some(change),
        Need::Same | Need::Spread(..) => None,
    }
}

/// Whether `op` is a tuple that is only joined: its users see to its fields.
fn only_joined(f: &FuncMut<'_>, op: OpId) -> bool {
    let joins =
        |user| f.registry.hook::<LayoutRule>(f.body.op_name(user)) == Some(&LayoutRule::Joined);
    f.body.is::<Tuple>(op) && f.body.uses(f.body.result(op, 0)).all(|(user, _)| joins(user))
}

/// The number of elements of `value`, unknown extents left out.
fn elements(body: &Body, value: ValueId) -> f64 {
    let Some(tensor) = body.ty(value).as_tensor() else { return 0.0 };
    tensor.shape.iter().filter_map(|dim| dim.known()).map(|extent| extent as f64).product()
}

/// Whether `op` may use `value`.
fn is_visible(body: &Body, value: ValueId, op: OpId) -> bool {
    let at = body.def_block(value).and_then(|block| body.ancestor_in(op, block));
    at.is_some_and(|at| body.defining_op(value).is_none_or(|def| body.is_before(def, at)))
}

/// Makes one of two `layout_transform`s in a row, or none where the second undoes the first.
fn cancel(f: &mut FuncMut<'_>, op: OpId, pass: &str) -> Result<Option<ValueId>, Diagnostics> {
    let Some(second) = f.view::<LayoutTransform>(op) else { return Ok(None) };
    let Some(first) = f.def::<LayoutTransform>(second.data) else { return Ok(None) };
    if first.dst_layout != second.src_layout {
        return Ok(None);
    }
    if first.src_layout == second.dst_layout {
        return Ok(Some(first.data));
    }
    if !f.body.has_one_use(second.data) {
        return Ok(None);
    }
    let both = LayoutTransform { src_layout: first.src_layout, data: first.data, ..second };
    Emit::before(f, op, pass).op(&both).map(Some)
}
