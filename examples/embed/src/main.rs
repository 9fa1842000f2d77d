//! Reads a model, runs passes on it, compiles it, and runs it.

use runtime::{BuildOptions, DType, Error, Model, TensorData, pipelines, registry, target};

fn main() -> Result<(), Error> {
    let registry = registry();
    let mut model = Model::read("model.relay", &registry)?;
    let weight = TensorData::from_f64(DType::FLOAT32, &[2, 3], &[1.0, 0.0, -1.0, 0.5, 0.5, 0.5])?;
    model.bind(&[("w".to_string(), weight)]);
    model.run_passes(&pipelines::o1())?;

    let target = target("c{threads=2}", &registry)?;
    let mut program = model.compile(&BuildOptions::new(&*target))?;

    let input = TensorData::from_f64(DType::FLOAT32, &[1, 3], &[4.0, 2.0, 0.0])?;
    for result in program.call(&[input])? {
        println!("{} {:?}", result.ty(), result.to_f64());
    }
    Ok(())
}
