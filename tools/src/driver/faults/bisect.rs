//! Which pass, and which of its rewrites, is at fault.

use ir_core::pipeline::{Oracle, Outcome};
use ir_core::{Interrupt, Module, Rewrite, WatchOptions};
use runtime::progress::Progress;

use crate::driver::language::verify;
use crate::driver::semantics::Trials;

use super::steps::{WrongStep, wrong_step};
use super::trial::{Execution, Extent, Finding, Notes, Predicate, Trial, difference, fault};

/// Where a fault begins.
pub(crate) struct Bisected {
    /// What runs when the fault shows.
    pub(crate) execution: Execution,
    /// Its number, from 1, and how many there are.
    pub(crate) number: (u64, u64),
    /// The program before it.
    pub(crate) before: Module,
    /// What happens then.
    pub(crate) finding: Finding,
    /// The rewrite, its number, from 1, and how many there are; `None` where it is none that can be
    /// told: before the first, or after the last.
    pub(crate) rewrite: Option<(Rewrite, u64, u64)>,
    /// The step of what the pass explains, where it is one that says that different values are
    /// equal.
    pub(crate) step: Option<WrongStep>,
}

/// What was found of the place where a fault begins.
pub(crate) enum Place {
    /// All of it.
    Found(Box<Bisected>),
    /// The search was interrupted: it is one of the executions after the first number, up to the
    /// second one, of so many.
    Narrowed(Finding, (u64, u64), u64),
}

/// Finds the first execution of a pass after which `trial` shows its fault in `module`, a verified
/// program whose text is `text`; `None` where all of the pipeline shows none, or the program does
/// before any pass. `interrupt` ends the search with what is known then.
pub(crate) fn bisect(
    module: &Module,
    text: &str,
    trial: &Trial,
    interrupt: Interrupt,
    progress: &dyn Progress,
) -> Option<Place> {
    progress.step("all passes");
    let finding = trial.check(module, text, Extent::All)?;
    let mut same = trial.of_pipeline(trial.pipeline.clone());
    same.key = Some(finding.key.clone());
    // A run that ends early has not come to all executions, which then do not matter.
    let all = trial.run(module, Extent::All, WatchOptions::default()).ok()?.executions;
    let total = all.len() as u64;
    let (mut good, mut bad) = (0, total);
    let mut found = finding;
    if same.check(module, text, Extent::First(0)).is_some() {
        return None;
    }
    // Each step halves what is left.
    let halvings = |count: u64| count.checked_ilog2().map_or(0, |steps| steps as usize + 1);
    progress.expect(halvings(total) + 2);
    while bad - good > 1 {
        progress.step(&format!("passes: execution {} to {bad} of {total}", good + 1));
        if interrupt.is_raised() {
            return Some(Place::Narrowed(found, (good, bad), total));
        }
        let middle = good + (bad - good) / 2;
        match same.check(module, text, Extent::First(middle)) {
            Some(finding) => (bad, found) = (middle, finding),
            None => good = middle,
        }
    }
    let prefix = Extent::First(good);
    let before = trial.run(module, prefix, WatchOptions::default()).ok()?;
    let execution = all.get(usize::try_from(good).ok()?)?.clone();
    progress.step(&format!("rewrites of `{}`", execution.pass));
    let rewrite = rewrite(&before.module, &execution, trial);
    let step = match &trial.predicate {
        Predicate::Miscompile(_) => step(&before.module, &execution, trial),
        _ => None,
    };
    let number = (bad, total);
    let before = before.module;
    let found = Bisected { execution, number, before, finding: found, rewrite, step };
    Some(Place::Found(Box::new(found)))
}

/// The first rewrite of `execution` on `before` after which the fault shows.
fn rewrite(before: &Module, execution: &Execution, trial: &Trial) -> Option<(Rewrite, u64, u64)> {
    let alone = trial.of_pipeline(execution.step.clone());
    let extent = place(before, execution, &alone)?;
    let watch = WatchOptions { record: true, ..WatchOptions::default() };
    let ran = alone.run(before, extent, watch).ok()?;
    // A run that is cut short does not say so.
    let finite = ran.report.rounds();
    let rewrites = ran.rewrites;
    let total = rewrites.len() as u64;
    let mut oracle = Trials::new(3);
    let expected = match &trial.predicate {
        Predicate::Miscompile(_) => Some(oracle.evaluate(before, &trial.registry).ok()?),
        _ => None,
    };
    // Whether the program is still right after so many rewrites.
    let mut is_good = |limit: u64| {
        let watch = WatchOptions { limit: Some(limit), ..WatchOptions::default() };
        let Ok(ran) = alone.run(before, extent, watch) else { return false };
        match (&trial.predicate, &expected) {
            (Predicate::Miscompile(executor), Some(expected)) => {
                let verified = verify(&ran.module, &trial.registry).is_empty();
                let (after, registry) = ((&ran.module, finite), &trial.registry);
                verified && difference(&mut oracle, expected, after, registry, *executor).is_none()
            }
            (Predicate::Crash, _) if matches!(ran.report.outcome, Outcome::Stopped(_)) => {
                verify(&ran.module, &trial.registry).is_empty()
            }
            (Predicate::Crash, _) => fault(&ran.report).is_none(),
            (Predicate::Command(_) | Predicate::Message(_) | Predicate::Miscompile(_), _) => false,
        }
    };
    let last = match (&trial.predicate, &ran.report.outcome) {
        // The pass did not come to another one.
        (Predicate::Crash | Predicate::Message(_), Outcome::Crashed(_)) => total,
        (Predicate::Crash | Predicate::Miscompile(_), _) if total > 0 => {
            let (mut good, mut bad) = (0, total);
            while bad - good > 1 {
                let middle = good + (bad - good) / 2;
                if is_good(middle) { good = middle } else { bad = middle }
            }
            bad
        }
        _ => return None,
    };
    let index = usize::try_from(last).ok()?.checked_sub(1)?;
    Some((rewrites.into_iter().nth(index)?, last, total))
}

/// The first step of `execution` on `before` whose sides differ, where the pass explains its steps.
fn step(before: &Module, execution: &Execution, trial: &Trial) -> Option<WrongStep> {
    let alone = trial.of_pipeline(execution.step.clone());
    let extent = place(before, execution, &alone)?;
    let notes = Notes { explain: true, ..Notes::default() };
    let ran = alone.run_noting(before, extent, notes).ok()?;
    let mut texts = ran.report.sources;
    texts.extend(&trial.rules);
    let explanation = ran.report.explanations.first()?;
    wrong_step(before, execution.item?, explanation, &texts, &trial.registry)
}

/// The part of a pipeline of that pass alone that is the execution.
fn place(before: &Module, execution: &Execution, alone: &Trial) -> Option<Extent> {
    let none = alone.run(before, Extent::First(0), WatchOptions::default()).ok()?;
    let index = none.executions.iter().position(|other| other.item == execution.item)?;
    Some(Extent::Only(index as u64 + 1))
}
