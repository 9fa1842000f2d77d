//! Values, and the objects that they share, with the number of their owners.

use std::sync::Arc;

use ir_core::{DType, Scalar, TensorData, Type, TypeData};

use super::{KIND, Stop};
use crate::codes::OWNERS;
use crate::{is_open, opened};

/// A value of a program. Copies of one that is counted are the same object, and no further owners.
#[derive(Clone, Debug, Default)]
pub struct Value(Content);

#[derive(Clone, Debug, Default)]
enum Content {
    /// What a slot holds before a value is defined.
    #[default]
    Nothing,
    Scalar(Scalar, DType),
    /// A scalar of several lanes.
    Lanes(Arc<TensorData>),
    Object(Handle),
}

/// The place of an object. Places are used again, each time for another generation.
#[derive(Clone, Copy, Debug)]
struct Handle {
    place: u32,
    generation: u32,
}

/// What is shared.
#[derive(Debug)]
pub(super) enum Shared {
    Tensor(TensorData),
    /// A constructor and its fields.
    Data(i64, Vec<Value>),
    Cell(Vec<Value>),
}

impl Shared {
    fn describe(&self) -> String {
        match self {
            Shared::Tensor(tensor) => format!("a tensor of type {}", tensor.ty()),
            Shared::Data(tag, fields) => format!("constructor {tag} of {} fields", fields.len()),
            Shared::Cell(_) => "a cell".to_string(),
        }
    }

    fn parts(&self) -> &[Value] {
        match self {
            Shared::Tensor(_) => &[],
            Shared::Data(_, parts) | Shared::Cell(parts) => parts,
        }
    }

    fn into_parts(self) -> Vec<Value> {
        match self {
            Shared::Tensor(_) => Vec::new(),
            Shared::Data(_, parts) | Shared::Cell(parts) => parts,
        }
    }
}

#[derive(Debug)]
struct Object {
    generation: u32,
    owners: u64,
    /// `None` once nobody owns it.
    shared: Option<Shared>,
}

/// All objects of a program.
#[derive(Default)]
pub(super) struct Heap {
    objects: Vec<Object>,
    /// The places without an object.
    unused: Vec<u32>,
}

impl Heap {
    /// A tensor with one owner, or a scalar.
    pub(super) fn tensor(&mut self, tensor: TensorData) -> Value {
        let dtype = tensor.dtype();
        if tensor.rank() > 0 {
            return self.add(Shared::Tensor(tensor));
        }
        Value(match tensor.element(0) {
            Some(scalar) if dtype.lanes() == 1 => Content::Scalar(scalar, dtype),
            _ => Content::Lanes(Arc::new(tensor)),
        })
    }

    /// An object with one owner.
    pub(super) fn add(&mut self, shared: Shared) -> Value {
        if let Some(place) = self.unused.pop() {
            let object = &mut self.objects[place as usize];
            object.owners = 1;
            object.shared = Some(shared);
            return Value(Content::Object(Handle { place, generation: object.generation }));
        }
        let place = u32::try_from(self.objects.len()).expect("an object takes more than a byte");
        self.objects.push(Object { generation: 0, owners: 1, shared: Some(shared) });
        Value(Content::Object(Handle { place, generation: 0 }))
    }

    /// The object that `value` is; `None` where it is none.
    fn object(&self, value: &Value) -> Result<Option<&Object>, Stop> {
        match &value.0 {
            Content::Object(handle) => {
                let object = self.objects.get(handle.place as usize);
                let object = object.filter(|object| object.generation == handle.generation);
                object.map(Some).ok_or_else(gone)
            }
            Content::Nothing => Err(Stop::new(KIND, "a value is used before it is defined")),
            Content::Scalar(..) | Content::Lanes(_) => Ok(None),
        }
    }

    fn object_mut(&mut self, value: &Value) -> Result<Option<&mut Object>, Stop> {
        self.object(value)?;
        match value.0 {
            Content::Object(handle) => Ok(self.objects.get_mut(handle.place as usize)),
            _ => Ok(None),
        }
    }

    /// Checks that `value` has owners, where it is counted.
    pub(super) fn check(&self, value: &Value) -> Result<(), Stop> {
        self.object(value).map(drop)
    }

    /// What is shared of `value`, which must be counted.
    fn shared(&self, value: &Value) -> Result<&Shared, Stop> {
        let object = self.object(value)?;
        object
            .and_then(|object| object.shared.as_ref())
            .ok_or_else(|| Stop::new(KIND, "expected a tensor, data or a cell, found a scalar"))
    }

    /// `value` as a tensor.
    pub(super) fn to_tensor(&self, value: &Value) -> Result<TensorData, Stop> {
        match &value.0 {
            Content::Scalar(scalar, dtype) => Ok(TensorData::scalar(*dtype, *scalar)),
            Content::Lanes(tensor) => Ok((**tensor).clone()),
            _ => match self.shared(value)? {
                Shared::Tensor(tensor) => Ok(tensor.clone()),
                other => Err(wrong("a tensor", other)),
            },
        }
    }

    /// Whether `value` is true.
    pub(super) fn to_bool(&self, value: &Value) -> Result<bool, Stop> {
        match &value.0 {
            Content::Scalar(scalar, _) => Ok(scalar.as_bool()),
            _ => Err(Stop::new(KIND, "expected a scalar")),
        }
    }

    /// The constructor that made `value`, and its fields.
    pub(super) fn data(&self, value: &Value) -> Result<(i64, &[Value]), Stop> {
        match self.shared(value)? {
            Shared::Data(tag, fields) => Ok((*tag, fields)),
            other => Err(wrong("data", other)),
        }
    }

    /// What the cell `value` holds.
    pub(super) fn held(&self, value: &Value) -> Result<&[Value], Stop> {
        match self.shared(value)? {
            Shared::Cell(values) => Ok(values),
            other => Err(wrong("a cell", other)),
        }
    }

    /// Checks that `value` can be of type `ty`.
    pub(super) fn expect(&self, value: &Value, ty: Type) -> Result<(), Stop> {
        let fits = match ty.data() {
            TypeData::Tensor(_) if is_open(ty) => opened(self.to_tensor(value)?.ty()) == ty,
            TypeData::Tensor(_) => self.to_tensor(value)?.ty() == ty,
            TypeData::Named { .. } => self.data(value).is_ok(),
            TypeData::Ref(_) => self.held(value).is_ok(),
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => Err(Stop::new(KIND, format!("expected an argument of type {ty}"))),
        }
    }

    // ---- owners ----------------------------------------------------------------------------

    /// One more owner, where `value` is counted.
    pub(super) fn dup(&mut self, value: &Value) -> Result<(), Stop> {
        if let Some(object) = self.object_mut(value)? {
            object.owners += 1;
        }
        Ok(())
    }

    /// One owner less, where `value` is counted. What nobody owns any more is gone, and owns nothing.
    pub(super) fn drop(&mut self, value: &Value) -> Result<(), Stop> {
        let mut pending = vec![value.clone()];
        while let Some(value) = pending.pop() {
            if let Some(shared) = self.give_up(&value)? {
                pending.extend(shared.into_parts());
            }
        }
        Ok(())
    }

    /// One owner less; what the object was, where that was the last one.
    fn give_up(&mut self, value: &Value) -> Result<Option<Shared>, Stop> {
        let (Some(object), Content::Object(handle)) = (self.object_mut(value)?, &value.0) else {
            return Ok(None);
        };
        object.owners -= 1;
        if object.owners > 0 {
            return Ok(None);
        }
        let shared = object.shared.take();
        object.generation += 1;
        // After the last generation, the place stays empty.
        if object.generation < u32::MAX {
            self.unused.push(handle.place);
        }
        Ok(shared)
    }

    /// The fields of data, each with an owner of its own, for the owner of the data.
    pub(super) fn open(&mut self, value: &Value) -> Result<Vec<Value>, Stop> {
        let (_, fields) = self.data(value)?;
        let fields = fields.to_vec();
        if self.give_up(value)?.is_none() {
            for field in &fields {
                self.dup(field)?;
            }
        }
        Ok(fields)
    }

    /// Replaces what the cell `value` holds, and drops what it held.
    pub(super) fn write(&mut self, value: &Value, new: Vec<Value>) -> Result<(), Stop> {
        self.held(value)?;
        let object = self.object_mut(value)?;
        let old = object.and_then(|object| object.shared.replace(Shared::Cell(new)));
        for value in old.map(Shared::into_parts).unwrap_or_default() {
            self.drop(&value)?;
        }
        Ok(())
    }

    /// Checks that nothing has owners but what cells hold in a circle, which counts never free.
    pub(super) fn expect_empty(&self) -> Result<(), Stop> {
        let mut inner = vec![0u64; self.objects.len()];
        let alive = || self.objects.iter().filter_map(|object| object.shared.as_ref());
        for part in alive().flat_map(Shared::parts) {
            if let Content::Object(handle) = part.0 {
                inner[handle.place as usize] += 1;
            }
        }
        let objects = self.objects.iter().zip(inner);
        let mut owned = objects.filter(|(object, inner)| object.owners > *inner);
        let first = owned.next().and_then(|(object, _)| object.shared.as_ref());
        let Some(first) = first else { return Ok(()) };
        let message = match owned.count() {
            0 => format!("{} has an owner at the end", first.describe()),
            more => format!("{} and {more} more have owners at the end", first.describe()),
        };
        Err(Stop::new(OWNERS, message))
    }
}

fn gone() -> Stop {
    Stop::new(OWNERS, "a value is used that nobody owns any more")
}

fn wrong(expected: &str, found: &Shared) -> Stop {
    Stop::new(KIND, format!("expected {expected}, found {}", found.describe()))
}
