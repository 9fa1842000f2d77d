//! What the conversion of an operator looks at and makes: one node, its operands and attributes.

use std::cell::Cell;

use ir_core::{AttrDict, AttrValue, DType, Dim, OpId, Scalar, TensorData, TensorType, Type};

use crate::Options;
use crate::importer::{Element, Fault, Importer, Recursion, Value};
use crate::proto::{Attribute, AttributeValue, Graph, Node};
use crate::tensors::{scalar, vector};

/// A node while it is converted.
pub(crate) struct Cx<'c, 'a> {
    importer: &'c mut Importer<'a>,
    node: &'c Node<'a>,
    inputs: Vec<Option<Value>>,
    /// How many operands were looked at, from the first to the last of them.
    seen: Cell<usize>,
}

/// The start of a dictionary of attributes.
pub(crate) fn attrs() -> AttrDict {
    AttrDict::empty()
}

/// A dictionary of one attribute.
pub(crate) fn attr<T: AttrValue>(name: &str, value: T) -> AttrDict {
    attrs().with(name, &value)
}

impl<'c, 'a> Cx<'c, 'a> {
    pub(crate) fn new(
        importer: &'c mut Importer<'a>,
        node: &'c Node<'a>,
        inputs: Vec<Option<Value>>,
    ) -> Cx<'c, 'a> {
        Cx { importer, node, inputs, seen: Cell::new(0) }
    }

    /// Refuses operands that nobody looked at: the operator has none such.
    pub(crate) fn check_operands(&self) -> Result<(), Fault> {
        let seen = self.seen.get();
        match self.inputs.iter().skip(seen).any(Option::is_some) {
            false => Ok(()),
            true => {
                let found = self.inputs.len();
                Err(format!("expected at most {seen} operands, found {found}").into())
            }
        }
    }

    /// How many nodes without a seed drew random numbers before this one, which is one of them.
    pub(crate) fn count_draw(&mut self) -> u64 {
        self.importer.draws += 1;
        self.importer.draws - 1
    }

    /// The version of the operator set.
    pub(crate) fn opset(&self) -> i64 {
        self.importer.opset
    }

    // ---- operands --------------------------------------------------------------------------

    /// Operand `index`.
    pub(crate) fn input(&self, index: usize) -> Result<Value, Fault> {
        self.optional(index).ok_or_else(|| Fault::Message(format!("operand {index} is missing")))
    }

    /// Operand `index`, where it is there.
    pub(crate) fn optional(&self, index: usize) -> Option<Value> {
        self.seen.set(self.seen.get().max(index.saturating_add(1)));
        self.inputs.get(index).cloned().flatten()
    }

    /// All operands, none left out.
    pub(crate) fn all_inputs(&self) -> Result<Vec<Value>, Fault> {
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// Number of operands, those that are left out included.
    pub(crate) fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of results that the node names.
    pub(crate) fn output_count(&self) -> usize {
        self.node.outputs.len()
    }

    /// Whether result `index` is wanted.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.node.outputs.get(index).is_some_and(|name| !name.is_empty())
    }

    /// The type of a tensor.
    pub(crate) fn ty(&self, value: &Value) -> Result<&'static TensorType, Fault> {
        Ok(self.importer.tensor(value)?)
    }

    /// The element type of a tensor.
    pub(crate) fn dtype(&self, value: &Value) -> Result<DType, Fault> {
        Ok(self.ty(value)?.dtype)
    }

    /// The rank of a tensor.
    pub(crate) fn rank(&self, value: &Value) -> Result<usize, Fault> {
        Ok(self.ty(value)?.rank())
    }

    /// The extents of a tensor, all known.
    pub(crate) fn shape(&self, value: &Value) -> Result<Vec<i64>, Fault> {
        let ty = self.importer.ty(value);
        match self.ty(value)?.known_shape() {
            Some(shape) => Ok(shape.to_vec()),
            None => Err(Fault::Open(format!("expected known extents, found {ty}"))),
        }
    }

    /// The extents of an operand from axis 2 on, all known.
    pub(crate) fn spatial(&self, value: &Value) -> Result<Vec<i64>, Fault> {
        let ty = self.ty(value)?;
        let dims = ty.shape.iter().skip(2).map(|dim| dim.known());
        let Some(extents) = dims.collect::<Option<Vec<i64>>>() else {
            let ty = self.importer.ty(value);
            return Err(Fault::Open(format!("expected known spatial extents, found {ty}")));
        };
        // Products of two fit 64 bits.
        bounded("spatial extents", &extents, 0)?;
        Ok(extents)
    }

    /// The constant behind a value.
    pub(crate) fn constant<'v>(&self, value: &'v Value) -> Option<&'v TensorData> {
        match value {
            Value::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The elements of a sequence.
    pub(crate) fn sequence(&mut self, value: &Value) -> Result<Vec<Value>, Fault> {
        Ok(self.importer.sequence(value)?)
    }

    /// Whether a value is a sequence.
    pub(crate) fn is_sequence(&self, value: &Value) -> bool {
        self.importer.ty(value).as_tuple().is_some() || self.is_list(value)
    }

    /// Whether a value is a sequence whose length is not known.
    pub(crate) fn is_list(&self, value: &Value) -> bool {
        self.importer.element(value).is_some()
    }

    /// What makes lists, and functions on them.
    pub(crate) fn importer(&mut self) -> &mut Importer<'a> {
        self.importer
    }

    /// The integers of a constant.
    pub(crate) fn known_ints(&self, value: &Value) -> Option<Vec<i64>> {
        self.constant(value).map(TensorData::to_i64)
    }

    /// The integers of optional operand `index`, an error where it is no constant.
    pub(crate) fn int_operand(&self, index: usize, name: &str) -> Result<Option<Vec<i64>>, Fault> {
        match self.optional(index) {
            None => Ok(None),
            Some(value) => match self.known_ints(&value) {
                Some(ints) => Ok(Some(ints)),
                None => Err(format!("expected a constant as `{name}`").into()),
            },
        }
    }

    /// The integers of attribute `name`, or from opset `since` on of operand `index`.
    pub(crate) fn ints_since(
        &self,
        since: i64,
        index: usize,
        name: &str,
    ) -> Result<Option<Vec<i64>>, Fault> {
        if self.opset() < since { self.ints(name) } else { self.int_operand(index, name) }
    }

    /// What is known about the elements of a vector of integers.
    pub(crate) fn elements(&self, value: &Value) -> Option<Vec<Element>> {
        self.importer.elements(value)
    }

    /// Remembers what is known about the elements of `value`.
    pub(crate) fn with_elements(&mut self, value: Value, elements: Vec<Element>) -> Value {
        self.importer.with_elements(value, elements)
    }

    // ---- attributes ------------------------------------------------------------------------

    fn attribute(&self, name: &str) -> Option<&'c Attribute<'a>> {
        self.node.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Whether the node has an attribute of this name.
    pub(crate) fn has_attribute(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    fn wrong<T>(attribute: &Attribute<'_>, expected: &str) -> Result<T, Fault> {
        let found = match &attribute.value {
            AttributeValue::None => "nothing",
            AttributeValue::Float(_) => "a float",
            AttributeValue::Int(_) => "an integer",
            AttributeValue::String(_) => "a string",
            AttributeValue::Tensor(_) => "a tensor",
            AttributeValue::Graph(_) => "a graph",
            AttributeValue::Floats(_) => "floats",
            AttributeValue::Ints(_) => "integers",
            AttributeValue::Strings(_) => "strings",
            AttributeValue::Sparse(_) => "a sparse tensor",
            AttributeValue::Reference(_) => "an attribute of a function, outside of functions",
            AttributeValue::Other(found) => found,
        };
        let (name, offset) = (attribute.name, attribute.offset);
        Err(format!("attribute `{name}`, at byte {offset}: expected {expected}, found {found}")
            .into())
    }

    /// An integer attribute, where it is there.
    pub(crate) fn int_if(&self, name: &str) -> Result<Option<i64>, Fault> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match attribute.value {
                AttributeValue::Int(value) => Ok(Some(value)),
                _ => Self::wrong(attribute, "an integer"),
            },
        }
    }

    /// An integer attribute.
    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64, Fault> {
        Ok(self.int_if(name)?.unwrap_or(default))
    }

    /// An integer attribute that must be there.
    pub(crate) fn required_int(&self, name: &str) -> Result<i64, Fault> {
        self.int_if(name)?.ok_or_else(|| Fault::Message(format!("attribute `{name}` is missing")))
    }

    /// An integer attribute that is 0 or 1.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Fault> {
        Ok(self.int(name, default.into())? != 0)
    }

    /// A float attribute.
    pub(crate) fn float(&self, name: &str, default: f64) -> Result<f64, Fault> {
        Ok(self.float_if(name)?.unwrap_or(default))
    }

    /// A float attribute, where it is there.
    pub(crate) fn float_if(&self, name: &str) -> Result<Option<f64>, Fault> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match attribute.value {
                AttributeValue::Float(value) => Ok(Some(value.into())),
                AttributeValue::Int(value) => Ok(Some(value as f64)),
                _ => Self::wrong(attribute, "a float"),
            },
        }
    }

    /// A text attribute.
    pub(crate) fn text(&self, name: &str, default: &'static str) -> Result<&'a str, Fault> {
        match self.attribute(name) {
            None => Ok(default),
            Some(attribute) => match &attribute.value {
                AttributeValue::String(bytes) => std::str::from_utf8(bytes)
                    .or_else(|_| Self::wrong(attribute, "a text in UTF-8")),
                _ => Self::wrong(attribute, "a string"),
            },
        }
    }

    /// A list of integers.
    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, Fault> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match &attribute.value {
                AttributeValue::Ints(values) => Ok(Some(values.clone())),
                AttributeValue::Int(value) => Ok(Some(vec![*value])),
                _ => Self::wrong(attribute, "integers"),
            },
        }
    }

    /// A list of floats.
    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f64>>, Fault> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match &attribute.value {
                AttributeValue::Floats(values) => {
                    Ok(Some(values.iter().map(|value| f64::from(*value)).collect()))
                }
                _ => Self::wrong(attribute, "floats"),
            },
        }
    }

    /// A list of names of values.
    pub(crate) fn names(&self, name: &str) -> Result<Vec<&'a str>, Fault> {
        let Some(attribute) = self.attribute(name) else { return Ok(vec![]) };
        let AttributeValue::Strings(values) = &attribute.value else {
            return Self::wrong(attribute, "strings");
        };
        let names = values.iter().map(|bytes| std::str::from_utf8(bytes));
        names.collect::<Result<_, _>>().or_else(|_| Self::wrong(attribute, "texts in UTF-8"))
    }

    /// A list of texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Fault> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match &attribute.value {
                AttributeValue::Strings(values) => {
                    let text = |bytes: &&[u8]| String::from_utf8_lossy(bytes).into_owned();
                    Ok(Some(values.iter().map(text).collect()))
                }
                _ => Self::wrong(attribute, "strings"),
            },
        }
    }

    /// A tensor attribute, where it is there.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Option<TensorData>, Fault> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match &attribute.value {
                AttributeValue::Tensor(tensor) => Ok(Some(self.importer.load(tensor)?)),
                AttributeValue::Sparse(tensor) => Ok(Some(self.importer.load_sparse(tensor)?)),
                _ => Self::wrong(attribute, "a tensor"),
            },
        }
    }

    /// A tensor attribute of numbers or texts, where it is there.
    pub(crate) fn tensor_value(&mut self, name: &str) -> Result<Option<Value>, Fault> {
        match self.attribute(name).map(|attribute| &attribute.value) {
            Some(AttributeValue::Tensor(tensor)) => Ok(Some(self.importer.load_value(tensor)?)),
            _ => Ok(self.tensor(name)?.map(Value::Constant)),
        }
    }

    /// A graph attribute.
    pub(crate) fn graph(&self, name: &str) -> Result<Graph<'a>, Fault> {
        match self.attribute(name) {
            None => Err(format!("attribute `{name}` is missing").into()),
            Some(attribute) => match &attribute.value {
                AttributeValue::Graph(range) => Ok(Graph::read(self.importer.file, range.clone())?),
                _ => Self::wrong(attribute, "a graph"),
            },
        }
    }

    /// The element type that attribute `name` gives by its number.
    pub(crate) fn element_type(&self, name: &str) -> Result<Option<DType>, Fault> {
        match self.int_if(name)? {
            None => Ok(None),
            Some(number) => Ok(Some(crate::tensors::element_type(number)?)),
        }
    }

    /// Attribute `axis`, counted from the front.
    pub(crate) fn axis(&self, default: i64, rank: usize) -> Result<usize, Fault> {
        from_front(self.int("axis", default)?, rank)
    }

    // ---- results ---------------------------------------------------------------------------

    /// Operator `name` on `operands`.
    pub(crate) fn op(&mut self, name: &str, operands: &[&Value]) -> Result<Value, Fault> {
        self.op_with(name, operands, attrs())
    }

    /// Operator `name` on `operands`, with attributes.
    pub(crate) fn op_with(
        &mut self,
        name: &str,
        operands: &[&Value],
        attrs: AttrDict,
    ) -> Result<Value, Fault> {
        let operands: Vec<Value> = operands.iter().map(|value| (*value).clone()).collect();
        Ok(self.importer.apply(name, &operands, attrs)?)
    }

    /// Operator `name` on a tuple.
    pub(crate) fn op_on_tuple(
        &mut self,
        name: &str,
        fields: &[Value],
        attrs: AttrDict,
    ) -> Result<Value, Fault> {
        Ok(self.importer.apply_to_tuple(name, fields, attrs)?)
    }

    /// The fields of the tuple that operator `name` returns.
    pub(crate) fn fields_of(
        &mut self,
        name: &str,
        operands: &[&Value],
        attrs: AttrDict,
    ) -> Result<Vec<Value>, Fault> {
        let operands: Vec<Value> = operands.iter().map(|value| (*value).clone()).collect();
        Ok(self.importer.apply_for_tuple(name, &operands, attrs)?)
    }

    /// The only operand through operator `name`.
    pub(crate) fn unary(&mut self, name: &str) -> Result<Value, Fault> {
        let data = self.input(0)?;
        self.op(name, &[&data])
    }

    /// Two operands through operator `name`.
    pub(crate) fn binary(&mut self, name: &str) -> Result<Value, Fault> {
        let (lhs, rhs) = (self.input(0)?, self.input(1)?);
        self.op(name, &[&lhs, &rhs])
    }

    /// The scalar `value` of the element type of `like`.
    pub(crate) fn scalar_like(&self, value: f64, like: &Value) -> Result<Value, Fault> {
        Ok(Value::Constant(scalar(self.dtype(like)?, value)))
    }

    /// `value op number`, the number a scalar of its element type.
    pub(crate) fn with_scalar(
        &mut self,
        name: &str,
        value: &Value,
        number: f64,
    ) -> Result<Value, Fault> {
        let number = self.scalar_like(number, value)?;
        self.op(name, &[value, &number])
    }

    /// A constant scalar of an integer type.
    pub(crate) fn int_scalar(&self, dtype: DType, value: i64) -> Value {
        Value::Constant(TensorData::scalar(dtype, Scalar::Int(value)))
    }

    /// A constant vector of `int64`.
    pub(crate) fn int_vector(&self, values: &[i64]) -> Value {
        Value::Constant(vector(values))
    }

    /// A constant of one number.
    pub(crate) fn full(&self, dtype: DType, shape: &[i64], number: f64) -> Result<Value, Fault> {
        let elements =
            shape.iter().try_fold(1usize, |n, dim| n.checked_mul(usize::try_from(*dim).ok()?));
        let elements = elements.filter(|count| *count <= MAX_MADE);
        let Some(elements) = elements else {
            return Err(format!("a constant of shape {shape:?} is too large").into());
        };
        let values = std::iter::repeat_n(Scalar::Float(number), elements);
        let tensor = TensorData::from_scalars(dtype, shape, values);
        Ok(Value::Constant(tensor.map_err(|error| error.to_string())?))
    }

    /// Zeros, which are no constant where they are many.
    pub(crate) fn zeros(&mut self, dtype: DType, shape: &[i64]) -> Result<Value, Fault> {
        self.op_with("zeros", &[], attr("shape", shape.to_vec()).with("dtype", &dtype))
    }

    /// A constant of the element type of `like`.
    pub(crate) fn floats_like(
        &self,
        values: &[f64],
        shape: &[i64],
        like: &Value,
    ) -> Result<Value, Fault> {
        let tensor = TensorData::from_f64(self.dtype(like)?, shape, values);
        Ok(Value::Constant(tensor.map_err(|error| error.to_string())?))
    }

    /// `value` as the result of one operation, however often it is used.
    pub(crate) fn shared(&mut self, value: &Value) -> Value {
        Value::Computed(self.importer.materialize(value))
    }

    pub(crate) fn cast(&mut self, value: &Value, dtype: DType) -> Result<Value, Fault> {
        match self.dtype(value)? == dtype {
            true => Ok(value.clone()),
            false => self.op_with("cast", &[value], attr("dtype", dtype)),
        }
    }

    pub(crate) fn reshape(&mut self, value: &Value, shape: &[i64]) -> Result<Value, Fault> {
        // A constant shares its bytes under any shape.
        if let Value::Constant(tensor) = value
            && let Ok(tensor) = tensor.reshaped(shape)
        {
            return Ok(Value::Constant(tensor));
        }
        self.op_with("reshape", &[value], attr("newshape", shape.to_vec()))
    }

    pub(crate) fn transpose(&mut self, value: &Value, axes: &[i64]) -> Result<Value, Fault> {
        if axes.iter().enumerate().all(|(at, axis)| at as i64 == *axis) {
            return Ok(value.clone());
        }
        self.op_with("transpose", &[value], attr("axes", axes.to_vec()))
    }

    /// `value` without `axes`, which have extent 1.
    pub(crate) fn squeeze(&mut self, value: &Value, axes: &[i64]) -> Result<Value, Fault> {
        if axes.is_empty() {
            return Ok(value.clone());
        }
        if let Value::Constant(tensor) = value {
            let axes = all_from_front(axes, tensor.rank())?;
            let kept = tensor.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
            let shape: Vec<i64> = kept.map(|(_, extent)| *extent).collect();
            if let Ok(tensor) = tensor.reshaped(&shape) {
                return Ok(Value::Constant(tensor));
            }
        }
        self.op_with("squeeze", &[value], attr("axis", axes.to_vec()))
    }

    pub(crate) fn expand_dims(&mut self, value: &Value, axis: i64) -> Result<Value, Fault> {
        if let (Value::Constant(tensor), Ok(place)) = (value, usize::try_from(axis))
            && place <= tensor.rank()
        {
            let mut shape = tensor.shape().to_vec();
            shape.insert(place, 1);
            if let Ok(tensor) = tensor.reshaped(&shape) {
                return Ok(Value::Constant(tensor));
            }
        }
        self.op_with("expand_dims", &[value], attr("axis", axis))
    }

    pub(crate) fn concatenate(&mut self, parts: &[Value], axis: i64) -> Result<Value, Fault> {
        match parts {
            [one] => Ok(one.clone()),
            _ => self.op_on_tuple("concatenate", parts, attr("axis", axis)),
        }
    }

    /// `rows` of code points with zeros up to `length` columns.
    pub(crate) fn lengthened(&mut self, rows: &Value, length: i64) -> Result<Value, Fault> {
        Ok(self.importer.lengthened(rows, length)?)
    }

    /// `count` equal parts along `axis`.
    pub(crate) fn split(
        &mut self,
        value: &Value,
        count: i64,
        axis: i64,
    ) -> Result<Vec<Value>, Fault> {
        match count {
            1 => Ok(vec![value.clone()]),
            _ => {
                let attrs = attr("indices_or_sections", count).with("axis", &axis);
                self.fields_of("split", &[value], attrs)
            }
        }
    }

    /// The type of `value`.
    pub(crate) fn ty_of(&self, value: &Value) -> Type {
        self.importer.ty(value)
    }

    /// The shape of `value` as a vector of `int64`, elements known as far as possible.
    pub(crate) fn shape_of(&mut self, value: &Value) -> Result<Value, Fault> {
        let ty = self.ty(value)?;
        if let Some(shape) = ty.known_shape() {
            return Ok(self.int_vector(&shape));
        }
        let vector = self.op_with("shape_of", &[value], attr("dtype", DType::INT64))?;
        let Value::Computed(id) = value else { return Ok(vector) };
        let elements = ty.shape.iter().enumerate().map(|(axis, dim)| match dim {
            Dim::Known(extent) => Element::Known(*extent),
            _ => Element::Extent(*id, axis),
        });
        Ok(self.importer.with_elements(vector, elements.collect()))
    }

    /// The results of a graph inside the node, computed here.
    pub(crate) fn inline(
        &mut self,
        graph: &Graph<'a>,
        arguments: &[Value],
    ) -> Result<Vec<Value>, Fault> {
        self.importer.inline(graph, arguments)
    }

    /// The results of one of two graphs.
    pub(crate) fn branch(
        &mut self,
        condition: &Value,
        graphs: [&Graph<'a>; 2],
    ) -> Result<Vec<Value>, Fault> {
        self.importer.branch(condition, graphs)
    }

    /// The gradient of the value `y` of the graph around the node by its values `xs`.
    pub(crate) fn gradient(
        &mut self,
        xs: Vec<(&'a str, Value)>,
        others: Vec<(&'a str, Value)>,
        y: &'a str,
    ) -> Result<Vec<Value>, Fault> {
        self.importer.gradient(xs, others, y)
    }

    /// How the model is imported.
    pub(crate) fn options(&self) -> &Options {
        self.importer.options()
    }

    // ---- recursive functions ---------------------------------------------------------------

    /// Begins a function of a state of these types.
    pub(crate) fn begin_recursion(&mut self, types: &[Type]) -> Recursion {
        self.importer.begin_recursion(types)
    }

    /// Goes on in it where `condition` holds.
    pub(crate) fn begin_step(&mut self, recursion: &mut Recursion, condition: &Value) {
        self.importer.begin_step(recursion, condition);
    }

    /// Types that hold its state and `next`, where its own do not.
    pub(crate) fn wider(
        &self,
        recursion: &Recursion,
        next: &[Value],
    ) -> Result<Option<Vec<Type>>, Fault> {
        self.importer.wider(recursion, next)
    }

    /// Ends it, and gives the last state of those that begin with `first`.
    pub(crate) fn end_recursion(
        &mut self,
        recursion: Recursion,
        first: &[Value],
        next: &[Value],
    ) -> Vec<Value> {
        self.importer.end_recursion(recursion, first, next)
    }

    /// Takes it back.
    pub(crate) fn abandon_recursion(&mut self, recursion: Recursion) {
        self.importer.abandon_recursion(recursion);
    }

    /// The place where operations go.
    pub(crate) fn mark(&self) -> Option<OpId> {
        self.importer.mark()
    }

    /// What `convert` gives; where that is an error, all is as before.
    pub(crate) fn attempt<T>(
        &mut self,
        convert: impl FnOnce(&mut Cx<'c, 'a>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let state = self.importer.state();
        let result = convert(self);
        if result.is_err() {
            self.importer.restore(state);
        }
        result
    }

    /// Takes back all operations since `mark`.
    pub(crate) fn roll_back(&mut self, mark: Option<OpId>) {
        self.importer.roll_back(mark);
    }
}

/// Constants that are made up here have at most this many elements.
const MAX_MADE: usize = 1 << 22;

/// Requires numbers from `least` to those of 32 bits, of which products fit.
pub(crate) fn bounded(name: &str, values: &[i64], least: i64) -> Result<(), Fault> {
    match values.iter().find(|value| !(least..=i64::from(i32::MAX)).contains(value)) {
        None => Ok(()),
        Some(value) => Err(format!("expected `{name}` of at least {least}, found {value}").into()),
    }
}

/// Requires so few elements that a constant may have them: sizes that a model names are its own.
pub(crate) fn few(name: &str, counts: &[i64]) -> Result<(), Fault> {
    let product = counts.iter().try_fold(1i64, |all, count| all.checked_mul(*count));
    let is_few = product.is_some_and(|product| (0..=MAX_MADE as i64).contains(&product));
    match is_few && counts.iter().all(|count| *count >= 0) {
        true => Ok(()),
        false => Err(format!("expected at most {MAX_MADE} {name}, found {counts:?}").into()),
    }
}

/// An axis counted from the front.
pub(crate) fn from_front(axis: i64, rank: usize) -> Result<usize, Fault> {
    let counted = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    match counted.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < rank) {
        Some(axis) => Ok(axis),
        None => Err(format!("expected an axis below {rank}, found {axis}").into()),
    }
}

/// Axes counted from the front.
pub(crate) fn all_from_front(axes: &[i64], rank: usize) -> Result<Vec<usize>, Fault> {
    axes.iter().map(|axis| from_front(*axis, rank)).collect()
}
