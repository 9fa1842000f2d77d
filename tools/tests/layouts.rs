//! The layout passes on networks of convolutions: random ones, which must compute the same, and
//! known ones, which must change the layout no more often than needed.
//!
//! `PROPTEST_CASES` sets how many random networks, `PROPTEST_RNG_SEED` the first.

use std::fmt::Write;
use std::path::PathBuf;

use ir_core::pipeline::{Outcome, Pipeline, RunOptions, run};
use ir_core::{Module, Registry, verify};
use relay::interpreter::{Interpreter, Random, Value, approx_equal, check_type, random_arguments};
use relay_operators::layout::LayoutTransform;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A value of the network: its name and extents.
#[derive(Clone)]
struct Image {
    name: String,
    batch: i64,
    channels: i64,
    side: i64,
}

/// Writes a random network as text.
struct Network {
    random: Random,
    parameters: String,
    body: String,
    images: Vec<Image>,
    count: usize,
}

impl Network {
    fn text(seed: u64) -> String {
        let mut network = Network {
            random: Random::new(seed),
            parameters: String::new(),
            body: String::new(),
            images: vec![],
            count: 0,
        };
        let batch = 1 + network.random.below(2) as i64;
        for channels in [3, 8] {
            let name = network.parameter(&[batch, channels, 8, 8]);
            network.images.push(Image { name, batch, channels, side: 8 });
        }
        for _ in 0..3 + network.random.below(10) {
            network.step();
        }
        network.finish()
    }

    fn fresh(&mut self) -> String {
        self.count += 1;
        format!("%v{}", self.count)
    }

    fn parameter(&mut self, shape: &[i64]) -> String {
        let name = self.fresh();
        let shape: Vec<String> = shape.iter().map(|extent| extent.to_string()).collect();
        let comma = if self.parameters.is_empty() { "" } else { ", " };
        write!(self.parameters, "{comma}{name}: Tensor[({}), float32]", shape.join(", ")).unwrap();
        name
    }

    fn bind(&mut self, value: &str) -> String {
        let name = self.fresh();
        // A `let` now and then; the names of graph bindings are numbers.
        let (keyword, name) = match self.random.one_in(5) {
            true => ("let ", name),
            false => ("", name.replace('v', "")),
        };
        writeln!(self.body, "  {keyword}{name} = {value};").unwrap();
        name
    }

    fn image(&mut self) -> Image {
        // Late ones more often.
        let late = self.images.len().min(2 + self.random.below(6));
        let index = self.images.len() - 1 - self.random.below(late);
        self.images[index].clone()
    }

    fn step(&mut self) {
        let x = self.image();
        let (c, name) = (x.channels, x.name.clone());
        let mut out = x.clone();
        let value = match self.random.below(22) {
            0..=5 => {
                let mut choice = vec![(1, [1, 2, 3, 4, 5, 6, 8, 12, 16][self.random.below(9)])];
                choice.push((c, c));
                for groups in [2, 4] {
                    if c % groups == 0 {
                        choice.push((groups, c));
                        choice.push((groups, 2 * c));
                    }
                }
                let (groups, outputs) = choice[self.random.below(choice.len())];
                let kernel = [1, 3][self.random.below(2)];
                let stride = if x.side >= 4 { 1 + self.random.below(2) as i64 } else { 1 };
                let weight = self.parameter(&[outputs, c / groups, kernel, kernel]);
                let pad = kernel / 2;
                out.channels = outputs;
                out.side = (x.side - 1) / stride + 1;
                format!(
                    "nn.conv2d({name}, {weight}, strides=[{stride}, {stride}], \
                     padding=[{pad}, {pad}, {pad}, {pad}], groups={groups}, channels={outputs}, \
                     kernel_size=[{kernel}, {kernel}])"
                )
            }
            6 | 7 => {
                let function = ["nn.relu", "sigmoid", "tanh", "negative"][self.random.below(4)];
                format!("{function}({name})")
            }
            8 => format!("clip({name}, a_min=-0.5f, a_max=0.75f)"),
            9 => {
                let bias = self.parameter(&[c]);
                format!("nn.bias_add({name}, {bias})")
            }
            10 | 11 => {
                let shapes: [&[i64]; 7] = [
                    &[c, 1, 1],
                    &[1, c, 1, 1],
                    &[x.batch, c, 1, 1],
                    &[x.side],
                    &[1, 1, x.side, 1],
                    &[c, x.side, 1],
                    &[1, 1, 1, 1],
                ];
                let shape = shapes[self.random.below(7)];
                let other = self.parameter(shape);
                let operator = ["add", "multiply", "maximum"][self.random.below(3)];
                match self.random.one_in(3) {
                    true => format!("{operator}({other}, {name})"),
                    false => format!("{operator}({name}, {other})"),
                }
            }
            12 | 13 => {
                let like = |y: &&Image| (y.channels, y.side) == (c, x.side);
                let others: Vec<Image> = self.images.iter().filter(like).cloned().collect();
                let y = &others[self.random.below(others.len())].name;
                match self.random.below(3) {
                    0 => format!("where(greater({name}, {y}), {name}, 0.5f)"),
                    1 => format!("multiply({name}, {y})"),
                    _ => format!("add({name}, {y})"),
                }
            }
            14 => {
                let pool = ["max", "avg"][self.random.below(2)];
                out.side = (x.side - 1) / 2 + 1;
                format!(
                    "nn.{pool}_pool2d({name}, pool_size=[3, 3], strides=[2, 2], \
                     padding=[1, 1, 1, 1])"
                )
            }
            15 => {
                let gate = self.bind(&format!("nn.global_avg_pool2d({name})"));
                let weight = self.parameter(&[c, c, 1, 1]);
                let gate = self.bind(&format!("nn.conv2d({gate}, {weight})"));
                let gate = self.bind(&format!("sigmoid({gate})"));
                format!("multiply({name}, {gate})")
            }
            16 | 17 => {
                let fits = |y: &&Image| y.side == x.side;
                let others: Vec<Image> = self.images.iter().filter(fits).cloned().collect();
                let y = others[self.random.below(others.len())].clone();
                out.channels = c + y.channels;
                format!("concatenate(({name}, {}), axis=1)", y.name)
            }
            18 => {
                let more = self.random.below(2) as i64 * 4;
                out.side += 2;
                out.channels += more;
                format!("nn.pad({name}, 0f, pad_width=[[0, 0], [0, {more}], [1, 1], [1, 1]])")
            }
            19 => {
                let axis = [1, -1, 2][self.random.below(3)];
                format!("nn.softmax({name}, axis={axis})")
            }
            20 => {
                let axes = ["[2, 3]", "[1]", "[-1]", "[1, 3]"][self.random.below(4)];
                let exclude = if self.random.one_in(3) { "True" } else { "False" };
                let mean = format!("mean({name}, axis={axes}, keepdims=True, exclude={exclude})");
                let mean = self.bind(&mean);
                format!("subtract({name}, {mean})")
            }
            _ => {
                let (relu, tanh) = (format!("nn.relu({name})"), format!("tanh({name})"));
                let condition = self.parameter(&[]);
                let condition = self.bind(&format!("less({condition}, 0.5f)"));
                format!("if ({condition}) {{ {relu} }} else {{ {tanh} }}")
            }
        };
        if out.channels > 40 || out.side > 12 {
            return;
        }
        out.name = self.bind(&value);
        self.images.push(out);
    }

    fn finish(mut self) -> String {
        let (x, y) = (self.image(), self.images[self.images.len() - 1].clone());
        let channels = self.parameter(&[y.channels]);
        let means = self.bind(&format!("mean({}, axis=[2, 3])", y.name));
        let means = self.bind(&format!("multiply({means}, {channels})"));
        let flat = self.bind(&format!("nn.batch_flatten({})", y.name));
        format!(
            "def @main({}) {{\n{}  ({}, {}, {means}, {flat})\n}}\n",
            self.parameters, self.body, x.name, y.name
        )
    }
}

fn read(text: &str, registry: &Registry) -> Module {
    let (mut module, mut found) = ir_core::text::module::parse("text", text, registry);
    found.extend(relay::inference::infer_module(&mut module, registry));
    let errors: Vec<_> = found.iter().filter(|diagnostic| diagnostic.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{text}");
    module
}

/// What `@main` gives, on inputs for the type it had in `original`.
fn result(module: &Module, original: &Module, registry: &Registry) -> Result<Value, String> {
    let main = original.get("main").ok_or("there is no `@main`")?;
    let args = random_arguments(main, registry, &original.signatures(), 1)?;
    let value = Interpreter::new(module, registry).call("main", args);
    let value = value.map_err(|error| format!("run: {error:?}"))?;
    let ty = main.signature.ty.as_function().ok_or("`@main` is no function")?;
    check_type(&value, ty.result)?;
    Ok(value)
}

fn passed(module: &Module, pipeline: &str, registry: &Registry) -> Result<Module, String> {
    let steps = Pipeline::parse(pipeline, registry).map_err(|found| found.to_string())?;
    let (mut module, mut log) = (module.clone(), Vec::new());
    let options = RunOptions::default();
    let report = run(&steps, &mut module, registry, options, &mut [], &mut log);
    let report = report.map_err(|error| error.to_string())?;
    match report.outcome {
        Outcome::Done => {}
        Outcome::Crashed(crash) => return Err(format!("crash: {}", crash.message)),
        _ => return Err(format!("failed: {:?}", report.diagnostics)),
    }
    match verify::verify(&module, registry) {
        Ok(_) => Ok(module),
        Err(found) => Err(format!("verify: {found:?}")),
    }
}

#[test]
fn networks_compute_the_same_in_other_layouts() {
    let registry = tools::registry();
    let first = number("PROPTEST_RNG_SEED", 0);
    for seed in first..first + number("PROPTEST_CASES", 150) {
        let text = Network::text(seed);
        let module = read(&text, &registry);
        let expected = result(&module, &module, &registry).unwrap();
        for pipeline in [
            "alter-op-layout{width=2}",
            "alter-op-layout{width=4}",
            "alter-op-layout{width=8},fold-constant,alter-op-layout{width=4},cse,dce,fuse",
            "alter-op-layout",
            "convert-layout",
            "convert-layout{to=CWNH}",
            "convert-layout{to=NHWC},convert-layout{to=NCHW},alter-op-layout{width=4}",
            "convert-layout{to=NHWC},simplify-expr,fold-scale-axis,cse,fuse",
        ] {
            let compared = passed(&module, pipeline, &registry).and_then(|after| {
                let found = result(&after, &module, &registry)?;
                approx_equal(&found, &expected, 1e-3, 1e-3).map_err(|error| error.to_string())
            });
            if let Err(message) = compared {
                panic!("seed {seed}, {pipeline}: {message}\n{text}");
            }
        }
    }
}

#[test]
fn there_and_back_changes_nothing() {
    let registry = tools::registry();
    for seed in 0..number("PROPTEST_CASES", 50) {
        let module = read(&Network::text(seed), &registry);
        let there = passed(&module, "dce,convert-layout{to=NHWC}", &registry).unwrap();
        let back = passed(&there, "convert-layout{to=NCHW},dce", &registry).unwrap();
        assert_eq!(transforms(&back), 0, "seed {seed}\n{}", Network::text(seed));
    }
}

/// The number of `layout_transform`s of images, not of kernels.
fn transforms(module: &Module) -> usize {
    let body = module.get("main").and_then(|main| main.body.as_ref()).unwrap();
    let transforms = body.walk().filter_map(|op| body.view::<LayoutTransform>(op));
    transforms.filter(|transform| transform.src_layout.contains('N')).count()
}

fn model(name: &str, registry: &Registry) -> Module {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/models");
    let text = std::fs::read_to_string(models.join(format!("{name}.relay"))).unwrap();
    read(&text, registry)
}

#[test]
fn known_networks_change_the_layout_at_their_ends() {
    let registry = tools::registry();
    for name in ["resnet-18", "mobilenet", "inception"] {
        let module = model(name, &registry);
        // Vectors of channels begin behind the picture, which stays as it is.
        for (pipeline, expected) in
            [("alter-op-layout", 1), ("alter-op-layout{width=8}", 1), ("convert-layout", 2)]
        {
            let text = format!("simplify-inference,fold-scale-axis,{pipeline},fold-constant,dce");
            let after = passed(&module, &text, &registry).unwrap();
            assert_eq!(transforms(&after), expected, "{name}, {pipeline}");
        }
    }
}
