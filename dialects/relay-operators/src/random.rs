//! Random numbers: pure operators on generators, which are values.
//!
//! A generator is a vector of ten words, those of the Threefry cipher. Whoever draws numbers gets the next generator
//! with them; the same generator gives the same numbers on every machine.

mod threefry;

use ir_core::{DType, InferCx, Op, Registry, Scalar, SmallVec, Stop, TensorData, Type, ValueId};
use relay::define::{Define, DefineCx, Defined, Index};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Shape, Value, shape_of};
use te::compute::{Combiner, Expression, Tensor};
use te::scalar::ScalarOp;

use self::threefry::{BLOCK, Numbers, WORDS, Words};
use crate::FusionPattern::Opaque;
use crate::attributes::Integers;
use crate::relation;

/// Random words of 64 bits.
///
/// With the generator `key` the result is the tuple of the generator to go on with and of words of the shape
/// `out_shape`. The generator is of type `Tensor[(10), uint64]`: four words of a key, two of the path of splits that
/// lead to it, two of a counter, and two with the one bit of the path that the next split sets. To begin, take any
/// key, a path and a counter of zeros, and the words `0x8000000000000000` and 0. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.random.threefry_generate",
    infer = |op: ThreefryGenerate<Type>, cx: &mut InferCx<'_>| {
        drawn(cx, op.key, &op.out_shape.0, DType::UINT64)
    },
    hooks(Opaque, Evaluate(|cx| {
        let op = cx.fields::<ThreefryGenerate<Value>>()?;
        let (next, words) = draw(cx, count(&op.out_shape.0))?;
        let words = words.into_iter().map(|word| Scalar::Int(word.cast_signed()));
        let words = TensorData::from_scalars(DType::UINT64, &op.out_shape.0, words)?;
        Ok(Value::tuple([next, words.into()]))
    }), Define(|cx| {
        let shape = drawn_shape(cx)?;
        let (next, bits) = define_draw(cx, count(&shape))?;
        let name = cx.stage();
        let words = cx.builder.compute(&name, &shape, |e, i| {
            let place = Index::row_major(i, &shape).value(e);
            bits.load(e, place)
        });
        Ok(vec![next, words])
    }))
)]
pub struct ThreefryGenerate<V = ValueId> {
    /// The generator.
    pub key: V,
    /// Shape of the words.
    pub out_shape: Integers,
}

/// Two generators that have no numbers in common.
///
/// The result is a tuple of two generators, see `random.threefry_generate`. They stand for `key`, which is not to be
/// used again: the first one gives the numbers that it would give. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.random.threefry_split",
    infer = |op: ThreefrySplit<Type>, cx: &mut InferCx<'_>| {
        generator(cx, op.key)?;
        Ok(Type::tuple([op.key, op.key]))
    },
    hooks(Opaque, Evaluate(|cx| {
        let (left, right) = threefry::split(&mut Numbers, generator_of(cx)?);
        Ok(Value::tuple([generator_value(left)?, generator_value(right)?]))
    }), Define(|cx| {
        let key = cx.tensor(0)?;
        let parts = ["left", "right"].map(|part| {
            let name = cx.stage_of(part);
            define_generator(cx, &name, |e| {
                let words = load_generator(e, &key);
                let (left, right) = threefry::split(e, words);
                if part == "left" { left } else { right }
            })
        });
        Ok(parts.to_vec())
    }))
)]
pub struct ThreefrySplit<V = ValueId> {
    /// The generator.
    pub key: V,
}

/// Random numbers of which all between `low` and `high` are as likely.
///
/// The result is the tuple of the generator to go on with and of numbers of the shape `out_shape`, at least `low` and
/// less than `high`, unless rounding makes them equal to that. `low` and `high` are scalars of the type `out_dtype`,
/// `float32` or `float64`. A number is made of the first 23 or 52 bits of a word of `random.threefry_generate`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.random.uniform",
    infer = |op: Uniform<Type>, cx: &mut InferCx<'_>| {
        numbers(cx, op.key, &op.out_shape.0, op.out_dtype)
    },
    hooks(Opaque, Evaluate(evaluate_uniform), Define(|cx| {
        let (shape, dtype) = (drawn_shape(cx)?, cx.fields::<Uniform<relay::define::Operand>>()?.out_dtype);
        let (low, high) = (cx.tensor(1)?, cx.tensor(2)?);
        let (next, bits) = define_draw(cx, count(&shape))?;
        let name = cx.stage();
        let numbers = cx.builder.compute(&name, &shape, |e, i| {
            let place = Index::row_major(i, &shape).value(e);
            let share = bits.share(e, place, dtype);
            let (low, high) = (e.load(&low, &[]), e.load(&high, &[]));
            let width = e.sub(high, low);
            let above = e.mul(share, width);
            e.add(above, low)
        });
        Ok(vec![next, numbers])
    }))
)]
pub struct Uniform<V = ValueId> {
    /// The generator.
    pub key: V,
    /// The least number.
    pub low: V,
    /// What all numbers are less than.
    pub high: V,
    /// Shape of the numbers.
    pub out_shape: Integers,
    /// Their element type.
    pub out_dtype: DType,
}

/// Random numbers of a normal distribution.
///
/// The result is the tuple of the generator to go on with and of numbers of the shape `out_shape`, whose mean is
/// `mean` and whose standard deviation is `scale`, scalars of the type `out_dtype`, `float32` or `float64`. Numbers
/// are computed two by two (Box and Muller 1958): of the shares `a` and `b` of the first and of the second half of
/// what is drawn, `sqrt(-2 ln(1 - a))` times the cosine, and in the second half the sine, of `2 pi b`. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.random.normal",
    infer = |op: Normal<Type>, cx: &mut InferCx<'_>| {
        numbers(cx, op.key, &op.out_shape.0, op.out_dtype)
    },
    hooks(Opaque, Evaluate(evaluate_normal), Define(define_normal))
)]
pub struct Normal<V = ValueId> {
    /// The generator.
    pub key: V,
    /// The mean.
    pub mean: V,
    /// The standard deviation.
    pub scale: V,
    /// Shape of the numbers.
    pub out_shape: Integers,
    /// Their element type.
    pub out_dtype: DType,
}

/// Random places in vectors, each as likely as its number says.
///
/// With `probs` of shape `(…, K)` the result is the tuple of the generator to go on with and of places of the shape
/// `(…, num_samples)`, `int32`, from 0 to below `K`. The numbers of a vector are not negative, and need not sum up to
/// 1. For a share `u` that is drawn, the place is the first at which the sum so far exceeds `u` times the sum of all. Relay operator level 10.
#[derive(Op, Clone, Debug)]
#[op(
    name = "relay.random.multinomial",
    infer = infer_multinomial,
    hooks(Opaque, Evaluate(evaluate_multinomial), Define(define_multinomial))
)]
pub struct Multinomial<V = ValueId> {
    /// The generator.
    pub key: V,
    /// How likely each place is.
    pub probs: V,
    /// How many places are drawn for each vector.
    #[default(1)]
    pub num_samples: i64,
}

// ---- types ------------------------------------------------------------------------------------------

/// The type of generators.
pub fn generator_type() -> Type {
    Type::tensor([WORDS as i64], DType::UINT64)
}

/// A generator to begin with. Those of different seeds have no numbers in common.
pub fn generator_from(seed: u64) -> TensorData {
    let mut words = [0i64; WORDS];
    words[0] = seed.cast_signed();
    words[8] = i64::MIN;
    let generator = TensorData::from_i64(DType::UINT64, &[WORDS as i64], &words);
    generator.expect("ten words have room")
}

/// Checks that the first operand, of type `key`, is a generator.
fn generator(cx: &mut InferCx<'_>, key: Type) -> Result<(), Stop> {
    cx.tensor(0)?;
    let expected = generator_type();
    match key == expected {
        true => Ok(()),
        false => Err(Stop::Error(format!("expected a generator of type {expected}, found {key}"))),
    }
}

fn drawn(cx: &mut InferCx<'_>, key: Type, shape: &[i64], dtype: DType) -> Result<Type, Stop> {
    generator(cx, key)?;
    Ok(Type::tuple([key, Type::tensor(relation::shape_attr(shape)?, dtype)]))
}

/// The same of numbers of a distribution with two parameters.
fn numbers(cx: &mut InferCx<'_>, key: Type, shape: &[i64], dtype: DType) -> Result<Type, Stop> {
    if ![DType::FLOAT32, DType::FLOAT64].contains(&dtype) {
        return Err(Stop::Error(format!("expected `out_dtype` float32 or float64, found {dtype}")));
    }
    for parameter in 1..=2 {
        let parameter = cx.tensor(parameter)?;
        relation::expect_rank(parameter, 0)?;
        if parameter.dtype != dtype {
            let error = format!("expected numbers of type {dtype}, found {}", parameter.dtype);
            return Err(Stop::Error(error));
        }
    }
    drawn(cx, key, shape, dtype)
}

fn infer_multinomial(op: Multinomial<Type>, cx: &mut InferCx<'_>) -> Result<Type, Stop> {
    generator(cx, op.key)?;
    let probs = cx.tensor(1)?;
    let Some((last, outer)) = probs.shape.split_last() else {
        return Err(Stop::error("expected vectors, found a scalar"));
    };
    if last.known() == Some(0) {
        return Err(Stop::error("expected vectors of at least one number, found none"));
    }
    if !probs.dtype.is_float() {
        return Err(Stop::Error(format!("expected floats, found {}", probs.dtype)));
    }
    if op.num_samples < 0 {
        return Err(Stop::Error(format!(
            "expected `num_samples` of at least 0, found {}",
            op.num_samples
        )));
    }
    let shape = outer.iter().copied().chain([op.num_samples.into()]);
    Ok(Type::tuple([op.key, Type::tensor(shape, DType::INT32)]))
}

// ---- numbers ----------------------------------------------------------------------------------------

/// Elements of a tensor of these extents; more than can be drawn where that is more than a number holds.
fn count(shape: &[i64]) -> u64 {
    shape.iter().fold(1u64, |product, extent| product.saturating_mul(extent.unsigned_abs()))
}

/// Words that are drawn for so many numbers: whole blocks.
fn whole(count: u64) -> u64 {
    count.div_ceil(BLOCK as u64).saturating_mul(BLOCK as u64)
}

fn generator_of(cx: &EvalCx<'_>) -> Result<[u64; WORDS], EvalError> {
    let words: Vec<u64> = cx.tensor(0)?.to_i64().into_iter().map(i64::cast_unsigned).collect();
    words.try_into().map_err(|_| EvalError::new("expected a generator of ten words"))
}

fn generator_value(words: [u64; WORDS]) -> Result<Value, EvalError> {
    let words = words.map(u64::cast_signed);
    Ok(TensorData::from_i64(DType::UINT64, &[WORDS as i64], &words)?.into())
}

/// `count` words of the generator that is the first operand, and the generator after them.
fn draw(cx: &EvalCx<'_>, count: u64) -> Result<(Value, Vec<u64>), EvalError> {
    let drawn = whole(count);
    let ready = threefry::ready(&mut Numbers, generator_of(cx)?, drawn);
    let next = generator_value(threefry::after(&mut Numbers, ready, drawn))?;
    // A tensor of so many has to fit into memory, whatever it is computed of.
    let mut words = Vec::new();
    let size = usize::try_from(drawn).map_err(|_| EvalError::new("too many numbers"))?;
    words.try_reserve_exact(size).map_err(|_| EvalError::new("too many numbers"))?;
    for block in 0..drawn / BLOCK as u64 {
        words.extend(threefry::block(&mut Numbers, ready, block));
    }
    words.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    Ok((next, words))
}

/// The share of the range of numbers below 1 that `word` stands for, exact in `dtype`.
fn share(word: u64, dtype: DType) -> f64 {
    let bits = fraction_bits(dtype);
    (word >> (64 - bits)) as f64 / (1u64 << bits) as f64
}

/// Bits of a share in a float of type `dtype`.
fn fraction_bits(dtype: DType) -> u32 {
    if dtype == DType::FLOAT32 { 23 } else { 52 }
}

fn evaluate_uniform(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Uniform<Value>>()?;
    let (next, words) = draw(cx, count(&op.out_shape.0))?;
    let (low, high) = (number(cx, 1)?, number(cx, 2)?);
    let at = |share: f64| match op.out_dtype {
        // As `float32` computes it.
        DType::FLOAT32 => {
            let (low, high) = (low as f32, high as f32);
            f64::from(share as f32 * (high - low) + low)
        }
        _ => share * (high - low) + low,
    };
    let numbers: Vec<f64> = words.into_iter().map(|word| at(share(word, op.out_dtype))).collect();
    let numbers = TensorData::from_f64(op.out_dtype, &op.out_shape.0, &numbers)?;
    Ok(Value::tuple([next, numbers.into()]))
}

fn evaluate_normal(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let op = cx.fields::<Normal<Value>>()?;
    let count = count(&op.out_shape.0);
    let half = count.div_ceil(2);
    let (next, words) = draw(cx, half.saturating_mul(2))?;
    let (mean, scale) = (number(cx, 1)?, number(cx, 2)?);
    let (first, second) = words.split_at(words.len() / 2);
    let pairs = || {
        first.iter().zip(second).map(|(a, b)| {
            let (a, b) = (share(*a, op.out_dtype), share(*b, op.out_dtype));
            ((-2.0 * (1.0 - a).ln()).sqrt(), std::f64::consts::TAU * b)
        })
    };
    let cosines = pairs().map(|(radius, angle)| radius * angle.cos());
    let sines = pairs().map(|(radius, angle)| radius * angle.sin());
    let numbers = cosines.chain(sines).map(|number| number * scale + mean);
    let numbers: Vec<f64> = numbers.take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
    let numbers = TensorData::from_f64(op.out_dtype, &op.out_shape.0, &numbers)?;
    Ok(Value::tuple([next, numbers.into()]))
}

fn evaluate_multinomial(cx: &EvalCx<'_>) -> Result<Value, EvalError> {
    let (op, probs) = (cx.fields::<Multinomial<Value>>()?, cx.tensor(1)?);
    let Some((&last, outer)) = probs.shape().split_last() else {
        return Err(EvalError::new("expected vectors, found a scalar"));
    };
    let shape: Vec<i64> = outer.iter().copied().chain([op.num_samples]).collect();
    let (next, words) = draw(cx, count(&shape))?;
    let probs = probs.to_f64();
    let (size, samples) = (last.max(1) as usize, op.num_samples.max(1) as usize);
    let mut places = Vec::with_capacity(words.len());
    for (vector, words) in probs.chunks(size).zip(words.chunks(samples)) {
        let mut sum = 0.0;
        let sums: Vec<f64> = vector
            .iter()
            .map(|share| {
                sum += share;
                sum
            })
            .collect();
        for word in words {
            let far = share(*word, DType::FLOAT64) * sum;
            let place = sums.iter().filter(|sum| **sum <= far).count();
            places.push(place.min(size - 1) as i64);
        }
    }
    let places = TensorData::from_i64(DType::INT32, &shape, &places)?;
    Ok(Value::tuple([next, places.into()]))
}

fn number(cx: &EvalCx<'_>, operand: usize) -> Result<f64, EvalError> {
    let number = cx.tensor(operand)?.to_f64();
    number.first().copied().ok_or_else(|| EvalError::new("expected a number"))
}

// ---- tensor expressions -----------------------------------------------------------------------------

/// Words that are drawn, four stages of them: the first one has the first word of each block.
struct Bits([Tensor; BLOCK]);

impl Bits {
    /// Word `place` of all.
    fn load(&self, e: &mut Expression<'_>, place: ValueId) -> ValueId {
        let size = e.index(BLOCK as i64);
        let (block, within) = (e.floor_div(place, size), e.floor_mod(place, size));
        let [first, others @ ..] = &self.0;
        let mut word = e.load(first, &[block]);
        for (number, other) in (1..).zip(others) {
            let number = e.index(number);
            let is_it = e.eq(within, number);
            let other = e.load(other, &[block]);
            word = e.select(is_it, other, word);
        }
        word
    }

    /// The share of word `place`, see [`share`].
    fn share(&self, e: &mut Expression<'_>, place: ValueId, dtype: DType) -> ValueId {
        let word = self.load(e, place);
        let bits = fraction_bits(dtype);
        let first = Words::down(e, word, 64 - bits);
        // Signed numbers are converted in vectors.
        let first = e.cast(first, DType::INT64);
        let first = e.cast(first, dtype);
        let unit = e.number(dtype, 1.0 / (1u64 << bits) as f64);
        e.mul(first, unit)
    }
}

fn load_generator(e: &mut Expression<'_>, key: &Tensor) -> [ValueId; WORDS] {
    std::array::from_fn(|word| {
        let word = e.index(word as i64);
        e.load(key, &[word])
    })
}

/// The stage `name` with the generator that `words` writes.
fn define_generator(
    cx: &mut DefineCx<'_>,
    name: &str,
    words: impl FnOnce(&mut Expression<'_>) -> [ValueId; WORDS],
) -> Tensor {
    cx.builder.compute(name, &[WORDS as i64], |e, i| {
        let [first, others @ ..] = words(e);
        (1..).zip(others).fold(first, |word, (number, other)| {
            let number = e.index(number);
            let is_it = e.eq(i[0], number);
            e.select(is_it, other, word)
        })
    })
}

/// The generator after `count` words of the first operand, and the words.
fn define_draw(cx: &mut DefineCx<'_>, count: u64) -> Result<(Tensor, Bits), String> {
    let key = cx.tensor(0)?;
    let drawn = whole(count);
    let blocks = i64::try_from(drawn / BLOCK as u64).map_err(|_| "too many numbers".to_string())?;
    let name = cx.stage_of("ready");
    let ready = define_generator(cx, &name, |e| {
        let words = load_generator(e, &key);
        threefry::ready(e, words, drawn)
    });
    let name = cx.stage_of("next");
    let next = define_generator(cx, &name, |e| {
        let words = load_generator(e, &ready);
        threefry::after(e, words, drawn)
    });
    let words = std::array::from_fn(|word| {
        let name = cx.stage_of(&format!("word{word}"));
        cx.builder.compute(&name, &[blocks], |e, i| {
            let words = load_generator(e, &ready);
            let block = e.cast(i[0], DType::UINT64);
            threefry::block(e, words, block)[word]
        })
    });
    Ok((next, Bits(words)))
}

/// The shape of what is drawn, the second field of the result.
fn drawn_shape(cx: &DefineCx<'_>) -> Result<Shape, String> {
    let fields = relay::define::tensor_types(cx.result).unwrap_or_default();
    let drawn = fields.get(1).ok_or_else(|| format!("expected a tuple, found {}", cx.result))?;
    Ok(shape_of(*drawn)?)
}

fn define_normal(cx: &mut DefineCx<'_>) -> Defined {
    let dtype = cx.fields::<Normal<relay::define::Operand>>()?.out_dtype;
    let (shape, mean, scale) = (drawn_shape(cx)?, cx.tensor(1)?, cx.tensor(2)?);
    let half =
        i64::try_from(count(&shape).div_ceil(2)).map_err(|_| "too many numbers".to_string())?;
    let (next, bits) = define_draw(cx, count(&shape).div_ceil(2).saturating_mul(2))?;
    let name = cx.stage_of("radius");
    let radius = cx.builder.compute(&name, &[half], |e, i| {
        let share = bits.share(e, i[0], dtype);
        let (one, factor) = (e.number(dtype, 1.0), e.number(dtype, -2.0));
        let rest = e.sub(one, share);
        let rest = e.scalar(ScalarOp::Log, &[rest]);
        let square = e.mul(factor, rest);
        e.scalar(ScalarOp::Sqrt, &[square])
    });
    let [cosine, sine] = [("cosine", ScalarOp::Cos), ("sine", ScalarOp::Sin)].map(|(part, op)| {
        let name = cx.stage_of(part);
        cx.builder.compute(&name, &[half], |e, i| {
            let place = e.add_index(i[0], half);
            let share = bits.share(e, place, dtype);
            let turn = e.number(dtype, std::f64::consts::TAU);
            let angle = e.mul(share, turn);
            let (angle, radius) = (e.scalar(op, &[angle]), e.load(&radius, i));
            e.mul(radius, angle)
        })
    });
    let name = cx.stage();
    let numbers = cx.builder.compute(&name, &shape, |e, i| {
        let place = Index::row_major(i, &shape).value(e);
        let middle = e.index(half);
        let is_first = e.lt(place, middle);
        let later = e.sub(place, middle);
        let zero = e.number(dtype, 0.0);
        let is_second = e.ge(place, middle);
        let first = e.load_if(is_first, &cosine, &[place], zero);
        let second = e.load_if(is_second, &sine, &[later], zero);
        let number = e.select(is_first, first, second);
        let (scale, mean) = (e.load(&scale, &[]), e.load(&mean, &[]));
        let number = e.mul(number, scale);
        e.add(number, mean)
    });
    Ok(vec![next, numbers])
}

fn define_multinomial(cx: &mut DefineCx<'_>) -> Defined {
    let (shape, probs) = (drawn_shape(cx)?, cx.tensor(1)?);
    let (next, bits) = define_draw(cx, count(&shape))?;
    let Some((&size, outer)) = probs.shape.split_last() else {
        return Err("expected vectors, found a scalar".to_string());
    };
    let rank = outer.len();
    let name = cx.stage_of("sums");
    let zero = TensorData::scalar(DType::FLOAT64, Scalar::Int(0));
    let sums = cx.builder.scan(&name, &probs.shape, rank, &[zero], |e, i, before| {
        let share = e.load(&probs, i);
        let share = e.cast(share, DType::FLOAT64);
        let next = e.add(before[0], share);
        SmallVec::from_slice(&[next, next])
    });
    let name = cx.stage_of("shares");
    let shares = cx.builder.compute(&name, &shape, |e, i| {
        let place = Index::row_major(i, &shape).value(e);
        bits.share(e, place, DType::FLOAT64)
    });
    let name = cx.stage_of("before");
    let before = cx.builder.reduce(&name, &shape, &[size], Combiner::Sum, |e, i, k| {
        let vector = |last: ValueId| i[..rank].iter().copied().chain([last]).collect::<Vec<_>>();
        let last = e.index(size - 1);
        let (sum, all) = (e.load(&sums, &vector(k[0])), e.load(&sums, &vector(last)));
        let share = e.load(&shares, i);
        let far = e.mul(share, all);
        let is_before = e.le(sum, far);
        e.cast(is_before, DType::INT32)
    });
    let name = cx.stage();
    let places = cx.builder.compute(&name, &shape, |e, i| {
        let (place, last) = (e.load(&before, i), e.constant(DType::INT32, Scalar::Int(size - 1)));
        e.min(place, last)
    });
    Ok(vec![next, places])
}

pub(crate) fn register(registry: &mut Registry) {
    registry.op::<ThreefryGenerate>();
    registry.op::<ThreefrySplit>();
    registry.op::<Uniform>();
    registry.op::<Normal>();
    registry.op::<Multinomial>();
}
