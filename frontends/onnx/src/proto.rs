//! The messages of an ONNX file, as far as they matter here.
//!
//! Names are texts of the file, elements are places in it: reading a message copies nothing large.
//! A graph inside an attribute stays a place until someone reads it with [`Graph::read`].

use std::borrow::Cow;
use std::ops::Range;

use crate::wire::{Field, Reader, WireError};

/// A model: a graph and what it means.
#[derive(Clone, Default, Debug)]
pub(crate) struct Model<'a> {
    /// Version of the file format.
    pub ir_version: i64,
    /// What wrote the file.
    pub producer_name: &'a str,
    /// Its version.
    pub producer_version: &'a str,
    /// The operator sets in use: domain and version.
    pub opsets: Vec<(&'a str, i64)>,
    /// The graph.
    pub graph: Option<Graph<'a>>,
    /// The functions that the model declares.
    pub functions: Vec<Function<'a>>,
}

/// An operator that the model itself says how to compute.
#[derive(Clone, Default, Debug)]
pub(crate) struct Function<'a> {
    /// Name, as that of an operator.
    pub name: &'a str,
    /// Operator set; the default one is empty.
    pub domain: &'a str,
    /// Which of several functions of that name it is; mostly empty.
    pub overload: &'a str,
    /// Its nodes; inputs and outputs have names alone.
    pub graph: Graph<'a>,
    /// Attributes that a node may leave out.
    pub defaults: Vec<Attribute<'a>>,
    /// The operator sets in use, where they are not those of the model.
    pub opsets: Vec<(&'a str, i64)>,
}

/// Nodes in the order of their computation, and what they start from.
#[derive(Clone, Default, Debug)]
pub(crate) struct Graph<'a> {
    /// Name.
    pub name: &'a str,
    /// The nodes.
    pub nodes: Vec<Node<'a>>,
    /// Constants by name.
    pub initializers: Vec<Tensor<'a>>,
    /// Sparse constants; the name of one is that of its elements.
    pub sparse_initializers: Vec<SparseTensor<'a>>,
    /// Inputs; of an old file, the initializers are among them.
    pub inputs: Vec<ValueInfo<'a>>,
    /// Outputs.
    pub outputs: Vec<ValueInfo<'a>>,
}

/// An application of an operator.
#[derive(Clone, Default, Debug)]
pub(crate) struct Node<'a> {
    /// Place of the message in the file.
    pub offset: usize,
    /// Name; often empty.
    pub name: &'a str,
    /// Operator.
    pub op_type: &'a str,
    /// Operator set; the default one is empty.
    pub domain: &'a str,
    /// Which of several functions of the model it applies; mostly empty.
    pub overload: &'a str,
    /// Names of the operands; an empty one is left out.
    pub inputs: Vec<&'a str>,
    /// Names of the results; an empty one is not wanted.
    pub outputs: Vec<&'a str>,
    /// Attributes.
    pub attributes: Vec<Attribute<'a>>,
}

/// An attribute of a node.
#[derive(Clone, Default, Debug)]
pub(crate) struct Attribute<'a> {
    /// Place of the message in the file.
    pub offset: usize,
    /// Name.
    pub name: &'a str,
    /// The value.
    pub value: AttributeValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Default, Debug)]
pub(crate) enum AttributeValue<'a> {
    /// Nothing that is known here.
    #[default]
    None,
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Bytes, mostly a text.
    String(&'a [u8]),
    /// A tensor.
    Tensor(Tensor<'a>),
    /// The place of a graph.
    Graph(Range<usize>),
    /// A list of floats.
    Floats(Vec<f32>),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of texts.
    Strings(Vec<&'a [u8]>),
    /// A sparse tensor.
    Sparse(SparseTensor<'a>),
    /// The attribute of this name that the enclosing function was given.
    Reference(&'a str),
    /// Something without a meaning here: what it is.
    Other(&'static str),
}

/// A tensor; its elements stay where they are.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tensor<'a> {
    /// Place of the message in the file.
    pub range: Range<usize>,
    /// Name.
    pub name: &'a str,
    /// Extents.
    pub dims: Vec<i64>,
    /// Number of the element type.
    pub data_type: i64,
    /// Place of the elements as bytes.
    pub raw: Option<Range<usize>>,
    /// Whether the elements stand in another file.
    pub is_external: bool,
    /// Where there: keys and values.
    pub external: Vec<(&'a str, &'a str)>,
}

/// The number of an element type, and extents where the rank is known.
type TensorInfo<'a> = (i64, Option<Vec<Extent<'a>>>);

/// A tensor of which only some elements are not zero.
#[derive(Clone, Default, Debug)]
pub(crate) struct SparseTensor<'a> {
    /// Place of the message in the file.
    pub offset: usize,
    /// These elements, a vector.
    pub values: Tensor<'a>,
    /// Where they stand: places in row-major order, or a row of indices each.
    pub indices: Tensor<'a>,
    /// Extents of the whole.
    pub dims: Vec<i64>,
}

/// A name and its type.
#[derive(Clone, Default, Debug)]
pub(crate) struct ValueInfo<'a> {
    /// Place of the message in the file.
    pub offset: usize,
    /// Name.
    pub name: &'a str,
    /// Type, where one is given.
    pub ty: ValueType<'a>,
}

/// The type of a value.
#[derive(Clone, Default, Debug)]
pub(crate) enum ValueType<'a> {
    /// None is given.
    #[default]
    Unknown,
    /// A tensor: the number of its element type, and its extents where its rank is known.
    Tensor(i64, Option<Vec<Extent<'a>>>),
    /// Any number of tensors: as of one.
    Sequence(i64, Option<Vec<Extent<'a>>>),
    /// Any number of maps from one key each to a number.
    Maps,
    /// A value of this type, or none.
    Optional(Box<ValueType<'a>>),
    /// Something that is no tensor: what it is.
    Other(&'static str),
}

/// An extent in a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent<'a> {
    /// A number, at least 0.
    Known(i64),
    /// A name that stands for a number, not empty.
    Named(&'a str),
    /// Nothing is known.
    Unknown,
}

impl<'a> Extent<'a> {
    /// Some exporters write -1 for what is not known.
    fn of_number(number: i64) -> Extent<'a> {
        if number < 0 { Extent::Unknown } else { Extent::Known(number) }
    }

    /// Some exporters call all that they do not know `?`, though no two of these need be equal.
    fn of_name(name: &'a str) -> Extent<'a> {
        if matches!(name, "" | "?") { Extent::Unknown } else { Extent::Named(name) }
    }

    /// By what name the extent of `axis` of the input `input` may be given: its own, or one that
    /// says where it stands, such as `x.0`. `None` for a number.
    pub(crate) fn name(self, input: &str, axis: usize) -> Option<Cow<'a, str>> {
        match self {
            Extent::Known(_) => None,
            Extent::Named(name) => Some(name.into()),
            Extent::Unknown => Some(format!("{input}.{axis}").into()),
        }
    }
}

type Outcome<T> = Result<T, WireError>;

/// Calls `each` with every field of the message at `range`.
fn fields(
    file: &[u8],
    range: Range<usize>,
    mut each: impl FnMut(&Field) -> Outcome<()>,
) -> Outcome<()> {
    let mut reader = Reader::new(file, range);
    while let Some(field) = reader.field()? {
        each(&field)?;
    }
    Ok(())
}

impl<'a> Model<'a> {
    /// Reads a whole file.
    ///
    /// # Errors
    /// Where it is no model.
    pub(crate) fn read(file: &'a [u8]) -> Outcome<Model<'a>> {
        let mut model = Model::default();
        fields(file, 0..file.len(), |field| {
            match field.number {
                1 => model.ir_version = field.int()?,
                2 => model.producer_name = field.text(file)?,
                3 => model.producer_version = field.text(file)?,
                7 => model.graph = Some(Graph::read(file, field.range()?)?),
                8 => model.opsets.push(opset(file, field.range()?)?),
                25 => model.functions.push(Function::read(file, field)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(model)
    }
}

/// The domain and the version of the operator set at `range`.
fn opset(file: &[u8], range: Range<usize>) -> Outcome<(&str, i64)> {
    let mut opset = ("", 0);
    fields(file, range, |field| {
        match field.number {
            1 => opset.0 = field.text(file)?,
            2 => opset.1 = field.int()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(opset)
}

impl<'a> Function<'a> {
    fn read(file: &'a [u8], field: &Field) -> Outcome<Function<'a>> {
        let mut function = Function::default();
        let named = |field: &Field| -> Outcome<ValueInfo<'a>> {
            let (name, offset) = (field.text(file)?, field.offset);
            Ok(ValueInfo { offset, name, ty: ValueType::Unknown })
        };
        fields(file, field.range()?, |field| {
            let graph = &mut function.graph;
            match field.number {
                1 => function.name = field.text(file)?,
                4 => graph.inputs.push(named(field)?),
                5 => graph.outputs.push(named(field)?),
                7 => graph.nodes.push(Node::read(file, field)?),
                9 => function.opsets.push(opset(file, field.range()?)?),
                10 => function.domain = field.text(file)?,
                11 => function.defaults.push(Attribute::read(file, field)?),
                13 => function.overload = field.text(file)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(function)
    }

    /// What a node says that applies it.
    pub(crate) fn key(&self) -> FunctionKey<'a> {
        (of_default(self.domain), self.name, self.overload)
    }
}

/// Which function a node may apply: operator set, name, and which of that name.
pub(crate) type FunctionKey<'a> = (&'a str, &'a str, &'a str);

/// The operator set `domain`, where the default one has one name.
fn of_default(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

impl<'a> Graph<'a> {
    /// Reads the graph at `range`.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn read(file: &'a [u8], range: Range<usize>) -> Outcome<Graph<'a>> {
        let mut graph = Graph::default();
        fields(file, range, |field| {
            match field.number {
                1 => graph.nodes.push(Node::read(file, field)?),
                2 => graph.name = field.text(file)?,
                5 => graph.initializers.push(Tensor::read(file, field.range()?)?),
                11 => graph.inputs.push(ValueInfo::read(file, field)?),
                12 => graph.outputs.push(ValueInfo::read(file, field)?),
                15 => graph.sparse_initializers.push(SparseTensor::read(file, field)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(graph)
    }
}

impl<'a> Node<'a> {
    fn read(file: &'a [u8], field: &Field) -> Outcome<Node<'a>> {
        let mut node = Node { offset: field.offset, ..Node::default() };
        fields(file, field.range()?, |field| {
            match field.number {
                1 => node.inputs.push(field.text(file)?),
                2 => node.outputs.push(field.text(file)?),
                3 => node.name = field.text(file)?,
                4 => node.op_type = field.text(file)?,
                5 => node.attributes.push(Attribute::read(file, field)?),
                7 => node.domain = field.text(file)?,
                8 => node.overload = field.text(file)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(node)
    }

    /// What to call the node in messages and locations: its name, else that of its first result.
    pub(crate) fn title(&self) -> &'a str {
        let mut names = [self.name].into_iter().chain(self.outputs.iter().copied());
        names.find(|name| !name.is_empty()).unwrap_or("")
    }

    /// The function of the model that it applies, where there is such a one.
    pub(crate) fn function(&self) -> FunctionKey<'a> {
        (of_default(self.domain), self.op_type, self.overload)
    }

    /// The operator with its operator set where that is not the default one.
    pub(crate) fn operator(&self) -> String {
        match self.domain {
            "" | "ai.onnx" => self.op_type.to_string(),
            domain => format!("{domain}.{}", self.op_type),
        }
    }
}

impl<'a> Attribute<'a> {
    fn read(file: &'a [u8], field: &Field) -> Outcome<Attribute<'a>> {
        use AttributeValue as Value;
        let mut attribute = Attribute { offset: field.offset, ..Attribute::default() };
        // An empty list is absent, so that only the kind tells it.
        let (mut kind, mut reference) = (0, "");
        let (mut float, mut int, mut string) = (None, None, None);
        let (mut tensor, mut graph, mut sparse, mut other) = (None, None, None, None);
        let (mut floats, mut ints, mut strings) = (Vec::new(), Vec::new(), Vec::new());
        fields(file, field.range()?, |field| {
            match field.number {
                1 => attribute.name = field.text(file)?,
                2 => float = Some(field.float()?),
                3 => int = Some(field.int()?),
                4 => string = Some(&file[field.range()?]),
                5 => tensor = Some(Tensor::read(file, field.range()?)?),
                6 => graph = Some(field.range()?),
                7 => field.floats(file, &mut floats)?,
                8 => field.ints(file, &mut ints)?,
                9 => strings.push(&file[field.range()?]),
                10 => other = Some("a list of tensors"),
                11 => other = Some("a list of graphs"),
                14 | 15 => other = Some("a type"),
                20 => kind = field.int()?,
                21 => reference = field.text(file)?,
                22 => sparse = Some(SparseTensor::read(file, field)?),
                23 => other = Some("a list of sparse tensors"),
                _ => {}
            }
            Ok(())
        })?;
        attribute.value = match kind {
            _ if !reference.is_empty() => Value::Reference(reference),
            1 => Value::Float(float.unwrap_or(0.0)),
            2 => Value::Int(int.unwrap_or(0)),
            3 => Value::String(string.unwrap_or_default()),
            4 => tensor.map_or(Value::None, Value::Tensor),
            5 => graph.map_or(Value::None, Value::Graph),
            6 => Value::Floats(floats),
            7 => Value::Ints(ints),
            8 => Value::Strings(strings),
            11 => sparse.map_or(Value::None, Value::Sparse),
            // Files of the first versions give no kind.
            0 => float
                .map(Value::Float)
                .or(int.map(Value::Int))
                .or(string.map(Value::String))
                .or(tensor.map(Value::Tensor))
                .or(graph.map(Value::Graph))
                .or((!floats.is_empty()).then_some(Value::Floats(floats)))
                .or((!ints.is_empty()).then_some(Value::Ints(ints)))
                .or((!strings.is_empty()).then_some(Value::Strings(strings)))
                .or(other.map(Value::Other))
                .unwrap_or_default(),
            _ => Value::Other(other.unwrap_or("a value of an unknown kind")),
        };
        Ok(attribute)
    }
}

impl<'a> Tensor<'a> {
    /// Reads the tensor at `range`.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn read(file: &'a [u8], range: Range<usize>) -> Outcome<Tensor<'a>> {
        let mut tensor = Tensor { range: range.clone(), ..Tensor::default() };
        fields(file, range, |field| {
            match field.number {
                1 => field.ints(file, &mut tensor.dims)?,
                2 => tensor.data_type = field.int()?,
                8 => tensor.name = field.text(file)?,
                9 => tensor.raw = Some(field.range()?),
                13 => {
                    let mut entry = ("", "");
                    fields(file, field.range()?, |field| {
                        match field.number {
                            1 => entry.0 = field.text(file)?,
                            2 => entry.1 = field.text(file)?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    tensor.external.push(entry);
                }
                14 => tensor.is_external = field.int()? == 1,
                _ => {}
            }
            Ok(())
        })?;
        Ok(tensor)
    }
}

impl<'a> SparseTensor<'a> {
    fn read(file: &'a [u8], field: &Field) -> Outcome<SparseTensor<'a>> {
        let mut tensor = SparseTensor { offset: field.offset, ..SparseTensor::default() };
        fields(file, field.range()?, |field| {
            match field.number {
                1 => tensor.values = Tensor::read(file, field.range()?)?,
                2 => tensor.indices = Tensor::read(file, field.range()?)?,
                3 => field.ints(file, &mut tensor.dims)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(tensor)
    }
}

impl<'a> ValueInfo<'a> {
    fn read(file: &'a [u8], field: &Field) -> Outcome<ValueInfo<'a>> {
        let mut info = ValueInfo { offset: field.offset, ..ValueInfo::default() };
        fields(file, field.range()?, |field| {
            match field.number {
                1 => info.name = field.text(file)?,
                2 => info.ty = ValueType::read(file, field.range()?)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(info)
    }
}

impl<'a> ValueType<'a> {
    fn read(file: &'a [u8], range: Range<usize>) -> Outcome<ValueType<'a>> {
        // Types nest as a file likes; what is optional twice, or a sequence of sequences, is not read.
        let (mut range, mut is_optional) = (range, false);
        loop {
            let (ty, inner) = ValueType::read_one(file, range)?;
            match (ty, inner) {
                (ValueType::Optional(_), Some(inner)) if !is_optional => {
                    (range, is_optional) = (inner, true);
                }
                (ValueType::Optional(_), _) => return Ok(ValueType::Other("an optional value")),
                (ty, _) if is_optional => return Ok(ValueType::Optional(Box::new(ty))),
                (ty, _) => return Ok(ty),
            }
        }
    }

    /// The type at `range`; of an optional one, where the type of its value stands.
    fn read_one(
        file: &'a [u8],
        range: Range<usize>,
    ) -> Outcome<(ValueType<'a>, Option<Range<usize>>)> {
        let (mut ty, mut inner) = (ValueType::Unknown, None);
        fields(file, range, |field| {
            match field.number {
                1 => {
                    let (element, shape) = tensor_type(file, field.range()?)?;
                    ty = ValueType::Tensor(element, shape);
                }
                4 => ty = sequence_type(file, field.range()?)?,
                5 => ty = ValueType::Other("a map"),
                7 => ty = ValueType::Other("an opaque value"),
                8 => ty = ValueType::Other("a sparse tensor"),
                9 => {
                    ty = ValueType::Optional(Box::default());
                    fields(file, field.range()?, |field| {
                        if field.number == 1 {
                            inner = Some(field.range()?);
                        }
                        Ok(())
                    })?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok((ty, inner))
    }
}

/// The number of the element type of the tensor type at `range`, and its extents.
fn tensor_type<'a>(file: &'a [u8], range: Range<usize>) -> Outcome<TensorInfo<'a>> {
    let (mut element, mut shape) = (0, None);
    fields(file, range, |field| {
        match field.number {
            1 => element = field.int()?,
            2 => shape = Some(read_shape(file, field.range()?)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok((element, shape))
}

/// The sequence type at `range`.
fn sequence_type<'a>(file: &'a [u8], range: Range<usize>) -> Outcome<ValueType<'a>> {
    let mut ty = ValueType::Other("a sequence of other values than tensors and maps");
    fields(file, range, |field| {
        if field.number == 1 {
            fields(file, field.range()?, |field| {
                match field.number {
                    1 => {
                        let (element, extents) = tensor_type(file, field.range()?)?;
                        ty = ValueType::Sequence(element, extents);
                    }
                    5 => ty = ValueType::Maps,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(ty)
}

fn read_shape<'a>(file: &'a [u8], range: Range<usize>) -> Outcome<Vec<Extent<'a>>> {
    let mut shape = Vec::new();
    fields(file, range, |field| {
        if field.number == 1 {
            let mut extent = Extent::Unknown;
            fields(file, field.range()?, |field| {
                match field.number {
                    1 => extent = Extent::of_number(field.int()?),
                    2 => extent = Extent::of_name(field.text(file)?),
                    _ => {}
                }
                Ok(())
            })?;
            shape.push(extent);
        }
        Ok(())
    })?;
    Ok(shape)
}
