//! Functions whose equal expressions are written apart.

use ir_core::fingerprint::fingerprint;
use ir_core::{DType, Fingerprint, Item};
use te::compute::ComputeBuilder;
use te::compute::simplify::simplify;

/// A function of a tensor of `rows` rows, whose numbers are 0, 1, equal to one another, or not.
fn written(mut builder: ComputeBuilder, rows: i64) -> Item {
    let x = builder.input("x", &[rows, 4], DType::FLOAT32);
    let gathered = builder.compute("gathered", &[rows, 4], |e, i| {
        let row = e.mul_index(i[0], rows);
        let next = e.add_index(i[0], rows - 1);
        let four = e.index(4);
        let [a, b] = [row, next].map(|index| e.floor_mod(index, four));
        let extent = e.index(rows);
        let a = e.floor_mod(a, extent);
        let (first, second) = (e.load(&x, &[a, i[1]]), e.load(&x, &[a, b]));
        e.add(first, second)
    });
    builder.finish(&[gathered]).expect("it is well typed")
}

fn operations(item: &Item) -> Vec<String> {
    let body = item.body.as_deref().expect("a function");
    body.walk().map(|op| body.op_name(op).to_string()).collect()
}

fn meaning(item: &Item) -> Fingerprint {
    fingerprint(item.body.as_deref().expect("a function"))
}

#[test]
fn what_is_written_depends_on_no_number() {
    let many = operations(&written(ComputeBuilder::apart(), 1009));
    for rows in [1, 2, 4, 5] {
        assert_eq!(operations(&written(ComputeBuilder::apart(), rows)), many, "{rows}");
    }
    assert_ne!(operations(&written(ComputeBuilder::new(), 4)), many);
}

#[test]
fn simplified_it_is_as_if_written_at_once() {
    for rows in [1, 2, 4, 5, 1009] {
        let mut apart = written(ComputeBuilder::apart(), rows);
        simplify(apart.body_mut().expect("a function"));
        let at_once = written(ComputeBuilder::new(), rows);
        let [mut left, mut right] = [&apart, &at_once].map(operations);
        // Constants may have come earlier.
        left.sort();
        right.sort();
        assert_eq!(left, right, "{rows}");
        assert!(rows == 1 || meaning(&apart) == meaning(&at_once), "{rows}");
    }
}
