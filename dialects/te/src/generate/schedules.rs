//! Random legal schedules.

use ir_core::{Item, Random, Symbol};

use crate::loops::Scope;
use crate::schedule::{Axis, Refused, Schedule, Stage};

/// A schedule of `function` that belongs to `seed`: `steps` primitives, each tried at random places
/// until it is allowed, or left out. Also returns what was done, a line for each primitive. Errors
/// when `function` is no compute function.
pub fn schedule(
    function: &Item,
    seed: u64,
    steps: usize,
) -> Result<(Schedule, Vec<String>), Refused> {
    let mut random = Random::new(seed);
    let mut schedule = Schedule::new(function)?;
    let mut log = Vec::new();
    for _ in 0..steps {
        for _ in 0..8 {
            if let Ok(Some(line)) = step(&mut schedule, &mut random) {
                log.push(line);
                break;
            }
        }
    }
    Ok((schedule, log))
}

fn pick<T: Copy>(random: &mut Random, items: &[T]) -> Option<T> {
    (!items.is_empty()).then(|| items[random.below(items.len())])
}

/// Tries one primitive; `None` where there is nothing to apply it to.
fn step(s: &mut Schedule, random: &mut Random) -> Result<Option<String>, Refused> {
    let stages: Vec<Stage> = s.stages().collect();
    let Some(stage) = pick(random, &stages) else { return Ok(None) };
    let loops = s.loops(stage).to_vec();
    let Some(axis) = pick(random, &loops) else { return Ok(None) };
    let (stage_name, axis_name) = (s.stage_name(stage).to_string(), s.axis_name(axis).to_string());
    let what = match random.below(19) {
        0..3 => {
            let factor = 1 + random.below(5) as i64;
            s.split(axis, factor)?;
            format!("split {axis_name} factor {factor}")
        }
        3 => {
            let Some(inner) = loops.iter().position(|l| *l == axis).and_then(|p| loops.get(p + 1))
            else {
                return Ok(None);
            };
            s.fuse(axis, *inner)?;
            format!("fuse {axis_name} with the next")
        }
        4..6 => {
            let mut order: Vec<Axis> = loops.clone();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i + 1));
            }
            s.reorder(&order)?;
            let names: Vec<&str> = order.iter().map(|axis| s.axis_name(*axis)).collect();
            format!("reorder {}", names.join(", "))
        }
        6 => {
            s.vectorize(axis)?;
            format!("vectorize {axis_name}")
        }
        7 => {
            s.unroll(axis)?;
            format!("unroll {axis_name}")
        }
        8 => {
            s.parallel(axis)?;
            format!("parallel {axis_name}")
        }
        9..12 => {
            let Some(other) = pick(random, &stages) else { return Ok(None) };
            s.compute_at(other, axis)?;
            if s.is_output(other) {
                return Ok(Some(format!(
                    "{stage_name}: compute_at result {}",
                    s.stage_name(other)
                )));
            }
            let scopes = [Scope::Local, Scope::Register, Scope::Global, Scope::Shared];
            // What threads combine cannot be memory of one of them.
            let _ = s.set_scope(other, scopes[random.below(scopes.len())]);
            format!("compute_at {} at {axis_name}", s.stage_name(other))
        }
        12 => {
            s.compute_inline(stage)?;
            "compute_inline".to_string()
        }
        13 => {
            s.cache_write(stage, Scope::Local)?;
            "cache_write".to_string()
        }
        14 => {
            let Some(source) = pick(random, &stages) else { return Ok(None) };
            let source = s.stage_name(source).to_string();
            s.cache_read(&source, Scope::Local, &[stage])?;
            format!("cache_read {source}")
        }
        15 => {
            if !s.is_reduction(axis) {
                return Ok(None);
            }
            let thread = ["threadIdx.x", "threadIdx.y"][random.below(2)];
            let factor = 1 + random.below(5) as i64;
            let before = s.clone();
            let bound = s.split(axis, factor).and_then(|(_, inner)| s.bind(inner, thread));
            bound.inspect_err(|_| *s = before)?;
            format!("bind {axis_name} split by {factor} to {thread}")
        }
        _ => match random.below(7) {
            0..3 => {
                // Often over a split that leaves a rest.
                let factor = random.below(6) as i64;
                let before = s.clone();
                let factored = match factor {
                    0 => s.rfactor(axis),
                    _ => s.split(axis, factor).and_then(|(outer, inner)| {
                        s.rfactor(if random.below(4) == 0 { outer } else { inner })
                    }),
                };
                factored.inspect_err(|_| *s = before)?;
                format!("rfactor {axis_name} split by {factor}")
            }
            3 => {
                s.decompose_reduction(stage, axis)?;
                format!("decompose_reduction at {axis_name}")
            }
            4 => {
                s.stream(stage)?;
                "stream".to_string()
            }
            5 => {
                let body = s.body();
                let loaded = s.accesses(stage).into_iter().map(|access| access.tensor);
                let names = loaded.filter_map(|tensor| body.name_hint(tensor).name);
                let names: Vec<Symbol> = names.collect();
                let Some(name) = pick(random, &names) else { return Ok(None) };
                let (distance, step) = (1 + random.below(4) as i64, 1 + random.below(20) as i64);
                s.prefetch(axis, name.as_str(), distance, step)?;
                format!("prefetch {name} at {axis_name} distance {distance} step {step}")
            }
            _ => {
                let factor = 1 + random.below(8) as i64;
                let offset = random.below(factor as usize) as i64;
                s.storage_align(stage, axis, factor, offset)?;
                format!("storage_align {axis_name} {factor} {offset}")
            }
        },
    };
    Ok(Some(format!("{stage_name}: {what}")))
}
