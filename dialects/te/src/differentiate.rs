//! Products of vectors with the Jacobian of a compute function.
//!
//! [`vjp`] makes, of a function from tensors to tensors, the one that takes the *change* of each result, the
//! derivative of some sum by its elements, and then what the function takes, and gives the changes of
//! parameters. It is made of stages again, so that it is scheduled, computed and differentiated as any other.
//!
//! Each load of a stage contributes to the change of what it reads: at each point of the stage, the change of
//! its element times the derivative of the expression by the load (`point.rs`, `rules.rs`). Contributions are
//! collected in one of three forms:
//!
//! - over the elements that are read, where the indices of the load have an inverse (`solve.rs`): a map or a
//!   sum over the points that read an element. Broadcasts become sums, and windows, strides, dilations,
//!   paddings, reshapes and transposes what undoes them;
//! - over the points first, and then over the elements, where that is less work, as of windows that leave most
//!   elements out, or where nothing may be computed at points that there are not;
//! - by a scatter, where indices are computed of data.
//!
//! **No derivative is computed twice as often as the stage has points**, so that the work is a few times that
//! of the function.

mod contributions;
mod point;
mod rules;
mod scans;
mod solve;
mod sources;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use ir_core::{Body, Item, OpId, SmallVec, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::compute::{ComputeBuilder, FUNC, Load, LoadIf, Return, Stage, Tensor, tensor_of};
use crate::index::{Index, Indices, Var};
use point::carries;
use rules::wide;
use sources::{Source, sources};

/// A product of a vector with a Jacobian.
#[derive(Clone, Debug)]
pub struct Vjp {
    /// The compute function. It takes a tensor for each result of the function that was differentiated, of its
    /// type, and then what that takes. It gives a tensor for each wanted parameter, of its type.
    pub item: Item,
    /// Whether no result changes with what is wanted, so that all that it gives is 0.
    pub is_zero: bool,
}

/// The product of the changes of the results of the compute function `function` with its Jacobian by the
/// parameters `wanted`.
///
/// Where there are several derivatives, one is chosen: reductions to the greatest and the least change with
/// the first of equal elements, equal operands of `max` and `min` share the change, and a constant takes no
/// part of it. What changes in steps, such as `floor` and conversions to integers, does not change.
///
/// # Errors
/// Where a stage is of a form that is not differentiated: a reduction or scatter with a combination of its own, axes that end at counts, floats of eight bits. The message starts in lower case and names it.
///
/// ```
/// use ir_core::{DType, TensorData};
/// use te::compute::ComputeBuilder;
///
/// let mut f = ComputeBuilder::new();
/// let x = f.input("x", &[3], DType::FLOAT32);
/// let square = f.compute("square", &[3], |e, i| {
///     let x = e.load(&x, i);
///     e.mul(x, x)
/// });
/// let vjp = te::differentiate::vjp(&f.finish(&[square])?, &[0])?;
/// let floats = |numbers: &[f64]| TensorData::from_f64(DType::FLOAT32, &[3], numbers).expect("small");
/// let arguments = [floats(&[1.0, 1.0, 10.0]), floats(&[1.0, 2.0, 3.0])];
/// let body = vjp.item.body.expect("a body");
/// let changes = te::interpreter::run_compute(&body, &arguments).expect("a value");
/// assert_eq!(changes, [floats(&[2.0, 4.0, 60.0])]);
/// # Ok::<(), String>(())
/// ```
pub fn vjp(function: &Item, wanted: &[usize]) -> Result<Vjp, String> {
    write(function, wanted, Forms::Any)
}

/// The forms in which contributions are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Forms {
    Any,
    /// Without the inverses of indices, as if they were computed of data.
    #[cfg_attr(not(test), allow(dead_code, reason = "what tests compare with"))]
    Scattered,
}

fn write(function: &Item, wanted: &[usize], forms: Forms) -> Result<Vjp, String> {
    let body = function.body.as_deref().filter(|_| function.signature.op == FUNC);
    let body = body.ok_or_else(|| format!("expected a `{FUNC}` with a body"))?;
    let end = body.last_op(body.entry()).and_then(|end| body.view::<Return>(end));
    let results = end.ok_or("expected a function that returns something")?.tensors;
    let params = body.block_args(body.entry());
    let wanted: Vec<ValueId> = wanted
        .iter()
        .map(|number| params.get(*number).copied().ok_or(format!("there is no parameter {number}")))
        .collect::<Result<_, _>>()?;
    let stages = Stage::all(body);
    let active = active(body, &stages, &wanted);
    for stage in stages.iter().filter(|stage| body.results(stage.op).any(|r| active.contains(&r))) {
        if !stage.counts.is_empty() {
            return Err(format!("`{}` ends at counts", stage.name));
        }
    }
    let small =
        active.iter().find(|tensor| tensor_of(body, **tensor).dtype.as_small_float().is_some());
    if let Some(small) = small {
        return Err(format!("{} is of floats that nothing is computed with", body.ty(*small)));
    }
    let mut builder = ComputeBuilder::new();
    let mut given = Vec::with_capacity(results.len());
    for (number, result) in results.iter().enumerate() {
        let tensor = tensor_of(body, *result);
        let shape = tensor.known_shape().ok_or("expected constant extents")?;
        given.push(builder.input(&format!("g{number}"), &shape, tensor.dtype));
    }
    let mut inputs = Vec::with_capacity(params.len());
    for (number, param) in params.iter().enumerate() {
        let tensor = tensor_of(body, *param);
        let shape = tensor.known_shape().ok_or("expected constant extents")?;
        let name = body.name_hint(*param).name.map(|name| name.to_string());
        let name = name.unwrap_or_else(|| format!("p{number}"));
        inputs.push(builder.input(&name, &shape, tensor.dtype));
    }
    let tensors = builder.append(body, &inputs);
    let mut writer = Writer { body, builder, tensors, active, forms, parts: FxHashMap::default() };
    for (result, change) in results.iter().zip(given) {
        writer.add(*result, Part::Tensor(change));
    }
    for stage in stages.iter().rev() {
        writer.stage(stage)?;
    }
    let changes: Vec<Option<Tensor>> = wanted.iter().map(|param| writer.change(*param)).collect();
    let is_zero = changes.iter().all(Option::is_none);
    let changes: Vec<Tensor> =
        wanted.iter().zip(changes).map(|(param, change)| writer.result(*param, change)).collect();
    let mut item = writer.builder.finish(&changes)?;
    prune(&mut item);
    Ok(Vjp { item, is_zero })
}

/// The tensors that change with the parameters `wanted`.
fn active(body: &Body, stages: &[Stage], wanted: &[ValueId]) -> FxHashSet<ValueId> {
    let has_floats = |tensor: &ValueId| tensor_of(body, *tensor).dtype.is_float();
    let mut active: FxHashSet<ValueId> = wanted.iter().copied().filter(has_floats).collect();
    for stage in stages {
        let reads = |op: OpId| read(body, op).is_some_and(|(tensor, _)| active.contains(&tensor));
        let blocks = stage.blocks(body);
        if blocks.iter().any(|(block, _)| body.block_ops(*block).any(reads)) {
            active.extend(body.results(stage.op).filter(has_floats));
        }
    }
    active
}

/// The tensor that `op` reads an element of, and the indices of that.
fn read(body: &Body, op: OpId) -> Option<(ValueId, Vec<ValueId>)> {
    if let Some(Load { tensor, indices }) = body.view(op) {
        return Some((tensor, indices));
    }
    body.view(op).map(|LoadIf { tensor, indices, .. }| (tensor, indices))
}

/// Removes the stages of `item` that nothing reads.
fn prune(item: &mut Item) {
    let Some(body) = item.body_mut() else { return };
    for stage in Stage::all(body).into_iter().rev() {
        if body.results(stage.op).all(|result| body.is_unused(result)) {
            body.erase(stage.op);
        }
    }
}

/// A part of the change of a tensor.
enum Part {
    /// For each element.
    Tensor(Tensor),
    /// What a load contributes where it reads, point by point.
    Scattered(Rc<Source>, OpId),
}

/// Writes the changes of tensors.
struct Writer<'a> {
    /// The function that is differentiated.
    body: &'a Body,
    builder: ComputeBuilder,
    /// What its tensors are in the function that is written.
    tensors: FxHashMap<ValueId, Tensor>,
    active: FxHashSet<ValueId>,
    forms: Forms,
    /// What is known of the changes of its tensors.
    parts: FxHashMap<ValueId, Vec<Part>>,
}

impl Writer<'_> {
    fn add(&mut self, tensor: ValueId, part: Part) {
        if self.active.contains(&tensor) {
            self.parts.entry(tensor).or_default().push(part);
        }
    }

    fn name(&self, tensor: ValueId) -> String {
        let name = self.body.name_hint(tensor).name;
        name.map_or("change".to_string(), |name| format!("{name}_change"))
    }

    /// The change of `tensor`, whose parts are all there, in the type that changes have.
    fn change(&mut self, tensor: ValueId) -> Option<Tensor> {
        let parts = self.parts.remove(&tensor)?;
        let (name, shape) = (self.name(tensor), self.tensors[&tensor].shape.clone());
        let dtype = wide(self.tensors[&tensor].dtype);
        let (mut tensors, mut scattered) = (vec![], vec![]);
        for part in parts {
            match part {
                Part::Tensor(tensor) => tensors.push(tensor),
                Part::Scattered(source, load) => scattered.push((source, load)),
            }
        }
        let mut change = match tensors.len() {
            0 => None,
            1 if tensors[0].dtype == dtype => tensors.pop(),
            _ => Some(self.builder.compute(&name, &shape, |e, i| {
                let elements = tensors.iter().map(|tensor| {
                    let element = e.load(tensor, i);
                    e.cast(element, dtype)
                });
                let elements: Vec<ValueId> = elements.collect();
                let sum = elements.into_iter().reduce(|a, b| e.add(a, b));
                sum.expect("there is a part")
            })),
        };
        for (source, load) in scattered {
            change = Some(self.scatter(&source, load, change));
        }
        change
    }

    /// `change` as the result for the parameter `param`, of its type.
    fn result(&mut self, param: ValueId, change: Option<Tensor>) -> Tensor {
        let Tensor { shape, dtype, .. } = self.tensors[&param].clone();
        match change {
            Some(change) if change.dtype == dtype && !self.builder.is_given(&change) => change,
            change => self.builder.compute(&self.name(param), &shape, |e, i| match &change {
                Some(change) => {
                    let element = e.load(change, i);
                    e.cast(element, dtype)
                }
                None => e.number(dtype, 0.0),
            }),
        }
    }

    /// Adds what `stage` contributes to the changes of what it reads.
    fn stage(&mut self, stage: &Stage) -> Result<(), String> {
        let body = self.body;
        let changes: SmallVec<[Option<Tensor>; 2]> =
            body.results(stage.op).map(|result| self.change(result)).collect();
        if changes.iter().all(Option::is_none) {
            return Ok(());
        }
        for source in sources(body, stage, &changes, &mut self.builder, &self.tensors)? {
            let source = Rc::new(source);
            for op in body.block_ops(source.block) {
                let Some((tensor, indices)) = read(body, op) else { continue };
                if self.active.contains(&tensor)
                    && carries(body, source.block, body.result(op, 0), &source.values())
                {
                    self.contribute(&source, op, tensor, &indices);
                }
            }
        }
        Ok(())
    }
}

/// Indices of all points of axes of `extents`, which are `values`.
fn all_points(extents: &[i64], values: &[ValueId]) -> (Indices, Vec<(Var, ValueId)>, Vec<Index>) {
    let mut table = Indices::default();
    let vars: Vec<Var> = extents.iter().map(|extent| table.var(*extent)).collect();
    let axes = vars.iter().map(|var| table.of_var(*var)).collect();
    (table, vars.into_iter().zip(values.iter().copied()).collect(), axes)
}
