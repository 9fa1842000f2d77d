//! Random programs of cells that functions share, recursion, and data types that branch.

use relay::interpreter::Random;

const DECLARATIONS: &str = "
type Tree { Node(Tree[], float32, Tree[]), Leaf }
type Cells { Cell(ref(float32), Cells[]), End }
def @grow(%n: int32, %x: float32) -> Tree[] {
  if (equal(%n, 0)) { Leaf } else {
    let %m = subtract(%n, 1);
    Node(@grow(%m, multiply(%x, 0.5f)), %x, @grow(%m, tanh(%x)))
  }
}
def @visit(%t: Tree[], %f: fn (float32) -> ()) -> () {
  match (%t) {
    Node(%l, %x, %r) => {
      let %_ = @visit(%l, %f);
      let %_1 = %f(%x);
      @visit(%r, %f)
    },
    Leaf => (),
  }
}
def @repeat(%n: int32, %f: fn () -> ()) -> () {
  if (equal(%n, 0)) { () } else {
    let %_ = %f();
    @repeat(subtract(%n, 1), %f)
  }
}
def @bump(%r: ref(float32), %x: float32) -> float32 {
  let %_ = ref_write(%r, add(multiply(ref_read(%r), 0.5f), %x));
  ref_read(%r)
}
def @each(%cells: Cells[], %x: float32) -> () {
  match (%cells) {
    Cell(%r, %rest) => {
      let %_ = @bump(%r, %x);
      @each(%rest, %x)
    },
    End => (),
  }
}
def @swap(%r: ref(float32)) -> fn (float32) -> float32 {
  fn (%x: float32) -> float32 {
    let %old = ref_read(%r);
    let %_ = ref_write(%r, %x);
    %old
  }
}
";

/// The variables in scope, by type.
#[derive(Clone, Default)]
struct Scope {
    numbers: Vec<String>,
    cells: Vec<String>,
    actions: Vec<String>,
}

struct Writer {
    random: Random,
    names: usize,
    /// How many more statements there may be.
    budget: usize,
}

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    fn pick(&mut self, names: &[String]) -> Option<String> {
        self.random.choose(names).cloned()
    }

    fn number(&mut self, scope: &Scope) -> String {
        let some = self.pick(&scope.numbers).unwrap_or("0.25f".to_string());
        match (self.random.below(6), self.pick(&scope.cells)) {
            (0, _) => some,
            (1, _) => format!("{}f", self.random.below(4)),
            (2, Some(cell)) => format!("add(ref_read({cell}), {some})"),
            (3, _) => format!("tanh({some})"),
            (_, Some(cell)) => format!("subtract(multiply(ref_read({cell}), 0.5f), {some})"),
            _ => format!("multiply({some}, 0.5f)"),
        }
    }

    fn condition(&mut self, scope: &Scope) -> String {
        match self.random.below(4) {
            0 => "True".to_string(),
            1 => "%b".to_string(),
            _ => format!("less({}, 0.5f)", self.number(scope)),
        }
    }

    fn count(&mut self) -> String {
        match self.random.below(3) {
            0 => "%n".to_string(),
            _ => self.random.below(4).to_string(),
        }
    }

    /// Some statements and the value `end`, which sees what they bind.
    fn block(&mut self, scope: &Scope, is_number: bool) -> String {
        let mut scope = scope.clone();
        let mut text = String::new();
        for _ in 0..self.random.below(4) {
            if self.budget > 0 {
                self.budget -= 1;
                text += &self.statement(&mut scope);
            }
        }
        let end = if is_number { self.number(&scope) } else { "()".to_string() };
        format!("{{ {text}{end} }}")
    }

    fn statement(&mut self, scope: &mut Scope) -> String {
        let name = self.name();
        let (cell, action) = (self.pick(&scope.cells), self.pick(&scope.actions));
        match (self.random.below(15), cell, action) {
            (0 | 1, ..) => {
                let value = self.number(scope);
                scope.cells.push(name.clone());
                format!("let {name} = ref({value});\n")
            }
            (2, Some(cell), _) => {
                format!("let {name} = ref_write({cell}, {});\n", self.number(scope))
            }
            (3, ..) => {
                let body = self.block(scope, false);
                scope.actions.push(name.clone());
                format!("let {name} = fn () -> () {body};\n")
            }
            (4, _, Some(action)) => format!("let {name} = {action}();\n"),
            (5, ..) => {
                let condition = self.condition(scope);
                let (one, other) = (self.block(scope, true), self.block(scope, true));
                scope.numbers.push(name.clone());
                format!("let {name} = if ({condition}) {one} else {other};\n")
            }
            (6, _, Some(action)) => {
                format!("let {name} = @repeat({}, {action});\n", self.count())
            }
            (7, Some(cell), _) => {
                let (x, value) = (self.name(), self.number(scope));
                let tree = format!("@grow({}, {value})", self.count());
                let f = format!(
                    "fn ({x}: float32) -> () {{ ref_write({cell}, add(ref_read({cell}), {x})) }}"
                );
                format!("let {name} = @visit({tree}, {f});\n")
            }
            (8, Some(cell), _) => {
                let (k, value, unit) = (self.name(), self.number(scope), self.name());
                let (count, step) = (self.count(), self.name());
                scope.numbers.push(name.clone());
                format!(
                    "let {step}: fn (int32) -> float32 = fn ({k}: int32) -> float32 {{
                       if (equal({k}, 0)) {{ ref_read({cell}) }} else {{
                         let {unit} = ref_write({cell}, add(multiply(ref_read({cell}), 0.5f), {value}));
                         {step}(subtract({k}, 1))
                       }}
                     }};
                     let {name} = {step}({count});\n"
                )
            }
            (9, _, Some(action)) => {
                let (held, read) = (self.name(), self.name());
                let other = self.pick(&scope.actions).unwrap_or(action.clone());
                let (condition, unit) = (self.condition(scope), self.name());
                format!(
                    "let {held} = ref({action});
                     let {unit} = if ({condition}) {{ ref_write({held}, {other}) }} else {{ () }};
                     let {read} = ref_read({held});
                     let {name} = {read}();\n"
                )
            }
            (10, Some(cell), _) => {
                let value = self.number(scope);
                scope.numbers.push(name.clone());
                format!("let {name} = @bump({cell}, {value});\n")
            }
            (11, Some(cell), _) => {
                let other = self.pick(&scope.cells).unwrap_or(cell.clone());
                let value = self.number(scope);
                format!("let {name} = @each(Cell({cell}, Cell({other}, End)), {value});\n")
            }
            (12, Some(cell), _) => {
                let (swap, value) = (self.name(), self.number(scope));
                scope.numbers.push(name.clone());
                format!("let {swap} = @swap({cell});\nlet {name} = {swap}({value});\n")
            }
            (13, Some(cell), _) => {
                let other = self.pick(&scope.cells).unwrap_or(cell.clone());
                let condition = self.condition(scope);
                scope.cells.push(name.clone());
                format!("let {name} = if ({condition}) {{ {cell} }} else {{ {other} }};\n")
            }
            (14, ..) => {
                let (value, count) = (self.number(scope), self.count());
                let (l, x, r) = (self.name(), self.name(), self.name());
                let mut inner = scope.clone();
                inner.numbers.push(x.clone());
                let (one, other) = (self.block(&inner, true), self.block(scope, true));
                scope.numbers.push(name.clone());
                format!(
                    "let {name} = match (@grow({count}, {value})) {{
                       Node({l}, {x}, {r}) => {one},
                       Leaf => {other},
                     }};\n"
                )
            }
            _ => {
                let value = self.number(scope);
                scope.numbers.push(name.clone());
                format!("let {name} = {value};\n")
            }
        }
    }
}

/// The program of `seed`, whose `@main` gives what its cells hold in the end.
pub(crate) fn program(seed: u64) -> String {
    let budget = 4 + seed as usize % 30;
    let mut writer = Writer { random: Random::new(seed), names: 0, budget };
    let mut scope = Scope { numbers: vec!["%x".to_string()], ..Scope::default() };
    let mut text = String::from("let %n = if (%b) { 2 } else { 3 };\n");
    while writer.budget > 0 {
        writer.budget -= 1;
        text += &writer.statement(&mut scope);
    }
    let cells = scope.cells.iter().map(|cell| format!("ref_read({cell})"));
    let fields: Vec<String> = cells.chain(scope.numbers).collect();
    format!(
        "{DECLARATIONS}def @main(%x: float32, %b: bool) {{\n{text}({},)\n}}\n",
        fields.join(", ")
    )
}
