//! Random well-typed compute functions, for properties such as "a schedule never changes results".
//!
//! Every access is in bounds by construction: an index is an affine expression of the axes, and
//! what may leave its dimension is wrapped, clamped or guarded by a condition.
//!
//! **Nothing rounds.** Floats are multiples of a power of two and bounded, both tracked through
//! every stage, so that sums are exact in any order and results can be compared
//! [number by number](crate::interpreter::same_numbers). Integers do not overflow.

mod counted;
mod elements;
mod rows;
mod scatters;
mod schedules;
#[cfg(test)]
mod tests;

use ir_core::{DType, Item, Random, Scalar, SmallVec, TensorData, TypeData, ValueId};

use crate::compute::{Combiner, ComputeBuilder, Expression, Tensor};
pub use counted::{below_counts, calls, counted, open};
pub use rows::rows;
pub use schedules::schedule;

use elements::{Affine, Axes, Bounds, Elements, Term, capacity};

/// How large functions become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The most inputs.
    pub inputs: usize,
    /// The most stages.
    pub stages: usize,
    /// The most dimensions of an input, and spatial axes of a stage.
    pub rank: usize,
    /// The largest extent of an input.
    pub extent: i64,
    /// The most points, spatial and reduced, of a stage.
    pub points: i64,
}

impl Default for Options {
    /// 4 inputs of up to 4 dimensions of up to 9, and 6 stages of up to 4,000 points.
    fn default() -> Options {
        Options { inputs: 4, stages: 6, rank: 4, extent: 9, points: 4000 }
    }
}

/// A tensor that stages may read.
#[derive(Clone, Debug)]
struct Source {
    tensor: Tensor,
    bounds: Bounds,
    is_stage: bool,
    read: bool,
}

/// The compute function that belongs to `seed`. An error is a mistake of the generator.
pub fn compute_function(seed: u64, options: &Options) -> Result<Item, String> {
    let mut generator = Generator {
        random: Random::new(seed),
        options: *options,
        builder: ComputeBuilder::new(),
        sources: vec![],
    };
    for number in 0..1 + generator.random.below(options.inputs.max(1)) {
        generator.input(&format!("x{number}"));
    }
    for _ in 0..1 + generator.random.below(options.stages.max(1)) {
        generator.stage();
    }
    let Generator { mut random, builder, sources, .. } = generator;
    let stages = sources.into_iter().filter(|source| source.is_stage);
    let outputs: Vec<Tensor> = stages
        .filter(|source| !source.read || random.one_in(6))
        .map(|source| source.tensor)
        .collect();
    builder.finish(&outputs)
}

/// Inputs for `function` as its bounds expect them: floats are multiples of 1/8 from -2 to 2,
/// integers from -4 to 4. Errors on what is no function of tensors of known extents.
pub fn inputs(function: &Item, seed: u64) -> Result<Vec<TensorData>, String> {
    let TypeData::Function(ty) = function.signature.ty.data() else {
        return Err(format!("expected a function, found {}", function.signature.ty));
    };
    let mut random = Random::new(seed);
    let mut inputs = Vec::new();
    for param in &ty.params {
        let tensor = param.as_tensor();
        let Some((tensor, shape)) = tensor.and_then(|tensor| Some((tensor, tensor.known_shape()?)))
        else {
            return Err(format!("expected a tensor of known extents, found {param}"));
        };
        let count = shape.iter().product::<i64>();
        let elements = (0..count).map(|_| match tensor.dtype {
            dtype if dtype.is_float() => Scalar::Float((random.below(33) as f64 - 16.0) / 8.0),
            dtype => random.element(dtype),
        });
        let data = TensorData::from_scalars(tensor.dtype, &shape, elements);
        inputs.push(data.map_err(|error| error.to_string())?);
    }
    Ok(inputs)
}

struct Generator {
    random: Random,
    options: Options,
    builder: ComputeBuilder,
    sources: Vec<Source>,
}

/// A stage before its element is written: its axes and how it reads its first tensor.
struct Plan {
    name: &'static str,
    /// Number of the tensor in the sources.
    source: usize,
    shape: Vec<i64>,
    extents: Vec<i64>,
    /// One index per dimension of the tensor, over `shape` and then `extents`.
    access: Vec<Affine>,
    combiner: Option<Combiner>,
    /// The axis along which it scans, and the element type of its state.
    scan: Option<(usize, DType)>,
    /// Whether what it would give is scattered.
    scatters: bool,
}

impl Plan {
    fn new(name: &'static str, source: usize) -> Plan {
        let (shape, extents, access) = (vec![], vec![], vec![]);
        Plan { name, source, shape, extents, access, combiner: None, scan: None, scatters: false }
    }
}

/// What the axis of a dimension becomes, before axes are numbered.
#[derive(Clone, Copy)]
enum Role {
    Spatial,
    Reduced,
    /// A spatial axis of the first extent, and a reduced one of the second.
    Window(i64, i64),
}

impl Generator {
    fn extent(&mut self) -> i64 {
        const PREFERRED: [i64; 4] = [1, 2, 4, 8];
        let any = 1 + self.random.below(self.options.extent.max(1) as usize) as i64;
        match self.random.below(3) {
            0 => PREFERRED[self.random.below(4)].min(self.options.extent.max(1)),
            _ => any,
        }
    }

    fn input(&mut self, name: &str) {
        const DTYPES: [DType; 7] = [
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT64,
            DType::INT32,
            DType::INT8,
            DType::BOOL,
        ];
        let dtype = DTYPES[self.random.below(DTYPES.len())];
        let rank = self.random.below(self.options.rank + 1);
        // Equal extents make accesses that fit without tricks.
        let known: Vec<i64> =
            self.sources.iter().flat_map(|source| source.tensor.shape.iter().copied()).collect();
        let mut shape = Vec::new();
        for _ in 0..rank {
            let known = self.random.choose(&known).copied().filter(|_| self.random.one_in(2));
            let extent = known.unwrap_or_else(|| self.extent());
            shape.push(extent);
        }
        let tensor = self.builder.input(name, &shape, dtype);
        let bounds = match dtype {
            dtype if dtype.is_float() => Bounds { limit: 2.0, fraction: 3 },
            dtype if dtype.is_bool() => Bounds { limit: 1.0, fraction: 0 },
            _ => Bounds { limit: 4.0, fraction: 0 },
        };
        self.sources.push(Source { tensor, bounds, is_stage: false, read: false });
    }

    fn stage(&mut self) {
        let mut plan = self.plan();
        let Generator { random, options, builder, sources } = self;
        // Any change of an extent is safe: indices are made to fit when they are written.
        let mut extents = plan.shape.iter_mut().chain(&mut plan.extents).collect::<Vec<_>>();
        while extents.iter().map(|extent| **extent).product::<i64>() > options.points.max(1) {
            if let Some(largest) = extents.iter_mut().max_by_key(|extent| ***extent) {
                **largest = (**largest + 1) / 2;
            }
        }
        if plan.scatters {
            return self.scatter(&plan);
        }
        let Plan { name, shape, extents, combiner, scan, .. } = &plan;
        let all: Vec<i64> = shape.iter().chain(extents).copied().collect();
        let points = extents.iter().product::<i64>();
        let mut made = SmallVec::<[Bounds; 2]>::new();
        let mut element = |e: &mut Expression<'_>, indices: &[&[ValueId]]| {
            let axes = Axes { values: indices.concat(), extents: all.clone() };
            let mut elements = Elements { e, random, sources, axes };
            let term = elements.element(plan.source, &plan.access);
            let terms = match combiner {
                None if let Some((axis, dtype)) = *scan => {
                    let term = elements.converted(term, dtype);
                    let steps = (shape[axis] + 1) as f64;
                    let term = elements.settled(term, capacity(dtype) / steps);
                    let limit = term.bounds.limit * steps;
                    SmallVec::from_slice(&[(term, Bounds { limit, ..term.bounds })])
                }
                None => SmallVec::from_slice(&[(term, term.bounds)]),
                Some(combiner) => reduced(&mut elements, term, *combiner, shape.len(), points),
            };
            made.extend(terms.iter().map(|(_, bounds)| *bounds));
            terms.iter().map(|(term, _)| term.value).collect::<SmallVec<[ValueId; 1]>>()
        };
        let tensors = match *combiner {
            None if let Some((axis, dtype)) = *scan => {
                // The sum so far, and what was added to it last.
                let initial = [0, 1].map(|_| TensorData::scalar(dtype, Scalar::Int(0)));
                vec![builder.scan(name, shape, axis, &initial, |e, i, state| {
                    let added = element(e, &[i])[0];
                    let sum = e.add(state[0], added);
                    SmallVec::from_slice(&[e.add(sum, state[1]), sum, added])
                })]
            }
            None => vec![builder.compute(name, shape, |e, i| element(e, &[i])[0])],
            Some(Combiner::User) => {
                // The product rule: products, and the sums of products with one factor replaced.
                let identity = [Scalar::Int(1), Scalar::Int(0)];
                let element = |e: &mut Expression<'_>, i: &_, r: &_| element(e, &[i, r]);
                builder.reduce_user(name, shape, extents, &identity, element, |e, a, b| {
                    let (left, right) = (e.mul(a[0], b[1]), e.mul(a[1], b[0]));
                    SmallVec::from_slice(&[e.mul(a[0], b[0]), e.add(left, right)])
                })
            }
            Some(combiner) => {
                let results = match combiner {
                    Combiner::ArgMax | Combiner::ArgMin => 2,
                    _ => 1,
                };
                builder.reduce_many(name, shape, extents, combiner, results, |e, i, r| {
                    element(e, &[i, r])
                })
            }
        };
        for (number, tensor) in tensors.into_iter().enumerate() {
            let bounds = made[number];
            sources.push(Source { tensor, bounds, is_stage: true, read: false });
        }
    }

    fn plan(&mut self) -> Plan {
        // Later tensors more often: chains of stages are what fusion and scheduling are about.
        let count = self.sources.len();
        let source = match self.random.one_in(2) {
            true => count - 1,
            false => self.random.below(count),
        };
        let kind = self.random.below(10);
        let mut plan = match kind {
            0..=1 => self.over(source, "map", |_, _| Role::Spatial),
            2..=3 => self.over(source, "reduce", |random, _| match random.one_in(2) {
                true => Role::Reduced,
                false => Role::Spatial,
            }),
            4..=5 => self.over(source, "window", |random, extent| {
                let window = 1 + random.below(extent.min(3) as usize) as i64;
                match random.below(4) {
                    0 => Role::Spatial,
                    1 => Role::Reduced,
                    _ => Role::Window(extent - window + 1, window),
                }
            }),
            6 => self.padded(source),
            7 => self.anything(source, true),
            _ => self.anything(source, false),
        };
        if kind == 7 || (2..=5).contains(&kind) {
            const COMBINERS: [Combiner; 9] = [
                Combiner::Sum,
                Combiner::Sum,
                Combiner::Sum,
                Combiner::Product,
                Combiner::Max,
                Combiner::Min,
                Combiner::ArgMax,
                Combiner::ArgMin,
                Combiner::User,
            ];
            plan.combiner = Some(COMBINERS[self.random.below(COMBINERS.len())]);
        } else if !plan.shape.is_empty() && self.random.one_in(4) {
            const DTYPES: [DType; 3] = [DType::FLOAT32, DType::FLOAT64, DType::INT32];
            let axis = self.random.below(plan.shape.len());
            plan.scan = Some((axis, DTYPES[self.random.below(DTYPES.len())]));
            plan.name = "scan";
        } else if self.random.one_in(4) {
            plan.scatters = true;
        }
        plan
    }

    /// A stage over the dimensions of a tensor, each in the role that `role` chooses from its
    /// extent; spatial axes may be permuted, reversed, strided.
    fn over(
        &mut self,
        source: usize,
        name: &'static str,
        mut role: impl FnMut(&mut Random, i64) -> Role,
    ) -> Plan {
        let dimensions = self.sources[source].tensor.shape.clone();
        let mut order: Vec<usize> = (0..dimensions.len()).collect();
        if self.random.one_in(3) {
            for place in (1..order.len()).rev() {
                order.swap(place, self.random.below(place + 1));
            }
        }
        let roles: Vec<Role> =
            dimensions.iter().map(|extent| role(&mut self.random, *extent)).collect();
        let mut plan = Plan::new(name, source);
        // Axes of a dimension, each with its factor; reduced ones are numbered after all others.
        let mut spatial: Vec<Option<(usize, i64)>> = vec![None; dimensions.len()];
        let mut reduced: Vec<Option<(usize, i64)>> = vec![None; dimensions.len()];
        let mut offsets = vec![0; dimensions.len()];
        for &dimension in &order {
            let full = dimensions[dimension];
            let (axis, window) = match roles[dimension] {
                Role::Spatial => (Some(full), None),
                Role::Reduced => (None, Some(full)),
                Role::Window(axis, window) => (Some(axis), Some(window)),
            };
            if let Some(mut extent) = axis {
                let mut factor = 1;
                match self.random.below(8) {
                    0 if window.is_none() => (factor, offsets[dimension]) = (-1, extent - 1),
                    1 => (factor, extent) = (2, (extent + 1) / 2),
                    _ => {}
                }
                spatial[dimension] = Some((plan.shape.len(), factor));
                plan.shape.push(extent);
            }
            if let Some(extent) = window {
                reduced[dimension] = Some((plan.extents.len(), 1));
                plan.extents.push(extent);
            }
        }
        let after = plan.shape.len();
        for dimension in 0..dimensions.len() {
            let reduced = reduced[dimension].map(|(axis, factor)| (axis + after, factor));
            let terms = spatial[dimension].into_iter().chain(reduced).collect();
            plan.access.push(Affine { terms, offset: offsets[dimension] });
        }
        plan
    }

    /// The tensor with elements around it.
    fn padded(&mut self, source: usize) -> Plan {
        let mut plan = self.over(source, "pad", |_, _| Role::Spatial);
        for access in &mut plan.access {
            let (before, after) = (self.random.below(3) as i64, self.random.below(3) as i64);
            for &(axis, _) in &access.terms {
                plan.shape[axis] += before + after;
            }
            access.offset -= before;
        }
        plan
    }

    /// Axes that have nothing to do with the tensor, such as those of a broadcast or a gather.
    fn anything(&mut self, source: usize, reduces: bool) -> Plan {
        let mut plan = Plan::new(if reduces { "reduce" } else { "any" }, source);
        for _ in 0..self.random.below(self.options.rank + 1) {
            let extent = self.extent();
            plan.shape.push(extent);
        }
        if reduces {
            // No reduction axes at all is a reduction over one point.
            for _ in 0..self.random.below(3) {
                let extent = self.extent();
                plan.extents.push(extent);
            }
        }
        let all: Vec<i64> = plan.shape.iter().chain(&plan.extents).copied().collect();
        let dimensions = self.sources[source].tensor.shape.clone();
        plan.access = dimensions
            .iter()
            .map(|extent| Affine::random(&mut self.random, &all, *extent))
            .collect();
        plan
    }
}

/// What a reduction of `term` over `points` points yields, and the bounds of its results.
fn reduced(
    values: &mut Elements<'_, '_>,
    term: Term,
    combiner: Combiner,
    rank: usize,
    points: i64,
) -> SmallVec<[(Term, Bounds); 2]> {
    let count = points as f64;
    let yields = |term: Term, limit: f64| (term, Bounds { limit, ..term.bounds });
    let summed = |values: &mut Elements<'_, '_>, term: Term| {
        let term = values.settled(term, capacity(term.dtype) / count);
        yields(term, term.bounds.limit * count)
    };
    match combiner {
        Combiner::Sum => {
            let term = values.widened(term, points);
            SmallVec::from_slice(&[summed(values, term)])
        }
        Combiner::Product => {
            let term = values.widened(term, points);
            let term = values.whole(term);
            let factor: f64 = if points <= 6 { 2.0 } else { 1.0 };
            let term = values.settled(term, factor);
            SmallVec::from_slice(&[yields(term, factor.powi(points.min(6) as i32))])
        }
        Combiner::User => {
            let term = values.widened(term, points);
            let factor = values.whole(term);
            let factor = values.settled(factor, 1.0);
            SmallVec::from_slice(&[yields(factor, 1.0), summed(values, term)])
        }
        Combiner::Max | Combiner::Min => SmallVec::from_slice(&[(term, term.bounds)]),
        Combiner::ArgMax | Combiner::ArgMin => {
            let index = values.reduction_index(rank);
            SmallVec::from_slice(&[(index, index.bounds), (term, term.bounds)])
        }
    }
}
