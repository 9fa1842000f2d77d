//! Remembering what was done to a schedule.
//!
//! Every primitive of [`Schedule`] writes itself down as it succeeds. What is composed of others,
//! such as [`tile`](Schedule::tile), is written down as those.

use ir_core::{
    AttrDict, AttrValue, InsertPoint, Item, NameHint, OpFields, OpParts, Symbol, Type, ValueId,
};

use super::ops::{FUNCTION, FindStage, Handle, SCHEDULE};
use super::state::{Record, Refused, Schedule};
use crate::compute::Yield;

/// An operation has at most this many results.
const MAX_RESULTS: usize = 255;

impl Schedule {
    /// Starts the record: what there is now is known by name.
    pub(super) fn start_record(&mut self) {
        let stages = self.stages().map(|stage| (stage, self.axes(stage).to_vec()));
        self.record = Record { undeclared: stages.collect(), ..Record::default() };
    }

    /// Writes down a primitive that was applied and what it gave.
    pub(super) fn record<T: OpFields<Handle>>(&mut self, primitive: &T, results: &[Handle]) {
        let operands = primitive.operands();
        for operand in &operands {
            let stage = match *operand {
                Handle::Stage(stage) => stage,
                Handle::Axis(axis) => self.owner(axis),
            };
            let Some(axes) = self.record.undeclared.remove(&stage) else { continue };
            let find = FindStage { name: self.stages[stage.0].name.clone() };
            let attrs = <FindStage as OpFields<Handle>>::attrs(&find);
            let axes = axes.into_iter().map(Handle::Axis);
            let results: Vec<Handle> = std::iter::once(Handle::Stage(stage)).chain(axes).collect();
            self.write(<FindStage as OpFields<Handle>>::NAME, &[], attrs, &results);
        }
        self.write(T::NAME, &operands, primitive.attrs(), results);
    }

    fn write(&mut self, name: &str, operands: &[Handle], attrs: AttrDict, results: &[Handle]) {
        if results.len() > MAX_RESULTS {
            self.record.omitted = self.stages().last();
        }
        let record = &mut self.record;
        let values = operands.iter().map(|operand| record.values.get(operand).copied());
        let (Some(operands), None) = (values.collect::<Option<Vec<_>>>(), record.omitted) else {
            return;
        };
        let types: Vec<Type> = results.iter().map(|result| result.kind().ty()).collect();
        let parts = OpParts::new(name, &operands, &types).attrs(attrs);
        let op = record.body.insert_op(InsertPoint::End(record.body.entry()), parts);
        for (index, &result) in results.iter().enumerate() {
            let value = record.body.result(op, index);
            let name = match result {
                Handle::Stage(stage) => &self.stages[stage.0].name,
                Handle::Axis(axis) => &self.axes[axis.0].name,
            };
            let hint = NameHint { name: Some(Symbol::new(name)), ..NameHint::default() };
            record.body.set_name_hint(value, hint);
            record.values.insert(result, value);
        }
    }

    /// What was done to this schedule of `function`, as an item of kind [`SCHEDULE`] that
    /// [`replay`](super::replay::replay) does again. Refused where a stage has more axes than an
    /// operation has results.
    pub fn to_item(&self, function: Symbol) -> Result<Item, Refused> {
        if let Some(stage) = self.record.omitted {
            return Err(format!("`{}` has too many axes", self.stage_name(stage)));
        }
        let mut body = self.record.body.clone();
        let end = OpParts::new(Yield::<ValueId>::NAME, &[], &[]);
        body.insert_op(InsertPoint::End(body.entry()), end);
        let mut item = Item::new(SCHEDULE, Type::unit(), Some(body));
        item.signature.attrs = AttrDict::new([(Symbol::new(FUNCTION), function.to_attr())]);
        Ok(item)
    }
}
