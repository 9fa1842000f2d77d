//! The example of a package: it reads or makes inputs, calls the program, and prints the results.

use ir_core::{DTypeKind, Spread};

use super::{Tensor, string};
use crate::package::Model;

/// An input or a result of the example.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// What it is; of a column of data, one element.
    pub tensor: &'a Tensor,
    /// Of a column, its type, which has any number of elements, and the member of how many there are.
    pub column: Option<(String, &'a str)>,
    /// Of random numbers, what they are made from and where they lie.
    pub random: (u64, Spread),
}

impl<'a> Row<'a> {
    /// The row of `tensor`, of which no random numbers are made.
    pub fn of(tensor: &'a Tensor) -> Row<'a> {
        Row { tensor, column: None, random: (0, Spread::default()) }
    }

    /// Its type, for readers.
    fn ty(&self) -> String {
        self.column.as_ref().map_or_else(|| self.tensor.ty.to_string(), |(ty, _)| ty.clone())
    }

    /// It in a table.
    fn text(&self) -> String {
        let dtype = self.tensor.dtype;
        let kind = match dtype.kind() {
            _ if dtype.is_bool() => "BOOL",
            DTypeKind::Int => "INT",
            DTypeKind::UInt => "UINT",
            DTypeKind::BFloat => "BFLOAT",
            _ => "FLOAT",
        };
        let is_column = i32::from(self.column.is_some());
        let (name, ty) = (string(&self.tensor.name), string(&self.ty()));
        let (bytes, count) = (dtype.bytes(), self.tensor.elements());
        let (seed, Spread { least, width }) = self.random;
        format!(
            "    {{{name}, {ty}, KIND_{kind}, {bytes}, {count}, {is_column}, {seed:#x}u, {least:?}, {width:?}}},\n"
        )
    }
}

/// What an example is written from.
#[derive(Clone, Debug)]
pub struct Example<'a> {
    /// What is called.
    pub model: &'a Model,
    /// Its inputs.
    pub inputs: Vec<Row<'a>>,
    /// Its results.
    pub outputs: Vec<Row<'a>>,
    /// What addresses are multiples of.
    pub alignment: String,
    /// Functions that call the program.
    pub functions: String,
    /// Statements that set `int status` and the results `out` from the inputs `in`, and end the program
    /// where that failed; and those that release what they made.
    pub statements: (String, String),
}

impl Example<'_> {
    /// Its text.
    pub fn text(&self) -> String {
        let (inputs, outputs) = (self.inputs.len(), self.outputs.len());
        let width = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
        let name_width = width(&mut self.outputs.iter().map(|row| row.tensor.name.len()));
        let type_width = width(&mut self.outputs.iter().map(|row| row.ty().len()));
        let mut tables = format!(
            "enum {{ INPUTS = {inputs}, OUTPUTS = {outputs} }};\n\
             enum {{ NAME_WIDTH = {name_width}, TYPE_WIDTH = {type_width} }};\n\n"
        );
        for (table, count, rows) in
            [("inputs", "INPUTS", &self.inputs), ("outputs", "OUTPUTS", &self.outputs)]
        {
            tables += &format!("static const struct tensor {table}[{count} + 1] = {{\n");
            tables.extend(rows.iter().map(Row::text));
            tables += "    {NULL, NULL, KIND_FLOAT, 1, 0, 0, 0, 0.0, 0.0},\n};\n\n";
        }
        tables += &self.functions;
        include_str!("example.c")
            .replace("{name}", &self.model.name)
            .replace("{alignment}", &self.alignment)
            .replace("{seed}", &self.model.seed.to_string())
            .replace("{start}", &self.statements.0)
            .replace("{end}", &self.statements.1)
            .replace("{tables}", &tables)
    }
}

/// Sets `of`, a structure of the type `ty` of the model `name`, from the buffers `list`. The statement is
/// one that declares a constant.
pub fn set(
    name: &str,
    ty: &str,
    of: &str,
    list: &str,
    constness: &str,
    rows: &[Row<'_>],
) -> String {
    if rows.is_empty() {
        return format!("    const {name}_{ty} {of} = {{0}};\n    (void){list};\n");
    }
    let mut text = format!("    const {name}_{ty} {of} = {{\n");
    for (index, Row { tensor, .. }) in rows.iter().enumerate() {
        let (field, element) = (&tensor.field, tensor.element());
        text +=
            &format!("        .{field} = ({constness}{element} *)(void *){list}[{index}].data,\n");
    }
    for (index, row) in rows.iter().enumerate() {
        if let Some((_, count)) = &row.column {
            text += &format!("        .{count} = {list}[{index}].count,\n");
        }
    }
    text + "    };\n"
}
