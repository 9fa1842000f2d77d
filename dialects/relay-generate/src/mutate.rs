//! Changes to modules: wrong on purpose, and smaller on purpose.

use ir_core::{
    BlockId, Body, DType, Effects, InsertPoint, Module, OpFields, OpId, OpParts, Registry, Scalar,
    Symbol, TensorData, Type, TypeData, ValueId,
};
use relay::interpreter::{Evaluate, Random};
use relay::language::{Constant, FUNC, yielded};

/// `module` with one change that makes it ill-typed, and what was changed. `None` where nothing
/// in it can be made wrong.
pub fn ill_typed_mutation(
    module: &Module,
    registry: &Registry,
    seed: u64,
) -> Option<(Module, String)> {
    let mut random = Random::new(seed);
    let mut places: Vec<(Symbol, OpId)> = Vec::new();
    for (name, item) in &module.items {
        let Some(body) = item.body.as_ref().filter(|_| item.signature.op == FUNC) else { continue };
        places
            .extend(body.walk().filter(|op| can_break(body, *op, registry)).map(|op| (*name, op)));
    }
    let (name, op) = *random.choose(&places)?;
    let mut module = module.clone();
    let body = module.items.get_mut(&name)?.body_mut()?;
    let change = break_op(body, op, registry, &mut random);
    Some((module, format!("in @{name}: {change}")))
}

fn is_operator(body: &Body, op: OpId, registry: &Registry) -> bool {
    registry.hook::<Evaluate>(body.op_name(op)).is_some() && body.operand_count(op) > 0
}

fn can_break(body: &Body, op: OpId, registry: &Registry) -> bool {
    match body.op_name(op).as_str() {
        "relay.tuple_get" | "relay.if" | "relay.call" | "relay.ref_read" => true,
        _ => is_operator(body, op, registry),
    }
}

fn break_op(body: &mut Body, op: OpId, registry: &Registry, random: &mut Random) -> String {
    let name = body.op_name(op);
    match name.as_str() {
        "relay.tuple_get" => {
            body.set_attrs(op, body.attrs(op).with("index", &1_000i64));
            "a field that the tuple does not have".to_string()
        }
        "relay.call" => {
            let mut operands: Vec<ValueId> = body.operands(op).collect();
            operands.push(operands[0]);
            body.set_operands(op, &operands);
            "a call with one argument too many".to_string()
        }
        "relay.if" => {
            let value = TensorData::scalar(DType::FLOAT32, Scalar::Float(1.0));
            let constant = insert_constant(body, op, value);
            body.set_operand(op, 0, constant);
            "a condition of type float32".to_string()
        }
        "relay.ref_read" => {
            let value = TensorData::scalar(DType::FLOAT32, Scalar::Float(1.0));
            let constant = insert_constant(body, op, value);
            body.set_operand(op, 0, constant);
            "a number read as a cell".to_string()
        }
        _ if is_operator(body, op, registry) => {
            let index = random.below(body.operand_count(op));
            let results = [Type::unit()];
            let parts = OpParts::new("relay.tuple", &[], &results);
            let unit = body.insert_op(InsertPoint::Before(op), parts);
            let unit = body.result(unit, 0);
            body.set_operand(op, index, unit);
            format!("operand {index} of `{name}` is the empty tuple")
        }
        _ => format!("nothing of `{name}`"),
    }
}

fn insert_constant(body: &mut Body, before: OpId, value: TensorData) -> ValueId {
    let results = [value.ty()];
    let attrs = OpFields::<ValueId>::attrs(&Constant { value });
    let parts = OpParts::new("relay.constant", &[], &results).attrs(attrs);
    let op = body.insert_op(InsertPoint::Before(before), parts);
    body.result(op, 0)
}

/// The smallest module that `fails` still accepts, found by dropping functions, replacing values
/// by their operands, by constants or by a branch, and dropping what is then unused. Well-typed
/// modules stay well-typed.
pub fn shrink(module: &Module, registry: &Registry, fails: &dyn Fn(&Module) -> bool) -> Module {
    let mut smallest = module.clone();
    loop {
        let before = (smallest.items.len(), smallest.op_count());
        for name in smallest.items.keys().copied().collect::<Vec<_>>() {
            let mut candidate = smallest.clone();
            candidate.items.shift_remove(&name);
            if fails(&candidate) {
                smallest = candidate;
            }
        }
        for name in smallest.items.keys().copied().collect::<Vec<_>>() {
            shrink_function(&mut smallest, name, registry, fails);
        }
        if (smallest.items.len(), smallest.op_count()) == before {
            return smallest;
        }
    }
}

fn shrink_function(
    smallest: &mut Module,
    name: Symbol,
    registry: &Registry,
    fails: &dyn Fn(&Module) -> bool,
) {
    let Some(body) = smallest.body(name) else { return };
    // Last operations first: what they use dies with them.
    let mut ops: Vec<OpId> = body.walk().collect();
    ops.reverse();
    for op in ops {
        for way in [Way::Operand, Way::Constant, Way::Branch(0), Way::Branch(1)] {
            let Some(body) = smallest.body(name).filter(|body| body.is_live(op)) else { break };
            if body.result_count(op) != 1 || body.op_name(op) == "relay.constant" {
                break;
            }
            let mut candidate = smallest.clone();
            let Some(body) = candidate.items.get_mut(&name).and_then(|item| item.body_mut()) else {
                break;
            };
            if simplify(body, op, way) {
                drop_unused(body, registry);
                if candidate.op_count() < smallest.op_count() && fails(&candidate) {
                    *smallest = candidate;
                }
            }
        }
    }
}

/// How an operation is made simpler.
#[derive(Clone, Copy)]
enum Way {
    /// It becomes its first operand of the same type.
    Operand,
    /// It becomes zeros.
    Constant,
    /// An `if` becomes one of its branches.
    Branch(usize),
}

fn simplify(body: &mut Body, op: OpId, way: Way) -> bool {
    let result = body.result(op, 0);
    let value = match way {
        Way::Operand => body.operands(op).find(|value| body.ty(*value) == body.ty(result)),
        Way::Constant => zeros(body.ty(result)).map(|value| insert_constant(body, op, value)),
        Way::Branch(index) => {
            if body.op_name(op) != "relay.if" || body.regions(op).len() != 2 {
                return false;
            }
            let block: BlockId = body.region_block(op, index);
            let Some(value) = yielded(body, block) else { return false };
            if let Some(last) = body.last_op(block) {
                body.erase(last);
            }
            body.move_block_ops(block, InsertPoint::Before(op));
            Some(value)
        }
    };
    let Some(value) = value else { return false };
    body.replace_all_uses(result, value);
    body.erase(op);
    true
}

fn zeros(ty: Type) -> Option<TensorData> {
    let TypeData::Tensor(tensor) = ty.data() else { return None };
    let shape = tensor.known_shape()?;
    let elements = usize::try_from(tensor.elements()?).ok()? * tensor.dtype.lanes() as usize;
    TensorData::from_i64(tensor.dtype, &shape, &vec![0; elements]).ok()
}

/// Erases operations without uses whose only effects may be dropped.
fn drop_unused(body: &mut Body, registry: &Registry) {
    let mut ops: Vec<OpId> = body.walk().collect();
    ops.reverse();
    for op in ops {
        let unused = body.is_live(op) && body.results(op).all(|value| body.is_unused(value));
        let effects = registry.effects(body, op);
        if unused
            && body.result_count(op) > 0
            && (effects - Effects::ALLOCATE - Effects::READ).is_empty()
        {
            body.erase(op);
        }
    }
}
