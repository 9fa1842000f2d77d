//! What random numbers that stand in for trained ones are like.

use ir_core::{AttrDict, Spread, Type};

/// Elements of a weight, the second operand, that keep the size of numbers from the input to the
/// result: with the variance 1 / (elements for each output), within a factor of 2 (LeCun et al.,
/// Efficient BackProp, section 4.6). `outputs` is the dimension that numbers the outputs.
pub(super) fn weight(operand: usize, types: &[Type], outputs: usize) -> Option<Spread> {
    let shape = types.get(operand).filter(|_| operand == 1)?.as_tensor()?.known_shape()?;
    let others = shape.iter().enumerate().filter(|(axis, _)| *axis != outputs);
    let inputs: f64 = others.map(|(_, extent)| *extent as f64).product();
    // Numbers of [-a, a) have the variance a² / 3.
    let mut least = -1.0;
    while least * least * inputs > 6.0 {
        least /= 2.0;
    }
    Some(Spread { least, width: -2.0 * least })
}

/// The same of a convolution, whose layout, `default` where it is not written, says where its
/// outputs are.
pub(super) fn kernel(
    operand: usize,
    types: &[Type],
    attributes: AttrDict,
    default: &str,
) -> Option<Spread> {
    let layout: Option<String> = attributes.value("kernel_layout");
    weight(operand, types, layout.as_deref().unwrap_or(default).find('O')?)
}
