//! Names in generated code.

use std::collections::HashSet;

use te::scalar::ScalarOp;

/// Words that mean something in C, in its headers, or in what we emit.
const WORDS: [&str; 80] = [
    "alignas",
    "alignof",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "complex",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "for",
    "goto",
    "if",
    "imaginary",
    "inline",
    "int",
    "long",
    "noreturn",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "thread_local",
    "true",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "asm",
    "typeof",
    "nullptr",
    "constexpr",
    "lane",
    "begin",
    "end",
    "task",
    "outer",
    "captures",
    "workspace",
    "NAN",
    "INFINITY",
    "NULL",
    "I",
    "main",
    "memcpy",
    "memset",
    "memmove",
    "fabs",
    "fabsf",
    "fmod",
    "fmodf",
    "rint",
    "rintf",
    "size_t",
    "ptrdiff_t",
    "linux",
    "unix",
    "errno",
    "signbit",
    "j0",
    "j1",
    "jn",
    "y0",
    "y1",
    "yn",
];

/// Hands out names that nothing else has.
#[derive(Clone, Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// Lets `name` be handed out again, once what it stood for is out of scope.
    pub(super) fn release(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// `base` as a C name, with the first number that makes it unique.
    pub(super) fn fresh(&mut self, base: &str) -> String {
        let mut base = sanitized(base);
        if base.split('_').any(is_type) {
            // No number would make it another.
            base.insert(0, 'v');
            base = base.replace('_', "");
        }
        if !base.ends_with('_') && !is_reserved(&base) && self.0.insert(base.clone()) {
            return base;
        }
        // `i32` is a type, `i_32` is not.
        let is_kind = KINDS.contains(&base.as_str());
        let separator =
            if is_kind || base.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
        let mut number = 1;
        loop {
            let name = format!("{base}{separator}{number}");
            if !is_reserved(&name) && self.0.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }
}

/// What names of types begin with.
const KINDS: [&str; 4] = ["bf", "f", "i", "u"];

/// `name` with what C does not allow replaced.
pub(super) fn sanitized(name: &str) -> String {
    let mut text: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    // Names that start with `_` belong to the compiler.
    let start = text.trim_start_matches('_');
    if start.is_empty() || start.starts_with(|c: char| c.is_ascii_digit()) {
        text = format!("v{}", start);
    } else if start.len() < text.len() {
        text = start.to_string();
    }
    text
}

fn is_reserved(name: &str) -> bool {
    if WORDS.contains(&name) || name.ends_with("_t") {
        return true;
    }
    // Our types and functions: `f32x16`, `exp_f32`, `load_u8x16`, `f32_of_bits`.
    if name.split('_').any(is_type) {
        return true;
    }
    let single = name.strip_suffix('f').unwrap_or(name);
    ScalarOp::ALL.iter().any(|op| {
        let function = op.name().trim_start_matches("te.");
        function == name || function == single
    })
}

/// Whether `text` is how helpers call a type.
fn is_type(text: &str) -> bool {
    let digits = KINDS.iter().find_map(|kind| text.strip_prefix(kind));
    digits.is_some_and(|rest| {
        let (bits, lanes) = rest.split_once('x').unwrap_or((rest, "1"));
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // One digit is a name such as `i1`, except for bytes.
        number(bits) && number(lanes) && (bits.len() > 1 || bits == "8" || rest.contains('x'))
    })
}
