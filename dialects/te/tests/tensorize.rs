//! Tensorized schedules compute what others do.

use ir_core::text::cursor::Cursor;
use ir_core::{AttrDict, AttrValue, DType, Item, Module, Random, Registry, Symbol, verify};
use te::compute::{Combiner, ComputeBuilder, Expression, Intrinsic, Tensor, UPDATE};
use te::interpreter::{Options, Order, run_compute, same_numbers};
use te::loops::{Scope, simplify, unroll, vectorize};
use te::schedule::Schedule;
use te::schedule::replay::replay;
use te::text::tidy;

/// A product of matrices, and an intrinsic that may fit.
struct Case {
    tile: [i64; 3],
    counts: [i64; 3],
    dtype: DType,
    /// Whether the second operand has the reduction first, in the function and in the intrinsic.
    transposed: [bool; 2],
    combiner: Combiner,
    update: bool,
}

fn product(
    names: [&str; 3],
    [m, n, k]: [i64; 3],
    dtype: DType,
    transposed: bool,
    combiner: Combiner,
) -> Item {
    let wide = if dtype.is_float() { dtype } else { DType::INT32 };
    let mut f = ComputeBuilder::new();
    let a = f.input(names[0], &[m, k], dtype);
    let shape = if transposed { [k, n] } else { [n, k] };
    let b = f.input(names[1], &shape, dtype);
    let element = |e: &mut Expression<'_>, tensor: &Tensor, indices: &[ir_core::ValueId]| {
        let value = e.load(tensor, indices);
        if wide == dtype { value } else { e.cast(value, wide) }
    };
    let c = f.reduce(names[2], &[m, n], &[k], combiner, |e, i, r| {
        let place = if transposed { [r[0], i[1]] } else { [i[1], r[0]] };
        let (x, y) = (element(e, &a, &[i[0], r[0]]), element(e, &b, &place));
        e.mul(x, y)
    });
    f.finish(&[c]).unwrap()
}

impl Case {
    fn new(random: &mut Random) -> Case {
        let mut sizes = |most: usize| [(); 3].map(|()| 1 + random.below(most) as i64);
        let (tile, counts) = (sizes(4), sizes(3));
        let flip = |random: &mut Random, one_in: usize| random.below(one_in) == 0;
        let transposed = flip(random, 2);
        let other = transposed != flip(random, 6);
        let dtypes = [DType::INT8, DType::FLOAT32, DType::INT32];
        let combiners = [Combiner::Sum, Combiner::Sum, Combiner::Max];
        Case {
            tile,
            counts,
            dtype: dtypes[random.below(3)],
            transposed: [transposed, other],
            combiner: combiners[random.below(3)],
            update: !flip(random, 4),
        }
    }

    fn module(&self) -> Module {
        let shape = [0, 1, 2].map(|axis| self.tile[axis] * self.counts[axis]);
        let of =
            |names, shape, transposed| product(names, shape, self.dtype, transposed, self.combiner);
        let mut intrinsic = of(["p", "q", "block"], self.tile, self.transposed[1]);
        if self.update {
            intrinsic.signature.attrs = AttrDict::new([(Symbol::new(UPDATE), true.to_attr())]);
        }
        let mut module = Module::new();
        let function = of(["x", "w", "product"], shape, self.transposed[0]);
        module.items.insert(Symbol::new("f"), function);
        module.items.insert(Symbol::new("block"), intrinsic);
        module
    }

    /// A random schedule in which the product is tensorized. Refused where the intrinsic does not
    /// fit.
    fn schedule(&self, module: &Module, random: &mut Random) -> Result<Schedule, String> {
        let name = Symbol::new("block");
        let mut s = Schedule::new(module.get("f").unwrap())?;
        let mut stage = s.stage("product").unwrap();
        // Cached, a tile of the result is dense.
        if random.below(4) > 0 {
            let cache = s.cache_write(stage, Scope::Local)?;
            let [i, j] = s.axes(stage).to_vec()[..] else { panic!() };
            let [io, jo, _, ji] = s.tile(i, j, self.tile[0], self.tile[1])?;
            if random.below(2) == 0 {
                s.vectorize(ji)?;
            }
            match random.below(3) {
                0 => s.parallel(io)?,
                1 => s.reorder(&[jo, io])?,
                // Guards on loops around stay outside.
                _ => drop(s.split(io, 2)?),
            }
            let inner = s.loops(stage)[s.loops(stage).len() - 3];
            s.compute_at(cache, inner)?;
            stage = cache;
        }
        let [i, j, k] = s.axes(stage).to_vec()[..] else { panic!() };
        let (ko, ki) = s.split(k, self.tile[2] + i64::from(random.below(12) == 0))?;
        let (io, ii) = s.split(i, self.tile[0])?;
        let (jo, ji) = s.split(j, self.tile[1])?;
        let order = [[io, jo, ko], [ko, io, jo], [io, ko, jo]][random.below(3)];
        s.reorder(&[&order[..], &[ii, ji, ki]].concat())?;
        let intrinsic = Intrinsic::of(name, module.get(name).unwrap())?;
        if s.tensorize(ii, intrinsic.clone()).is_err() {
            for tensor in ["x", "w"] {
                let copy = s.cache_read(tensor, Scope::Local, &[stage])?;
                s.compute_at(copy, order[2])?;
            }
            s.tensorize(ii, intrinsic)?;
        }
        if random.below(3) == 0 {
            s.decompose_reduction(stage, order[0])?;
        }
        s.check_tensorized()?;
        Ok(s)
    }
}

fn registry() -> Registry {
    Registry::from([te::dialect()])
}

fn text(module: &Module) -> String {
    let registry = registry();
    let mut out = Vec::new();
    ir_core::text::print(module, &registry, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    if let Err(errors) = verify(module, &registry) {
        panic!("{errors:#?}\n{text}");
    }
    text
}

/// Whether a random case was accepted. Its results are then those of the function, whether the
/// intrinsic is called as a function or as its kernel, and the record of its schedule is its text.
fn agrees(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let case = Case::new(&mut random);
    let mut module = case.module();
    let Ok(schedule) = case.schedule(&module, &mut random) else { return false };
    let function = module.get("f").unwrap().clone();
    let inputs = te::generate::inputs(&function, seed).unwrap();
    let expected = run_compute(function.body.as_ref().unwrap(), &inputs).unwrap();
    let kernel = te::lower::lower(&schedule).unwrap();
    let body = kernel.body.clone().unwrap();
    assert!(body.walk().any(|op| body.op_name(op) == "te.call"));

    module.items.insert(Symbol::new("s"), schedule.to_item(Symbol::new("f")).unwrap());
    let (read, problems) = ir_core::text::parse("test", &text(&module), &registry());
    assert!(problems.is_empty(), "{problems:#?}");
    let again = replay(read.get("s").unwrap(), &read, &registry());
    let again = te::lower::lower(&again.unwrap_or_else(|error| panic!("{seed}: {error:#?}")));
    let prints = [&body, again.unwrap().body.as_ref().unwrap()]
        .map(|body| ir_core::fingerprint::fingerprint(body));
    assert_eq!(prints[0], prints[1]);

    module.items.shift_remove(&Symbol::new("s"));
    module.items.insert(Symbol::new("f"), kernel);
    let run = Options {
        step_limit: None,
        parallel: Order::Reverse,
        check_races: true,
        ..Options::default()
    };
    for stage in 0..4 {
        let body = module.items.get_mut(&Symbol::new("f")).unwrap().body_mut().unwrap();
        match stage {
            0 => {}
            1 => {
                let block = module.get("block").unwrap();
                let lowered = te::lower::lower(&Schedule::new(block).unwrap()).unwrap();
                module.items.insert(Symbol::new("block"), lowered);
            }
            2 => {
                vectorize(body);
                unroll(body);
                simplify(body);
            }
            _ => tidy(body),
        }
        let text = text(&module);
        let found = run.run_kernel(&module, module.body("f").unwrap(), &inputs, 1);
        let found = found.unwrap_or_else(|error| panic!("{seed} {stage}: {error}\n{text}"));
        assert!(same_numbers(&found[0], &expected[0]), "{seed} {stage}\n{text}");
    }
    true
}

#[test]
fn tensorizing_never_changes_results() {
    let accepted = (0..400).filter(|seed| agrees(*seed)).count();
    // Most of the others have the wrong operand transposed, or start anew within the reduction.
    assert!(accepted > 150, "{accepted} cases were accepted");
}

/// The items of `text`, of which empty lines part any two.
fn items(text: &str, registry: &Registry) -> Module {
    let mut module = Module::new();
    for part in text.trim().split("\n\n") {
        let kind = part.split_whitespace().next().unwrap();
        let mut cursor = Cursor::new("test", part);
        let parsed = (registry.item(kind).unwrap().syntax.unwrap().parse)(&mut cursor, registry);
        let problems = cursor.diagnostics;
        let parsed = parsed.unwrap_or_else(|_| panic!("{problems:#?}"));
        assert!(problems.is_empty(), "{problems:#?}");
        module.items.insert(parsed.name, parsed.item);
    }
    module
}

#[test]
fn a_part_lies_within_its_buffer() {
    const PROGRAM: &str = "
te.kernel @copy(%x: Tensor[(4), float32], %y: Tensor[(2, 2), float32]) outputs 1 {
  for i < 4 {
    %y[i / 2, i % 2] = %x[i]
  }
}

te.kernel @reverse(%x: Tensor[(8), float32], %y: Tensor[(8), float32]) outputs 1 {
  for i < 2 {
    call @copy(%x at i * 4, %y at 4 - i * 4)
  }
}

te.kernel @beyond(%x: Tensor[(8), float32], %y: Tensor[(8), float32]) outputs 1 {
  for i < 2 {
    call @copy(%x at i * 4, %y at i * 5)
  }
}
";
    let module = items(PROGRAM, &registry());
    text(&module);
    let tensor =
        |numbers: [f64; 8]| ir_core::TensorData::from_f64(DType::FLOAT32, &[8], &numbers).unwrap();
    let inputs = [tensor([0., 1., 2., 3., 4., 5., 6., 7.])];
    let run = |name| Options::default().run_kernel(&module, module.body(name).unwrap(), &inputs, 1);
    assert_eq!(run("reverse").unwrap()[0], tensor([4., 5., 6., 7., 0., 1., 2., 3.]));
    let error = run("beyond").unwrap_err();
    let message = "`te.call` passes 4 elements of `%y` from element 5 on, which has 8";
    assert_eq!((error.code, error.message.as_str()), ("E0850", message));
}
