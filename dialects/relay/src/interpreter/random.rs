//! Random values of a type, the same for the same seed on every machine.

use ir_core::{
    AttrDict, DType, Dim, DimExprData, FunctionType, Item, Random, Registry, Signatures, Spread,
    Symbol, TensorData, TensorType, Type, TypeData, TypeParam,
};
use rustc_hash::FxHashMap;

use super::value::{Reference, Value};
use crate::language::{AdtDecl, TYPE};

/// The hook of an operator that some random operands would lead to nothing: roots of negative
/// variances are no numbers, and the products of wide layers leave the range of floats after some
/// layers. From the place of an operand, the types of all and the attributes it tells where the
/// elements of that operand should lie; `None` where any do.
#[derive(Clone, Copy)]
pub struct RandomOperand(pub fn(usize, &[Type], AttrDict) -> Option<Spread>);

/// Where random floats for each parameter of the function `item` should lie: what the operators
/// say that read it, see [`RandomOperand`].
pub fn spreads(item: &Item, registry: &Registry) -> Vec<Spread> {
    told_spreads(item, registry).into_iter().map(Option::unwrap_or_default).collect()
}

/// As [`spreads`]; `None` for parameters of which no operator says anything.
pub fn told_spreads(item: &Item, registry: &Registry) -> Vec<Option<Spread>> {
    let Some(body) = &item.body else { return vec![] };
    let of_use = |(op, operand)| {
        let RandomOperand(spread) = registry.hook(body.op_name(op))?;
        let types: Vec<Type> = body.operands(op).map(|operand| body.ty(operand)).collect();
        spread(operand, &types, body.attrs(op))
    };
    let params = body.block_args(body.entry()).iter();
    params.map(|param| body.uses(*param).find_map(of_use)).collect()
}

/// A random value of type `ty`, its floats within `spread`; `signatures` declare its data types.
/// Extents that are `?` or variables are from 1 to 4. Errors on functions and on types that are not
/// closed.
pub fn random_value(
    ty: Type,
    spread: Spread,
    signatures: &Signatures,
    seed: u64,
) -> Result<Value, String> {
    Maker::new(signatures, seed).within(spread).value(ty, 0)
}

/// Random arguments for the function `item`, such as its operators expect: see [`spreads`] and
/// [`random_values`]. Errors where it is no function.
pub fn random_arguments(
    item: &Item,
    registry: &Registry,
    signatures: &Signatures,
    seed: u64,
) -> Result<Vec<Value>, String> {
    let ty = item.signature.ty;
    let function = ty.as_function().ok_or_else(|| format!("expected a function, found {ty}"))?;
    random_values(function, &spreads(item, registry), signatures, seed)
}

/// Random arguments for a function of type `function`, with floats within `spreads`, or within
/// `[-1, 1)` where there are fewer of these. A shape variable has one extent in all of them, and
/// type parameters are `float32` scalars.
pub fn random_values(
    function: &FunctionType,
    spreads: &[Spread],
    signatures: &Signatures,
    seed: u64,
) -> Result<Vec<Value>, String> {
    values_of(function, spreads, Maker::new(signatures, seed))
}

/// As [`random_values`], where floats without a spread of their own are of all magnitudes up to
/// `2^reach`, see [`Magnitudes`](ir_core::Magnitudes).
pub fn random_values_up_to(
    function: &FunctionType,
    spreads: &[Spread],
    signatures: &Signatures,
    (reach, seed): (i32, u64),
) -> Result<Vec<Value>, String> {
    let maker = Maker { reach: Some(reach), ..Maker::new(signatures, seed) };
    values_of(function, spreads, maker)
}

fn values_of(
    function: &FunctionType,
    spreads: &[Spread],
    mut maker: Maker<'_>,
) -> Result<Vec<Value>, String> {
    let scalar = Type::scalar(DType::FLOAT32);
    let types = function.type_params.iter().map(|name| (*name, scalar)).collect();
    let spreads = spreads.iter().copied().chain(std::iter::repeat(Spread::default()));
    let mut arguments = Vec::with_capacity(function.params.len());
    for (param, spread) in function.params.iter().zip(spreads) {
        maker = maker.within(spread);
        arguments.push(maker.value(substitute(*param, &types), 0)?);
    }
    Ok(arguments)
}

struct Maker<'a> {
    random: Random,
    spread: Spread,
    /// The exponent of two up to which floats are that have the usual spread; `None` is within it.
    reach: Option<i32>,
    signatures: &'a Signatures,
    extents: FxHashMap<Symbol, i64>,
}

/// The deepest value that is made. Recursive types get their shortest constructors well before.
const MAX_VALUE_DEPTH: usize = 200;
const LONG_ENOUGH: usize = 6;

impl<'a> Maker<'a> {
    fn new(signatures: &'a Signatures, seed: u64) -> Maker<'a> {
        Maker {
            random: Random::new(seed),
            spread: Spread::default(),
            reach: None,
            signatures,
            extents: FxHashMap::default(),
        }
    }

    fn within(self, spread: Spread) -> Maker<'a> {
        Maker { spread, ..self }
    }

    // Recursion is bounded by MAX_VALUE_DEPTH.
    fn value(&mut self, ty: Type, depth: usize) -> Result<Value, String> {
        if depth > MAX_VALUE_DEPTH {
            return Err(format!("found no value of {ty} of depth {MAX_VALUE_DEPTH} or less"));
        }
        match ty.data() {
            TypeData::Tensor(tensor) => Ok(self.tensor(tensor)?.into()),
            TypeData::Tuple(fields) => {
                let fields = fields.iter().map(|field| self.value(*field, depth + 1));
                Ok(Value::tuple(fields.collect::<Result<Vec<_>, _>>()?))
            }
            TypeData::Ref(content) => {
                Ok(Value::Reference(Reference::new(self.value(*content, depth + 1)?)))
            }
            TypeData::Named { name, params } => self.data(*name, params, depth),
            _ => Err(format!("expected a type of data, found {ty}")),
        }
    }

    fn tensor(&mut self, tensor: &TensorType) -> Result<TensorData, String> {
        let shape: Vec<i64> = tensor.shape.iter().map(|dim| self.extent(*dim)).collect();
        match self.reach.filter(|_| self.spread == Spread::default()) {
            Some(reach) => self.random.tensor_up_to(&shape, tensor.dtype, reach),
            None => self.random.tensor_within(&shape, tensor.dtype, self.spread),
        }
    }

    fn extent(&mut self, dim: Dim) -> i64 {
        match dim {
            Dim::Known(extent) => extent,
            Dim::Any => 1 + self.random.below(4) as i64,
            Dim::Expr(expr) => match expr.data() {
                DimExprData::Parameter(name) => {
                    let random = &mut self.random;
                    *self.extents.entry(name).or_insert_with(|| 1 + random.below(4) as i64)
                }
                DimExprData::Variable(_) => 1,
                // Both sides are shallower expressions; a type of bounded depth holds them.
                DimExprData::Binary(op, a, b) => {
                    op.apply(self.extent(a), self.extent(b)).unwrap_or(1)
                }
            },
        }
    }

    fn data(&mut self, name: Symbol, params: &[TypeParam], depth: usize) -> Result<Value, String> {
        let signature = self.signatures.get(&name).filter(|signature| signature.op == TYPE);
        let decl = signature.and_then(|signature| AdtDecl::from_attrs(signature.attrs));
        let Some(decl) = decl else { return Err(format!("`{name}` is not a data type")) };
        let types: FxHashMap<Symbol, Type> = decl
            .params
            .iter()
            .zip(params)
            .filter_map(|(name, param)| match param {
                TypeParam::Type(ty) => Some((*name, *ty)),
                _ => None,
            })
            .collect();
        let nested = |index: &usize| {
            let fields = decl.constructors[*index].fields.iter();
            fields.filter(|field| matches!(field.data(), TypeData::Named { .. })).count()
        };
        let all = 0..decl.constructors.len();
        let chosen = match depth < LONG_ENOUGH {
            true => Some(self.random.below(decl.constructors.len())),
            false => all.min_by_key(nested),
        };
        let Some((tag, constructor)) = chosen.and_then(|i| Some((i, decl.constructors.get(i)?)))
        else {
            return Err(format!("`{name}` has no constructors"));
        };
        let fields = constructor.fields.iter();
        let fields = fields.map(|field| self.value(substitute(*field, &types), depth + 1));
        Ok(Value::data(constructor.shown(), tag as u32, fields.collect::<Result<Vec<_>, _>>()?))
    }
}

/// `ty` with type parameters replaced. Recursion is bounded by `ir_core::types::MAX_TYPE_DEPTH`.
fn substitute(ty: Type, types: &FxHashMap<Symbol, Type>) -> Type {
    if !ty.facts().has_parameter {
        return ty;
    }
    match ty.data() {
        TypeData::Parameter(name) => types.get(name).copied().unwrap_or(ty),
        TypeData::Tuple(fields) => {
            Type::tuple(fields.iter().map(|field| substitute(*field, types)))
        }
        TypeData::Ref(content) => Type::reference(substitute(*content, types)),
        TypeData::Named { name, params } => Type::named(
            *name,
            params.iter().map(|param| match param {
                TypeParam::Type(ty) => TypeParam::Type(substitute(*ty, types)),
                other => *other,
            }),
        ),
        _ => ty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::ConstructorDecl;
    use ir_core::Module;

    fn list() -> Signatures {
        let a = Type::parameter("A");
        let tail = Type::named("List", [TypeParam::Type(a)]);
        let decl = AdtDecl {
            params: vec!["A".into()],
            constructors: vec![
                ConstructorDecl::new("Cons", vec![a, tail]),
                ConstructorDecl::new("Nil", vec![]),
            ],
            is_extern: false,
        };
        let mut item = Item::new(TYPE, Type::unknown(), None);
        item.signature.attrs = decl.to_attrs();
        let mut module = Module::new();
        module.items.insert("List".into(), item);
        module.signatures()
    }

    #[test]
    fn values_have_their_type_and_depend_on_the_seed_alone() {
        let signatures = list();
        let tensor = Type::tensor([2, 3], DType::INT8);
        let ty = Type::named("List", [TypeParam::Type(Type::tuple([tensor]))]);
        let texts: Vec<String> = (0..20)
            .map(|seed| random_value(ty, Spread::default(), &signatures, seed).unwrap().to_string())
            .collect();
        let again = random_value(ty, Spread::default(), &signatures, 3).unwrap().to_string();
        assert_eq!(texts[3], again);
        assert!(texts.iter().any(|text| text.starts_with("Cons((Tensor[(2, 3), int8] [")));
        assert!(texts.iter().any(|text| text == "Nil"));
    }

    #[test]
    fn a_shape_variable_is_one_extent() {
        let row = Type::tensor([Dim::parameter("n"), 2.into()], DType::FLOAT32);
        let function = Type::function([row, row], row);
        let function = function.as_function().unwrap();
        for seed in 0..10 {
            let args = random_values(function, &[], &Signatures::default(), seed).unwrap();
            let shape = |i: usize| args[i].as_tensor().unwrap().shape().to_vec();
            assert_eq!(shape(0), shape(1));
        }
    }

    #[test]
    fn functions_are_refused() {
        let function = Type::function([], Type::unit());
        let error =
            random_value(function, Spread::default(), &Signatures::default(), 0).unwrap_err();
        assert_eq!(error, "expected a type of data, found fn () -> ()");
    }
}
