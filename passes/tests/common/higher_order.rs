//! Random programs of functions that take, give and hold functions.

use relay::interpreter::Random;

const TYPES: [&str; 4] = ["int32", "bool", "(int32, bool)", "List[int32]"];

/// An expression of type `ty`, of variables that are in scope.
struct Writer {
    random: Random,
    names: usize,
    /// Variables and their types.
    scope: Vec<(String, String)>,
}

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    fn ty(&mut self) -> &'static str {
        TYPES[self.random.below(TYPES.len())]
    }

    fn value(&mut self, ty: &str, depth: usize) -> String {
        let known: Vec<String> =
            self.scope.iter().filter(|(_, of)| of == ty).map(|(name, _)| name.clone()).collect();
        if depth == 0 {
            if !known.is_empty() {
                return known[self.random.below(known.len())].clone();
            }
            return match ty {
                "int32" => self.random.below(9).to_string(),
                "bool" => "True".to_string(),
                "(int32, bool)" => "(1, False)".to_string(),
                _ => "Cons(1, Cons(2, Nil))".to_string(),
            };
        }
        let other = self.ty();
        match self.random.below(14) {
            0 => format!("@id({})", self.value(ty, depth - 1)),
            1 => {
                let (f, x) = (self.function(other, ty, depth - 1), self.value(other, depth - 1));
                format!("@apply({f}, {x})")
            }
            2 => {
                let between = self.ty();
                let first = self.function(other, between, depth - 1);
                let second = self.function(between, ty, depth - 1);
                let x = self.value(other, depth - 1);
                format!("@apply(@compose({second}, {first}), {x})")
            }
            3 => {
                let (f, x) = (self.function(ty, ty, depth - 1), self.value(ty, depth - 1));
                format!("@apply(@iterate({f}, {}), {x})", self.random.below(3))
            }
            4 => {
                let (f, xs) = (
                    self.function("int32", other, depth - 1),
                    self.value("List[int32]", depth - 1),
                );
                let x = self.value(other, depth - 1);
                let step = self.function2(ty, other, ty, depth - 1);
                let start = self.value(ty, depth - 1);
                format!("@foldl({step}, {start}, Cons({x}, @map({f}, {xs})))")
            }
            5 => {
                let (one, two) =
                    (self.function(other, ty, depth - 1), self.function(other, ty, depth - 1));
                let (c, x) = (self.value("bool", depth - 1), self.value(other, depth - 1));
                let name = self.name();
                format!("{{ let {name} = if ({c}) {{ {one} }} else {{ {two} }}; {name}({x}) }}")
            }
            6 => self.local(ty, depth),
            7 => self.looped(ty, depth),
            8 => {
                let (f, x) = (self.function(other, ty, depth - 1), self.value(other, depth - 1));
                format!("@force(@delay({f}, {x}))")
            }
            9 => {
                let (one, two) = (self.value(ty, depth - 1), self.value(ty, depth - 1));
                format!("if ({}) {{ {one} }} else {{ {two} }}", self.value("bool", depth - 1))
            }
            10 => {
                let (x, name) = (self.value(other, depth - 1), self.name());
                self.scope.push((name.clone(), other.to_string()));
                let rest = self.value(ty, depth - 1);
                self.scope.pop();
                format!("{{ let {name} = {x}; {rest} }}")
            }
            _ => match ty {
                "int32" => format!(
                    "add({}, @length({}))",
                    self.value(ty, depth - 1),
                    self.value("List[int32]", depth - 1)
                ),
                "bool" => format!(
                    "less({}, {})",
                    self.value("int32", depth - 1),
                    self.value("int32", depth - 1)
                ),
                "(int32, bool)" => format!(
                    "({}, {})",
                    self.value("int32", depth - 1),
                    self.value("bool", depth - 1)
                ),
                _ => format!(
                    "Cons({}, {})",
                    self.value("int32", depth - 1),
                    self.value(ty, depth - 1)
                ),
            },
        }
    }

    /// A polymorphic local function, used for two types.
    fn local(&mut self, ty: &str, depth: usize) -> String {
        let other = self.ty();
        let (name, x, c) = (self.name(), self.name(), self.name());
        let captured = self.value("bool", depth - 1);
        let (one, two) = (self.value(ty, depth - 1), self.value(other, depth - 1));
        let f = self.function(other, ty, depth - 1);
        let param = format!("A{}", self.names);
        format!(
            "{{ let {c} = {captured}; let {name} = fn [{param}]({x}: {param}, {x}b: {param}) -> {param} {{ if ({c}) {{ {x} }} else {{ {x}b }} }}; \
             {name}({one}, {f}({name}({two}, {two}))) }}"
        )
    }

    /// A local function that calls itself.
    fn looped(&mut self, ty: &str, depth: usize) -> String {
        let (name, n, x) = (self.name(), self.name(), self.name());
        let start = self.value(ty, depth - 1);
        self.scope.push((x.clone(), ty.to_string()));
        let step = self.value(ty, depth - 1);
        self.scope.pop();
        let call = format!("{name}({}, {start})", self.random.below(4));
        let call = match self.random.below(3) {
            0 => format!("@apply(fn ({x}c: int32) -> {ty} {{ {name}({x}c, {start}) }}, 2)"),
            1 => format!("@apply2({name}, 1, {start})"),
            _ => call,
        };
        format!(
            "{{ let {name} = fn ({n}: int32, {x}: {ty}) -> {ty} {{ \
             if (less_equal({n}, 0)) {{ {x} }} else {{ {name}(subtract({n}, 1), {step}) }} }}; {call} }}"
        )
    }

    /// A function value from `from` to `to`.
    fn function(&mut self, from: &str, to: &str, depth: usize) -> String {
        if from == to && self.random.one_in(5) {
            return "@id".to_string();
        }
        if from == "List[int32]" && to == "int32" && self.random.one_in(3) {
            return "@length".to_string();
        }
        let x = self.name();
        self.scope.push((x.clone(), from.to_string()));
        let body = self.value(to, depth.min(2));
        self.scope.pop();
        format!("fn ({x}: {from}) -> {to} {{ {body} }}")
    }

    fn function2(&mut self, a: &str, b: &str, to: &str, depth: usize) -> String {
        let (x, y) = (self.name(), self.name());
        self.scope.extend([(x.clone(), a.to_string()), (y.clone(), b.to_string())]);
        let body = self.value(to, depth.min(2));
        self.scope.truncate(self.scope.len() - 2);
        format!("fn ({x}: {a}, {y}: {b}) -> {to} {{ {body} }}")
    }
}

const LIBRARY: &str = "
type List[A] { Cons(A, List[A]), Nil }
type Lazy[A] { Thunk(fn () -> A) }
def @id[A](%x: A) -> A { %x }
def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
def @apply2[A, B, C](%f: fn (A, B) -> C, %x: A, %y: B) -> C { %f(%x, %y) }
def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C { fn (%x: A) -> C { %f(%g(%x)) } }
def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
  if (equal(%n, 0)) { @id } else { @compose(%f, @iterate(%f, subtract(%n, 1))) }
}
def @delay[A, B](%f: fn (A) -> B, %x: A) -> Lazy[B] { Thunk(fn () -> B { %f(%x) }) }
def @force[A](%x: Lazy[A]) -> A { match (%x) { Thunk(%f) => %f() } }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
}
def @foldl[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) { Cons(%x, %rest) => @foldl(%f, %f(%acc, %x), %rest), Nil => %acc }
}
def @length[A](%xs: List[A]) -> int32 { @foldl(fn (%n: int32, %x: A) -> int32 { add(%n, 1) }, 0, %xs) }
";

/// A program of functions of functions.
pub(crate) fn program(seed: u64) -> String {
    let mut writer = Writer { random: Random::new(seed), names: 0, scope: vec![] };
    writer.scope = [("%a", "int32"), ("%b", "bool"), ("%c", "List[int32]")]
        .map(|(name, ty)| (name.to_string(), ty.to_string()))
        .into();
    let ty = writer.ty();
    let value = writer.value(ty, 4);
    format!("{LIBRARY}def @main(%a: int32, %b: bool, %c: List[int32]) -> {ty} {{ {value} }}")
}
