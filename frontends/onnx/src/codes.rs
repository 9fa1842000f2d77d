//! The codes of the diagnostics of this crate.

use ir_core::diagnostics::codes::Code;

/// Every code that this crate reports, in order.
pub const CODES: &[Code] = &[
    Code {
        code: "E0800",
        title: "a model cannot be read",
        explanation: "The file is missing, is a folder, or the system refuses to read or map it.",
    },
    Code {
        code: "E0801",
        title: "a model is damaged",
        explanation: "The bytes are no ONNX model: a field ends after its message, a length or tag \
                      cannot be, or a text is no UTF-8. The place is counted from the start of the \
                      file. A file of a few hundred bytes is often a pointer that a version \
                      control system left in place of the model.",
    },
    Code {
        code: "E0802",
        title: "operators cannot be imported",
        explanation: "The model uses operators that have no entry in the table of the importer. \
                      All are listed, with how often they occur and the first node. \
                      `docs/import-onnx.md` lists those that there are and says how to add one.",
    },
    Code {
        code: "E0803",
        title: "a node cannot be imported",
        explanation: "The importer knows the operator, but not with these operands and attributes, \
                      or the node is wrong. The message says what was expected and found. Where \
                      extents must be known, `--dim NAME=N` gives those that the model names.",
    },
    Code {
        code: "E0804",
        title: "a file of a value cannot be read or written",
        explanation: "Folders with the data of a test have a file for each input and output of the \
                      model, `input_0.pb`, `output_0.pb` and so on. The file is missing, damaged, \
                      or holds something else than the model says.",
    },
    Code {
        code: "E0805",
        title: "a constant of a model cannot be read",
        explanation: "The extents and the number of bytes do not go together, the element type is \
                      none of the language, or the elements stand in a file that is missing, too \
                      short, or outside of the folder of the model.",
    },
    Code {
        code: "E0806",
        title: "a graph is wrong",
        explanation: "A name is used before its definition, an input has no type, or there is no \
                      graph or no output.",
    },
    Code {
        code: "E0807",
        title: "the operator set is not supported",
        explanation: "The importer reads versions 1 to 27 of the default operator set. Exporters \
                      let you choose; `onnx.version_converter` converts old models.",
    },
    Code {
        code: "E0808",
        title: "no extent has this name",
        explanation: "`--dim NAME=N` sets an extent that the inputs of the model name. \
                      `relay-opt inspect MODEL.onnx` prints the names.",
    },
    Code {
        code: "E0809",
        title: "a model was read for some inputs alone",
        explanation: "The model leaves to its inputs what an operator must know before it can be \
                      written, such as an extent, or the axes of a sum. `run` takes that from \
                      `--inputs`. Other commands have none: there, give extents by `--dim`, and \
                      make other inputs constants of the model.",
    },
];
