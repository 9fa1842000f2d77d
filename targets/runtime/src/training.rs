//! Training: a loss with its data, compiled once as a step that gives better weights.
//!
//! `@main` computes the loss. Those of its parameters that the data has arrays for are given rows of them,
//! batch by batch; the others are trained, but for those that are frozen. The order of rows depends on the seed
//! and the number of the epoch alone, so that a run goes on from a [snapshot](Trainer::snapshot) as if it had
//! never ended.

mod batches;
mod blame;
mod evaluation;
mod initial;
mod roles;

use arrays::Arrays;
use ir_core::pipeline::Step;
use ir_core::{DType, Diagnostic, Diagnostics, Module, Registry, TensorData, verify};
use passes::gradient::Checkpoint;
use passes::inline::Inline;
use passes::train_step::{Optimizer, TrainStep};
use relay_operators::random::{generator_from, generator_type};

use crate::arguments::seed_of;
use crate::codes::NOT_TRAINED;
use crate::program::{bind, run_passes};
use crate::versions::bind_types;
use crate::{BuildOptions, Parameters, Program};
use batches::Batches;
use roles::Roles;

pub use evaluation::{Evaluation, Score};

/// How a loss is trained.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How weights follow their gradients.
    pub optimizer: Optimizer,
    /// How far, each step.
    pub rate: f64,
    /// How many rows a step takes, where the program leaves that open.
    pub batch: Option<usize>,
    /// Parameters that keep the arrays that they are given.
    pub frozen: Vec<String>,
    /// Decides what weights without an array start as, and the order of rows.
    pub seed: u64,
    /// What is kept of the loops of the loss for the way back.
    pub checkpoint: Checkpoint,
}

/// Arrays of a training run, by the names of parameters.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Those whose rows are given to the program batch by batch.
    pub data: &'a Arrays,
    /// What weights start as, and what is frozen.
    pub weights: &'a Arrays,
}

/// A loss that is being trained.
pub struct Trainer<'r> {
    registry: &'r Registry,
    /// The step, before it was compiled.
    step: Module,
    program: Program,
    /// For each input of `program` that outlives a step, its name and which result its next value is:
    /// weights first.
    carried: Vec<Carried>,
    /// How many of them are weights.
    weights: usize,
    batches: Batches,
    seed: u64,
    /// Steps that were taken.
    steps: usize,
}

/// What a step hands on to the next.
struct Carried {
    name: String,
    input: usize,
    output: usize,
}

/// The names of what a snapshot has besides weights and state.
const STEPS: &str = "training/steps";
const SEED: &str = "training/seed";
const BATCH: &str = "training/batch";
const ROWS: &str = "training/rows";

impl<'r> Trainer<'r> {
    /// Compiles a step of training for `@main` of `module`, a verified Relay program, and takes it to its
    /// start. Warnings and remarks go to `found`.
    ///
    /// # Errors
    /// When arrays are missing or do not fit, nothing is trained, the loss is no number or has no gradient,
    /// and what [`Program::build`] says.
    pub fn new(
        mut module: Module,
        registry: &'r Registry,
        source: Source<'_>,
        settings: &Settings,
        options: &BuildOptions<'_>,
        found: &mut Diagnostics,
    ) -> Result<Trainer<'r>, Diagnostics> {
        run_passes(&mut module, registry, [Step::of::<Inline>().flag("all")], found)?;
        let roles = Roles::of(&module, registry, source, settings, found)?;
        bind_types(&mut module, registry, &roles.types)?;
        let initial = initial::weights(&module, registry, &roles, source.weights, settings.seed)?;
        bind(&mut module, &roles.frozen_arrays(source.weights));
        let step = Step::of::<TrainStep>()
            .with("optimizer", settings.optimizer)
            .with("rate", settings.rate)
            .with("checkpoint", settings.checkpoint)
            .with("wrt", roles.names(&roles.trained));
        run_passes(&mut module, registry, [step], found)?;
        verify(&module, registry)?;
        let (program, _) = Program::build(module.clone(), registry, options, found)?;
        let (carried, weights) = carried(&module, registry, &roles);
        let inputs = Parameters::of_main(&module, registry);
        let places = roles.fed.iter().map(|fed| {
            let name = &roles.all[fed.parameter].name;
            let place = inputs.all.iter().position(|parameter| parameter.name == *name);
            (place.expect("a step takes what the loss takes"), fed.array.clone())
        });
        let batches = Batches::new(places.collect(), roles.rows, roles.batch, settings.seed);
        let seed = settings.seed;
        let mut trainer =
            Trainer { registry, step: module, program, carried, weights, batches, seed, steps: 0 };
        for index in 0..weights {
            let value = &initial[&trainer.carried[index].name];
            trainer.set(index, value);
        }
        trainer.start_generator();
        Ok(trainer)
    }

    /// What exists.
    pub fn registry(&self) -> &'r Registry {
        self.registry
    }

    /// How many steps take each row once, but for the rows that are left of the last batch.
    pub fn steps_of_epoch(&self) -> usize {
        self.batches.steps()
    }

    /// How many rows a step takes.
    pub fn batch(&self) -> usize {
        self.batches.size()
    }

    /// Steps that were taken.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Computes the loss of the next batch, and better weights. They count once they are
    /// [taken](Trainer::take). No tensor is allocated.
    ///
    /// # Errors
    /// Where a check of the program fails.
    pub fn step(&mut self) -> Result<f64, Diagnostics> {
        self.batches.feed(self.steps, &mut self.program);
        self.program.run()?;
        let loss = self.program.output(0)?.to_f64();
        loss.first().copied().ok_or_else(|| Diagnostic::error(NOT_TRAINED, "no loss").into())
    }

    /// Takes what the last [`step`](Trainer::step) gave: the next one begins with it.
    pub fn take(&mut self) {
        for one in &self.carried {
            self.program.carry(one.output, one.input);
        }
        self.steps += 1;
    }

    /// The weights, by name, in the order of the program.
    ///
    /// # Errors
    /// None, unless the program is not what it said.
    pub fn weights(&self) -> Result<Arrays, Diagnostics> {
        self.arrays(&self.carried[..self.weights], "")
    }

    /// All that the next steps depend on.
    ///
    /// # Errors
    /// None, unless the program is not what it said.
    pub fn snapshot(&self) -> Result<Arrays, Diagnostics> {
        let mut arrays = self.arrays(&self.carried, "parameter/")?;
        arrays.extend(self.facts());
        Ok(arrays)
    }

    /// Goes on from a snapshot of a run with the same program, data, batch, seed and optimizer.
    ///
    /// # Errors
    /// Where it is of another run; then the trainer is as it was.
    pub fn restore(&mut self, snapshot: &Arrays) -> Result<(), Diagnostics> {
        let other = |name: &str, found: String| {
            let message =
                format!("the checkpoint is not of this run: expected `{name}` to be {found}");
            Diagnostic::error(NOT_TRAINED, message)
                .help("go on with the program, data, batch, seed and optimizer that it began with")
        };
        for (name, expected) in self.facts().iter().filter(|(name, _)| *name != STEPS) {
            if snapshot.get(name) != Some(expected) {
                return Err(other(name, expected.to_i64()[0].to_string()).into());
            }
        }
        let steps = snapshot.get(STEPS).map(TensorData::to_i64).unwrap_or_default();
        let [steps] = steps[..] else { return Err(other(STEPS, "a number".to_string()).into()) };
        let steps = usize::try_from(steps).map_err(|_| other(STEPS, "a count".to_string()))?;
        let names = self.carried.iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
        let kept = |name: &&String| {
            name.strip_prefix("parameter/").is_some_and(|name| !names.contains(&name))
        };
        if let Some(name) = snapshot.keys().find(kept) {
            return Err(other(name, "nothing".to_string()).into());
        }
        let mut values = vec![];
        for one in &self.carried {
            let name = format!("parameter/{}", one.name);
            let ty = self.program.inputs()[one.input];
            let value = snapshot.get(&name).filter(|value| value.ty() == ty);
            values.push(value.ok_or_else(|| other(&name, format!("of type {ty}")))?);
        }
        for (index, value) in values.into_iter().enumerate() {
            self.set(index, value);
        }
        self.steps = steps;
        Ok(())
    }

    /// What a snapshot has besides weights and state.
    fn facts(&self) -> Vec<(String, TensorData)> {
        let facts = [
            (STEPS, self.steps as i64),
            (SEED, self.seed as i64),
            (BATCH, self.batches.size() as i64),
            (ROWS, self.batches.rows() as i64),
        ];
        let number = |value: i64| {
            TensorData::from_i64(DType::INT64, &[], &[value]).expect("a scalar has one element")
        };
        facts.map(|(name, value)| (name.to_string(), number(value))).to_vec()
    }

    /// Takes the generator of dropout to its start. All other state begins as zeros.
    fn start_generator(&mut self) {
        let inputs = self.program.inputs();
        let is_generator = |one: &Carried| inputs[one.input] == generator_type();
        if let Some(generator) = self.carried.iter().position(is_generator) {
            self.set(generator, &generator_from(seed_of(self.seed, "dropout")));
        }
    }

    fn set(&mut self, carried: usize, value: &TensorData) {
        let input = self.carried[carried].input;
        self.program.input_mut(input).copy_from_slice(value.bytes());
    }

    fn arrays(&self, of: &[Carried], prefix: &str) -> Result<Arrays, Diagnostics> {
        let array =
            |one: &Carried| Ok((format!("{prefix}{}", one.name), self.program.input(one.input)?));
        of.iter().map(array).collect()
    }
}

/// What a step of `module` hands on, in the order of the results, and how many of that are weights.
fn carried(module: &Module, registry: &Registry, roles: &Roles) -> (Vec<Carried>, usize) {
    let inputs = Parameters::of_main(module, registry);
    let trained = roles.names(&roles.trained);
    let place = |name: &String| {
        let found = inputs.all.iter().position(|parameter| parameter.name == *name);
        found.expect("a step takes what it trains")
    };
    let weights = trained.iter().map(place);
    // What optimizers keep comes behind what the loss takes.
    let state = roles.all.len() - roles.frozen.len()..inputs.all.len();
    let order = weights.chain(state).enumerate();
    let carried = order.map(|(index, input)| {
        let name = inputs.all[input].name.clone();
        Carried { name, input, output: index + 1 }
    });
    (carried.collect(), trained.len())
}
