//! How close scheduled kernels come to what the machine can do, measured in the same run.
//!
//! `cargo bench -p relay-opt-target-c --bench kernels [NAME]` prints a table: the time of each kernel on one
//! thread, and its share of what bounds it: the peak of multiply-adds, the bandwidth of a copy of
//! as many bytes (read and written bytes counted alike), or the rate of exponentials that lie in
//! the nearest cache. `SHOW=1` prints the generated code.

#![allow(clippy::print_stdout)]

mod cases;

use std::time::Instant;

use ir_core::{Item, Module, Registry, Symbol, verify};
use target_core::{Buffer, Executable, Target, Targets, cpu};
use te::loops::{simplify, unroll, vectorize};
use te::schedule::Schedule;

use cases::Case;

/// Seconds that each measurement repeats.
const SECONDS: f64 = 0.3;

/// The least time of `run`.
fn best(mut run: impl FnMut()) -> f64 {
    let (begun, mut least) = (Instant::now(), f64::INFINITY);
    while begun.elapsed().as_secs_f64() < SECONDS {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

struct Bench {
    registry: Registry,
    target: Box<dyn Target>,
}

impl Bench {
    fn load(&self, schedule: &Schedule) -> Box<dyn Executable> {
        let mut kernel = te::lower::lower(schedule).unwrap();
        let body = kernel.body_mut().unwrap();
        vectorize(body);
        unroll(body);
        simplify(body);
        let mut module = Module::new();
        module.items.insert(Symbol::new("kernel"), kernel);
        let verified = match verify(&module, &self.registry) {
            Ok(verified) => verified,
            Err(errors) => panic!("{:?}", errors[0].message),
        };
        if std::env::var_os("SHOW").is_some() {
            println!("{}", self.target.codegen(verified).unwrap()[0].text);
        }
        self.target.load(verified).unwrap()
    }

    fn default_schedule(&self, item: &Item) -> Schedule {
        cpu::schedule(item, self.target.capabilities()).unwrap()
    }

    /// Seconds of a kernel on small numbers.
    fn seconds(&self, schedule: &Schedule) -> f64 {
        let loaded = self.load(schedule);
        let params = loaded.kernels()[0].params.clone();
        let mut buffers: Vec<Buffer> =
            params.iter().map(|ty| Buffer::of_type(*ty).unwrap()).collect();
        for buffer in &mut buffers {
            for (i, bytes) in buffer.as_mut().chunks_exact_mut(4).enumerate() {
                bytes.copy_from_slice(&((i % 7) as f32 * 0.25).to_le_bytes());
            }
        }
        best(|| loaded.call("kernel", &mut buffers).unwrap())
    }

    /// Operations per second in multiply-adds that do not wait for one another.
    fn multiply_adds(&self) -> f64 {
        let (vectors, lanes) = (12, self.target.capabilities().lanes(32) as i64);
        let steps = 1 << 16;
        let item = cases::multiply_adds(vectors * lanes, steps);
        let mut schedule = Schedule::new(&item).unwrap();
        let sums = schedule.stages().next().unwrap();
        let cache = schedule.cache_write(sums, te::loops::Scope::Register).unwrap();
        let axes = schedule.axes(sums).to_vec();
        let (all, _) = schedule.split(axes[0], vectors * lanes).unwrap();
        schedule.compute_at(cache, all).unwrap();
        let axes = schedule.axes(cache).to_vec();
        let (number, lane) = schedule.split(axes[0], lanes).unwrap();
        schedule.reorder(&[axes[1], number, lane]).unwrap();
        schedule.unroll(number).unwrap();
        schedule.vectorize(lane).unwrap();
        let rest = *schedule.loops(sums).last().unwrap();
        let (number, lane) = schedule.split(rest, lanes).unwrap();
        schedule.unroll(number).unwrap();
        schedule.vectorize(lane).unwrap();
        2.0 * (vectors * lanes * steps) as f64 / self.seconds(&schedule)
    }

    /// Exponentials per second, of numbers that lie in the nearest cache.
    fn exponentials(&self) -> f64 {
        let (rows, columns) = (16, 2048);
        let item = cases::exponentials(rows, columns);
        (rows * columns) as f64 / self.seconds(&self.default_schedule(&item))
    }

    /// Seconds to copy, such that `bytes` are read and written in all.
    fn copy(bytes: f64) -> f64 {
        let from = vec![1u8; (bytes / 2.0) as usize];
        let mut to = vec![0u8; from.len()];
        best(|| std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from)))
    }
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let registry = Registry::from([te::dialect()]);
    let target = Targets::from([target_c::registration()]).parse("c{threads=1}").unwrap();
    let bench = Bench { registry, target };
    let (peak, exponentials) = (bench.multiply_adds(), bench.exponentials());
    println!("multiply-adds {:.1} GFLOP/s, exponentials {:.2} G/s", peak / 1e9, exponentials / 1e9);
    for Case { name, item, flops, bytes, exps } in cases::all() {
        if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let seconds = bench.seconds(&bench.default_schedule(&item));
        let bounds = [
            ("multiply-adds", flops / peak),
            ("copy", if bytes > 0.0 { Bench::copy(bytes) } else { 0.0 }),
            ("exponentials", exps / exponentials),
        ];
        let bound = bounds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        println!(
            "{name:24} {:9.1} µs  {:5.1} % of the bound by {:13}  {:6.1} GFLOP/s  {:6.1} GB/s",
            seconds * 1e6,
            100.0 * bound.1 / seconds,
            bound.0,
            flops / seconds / 1e9,
            bytes / seconds / 1e9
        );
    }
}
