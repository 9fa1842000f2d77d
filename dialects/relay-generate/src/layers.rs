//! Operators of networks in random modules: what has weights, windows, channels or several fields.

use ir_core::{AttrDict, DType, Type, ValueId};
use relay::builder::Builder;
use relay::language::{Tuple, TupleGet};

use super::program::{Generator, Scope};

impl Generator<'_> {
    /// A tensor of floats of type `ty` out of an operator that fits its shape. `None` where none
    /// does.
    pub(super) fn layer(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> Option<ValueId> {
        let tensor = ty.as_tensor()?;
        let (dtype, shape) = (tensor.dtype, tensor.known_shape()?);
        if dtype != DType::FLOAT32 {
            return self.shaped(builder, scope, ty, depth);
        }
        let none = AttrDict::empty();
        let of = |shape: &[i64]| Type::tensor(shape.iter().copied(), dtype);
        match (shape.as_slice(), self.random.below(5)) {
            (&[rows, columns], 0) => {
                let inner = 1 + self.random.below(4) as i64;
                let data = self.part(builder, scope, of(&[rows, inner]), depth);
                let weight = self.part(builder, scope, of(&[columns, inner]), depth);
                let product = self.operator_with(builder, "nn.dense", &[data, weight], none)?;
                if !self.random.one_in(3) {
                    return Some(product);
                }
                // Another product of the same data, by a weight of another element type.
                let other = Type::tensor([columns, inner], DType::INT8);
                let weight = self.part(builder, scope, other, depth);
                let other = self.operator_with(builder, "nn.dense", &[data, weight], none)?;
                self.operator_with(builder, "add", &[product, other], AttrDict::empty())
            }
            (&[batch, rows, columns], 0) => {
                let inner = 1 + self.random.below(4) as i64;
                let lhs = self.part(builder, scope, of(&[batch, rows, inner]), depth);
                let rhs = self.part(builder, scope, of(&[batch, columns, inner]), depth);
                self.operator_with(builder, "nn.batch_matmul", &[lhs, rhs], none)
            }
            (&[batch, channels, height, width], 0 | 1) => {
                let inner = 1 + self.random.below(3) as i64;
                let data = self.part(builder, scope, of(&[batch, inner, height, width]), depth);
                let weight = self.part(builder, scope, of(&[channels, inner, 3, 3]), depth);
                let attrs = none.with("padding", &vec![1i64, 1, 1, 1]);
                let attrs = attrs.with("channels", &channels).with("kernel_size", &vec![3i64, 3]);
                self.operator_with(builder, "nn.conv2d", &[data, weight], attrs)
            }
            (&[_, _, _, _], 2) => {
                let data = self.part(builder, scope, ty, depth);
                let attrs = none.with("pool_size", &vec![3i64, 3]);
                let attrs = attrs.with("padding", &vec![1i64, 1, 1, 1]);
                let names = ["nn.max_pool2d", "nn.avg_pool2d"];
                let name = names[self.random.below(names.len())];
                self.operator_with(builder, name, &[data], attrs)
            }
            (&[_, channels, ..], 3) => {
                let data = self.part(builder, scope, ty, depth);
                let mut operands = vec![data];
                if self.random.one_in(2) {
                    operands.push(self.part(builder, scope, of(&[channels]), depth));
                    return self.operator_with(builder, "nn.bias_add", &operands, none);
                }
                for _ in 0..3 {
                    operands.push(self.part(builder, scope, of(&[channels]), depth));
                }
                // A variance is positive.
                let ones =
                    ir_core::TensorData::from_i64(dtype, &[channels], &vec![1; channels as usize]);
                operands.push(builder.constant(ones.ok()?));
                let tuple = self.operator_with(builder, "nn.batch_norm", &operands, none)?;
                Some(builder.add(&TupleGet { tuple, index: 0 }, ty))
            }
            (&[_, ..], 4) => {
                let data = self.part(builder, scope, ty, depth);
                if self.random.one_in(2) {
                    return self.operator_with(builder, "nn.softmax", &[data], none);
                }
                let tuple = self.operator_with(builder, "nn.dropout", &[data], none)?;
                Some(builder.add(&TupleGet { tuple, index: 0 }, ty))
            }
            _ => self.shaped(builder, scope, ty, depth),
        }
    }

    /// A tensor put together from others, or a part of one.
    fn shaped(
        &mut self,
        builder: &mut Builder,
        scope: &mut Scope,
        ty: Type,
        depth: usize,
    ) -> Option<ValueId> {
        let tensor = ty.as_tensor()?;
        let (dtype, shape) = (tensor.dtype, tensor.known_shape()?);
        let (first, rest) = shape.split_first()?;
        let of =
            |first: i64| Type::tensor(std::iter::once(first).chain(rest.iter().copied()), dtype);
        let none = AttrDict::empty();
        match self.random.below(4) {
            0 if *first > 1 => {
                let parts = [of(1), of(first - 1)];
                let fields = parts.iter().map(|ty| self.part(builder, scope, *ty, depth));
                let fields = fields.collect();
                let tuple = builder.add(&Tuple { fields }, Type::tuple(parts));
                self.operator_with(builder, "concatenate", &[tuple], none)
            }
            1 => {
                let whole = self.part(builder, scope, of(2 * first), depth);
                let attrs = none.with("indices_or_sections", &2i64);
                let tuple = self.operator_with(builder, "split", &[whole], attrs)?;
                let index = self.random.below(2) as i64;
                Some(builder.add(&TupleGet { tuple, index }, ty))
            }
            2 => {
                let flat = Type::tensor([shape.iter().product::<i64>()], dtype);
                let data = self.part(builder, scope, flat, depth);
                self.operator_with(
                    builder,
                    "reshape",
                    &[data],
                    none.with("newshape", &shape.to_vec()),
                )
            }
            _ => {
                let data = self.part(builder, scope, of(first + 1), depth);
                let places: Vec<i64> = (0..*first).rev().collect();
                let places =
                    ir_core::TensorData::from_i64(DType::INT32, &[*first], &places).ok()?;
                let places = builder.constant(places);
                self.operator_with(builder, "take", &[data, places], none.with("axis", &0i64))
            }
        }
    }
}
