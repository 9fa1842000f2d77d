//! Data as columns: how data comes into a program, and out of it.
//!
//! Data is walked over in pre-order: each node before what it consists of, fields in order. The first
//! column has the number of the constructor of each node that is data. Every field of a constructor that
//! is a tensor has a column of its own: that field of all nodes of the constructor, in the order of the
//! walk. So there are as many columns as the *types* of fields ask for, however many nodes there are.
//! Cells are nodes, too, whose fields are what they hold; they have no number.
//!
//! What the nodes are is left to a [`Source`] and a [`Sink`], so that values of the language, of the
//! interpreter of whole programs, and types before and after lowering have the same columns.

use indexmap::IndexMap;
use ir_core::{DType, Dim, Module, Symbol, TensorData, Type};
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::data::Declaration;
use crate::{MOST_OPEN_AXES, contents, is_open, opened};

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// What it is called: `tags`, or the constructor and the field, such as `Node.0`.
    pub name: String,
    /// The type of an element.
    pub ty: Type,
}

/// Where the extents of a tensor of unknown extents start before its elements, each in 8 bytes.
pub const EXTENTS: usize = 8 * MOST_OPEN_AXES;

impl Column {
    /// The type of a column of so many elements.
    pub fn type_of(&self, count: Dim) -> Type {
        let tensor = self.ty.as_tensor().expect("elements of columns are tensors");
        Type::tensor(std::iter::once(count).chain(tensor.shape.iter().copied()), tensor.dtype)
    }

    /// The bytes of an element. That of a tensor whose extents are not known is the number of the byte in
    /// the program's block at which its elements start, behind its [extents](EXTENTS).
    pub fn bytes(&self) -> usize {
        if is_open(self.ty) {
            return size_of::<u64>();
        }
        let tensor = self.ty.as_tensor();
        let bytes = tensor
            .and_then(|tensor| ir_core::tensor::tensor_bytes(&tensor.known_shape()?, tensor.dtype));
        bytes.expect("elements of columns have known extents")
    }
}

/// A field of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A tensor, in that column.
    Tensor(usize),
    /// A node of that sort.
    Node(usize),
}

/// Nodes of one type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sort {
    /// Their type.
    pub ty: Type,
    /// Whether they are cells, which have one constructor and no number for it.
    pub is_cell: bool,
    /// By constructor: its fields.
    pub constructors: Vec<Vec<Part>>,
}

/// The columns of one value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The sorts of its nodes; the value is of the first.
    pub sorts: Vec<Sort>,
    /// Its columns; the first has the numbers of constructors.
    pub columns: Vec<Column>,
}

/// What nodes of a type consist of.
#[derive(Clone, Debug)]
pub struct Described {
    /// Whether they are cells.
    pub is_cell: bool,
    /// By constructor: its name, and the names and types of its fields.
    pub constructors: Vec<(String, Vec<(String, Type)>)>,
}

/// The values of a column.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filled {
    /// Its elements, one behind the other.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub count: usize,
}

/// What nodes are read from.
pub trait Source {
    /// A node or a tensor.
    type Value: Clone;
    /// Why one is not what its type says.
    type Error;
    /// The number of the constructor of a node of sort number `sort`, and its fields.
    ///
    /// # Errors
    /// Where it is no such node.
    fn open(
        &self,
        node: &Self::Value,
        sort: usize,
    ) -> Result<(usize, Vec<Self::Value>), Self::Error>;
    /// A value that is a tensor of type `ty`, whose extents are not all known.
    ///
    /// # Errors
    /// Where it is no such tensor.
    fn whole(&self, tensor: &Self::Value, ty: Type) -> Result<TensorData, Self::Error>;
    /// Adds the elements of a tensor of type `ty` to `bytes`.
    ///
    /// # Errors
    /// Where it is no such tensor.
    fn tensor(
        &self,
        tensor: &Self::Value,
        ty: Type,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Self::Error>;
}

/// What makes nodes.
pub trait Sink {
    /// A node or a tensor.
    type Value;
    /// A value that is a tensor whose extents were not known.
    fn whole(&mut self, tensor: TensorData) -> Self::Value;
    /// A tensor of type `ty` with these elements; `None` where there is none.
    fn tensor(&mut self, ty: Type, bytes: &[u8]) -> Option<Self::Value>;
    /// A node of sort number `sort` by constructor number `tag`; `None` where there is none.
    fn node(&mut self, sort: usize, tag: usize, fields: Vec<Self::Value>) -> Option<Self::Value>;
}

/// A node that is being read.
struct Open<V> {
    sort: usize,
    tag: usize,
    /// Its fields, as far as they are there; tensors are read at once.
    fields: Vec<Option<V>>,
    /// The nodes among them that are not, the last first.
    left: Vec<(usize, usize)>,
}

impl Layout {
    /// The columns of a value of type `root`, by what `describe` says of types that are no tensors.
    /// `None` where it says nothing, and of tensors of unknown extents.
    pub fn new(root: Type, describe: impl FnMut(Type) -> Option<Described>) -> Option<Layout> {
        Layout::with(root, false, describe)
    }

    /// The same; where `open` says so, with tensors of unknown extents in data.
    pub fn with(
        root: Type,
        open: bool,
        mut describe: impl FnMut(Type) -> Option<Described>,
    ) -> Option<Layout> {
        if is_open(root) {
            return Some(Layout::of_tensor(root));
        }
        let tags = Column { name: "tags".to_string(), ty: Type::scalar(DType::INT64) };
        let mut names = FxHashSet::from_iter([tags.name.clone()]);
        let mut columns = vec![tags];
        let mut sorts: IndexMap<Type, Sort, FxBuildHasher> = IndexMap::default();
        let mut seen: Vec<Type> = vec![root];
        let mut numbers: IndexMap<Type, (), FxBuildHasher> = IndexMap::from_iter([(root, ())]);
        while let Some(&ty) = seen.get(sorts.len()) {
            let Described { is_cell, constructors: described } = describe(ty)?;
            let mut constructors = Vec::with_capacity(described.len());
            for (constructor, fields) in described {
                let mut parts = Vec::with_capacity(fields.len());
                for (field, field_type) in fields {
                    if let Some(tensor) = field_type.as_tensor() {
                        if tensor.known_shape().is_none() && !open {
                            return None;
                        }
                        let mut name = format!("{constructor}.{field}");
                        if !names.insert(name.clone()) {
                            // The same constructor with other parameters.
                            name = format!("{ty}.{name}");
                            names.insert(name.clone());
                        }
                        parts.push(Part::Tensor(columns.len()));
                        let is_known = !is_open(field_type);
                        let ty = if is_known { field_type } else { opened(field_type) };
                        columns.push(Column { name, ty });
                        continue;
                    }
                    let (number, _) = numbers.insert_full(field_type, ());
                    if number == seen.len() {
                        seen.push(field_type);
                    }
                    parts.push(Part::Node(number));
                }
                constructors.push(parts);
            }
            sorts.insert(ty, Sort { ty, is_cell, constructors });
        }
        Some(Layout { sorts: sorts.into_values().collect(), columns })
    }

    /// The columns of a tensor of unknown extents that is no part of data: its extents, and its elements.
    fn of_tensor(ty: Type) -> Layout {
        let element = ty.as_tensor().map_or(DType::INT64, |tensor| tensor.dtype);
        let columns = [("extents", DType::INT64), ("elements", element)];
        let column = |(name, dtype)| Column { name: String::from(name), ty: Type::scalar(dtype) };
        let sort = Sort { ty, is_cell: true, constructors: vec![] };
        Layout { sorts: vec![sort], columns: columns.map(column).into() }
    }

    /// The type of the tensor that the value is, where it is one.
    fn tensor(&self) -> Option<Type> {
        self.sorts.first().map(|sort| sort.ty).filter(|ty| is_open(*ty))
    }

    /// The columns of a value of type `root` of a program; `None` of other types.
    pub fn of(root: Type, module: &Module) -> Option<Layout> {
        Layout::of_program(root, module, false)
    }

    /// The same, with tensors of unknown extents in data.
    pub fn of_given(root: Type, module: &Module) -> Option<Layout> {
        Layout::of_program(root, module, true)
    }

    fn of_program(root: Type, module: &Module, open: bool) -> Option<Layout> {
        let numbered = |types: Vec<Type>| {
            types.into_iter().enumerate().map(|(index, ty)| (index.to_string(), ty)).collect()
        };
        Layout::with(root, open, |ty| {
            if let Some(held) = contents(ty) {
                let constructors = vec![("ref".to_string(), numbered(held))];
                return Some(Described { is_cell: true, constructors });
            }
            let name: Symbol = crate::data::name(ty)?;
            let declaration = Declaration::of_item(&module.get(name)?.signature)?;
            let constructors = declaration.constructors.into_iter();
            let constructors = constructors.map(|one| (one.name, numbered(one.fields))).collect();
            Some(Described { is_cell: false, constructors })
        })
    }

    /// Whether `other` has columns of the same types.
    pub fn fits(&self, other: &Layout) -> bool {
        let types = |layout: &Layout| -> Vec<Type> {
            layout.columns.iter().map(|column| column.ty).collect()
        };
        types(self) == types(other)
    }

    /// The columns of `value`; `None` where it has more than `most` nodes of data, as what holds itself
    /// has.
    ///
    /// # Errors
    /// Where it is not of the type.
    pub fn write<S: Source>(
        &self,
        value: S::Value,
        source: &S,
        most: usize,
    ) -> Result<Option<Vec<Filled>>, S::Error> {
        if let Some(ty) = self.tensor() {
            let tensor = source.whole(&value, ty)?;
            let extents = tensor.shape().iter().flat_map(|extent| extent.to_ne_bytes()).collect();
            let extents = Filled { bytes: extents, count: tensor.rank() };
            let count = tensor.shape().iter().product::<i64>() as usize;
            return Ok(Some(vec![extents, Filled { bytes: tensor.bytes().to_vec(), count }]));
        }
        let mut filled = vec![Filled::default(); self.columns.len()];
        let mut pending = vec![(value, 0)];
        while let Some((node, sort)) = pending.pop() {
            let (tag, fields) = source.open(&node, sort)?;
            let sort = &self.sorts[sort];
            if !sort.is_cell {
                filled[0].bytes.extend((tag as i64).to_ne_bytes());
                filled[0].count += 1;
                if filled[0].count > most {
                    return Ok(None);
                }
            }
            let first = pending.len();
            for (field, part) in fields.into_iter().zip(&sort.constructors[tag]) {
                match *part {
                    Part::Tensor(column) => {
                        let Filled { bytes, count } = &mut filled[column];
                        source.tensor(&field, self.columns[column].ty, bytes)?;
                        *count += 1;
                    }
                    Part::Node(sort) => pending.push((field, sort)),
                }
            }
            pending[first..].reverse();
        }
        Ok(Some(filled))
    }

    /// The value that columns of so many elements hold.
    ///
    /// # Errors
    /// Where they hold none, or more than one: a message that names the column.
    pub fn read<S: Sink>(
        &self,
        columns: &[(&[u8], usize)],
        sink: &mut S,
    ) -> Result<S::Value, String> {
        if let Some(ty) = self.tensor() {
            let tensor = tensor_of(ty, columns).ok_or_else(|| format!("there is no {ty}"))?;
            return Ok(sink.whole(tensor));
        }
        let mut reader = Reader { layout: self, columns, next: vec![0; self.columns.len()] };
        let mut open = vec![reader.begin(0, sink)?];
        loop {
            let last = open.last_mut().expect("a node is open until the first is done");
            if let Some(&(_, sort)) = last.left.last() {
                open.push(reader.begin(sort, sink)?);
                continue;
            }
            let Some(Open { sort, tag, fields, .. }) = open.pop() else { continue };
            let fields: Option<Vec<S::Value>> = fields.into_iter().collect();
            let value = fields.and_then(|fields| sink.node(sort, tag, fields));
            let value = value.ok_or_else(|| format!("there is no {}", self.sorts[sort].ty))?;
            let Some(around) = open.last_mut() else {
                reader.expect_end()?;
                return Ok(value);
            };
            if let Some((field, _)) = around.left.pop() {
                around.fields[field] = Some(value);
            }
        }
    }
}

/// The tensor of type `ty`, but for its extents, that columns of these and of elements hold.
fn tensor_of(ty: Type, columns: &[(&[u8], usize)]) -> Option<TensorData> {
    let (tensor, &[(extents, axes), (elements, _)]) = (ty.as_tensor()?, columns) else {
        return None;
    };
    let (extents, _) = extents.as_chunks::<8>();
    let shape: Vec<i64> = extents.iter().map(|extent| i64::from_ne_bytes(*extent)).collect();
    let fits = shape.len() == axes && shape.len() == tensor.rank();
    let made = || TensorData::from_bytes(tensor.dtype, &shape, elements.to_vec()).ok();
    if fits && shape.iter().all(|extent| *extent >= 0) { made() } else { None }
}

/// Columns that are being read.
struct Reader<'r> {
    layout: &'r Layout,
    columns: &'r [(&'r [u8], usize)],
    /// Of each column, which element comes next.
    next: Vec<usize>,
}

impl<'r> Reader<'r> {
    /// The next element of a column.
    fn element(&mut self, column: usize) -> Result<&'r [u8], String> {
        let (bytes, count) = self.columns.get(column).copied().unwrap_or_default();
        let (place, size) = (self.next[column], self.layout.columns[column].bytes());
        self.next[column] += 1;
        let start = place.checked_mul(size).filter(|_| place < count);
        let element = start.and_then(|start| bytes.get(start..start.checked_add(size)?));
        let name = &self.layout.columns[column].name;
        element.ok_or_else(|| format!("`{name}` ends after {count}, and there are more nodes"))
    }

    fn begin<S: Sink>(&mut self, sort: usize, sink: &mut S) -> Result<Open<S::Value>, String> {
        let layout = self.layout;
        let known = &layout.sorts[sort];
        let tag = match known.is_cell {
            true => 0,
            false => {
                let tag = self.element(0)?.try_into();
                i64::from_ne_bytes(tag.expect("tags are 64-bit integers"))
            }
        };
        let parts = usize::try_from(tag).ok().and_then(|tag| known.constructors.get(tag));
        let parts = parts.ok_or_else(|| {
            let (ty, place) = (known.ty, self.next[0] - 1);
            format!("`tags` has {tag} at {place}, and {ty} has no such constructor")
        })?;
        let (mut fields, mut left) = (Vec::with_capacity(parts.len()), Vec::new());
        for (index, part) in parts.iter().enumerate() {
            match *part {
                Part::Tensor(column) => {
                    let ty = layout.columns[column].ty;
                    let tensor = sink.tensor(ty, self.element(column)?);
                    fields.push(Some(tensor.ok_or_else(|| format!("there is no {ty}"))?));
                }
                Part::Node(sort) => {
                    fields.push(None);
                    left.push((index, sort));
                }
            }
        }
        left.reverse();
        Ok(Open { sort, tag: tag as usize, fields, left })
    }

    /// Errors where something is left.
    fn expect_end(&self) -> Result<(), String> {
        for ((column, (_, count)), next) in
            self.layout.columns.iter().zip(self.columns).zip(&self.next)
        {
            if count != next {
                let name = &column.name;
                return Err(format!("`{name}` has {count}, and there are {next} such nodes"));
            }
        }
        Ok(())
    }
}
