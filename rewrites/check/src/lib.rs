//! Checking rewrite rules: both sides are typed and evaluated on random, small and adversarial
//! operands, and must agree. Operands on which they do not are made as simple as possible.
//!
//! Who writes rules calls [`faults`] in a test:
//!
//! ```
//! use ir_core::Registry;
//!
//! let registry = Registry::from([te::dialect(), relay_operators::dialect()]);
//! let check = |rule: &str| rewrites_check::faults("my.rules", rule, &registry, 50);
//! assert!(check("rule twice exact: negative(negative(%x)) => %x;").is_empty());
//! let wrong = check("rule zero exact: subtract(%x, %x) => 0;");
//! assert!(wrong[0].message.starts_with("rule `zero` is wrong"));
//! ```

mod choices;
mod operands;
mod stability;

use ir_core::{
    AttrDict, DType, DTypeKind, Diagnostic, Diagnostics, Registry, Symbol, TensorData, Type,
};
use relay::interpreter::{EvalCx, Evaluate, Value, approx_equal};
use rewrites::codes::{REFUTED, UNTRIED};
use rewrites::family::{expansions, has_families};
use rewrites::functions::Functions;
use rewrites::instantiate::{Conditions, Operand, Refusal, plan};
use rewrites::matching::Match;
use rewrites::parse::parse;
use rewrites::rule::{FloatClass, Node, Rest, Rule};

use self::choices::{Choices, shrink};
use self::operands::{Digits, Operands};
use self::stability::{Sides, are_moderate, last_digit};

/// What a check found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Trials whose operands fit the left side and the conditions.
    pub tried: u32,
    /// What is wrong, for the simplest operands that were found.
    pub error: Option<Diagnostic>,
    /// Conditions without which no trial failed, as text.
    pub unneeded: Vec<String>,
}

/// Rules about families are tried for so many members.
const FAMILIES: [usize; 2] = [2, 3];

/// What is wrong in `text`, which is the file of rules `file`: what cannot be read, and rules that up
/// to `trials` random operands each refute, or that no operands fit.
pub fn faults(file: &str, text: &str, registry: &Registry, trials: u32) -> Diagnostics {
    let (rules, mut found) = parse(file, text, registry);
    found.extend(rules.iter().filter_map(|rule| check(rule, registry, trials).error));
    found
}

/// Tries `rule`, in both directions where it has two, on up to `trials` random operands. The same
/// for the same rule on every machine.
pub fn check(rule: &Rule, registry: &Registry, trials: u32) -> Verdict {
    let functions = Functions::new(registry);
    let rule = &wherever_it_holds(rule);
    let mut verdict = Verdict { tried: 0, error: None, unneeded: vec![] };
    let mut directions = vec![rule.clone()];
    directions.extend(rule.bidirectional.then(|| rule.reversed()));
    if has_families(rule) {
        let counts = |rule| FAMILIES.iter().flat_map(move |members| expansions(rule, *members));
        directions = directions.iter().flat_map(counts).collect();
    }
    for direction in &directions {
        let (tried, failure) = run(direction, registry, &functions, trials, false);
        verdict.tried += tried;
        if let Some(failure) = failure {
            let message = format!("rule `{}` is wrong: {}", rule.name, failure.reason);
            let mut error = Diagnostic::error(REFUTED, message).at(rule.span);
            error.notes = failure.operands;
            verdict.error.get_or_insert(error);
        } else if tried == 0 {
            let message = format!("rule `{}` was not tried: no operands fit it", rule.name);
            let error = Diagnostic::error(UNTRIED, message).at(rule.span);
            let help = "say what they look like: `for %x: Tensor[(n, k), float32]`";
            verdict.error.get_or_insert(error.help(help));
        }
    }
    if verdict.error.is_none() && !rule.bidirectional {
        verdict.unneeded = unneeded(rule, registry, &functions, trials);
    }
    verdict
}

/// `rule` without the conditions that say where it is of use: it must hold wherever it could be
/// applied.
fn wherever_it_holds(rule: &Rule) -> Rule {
    let mut rule = rule.clone();
    rule.conditions.retain(|condition| !condition.is_of_use());
    rule
}

/// Operands on which both sides of `rule` agree, as text.
pub fn example(rule: &Rule, registry: &Registry) -> Vec<String> {
    let functions = Functions::new(registry);
    let rule = members(wherever_it_holds(rule));
    let trial = Trial { rule: &rule, registry, functions: &functions, open: false, far: false };
    let mut found = (0..4000).filter_map(|seed| {
        let mut operands = Operands::new(registry, Choices::random(seed), Digits::Own);
        let found = operands.of_left_side(&rule, false, false)?;
        let agrees = matches!(trial.judge(&mut operands, &found), Outcome::Agrees(_));
        agrees.then(|| shown(&rule, &operands, &found))
    });
    found.next().unwrap_or_default()
}

/// A rule about families for two members; another one as it is.
fn members(rule: Rule) -> Rule {
    if has_families(&rule) { expansions(&rule, 2).swap_remove(0) } else { rule }
}

/// Conditions without which the rule passes as well. The first trial that fails is enough, so that
/// more trials cost little.
fn unneeded(rule: &Rule, registry: &Registry, functions: &Functions, trials: u32) -> Vec<String> {
    let trials = trials.saturating_mul(4);
    let mut found = Vec::new();
    for index in 0..rule.conditions.len() {
        let mut mutant = rule.clone();
        let condition = mutant.conditions.remove(index);
        let mutant = members(mutant);
        if run(&mutant, registry, functions, trials, true).1.is_none() {
            let mut text = String::new();
            let _ = rule.write_expr(&condition, 0, &mut text);
            found.push(text);
        }
    }
    if rule.typed {
        let mutant = Rule { typed: false, ..rule.clone() };
        let mutant = members(mutant);
        if run(&mutant, registry, functions, trials, true).1.is_none() {
            found.push("typed".to_string());
        }
    }
    found
}

/// The trials whose operands fit `rule`, up to the first that fails, and how the simplest one like
/// it fails; this one itself where it is the `first` that is asked for.
fn run(
    rule: &Rule,
    registry: &Registry,
    functions: &Functions,
    trials: u32,
    first: bool,
) -> (u32, Option<Failure>) {
    let mut tried = 0;
    let is_open = |node: &Node| matches!(node, Node::Op(op) if op.rest != Rest::Default);
    let leaves_open = rule.nodes.iter().any(is_open);
    for (open, far) in [(false, false), (true, false), (false, true)] {
        let enough = tried + trials;
        let trial = Trial { rule, registry, functions, open, far };
        // Many random operands do not fit a left side; typing them is cheap.
        for seed in 0..trials.saturating_mul(40) {
            if tried >= enough || (open && !leaves_open) || (far && !rule.class.keeps_finite()) {
                break;
            }
            match trial.run(Choices::random(seed)) {
                (_, Outcome::Skipped) => {}
                (_, Outcome::Agrees(_)) => tried += 1,
                (choices, Outcome::Fails(failure)) => {
                    let mut fails = |choices| match trial.run(choices) {
                        (choices, Outcome::Fails(failure)) => Some((choices, failure)),
                        _ => None,
                    };
                    let failure =
                        if first { failure } else { shrink(choices, failure, &mut fails) };
                    return (tried + 1, Some(failure));
                }
            }
        }
    }
    (tried, None)
}

/// How a rule fails a trial.
struct Failure {
    /// Whether it may be for want of digits, or of greater numbers, that floats differ: those of
    /// float64 might not.
    may_be_narrow: bool,
    reason: String,
    operands: Vec<String>,
}

enum Outcome {
    /// The operands do not fit, or the numbers leave what the rule promises something about.
    Skipped,
    Agrees(Sides),
    Fails(Failure),
}

/// What is tried.
struct Trial<'a> {
    rule: &'a Rule,
    registry: &'a Registry,
    functions: &'a Functions,
    /// Whether attributes that the left side leaves open may be others than samples say.
    open: bool,
    /// Whether floats are of any magnitude.
    far: bool,
}

impl Trial<'_> {
    /// The trial that `choices` say, and those that it took.
    fn run(&self, choices: Choices) -> (Vec<usize>, Outcome) {
        let (made, mut outcome) = self.run_as(choices, Digits::Own);
        if let Outcome::Agrees(sides) = &outcome
            && self.far
            && let Some(reason) = self.inaccuracy(&made, sides)
        {
            outcome = self.failure(&made, reason);
        }
        if let Outcome::Fails(Failure { may_be_narrow: true, .. }) = outcome
            && !matches!(self.in_float64(&made), Outcome::Fails(_))
        {
            return (made, Outcome::Skipped);
        }
        (made, outcome)
    }

    /// The trial that `made` say with float64 in the place of narrower floats.
    fn in_float64(&self, made: &[usize]) -> Outcome {
        self.run_as(Choices::replay(made.to_vec()), Digits::Float64).1
    }

    /// The same, where floats have other `digits`.
    fn run_as(&self, choices: Choices, digits: Digits) -> (Vec<usize>, Outcome) {
        let mut operands = Operands::new(self.registry, choices, digits);
        let outcome = match operands.of_left_side(self.rule, self.open, self.far) {
            Some(found) => self.judge(&mut operands, &found),
            None => Outcome::Skipped,
        };
        (operands.choices.made, outcome)
    }

    /// What the left side gives on the operands that `made` say, with these `digits`.
    fn expected(&self, made: &[usize], digits: Digits) -> Option<Vec<f64>> {
        let choices = Choices::replay(made.to_vec());
        let mut operands = Operands::new(self.registry, choices, digits);
        let found = operands.of_left_side(self.rule, self.open, self.far)?;
        let results = found.equations.iter().map(|value| &operands.values[*value].1);
        Some(results.flat_map(numbers).collect())
    }

    /// Why the trial fails that `made` say.
    fn failure(&self, made: &[usize], reason: String) -> Outcome {
        let choices = Choices::replay(made.to_vec());
        let mut operands = Operands::new(self.registry, choices, Digits::Own);
        match operands.of_left_side(self.rule, self.open, self.far) {
            Some(found) => {
                let operands = shown(self.rule, &operands, &found);
                Outcome::Fails(Failure { may_be_narrow: false, reason, operands })
            }
            None => Outcome::Skipped,
        }
    }

    /// Whether the right side is there wherever the left side is, and gives the same.
    fn judge(&self, operands: &mut Operands<'_>, found: &Match<usize>) -> Outcome {
        let asked = (self.rule, Conditions::All);
        let parts = operands.values.len();
        let plan = plan(operands, asked, found, self.registry, self.functions);
        let (may_be_narrow, reason) = match plan {
            Err(Refusal::Condition) => return Outcome::Skipped,
            Err(Refusal::IllTyped(found)) => (false, found.to_string()),
            Ok(plan) => match operands.evaluate(&plan) {
                Err(message) => (false, format!("the right side fails: {message}")),
                Ok(made) => {
                    let sides = plan.replacements.iter().map(|(old, new)| match new {
                        Operand::Value(value) => (*old, *value),
                        Operand::New(index) => (*old, made[*index]),
                    });
                    let sides: Vec<(usize, usize)> = sides.collect();
                    match self.compare(operands, found, parts, &sides) {
                        Ok(outcome) => return outcome,
                        Err(difference) => difference,
                    }
                }
            },
        };
        let operands = shown(self.rule, operands, found);
        Outcome::Fails(Failure { may_be_narrow, reason, operands })
    }

    /// Compares `sides`, pairs of what a rule replaces and of what it puts in its place. The first
    /// `parts` values are those of the left side.
    ///
    /// # Errors
    /// How they differ, and whether that may be for want of digits or of greater numbers.
    fn compare(
        &self,
        operands: &Operands<'_>,
        found: &Match<usize>,
        parts: usize,
        sides: &[(usize, usize)],
    ) -> Result<Outcome, (bool, String)> {
        let class = self.rule.class;
        let exact = class == FloatClass::Exact;
        let promises = !exact && class.keeps_finite();
        let values = &operands.values;
        let (left, right) = values.split_at(parts);
        let are_finite = |values: &[(Type, Value)]| values.iter().all(|(_, x)| is_finite(x));
        let moderate = are_moderate(left);
        let results = |side: fn(&(usize, usize)) -> usize| {
            sides.iter().map(side).flat_map(|value| numbers(&values[value].1)).collect()
        };
        let digits = values.iter().flat_map(|(_, value)| floats(value)).map(TensorData::dtype);
        let both = Sides {
            left: results(|(old, _)| *old),
            right: results(|(_, new)| *new),
            moderate,
            step: digits.map(last_digit).fold(0.0, f64::max),
        };
        if promises && let Some(lost) = both.lost() {
            return Err((!moderate, lost));
        }
        if !(exact || are_finite(left) && are_finite(right)) {
            if promises && are_finite(left) && !values.iter().any(|(_, x)| is_empty(x)) {
                let reason = "a part of the right side is not finite, unlike all of the left one";
                return Err((!moderate, reason.to_string()));
            }
            return Ok(Outcome::Skipped);
        }
        if !exact && self.far {
            return Ok(Outcome::Agrees(both));
        }
        let tolerance = Tolerance::new(self.rule.class, found, values);
        let difference = sides.iter().find_map(|(old, new)| {
            let (new, old) = (&values[*new].1, &values[*old].1);
            let narrow = floats(old).any(|tensor| tensor.dtype() != DType::FLOAT64);
            Some((!exact && narrow, tolerance.difference(new, old)?))
        });
        difference.map_or(Ok(Outcome::Agrees(both)), Err)
    }
}

/// The floats of a value, in order.
fn numbers(value: &Value) -> impl Iterator<Item = f64> {
    floats(value).flat_map(|tensor| tensor.elements()).map(|number| number.as_f64())
}

/// The operands and attributes that `rule` names, a line each.
fn shown(rule: &Rule, operands: &Operands<'_>, found: &Match<usize>) -> Vec<String> {
    let values = rule.values.iter().zip(&found.values);
    let values = values.filter_map(|(name, value)| Some((name, (*value)?)));
    let values = values.map(|(name, value)| format!("%{name} = {}", operands.values[value].1));
    let attributes = rule.attributes.iter().zip(&found.attributes);
    let attributes =
        attributes.filter_map(|(name, attr)| Some(format!("?{name} = {:?}", (*attr)?)));
    let mut lines: Vec<String> = values.chain(attributes).collect();
    for line in &mut lines {
        if let Some((end, _)) = line.char_indices().nth(160) {
            line.replace_range(end.., "…");
        }
    }
    lines
}

/// What may differ.
struct Tolerance {
    exact: bool,
    relative: f64,
    absolute: f64,
}

impl Tolerance {
    /// Rounding errors are relative to the greatest number that takes part. Half of the digits must
    /// agree: a few are lost in long sums and near quotients. What `approx` promises is relative to
    /// the result, or to the operands, if these are smaller than 1.
    fn new(class: FloatClass, found: &Match<usize>, values: &[(Type, Value)]) -> Tolerance {
        let greatest = |value: &Value| {
            let numbers = floats(value).flat_map(|tensor| tensor.elements());
            numbers.fold(0.0, |greatest: f64, x| greatest.max(x.as_f64().abs()))
        };
        let all = || values.iter().map(|(_, value)| value);
        let dtypes = all().flat_map(floats).map(TensorData::dtype);
        let digits = dtypes.fold(0.0, |digits: f64, dtype| digits.max(half_of_digits(dtype)));
        let rounding = digits * all().map(greatest).fold(0.0, f64::max);
        match class {
            FloatClass::Exact => Tolerance { exact: true, relative: 0.0, absolute: 0.0 },
            FloatClass::Reassociated | FloatClass::Real => {
                Tolerance { exact: false, relative: 0.0, absolute: rounding }
            }
            FloatClass::Approximate(relative) => {
                let operands = found.values.iter().flatten().map(|value| &values[*value].1);
                let scale = operands.map(greatest).fold(0.0, f64::max).min(1.0);
                let relative = relative.max(digits);
                Tolerance { exact: false, relative, absolute: relative * scale }
            }
        }
    }

    /// In what `found` differs from `expected`.
    fn difference(&self, found: &Value, expected: &Value) -> Option<String> {
        if self.exact && !same_zeros(found, expected) {
            return Some("zeros differ in sign".to_string());
        }
        let mismatch = approx_equal(found, expected, self.relative, self.absolute).err()?;
        Some(format!("the sides differ: {mismatch}"))
    }
}

/// The relative error that leaves half of the digits of a float.
fn half_of_digits(dtype: DType) -> f64 {
    match (dtype.kind(), dtype.bits()) {
        (DTypeKind::Small(_), _) => 2f64.powi(-dtype.float_format().1),
        (DTypeKind::BFloat, _) => 2f64.powi(-4),
        (_, 16) => 2f64.powi(-5),
        (_, 32) => 2f64.powi(-12),
        _ => 2f64.powi(-26),
    }
}

/// The tensors of floats in a value without nested tuples.
fn floats(value: &Value) -> impl Iterator<Item = &TensorData> {
    let fields = value.as_tuple().unwrap_or(std::slice::from_ref(value));
    fields.iter().filter_map(Value::as_tensor).filter(|tensor| tensor.dtype().is_float())
}

/// Whether zeros have the same signs: by them, quotients differ.
fn same_zeros(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => {
            !a.dtype().is_float()
                || a.elements().zip(b.elements()).all(|(a, b)| {
                    let (a, b) = (a.as_f64(), b.as_f64());
                    a != 0.0 || b != 0.0 || a.is_sign_negative() == b.is_sign_negative()
                })
        }
        (Value::Tuple(a), Value::Tuple(b)) => a.iter().zip(b.iter()).all(|(a, b)| same_zeros(a, b)),
        _ => true,
    }
}

fn is_empty(value: &Value) -> bool {
    floats(value).any(|tensor| tensor.elements().next().is_none())
}

fn is_finite(value: &Value) -> bool {
    floats(value).all(|tensor| tensor.elements().all(|x| x.as_f64().is_finite()))
}

/// What an operation gives.
///
/// # Errors
/// When it has no evaluator, or no value on these operands.
pub fn value(
    registry: &Registry,
    name: Symbol,
    attrs: AttrDict,
    operands: &[Value],
    ty: Type,
) -> Result<Value, String> {
    match name.as_str() {
        "relay.tuple" => return Ok(Value::tuple(operands.iter().cloned())),
        "relay.constant" => {
            let tensor = attrs.value::<TensorData>("value").ok_or("no value")?;
            return Ok(tensor.into());
        }
        "relay.tuple_get" => {
            let index = attrs.value::<i64>("index").and_then(|index| usize::try_from(index).ok());
            let fields = operands.first().and_then(Value::as_tuple);
            let field = index.and_then(|index| fields?.get(index).cloned());
            return field.ok_or_else(|| "no such field".to_string());
        }
        _ => {}
    }
    let hook = registry.hook::<Evaluate>(name).ok_or("no evaluator")?;
    (hook.0)(&EvalCx { operands, attrs, result: ty, registry }).map_err(String::from)
}
