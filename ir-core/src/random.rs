//! Random numbers, the same for the same seed on every machine.

use crate::dtype::DType;
use crate::tensor::{Scalar, TensorData};

/// Where random floats lie: from `least` up to, but without, `least + width`.
///
/// The width is a power of two. So its product with a random number is exact, and a machine that
/// multiplies and adds in one step makes the same floats as one that rounds between.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The least number.
    pub least: f64,
    /// The width, a power of two.
    pub width: f64,
}

impl Default for Spread {
    /// `[-1, 1)`.
    fn default() -> Spread {
        Spread { least: -1.0, width: 2.0 }
    }
}

/// Where random floats lie that are of all magnitudes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Magnitudes {
    /// The least exponent of two, and how many there are.
    exponents: (i32, usize),
    /// How far numbers with one exponent are apart, relative to them.
    apart: f64,
    /// The exponent of subnormal numbers, where there are some.
    subnormal: Option<i32>,
    /// Whether there are negative numbers.
    signed: bool,
}

impl Magnitudes {
    /// Up to about `10⁴`, `10¹²` and `10³⁰`, for [`Magnitudes::up_to`].
    pub const REACHES: [i32; 3] = [13, 40, 100];

    /// From about `2^-reach` to `2^reach`, as far as `dtype` goes, and 0. Of three choices of
    /// `random`, two have numbers of both signs. The greatest of the [reaches](Magnitudes::REACHES)
    /// has subnormal numbers as well.
    pub fn up_to(reach: i32, dtype: DType, random: &mut Random) -> Magnitudes {
        let (greatest, digits) = dtype.float_format();
        let least = reach.min(greatest * 4 / 5);
        let subnormal = (reach == Self::REACHES[2]).then_some(1 - greatest - digits / 2);
        let signed = !random.one_in(3);
        Magnitudes { exponents: (-least, 2 * least as usize), apart: 1.0, subnormal, signed }
    }

    /// Close to 1, 64 or 8,192, so that differences are small, and 0.
    pub fn alike(dtype: DType, random: &mut Random) -> Magnitudes {
        let exponent = [0, 6, 13][random.below(3)].min(dtype.float_format().0 / 2);
        let signed = !random.one_in(3);
        Magnitudes { exponents: (exponent, 1), apart: 1e-3, subnormal: None, signed }
    }

    /// One of them.
    pub fn number(&self, random: &mut Random) -> f64 {
        let exponent = match (random.below(16), self.subnormal) {
            (0, _) => return 0.0,
            (1, Some(subnormal)) => subnormal,
            _ => self.exponents.0 + random.below(self.exponents.1) as i32,
        };
        let sign = if self.signed && random.one_in(2) { -1.0 } else { 1.0 };
        sign * (1.0 + self.apart * random.unit()) * 2f64.powi(exponent)
    }
}

/// A small generator of numbers (SplitMix64, Steele et al., OOPSLA 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of the product is uniform up to 2^-64 · bound.
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// True once in `times` times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of `choices`; `None` where there are none.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.below(choices.len()))
    }

    /// One element: floats in `[-1, 1)`, signed integers in `-4..=4`, unsigned ones in `0..=4`.
    pub fn element(&mut self, dtype: DType) -> Scalar {
        self.element_within(dtype, Spread::default())
    }

    fn element_within(&mut self, dtype: DType, spread: Spread) -> Scalar {
        if dtype.is_float() {
            Scalar::Float(self.unit() * spread.width + spread.least)
        } else if dtype.is_bool() {
            Scalar::Int(self.below(2) as i64)
        } else if dtype.is_signed() {
            Scalar::Int(self.below(9) as i64 - 4)
        } else {
            Scalar::Int(self.below(5) as i64)
        }
    }

    /// A tensor of such elements. Errors where an extent is negative or the tensor is too large.
    pub fn tensor(&mut self, shape: &[i64], dtype: DType) -> Result<TensorData, String> {
        self.tensor_within(shape, dtype, Spread::default())
    }

    /// The same with floats within `spread`.
    pub fn tensor_within(
        &mut self,
        shape: &[i64],
        dtype: DType,
        spread: Spread,
    ) -> Result<TensorData, String> {
        self.tensor_of(shape, dtype, &mut |random| random.element_within(dtype, spread))
    }

    /// The same with floats of all magnitudes up to `2^reach`.
    pub fn tensor_up_to(
        &mut self,
        shape: &[i64],
        dtype: DType,
        reach: i32,
    ) -> Result<TensorData, String> {
        if !dtype.is_float() {
            return self.tensor(shape, dtype);
        }
        let magnitudes = Magnitudes::up_to(reach, dtype, self);
        self.tensor_of(shape, dtype, &mut |random| Scalar::Float(magnitudes.number(random)))
    }

    fn tensor_of(
        &mut self,
        shape: &[i64],
        dtype: DType,
        element: &mut dyn FnMut(&mut Random) -> Scalar,
    ) -> Result<TensorData, String> {
        const MOST_BYTES: usize = 1 << 34;
        let bytes = crate::tensor::tensor_bytes(shape, dtype).filter(|n| *n <= MOST_BYTES);
        let Some(bytes) = bytes else {
            return Err(format!("expected extents of at most {MOST_BYTES} bytes, found {shape:?}"));
        };
        let lanes = bytes / dtype.bytes().max(1) * dtype.lanes() as usize;
        let elements = (0..lanes).map(|_| element(self));
        TensorData::from_scalars(dtype, shape, elements).map_err(|error| error.to_string())
    }
}
