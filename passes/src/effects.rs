//! What calling a function may do: the effect summaries of a module's functions.

use std::collections::VecDeque;

use ir_core::{Body, Effects, EntityId, Module, OpId, Registry, Symbol, ValueId};
use relay::language::{Call, Constructor, FUNC, Fn, Global, Operator};
use rustc_hash::{FxHashMap, FxHashSet};

/// What running each function of a module may do besides returning a value.
pub struct EffectSummaries {
    functions: FxHashMap<Symbol, Effects>,
}

impl EffectSummaries {
    /// The least summaries that fit all bodies. A function is visited again only when the effects
    /// of one that it refers to grow, which happens at most once per kind of effect.
    pub fn of(module: &Module, registry: &Registry) -> EffectSummaries {
        let mut summaries = EffectSummaries { functions: FxHashMap::default() };
        let functions = || module.items.iter().filter(|(_, item)| item.signature.op == FUNC);
        for (name, item) in functions() {
            // A function without a body is made elsewhere and may do anything.
            let known = if item.body.is_some() { Effects::empty() } else { Effects::all() };
            summaries.functions.insert(*name, known);
        }
        let mut users: FxHashMap<Symbol, Vec<Symbol>> = FxHashMap::default();
        for (name, item) in functions() {
            for callee in item.body.iter().flat_map(|body| referenced_functions(body)) {
                users.entry(callee).or_default().push(*name);
            }
        }
        users.values_mut().for_each(|users| users.dedup());
        let mut pending: VecDeque<Symbol> = functions().map(|(name, _)| *name).collect();
        let mut waits: FxHashSet<Symbol> = pending.iter().copied().collect();
        while let Some(name) = pending.pop_front() {
            waits.remove(&name);
            if let Some(body) = module.body(name) {
                let effects = summaries.of_body(body, registry);
                if summaries.functions.insert(name, effects) != Some(effects) {
                    let users = users.get(&name).into_iter().flatten().copied();
                    pending.extend(users.filter(|user| waits.insert(*user)));
                }
            }
        }
        summaries
    }

    /// Summaries that are known already; a function that is not among them may do anything.
    pub fn known(functions: impl IntoIterator<Item = (Symbol, Effects)>) -> EffectSummaries {
        EffectSummaries { functions: functions.into_iter().collect() }
    }

    /// What calling function `name` may do.
    pub fn of_function(&self, name: Symbol) -> Effects {
        self.functions.get(&name).copied().unwrap_or(Effects::all())
    }

    /// What running `body` may do.
    pub fn of_body(&self, body: &Body, registry: &Registry) -> Effects {
        let local = LocalEffects::of(body, registry, self);
        body.block_ops(body.entry()).fold(Effects::empty(), |all, op| all | local.of_op(op))
    }
}

/// The functions of the module that `body` refers to, with repeats, in program order.
pub fn referenced_functions(body: &Body) -> Vec<Symbol> {
    body.walk().filter_map(|op| body.view::<Global>(op)).map(|global| global.name).collect()
}

/// What running each operation of one body may do, its regions and known callees included.
pub struct LocalEffects {
    ops: Vec<Effects>,
}

impl LocalEffects {
    /// Effects of all operations of `body`, given those of the module's functions.
    ///
    /// A call of a function value that is made in this body, or passed to itself by recursion, has
    /// the effects of that function; a call of any other value may do anything.
    pub fn of(body: &Body, registry: &Registry, summaries: &EffectSummaries) -> LocalEffects {
        let mut effects = LocalEffects { ops: vec![Effects::empty(); body.op_capacity()] };
        // What calling the value of each `relay.fn` does. Functions come before their calls, so one
        // round is enough without recursion; with it, starting from nothing and growing gives the
        // least solution.
        let mut inside: FxHashMap<OpId, Effects> = FxHashMap::default();
        let order = body.post_order();
        loop {
            let mut changed = false;
            for &op in &order {
                let name = body.op_name(op);
                let nested = body.regions(op).iter().fold(Effects::empty(), |all, region| {
                    let ops = body.block_ops(body.block_of(*region));
                    ops.fold(all, |all, op| all | effects.ops[op.index()])
                });
                let all = if name == Fn::NAME {
                    changed |= inside.insert(op, nested).unwrap_or_default() != nested;
                    Effects::empty()
                } else if name == Call::NAME {
                    match callee(body, body.operand(op, 0)) {
                        Callee::Local(callee) => inside.get(&callee).copied().unwrap_or_default(),
                        Callee::Global(name) => summaries.of_function(name),
                        Callee::Pure => Effects::empty(),
                        Callee::Unknown => Effects::all(),
                    }
                } else {
                    registry.def(name).map_or(Effects::all(), |def| def.effects) | nested
                };
                effects.ops[op.index()] = all;
            }
            if !changed {
                return effects;
            }
        }
    }

    /// What running `op` may do.
    pub fn of_op(&self, op: OpId) -> Effects {
        self.ops[op.index()]
    }
}

enum Callee {
    /// A `relay.fn` of the same body.
    Local(OpId),
    /// A function of the module.
    Global(Symbol),
    /// An operator or constructor.
    Pure,
    Unknown,
}

fn callee(body: &Body, value: ValueId) -> Callee {
    let Some(op) = body.defining_op(value) else {
        // The last argument of a recursive function is the function itself.
        return match body.def_block(value).and_then(|block| body.block_parent(block)) {
            Some(op) if body.is::<Fn>(op) && relay::language::fn_self(body, op) == Some(value) => {
                Callee::Local(op)
            }
            _ => Callee::Unknown,
        };
    };
    match body.op_name(op).as_str() {
        Fn::NAME => Callee::Local(op),
        Operator::NAME | Constructor::NAME => Callee::Pure,
        _ => match body.view::<Global>(op) {
            Some(global) => Callee::Global(global.name),
            None => Callee::Unknown,
        },
    }
}
