//! Random first-order programs: straight-line code on tensors of known extents.
//!
//! Programs grow forward. Each step picks values that are there, or new inputs, and an operator
//! that takes them; its type relation has the last word. So every operator can be among the steps,
//! and what fusion groups, chains of elementwise operators behind products and reductions, is
//! common.
//!
//! **Invariants**
//! - The same seed and size give the same program.
//! - The interpreter refuses none of them: divisors are no 0, indices are within their axes.
//! - Where floats were rounded, no operator follows that jumps: two ways to compute a program give
//!   nearly the same numbers.

mod drawing;
mod layers;
mod order;
mod parts;
mod quantized;
mod sampling;

use ir_core::{
    Attr, AttrData, AttrDict, Binding, DType, InferCx, InsertPoint, Item, Module, NameHint,
    OpParts, Registry, Scalar, SmallVec, Symbol, TensorData, Type, ValueId,
};
use relay::builder::Builder;
use relay::define::Define;
use relay::interpreter::{Evaluate, Random};
use relay::language::{Constant, FUNC, Tuple, TupleGet};
use rustc_hash::FxHashSet;

/// A random module with only a function `@main`, of about `size` operators that all have a
/// [definition](relay::define). It takes and gives tensors of known extents, some of them odd.
pub fn random_network(registry: &Registry, seed: u64, size: usize) -> Module {
    let (builder, _) = Builder::new(&[]);
    let mut network = Network {
        random: Random::new(seed),
        registry,
        builder,
        values: Vec::new(),
        rounded: FxHashSet::default(),
    };
    // Steps that fit nothing are tried again, but not for ever.
    let (mut made, mut tried) = (0, 0);
    while made < size && tried < 40 * (size + 1) {
        made += usize::from(network.step().is_some());
        tried += 1;
    }
    network.finish()
}

/// Extents, the odd and the small ones more often.
const EXTENTS: [i64; 18] = [1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33];

/// Elements of a tensor, at most.
const MOST_ELEMENTS: i64 = 1 << 16;

/// Products in a layer, at most: the interpreter takes its time.
const MOST_PRODUCTS: i64 = 1 << 18;

/// Operators that keep the numbers of their operands as they are.
const EXACT: [&str; 67] = [
    "negative",
    "abs",
    "copy",
    "stop_gradient",
    "nn.relu",
    "clip",
    "maximum",
    "minimum",
    "max",
    "min",
    "zeros_like",
    "ones_like",
    "where",
    "reshape",
    "contrib_reverse_reshape",
    "reshape_like",
    "transpose",
    "squeeze",
    "expand_dims",
    "reverse",
    "repeat",
    "tile",
    "broadcast_to",
    "broadcast_to_like",
    "concatenate",
    "stack",
    "split",
    "take",
    "gather",
    "gather_nd",
    "adv_index",
    "strided_slice",
    "strided_set",
    "slice_like",
    "trilu",
    "matrix_set_diag",
    "sequence_mask",
    "reverse_sequence",
    "sort",
    "topk",
    "image.dilation2d",
    "nn.pad",
    "nn.mirror_pad",
    "nn.dilate",
    "nn.depth_to_space",
    "nn.space_to_depth",
    "nn.space_to_batch_nd",
    "nn.batch_to_space_nd",
    "nn.fifo_buffer",
    "nn.max_pool1d",
    "nn.max_pool2d",
    "nn.max_pool3d",
    "nn.global_max_pool2d",
    "nn.batch_flatten",
    "nn.dropout",
    "layout_transform",
    "meshgrid",
    "device_copy",
    "on_device",
    "annotation.stop_fusion",
    "annotation.checkpoint",
    "annotation.compiler_begin",
    "annotation.compiler_end",
    "annotation.cast_hint",
    "annotation.bitpack_start",
    "annotation.bitpack_end",
    "check_shape",
];

pub(super) struct Network<'a> {
    random: Random,
    registry: &'a Registry,
    builder: Builder,
    /// The tensors so far, oldest first.
    values: Vec<ValueId>,
    /// Those that another order of additions would make a little different.
    rounded: FxHashSet<ValueId>,
}

impl Network<'_> {
    /// One more operator, or a few that belong together; `None` where it did not fit.
    fn step(&mut self) -> Option<ValueId> {
        match self.random.below(28) {
            0..=3 => self.unary(),
            4..=6 => self.binary(),
            7 => self.compare(),
            8 | 9 => self.reduction(),
            10 | 11 => self.normalization(),
            12 | 13 => self.product(),
            14 | 15 => self.convolution(),
            16 => self.pool(),
            17 => self.resampling(),
            18 | 19 => self.rearrangement(),
            20 => self.join(),
            21 => self.selection(),
            22 => self.conversion(),
            23 => self.order(),
            24 => self.signal(),
            25 => self.drawing(),
            26 => self.sampling(),
            _ => self.quantized(),
        }
    }

    /// The program: it gives every value that it does not use itself.
    fn finish(mut self) -> Module {
        let body = &self.builder.body;
        let unused = |value: &&ValueId| body.is_unused(**value);
        let is_result =
            |value: &&ValueId| body.defining_op(**value).is_some_and(|op| !self.is_constant(op));
        let mut results: Vec<ValueId> =
            self.values.iter().filter(unused).filter(is_result).copied().collect();
        if results.is_empty() {
            results.push(self.input(DType::FLOAT32, &[3]));
        }
        // A value that is used, an input, or one that was given before: all these are results too.
        if self.random.one_in(4)
            && let Some(value) = self.random.choose(&self.values)
        {
            results.push(*value);
        }
        let types: Vec<Type> = results.iter().map(|value| self.builder.body.ty(*value)).collect();
        let (value, result) = match results.as_slice() {
            [one] => (*one, types[0]),
            _ => {
                let ty = Type::tuple(types);
                (self.builder.add(&Tuple { fields: results }, ty), ty)
            }
        };
        self.builder.yields(value);
        self.name();
        let entry = self.builder.body.entry();
        let params = self.builder.body.block_args(entry).iter();
        let params: Vec<Type> = params.map(|param| self.builder.body.ty(*param)).collect();
        let mut module = Module::new();
        let main = Item::new(FUNC, Type::function(params, result), Some(self.builder.body));
        module.items.insert(Symbol::new("main"), main);
        module
    }

    /// Names the parameters, and binds a few values by `let`, at which fusion stops.
    fn name(&mut self) {
        let body = &mut self.builder.body;
        let block = body.entry();
        for (number, param) in body.block_args(block).to_vec().into_iter().enumerate() {
            let name = Some(Symbol::new(&format!("p{number}")));
            body.set_name_hint(param, NameHint { name, binding: Binding::Graph });
        }
        for (number, op) in body.block_ops(block).collect::<Vec<_>>().into_iter().enumerate() {
            let Some(value) = body.results(op).next() else { continue };
            let constant = body.op_name(op) == "relay.constant";
            if !constant && (body.is_unused(value) || self.random.one_in(16)) {
                let name = Some(Symbol::new(&format!("v{number}")));
                body.set_name_hint(value, NameHint { name, binding: Binding::Let });
            }
        }
    }

    // ---- values ----------------------------------------------------------------------------

    fn dtype(&self, value: ValueId) -> DType {
        self.builder.body.ty(value).as_tensor().map_or(DType::FLOAT32, |tensor| tensor.dtype)
    }

    fn shape(&self, value: ValueId) -> Vec<i64> {
        let tensor = self.builder.body.ty(value).as_tensor();
        tensor.and_then(|tensor| tensor.known_shape()).unwrap_or_default().to_vec()
    }

    fn is_float(&self, value: ValueId) -> bool {
        self.dtype(value).is_float()
    }

    fn is_rounded(&self, value: ValueId) -> bool {
        self.rounded.contains(&value)
    }

    fn is_constant(&self, op: ir_core::OpId) -> bool {
        self.builder.body.op_name(op) == "relay.constant"
    }

    /// A type of numbers.
    fn number(&mut self) -> DType {
        const NUMBERS: [DType; 16] = [
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT32,
            DType::FLOAT64,
            DType::FLOAT16,
            DType::INT8,
            DType::UINT8,
            DType::INT16,
            DType::INT32,
            DType::INT32,
            DType::INT64,
        ];
        NUMBERS[self.random.below(NUMBERS.len())]
    }

    fn extent(&mut self) -> i64 {
        EXTENTS[self.random.below(EXTENTS.len())]
    }

    /// One of a few numbers.
    fn one_of(&mut self, numbers: &[i64]) -> i64 {
        self.random.choose(numbers).copied().unwrap_or(1)
    }

    fn some_shape(&mut self, rank: usize) -> Vec<i64> {
        // Few are so large that loops over them run on several threads.
        let most = if self.random.one_in(12) { MOST_ELEMENTS } else { 1 << 12 };
        let mut shape: Vec<i64> = (0..rank).map(|_| self.extent()).collect();
        let mut axis = 0;
        while shape.iter().product::<i64>() > most {
            shape[axis % rank] = (shape[axis % rank] / 3).max(1);
            axis += 1;
        }
        shape
    }

    /// A new parameter, or a constant.
    fn input(&mut self, dtype: DType, shape: &[i64]) -> ValueId {
        let elements = shape.iter().product::<i64>();
        let constant = self.random.one_in(3) && elements <= MOST_ELEMENTS;
        let value = match self.random.tensor(shape, dtype) {
            Ok(value) if constant => self.builder.constant(value),
            _ => {
                let entry = self.builder.body.entry();
                let ty = Type::tensor(shape.iter().copied(), dtype);
                self.builder.body.add_block_arg(entry, ty)
            }
        };
        self.values.push(value);
        value
    }

    /// A tensor of this type: one that is there, or a new input.
    fn tensor(&mut self, dtype: DType, shape: &[i64]) -> ValueId {
        let ty = Type::tensor(shape.iter().copied(), dtype);
        let body = &self.builder.body;
        let fitting: Vec<ValueId> =
            self.values.iter().copied().filter(|value| body.ty(*value) == ty).collect();
        match self.random.choose(&fitting) {
            Some(value) if !self.random.one_in(3) => *value,
            _ => self.input(dtype, shape),
        }
    }

    /// A tensor that fits, the last ones more often; `None` where none does.
    fn existing(&mut self, fits: impl Fn(&Self, ValueId) -> bool) -> Option<ValueId> {
        let fitting: Vec<ValueId> =
            self.values.iter().copied().filter(|value| fits(self, *value)).collect();
        match fitting.last() {
            Some(last) if self.random.one_in(2) => Some(*last),
            _ => self.random.choose(&fitting).copied(),
        }
    }

    /// A tensor of numbers of any shape.
    fn any(&mut self) -> ValueId {
        let found = self.existing(|this, value| !this.dtype(value).is_bool());
        match found {
            Some(value) if !self.random.one_in(6) => value,
            _ => {
                let (dtype, rank) = (self.number(), self.random.below(5));
                let shape = self.some_shape(rank);
                self.input(dtype, &shape)
            }
        }
    }

    /// A tensor of floats of rank `ranks`.
    fn floats(&mut self, ranks: std::ops::RangeInclusive<usize>) -> ValueId {
        let fits =
            |this: &Self, value| this.is_float(value) && ranks.contains(&this.shape(value).len());
        match self.existing(fits) {
            Some(value) if !self.random.one_in(6) => value,
            _ => {
                let rank = ranks.start() + self.random.below(ranks.end() - ranks.start() + 1);
                let shape = self.some_shape(rank);
                let dtype = self.float_type();
                self.input(dtype, &shape)
            }
        }
    }

    fn float_type(&mut self) -> DType {
        match self.random.below(10) {
            0 => DType::FLOAT64,
            1 => DType::FLOAT16,
            2 if self.random.one_in(2) => DType::BFLOAT16,
            _ => DType::FLOAT32,
        }
    }

    /// A tensor whose numbers are the same whichever way they are computed: no rounded floats.
    fn exact(&mut self, ranks: std::ops::RangeInclusive<usize>) -> ValueId {
        let fits = |this: &Self, value| {
            !this.is_rounded(value) && ranks.contains(&this.shape(value).len())
        };
        match self.existing(fits) {
            Some(value) if !self.random.one_in(6) && !self.dtype(value).is_bool() => value,
            _ => {
                let rank = ranks.start() + self.random.below(ranks.end() - ranks.start() + 1);
                let (dtype, shape) = (self.number(), self.some_shape(rank));
                self.input(dtype, &shape)
            }
        }
    }

    /// Truths.
    fn truth(&mut self, shape: &[i64]) -> ValueId {
        self.tensor(DType::BOOL, shape)
    }

    /// Places on an axis of `extent` elements, from constants or computed.
    fn places(&mut self, shape: &[i64], extent: i64) -> Option<ValueId> {
        let dtype = if self.random.one_in(3) { DType::INT64 } else { DType::INT32 };
        if self.random.one_in(2) {
            let data = self.tensor(dtype, shape);
            return self.clipped(data, 0.0, (extent - 1) as f64);
        }
        let count = shape.iter().product::<i64>();
        let places: Vec<i64> =
            (0..count).map(|_| self.random.below(extent.max(1) as usize) as i64).collect();
        let places = TensorData::from_i64(dtype, shape, &places).ok()?;
        Some(self.builder.constant(places))
    }

    fn constant(&mut self, dtype: DType, value: f64) -> ValueId {
        let value = match dtype.is_float() {
            true => Scalar::Float(value),
            false => Scalar::Int(value as i64),
        };
        self.builder.constant(TensorData::scalar(dtype, value))
    }

    /// `shape` with some leading axes gone and some extents 1: what broadcasts to it.
    fn narrower(&mut self, shape: &[i64]) -> Vec<i64> {
        let mut shape = shape.to_vec();
        match self.random.below(4) {
            0 => {}
            1 => shape.clear(),
            _ => {
                shape.drain(..self.random.below(shape.len() + 1));
                for extent in &mut shape {
                    if self.random.one_in(3) {
                        *extent = 1;
                    }
                }
            }
        }
        shape
    }

    /// An axis of a tensor of rank `rank`, from the front or the back.
    fn axis(&mut self, rank: usize) -> i64 {
        self.random.below(2 * rank.max(1)) as i64 - rank.max(1) as i64
    }

    // ---- operators -------------------------------------------------------------------------

    /// Applies an operator; `None` where it has no definition, does not take these operands, or
    /// gives too much.
    fn apply(&mut self, name: &str, operands: &[ValueId], attrs: AttrDict) -> Option<ValueId> {
        let full = Symbol::new(&format!("relay.{name}"));
        let info = self.registry.info(full)?;
        info.hook::<Define>()?;
        info.hook::<Evaluate>()?;
        let attrs = info.def.normalize_attrs(attrs).ok()?;
        let body = &self.builder.body;
        let types: SmallVec<[Type; 4]> = operands.iter().map(|value| body.ty(*value)).collect();
        let constant = |index: usize| -> Option<Attr> {
            let op = body.defining_op(*operands.get(index)?)?;
            let Constant { value } = body.view(op)?;
            Some(Attr::new(AttrData::Tensor(value)))
        };
        let mut cx = InferCx::with_constants(&types, attrs, &constant);
        let result = (info.def.infer?)(&mut cx).ok()?;
        let tensors: Vec<Type> = match result.as_tuple() {
            Some(fields) => fields.to_vec(),
            None => vec![result],
        };
        for ty in tensors {
            let shape = ty.as_tensor()?.known_shape()?;
            if shape.iter().product::<i64>() > MOST_ELEMENTS || shape.len() > 6 {
                return None;
            }
        }
        let rounded =
            !EXACT.contains(&name) || operands.iter().any(|value| self.has_rounded(*value));
        let results = [result];
        let parts = OpParts::new(full, operands, &results).attrs(attrs);
        let op = self.builder.body.insert_op(InsertPoint::End(self.builder.block), parts);
        let value = self.builder.body.result(op, 0);
        if result.as_tensor().is_none_or(|tensor| tensor.dtype.is_float()) && rounded {
            self.rounded.insert(value);
        }
        if result.as_tensor().is_some() {
            self.values.push(value);
        }
        Some(value)
    }

    /// Whether `value`, or a field of it, is rounded.
    fn has_rounded(&self, value: ValueId) -> bool {
        let fields = self.builder.body.defining_op(value).and_then(|op| self.builder.body.view(op));
        match fields {
            Some(Tuple { fields }) => fields.iter().any(|field| self.is_rounded(*field)),
            None => self.is_rounded(value),
        }
    }

    /// Applies an operator without attributes.
    fn plain(&mut self, name: &str, operands: &[ValueId]) -> Option<ValueId> {
        self.apply(name, operands, AttrDict::empty())
    }

    fn tuple(&mut self, fields: Vec<ValueId>) -> ValueId {
        let types = fields.iter().map(|field| self.builder.body.ty(*field));
        let ty = Type::tuple(types.collect::<Vec<_>>());
        self.builder.add(&Tuple { fields }, ty)
    }

    /// A field of a tuple, as one more tensor.
    fn field(&mut self, tuple: ValueId, index: usize) -> Option<ValueId> {
        let ty = *self.builder.body.ty(tuple).as_tuple()?.get(index)?;
        let value = self.builder.add(&TupleGet { tuple, index: index as i64 }, ty);
        if self.is_rounded(tuple) && ty.as_tensor()?.dtype.is_float() {
            self.rounded.insert(value);
        }
        self.values.push(value);
        Some(value)
    }

    /// `data` cut to numbers from `low` to `high`.
    fn clipped(&mut self, data: ValueId, low: f64, high: f64) -> Option<ValueId> {
        self.apply("clip", &[data], AttrDict::empty().with("a_min", &low).with("a_max", &high))
    }
}
