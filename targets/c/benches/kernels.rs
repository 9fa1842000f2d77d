//! How near hand-built kernels come to the peak of one core: GEMM 512³ and a 3×3 convolution, with
//! accumulators in registers, as a schedule would write them. Prints CPU time, not wall time.
//!
//! ```text
//! cargo bench -p target-c --bench kernels -- [gigaflops of the peak, 118.2 by default]
//! ```

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Writer, compilers, module, numbers};
use ir_core::{DType, Item, TensorData, ValueId, verify};
use target_core::{Buffer, Executable, Target};
use te::loops::Scope;

const F32: DType = DType::FLOAT32;

/// Vector accumulators that a loop adds to.
struct Accumulators {
    buffer: ValueId,
    rows: i64,
    columns: i64,
    lanes: i64,
}

impl Accumulators {
    fn zeroed(w: &mut Writer, rows: i64, columns: i64, lanes: i64) -> Accumulators {
        let buffer = w.alloc("acc", &[rows, columns * lanes], F32, Scope::Register);
        let this = Accumulators { buffer, rows, columns, lanes };
        let zero = w.float(0.0);
        let zeros = w.broadcast(zero, lanes);
        for row in 0..rows {
            for column in 0..columns {
                let place = this.place(w, row, column);
                w.store(zeros, buffer, &place);
            }
        }
        this
    }

    fn place(&self, w: &mut Writer, row: i64, column: i64) -> [ValueId; 2] {
        let (row, first) = (w.index(row), w.index(column * self.lanes));
        [row, w.ramp(first, self.lanes)]
    }

    /// Adds `a` by row times `b` by column.
    fn multiply_add(
        &self,
        w: &mut Writer,
        mut a: impl FnMut(&mut Writer, i64) -> ValueId,
        mut b: impl FnMut(&mut Writer, i64) -> ValueId,
    ) {
        let columns: Vec<ValueId> = (0..self.columns).map(|column| b(w, column)).collect();
        for row in 0..self.rows {
            let scalar = a(w, row);
            let a = w.broadcast(scalar, self.lanes);
            for (column, &b) in columns.iter().enumerate() {
                let place = self.place(w, row, column as i64);
                let old = w.load(self.buffer, &place);
                let product = w.mul(a, b);
                let new = w.add(old, product);
                w.store(new, self.buffer, &place);
            }
        }
    }

    fn each(&self, w: &mut Writer, mut f: impl FnMut(&mut Writer, i64, i64, ValueId)) {
        for row in 0..self.rows {
            for column in 0..self.columns {
                let place = self.place(w, row, column);
                let value = w.load(self.buffer, &place);
                f(w, row, column, value);
            }
        }
    }
}

/// `c = a · b` of `n` by `n`, in tiles of `rows` by `columns` vectors; `b` is packed by panels.
fn gemm(n: i64, rows: i64, columns: i64, lanes: i64) -> Item {
    let wide = columns * lanes;
    let mut w = Writer::new();
    let a = w.param("a", &[n, n], F32);
    let b = w.param("b", &[n, n], F32);
    let c = w.param("c", &[n, n], F32);
    let panel = w.alloc("panel", &[n, wide], F32, Scope::Global);
    w.serial("j", n / wide, |w, j| {
        w.serial("k", n, |w, k| {
            for column in 0..columns {
                let from = w.affine(j, wide, column * lanes);
                let (from, to) = (w.ramp(from, lanes), w.index(column * lanes));
                let to = w.ramp(to, lanes);
                let value = w.load(b, &[k, from]);
                w.store(value, panel, &[k, to]);
            }
        });
        w.serial("i", n / rows, |w, i| {
            let acc = Accumulators::zeroed(w, rows, columns, lanes);
            w.serial("k", n, |w, k| {
                acc.multiply_add(
                    w,
                    |w, row| {
                        let row = w.affine(i, rows, row);
                        w.load(a, &[row, k])
                    },
                    |w, column| {
                        let first = w.index(column * lanes);
                        let place = w.ramp(first, lanes);
                        w.load(panel, &[k, place])
                    },
                );
            });
            acc.each(w, |w, row, column, value| {
                let row = w.affine(i, rows, row);
                let first = w.affine(j, wide, column * lanes);
                let place = w.ramp(first, lanes);
                w.store(value, c, &[row, place]);
            });
        });
    });
    w.finish(1)
}

/// A 3×3 convolution of `channels` to `channels` on `size` by `size`, in blocks of 16 channels.
fn convolution(channels: i64, size: i64, pixels: i64, columns: i64) -> Item {
    let blocks = channels / 16;
    let mut w = Writer::new();
    let x = w.param("x", &[blocks, size + 2, size + 2, 16], F32);
    let weight = w.param("w", &[blocks, blocks, 3, 3, 16, 16], F32);
    let y = w.param("y", &[blocks, size, size, 16], F32);
    w.serial("oc", blocks / columns, |w, oc| {
        w.serial("row", size, |w, row| {
            w.serial("tile", size / pixels, |w, tile| {
                let acc = Accumulators::zeroed(w, pixels, columns, 16);
                w.serial("ic", blocks, |w, ic| {
                    w.serial("dy", 3, |w, dy| {
                        w.serial("dx", 3, |w, dx| {
                            w.serial("c", 16, |w, c| {
                                let at = w.add(row, dy);
                                acc.multiply_add(
                                    w,
                                    |w, pixel| {
                                        let left = w.affine(tile, pixels, pixel);
                                        let left = w.add(left, dx);
                                        w.load(x, &[ic, at, left, c])
                                    },
                                    |w, column| {
                                        let block = w.affine(oc, columns, column);
                                        let zero = w.index(0);
                                        let lanes = w.ramp(zero, 16);
                                        w.load(weight, &[block, ic, dy, dx, c, lanes])
                                    },
                                );
                            });
                        });
                    });
                });
                acc.each(w, |w, pixel, column, value| {
                    let block = w.affine(oc, columns, column);
                    let at = w.affine(tile, pixels, pixel);
                    let zero = w.index(0);
                    let lanes = w.ramp(zero, 16);
                    w.store(value, y, &[block, row, at, lanes]);
                });
            });
        });
    });
    w.finish(1)
}

/// Nanoseconds that this thread ran.
fn cpu_time() -> f64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let time = nix::time::clock_gettime(clock).expect("a clock");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

fn main() {
    let peak: f64 =
        std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(118.2);
    let items = [
        ("gemm_8x2", gemm(512, 8, 2, 16), 2.0 * 512f64.powi(3)),
        ("gemm_4x4", gemm(512, 4, 4, 16), 2.0 * 512f64.powi(3)),
        ("conv_8x2", convolution(64, 56, 8, 2), 2.0 * 64.0 * 64.0 * 9.0 * 56.0 * 56.0),
        ("conv_14x1", convolution(64, 56, 14, 1), 2.0 * 64.0 * 64.0 * 9.0 * 56.0 * 56.0),
    ];
    let module = module(items.iter().map(|(name, item, _)| (*name, item.clone())));
    let registry = common::registry();
    let verified = verify(&module, &registry).expect("a verified module");
    for (command, compiler) in compilers() {
        let target = common::target("host");
        let loaded =
            target.load_with(verified, &compiler, &common::cache()).expect("compiled kernels");
        for (name, _, flops) in &items {
            let kernel = loaded.kernels().iter().find(|kernel| kernel.name == *name).expect("it");
            let mut buffers: Vec<Buffer> = Vec::new();
            for (index, ty) in kernel.params.iter().enumerate() {
                let shape = ty.as_tensor().and_then(|t| t.known_shape()).expect("extents");
                let count = shape.iter().product::<i64>() as usize;
                let data = numbers(count, index as u64, -1.0, 1.0);
                let data = TensorData::from_f64(F32, &shape, &data).expect("a tensor");
                buffers.push(Buffer::of_tensor(&data));
            }
            let mut best = f64::INFINITY;
            for _ in 0..200 {
                let start = cpu_time();
                loaded.call(name, &mut buffers).expect("a call");
                best = best.min(cpu_time() - start);
            }
            let rate = flops / best;
            eprintln!(
                "{command:9} {:7} {name:10} {:9.1} us {rate:7.1} GFLOP/s {:5.1} % of {peak}",
                target.capabilities().isa,
                best / 1000.0,
                100.0 * rate / peak
            );
        }
    }
}
