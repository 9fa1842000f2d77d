//! The diagnostic codes of types, inference and pattern matching.

/// Code, title and explanation of every diagnostic of this module.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        MISMATCH,
        "mismatched types",
        "A value has another type than its place requires. The message names both types; where \
         they are large, a note names the first part that differs. A value of known extents may \
         stand where `?` is expected. A tensor of extent `?` may stand where a known extent is, and is \
         then checked when the program runs; what functions take and give, and what references and \
         data hold, cannot be checked so.",
    ),
    (
        RELATION,
        "type relation failed",
        "No result type makes this application of an operator right. The message gives the rule \
         that is broken, a note the operand types.",
    ),
    (
        AMBIGUOUS,
        "type cannot be inferred",
        "Nothing determines this type. Add an annotation: to the parameter, to the `let`, or as \
         type arguments of the call.",
    ),
    (ARGUMENTS, "wrong number of arguments", "A function takes exactly its declared parameters."),
    (NOT_A_FUNCTION, "call of something that is not a function", "Only functions can be called."),
    (
        TYPE_ARGUMENTS,
        "wrong number of type arguments",
        "A call gives either no type arguments or one for each type parameter of the function.",
    ),
    (
        INFINITE,
        "infinite type",
        "The type of this value would contain itself. Recursive data needs a declared data type.",
    ),
    (
        DEEP,
        "type too deep or too large",
        "Types nest at most 1,000 levels deep, and have at most 4,194,304 parts, where what their \
         parts share counts each time: a tuple of a tuple twice, or the sum of an extent and itself. \
         Use a recursive data type such as `List`, or `?` for an extent.",
    ),
    (
        MALFORMED,
        "malformed operation",
        "An operation of the language does not have the operands, attributes or regions that its \
         declaration asks for. Text cannot produce this; a pass or the generic form can.",
    ),
    (UNKNOWN_FUNCTION, "unknown function", "The module has no function of this name."),
    (UNKNOWN_OPERATOR, "unknown operator", "No registered operator has this name."),
    (
        UNKNOWN_TYPE,
        "unknown type",
        "A type name is either declared with `type` or a type parameter of an enclosing function \
         or declaration.",
    ),
    (
        TYPE_PARAMETERS,
        "wrong number of type parameters",
        "A data type is applied to as many types as its declaration has parameters.",
    ),
    (
        KIND,
        "wrong kind of parameter",
        "A parameter stands either for types or for extents (a shape parameter), everywhere in \
         its scope.",
    ),
    (
        DUPLICATE_PARAMETER,
        "duplicate type parameter",
        "The type parameters of a function or data type have different names.",
    ),
    (
        UNKNOWN_CONSTRUCTOR,
        "unknown constructor",
        "No data type of the module declares this constructor.",
    ),
    (
        FIELDS,
        "wrong number of fields",
        "A constructor, in expressions and in patterns, has as many fields as declared.",
    ),
    (
        NOT_EXHAUSTIVE,
        "match does not cover every case",
        "A `match` must cover every value of its type; `match?` need not, and fails at run time \
         where no clause fits.",
    ),
    (
        DUPLICATE_CONSTRUCTOR,
        "duplicate constructor",
        "Constructor names are unique in a module, so that a constructor determines its type, and \
         none is the name of another data type.",
    ),
    (
        UNREACHABLE,
        "unreachable clause",
        "The clauses before this one take every value that its pattern fits.",
    ),
    (
        TOO_COMPLEX,
        "match too complex to check",
        "Deciding whether a `match` covers every case can take exponential time; the check was \
         given up.",
    ),
];

pub(crate) const MISMATCH: &str = "E0301";
pub(crate) const RELATION: &str = "E0302";
pub(crate) const AMBIGUOUS: &str = "E0303";
pub(crate) const ARGUMENTS: &str = "E0304";
pub(crate) const NOT_A_FUNCTION: &str = "E0305";
pub(crate) const TYPE_ARGUMENTS: &str = "E0306";
pub(crate) const INFINITE: &str = "E0307";
pub(crate) const DEEP: &str = "E0308";
pub(crate) const MALFORMED: &str = "E0309";
pub(crate) const UNKNOWN_FUNCTION: &str = "E0310";
pub(crate) const UNKNOWN_OPERATOR: &str = "E0311";
pub(crate) const UNKNOWN_TYPE: &str = "E0312";
pub(crate) const TYPE_PARAMETERS: &str = "E0313";
pub(crate) const KIND: &str = "E0314";
pub(crate) const DUPLICATE_PARAMETER: &str = "E0315";
pub(crate) const UNKNOWN_CONSTRUCTOR: &str = "E0401";
pub(crate) const FIELDS: &str = "E0402";
pub(crate) const NOT_EXHAUSTIVE: &str = "E0403";
pub(crate) const DUPLICATE_CONSTRUCTOR: &str = "E0404";
pub(crate) const UNREACHABLE: &str = "W0401";
pub(crate) const TOO_COMPLEX: &str = "W0402";
