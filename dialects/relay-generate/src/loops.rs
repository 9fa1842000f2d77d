//! Random programs of loops: functions that call themselves as their end.

use ir_core::Random;

/// What loops call, and a loop that makes data.
const FUNCTIONS: &str = "\
type List {
  Cons(Tensor[(3), float32], List[]),
  Nil,
}

def @list(%n: int32, %x: Tensor[(3), float32], %l: List[], KeepLoop=1) -> List[] {
  if (less_equal(%n, 0)) { %l } else { @list(subtract(%n, 1), sin(%x), Cons(%x, %l)) }
}
";

/// What a parameter of a loop is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The number of steps that are left at most.
    Count,
    /// A number that is not differentiated.
    Integer,
    Vector,
    Scalar,
    /// A vector and a scalar.
    Pair,
    List,
    /// A vector that each step hands on.
    Weight,
    /// One that nobody reads.
    Unused,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Count,
        Kind::Integer,
        Kind::Vector,
        Kind::Scalar,
        Kind::Pair,
        Kind::List,
        Kind::Weight,
        Kind::Unused,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Count => "n",
            Kind::Integer => "k",
            Kind::Vector => "x",
            Kind::Scalar => "s",
            Kind::Pair => "t",
            Kind::List => "l",
            Kind::Weight => "w",
            Kind::Unused => "u",
        }
    }

    fn ty(self) -> &'static str {
        match self {
            Kind::Count | Kind::Integer => "int32",
            Kind::Vector | Kind::Weight | Kind::Unused => "Tensor[(3), float32]",
            Kind::Scalar => "float32",
            Kind::Pair => "(Tensor[(3), float32], float32)",
            Kind::List => "List[]",
        }
    }
}

/// A loop: its parameters, and what it gives.
struct Loop {
    params: Vec<Kind>,
    result: Kind,
}

/// What stands for values of a kind at some place.
#[derive(Clone, Default)]
struct Scope {
    vectors: Vec<String>,
    scalars: Vec<String>,
    /// The rest of a list that was taken apart.
    rest: Option<String>,
}

struct Writer {
    random: Random,
    loops: Vec<Loop>,
    /// Names that were given.
    named: usize,
}

/// The text of a program whose `@main(%n: int32, %m: int32, %x: Tensor[(3), float32], %w: Tensor[(3), float32],
/// %s: float32)` calls loops that end after `%n` or `%m` steps at the latest, of which later ones call earlier
/// ones. How many steps they take depends on what they compute. They are marked as such that `partial-eval` leaves
/// as they are.
pub fn loop_program(seed: u64) -> String {
    let mut writer = Writer { random: Random::new(seed), loops: vec![], named: 0 };
    let mut text = FUNCTIONS.to_string();
    for number in 0..1 + writer.random.below(3) {
        let mut params = vec![Kind::Count, Kind::Vector, Kind::Weight];
        for kind in Kind::ALL {
            if !params.contains(&kind) && writer.random.one_in(2) {
                params.insert(writer.random.below(params.len() + 1), kind);
            }
        }
        let result = [Kind::Vector, Kind::Scalar, Kind::Pair][writer.random.below(3)];
        let own = Loop { params, result };
        text.push_str(&writer.function(number, &own));
        writer.loops.push(own);
    }
    let scope =
        Scope { vectors: vec!["%x".into(), "%w".into()], scalars: vec!["%s".into()], rest: None };
    let fields = writer.loops.len().min(2);
    let calls: Vec<String> = (writer.loops.len() - fields..writer.loops.len())
        .map(|number| writer.start(number, ["%n", "%m"][number % 2], &scope))
        .collect();
    let params =
        "%n: int32, %m: int32, %x: Tensor[(3), float32], %w: Tensor[(3), float32], %s: float32";
    text + &format!("def @main({params}) {{\n  ({},)\n}}\n", calls.join(", "))
}

impl Writer {
    fn function(&mut self, number: usize, own: &Loop) -> String {
        let params: Vec<String> =
            own.params.iter().map(|kind| format!("%{}: {}", kind.name(), kind.ty())).collect();
        let mut scope = Scope::default();
        for kind in &own.params {
            match kind {
                Kind::Vector | Kind::Weight => scope.vectors.push(format!("%{}", kind.name())),
                Kind::Scalar => scope.scalars.push("%s".into()),
                Kind::Integer => scope.scalars.push("cast(%k, dtype=\"float32\")".into()),
                Kind::Pair => {
                    scope.vectors.push("%t.0".into());
                    scope.scalars.push("%t.1".into());
                }
                Kind::Count | Kind::List | Kind::Unused => {}
            }
        }
        let (head, scope) = self.binding(&scope);
        let end = self.value(own.result, &scope);
        let rest = self.rest((number, own), &scope, 3);
        let (params, result) = (params.join(", "), own.result.ty());
        format!(
            "def @loop{number}({params}, KeepLoop=1) -> {result} {{\n{head}if (less_equal(%n, 0)) {{ {end} }} else {{\n{rest}\n}}\n}}\n"
        )
    }

    fn fresh(&mut self) -> String {
        self.named += 1;
        format!("%v{}", self.named)
    }

    /// What is computed before the next branch, or nothing, and what is in scope behind it.
    fn binding(&mut self, scope: &Scope) -> (String, Scope) {
        let mut scope = scope.clone();
        if self.random.one_in(2) {
            return (String::new(), scope);
        }
        let name = self.fresh();
        if !self.loops.is_empty() && self.random.one_in(2) {
            let number = self.random.below(self.loops.len());
            let call = self.start(number, "mod(%n, 3)", &scope);
            match self.loops[number].result {
                Kind::Scalar => scope.scalars.push(name.clone()),
                Kind::Pair => {
                    scope.vectors.push(format!("{name}.0"));
                    scope.scalars.push(format!("{name}.1"));
                }
                _ => scope.vectors.push(name.clone()),
            }
            return (format!("let {name} = {call};\n"), scope);
        }
        let value = self.vector(&scope, 2);
        scope.vectors.push(name.clone());
        (format!("let {name} = {value};\n"), scope)
    }

    /// What a step does once it is known to be one.
    fn rest(&mut self, of: (usize, &Loop), scope: &Scope, depth: usize) -> String {
        let (head, scope) = self.binding(scope);
        let (number, own) = of;
        let can_match = own.params.contains(&Kind::List) && scope.rest.is_none();
        let rest = match self.random.below(if depth == 0 { 2 } else { 6 }) {
            2 => {
                let (condition, end) =
                    (self.condition(own, &scope), self.value(own.result, &scope));
                let more = self.rest(of, &scope, depth - 1);
                format!("if ({condition}) {{ {end} }} else {{\n{more}\n}}")
            }
            3 => {
                let condition = self.condition(own, &scope);
                let [one, other] = [0, 1].map(|_| self.rest(of, &scope, depth - 1));
                format!("if ({condition}) {{\n{one}\n}} else {{\n{other}\n}}")
            }
            4 | 5 if can_match => {
                let (first, rest) = (self.fresh(), self.fresh());
                let empty = match self.random.one_in(2) {
                    true => self.value(own.result, &scope),
                    false => self.rest(of, &scope, depth - 1),
                };
                let mut inner = scope.clone();
                inner.vectors.push(first.clone());
                inner.rest = Some(rest.clone());
                let some = self.rest(of, &inner, depth - 1);
                format!(
                    "match (%l) {{\nNil => {{ {empty} }},\nCons({first}, {rest}) => {{\n{some}\n}},\n}}"
                )
            }
            _ => {
                let args: Vec<String> =
                    own.params.iter().map(|kind| self.next(*kind, &scope)).collect();
                format!("@loop{number}({})", args.join(", "))
            }
        };
        head + &rest
    }

    /// The argument of the next step.
    fn next(&mut self, kind: Kind, scope: &Scope) -> String {
        match kind {
            Kind::Count => ["subtract(%n, 1)", "subtract(%n, 2)"][self.random.below(2)].into(),
            Kind::Integer => ["add(%k, %n)", "%k", "subtract(3, %k)"][self.random.below(3)].into(),
            Kind::Weight | Kind::Unused => format!("%{}", kind.name()),
            Kind::List => scope.rest.clone().unwrap_or_else(|| match self.random.one_in(2) {
                true => "%l".to_string(),
                false => format!("Cons({}, %l)", self.vector(scope, 1)),
            }),
            _ => self.value(kind, scope),
        }
    }

    /// A call of a loop from outside of it.
    fn start(&mut self, number: usize, count: &str, scope: &Scope) -> String {
        let params = self.loops[number].params.clone();
        let args: Vec<String> = params
            .into_iter()
            .map(|kind| match kind {
                Kind::Count => count.to_string(),
                Kind::Integer => format!("add({count}, 1)"),
                Kind::List => format!("@list({count}, {}, Nil)", self.vector(scope, 1)),
                Kind::Weight | Kind::Unused => self.vector(scope, 1),
                _ => self.value(kind, scope),
            })
            .collect();
        format!("@loop{number}({})", args.join(", "))
    }

    fn value(&mut self, kind: Kind, scope: &Scope) -> String {
        match kind {
            Kind::Scalar => self.scalar(scope),
            Kind::Pair => format!("({}, {})", self.vector(scope, 2), self.scalar(scope)),
            _ => self.vector(scope, 2),
        }
    }

    /// A vector whose elements are not large where those in scope are not.
    fn vector(&mut self, scope: &Scope, depth: usize) -> String {
        if depth == 0 || self.random.one_in(4) {
            return self.random.choose(&scope.vectors).expect("a loop has a vector").clone();
        }
        let mut inner = || self.vector(scope, depth - 1);
        let (a, b) = (inner(), inner());
        match self.random.below(6) {
            0 => format!("sin({a})"),
            1 => format!("tanh(add({a}, {b}))"),
            2 => format!("multiply({a}, sigmoid({b}))"),
            3 => format!("tanh(multiply({a}, {}))", self.scalar(scope)),
            4 => format!("maximum({a}, {b})"),
            _ => format!("cos(subtract({a}, {b}))"),
        }
    }

    fn scalar(&mut self, scope: &Scope) -> String {
        match self.random.choose(&scope.scalars).filter(|_| self.random.one_in(2)) {
            Some(scalar) => format!("tanh({scalar})"),
            None => format!("mean({})", self.vector(scope, 1)),
        }
    }

    fn condition(&mut self, own: &Loop, scope: &Scope) -> String {
        if own.params.contains(&Kind::Integer) && self.random.one_in(3) {
            return "equal(mod(%k, 2), 0)".to_string();
        }
        format!(
            "greater({}, {}f)",
            self.scalar(scope),
            ["0.0", "0.4", "-0.3"][self.random.below(3)]
        )
    }
}
