//! Products of quantized tensors, whose sums are of integers: convolutions and matrix products.
//!
//! The result stands for real numbers with the product of both scales as scale and 0 as zero
//! point; `qnn.requantize` follows. The scales take no part in the arithmetic.

use ir_core::{DType, Dim, InferCx, Op, Registry, Stop, TensorData, Type, ValueId, Work};
use relay::define::{Define, DefineCx, Defined, Operand};
use relay::interpreter::{EvalCx, EvalError, Evaluate, Value};

use super::{Spread, define_as, evaluate_as, infer_as, load_spread, parameter};
use crate::layout::Layout;
use crate::nn::convolution::{self, Kernel};
use crate::nn::{linear, transposed_convolution};
use crate::{FusionPattern, LayoutRule, multiply_adds};

/// Declares a product; what is before the name are its doc comment and `#[op(…)]`, what is in
/// braces its attributes.
macro_rules! product {
    ($(#[$meta:meta])* $name:ident($a:ident: $a_doc:literal, $b:ident: $b_doc:literal) {
        $($(#[$attr_meta:meta])* $attr:ident: $ty:ty,)*
    }) => {
        #[derive(Op, Clone, Debug)]
        $(#[$meta])*
        pub struct $name<V = ValueId> {
            #[doc = $a_doc]
            pub $a: V,
            #[doc = $b_doc]
            pub $b: V,
            /// The integer of the first factor that stands for 0, a scalar.
            pub input_zero_point: V,
            /// The integer of the second factor that stands for 0; a scalar, or one for every
            /// output channel.
            pub kernel_zero_point: V,
            /// Scale of the first factor, a scalar.
            pub input_scale: V,
            /// Scale of the second factor; a scalar, or one for every output channel.
            pub kernel_scale: V,
            $($(#[$attr_meta])* pub $attr: $ty,)*
            /// Element type of the result and of its sums, an integer one.
            pub out_dtype: DType,
        }
    };
}

/// The result type of the product `T` of the first two operands, whose second one has output
/// channels along `channel_axis`.
fn product_relation<T: Op>(
    cx: &mut InferCx<'_>,
    out_dtype: DType,
    channel_axis: Option<usize>,
) -> Result<Type, Stop> {
    let sums = [DType::INT16, DType::INT32, DType::INT64];
    if !sums.contains(&out_dtype) {
        return Err(Stop::Error(format!(
            "expected out_dtype int16, int32 or int64, found {out_dtype}"
        )));
    }
    let result = infer_as::<T>(cx, 2)?;
    let channels: Option<Dim> = match (cx.tensor(1), channel_axis) {
        (Ok(weight), Some(axis)) => weight.shape.get(axis).copied(),
        _ => None,
    };
    parameter(cx, 2, DType::INT32, None)?;
    parameter(cx, 3, DType::INT32, channels)?;
    parameter(cx, 4, DType::FLOAT32, None)?;
    parameter(cx, 5, DType::FLOAT32, channels)?;
    Ok(result)
}

/// `tensor` minus its zero point along `axis`, as `int64`.
fn shifted(tensor: &TensorData, zero_point: &TensorData, axis: usize) -> Result<Value, EvalError> {
    let zero_point = Spread::new(zero_point.to_i64(), tensor.shape(), axis as i64)?;
    let mut elements = tensor.to_i64();
    for (index, element) in elements.iter_mut().enumerate() {
        *element = element.wrapping_sub(zero_point.at(index));
    }
    Ok(TensorData::from_i64(DType::INT64, tensor.shape(), &elements)?.into())
}

/// The product `T` of the factors less their zero points.
fn evaluate_product<T: Op>(
    cx: &EvalCx<'_>,
    channel_axis: Option<usize>,
) -> Result<Value, EvalError> {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    let axis = channel_axis.unwrap_or(0);
    let factors = [shifted(a, cx.tensor(2)?, 0)?, shifted(b, cx.tensor(3)?, axis)?];
    Ok(evaluate_as::<T>(cx, &factors, cx.result)?.into())
}

/// As [`evaluate_product`].
fn define_product<T: Op>(cx: &mut DefineCx<'_>, channel_axis: Option<usize>) -> Defined {
    let mut factors = Vec::new();
    for (operand, axis) in [(0, 0), (1, channel_axis.unwrap_or(0))] {
        let (tensor, zero_point) = (cx.tensor(operand)?, cx.tensor(operand + 2)?);
        let name = cx.stage_of(if operand == 0 { "lhs" } else { "rhs" });
        let shifted = cx.builder.compute(&name, &tensor.shape, |e, i| {
            let (x, zero) = (e.load(&tensor, i), load_spread(e, &zero_point, i, axis));
            let (x, zero) = (e.cast(x, DType::INT64), e.cast(zero, DType::INT64));
            e.sub(x, zero)
        });
        factors.push(Operand::Tensor(shifted));
    }
    define_as::<T>(cx, &factors)
}

/// The position of output channels in a kernel's layout, where they are in one piece.
fn output_channels(layout: &str, name: char) -> Option<usize> {
    Layout::parse(layout).ok().filter(Layout::is_plain)?.position(name)
}

product! {
    /// Two-dimensional convolution of quantized tensors.
    ///
    /// Computes `nn.conv2d` of `data - input_zero_point` and `weight - kernel_zero_point`, in
    /// integers. Padding stands for real zeros. Relay operator level 11.
    #[op(
        name = "relay.qnn.conv2d",
        infer = |op: Conv2d<Type>, cx: &mut InferCx<'_>| {
            let axis = output_channels(&op.kernel.kernel_layout, 'O');
            product_relation::<convolution::Conv2d>(cx, op.out_dtype, axis)
        },
        hooks(FusionPattern::OutFusable, LayoutRule::Convolution, Work(multiply_adds::<Conv2d>), Evaluate(|cx| {
            let op = cx.fields::<Conv2d<Value>>()?;
            let axis = output_channels(&op.kernel.kernel_layout, 'O');
            evaluate_product::<convolution::Conv2d>(cx, axis)
        }), Define(|cx| {
            let op = cx.fields::<Conv2d<Operand>>()?;
            let axis = output_channels(&op.kernel.kernel_layout, 'O');
            define_product::<convolution::Conv2d>(cx, axis)
        }))
    )]
    Conv2d(data: "The input, in `data_layout`.", weight: "The kernel, in `kernel_layout`.") {
        /// Distance of neighbouring windows, per spatial axis.
        #[default(vec![1, 1])]
        strides: Vec<i64>,
        /// Real zeros around the input: one number for all sides, one per axis, or all numbers
        /// before and then all numbers after.
        #[default(vec![0, 0])]
        padding: Vec<i64>,
        /// As that of `nn.conv2d`.
        #[flatten]
        kernel: Kernel<2>,
    }
}

product! {
    /// Transposed two-dimensional convolution of quantized tensors.
    ///
    /// Computes `nn.conv2d_transpose` of `data - input_zero_point` and `weight -
    /// kernel_zero_point`, in integers. Relay operator level 11.
    #[op(
        name = "relay.qnn.conv2d_transpose",
        infer = |op: Conv2dTranspose<Type>, cx: &mut InferCx<'_>| {
            let axis = output_channels(&op.kernel_layout, 'O');
            product_relation::<transposed_convolution::Conv2dTranspose>(cx, op.out_dtype, axis)
        },
        hooks(LayoutRule::Convolution, Work(multiply_adds::<Conv2dTranspose>), Evaluate(|cx| {
            let op = cx.fields::<Conv2dTranspose<Value>>()?;
            let axis = output_channels(&op.kernel_layout, 'O');
            evaluate_product::<transposed_convolution::Conv2dTranspose>(cx, axis)
        }), Define(|cx| {
            let op = cx.fields::<Conv2dTranspose<Operand>>()?;
            let axis = output_channels(&op.kernel_layout, 'O');
            define_product::<transposed_convolution::Conv2dTranspose>(cx, axis)
        }))
    )]
    Conv2dTranspose(data: "The input, in `data_layout`.", weight: "The kernel, in `kernel_layout`.") {
        /// Number of output channels; the weight's, where absent.
        #[default(None)]
        channels: Option<i64>,
        /// Spatial extents of the kernel; the weight's, where absent.
        #[default(None)]
        kernel_size: Option<Vec<i64>>,
        /// Distance in the result of neighbouring input elements, per spatial axis.
        #[default(vec![1, 1])]
        strides: Vec<i64>,
        /// How much of the full result is left out: one number for all sides, one per axis, or
        /// all numbers before and then all numbers after.
        #[default(vec![0, 0])]
        padding: Vec<i64>,
        /// How much longer the result is at its end, per spatial axis.
        #[default(vec![0, 0])]
        output_padding: Vec<i64>,
        /// Distance of neighbouring kernel elements, per spatial axis.
        #[default(vec![1, 1])]
        dilation: Vec<i64>,
        /// Number of groups that input and output channels are split into.
        #[default(1)]
        groups: i64,
        /// Layout of the input.
        #[default("NCHW".to_string())]
        data_layout: String,
        /// Layout of the kernel.
        #[default("IOHW".to_string())]
        kernel_layout: String,
        /// Layout of the result; empty for that of the input.
        #[default(String::new())]
        out_layout: String,
    }
}

product! {
    /// A fully connected layer of quantized tensors.
    ///
    /// Computes `nn.dense` of `data - input_zero_point` and `weight - kernel_zero_point`, in
    /// integers. Relay operator level 11.
    #[op(
        name = "relay.qnn.dense",
        infer = |op: Dense<Type>, cx: &mut InferCx<'_>| {
            product_relation::<linear::Dense>(cx, op.out_dtype, Some(0))
        },
        hooks(
            FusionPattern::OutFusable,
            Work(multiply_adds::<Dense>),
            Evaluate(|cx| evaluate_product::<linear::Dense>(cx, Some(0))),
            Define(|cx| define_product::<linear::Dense>(cx, Some(0)))
        )
    )]
    Dense(data: "The input.", weight: "The weight, one row per output.") {
        /// Number of outputs; the weight's, where absent.
        #[default(None)]
        units: Option<i64>,
    }
}

product! {
    /// A fully connected layer of quantized tensors whose weight is blocked for vector units.
    ///
    /// Computes `qnn.dense`; the weight is in a layout of the axes `N` (units) and `C` (inputs),
    /// such as `NC16n4c`. Its zero point and scale are scalars where the units are in blocks.
    /// Relay operator level 11.
    #[op(
        name = "relay.qnn.contrib_dense_pack",
        infer = |op: ContribDensePack<Type>, cx: &mut InferCx<'_>| {
            let axis = output_channels(&op.weight_layout, 'N');
            product_relation::<linear::ContribDensePack>(cx, op.out_dtype, axis)
        },
        hooks(FusionPattern::OutFusable, Work(multiply_adds::<ContribDensePack>), Evaluate(|cx| {
            let op = cx.fields::<ContribDensePack<Value>>()?;
            let axis = output_channels(&op.weight_layout, 'N');
            evaluate_product::<linear::ContribDensePack>(cx, axis)
        }), Define(|cx| {
            let op = cx.fields::<ContribDensePack<Operand>>()?;
            let axis = output_channels(&op.weight_layout, 'N');
            define_product::<linear::ContribDensePack>(cx, axis)
        }))
    )]
    ContribDensePack(data: "The input.", weight: "The weight, in `weight_layout`.") {
        /// Number of outputs; the weight's, where absent.
        #[default(None)]
        units: Option<i64>,
        /// Layout of the weight.
        #[default("NC".to_string())]
        weight_layout: String,
    }
}

product! {
    /// Matrix products of a batch of quantized tensors.
    ///
    /// Computes `nn.batch_matmul` of both factors less their zero points, in integers. Relay
    /// operator level 11.
    #[op(
        name = "relay.qnn.batch_matmul",
        infer = |op: BatchMatmul<Type>, cx: &mut InferCx<'_>| {
            product_relation::<linear::BatchMatmul>(cx, op.out_dtype, None)
        },
        hooks(
            Work(multiply_adds::<BatchMatmul>),
            Evaluate(|cx| evaluate_product::<linear::BatchMatmul>(cx, None)),
            Define(|cx| define_product::<linear::BatchMatmul>(cx, None))
        )
    )]
    BatchMatmul(x: "The first factors.", y: "The second factors.") {
        /// Whether `x` is `(B, K, M)`.
        #[default(false)]
        transpose_a: bool,
        /// Whether `y` is `(B, N, K)`.
        #[default(false)]
        transpose_b: bool,
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.op::<Conv2d>();
    registry.op::<Conv2dTranspose>();
    registry.op::<Dense>();
    registry.op::<ContribDensePack>();
    registry.op::<BatchMatmul>();
}
