//! What an operation is in another layout, by its [`LayoutRule`].

use ir_core::{AttrDict, AttrValue, FuncMut, OpId, Symbol, TensorType, ValueId};
use relay::language::Tuple;
use relay_operators::LayoutRule;
use relay_operators::attributes::Integers;
use relay_operators::broadcast::Add;
use relay_operators::layout::Layout;

use super::{Change, Need, Plan};
use crate::emit::{attribute, with_attribute};

/// The values that `op` works on: its operands, or the fields of the tuple that it joins.
pub(super) fn inputs(f: &FuncMut<'_>, op: OpId, rule: LayoutRule) -> Vec<ValueId> {
    if rule == LayoutRule::Joined {
        let tuple = f.body.defining_op(f.body.operand(op, 0));
        if let Some(tuple) = tuple.filter(|tuple| f.body.is::<Tuple>(*tuple)) {
            return f.body.operands(tuple).collect();
        }
    }
    f.body.operands(op).collect()
}

/// How `op` is computed on its first input, or on all that have its rank, in the layout that
/// `change` gives. `None` where it cannot be.
pub fn carry(f: &FuncMut<'_>, op: OpId, rule: LayoutRule, change: &Change) -> Option<Plan> {
    let carried = Carried { f, op, change };
    let plan = match rule {
        LayoutRule::Pointwise => carried.pointwise(),
        LayoutRule::Bias => carried.bias(),
        LayoutRule::Along => carried.along(),
        LayoutRule::Named { blocks } => carried.named(blocks),
        LayoutRule::Joined => carried.joined(),
        LayoutRule::Padded => carried.padded(),
        LayoutRule::Sliced => carried.sliced(),
        LayoutRule::Reduced => carried.reduced(),
        // Whether a kernel can take a layout too is for the passes to say.
        LayoutRule::Convolution => None,
    }?;
    let fits = |(value, need): &(ValueId, Need)| match need {
        Need::As(change) => {
            let tensor = f.body.ty(*value).as_tensor();
            tensor.is_some_and(|tensor| change.shape(&tensor.shape).is_some())
        }
        _ => true,
    };
    plan.inputs.iter().all(fits).then_some(plan)
}

struct Carried<'c, 'f> {
    f: &'c FuncMut<'f>,
    op: OpId,
    change: &'c Change,
}

impl Carried<'_, '_> {
    fn name(&self) -> Symbol {
        self.f.body.op_name(self.op)
    }

    fn attribute<T: AttrValue>(&self, key: &str) -> Option<T> {
        attribute(self.f, self.op, key)
    }

    fn with<T: AttrValue>(&self, attrs: AttrDict, key: &str, value: &T) -> AttrDict {
        with_attribute(self.f.registry, self.name(), attrs, key, value)
    }

    fn operand(&self, index: usize) -> Option<&TensorType> {
        self.f.body.ty(self.f.body.operand(self.op, index)).as_tensor()
    }

    /// The plan whose first operand changes and all others stay.
    fn on_first(&self) -> Plan {
        let mut inputs: Vec<(ValueId, Need)> =
            self.f.body.operands(self.op).map(|value| (value, Need::Same)).collect();
        if let Some((_, need)) = inputs.first_mut() {
            *need = Need::As(self.change.clone());
        }
        Plan {
            name: self.name(),
            attrs: self.f.body.attrs(self.op),
            inputs,
            joined: false,
            result: self.change.clone(),
        }
    }

    /// The letter of an axis as written, which may count from the back.
    fn letter(&self, axis: i64) -> Option<char> {
        let rank = self.change.from.rank() as i64;
        let index = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
        self.change.from.axes().get(index).map(|axis| axis.name)
    }

    fn is_blocked(&self, name: char) -> bool {
        self.change.to.axes().iter().any(|axis| axis.name == name && axis.block.is_some())
    }

    /// Where the axis `name`, blocks aside, is now.
    fn place(&self, name: char) -> Option<i64> {
        self.change.to.position(name).map(|index| index as i64)
    }

    fn pointwise(&self) -> Option<Plan> {
        let mut plan = self.on_first();
        let rank = self.f.body.ty(self.f.body.result(self.op, 0)).as_tensor()?.rank();
        if rank != self.change.from.rank() {
            return None;
        }
        for (value, need) in &mut plan.inputs {
            *need = self.broadcast(self.f.body.ty(*value).as_tensor()?)?;
        }
        plan.inputs.iter().any(|(_, need)| matches!(need, Need::As(_))).then_some(plan)
    }

    /// What an operand of a pointwise operator has to be.
    fn broadcast(&self, tensor: &TensorType) -> Option<Need> {
        let axes = self.change.from.axes();
        let missing = axes.len().checked_sub(tensor.rank())?;
        let one_in_blocks = axes[missing..]
            .iter()
            .zip(&tensor.shape)
            .any(|(axis, dim)| self.is_blocked(axis.name) && dim.known() == Some(1));
        match missing == 0 && !one_in_blocks {
            true => Some(Need::As(self.change.clone())),
            false => self.spread(tensor, axes[missing..].iter().map(|axis| axis.name).collect()),
        }
    }

    /// What a tensor whose axes are the letters of `axes` has to be to broadcast.
    fn spread(&self, tensor: &TensorType, axes: String) -> Option<Need> {
        let fits = axes.chars().zip(tensor.known_shape()?).all(|(name, extent)| {
            extent == 1 || extent > 0 && extent % self.change.to.block(name) == 0
        });
        fits.then(|| Need::Spread(axes, self.change.to.clone()))
    }

    fn bias(&self) -> Option<Plan> {
        let mut plan = self.on_first();
        let letter = self.letter(self.attribute("axis")?)?;
        if self.is_blocked(letter) {
            // The sum with a vector in blocks is one of tensors.
            plan.name = Symbol::new(Add::NAME);
            plan.attrs = AttrDict::empty();
            plan.inputs[1].1 = self.spread(self.operand(1)?, letter.to_string())?;
        } else {
            plan.attrs = self.with(plan.attrs, "axis", &self.place(letter)?);
        }
        Some(plan)
    }

    fn along(&self) -> Option<Plan> {
        let mut plan = self.on_first();
        let letter = self.letter(self.attribute("axis")?)?;
        plan.attrs = self.with(plan.attrs, "axis", &self.place(letter)?);
        (!self.is_blocked(letter)).then_some(plan)
    }

    fn named(&self, blocks: bool) -> Option<Plan> {
        let mut plan = self.on_first();
        let layout = Layout::parse(&self.attribute::<String>("layout")?).ok()?;
        if layout != self.change.from || !(blocks || self.change.to.is_plain()) {
            return None;
        }
        if let Some(out) = self.attribute::<String>("out_layout") {
            if !out.is_empty() && Layout::parse(&out).ok()? != layout {
                return None;
            }
            plan.attrs = self.with(plan.attrs, "out_layout", &String::new());
        }
        plan.attrs = self.with(plan.attrs, "layout", &self.change.to.to_string());
        for (_, need) in &mut plan.inputs {
            *need = Need::As(self.change.clone());
        }
        Some(plan)
    }

    fn joined(&self) -> Option<Plan> {
        let mut plan = self.on_first();
        let fields = inputs(self.f, self.op, LayoutRule::Joined);
        let letter = self.letter(self.attribute("axis")?)?;
        plan.attrs = self.with(plan.attrs, "axis", &self.place(letter)?);
        plan.inputs =
            fields.into_iter().map(|value| (value, Need::As(self.change.clone()))).collect();
        plan.joined = true;
        Some(plan)
    }

    fn padded(&self) -> Option<Plan> {
        let mut plan = self.on_first();
        let written: Vec<Vec<i64>> = self.attribute("pad_width")?;
        let mut widths = vec![];
        for axis in self.change.to.axes() {
            let width = written.get(self.change.from.position(axis.name)?)?;
            let none = width.iter().all(|n| *n == 0);
            if self.is_blocked(axis.name) && !none {
                return None;
            }
            widths.push(width.clone());
        }
        plan.attrs = self.with(plan.attrs, "pad_width", &widths);
        Some(plan)
    }

    fn sliced(&self) -> Option<Plan> {
        let mut plan = self.on_first();
        let begin: Integers = self.attribute("begin")?;
        let axes: Option<Integers> = self.attribute("axes")?;
        let axes = axes.map_or_else(|| (0..begin.0.len() as i64).collect(), |axes| axes.0);
        let letters: Vec<char> =
            axes.iter().map(|axis| self.letter(*axis)).collect::<Option<_>>()?;
        if letters.iter().any(|name| self.is_blocked(*name)) {
            return None;
        }
        let places: Vec<i64> =
            letters.iter().map(|name| self.place(*name)).collect::<Option<_>>()?;
        plan.attrs = self.with(plan.attrs, "axes", &Some(Integers(places)));
        Some(plan)
    }

    fn reduced(&self) -> Option<Plan> {
        let mut plan = self.on_first();
        let axes: Option<Integers> = self.attribute("axis")?;
        let axes = axes.filter(|axes| !axes.0.is_empty())?.0;
        let listed: String = axes.iter().map(|axis| self.letter(*axis)).collect::<Option<_>>()?;
        let exclude: bool = self.attribute("exclude")?;
        let keepdims: bool = self.attribute("keepdims")?;
        let goes = |name: char| listed.contains(name) != exclude;
        let places: Vec<i64> = (0..)
            .zip(self.change.to.axes())
            .filter_map(|(place, axis)| goes(axis.name).then_some(place))
            .collect();
        let blocks = self.change.to.axes().iter().any(|x| x.block.is_some() && goes(x.name));
        if places.is_empty() || keepdims && blocks {
            return None;
        }
        plan.attrs = self.with(plan.attrs, "axis", &Some(Integers(places)));
        plan.attrs = self.with(plan.attrs, "exclude", &false);
        if !keepdims {
            plan.result = Change {
                from: self.change.from.keep(|name| !goes(name)),
                to: self.change.to.keep(|name| !goes(name)),
            };
        }
        Some(plan)
    }
}
