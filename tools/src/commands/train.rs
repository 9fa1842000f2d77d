//! The subcommand `train`: trains a model on data.

mod curve;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrays::Arrays;
use clap::{ArgAction, Args, ValueEnum};
use ir_core::text::Style;
use ir_core::text::module::print;
use ir_core::{Diagnostic, Diagnostics, Interrupt, Module, Registry, files};
use passes::gradient::Checkpoint;
use passes::train_step;
use runtime::MAIN;
use runtime::progress::Progress;
use runtime::training::{Evaluation, Settings, Source, Trainer};

use self::curve::{Curve, Epoch};
use crate::driver::model::load_to_run;
use crate::driver::options::{DiagnosticForm, Kernels, ModelOptions, name_unchecked};
use crate::driver::report::Reporter;
use crate::driver::targets::target;
use crate::process::exit::{DIAGNOSTICS, OK};
use crate::process::io::{Io, plain};
use crate::process::progress::Bar;

/// Trains a model on data.
///
/// The function `@main` of the model gives the loss. Of its parameters, those that the data has arrays for are
/// given rows of these, batch by batch, in another order each epoch; the others are trained. Where there is a
/// function `@predict`, which takes some of these parameters, its results are compared with the array that it
/// does not take.
#[derive(Args, Debug)]
pub(crate) struct TrainModel {
    /// The model; `-` is standard input
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) kernels: Kernels,
    /// What it is trained with: a .npz or .safetensors file with arrays for parameters, by name, that have a row
    /// for each example
    #[arg(long, value_name = "FILE")]
    pub(crate) data: String,
    /// Other such data, for which loss and accuracy are computed after each epoch
    #[arg(long, value_name = "FILE")]
    pub(crate) test: Option<String>,
    /// What weights start as: a .npz or .safetensors file. The others start at random, vectors as zeros or ones
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<String>,
    /// A parameter that is not trained, but keeps its array of `--params`
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(crate) freeze: Vec<String>,
    /// How weights follow their gradients, as by the pass `train-step`
    #[arg(long, value_name = "NAME", default_value = "momentum")]
    pub(crate) optimizer: Optimizer,
    /// How far they follow: the learning rate
    #[arg(long, value_name = "NUMBER", default_value_t = 0.01)]
    pub(crate) rate: f64,
    /// What is kept of the loops of the model for the way back, as by the pass `gradient`
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub(crate) checkpoint_loops: CheckpointLoops,
    /// How often each row is taken
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) epochs: usize,
    /// Rows of a step. The default is what the model says, else 32. Rows that are left at the end of an epoch
    /// are not taken
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<usize>,
    /// Decides what weights start as, and the order of rows
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Where the weights go: a .safetensors or .npz file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Where all that is needed to go on goes, after each epoch: a .safetensors or .npz file
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<String>,
    /// Goes on from a checkpoint, with the same results as if it had not stopped
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<String>,
    /// Where losses and accuracies by epoch go: a table where the name ends in .csv, a picture in .svg
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub(crate) curve: Vec<String>,
    /// Stops at a step that gives what is no number, names the first operator that does, and writes the step to
    /// `step.relay` and `step.npz` in this folder, for `relay-opt run`
    #[arg(long, value_name = "DIR")]
    pub(crate) stop_on_nan: Option<String>,
}

/// How weights follow their gradients.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Optimizer {
    /// Against the gradient.
    Sgd,
    /// Against a sum of the gradients so far, of which earlier ones count less.
    Momentum,
    /// Against the mean of the gradients so far, by the root of the mean of their squares.
    Adam,
}

impl From<Optimizer> for train_step::Optimizer {
    fn from(optimizer: Optimizer) -> train_step::Optimizer {
        match optimizer {
            Optimizer::Sgd => train_step::Optimizer::Sgd,
            Optimizer::Momentum => train_step::Optimizer::Momentum,
            Optimizer::Adam => train_step::Optimizer::Adam,
        }
    }
}

/// What is kept of loops for the way back.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckpointLoops {
    /// What each step computed.
    None,
    /// As many states as the root of the number of steps: each step is computed twice.
    Sqrt,
    /// As many states as the logarithm of the number of steps: each step is computed that often.
    Log,
}

impl From<CheckpointLoops> for Checkpoint {
    fn from(checkpoint: CheckpointLoops) -> Checkpoint {
        match checkpoint {
            CheckpointLoops::None => Checkpoint::None,
            CheckpointLoops::Sqrt => Checkpoint::Sqrt,
            CheckpointLoops::Log => Checkpoint::Log,
        }
    }
}

/// Runs the subcommand and returns the exit status.
///
/// # Errors
/// Those of writing to the streams.
pub(crate) fn train_model(
    args: &TrainModel,
    registry: &Registry,
    io: &mut Io<'_>,
) -> io::Result<i32> {
    let mut reporter = Reporter::new(DiagnosticForm::Human, 100);
    let mut found = Diagnostics::new();
    if let Some(module) =
        load_to_run((&args.model, MAIN), &args.options, registry, &mut reporter, &mut found, io)
    {
        let trained = train(args, module, registry, &mut found, io);
        found.extend(trained.err().unwrap_or_default().map(name_unchecked));
    }
    let failed = found.has_errors();
    reporter.report(found, io)?;
    reporter.finish(io)?;
    Ok(if failed { DIAGNOSTICS } else { OK })
}

/// What was read before training begins.
struct Inputs {
    data: Arrays,
    test: Option<Arrays>,
    weights: Arrays,
    checkpoint: Option<Arrays>,
}

impl Inputs {
    fn read(args: &TrainModel, directory: &Path) -> Result<Inputs, Diagnostics> {
        let read = |path: &String| arrays::load(&directory.join(path));
        Ok(Inputs {
            data: read(&args.data)?,
            test: args.test.as_ref().map(read).transpose()?,
            weights: args.params.as_ref().map(read).transpose()?.unwrap_or_default(),
            checkpoint: args.resume.as_ref().map(read).transpose()?,
        })
    }
}

fn train(
    args: &TrainModel,
    module: Module,
    registry: &Registry,
    found: &mut Diagnostics,
    io: &mut Io<'_>,
) -> Result<(), Diagnostics> {
    let inputs = Inputs::read(args, &io.directory)?;
    expect_paths_of_their_own(args)?;
    let written = [&args.output, &args.checkpoint].into_iter().flatten();
    for path in written {
        arrays::check_writable(&io.directory.join(path))?;
    }
    for path in &args.curve {
        curve::check_writable(&io.directory.join(path))?;
    }
    let target = target(&args.kernels.machine, registry)?;
    let settings = Settings {
        optimizer: args.optimizer.into(),
        rate: args.rate,
        batch: args.batch,
        frozen: args.freeze.clone(),
        seed: args.seed,
        checkpoint: args.checkpoint_loops.into(),
    };
    let (interrupt, bar) = (io.interrupt(), Bar::on_terminal(io.styled));
    let options = args.kernels.build_options(&*target, &bar)?;
    let source = Source { data: &inputs.data, weights: &inputs.weights };
    let mut trainer = Trainer::new(module.clone(), registry, source, &settings, &options, found)?;
    let mut test = match &inputs.test {
        None => None,
        Some(data) => {
            let source = Source { data, ..source };
            Some(Evaluation::new(module, &trainer, source, &settings, &options, found)?)
        }
    };
    let mut curve = Curve::default();
    if let Some(checkpoint) = &inputs.checkpoint {
        trainer.restore(checkpoint)?;
        curve = Curve::restore(checkpoint, trainer.steps() / trainer.steps_of_epoch())?;
    }
    let directory = io.directory.clone();
    if let Some(path) = &args.output {
        arrays::check(&directory.join(path), &trainer.weights()?)?;
    }
    let mut run = Run { args, directory: &directory, interrupt, bar: &bar, out: io.stdout };
    let ended = run.epochs(&mut trainer, test.as_mut(), &mut curve);
    // What was learned before a step failed is kept.
    if let Some(path) = &args.output {
        arrays::save(&directory.join(path), &trainer.weights()?)?;
    }
    for path in &args.curve {
        curve.write(&directory.join(path))?;
    }
    found.extend(ended?);
    Ok(())
}

/// Checks that no file is written that is read, or written twice, but for the checkpoint that a run goes on from.
fn expect_paths_of_their_own(args: &TrainModel) -> Result<(), Diagnostic> {
    let read = [Some(&args.data), args.test.as_ref(), args.params.as_ref()].into_iter().flatten();
    let written = [args.output.as_ref(), args.checkpoint.as_ref()].into_iter().flatten();
    let mut seen: Vec<&String> = read.collect();
    for path in written.chain(&args.curve) {
        if seen.contains(&path) {
            let message = format!("`{path}` would be written over by something else of this run");
            return Err(Diagnostic::error("E0724", message).help("give each file a name"));
        }
        seen.push(path);
    }
    Ok(())
}

/// A run of training.
struct Run<'r> {
    args: &'r TrainModel,
    directory: &'r Path,
    interrupt: Interrupt,
    bar: &'r Bar,
    out: &'r mut (dyn Write + Send),
}

impl Run<'_> {
    /// Trains for as many epochs as are left. A remark says that it was interrupted.
    ///
    /// # Errors
    /// Where a step fails or gives what is no number, and where something cannot be written.
    fn epochs(
        &mut self,
        trainer: &mut Trainer<'_>,
        mut test: Option<&mut Evaluation>,
        curve: &mut Curve,
    ) -> Result<Option<Diagnostic>, Diagnostics> {
        let steps = self.args.epochs.saturating_mul(trainer.steps_of_epoch());
        if let Some(path) = &self.args.checkpoint {
            arrays::check(&self.directory.join(path), &trainer.snapshot()?)?;
        }
        if trainer.steps() >= steps {
            self.save(trainer, curve)?;
        }
        self.bar.expect(steps.saturating_sub(trainer.steps()));
        while trainer.steps() < steps {
            if self.interrupt.is_raised() {
                self.save(trainer, curve)?;
                let step = trainer.steps();
                let message = format!("training was interrupted after step {step} of {steps}");
                let remark = Diagnostic::remark("E0739", message);
                return Ok(Some(match &self.args.checkpoint {
                    Some(path) => remark.help(format!("go on with `--resume {path}`")),
                    None => remark,
                }));
            }
            let epoch = trainer.steps() / trainer.steps_of_epoch() + 1;
            self.bar.step(&format!("epoch {epoch}"));
            let loss = trainer.step()?;
            if let Some(folder) = &self.args.stop_on_nan
                && trainer.gave_no_number()?
            {
                return Err(self.stop(trainer, &self.directory.join(folder))?.into());
            }
            trainer.take();
            curve.add(loss);
            if trainer.steps().is_multiple_of(trainer.steps_of_epoch()) {
                let weights = trainer.weights()?;
                let score = test.as_mut().map(|test| test.score(&weights)).transpose()?;
                let epoch = curve.end_epoch(trainer.steps_of_epoch(), score);
                self.tell(&epoch, curve.epochs.len())?;
                self.save(trainer, curve)?;
            }
        }
        Ok(None)
    }

    /// Prints how good the weights are after an epoch.
    fn tell(&mut self, epoch: &Epoch, number: usize) -> Result<(), Diagnostic> {
        let mut line = format!("epoch {number:3}  loss {:.6}", epoch.loss);
        if let Some(score) = epoch.test {
            line += &format!("  test loss {:.6}", score.loss);
            if let Some(accuracy) = score.accuracy {
                line += &format!("  accuracy {:.2} %", accuracy * 100.0);
            }
        }
        let out = &mut self.out;
        self.bar.aside(|| writeln!(out, "{line}").and_then(|()| out.flush())).or_else(|error| {
            match error.kind() {
                // Whoever read the output has seen enough.
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(cannot_write("the output", &error)),
            }
        })
    }

    fn save(&self, trainer: &Trainer<'_>, curve: &Curve) -> Result<(), Diagnostics> {
        let Some(path) = &self.args.checkpoint else { return Ok(()) };
        let mut arrays = trainer.snapshot()?;
        arrays.extend(curve.arrays());
        arrays::save(&self.directory.join(path), &arrays)
    }

    /// The error that the last step gave what is no number, after it was written to `folder`.
    fn stop(&self, trainer: &Trainer<'_>, folder: &Path) -> Result<Diagnostic, Diagnostics> {
        let (module, arrays) = trainer.reproducer()?;
        let [program, inputs]: [PathBuf; 2] =
            ["step.relay", "step.npz"].map(|name| folder.join(name));
        let mut text = Vec::new();
        print(module, trainer.registry(), &Style::default(), &mut text)
            .expect("a vector takes all");
        let written = std::fs::create_dir_all(folder).and_then(|()| files::write(&program, text));
        written.map_err(|error| cannot_write(&format!("`{}`", program.display()), &error))?;
        arrays::save(&inputs, &arrays)?;
        let (program, inputs) = (program.display(), inputs.display());
        let help = format!("see it again: relay-opt run {program} --inputs {inputs}");
        Ok(trainer.blame()?.help(help))
    }
}

fn cannot_write(what: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::error("E0724", format!("cannot write {what}: {}", plain(error)))
}
