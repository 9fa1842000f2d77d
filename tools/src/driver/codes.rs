//! The diagnostic codes of the command-line tools, and the tables of all crates together.

use std::sync::LazyLock;

use ir_core::diagnostics::codes::Code;

/// Every code that the tools report, in order.
pub const CODES: &[Code] = &[
    Code {
        code: "E0721",
        title: "the input is not text",
        explanation: "Relay text and the generic form are UTF-8. The place of the first byte that \
                      is not is given. Of binary models, `.onnx` files are read.",
    },
    Code {
        code: "E0722",
        title: "the input is too large",
        explanation: "An input text has less than 2 GiB, since places in it are 31-bit offsets. \
                      Keep large constants out of the text, in a .npz or .safetensors file.",
    },
    Code {
        code: "E0724",
        title: "the output cannot be written",
        explanation: "The system refuses to write the file or folder. The result is lost.",
    },
    Code {
        code: "E0725",
        title: "a reproducer does not read",
        explanation: "A reproducer starts with five comment lines: its title, the version, the \
                      pipeline, the reason, and `// input:`. The input follows.",
    },
    Code {
        code: "E0726",
        title: "diagnostics are not as announced",
        explanation: "With `--verify-diagnostics`, each `// expected-error {{text}}` comment (also \
                      -warning, -note, -remark) stands for one diagnostic whose message holds \
                      the text, on its own line, `@+N` or `@-N` lines away, `@above`, `@below`, \
                      or `@unknown` for one without a place. `expected-error-re` takes a regular \
                      expression between `{{` and `}}` inside the text.",
    },
    Code {
        code: "E0727",
        title: "relay-opt crashed",
        explanation: "relay-opt panicked while it read, checked or printed a program. This is an \
                      error of the compiler, not of its input.",
    },
    Code {
        code: "E0728",
        title: "the cache cannot be used",
        explanation: "The folder of `--cache` cannot be made or written, or an entry in it is \
                      broken or of another version; such an entry is removed and made again.",
    },
    Code {
        code: "E0734",
        title: "what two executors give",
        explanation: "With `--compare`, a result of one executor differs from that of the other by \
                      more than a thousandth of the largest element, or at all for integers. This \
                      is an error of the compiler. Where they agree, a remark says of what and how \
                      closely.",
    },
    Code {
        code: "E0736",
        title: "a folder holds other files",
        explanation: "`relay-opt compile` writes to a folder that is new or empty, or that holds what it wrote \
                      before, as `manifest.json` says. `--force` replaces files of other folders.",
    },
    Code {
        code: "E0737",
        title: "a profile does not read",
        explanation: "`relay-opt view --profile` takes what `relay-opt bench MODEL --json --profile` \
                      wrote.",
    },
    Code {
        code: "E0738",
        title: "what was expected of a run",
        explanation: "With `--expect`, a result differs from the one in the file by more than `--rtol` of it and \
                      `--atol` besides, or in its type, or one of them is missing. Where all agree, a remark \
                      says so.",
    },
    Code {
        code: "E0740",
        title: "a plugin cannot be loaded",
        explanation: "The file is missing, is no plugin, or the system's loader refuses it. A \
                      plugin is a shared library with `plugin!`; `relay-opt plugin new` makes one, \
                      and `relay-opt plugin build` builds it.",
    },
    Code {
        code: "E0741",
        title: "a plugin is for another relay-opt",
        explanation: "A plugin and relay-opt share data, so they must be compiled from the same \
                      sources by the same compiler; plugins that are loaded together, with the \
                      same settings. Build it again, with `relay-opt plugin build`.",
    },
    Code {
        code: "E0742",
        title: "a plugin does not register",
        explanation: "The function that adds what the plugin has panicked. Names of passes, \
                      operations, rules and targets must be new: two plugins cannot have the same.",
    },
    Code {
        code: "E0743",
        title: "a plugin cannot be made or built",
        explanation: "`relay-opt plugin new` makes a new folder; `relay-opt plugin build` needs \
                      cargo, the compiler that built relay-opt, and its sources.",
    },
    Code {
        code: "E0760",
        title: "no fault to look for",
        explanation: "`relay-opt reduce`, `bisect` and `debug` begin with a program that shows the \
                      fault: a pass that crashes, results that the passes change, a diagnostic, \
                      or a command that succeeds. `bisect` needs one that shows it only after \
                      some pass.",
    },
    Code {
        code: "E0769",
        title: "a file would run a program",
        explanation: "The passes of a reproducer may name programs, by the pass `exec` or as the \
                      compiler of a target, and the file may be anybody's. `--allow-exec` lets \
                      them run.",
    },
];

/// The codes of all crates.
pub static ALL: LazyLock<Vec<Code>> = LazyLock::new(|| {
    let relay = relay::text::codes::CODES.iter().chain(relay::inference::CODES);
    let relay = relay.chain(relay::interpreter::CODES).chain(te::interpreter::CODES);
    let relay = relay.map(|&(code, title, explanation)| Code { code, title, explanation });
    let mut all: Vec<Code> = relay.collect();
    all.extend(ir_core::diagnostics::codes::CODES);
    all.extend(ir_core::text::module::codes::CODES);
    all.extend(ir_core::pipeline::codes::CODES);
    all.extend(arrays::CODES);
    all.extend(te::schedule::codes::CODES);
    all.extend(te::text::codes::CODES);
    all.extend(prog::codes::CODES);
    all.extend(passes::codes::CODES);
    all.extend(rewrites::extraction::codes::CODES);
    all.extend(rewrites::codes::CODES);
    all.extend(target_core::codes::CODES);
    all.extend(runtime::codes::CODES);
    all.extend(onnx_frontend::CODES);
    all.extend(CODES);
    all.sort_by_key(|entry| entry.code);
    all
});
