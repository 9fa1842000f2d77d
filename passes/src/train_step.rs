//! A step of training.

use ir_core::pass::OptionValue;
use ir_core::{
    Binding, Body, Diagnostic, Diagnostics, FuncMut, Module, ModulePass, NameHint, OpId, Pass,
    PassContext, PassResult, Symbol, Type, ValueId,
};
use relay::language::{Tuple, TupleGet, yielded};
use relay_operators::broadcast::{Add, Divide, Multiply, Power, Subtract};
use relay_operators::elementwise::{Cast, Sqrt};
use relay_operators::random::ThreefrySplit;
use rustc_hash::FxHashSet;

use crate::codes::NO_STEP;
use crate::draw_dropout::DrawDropout;
use crate::emit::{Emit, erase_unused};
use crate::gradient::{Checkpoint, Gradients, set_function_type, with_main};

/// How parameters follow their gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Optimizer {
    /// Against the gradient.
    Sgd,
    /// Against a sum of the gradients so far, of which earlier ones count less (Polyak 1964).
    Momentum,
    /// Against the mean of the gradients so far, by the root of the mean of their squares (Kingma and Ba,
    /// arXiv 1412.6980, algorithm 1).
    Adam,
}

impl Optimizer {
    const NAMES: [(&'static str, Optimizer); 3] =
        [("sgd", Optimizer::Sgd), ("momentum", Optimizer::Momentum), ("adam", Optimizer::Adam)];

    /// What it keeps of each parameter from one step to the next, by the ends of names.
    fn kept(self) -> &'static [&'static str] {
        match self {
            Optimizer::Sgd => &[],
            Optimizer::Momentum => &["velocity"],
            Optimizer::Adam => &["mean", "square"],
        }
    }
}

impl OptionValue for Optimizer {
    const EXPECTS: &'static str = "sgd, momentum or adam";
    fn parse(text: &str) -> Option<Optimizer> {
        Optimizer::NAMES.iter().find(|(name, _)| *name == text).map(|(_, optimizer)| *optimizer)
    }
    fn print(&self) -> String {
        let named = Optimizer::NAMES.iter().find(|(_, optimizer)| optimizer == self);
        named.expect("all optimizers have names").0.to_string()
    }
}

/// Makes of `@main`, which computes a loss, one that computes a step of training as well.
///
/// The result is `(loss, (new parameters...), (new state...))`. The parameters are those in `wrt`, which have
/// to be tensors of floats. What an optimizer keeps from step to step are further parameters of `@main`,
/// behind the others, of which the state has the new values, in the same order: `momentum` keeps
/// `%w_velocity` for each parameter `%w`; `adam` keeps `%w_mean` and `%w_square` for each, and then the number
/// of steps so far, `%steps`. All begin as zeros. Before these comes `%random` where there is an `nn.dropout`,
/// which then zeroes elements as `draw-dropout` says; the new value of this generator is the first of the new
/// state.
///
/// With the gradient `g`, `sgd` computes `w - rate * g`; `momentum` computes `v = momentum * velocity + g`
/// and `w - rate * v`; and `adam` computes `m = momentum * mean + (1 - momentum) * g`,
/// `s = decay * square + (1 - decay) * g * g` and
/// `w - rate * (m / (1 - momentum^steps)) / (sqrt(s / (1 - decay^steps)) + epsilon)`.
///
/// ```relay
/// def @main(%w: Tensor[(2), float32], %x: Tensor[(2), float32]) {
///   sum(multiply(%w, %x))
/// }
/// ```
/// becomes, for `wrt=w`,
/// ```relay
/// def @main(%w: Tensor[(2), float32], %x: Tensor[(2), float32])
///     -> (float32, (Tensor[(2), float32],), ()) {
///   %0 = multiply(%w, %x);
///   %1 = sum(%0);
///   %2 = multiply(%x, 0.01f);
///   %3 = subtract(%w, %2);
///   %4 = (%3,);
///   %5 = ();
///   (%1, %4, %5)
/// }
/// ```
#[derive(Pass)]
#[pass(
    name = "train-step",
    module,
    never_after = "simplify-inference alter-op-layout convert-layout fuse"
)]
pub struct TrainStep {
    /// How parameters follow their gradients.
    #[default(Optimizer::Sgd)]
    pub optimizer: Optimizer,
    /// How far: the learning rate.
    #[default(0.01)]
    pub rate: f64,
    /// How much of the sum or mean of earlier gradients stays, from 0 to 1.
    #[default(0.9)]
    pub momentum: f64,
    /// How much of the mean of earlier squares stays in `adam`, from 0 to 1.
    #[default(0.999)]
    pub decay: f64,
    /// What `adam` adds to the root, so that it is not 0.
    #[default(1e-8)]
    pub epsilon: f64,
    /// The parameters that are trained, by name, joined with `+`; none means all.
    #[default(vec![])]
    pub wrt: Vec<String>,
    /// What is kept of loops for the way back, as by `gradient`.
    #[default(Checkpoint::None)]
    pub checkpoint: Checkpoint,
}

/// A parameter that is trained.
struct Trained {
    name: Symbol,
    value: ValueId,
    gradient: ValueId,
}

impl ModulePass for TrainStep {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        self.check_options()?;
        let drawn = draw_dropout(module, cx)?;
        // The generator is no parameter to train.
        let wrt = match (&drawn, self.wrt.is_empty()) {
            (Some(drawn), true) => drawn.others.clone(),
            _ => self.wrt.clone(),
        };
        let gradients = Gradients { checkpoint: self.checkpoint, ..Gradients::of(wrt, false) };
        gradients.run(module, cx)?;
        with_main(module, cx.registry, |f| self.step(f, &gradients, drawn.as_ref()))
    }
}

impl TrainStep {
    fn check_options(&self) -> PassResult {
        let share = |value: f64| (0.0..1.0).contains(&value);
        let problem = match () {
            () if !self.rate.is_finite() => "`rate` has to be a number",
            () if !share(self.momentum) => "`momentum` has to be from 0 to 1, exclusive",
            () if !share(self.decay) => "`decay` has to be from 0 to 1, exclusive",
            () if !(self.epsilon.is_finite() && self.epsilon >= 0.0) => {
                "`epsilon` has to be a number that is not negative"
            }
            () => return Ok(()),
        };
        Err(Diagnostic::error(NO_STEP, problem).help("leave it out for its default").into())
    }

    /// Makes of a function that gives its value and its `gradients` one that gives a step.
    fn step(
        &self,
        f: &mut FuncMut<'_>,
        gradients_of: &Gradients,
        drawn: Option<&Drawn>,
    ) -> PassResult {
        let entry = f.body.entry();
        let result = yielded(f.body, entry).and_then(|value| fields(f.body, value));
        let [loss, gradients] = result.expect("gradients come with a value")[..] else {
            unreachable!("the gradients are one field")
        };
        let gradients = fields(f.body, gradients).expect("gradients are a tuple");
        let ty = f.body.ty(loss);
        if !ty.as_tensor().is_some_and(|tensor| tensor.shape.is_empty() && tensor.dtype.is_float())
        {
            let error = format!("expected a loss that is a number, found one of type {ty}");
            let help = "end with `mean` or `sum`";
            return Err(Diagnostic::error(NO_STEP, error).at(f.base()).help(help).into());
        }
        let params = gradients_of.wanted(f)?;
        let mut trained = vec![];
        let mut found = Diagnostics::default();
        for (value, gradient) in params.into_iter().zip(gradients) {
            let name = f.body.name_hint(value).name.unwrap_or_else(|| "p".into());
            match f.body.ty(value).as_tensor().is_some_and(|tensor| tensor.dtype.is_float()) {
                true => trained.push(Trained { name, value, gradient }),
                false => found.push(
                    Diagnostic::error(
                        NO_STEP,
                        format!(
                            "`%{name}`, of type {}, is no tensor of floats to train",
                            f.body.ty(value)
                        ),
                    )
                    .at(f.base())
                    .help("name the parameters that are trained: `train-step{wrt=w+b}`"),
                ),
            }
        }
        if self.optimizer == Optimizer::Adam {
            let narrow = trained.iter().map(|one| (one.name, f.body.ty(one.value)));
            let all = narrow.chain([("the loss".into(), ty)]);
            for (name, ty) in all.filter(|(_, ty)| is_narrow(*ty)) {
                let message =
                    format!("`adam` divides by numbers that are 0 in {ty}, the type of `{name}`");
                let help = "train in float32, or by another optimizer";
                found.push(Diagnostic::error(NO_STEP, message).at(f.base()).help(help));
            }
        }
        if !found.is_empty() {
            return Err(found);
        }
        let mut names = Names::of(f.body);
        let kept = self.optimizer.kept();
        let state: Vec<Vec<ValueId>> = trained
            .iter()
            .map(|one| kept.iter().map(|kept| parameter(f, one, kept, &mut names)).collect())
            .collect();
        let steps = (self.optimizer == Optimizer::Adam).then(|| {
            let steps = f.body.add_block_arg(entry, ty);
            f.body.set_name_hint(steps, hint(&names.fresh("steps")));
            steps
        });
        let end = f.body.last_op(entry).expect("functions give values");
        let mut emit = Emit::before(f, end, "train-step");
        let (mut updated, mut next) = (vec![], vec![]);
        if let Some(drawn) = drawn {
            let key = drawn.generator(emit.f.body);
            let both = emit.op(&ThreefrySplit { key })?;
            next.push(emit.op(&TupleGet { tuple: both, index: 1 })?);
        }
        let counted = match steps {
            Some(steps) => Some(self.count(&mut emit, steps)?),
            None => None,
        };
        for (one, state) in trained.iter().zip(&state) {
            let (value, state) = self.update(&mut emit, one, state, counted.as_ref())?;
            updated.push(value);
            next.extend(state);
        }
        next.extend(counted.map(|counted| counted.steps));
        let (updated, next) = (emit.tuple(updated), emit.tuple(next));
        let result = emit.tuple(vec![loss, updated, next]);
        let before = f.body.defining_op(f.body.operand(end, 0));
        f.body.set_operand(end, 0, result);
        erase_unused(f, before);
        set_function_type(f);
        Ok(())
    }

    /// What `adam` makes of the number of steps.
    fn count(&self, emit: &mut Emit<'_, '_>, steps: ValueId) -> Result<Counted, Diagnostics> {
        let one = emit.scalar(1.0, steps)?;
        let steps = emit.op(&Add { lhs: steps, rhs: one })?;
        let rest = |emit: &mut Emit<'_, '_>, share: f64| {
            let (share, one) = (emit.scalar(share, steps)?, emit.scalar(1.0, steps)?);
            let power = emit.op(&Power { lhs: share, rhs: steps })?;
            emit.op(&Subtract { lhs: one, rhs: power })
        };
        let (mean, square) = (rest(emit, self.momentum)?, rest(emit, self.decay)?);
        Ok(Counted { steps, mean, square })
    }

    /// The new value of a parameter, and what is kept.
    fn update(
        &self,
        emit: &mut Emit<'_, '_>,
        one: &Trained,
        state: &[ValueId],
        counted: Option<&Counted>,
    ) -> Result<(ValueId, Vec<ValueId>), Diagnostics> {
        let g = one.gradient;
        let (direction, state) = match (self.optimizer, state, counted) {
            (Optimizer::Momentum, [velocity], _) => {
                let velocity = scaled(emit, *velocity, self.momentum)?;
                let velocity = emit.op(&Add { lhs: velocity, rhs: g })?;
                (velocity, vec![velocity])
            }
            (Optimizer::Adam, [mean, square], Some(counted)) => {
                let mean = mixed(emit, *mean, g, self.momentum)?;
                let squared = emit.op(&Multiply { lhs: g, rhs: g })?;
                let square = mixed(emit, *square, squared, self.decay)?;
                // The number of steps is of the type of the loss.
                let by = |emit: &mut Emit<'_, '_>, value: ValueId, count: ValueId| {
                    let count = like(emit, count, value)?;
                    emit.op(&Divide { lhs: value, rhs: count })
                };
                let (unbiased, spread) =
                    (by(emit, mean, counted.mean)?, by(emit, square, counted.square)?);
                let root = emit.op(&Sqrt { data: spread })?;
                let epsilon = emit.scalar(self.epsilon, root)?;
                let root = emit.op(&Add { lhs: root, rhs: epsilon })?;
                (emit.op(&Divide { lhs: unbiased, rhs: root })?, vec![mean, square])
            }
            _ => (g, vec![]),
        };
        let far = scaled(emit, direction, self.rate)?;
        Ok((emit.op(&Subtract { lhs: one.value, rhs: far })?, state))
    }
}

/// That dropout draws numbers, with the names of all parameters but the generator.
struct Drawn {
    others: Vec<String>,
    /// The number of the parameter that is the generator.
    place: usize,
}

impl Drawn {
    fn generator(&self, body: &Body) -> ValueId {
        body.block_args(body.entry())[self.place]
    }
}

/// Lets dropout draw, where there is some.
fn draw_dropout(
    module: &mut Module,
    cx: &mut PassContext<'_>,
) -> Result<Option<Drawn>, Diagnostics> {
    let names = |module: &Module| -> Vec<String> {
        module.body("main").map_or(vec![], |body| {
            let params = body.block_args(body.entry()).iter();
            let name = |param| body.name_hint(param).name.map_or(String::new(), |n| n.to_string());
            params.map(|param| name(*param)).collect()
        })
    };
    let others = names(module);
    DrawDropout {}.run(module, cx)?;
    let place = others.len();
    Ok((names(module).len() > place).then_some(Drawn { others, place }))
}

/// The number of steps, and what the means of so many are divided by.
struct Counted {
    steps: ValueId,
    mean: ValueId,
    square: ValueId,
}

/// The fields of a tuple that an operation makes.
pub(crate) fn fields(body: &Body, value: ValueId) -> Option<Vec<ValueId>> {
    let op: OpId = body.defining_op(value)?;
    body.view::<Tuple>(op).map(|tuple| tuple.fields)
}

/// Whether `ty` is of floats of fewer than 32 bits.
fn is_narrow(ty: Type) -> bool {
    ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_float() && tensor.dtype.bits() < 32)
}

/// The names of the parameters of a function.
pub(crate) struct Names(FxHashSet<String>);

impl Names {
    /// Those that `body` has.
    pub(crate) fn of(body: &Body) -> Names {
        let params = body.block_args(body.entry()).iter();
        Names(params.filter_map(|param| Some(body.name_hint(*param).name?.to_string())).collect())
    }

    /// `name`, or the first of `name1`, `name2` … that no parameter has.
    pub(crate) fn fresh(&mut self, name: &str) -> String {
        let numbered = (1..).map(|number: u64| format!("{name}{number}"));
        let mut names = std::iter::once(name.to_string()).chain(numbered);
        names.find(|name| self.0.insert(name.clone())).expect("numbers do not end")
    }
}

/// A further parameter of the type of a trained one, for what is kept of it.
fn parameter(f: &mut FuncMut<'_>, of: &Trained, kept: &str, names: &mut Names) -> ValueId {
    let (entry, ty) = (f.body.entry(), f.body.ty(of.value));
    let value = f.body.add_block_arg(entry, ty);
    f.body.set_name_hint(value, hint(&names.fresh(&format!("{}_{kept}", of.name))));
    value
}

/// The name of a parameter that a pass adds.
pub(crate) fn hint(name: &str) -> NameHint {
    NameHint { name: Some(Symbol::new(name)), binding: Binding::Graph }
}

/// The number `count` in the element type of `value`.
fn like(emit: &mut Emit<'_, '_>, count: ValueId, value: ValueId) -> Result<ValueId, Diagnostics> {
    let dtype = |value| emit.f.body.ty(value).as_tensor().map(|tensor| tensor.dtype);
    match (dtype(count), dtype(value)) {
        (Some(from), Some(to)) if from != to => emit.op(&Cast { data: count, dtype: to }),
        _ => Ok(count),
    }
}

/// `factor * value`.
fn scaled(emit: &mut Emit<'_, '_>, value: ValueId, factor: f64) -> Result<ValueId, Diagnostics> {
    let rhs = emit.scalar(factor, value)?;
    emit.op(&Multiply { lhs: value, rhs })
}

/// `share * a + (1 - share) * b`.
fn mixed(
    emit: &mut Emit<'_, '_>,
    a: ValueId,
    b: ValueId,
    share: f64,
) -> Result<ValueId, Diagnostics> {
    let (lhs, rhs) = (scaled(emit, a, share)?, scaled(emit, b, 1.0 - share)?);
    emit.op(&Add { lhs, rhs })
}
