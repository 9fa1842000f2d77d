//! Operators that draw random numbers.

use ir_core::{AttrDict, DType, Scalar, TensorData, ValueId};

use super::Network;

impl Network<'_> {
    /// Draws numbers, places or words of a generator that is a constant.
    pub(super) fn drawing(&mut self) -> Option<ValueId> {
        let key = self.generator()?;
        let rank = self.random.below(3);
        let shape = self.some_shape(rank);
        let none = AttrDict::empty();
        let drawn = none.with("out_shape", &shape);
        let part = self.random.below(2);
        let both = match self.random.below(5) {
            0 => self.apply("random.threefry_split", &[key], none)?,
            1 => self.apply("random.threefry_generate", &[key], drawn)?,
            2 => {
                let rank = 1 + self.random.below(2);
                let shape = self.some_shape(rank);
                let likely = self.input(DType::FLOAT32, &shape);
                let likely = self.plain("abs", &[likely])?;
                let attrs = none.with("num_samples", &self.one_of(&[0, 1, 3, 9]));
                self.apply("random.multinomial", &[key, likely], attrs)?
            }
            kind => {
                let dtype = if self.random.one_in(3) { DType::FLOAT64 } else { DType::FLOAT32 };
                let parameters = [self.constant(dtype, -0.5), self.constant(dtype, 0.75)];
                let name = if kind == 3 { "random.uniform" } else { "random.normal" };
                let operands = [key, parameters[0], parameters[1]];
                self.apply(name, &operands, drawn.with("out_dtype", &dtype))?
            }
        };
        self.field(both, part)
    }

    /// A generator, often one whose counter or path is at its end.
    fn generator(&mut self) -> Option<ValueId> {
        let mut words: Vec<i64> = (0..4).map(|_| self.random.below(1 << 30) as i64).collect();
        words.extend([self.one_of(&[0, i64::MIN]), 0, 0, self.one_of(&[0, 7, -2, -9])]);
        words.extend([self.one_of(&[i64::MIN, 1, 0]), self.one_of(&[0, 0, 4])]);
        let words = words.into_iter().map(Scalar::Int);
        let words = TensorData::from_scalars(DType::UINT64, &[10], words).ok()?;
        Some(self.builder.constant(words))
    }
}
