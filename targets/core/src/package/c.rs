//! What packages that C programs use have in common: names, tensors as members of structures, an example
//! that calls the package, and files that the assembler makes symbols of.

mod assembly;
mod example;
mod names;

use ir_core::tensor::tensor_bytes;
use ir_core::{DType, DTypeKind, Diagnostic, Diagnostics, Type};
use serde_json::{Value, json};

use super::{Input, Model};

pub use assembly::{Embedded, assembly};
pub use example::{Example, Row, set};
pub use names::Names;

/// Whether `name` can be what public names start with, or the name of a function of others.
pub fn is_name(name: &str) -> bool {
    names::is_name(name)
}

/// Names for the members of a structure that are called `names` elsewhere.
pub fn fields(members: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names = Names::default();
    members.into_iter().map(|member| names.fresh(&member)).collect()
}

/// Names that would make one of two files, or functions.
const TAKEN: [&str; 3] = ["main", "example", "manifest"];

impl Model {
    /// Refuses names that files and functions cannot have, where there are files called `files` with other
    /// endings.
    ///
    /// # Errors
    /// `E0911` for those.
    pub fn check_name(&self, files: &[&str]) -> Result<(), Diagnostics> {
        let name = self.name.as_str();
        if is_name(name) && !TAKEN.contains(&name) && !files.contains(&name) {
            return Ok(());
        }
        let message = format!("`{}` is no name for files and functions in C", self.name);
        let help = "take letters, digits and `_`, and no word of C or name of another file";
        Err(Diagnostic::error("E0911", message).help(help).into())
    }
}

/// `text`, within a comment.
pub fn comment(text: &str) -> String {
    let text = text.replace("*/", "* /").replace("/*", "/ *");
    text.chars().map(|c| if c.is_control() || c == '\\' { '_' } else { c }).collect()
}

/// `text` as a string.
pub fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if !matches!(byte, b'"' | b'\\' | b'?') => quoted.push(byte as char),
            // Three digits: none that follows belongs to them.
            _ => quoted += &format!("\\{byte:03o}"),
        }
    }
    quoted + "\""
}

/// The type of elements in memory of the scalar type `dtype`.
pub fn element(dtype: DType) -> &'static str {
    match (dtype.kind(), dtype.bytes() * 8) {
        (DTypeKind::Float, 32) => "float",
        (DTypeKind::Float, 64) => "double",
        (DTypeKind::Int, 8) => "int8_t",
        (DTypeKind::Int, 16) => "int16_t",
        (DTypeKind::Int, 32) => "int32_t",
        (DTypeKind::Int, _) => "int64_t",
        (_, 8) => "uint8_t",
        (_, 16) => "uint16_t",
        (_, 32) => "uint32_t",
        (_, _) => "uint64_t",
    }
}

/// A tensor that a program takes or gives, or a constant of it.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name in the program; for results without one, `out_0` and so on.
    pub name: String,
    /// Its name in C.
    pub field: String,
    /// Its type.
    pub ty: Type,
    /// That of its elements.
    pub dtype: DType,
    /// Its extents.
    pub shape: Vec<i64>,
    /// Bytes of all elements.
    pub bytes: usize,
}

impl Tensor {
    /// The tensor `name` of type `ty`, which is called `field` in C.
    ///
    /// # Errors
    /// `E0902` where its extents are not known.
    pub fn new(name: &str, field: String, ty: Type) -> Result<Tensor, Diagnostics> {
        let tensor = ty.as_tensor().and_then(|tensor| {
            let shape = tensor.known_shape()?.to_vec();
            let bytes = tensor_bytes(&shape, tensor.dtype)?;
            Some((tensor.dtype, shape, bytes))
        });
        let Some((dtype, shape, bytes)) = tensor else {
            let message = format!("`{name}` is of type {ty}, and C takes tensors of known extents");
            return Err(Diagnostic::error("E0902", message).into());
        };
        Ok(Tensor { name: name.to_string(), field, ty, dtype, shape, bytes })
    }

    /// How many elements it has.
    pub fn elements(&self) -> usize {
        self.bytes / self.dtype.bytes().max(1)
    }

    /// The type of its elements.
    pub fn element(&self) -> &'static str {
        element(self.dtype)
    }

    /// The member of a structure that points to its elements, behind a comment. `constness` stands before
    /// the type, `each` behind what the comment says of the tensor's type, `meaning` at its end.
    pub fn member(&self, constness: &str, each: &str, meaning: &str) -> String {
        let note = match self.dtype {
            dtype if dtype.is_bool() => "; each 0 or 1",
            dtype if dtype.is_float() && dtype.bits() < 32 => "; bits of floats",
            _ => "",
        };
        let (name, ty) = (comment(&self.name), comment(&self.ty.to_string()));
        let (elements, element, field) = (self.elements(), self.element(), &self.field);
        let (plural, meaning) = (if elements == 1 { "" } else { "s" }, comment(meaning));
        format!(
            "    /* {name}: {ty}{each}, {elements} element{plural}{note}{meaning} */\n    \
             {constness}{element} *{field};\n"
        )
    }

    /// It, for programs.
    pub fn described(&self) -> Value {
        json!({
            "name": self.name,
            "field": self.field,
            "dtype": self.dtype.to_string(),
            "shape": self.shape,
            "bytes": self.bytes,
        })
    }

    /// It as the input `input`, for programs.
    pub fn described_input(&self, input: &Input) -> Value {
        let mut value = self.described();
        value["seed"] = input.seed.into();
        value["spread"] = json!({ "least": input.spread.least, "width": input.spread.width });
        if input.example.is_some() {
            value["example"] = self.example_file().into();
        }
        value
    }

    /// The file of the example that it is read from.
    pub fn example_file(&self) -> String {
        format!("inputs/{}.bin", self.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_comments_and_strings() {
        assert_eq!(comment("a*/ b\n\\"), "a* / b__");
        assert_eq!(string("a\"é?1"), "\"a\\042\\303\\251\\0771\"");
    }
}
