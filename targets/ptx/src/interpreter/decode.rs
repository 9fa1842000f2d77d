//! From text to instructions that run fast: registers, constants and parameters get numbers, labels
//! become places.

use indexmap::IndexMap;
use ir_core::{Diagnostic, Diagnostics};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::Extents;
use super::functions::{Function, function};
use super::memory::Kind;

/// Registers that every thread has: its place in the block, and that of the block in the grid.
pub(super) const SPECIAL: [&str; 6] =
    ["%tid.x", "%tid.y", "%tid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z"];

/// A state space that is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    Global,
    Shared,
    Local,
    Const,
}

/// A memory access: `count` elements of `size` bytes from an address on.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) space: Space,
    pub(super) size: usize,
    /// The registers that are read or written.
    pub(super) data: [u32; 4],
    pub(super) count: usize,
    /// The register of the address, and what is added to it.
    pub(super) base: u32,
    pub(super) offset: i64,
}

#[derive(Clone, Copy)]
pub(super) enum Operation {
    Compute {
        function: Function,
        to: u32,
        from: [u32; 3],
    },
    /// Whether elements have a sign.
    Load {
        access: Access,
        signed: bool,
        kind: Kind,
    },
    Store {
        access: Access,
    },
    /// Combines the register of the access into memory.
    Reduce {
        access: Access,
        function: Function,
    },
    /// Stores the second register where memory is equal to the first; what it was, to the other.
    Exchange {
        access: Access,
        to: u32,
    },
    Branch {
        to: usize,
    },
    Barrier,
    Return,
}

pub(super) struct Instruction {
    /// A predicate, and what it has to be for the instruction to be carried out.
    pub(super) guard: Option<(u32, bool)>,
    pub(super) operation: Operation,
}

/// An entry of a module.
pub(super) struct Entry {
    pub(super) parameters: Vec<String>,
    pub(super) block: Extents,
    /// The values that registers start with: constants have one.
    pub(super) start: Vec<Option<u64>>,
    /// Bytes of shared memory of a block, and of local memory of a thread.
    pub(super) shared: usize,
    pub(super) local: usize,
    pub(super) code: Vec<Instruction>,
    /// The line of each instruction, from 0.
    pub(super) lines: Vec<usize>,
}

/// A module, read from its text.
pub struct Program {
    pub(super) text: String,
    pub(super) entries: IndexMap<String, Entry, FxBuildHasher>,
    /// The constant bank.
    pub(super) constants: Vec<u8>,
}

impl Program {
    /// Reads a module. Errors (`E0925`) name the line of what is no PTX, or none that is known here.
    pub fn parse(text: &str) -> Result<Program, Diagnostics> {
        let tokens = tokens(text);
        let mut parser =
            Parser { tokens: &tokens, at: 0, constants: vec![], symbols: FxHashMap::default() };
        let entries = parser.module().map_err(|message| {
            let last = tokens.len().saturating_sub(1);
            let line = tokens.get(parser.at.min(last)).map_or(0, |token| token.line);
            let written = text.lines().nth(line).unwrap_or_default().trim();
            Diagnostic::error("E0925", format!("line {}: {message}", line + 1))
                .note(format!("the line: {written}"))
        })?;
        let constants = parser.constants;
        Ok(Program { text: text.to_string(), entries, constants })
    }
}

#[derive(Clone, Copy)]
struct Token<'t> {
    text: &'t str,
    line: usize,
}

/// Words and punctuation, without comments.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_.$%".contains(c);
    let mut tokens = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let mut rest = text.split("//").next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let end = match is_word(first) {
                true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            tokens.push(Token { text: &rest[..end], line });
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

struct Parser<'t> {
    tokens: &'t [Token<'t>],
    at: usize,
    constants: Vec<u8>,
    /// Where the arrays of the module are in the constant bank.
    symbols: FxHashMap<&'t str, u64>,
}

/// What an instruction names.
enum Operand<'t> {
    /// A register, number, or name.
    Word(&'t str, bool),
    Address(&'t str, i64),
    List(Vec<&'t str>),
}

/// The names of an entry, while it is read.
struct Scope<'t> {
    /// By prefix, the number of the first register, how many, and their type.
    registers: Vec<(&'t str, u32, u32, &'t str)>,
    start: Vec<Option<u64>>,
    numbers: FxHashMap<u64, u32>,
    parameters: FxHashMap<&'t str, u32>,
    symbols: FxHashMap<&'t str, u64>,
    labels: FxHashMap<&'t str, usize>,
    /// Branches, and the labels that they go to.
    jumps: Vec<(usize, &'t str, usize)>,
}

impl<'t> Scope<'t> {
    /// The register of the constant `value`.
    fn constant(&mut self, value: u64) -> u32 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.start.push(Some(value));
            self.start.len() as u32 - 1
        })
    }

    /// The register called `word`, and its type.
    fn register(&self, word: &str) -> Result<(u32, &'t str), String> {
        if let Some(number) = SPECIAL.iter().position(|name| *name == word) {
            return Ok((number as u32, "b32"));
        }
        let prefix = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: Option<u32> = word[prefix.len()..].parse().ok();
        let found = self.registers.iter().find(|(name, ..)| *name == prefix).zip(number);
        match found {
            Some(((_, first, count, ty), number)) if number < *count => Ok((first + number, ty)),
            _ => Err(format!("there is no register `{word}`")),
        }
    }

    /// What `operand` is, as a register that an instruction reads as `ty`.
    fn read(&mut self, operand: &Operand<'t>, ty: &str) -> Result<u32, String> {
        let &Operand::Word(word, negative) = operand else {
            return Err("expected a register or a number".to_string());
        };
        if word.starts_with('%') {
            let (register, declared) = self.register(word)?;
            return match fits(declared, ty) {
                true => Ok(register),
                false => Err(format!("`{word}` is a register of {declared}, read as {ty}")),
            };
        }
        if let Some(place) = self.symbols.get(word) {
            return Ok(self.constant(*place));
        }
        let number = number(word).ok_or_else(|| format!("there is no `{word}`"))?;
        Ok(self.constant(if negative { number.wrapping_neg() } else { number }))
    }

    fn write(&self, operand: &Operand<'t>, ty: &str) -> Result<u32, String> {
        let &Operand::Word(word, false) = operand else {
            return Err("expected a register to write to".to_string());
        };
        let (register, declared) = self.register(word)?;
        match fits(declared, ty) && register as usize >= SPECIAL.len() {
            true => Ok(register),
            false => Err(format!("`{word}` is a register of {declared}, written as {ty}")),
        }
    }
}

/// Whether registers that are declared as `declared` hold numbers of `ty`.
fn fits(declared: &str, ty: &str) -> bool {
    match ty {
        "pred" => declared == "pred",
        "f32" | "f64" => declared == ty || declared == ["b32", "b64"][usize::from(ty == "f64")],
        "b32" => matches!(declared, "b32" | "f32"),
        "b64" => matches!(declared, "b64" | "f64"),
        "u32" | "s32" => declared == "b32",
        "u64" | "s64" => declared == "b64",
        // Memory is read into wider registers, and written from them.
        "u8" | "s8" => matches!(declared, "b16" | "b32" | "b64"),
        "u16" | "s16" => matches!(declared, "b16" | "b32" | "b64"),
        "b16" | "f16" | "bf16" => declared == "b16",
        _ => false,
    }
}

/// Bytes of an element of `ty`.
fn size(ty: &str) -> Option<usize> {
    let digits = ty.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '.');
    Some(digits.parse::<usize>().ok()? / 8).filter(|size| [1, 2, 4, 8].contains(size))
}

fn number(word: &str) -> Option<u64> {
    if let Some(digits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0d")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The types of the result and the operands of the instruction `name`.
fn signature(name: &str) -> (&str, [&str; 3]) {
    let parts: Vec<&str> = name.split('.').collect();
    let ty = parts[parts.len() - 1];
    match (parts[0], parts.get(1)) {
        ("setp", _) => ("pred", [ty; 3]),
        ("selp", _) => (ty, [ty, ty, "pred"]),
        ("cvt", _) => (parts[parts.len() - 2], [ty; 3]),
        ("shl" | "shr" | "bfe", _) => (ty, [ty, "u32", "u32"]),
        ("mul" | "mad", Some(&"wide")) => ("s64", [ty, ty, "s64"]),
        _ => (ty, [ty; 3]),
    }
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t str> {
        self.tokens.get(self.at).map(|token| token.text)
    }

    fn next(&mut self) -> Result<&'t str, String> {
        let token = self.peek().ok_or("the text ends early")?;
        self.at += 1;
        Ok(token)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.peek() == Some(text);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        match self.eat(text) {
            true => Ok(()),
            false => {
                Err(format!("expected `{text}`, found `{}`", self.peek().unwrap_or("the end")))
            }
        }
    }

    fn size(&mut self) -> Result<usize, String> {
        let word = self.next()?;
        word.parse().map_err(|_| format!("expected a number, found `{word}`"))
    }

    fn module(&mut self) -> Result<IndexMap<String, Entry, FxBuildHasher>, String> {
        let mut entries = IndexMap::default();
        while self.peek().is_some() {
            match self.next()? {
                ".version" | ".target" | ".address_size" => drop(self.next()?),
                ".const" => self.constant_array()?,
                ".visible" => {
                    self.expect(".entry")?;
                    let name = self.next()?.to_string();
                    let entry = self.entry()?;
                    entries.insert(name, entry);
                }
                other => return Err(format!("`{other}` is not known here")),
            }
        }
        Ok(entries)
    }

    /// `.align 8 .u64 name[2] = {1, 2};`
    fn constant_array(&mut self) -> Result<(), String> {
        self.expect(".align")?;
        let alignment = self.size()?.max(1);
        let bytes = size(self.next()?).ok_or("expected a type")?;
        let name = self.next()?;
        self.expect("[")?;
        let count = self.size()?;
        self.expect("]")?;
        self.expect("=")?;
        self.expect("{")?;
        self.constants.resize(self.constants.len().next_multiple_of(alignment), 0);
        self.symbols.insert(name, self.constants.len() as u64);
        for index in 0..count {
            if index > 0 {
                self.expect(",")?;
            }
            let word = self.next()?;
            let value = number(word).ok_or_else(|| format!("expected a number, found `{word}`"))?;
            self.constants.extend_from_slice(&value.to_le_bytes()[..bytes]);
        }
        self.expect("}")?;
        self.expect(";")
    }

    /// The parameters, directives and instructions of an entry.
    fn entry(&mut self) -> Result<Entry, String> {
        let mut scope = Scope {
            registers: vec![],
            start: vec![None; SPECIAL.len()],
            numbers: FxHashMap::default(),
            parameters: FxHashMap::default(),
            symbols: self.symbols.clone(),
            labels: FxHashMap::default(),
            jumps: vec![],
        };
        let mut entry = Entry {
            parameters: vec![],
            block: [1; 3],
            start: vec![],
            shared: 0,
            local: 0,
            code: vec![],
            lines: vec![],
        };
        self.expect("(")?;
        while !self.eat(")") {
            let word = self.next()?;
            // Of a parameter, its name comes last.
            if let Some("," | ")") = self.peek() {
                entry.parameters.push(word.to_string());
                // Parameters have the registers after the special ones.
                scope.parameters.insert(word, scope.start.len() as u32);
                scope.start.push(None);
                self.eat(",");
            }
        }
        if self.eat(".reqntid") {
            for axis in 0..3 {
                entry.block[axis] = self.size()? as u32;
                if axis < 2 {
                    self.expect(",")?;
                }
            }
        }
        self.expect("{")?;
        while !self.eat("}") {
            self.statement(&mut scope, &mut entry)?;
        }
        for (at, label, token) in std::mem::take(&mut scope.jumps) {
            let Some(&to) = scope.labels.get(label) else {
                self.at = token;
                return Err(format!("there is no label `{label}`"));
            };
            entry.code[at].operation = Operation::Branch { to };
        }
        if entry.code.is_empty() {
            return Err("an entry without instructions".to_string());
        }
        entry.start = scope.start;
        Ok(entry)
    }

    fn statement(&mut self, scope: &mut Scope<'t>, entry: &mut Entry) -> Result<(), String> {
        let word = self.next()?;
        match word {
            ".reg" => {
                let ty = self.next()?.trim_start_matches('.');
                let prefix = self.next()?;
                self.expect("<")?;
                let count = self.size()? as u32;
                self.expect(">")?;
                scope.registers.push((prefix, scope.start.len() as u32, count, ty));
                scope.start.resize(scope.start.len() + count as usize, None);
                return self.expect(";");
            }
            ".shared" | ".local" => {
                self.expect(".align")?;
                let alignment = self.size()?.max(1);
                let bytes = size(self.next()?).ok_or("expected a type")?;
                let name = self.next()?;
                self.expect("[")?;
                let count = self.size()?;
                self.expect("]")?;
                let taken = if word == ".shared" { &mut entry.shared } else { &mut entry.local };
                let start = taken.next_multiple_of(alignment);
                *taken = count
                    .checked_mul(bytes)
                    .and_then(|bytes| bytes.checked_add(start))
                    .ok_or("too many bytes")?;
                scope.symbols.insert(name, start as u64);
                return self.expect(";");
            }
            _ if self.eat(":") => {
                scope.labels.insert(word, entry.code.len());
                return Ok(());
            }
            _ => {}
        }
        let line = self.tokens[self.at - 1].line;
        let mut guard = None;
        let mut name = word;
        if word == "@" {
            let when = !self.eat("!");
            let (register, ty) = scope.register(self.next()?)?;
            if ty != "pred" {
                return Err(format!("a condition in a register of {ty}"));
            }
            guard = Some((register, when));
            name = self.next()?;
        }
        let start = self.at;
        let mut operands = Vec::new();
        while !self.eat(";") {
            operands.push(self.operand()?);
            if self.peek() != Some(";") {
                self.expect(",")?;
            }
        }
        let operation = match (name, operands.as_slice()) {
            ("bra", &[Operand::Word(label, _)]) => {
                scope.jumps.push((entry.code.len(), label, start));
                Operation::Branch { to: 0 }
            }
            ("bar.sync", [Operand::Word("0", _)]) => Operation::Barrier,
            ("ret", []) => Operation::Return,
            _ => {
                let decoded = decode(scope, name, &operands);
                decoded.inspect_err(|_| self.at = start - 1)?
            }
        };
        entry.code.push(Instruction { guard, operation });
        entry.lines.push(line);
        Ok(())
    }

    fn operand(&mut self) -> Result<Operand<'t>, String> {
        if self.eat("[") {
            let base = self.next()?;
            let mut offset = 0;
            if self.eat("+") {
                let negative = self.eat("-");
                offset = self.size()? as i64;
                offset = if negative { -offset } else { offset };
            }
            self.expect("]")?;
            return Ok(Operand::Address(base, offset));
        }
        if self.eat("{") {
            let mut list = vec![self.next()?];
            while self.eat(",") {
                list.push(self.next()?);
            }
            self.expect("}")?;
            return Ok(Operand::List(list));
        }
        let negative = self.eat("-");
        Ok(Operand::Word(self.next()?, negative))
    }
}

/// The instruction `name` on `operands`.
fn decode<'t>(
    scope: &mut Scope<'t>,
    name: &'t str,
    operands: &[Operand<'t>],
) -> Result<Operation, String> {
    let parts: Vec<&str> = name.split('.').collect();
    let ty = parts[parts.len() - 1];
    let unknown = || format!("the instruction `{name}` on such operands is not known here");
    if name == "ld.param.u64"
        && let [to, Operand::Address(parameter, 0)] = operands
    {
        let from = *scope.parameters.get(parameter).ok_or_else(unknown)?;
        let function = function("mov.u64").ok_or_else(unknown)?;
        return Ok(Operation::Compute { function, to: scope.write(to, ty)?, from: [from; 3] });
    }
    match (parts[0], operands) {
        ("ld", [data, address]) => {
            let access = access(scope, &parts, address, data, false)?;
            let kind = if parts[1] == "relaxed" { Kind::Combine } else { Kind::Read };
            Ok(Operation::Load { access, signed: ty.starts_with('s'), kind })
        }
        ("st", [address, data]) => {
            Ok(Operation::Store { access: access(scope, &parts, address, data, true)? })
        }
        ("red", [address, data]) => {
            let combined = function(&format!("{}.{ty}", parts[2])).ok_or_else(unknown)?;
            Ok(Operation::Reduce {
                access: access(scope, &parts, address, data, true)?,
                function: combined,
            })
        }
        ("atom", [to, address, expected, new]) if parts[2] == "cas" => {
            let mut access = access(scope, &parts, address, expected, true)?;
            access.data[1] = scope.read(new, ty)?;
            Ok(Operation::Exchange { access, to: scope.write(to, ty)? })
        }
        (_, [to, from @ ..]) if (1..=3).contains(&from.len()) => {
            let function = function(name).ok_or_else(unknown)?;
            let (result, types) = signature(name);
            let mut registers = [0; 3];
            for (register, (operand, ty)) in registers.iter_mut().zip(from.iter().zip(types)) {
                *register = scope.read(operand, ty)?;
            }
            // What is not read is defined as soon as the first is.
            let first = registers[0];
            registers[from.len()..].fill(first);
            Ok(Operation::Compute { function, to: scope.write(to, result)?, from: registers })
        }
        _ => Err(unknown()),
    }
}

fn access<'t>(
    scope: &mut Scope<'t>,
    parts: &[&str],
    address: &Operand<'t>,
    data: &Operand<'t>,
    reads: bool,
) -> Result<Access, String> {
    const SPACES: [(&str, Space); 4] = [
        ("global", Space::Global),
        ("shared", Space::Shared),
        ("local", Space::Local),
        ("const", Space::Const),
    ];
    let ty = parts[parts.len() - 1];
    let space =
        SPACES.iter().find(|(name, _)| parts.contains(name)).ok_or("expected a state space")?.1;
    let size = size(ty).ok_or_else(|| format!("`{ty}` is no type of elements"))?;
    let &Operand::Address(base, offset) = address else {
        return Err("expected an address".to_string());
    };
    let words = match data {
        Operand::Word(word, negative) => vec![Operand::Word(word, *negative)],
        Operand::List(words) => words.iter().map(|word| Operand::Word(word, false)).collect(),
        Operand::Address(..) => return Err("expected a register".to_string()),
    };
    let expected = parts.iter().find_map(|part| part.strip_prefix('v')?.parse().ok()).unwrap_or(1);
    if words.len() != expected || expected > 4 {
        return Err(format!("expected {expected} registers, found {}", words.len()));
    }
    let mut registers = [0; 4];
    for (register, word) in registers.iter_mut().zip(&words) {
        *register = if reads { scope.read(word, ty)? } else { scope.write(word, ty)? };
    }
    let wide = if space == Space::Global { "b64" } else { "b32" };
    let base = scope.read(&Operand::Word(base, false), wide)?;
    Ok(Access { space, size, data: registers, count: words.len(), base, offset })
}
