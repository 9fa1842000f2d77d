//! Schedules of well-known computes.

use ir_core::{DType, Item, Module, Registry, Symbol, verify};
use te::compute::{Combiner, ComputeBuilder};
use te::loops::{Scope, simplify, unroll, vectorize};
use te::schedule::Schedule;

fn dense_relu(m: i64, n: i64, k: i64) -> Item {
    let mut f = ComputeBuilder::new();
    let x = f.input("x", &[m, k], DType::FLOAT32);
    let w = f.input("w", &[k, n], DType::FLOAT32);
    let dense = f.reduce("dense", &[m, n], &[k], Combiner::Sum, |e, i, r| {
        let (a, b) = (e.load(&x, &[i[0], r[0]]), e.load(&w, &[r[0], i[1]]));
        e.mul(a, b)
    });
    let relu = f.compute("relu", &[m, n], |e, i| {
        let (value, zero) = (e.load(&dense, i), e.number(DType::FLOAT32, 0.0));
        e.max(value, zero)
    });
    f.finish(&[relu]).unwrap()
}

fn text(kernel: Item) -> String {
    let registry = Registry::new().with(te::dialect());
    let mut module = Module::new();
    module.items.insert(Symbol::new("kernel"), kernel);
    let mut out = Vec::new();
    ir_core::text::print(&module, &registry, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    if let Err(errors) = verify(&module, &registry) {
        panic!("{errors:#?}\n{text}");
    }
    text
}

#[test]
fn a_register_tile() {
    let f = dense_relu(16, 32, 64);
    let mut s = Schedule::new(&f).unwrap();
    let (relu, dense) = (s.stage("relu").unwrap(), s.stage("dense").unwrap());
    let [i, j] = s.axes(relu).to_vec()[..] else { panic!() };
    let [io, jo, ii, ji] = s.tile(i, j, 4, 16).unwrap();
    s.vectorize(ji).unwrap();
    s.unroll(ii).unwrap();
    s.parallel(io).unwrap();
    s.compute_at(dense, jo).unwrap();
    s.set_scope(dense, Scope::Register).unwrap();
    let [i, j, k] = s.axes(dense).to_vec()[..] else { panic!() };
    s.reorder(&[k, i, j]).unwrap();
    s.unroll(i).unwrap();
    s.vectorize(j).unwrap();
    let mut kernel = te::lower::lower(&s).unwrap();
    println!("{}", text(kernel.clone()));
    let body = kernel.body_mut().unwrap();
    assert_eq!(vectorize(body), 3);
    assert_eq!(unroll(body), 3);
    simplify(body);
    println!("{}", text(kernel));
}
