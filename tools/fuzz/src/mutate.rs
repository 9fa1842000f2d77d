//! Random changes of inputs, and the words that inputs are made of.

use ir_core::random::Random;

use crate::Target;
use crate::scratch::registry;

/// Words that make more of an input than random bytes do.
const WORDS: [&str; 59] = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    "=",
    ":",
    "->",
    "=>",
    "==",
    "-",
    "+",
    "*",
    "/",
    "%0",
    "%x",
    "@main",
    "@f",
    "?",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1e39f",
    "nan",
    "inf",
    "0x1p-149f",
    "float32",
    "int8",
    "uint64",
    "bool",
    "bfloat16",
    "float32x4",
    "Tensor[(2), float32]",
    "Tensor[(?, 2), float32]",
    "fn",
    "let",
    "if",
    "else",
    "match",
    "match?",
    "def",
    "type",
    "extern",
    "ref",
    "ref_read",
    "meta[relay.Constant][0]",
    "None",
    "True",
    "\"\\u{0}\"",
    "/*",
    "*/",
    "#[metadata]",
];

/// The words for `target`, among them the names of operators and passes.
pub fn dictionary(target: &Target) -> Vec<String> {
    let mut words: Vec<String> = WORDS.iter().map(|word| word.to_string()).collect();
    match target.name {
        "onnx" | "arrays" | "cache" | "filecheck" | "backend" | "plugin" | "costs" => {}
        "pipeline" | "reproducer" | "completion" => {
            words.extend(registry().passes().map(|pass| pass.name.to_string()))
        }
        _ => words.extend(registry().ops().map(|op| op.def.name.to_string())),
    }
    words
}

/// Random bytes, random text, or some of `words` in random order.
pub fn arbitrary(words: &[String], random: &mut Random) -> Vec<u8> {
    let (length, kind) = (random.below(60), random.below(3));
    let mut bytes = Vec::new();
    for _ in 0..length {
        match kind {
            0 => bytes.push(random.below(256) as u8),
            1 => bytes.push(b' ' + random.below(95) as u8),
            _ => {
                bytes.extend(random.choose(words).map(String::as_bytes).unwrap_or_default());
                bytes.push(b' ');
            }
        }
    }
    bytes
}

/// `input` with a few random changes: bytes, words, and parts of `other`.
pub fn mutated(input: &[u8], other: &[u8], words: &[String], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(16)).min(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..end, [])),
            2 => drop(bytes.splice(at..at, [random.below(256) as u8])),
            3 => {
                let word = random.choose(words).map(String::as_bytes).unwrap_or_default();
                drop(bytes.splice(at..end, word.iter().copied()));
            }
            4 => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(64)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            5 => {
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                drop(bytes.splice(to..to, copy));
            }
            6 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.below(256) as u8;
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    bytes
}
