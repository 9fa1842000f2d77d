//! What is known of one item besides its types.
//!
//! **Facts depend on what a body computes, not on where it stands**: they are functions of its
//! [`fingerprint`](ir_core::fingerprint), so that comments, blanks and names of values change none.
//! They therefore name operations, values and blocks by number, in the order in which a walk of
//! the body meets them; a [`Numbering`] of any body with that fingerprint tells which those are.

use std::sync::Arc;

use ir_core::{
    Attr, BlockId, Body, Effects, EntityId, OpId, Registry, SmallVec, Symbol, Type, TypeData,
    ValueDef, ValueId, Work,
};

use crate::log::Query;
use crate::queries::{self, Db, Name, Structure};

/// The operations, values and blocks of a body by number.
#[derive(Clone, Debug)]
pub struct Numbering {
    /// In program order; what is inside an operation comes after it.
    pub ops: Vec<OpId>,
    /// Block arguments where their block starts, results where their operation stands.
    pub values: Vec<ValueId>,
    /// The outermost block first.
    pub blocks: Vec<BlockId>,
    value_numbers: Vec<u32>,
    block_numbers: Vec<u32>,
    op_numbers: Vec<u32>,
}

impl Numbering {
    /// The numbers of what `body` consists of.
    pub fn of(body: &Body) -> Numbering {
        let mut numbering = Numbering {
            ops: Vec::with_capacity(body.op_count()),
            values: Vec::new(),
            blocks: Vec::new(),
            value_numbers: vec![u32::MAX; body.value_capacity()],
            block_numbers: vec![u32::MAX; body.block_capacity()],
            op_numbers: vec![u32::MAX; body.op_capacity()],
        };
        numbering.block(body, body.entry());
        for op in body.walk() {
            numbering.op_numbers[op.index()] = numbering.ops.len() as u32;
            numbering.ops.push(op);
            for value in body.results(op) {
                numbering.value(value);
            }
            for region in body.regions(op) {
                numbering.block(body, body.block_of(*region));
            }
        }
        numbering
    }

    fn block(&mut self, body: &Body, block: BlockId) {
        self.block_numbers[block.index()] = self.blocks.len() as u32;
        self.blocks.push(block);
        for value in body.block_args(block) {
            self.value(*value);
        }
    }

    fn value(&mut self, value: ValueId) {
        self.value_numbers[value.index()] = self.values.len() as u32;
        self.values.push(value);
    }

    /// The number of `op`.
    pub fn of_op(&self, op: OpId) -> usize {
        self.op_numbers[op.index()] as usize
    }

    /// The number of `value`.
    pub fn of_value(&self, value: ValueId) -> usize {
        self.value_numbers[value.index()] as usize
    }

    /// The number of `block`.
    pub fn of_block(&self, block: BlockId) -> usize {
        self.block_numbers[block.index()] as usize
    }
}

/// A block of a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShapeBlock {
    /// The operation that it is a region of: the block that this stands in, by number, and its
    /// name; `None` for the outermost block.
    pub parent: Option<(usize, Symbol)>,
    /// Which region of that operation it is.
    pub region: usize,
    /// How many values it is entered with.
    pub arguments: usize,
}

/// The control flow of a body: how its blocks nest. Operations without regions do not show in it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shape {
    /// By number.
    pub blocks: Vec<ShapeBlock>,
}

impl Shape {
    /// The shape of `body`.
    pub fn of(body: &Body) -> Shape {
        let numbering = Numbering::of(body);
        let blocks = numbering.blocks.iter().map(|block| {
            let parent = body.block_parent(*block).and_then(|op| {
                let around = numbering.of_block(body.op_block(op)?);
                let region = body.region_of(*block);
                let region = body.regions(op).iter().position(|other| *other == region)?;
                Some((around, body.op_name(op), region))
            });
            ShapeBlock {
                parent: parent.map(|(around, name, _)| (around, name)),
                region: parent.map_or(0, |(.., region)| region),
                arguments: body.block_args(*block).len(),
            }
        });
        Shape { blocks: blocks.collect() }
    }
}

/// Which blocks every path to a block goes through. Control flow is structured, so these are the
/// blocks around it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Dominators {
    /// By the number of a block: the innermost block around it.
    pub immediate: Vec<Option<usize>>,
    /// By the number of a block: how many blocks are around it.
    pub depth: Vec<usize>,
}

impl Dominators {
    /// The dominators of a body of this shape.
    pub fn of(shape: &Shape) -> Dominators {
        let mut dominators = Dominators::default();
        for block in &shape.blocks {
            let parent = block.parent.map(|(parent, _)| parent);
            // A block comes after those around it.
            let depth = parent.and_then(|parent| dominators.depth.get(parent)).map_or(0, |d| d + 1);
            dominators.immediate.push(parent);
            dominators.depth.push(depth);
        }
        dominators
    }

    /// Whether every path to block `inner` goes through block `outer`.
    pub fn dominates(&self, outer: usize, inner: usize) -> bool {
        let mut block = Some(inner);
        while let Some(inner) = block {
            if inner == outer {
                return true;
            }
            block = self.immediate.get(inner).copied().flatten();
        }
        false
    }
}

/// Until when values are needed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Liveness {
    /// By the number of a value: the operation of its own block at or inside which it is used
    /// last; `None` where it is not used.
    pub last_use: Vec<Option<usize>>,
    /// The most values of the outermost block that are needed at one time.
    pub most: usize,
}

impl Liveness {
    /// The liveness of `body`.
    pub fn of(body: &Body) -> Liveness {
        let numbering = Numbering::of(body);
        let mut last_use = vec![None; numbering.values.len()];
        for (number, value) in numbering.values.iter().enumerate() {
            let Some(block) = body.def_block(*value) else { continue };
            let users = body.uses(*value).filter_map(|(user, _)| body.ancestor_in(user, block));
            last_use[number] = users.map(|user| numbering.of_op(user)).max();
        }
        let (mut ends, mut live, mut most) = (vec![0usize; numbering.ops.len()], 0usize, 0);
        let entry = body.entry();
        let born = |value: ValueId, ends: &mut [usize]| match last_use[numbering.of_value(value)] {
            Some(last) => {
                ends[last] += 1;
                1
            }
            None => 0,
        };
        for value in body.block_args(entry) {
            live += born(*value, &mut ends);
        }
        for op in body.block_ops(entry) {
            for value in body.results(op) {
                live += born(value, &mut ends);
            }
            most = most.max(live);
            live -= ends[numbering.of_op(op)];
        }
        Liveness { last_use, most }
    }
}

/// The values of a body that are known before it runs, by number.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Constants {
    /// In order.
    pub values: Vec<(usize, Attr)>,
}

impl Constants {
    /// The constants of `body`.
    pub fn of(body: &Body, registry: &Registry) -> Constants {
        let numbering = Numbering::of(body);
        let known = numbering.values.iter().enumerate();
        let known = known.filter(|(_, value)| matches!(body.def(**value), ValueDef::Result(..)));
        let values = known.filter_map(|(at, value)| Some((at, registry.constant(body, *value)?)));
        Constants { values: values.collect() }
    }
}

/// An estimate of what running a body once costs, every branch counted; what it calls counts
/// nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Operations that compute something.
    pub operations: u64,
    /// Arithmetic operations on elements.
    pub arithmetic: f64,
    /// Bytes of all operands and results.
    pub bytes: f64,
}

impl Cost {
    /// The cost of `body`. Extents that are not known count as 1.
    pub fn of(body: &Body, registry: &Registry) -> Cost {
        let mut cost = Cost::default();
        for op in body.walk() {
            let name = body.op_name(op);
            let Some(info) = registry.info(name) else { continue };
            // Forms of a language compute nothing themselves.
            if info.def.infer.is_none() || body.result_count(op) != 1 {
                continue;
            }
            let types: SmallVec<[Type; 4]> =
                body.operands(op).map(|value| body.ty(value)).collect();
            let result = body.ty(body.result(op, 0));
            let (elements, bytes) = size(result);
            let work = match info.hook::<Work>() {
                Some(Work(work)) => work(&types, body.attrs(op), result),
                None => elements,
            };
            cost.operations += u64::from(work > 0.0);
            cost.arithmetic += work;
            cost.bytes += bytes + types.iter().map(|ty| size(*ty).1).sum::<f64>();
        }
        cost
    }
}

/// The number of elements of a tensor type and of their bytes.
fn size(ty: Type) -> (f64, f64) {
    let TypeData::Tensor(tensor) = ty.data() else { return (0.0, 0.0) };
    let extents = tensor.shape.iter().map(|dim| dim.known().unwrap_or(1) as f64);
    let elements: f64 = extents.product();
    (elements, elements * tensor.dtype.bytes() as f64)
}

/// The operations that one kernel may compute, by number.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FusionGroups {
    /// Groups of at least two.
    pub groups: Vec<Vec<usize>>,
}

/// The items that an item refers to and those that refer to it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Calls {
    /// Sorted by name.
    pub callees: Vec<Symbol>,
    /// In the order of the module.
    pub callers: Vec<Symbol>,
}

fn with_body<'db, T: Default>(
    db: &'db dyn Db,
    query: Query,
    name: Name<'db>,
    of: impl FnOnce(&Body) -> T,
) -> Arc<T> {
    db.log().note(query, || name.symbol(db).to_string());
    let structure = queries::structure(db, name);
    Arc::new(structure.map_or_else(T::default, |Structure { body, .. }| of(&body)))
}

#[salsa::tracked(returns(clone))]
pub(crate) fn shape<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<Shape> {
    with_body(db, Query::Shape, name, Shape::of)
}

#[salsa::tracked(returns(clone))]
pub(crate) fn dominators<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<Dominators> {
    db.log().note(Query::Dominators, || name.symbol(db).to_string());
    Arc::new(Dominators::of(&shape(db, name)))
}

#[salsa::tracked(returns(clone))]
pub(crate) fn liveness<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<Liveness> {
    with_body(db, Query::Liveness, name, Liveness::of)
}

#[salsa::tracked(returns(clone))]
pub(crate) fn constants<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<Constants> {
    with_body(db, Query::Constants, name, |body| Constants::of(body, db.language().registry()))
}

#[salsa::tracked(returns(clone))]
pub(crate) fn cost<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<Cost> {
    with_body(db, Query::Cost, name, |body| Cost::of(body, db.language().registry()))
}

#[salsa::tracked(returns(clone))]
pub(crate) fn fusion_groups<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<FusionGroups> {
    db.log().note(Query::FusionGroups, || name.symbol(db).to_string());
    let Some(structure) = queries::structure(db, name) else { return Arc::default() };
    let Some(signature) = queries::signature(db, name) else { return Arc::default() };
    let item = ir_core::Item { signature, body: Some(structure.body) };
    let signatures = queries::signatures_for(db, queries::mentions(db, name));
    let groups = db.language().fusion_groups(name.symbol(db), &item, &signatures);
    let Some(body) = &item.body else { return Arc::default() };
    let numbering = Numbering::of(body);
    let number = |group: Vec<OpId>| group.into_iter().map(|op| numbering.of_op(op)).collect();
    Arc::new(FusionGroups { groups: groups.into_iter().map(number).collect() })
}

/// The items that each item refers to.
type CallGraph = indexmap::IndexMap<Symbol, Vec<Symbol>, rustc_hash::FxBuildHasher>;

#[salsa::tracked(returns(clone))]
pub(crate) fn call_graph(db: &dyn Db) -> Arc<CallGraph> {
    db.log().note(Query::CallComponents, String::new);
    let index = queries::index(db);
    let callees = |name: Symbol| {
        let mentions = queries::mentions(db, Name::new(db, name));
        mentions.items.iter().copied().filter(|name| index.contains_key(name)).collect()
    };
    Arc::new(index.keys().map(|name| (*name, callees(*name))).collect())
}

#[salsa::tracked(returns(clone))]
pub(crate) fn calls<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<Calls> {
    db.log().note(Query::Calls, || name.symbol(db).to_string());
    let (graph, name) = (call_graph(db), name.symbol(db));
    let callers = graph.iter().filter(|(_, callees)| callees.contains(&name));
    Arc::new(Calls {
        callees: graph.get(&name).cloned().unwrap_or_default(),
        callers: callers.map(|(caller, _)| *caller).collect(),
    })
}

/// Groups of items that call each other, callees first.
#[salsa::tracked(returns(clone))]
pub(crate) fn call_components(db: &dyn Db) -> Arc<Vec<Arc<[Symbol]>>> {
    db.log().note(Query::CallComponents, String::new);
    let graph = call_graph(db);
    let index = |names: &Vec<Symbol>| -> Vec<usize> {
        names.iter().filter_map(|name| graph.get_index_of(name)).collect()
    };
    let edges: Vec<Vec<usize>> = graph.values().map(index).collect();
    let name = |index: &usize| graph.get_index(*index).map(|(name, _)| *name);
    let components = ir_core::graph::strongly_connected(&edges);
    Arc::new(components.iter().map(|members| members.iter().filter_map(name).collect()).collect())
}

/// The items that call each other and among which `name` is.
#[salsa::tracked(returns(clone))]
pub(crate) fn call_component<'db>(db: &'db dyn Db, name: Name<'db>) -> Arc<[Symbol]> {
    let symbol = name.symbol(db);
    let components = call_components(db);
    let found = components.iter().find(|component| component.contains(&symbol));
    found.cloned().unwrap_or_else(|| [symbol].into())
}

/// What calling the items of a component may do: the least answer that fits all bodies.
#[salsa::tracked(returns(clone))]
pub(crate) fn component_effects<'db>(
    db: &'db dyn Db,
    component: queries::Group<'db>,
) -> Arc<[(Symbol, Effects)]> {
    let names = component.names(db);
    db.log().note(Query::Effects, || {
        names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
    });
    let language = db.language();
    let bodies: Vec<(Symbol, Option<Arc<Body>>)> = names
        .iter()
        .map(|name| (*name, queries::structure(db, Name::new(db, *name)).map(|s| s.body)))
        .collect();
    // An item without a body is made elsewhere and may do anything.
    let mut known: Vec<(Symbol, Effects)> = bodies
        .iter()
        .map(|(name, body)| (*name, if body.is_some() { Effects::empty() } else { Effects::all() }))
        .collect();
    loop {
        let mut changed = false;
        for (index, (_, body)) in bodies.iter().enumerate() {
            let Some(body) = body else { continue };
            let found = language.effects(body, &|callee| {
                let inside = known.iter().find(|(name, _)| *name == callee);
                inside.map_or_else(|| effects(db, Name::new(db, callee)), |(_, known)| *known)
            });
            changed |= known[index].1 != found;
            known[index].1 = found;
        }
        if !changed {
            return known.into();
        }
    }
}

#[salsa::tracked(returns(copy))]
pub(crate) fn effects<'db>(db: &'db dyn Db, name: Name<'db>) -> Effects {
    if queries::entry(db, name).is_none() {
        return Effects::all();
    }
    let component = queries::Group::new(db, call_component(db, name));
    let symbol = name.symbol(db);
    let found = component_effects(db, component);
    found.iter().find(|(name, _)| *name == symbol).map_or(Effects::all(), |(_, effects)| *effects)
}

impl crate::Snapshot {
    /// What calling item `name` may do.
    pub fn effects(&self, name: impl Into<Symbol>) -> Effects {
        effects(&self.db, self.name(name))
    }

    /// The control flow of item `name`.
    pub fn shape(&self, name: impl Into<Symbol>) -> Arc<Shape> {
        shape(&self.db, self.name(name))
    }

    /// The dominators of the blocks of item `name`.
    pub fn dominators(&self, name: impl Into<Symbol>) -> Arc<Dominators> {
        dominators(&self.db, self.name(name))
    }

    /// Until when the values of item `name` are needed.
    pub fn liveness(&self, name: impl Into<Symbol>) -> Arc<Liveness> {
        liveness(&self.db, self.name(name))
    }

    /// The values of item `name` that are known before it runs.
    pub fn constants(&self, name: impl Into<Symbol>) -> Arc<Constants> {
        constants(&self.db, self.name(name))
    }

    /// What running item `name` costs.
    pub fn cost(&self, name: impl Into<Symbol>) -> Cost {
        *cost(&self.db, self.name(name))
    }

    /// What kernels may compute together in item `name`.
    pub fn fusion_groups(&self, name: impl Into<Symbol>) -> Arc<FusionGroups> {
        fusion_groups(&self.db, self.name(name))
    }

    /// What item `name` refers to, and what refers to it.
    pub fn calls(&self, name: impl Into<Symbol>) -> Arc<Calls> {
        calls(&self.db, self.name(name))
    }

    /// Groups of items that refer to each other, callees first.
    pub fn call_components(&self) -> Arc<Vec<Arc<[Symbol]>>> {
        call_components(&self.db)
    }
}
