//! Programs that are compiled and run from Rust.

use ir_core::pipeline::Pipeline;
use runtime::{BuildOptions, DType, Error, Fusion, Model, TensorData, pipelines, registry, target};

const TEXT: &str = "def @main(%x: Tensor[(2, 3), float32], %n: Tensor[(2, 3), int32]) {
  (nn.softmax(%x), divide(%n, right_shift(%n, 1)))
}
";

fn tensor(dtype: DType, numbers: &[f64]) -> TensorData {
    TensorData::from_f64(dtype, &[2, 3], numbers).expect("six numbers")
}

/// What `@main` gives after `pipeline`, built as `options` change it.
fn results(
    pipeline: &Pipeline,
    options: &dyn Fn(BuildOptions<'_>) -> BuildOptions<'_>,
) -> Vec<Vec<f64>> {
    let run = || -> Result<Vec<TensorData>, Error> {
        let registry = registry();
        let mut model = Model::parse("model.relay", TEXT, &registry)?;
        model.run_passes(pipeline)?;
        let target = target("c{threads=1}", &registry)?;
        let mut program = model.compile(&options(BuildOptions::new(&*target)))?;
        let inputs = [DType::FLOAT32, DType::INT32];
        program.call(&inputs.map(|dtype| tensor(dtype, &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0])))
    };
    run().unwrap_or_else(|error| panic!("{error}")).iter().map(TensorData::to_f64).collect()
}

#[test]
fn every_way_to_compile_computes_the_same() {
    let interpreted =
        results(&pipelines::o0(), &|options| BuildOptions { interpret: true, ..options });
    assert_eq!(interpreted[1], [2.0, 3.0, 2.0, 2.0, 2.0, 2.0]);
    let close = |found: &[f64]| {
        let softmax = found.iter().zip(&interpreted[0]);
        assert!(softmax.clone().all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    };
    for pipeline in [pipelines::o0(), pipelines::o1(), pipelines::o2(), pipelines::o3()] {
        let found = results(&pipeline, &|options| options);
        close(&found[0]);
        assert_eq!(found[1], interpreted[1]);
    }
    close(&results(&pipelines::o1(), &searched)[0]);
}

/// In the kernels that cost least, without checks.
fn searched(options: BuildOptions<'_>) -> BuildOptions<'_> {
    let fusion = Fusion::Search(ir_core::CostTable::NOMINAL);
    BuildOptions { fusion, checked: false, ..options }
}

#[test]
fn errors_are_values_with_their_places() {
    let registry = registry();
    let error = |text: &str| match Model::parse("model.relay", text, &registry) {
        Ok(_) => panic!("{text} is no program"),
        Err(error) => error.to_string(),
    };
    assert!(error("def @main(").contains("model.relay:1"), "{}", error("def @main("));
    let unfit = "def @main(%x: Tensor[(2), float32], %y: Tensor[(3), float32]) { add(%x, %y) }";
    assert!(error(unfit).contains("model.relay:1:65"), "{}", error(unfit));
    assert!(
        Model::read("missing.relay", &registry)
            .is_err_and(|error| { error.to_string().contains("cannot read `missing.relay`") })
    );
    assert!(target("d", &registry).is_err());

    let mut model = Model::parse("model.relay", TEXT, &registry).expect("it is a program");
    let target = target("c{threads=1}", &registry).expect("it exists");
    let options = BuildOptions { interpret: true, ..BuildOptions::new(&*target) };
    let mut program = model.compile(&options).expect("it compiles");
    let few = program.call(&[]).unwrap_err().to_string();
    assert!(few.contains("expected 2 inputs, found 0"), "{few}");
    // 1 >> 1 divides.
    let numbers = [DType::FLOAT32, DType::INT32].map(|dtype| tensor(dtype, &[1.0; 6]));
    let failed = program.call(&numbers).unwrap_err().to_string();
    assert!(failed.contains("E0502") && failed.contains("model.relay:2"), "{failed}");
}

#[test]
fn a_program_is_compiled_for_the_extents_that_it_is_called_with() {
    let registry = registry();
    let text = "def @main[n](%x: Tensor[(n, 2), float32], %y: Tensor[(?, 2), float32], \
                %stop: int32) { (add(%x, %y), arange(0, %stop, 1, dtype=\"int32\")) }";
    let model = Model::parse("open.relay", text, &registry).expect("it is a program");
    let target = target("c{threads=1}", &registry).expect("it exists");
    let options = BuildOptions { interpret: true, ..BuildOptions::new(&*target) };
    let mut versions = model.versions(options);
    let rows = |rows: i64| {
        let numbers: Vec<f64> = (0..rows * 2).map(|number| number as f64).collect();
        TensorData::from_f64(DType::FLOAT32, &[rows, 2], &numbers).expect("they are as many")
    };
    let stop = |stop: f64| TensorData::from_f64(DType::INT32, &[], &[stop]).expect("a scalar");
    for (n, m, end) in [(3, 3, 2), (1, 3, 2), (3, 1, 0), (0, 1, 5), (3, 3, 2)] {
        let results = versions.call(&[rows(n), rows(m), stop(f64::from(end))]);
        let results = results.unwrap_or_else(|error| panic!("{n}, {m}: {error}"));
        let expected = if n == 1 { m } else { n };
        assert_eq!(results[0].shape(), [expected, 2]);
        for (index, sum) in results[0].to_f64().into_iter().enumerate() {
            let of = |rows: i64| if rows == 1 { index % 2 } else { index };
            assert_eq!(sum, (of(n) + of(m)) as f64, "{n}, {m}");
        }
        assert_eq!(results[1].shape(), [i64::from(end)]);
    }
    // The last call was of a program that was there.
    assert_eq!(versions.kept(), 4);
    let misfit = versions.call(&[rows(2), rows(3), stop(1.0)]).unwrap_err().to_string();
    assert!(misfit.contains("open.relay:1") && misfit.contains("broadcast"), "{misfit}");
    for extent in 4..30 {
        versions.call(&[rows(extent), rows(1), stop(1.0)]).expect("it broadcasts");
    }
    assert_eq!(versions.kept(), 16);
}
