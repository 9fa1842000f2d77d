//! The codes of diagnostics. Each crate keeps one such table; `--explain` is built from them.

/// A code and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The code, `E0101`.
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// What causes it and what to do, as Markdown.
    pub explanation: &'static str,
}

/// The codes of this crate.
pub const CODES: &[Code] = &[
    Code {
        code: "E0101",
        title: "a type relation failed while an operation was built",
        explanation: "A pass built an operation whose operand types do not go together. The note \
                      shows them. This is a mistake in the pass, not in the program.",
    },
    Code {
        code: "E0110",
        title: "not a token",
        explanation: "The text holds a character, string, comment or number that cannot be read. \
                      Names with odd characters are written in quotes: `%\"a b\"`.",
    },
    Code {
        code: "E0111",
        title: "unexpected token",
        explanation: "The generic form of an operation is \
                      `%0 = \"dialect.op\"(%a) ({ ... }) {key = value} : (T) -> T`; that of an \
                      item is `\"dialect.kind\" @name {key = value} : T { ... }`. Items in \
                      readable form, such as `te.func @f(%x: T) { ... }`, follow the grammar of \
                      their dialect.",
    },
    Code {
        code: "E0112",
        title: "use of a name that is not defined",
        explanation: "A value must be defined in the item before it is used. `%x#1` is the second \
                      value named `x`.",
    },
    Code {
        code: "E0113",
        title: "a name is defined twice",
        explanation: "Value names are unique in an item, item names in a module. A further value \
                      of the same name is written `%x#1`.",
    },
    Code {
        code: "E0114",
        title: "nested too deeply",
        explanation: "Types nest at most 1000 levels, and so do attributes. Regions nest without \
                      limit.",
    },
    Code {
        code: "E0115",
        title: "the signature of an operation does not fit",
        explanation: "The types after `:` are those of the operands and results, in order; an \
                      operand's type is the one of its definition.",
    },
    Code {
        code: "E0116",
        title: "malformed attribute, number or type",
        explanation: "An integer exceeds 64 bits, a tensor has a wrong number of elements, or an \
                      element type does not exist.",
    },
    Code {
        code: "E0117",
        title: "a constant was left out",
        explanation: "Large constants print as `dense<T, ...>`. Print them in full to be able to \
                      read the text back.",
    },
    Code {
        code: "E0120",
        title: "unknown operation",
        explanation: "No dialect registered the operation. Load the plugin that declares it, or \
                      correct the name.",
    },
    Code {
        code: "E0121",
        title: "wrong number of operands, results or regions",
        explanation: "The operation's declaration fixes how many it takes.",
    },
    Code {
        code: "E0122",
        title: "wrong attributes",
        explanation: "An attribute is unknown, missing, of the wrong kind, or written out although \
                      it equals its default.",
    },
    Code {
        code: "E0123",
        title: "a block does not end with its terminator",
        explanation: "The last operation of a block, and no other, is a terminator.",
    },
    Code {
        code: "E0124",
        title: "the type relation does not hold",
        explanation: "The operand types do not go together, or the result has another type than \
                      they imply.",
    },
    Code {
        code: "E0125",
        title: "the operation's own check failed",
        explanation: "What the operation requires beyond its fields and traits does not hold.",
    },
    Code {
        code: "E0126",
        title: "a value is used where it is not defined",
        explanation: "A value must be defined before its use, in the same block or in one around \
                      it.",
    },
    Code {
        code: "E0127",
        title: "a type is not inferred",
        explanation: "Verified programs know every type. Run type inference first.",
    },
    Code {
        code: "E0128",
        title: "the type of an item does not fit its body",
        explanation: "The parameters of a function are the arguments of its body's first block, \
                      and what the body ends with is its result.",
    },
    Code {
        code: "E0129",
        title: "unknown kind of item",
        explanation: "No dialect registers this kind of item. The first string of an item of the \
                      generic form names it: `\"relay.func\"`, `\"relay.type\"`.",
    },
];

/// What `code` means, looked up in `tables`.
pub fn explain<'a>(code: &str, tables: &[&'a [Code]]) -> Option<&'a Code> {
    tables.iter().flat_map(|table| table.iter()).find(|entry| entry.code == code)
}
