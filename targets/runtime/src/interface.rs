//! What a compiled program takes and gives, as values of the language.
//!
//! Tuples are taken apart. Tensors are buffers of the program, data and cells are
//! [columns](prog::columns).

use std::sync::Arc;

use ir_core::{Diagnostic, Diagnostics, Dim, Module, TensorData, Type, TypeData};
use passes::lower_prog::without_extents;
use passes::specialize::entry_type;
use prog::columns::{Described, EXTENTS, Filled, Layout, Sink, Source};
use relay::inference::{DataTypes, data_types};
use relay::interpreter::{Reference, Value, check_type};
use relay::language::ConstructorDecl;
use rustc_hash::FxHashMap;

use crate::MAIN;

/// The code of values that compiled programs cannot have.
const MISFIT: &str = "E0733";

fn misfit(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(MISFIT, message)
}

/// The types of `@main` before it was lowered.
pub(crate) struct Interface {
    params: Vec<Type>,
    taken: Vec<Leaf>,
    result: Type,
    given: Vec<Leaf>,
    types: Arc<DataTypes>,
}

/// A part of a value that is no tuple.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// What it is called: the name of the whole, and the number of the field on each level, as `x.0`.
    pub(crate) name: String,
    /// Its type.
    pub(crate) ty: Type,
    /// Its columns, where it is data or a cell whose tensors have known extents; for programs, also
    /// where it is a tensor of unknown extents.
    pub(crate) data: Option<DataColumns>,
}

/// The columns of values of a type.
#[derive(Clone, Debug)]
pub(crate) struct DataColumns {
    /// They.
    pub(crate) layout: Arc<Layout>,
    /// By sort and constructor: what it is called, and the types of its fields, tuples among them. A
    /// cell has one, without a name.
    constructors: Arc<Vec<Vec<Constructor>>>,
}

#[derive(Clone, Debug)]
struct Constructor {
    name: Option<ConstructorDecl>,
    fields: Vec<Type>,
}

/// Values as a program takes them.
#[derive(Default)]
pub(crate) struct Encoded {
    /// The tensors that are no part of data.
    pub(crate) tensors: Vec<TensorData>,
    /// The columns of the data.
    pub(crate) columns: Vec<Filled>,
}

/// The parts of type `ty` that are no tuples, in order, with what they are called within `name`.
fn parts(name: String, ty: Type) -> Vec<(String, Type)> {
    let (mut parts, mut pending) = (Vec::new(), vec![(name, ty)]);
    while let Some((name, ty)) = pending.pop() {
        match ty.as_tuple() {
            Some(fields) => {
                let fields = fields.iter().enumerate().rev();
                pending.extend(fields.map(|(index, ty)| (format!("{name}.{index}"), *ty)));
            }
            None => parts.push((name, ty)),
        }
    }
    parts
}

/// The parts of `value`, of type `ty`, that are no tuples, in order; `None` where it is of another type.
pub(crate) fn flat_value(value: &Value, ty: Type, flat: &mut Vec<Value>) -> Option<()> {
    let mut pending = vec![(value, ty)];
    while let Some((value, ty)) = pending.pop() {
        match (value, ty.as_tuple()) {
            (Value::Tuple(fields), Some(types)) if fields.len() == types.len() => {
                let fields = fields.iter().zip(types).rev();
                pending.extend(fields.map(|(value, ty)| (value, *ty)));
            }
            (_, Some(_)) => return None,
            _ => flat.push(value.clone()),
        }
    }
    Some(())
}

/// The value of type `ty` whose parts that are no tuples come next in `flat`.
pub(crate) fn whole_value(ty: Type, flat: &mut impl Iterator<Item = Value>) -> Option<Value> {
    // Tuples that are being made, with the types that are left, the last first.
    let mut open: Vec<(Vec<Type>, Vec<Value>)> = Vec::new();
    let mut next = Some(ty);
    loop {
        let value = match next.map(|ty| (ty, ty.as_tuple())) {
            Some((_, Some(fields))) => {
                open.push((fields.iter().rev().copied().collect(), Vec::new()));
                None
            }
            Some((_, None)) => Some(flat.next()?),
            None => open.pop().map(|(_, fields)| Value::tuple(fields)),
        };
        match (value, open.last_mut()) {
            (Some(value), None) => return Some(value),
            (Some(value), Some((_, fields))) => fields.push(value),
            (None, _) => {}
        }
        next = open.last_mut()?.0.pop();
    }
}

impl Leaf {
    /// The leaves of a value of type `ty` called `name`.
    pub(crate) fn all(name: &str, ty: Type, types: &DataTypes) -> Vec<Leaf> {
        let leaf = |(name, ty): (String, Type)| {
            let data = match ty.as_tensor() {
                Some(_) => None,
                None => DataColumns::of(ty, types, false),
            };
            Leaf { name, ty, data }
        };
        parts(name.to_string(), ty).into_iter().map(leaf).collect()
    }

    /// The same, with columns where it is a tensor of unknown extents.
    pub(crate) fn with_columns(mut self, types: &DataTypes) -> Leaf {
        if prog::is_open(self.ty) {
            self.data = DataColumns::of(self.ty, types, false);
        }
        self
    }
}

impl DataColumns {
    /// Those of values of type `ty`; `None` where it is neither data nor a cell, or has functions in it, or
    /// tensors of unknown extents where `open` does not allow for them.
    fn of(ty: Type, types: &DataTypes, open: bool) -> Option<DataColumns> {
        let mut constructors = Vec::new();
        let layout = Layout::with(ty, open, |ty| {
            let (is_cell, known) = match ty.data() {
                TypeData::Ref(content) => {
                    (true, vec![Constructor { name: None, fields: vec![*content] }])
                }
                _ => {
                    let of_data = types.constructors_of(ty)?.into_iter().map(|declared| {
                        let fields = declared.fields.clone();
                        Constructor { name: Some(declared), fields }
                    });
                    (false, of_data.collect())
                }
            };
            let described = known.iter().map(|constructor: &Constructor| {
                let name = constructor.name.as_ref();
                let name = name.map_or_else(|| "ref".to_string(), |name| name.shown().to_string());
                let fields = constructor.fields.iter().enumerate();
                let fields = fields.flat_map(|(index, ty)| parts(index.to_string(), *ty)).collect();
                (name, fields)
            });
            let described = described.collect();
            constructors.push(known);
            Some(Described { is_cell, constructors: described })
        })?;
        Some(DataColumns { layout: Arc::new(layout), constructors: Arc::new(constructors) })
    }

    /// The columns of `value`.
    ///
    /// # Errors
    /// Where it is not of the type.
    pub(crate) fn write(&self, value: &Value) -> Result<Vec<Filled>, Diagnostic> {
        // What comes in holds itself nowhere.
        let written = self.layout.write(value.clone(), self, usize::MAX)?;
        written.ok_or_else(|| misfit("data is larger than memory"))
    }

    /// What the numbers in the first column mean.
    pub(crate) fn meaning(&self) -> String {
        if let Some(ty) =
            self.layout.sorts.first().map(|sort| sort.ty).filter(|ty| prog::is_open(*ty))
        {
            return format!("of a tensor of type {ty}");
        }
        let sorts = self.layout.sorts.iter().zip(&*self.constructors);
        let sorts = sorts.filter(|(sort, _)| !sort.is_cell).map(|(sort, constructors)| {
            let names = constructors.iter().enumerate().filter_map(|(tag, constructor)| {
                Some(format!("{tag} {}", constructor.name.as_ref()?.shown()))
            });
            format!("{}: {}", sort.ty, names.collect::<Vec<_>>().join(", "))
        });
        sorts.collect::<Vec<_>>().join("; ")
    }

    /// The value that columns hold.
    ///
    /// # Errors
    /// Where they hold none: a message that names the column.
    pub(crate) fn read(&self, columns: &[(&[u8], usize)]) -> Result<Value, String> {
        self.read_in(columns, &[])
    }

    /// The same of columns in `block`, in which tensors of unknown extents are.
    ///
    /// # Errors
    /// Where they hold none: a message that names the column.
    fn read_in(&self, columns: &[(&[u8], usize)], block: &[u8]) -> Result<Value, String> {
        self.layout.read(columns, &mut Reading { columns: self, block })
    }
}

/// Errors where `values`, which are for `leaves`, give an extent that has a name two numbers.
fn expect_one_number_for_each_name(values: &[Value], leaves: &[Leaf]) -> Result<(), Diagnostic> {
    let mut numbers: FxHashMap<Dim, i64> = FxHashMap::default();
    for (value, leaf) in values.iter().zip(leaves) {
        let (Some(found), Some(declared)) = (value.as_tensor(), leaf.ty.as_tensor()) else {
            continue;
        };
        let named = declared.shape.iter().zip(found.shape());
        for (dim, extent) in named.filter(|(dim, _)| matches!(dim, Dim::Expr(_))) {
            let known = *numbers.entry(*dim).or_insert(*extent);
            if known != *extent {
                return Err(misfit(format!("the extent `{dim}` is both {known} and {extent}"))
                    .help("give the parameters arrays whose extents fit together"));
            }
        }
    }
    Ok(())
}

impl Source for DataColumns {
    type Value = Value;
    type Error = Diagnostic;

    fn open(&self, node: &Value, sort: usize) -> Result<(usize, Vec<Value>), Diagnostic> {
        let wrong = || {
            let ty = self.layout.sorts[sort].ty;
            misfit(format!("expected a value of type {ty}, found {}", node.describe()))
        };
        let constructors = &self.constructors[sort];
        let mut flat = Vec::new();
        match node {
            Value::Data(data) => {
                let known = constructors.get(data.tag as usize).ok_or_else(wrong)?;
                let name = known.name.as_ref().map(|name| [name.name, name.shown()]);
                let is_known = name.is_some_and(|names| names.contains(&data.constructor));
                if !is_known || known.fields.len() != data.fields.len() {
                    return Err(wrong());
                }
                for (value, ty) in data.fields.iter().zip(&known.fields) {
                    flat_value(value, *ty, &mut flat).ok_or_else(wrong)?;
                }
                Ok((data.tag as usize, flat))
            }
            Value::Reference(cell) if self.layout.sorts[sort].is_cell => {
                flat_value(&cell.read(), constructors[0].fields[0], &mut flat).ok_or_else(wrong)?;
                Ok((0, flat))
            }
            _ => Err(wrong()),
        }
    }

    fn whole(&self, tensor: &Value, ty: Type) -> Result<TensorData, Diagnostic> {
        let wrong =
            || misfit(format!("expected a value of type {ty}, found {}", tensor.describe()));
        check_type(tensor, ty).map_err(|_| wrong())?;
        tensor.as_tensor().cloned().ok_or_else(wrong)
    }

    fn tensor(&self, tensor: &Value, ty: Type, bytes: &mut Vec<u8>) -> Result<(), Diagnostic> {
        let wrong =
            || misfit(format!("expected a value of type {ty}, found {}", tensor.describe()));
        let tensor = tensor.as_tensor().filter(|tensor| tensor.ty() == ty).ok_or_else(wrong)?;
        bytes.extend(tensor.bytes());
        Ok(())
    }
}

/// Columns that are being read.
struct Reading<'r> {
    columns: &'r DataColumns,
    /// Where tensors of unknown extents are.
    block: &'r [u8],
}

impl Reading<'_> {
    /// The tensor of type `ty` whose elements start at byte `start` of the block.
    fn open_tensor(&self, ty: Type, start: usize) -> Option<Value> {
        let tensor = ty.as_tensor()?;
        let first = start.checked_sub(EXTENTS)?;
        let (extents, _) = self.block.get(first..start)?.as_chunks::<8>();
        let extents = extents.iter().take(tensor.rank());
        let shape: Vec<i64> = extents.map(|extent| i64::from_ne_bytes(*extent)).collect();
        let size = ir_core::tensor::tensor_bytes(&shape, tensor.dtype)?;
        let elements = self.block.get(start..start.checked_add(size)?)?;
        let made = TensorData::from_bytes(tensor.dtype, &shape, elements.to_vec());
        made.ok().map(Value::Tensor)
    }
}

impl Sink for Reading<'_> {
    type Value = Value;

    fn whole(&mut self, tensor: TensorData) -> Value {
        Value::Tensor(tensor)
    }

    fn tensor(&mut self, ty: Type, bytes: &[u8]) -> Option<Value> {
        let tensor = ty.as_tensor()?;
        if prog::is_open(ty) {
            let start = u64::from_ne_bytes(bytes.try_into().ok()?);
            return self.open_tensor(ty, usize::try_from(start).ok()?);
        }
        let shape = tensor.known_shape()?;
        TensorData::from_bytes(tensor.dtype, &shape, bytes.to_vec()).ok().map(Value::Tensor)
    }

    fn node(&mut self, sort: usize, tag: usize, fields: Vec<Value>) -> Option<Value> {
        let Constructor { name, fields: types } = self.columns.constructors.get(sort)?.get(tag)?;
        let mut flat = fields.into_iter();
        let whole: Option<Vec<Value>> =
            types.iter().map(|ty| whole_value(*ty, &mut flat)).collect();
        let mut whole = whole?;
        Some(match name {
            Some(name) => Value::data(name.shown(), tag as u32, whole),
            None => Value::Reference(Reference::new(whole.pop()?)),
        })
    }
}

impl Interface {
    /// That of `@main` of a module with types.
    pub(crate) fn of(module: &Module) -> Interface {
        let main = module.get(MAIN).map(|main| entry_type(main.signature.ty));
        let main = main.as_ref().and_then(|ty| ty.as_function());
        let types = data_types(&module.signatures());
        let params = main.map_or(vec![], |main| main.params.to_vec());
        let result = main.map_or_else(Type::unit, |main| main.result);
        let taken = params.iter().flat_map(|ty| Leaf::all("", *ty, &types));
        let taken = taken.map(|leaf| leaf.with_columns(&types)).collect();
        let mut given = Leaf::all("", result, &types);
        for leaf in given.iter_mut().filter(|leaf| !prog::is_fixed(leaf.ty)) {
            leaf.data = DataColumns::of(leaf.ty, &types, true);
        }
        Interface { params, taken, result, given, types }
    }

    /// Whether a tensor that it takes has extents that are not known.
    pub(crate) fn takes_open_tensors(&self) -> bool {
        self.taken.iter().any(|leaf| prog::is_open(leaf.ty))
    }

    /// Whether a program whose data has these columns takes and gives what this says. What it gives may be data
    /// whose extents it does not know: the same data is used with others elsewhere.
    pub(crate) fn fits(&mut self, taken: &[Layout], given: &[Layout]) -> bool {
        let data = self.given.iter_mut().filter(|leaf| leaf.data.is_some());
        for (leaf, layout) in data.zip(given) {
            if leaf.data.as_ref().is_some_and(|data| !data.layout.fits(layout)) {
                leaf.data = DataColumns::of(without_extents(leaf.ty), &self.types, true);
            }
        }
        let fits = |leaves: &[Leaf], layouts: &[Layout]| {
            let own: Vec<&DataColumns> =
                leaves.iter().filter_map(|leaf| leaf.data.as_ref()).collect();
            own.len() == layouts.len()
                && own.iter().zip(layouts).all(|(own, layout)| own.layout.fits(layout))
        };
        fits(&self.taken, taken) && fits(&self.given, given)
    }

    /// `values`, which are for the parameters, as the program takes them.
    ///
    /// # Errors
    /// When they are of other types, or functions.
    pub(crate) fn encode(&self, values: &[Value]) -> Result<Encoded, Diagnostics> {
        if values.len() != self.params.len() {
            let (expected, found) = (self.params.len(), values.len());
            return Err(misfit(format!("expected {expected} inputs, found {found}")).into());
        }
        let wrong = |ty: Type, value: &Value| {
            let found = value.describe();
            let message = format!("expected an input of type {ty}, found {found}");
            misfit(message).help("run it in the interpreter, `--executor interp`")
        };
        let mut flat = Vec::new();
        for (value, ty) in values.iter().zip(&self.params) {
            flat_value(value, *ty, &mut flat).ok_or_else(|| wrong(*ty, value))?;
        }
        expect_one_number_for_each_name(&flat, &self.taken)?;
        let mut encoded = Encoded::default();
        for (value, leaf) in flat.iter().zip(&self.taken) {
            match (value, &leaf.data) {
                (Value::Tensor(tensor), None) if tensor.ty() == leaf.ty => {
                    encoded.tensors.push(tensor.clone());
                }
                (_, Some(data)) => encoded.columns.extend(data.write(value)?),
                _ => return Err(wrong(leaf.ty, value).into()),
            }
        }
        Ok(encoded)
    }

    /// What the program gave: `tensors` are those that are no part of data, and `columns` the data, in
    /// `block`.
    ///
    /// # Errors
    /// When they are not what the types say.
    pub(crate) fn decode(
        &self,
        tensors: Vec<TensorData>,
        columns: &[(&[u8], usize)],
        block: &[u8],
    ) -> Result<Value, Diagnostics> {
        let wrong = || misfit(format!("the result is no {}", self.result));
        let (mut tensors, mut columns) = (tensors.into_iter(), columns);
        let mut flat = Vec::with_capacity(self.given.len());
        for leaf in &self.given {
            flat.push(match &leaf.data {
                None => Value::Tensor(tensors.next().ok_or_else(wrong)?),
                Some(data) => {
                    let count = data.layout.columns.len();
                    let (own, rest) = columns.split_at_checked(count).ok_or_else(wrong)?;
                    columns = rest;
                    data.read_in(own, block).map_err(|message| wrong().note(message))?
                }
            });
        }
        whole_value(self.result, &mut flat.into_iter()).ok_or_else(|| wrong().into())
    }
}
