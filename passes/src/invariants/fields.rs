//! Data that stays the same, as its fields.

use ir_core::{Body, InsertPoint, Item, Loc, Module, NameHint, OpId, Symbol, Type, ValueId};
use relay::language::{AdtDecl, Construct, Match, Pattern, TYPE, yielded};
use rustc_hash::FxHashSet;

use super::Function;

/// A parameter that is handed on, data of the only constructor of its type.
struct Opened {
    index: usize,
    constructor: Symbol,
    /// By call from outside, the fields.
    fields: Vec<Vec<ValueId>>,
    types: Vec<Type>,
}

impl Function {
    /// Hands on fields in the place of data that is made before each call from outside. How many data.
    pub(super) fn open_data(&self, module: &mut Module) -> u64 {
        let handed_on = self.handed_on(self.body(module));
        let opened: Vec<Opened> =
            handed_on.into_iter().filter_map(|index| self.opened(module, index)).collect();
        for data in &opened {
            self.open(module, data);
        }
        opened.len() as u64
    }

    fn opened(&self, module: &Module, index: usize) -> Option<Opened> {
        let body = self.body(module);
        let ty = body.ty(body.block_args(body.entry())[index]);
        let item = module.get(prog::data::name(ty)?).filter(|item| item.signature.op == TYPE)?;
        let adt = AdtDecl::from_attrs(item.signature.attrs)?;
        let [constructor] = &adt.constructors[..] else { return None };
        let fields = |(caller, call): &(Symbol, OpId)| {
            let body = module.body(*caller)?;
            let (_, made) = body.view_def::<Construct>(body.operand(*call, index + 1))?;
            Some(made.fields)
        };
        let fields = self.outside.iter().map(fields).collect::<Option<Vec<Vec<ValueId>>>>()?;
        let (constructor, types) = (constructor.name, constructor.fields.clone());
        // Without parameters, the types of the fields are those of the declaration.
        adt.params.is_empty().then_some(Opened { index, constructor, fields, types })
    }

    fn open(&self, module: &mut Module, data: &Opened) {
        for ((caller, call), fields) in self.outside.iter().zip(&data.fields) {
            let Some(body) = module.items.get_mut(caller).and_then(Item::body_mut) else {
                continue;
            };
            append(body, *call, fields);
        }
        let Some(body) = module.items.get_mut(&self.name).and_then(Item::body_mut) else { return };
        let entry = body.entry();
        let param = body.block_args(entry)[data.index];
        let name = body.name_hint(param).name;
        let fields: Vec<ValueId> =
            data.types.iter().map(|ty| body.add_block_arg(entry, *ty)).collect();
        for (number, field) in fields.iter().enumerate() {
            let name = name.map(|name| Symbol::new(&format!("{name}_{number}")));
            body.set_name_hint(*field, NameHint { name, ..NameHint::default() });
        }
        self.inside.iter().for_each(|call| append(body, *call, &fields));
        let matches: Vec<OpId> =
            body.uses(param).map(|(user, _)| user).filter(|user| body.is::<Match>(*user)).collect();
        for choice in matches {
            take(body, choice, &fields);
        }
        let inside: FxHashSet<OpId> = self.inside.iter().copied().collect();
        if body.uses(param).any(|(user, _)| !inside.contains(&user)) {
            let made = Construct { name: data.constructor.to_string(), fields };
            let ty = body.ty(param);
            let again = body.add(InsertPoint::Start(entry), Loc::UNKNOWN, &made, ty);
            body.replace_uses_where(param, again, |_, (user, _)| !inside.contains(&user));
        }
        self.set_type(module);
    }
}

fn append(body: &mut Body, call: OpId, values: &[ValueId]) {
    let operands: Vec<ValueId> = body.operands(call).chain(values.iter().copied()).collect();
    body.set_operands(call, &operands);
}

/// Puts the clause of the match `choice`, which has but one, of data with `fields`, in its place. One with
/// other patterns stays.
fn take(body: &mut Body, choice: OpId, fields: &[ValueId]) {
    let Some(Match { patterns, .. }) = body.view(choice) else { return };
    let [Pattern::Constructor(_, patterns)] = &patterns[..] else { return };
    if !patterns.iter().all(|field| matches!(field, Pattern::Variable | Pattern::Wildcard)) {
        return;
    }
    let clause = body.region_block(choice, 0);
    let Some(value) = yielded(body, clause) else { return };
    let bound = patterns.iter().zip(fields).filter(|(pattern, _)| **pattern == Pattern::Variable);
    let variables = body.block_args(clause).to_vec();
    let bound: Vec<(ValueId, ValueId)> =
        variables.into_iter().zip(bound.map(|(_, field)| *field)).collect();
    for (variable, field) in &bound {
        body.replace_all_uses(*variable, *field);
    }
    let given = bound.iter().find(|(variable, _)| *variable == value).map(|(_, field)| *field);
    let end = body.last_op(clause).expect("it yields");
    body.erase(end);
    body.move_block_ops(clause, InsertPoint::Before(choice));
    body.replace_all_uses(body.result(choice, 0), given.unwrap_or(value));
    body.erase(choice);
}
