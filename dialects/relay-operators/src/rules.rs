//! What rewrite rules want to know about relay's operators.

use ir_core::{Attr, AttrDict, KernelRole, Registry, RuleFunction, Symbol, Type, Work};

use crate::layout::Layout;
use crate::{NonComputational, ReshapeOnly};

/// Functions for conditions and computed attributes.
const FUNCTIONS: &[RuleFunction] = &[
    RuleFunction {
        name: "broadcast",
        params: &["a", "b"],
        doc: "The shape to which two shapes broadcast; it has no value where they do not.",
        eval: |arguments| {
            let (a, b) = (arguments[0].shape()?, arguments[1].shape()?);
            let rank = a.len().max(b.len());
            let extent = |shape: &[i64], axis: usize| match (axis + shape.len()).checked_sub(rank) {
                Some(axis) => shape[axis],
                None => 1,
            };
            let extents = (0..rank).map(|axis| match (extent(&a, axis), extent(&b, axis)) {
                (1, b) => Some(b),
                (a, 1) => Some(a),
                (a, b) => (a == b).then_some(a),
            });
            Some(Attr::of(&extents.collect::<Option<Vec<_>>>()?))
        },
    },
    RuleFunction {
        name: "layout_axes",
        params: &["from", "to"],
        doc: "The axes of the transpose that a change between two layouts without blocks is.",
        eval: |arguments| {
            let layout = |place: usize| Layout::parse(&arguments[place].attr::<String>()?).ok();
            let (from, to) = (layout(0)?, layout(1)?);
            (from.is_plain() && to.is_plain() && from.rank() == to.rank()).then_some(())?;
            let axes = to.axes().iter().map(|axis| Some(from.position(axis.name)? as i64));
            Some(Attr::of(&axes.collect::<Option<Vec<_>>>()?))
        },
    },
    RuleFunction {
        name: "padded",
        params: &["padding", "margin", "layout"],
        doc: "The padding of a convolution or pool, all numbers before and then all numbers after, \
              with a margin added, which is given for each axis of a layout; it has no value where the \
              margin is on other axes than those of space.",
        eval: |arguments| {
            let (padding, margin) = (arguments[0].attr()?, arguments[1].attr::<Vec<Vec<i64>>>()?);
            let layout = Layout::parse(&arguments[2].attr::<String>()?).ok()?;
            Some(Attr::of(&padded(padding, &margin, &layout)?))
        },
    },
];

fn padded(padding: Vec<i64>, margin: &[Vec<i64>], layout: &Layout) -> Option<Vec<i64>> {
    let axes = layout.axes();
    let space: String = "DHW".chars().filter(|name| layout.position(*name).is_some()).collect();
    let count = space.len();
    let mut padding = match padding.len() {
        1 => vec![padding[0]; 2 * count],
        n if n == count => padding.repeat(2),
        n if n == 2 * count => padding,
        _ => return None,
    };
    (axes.len() == margin.len()).then_some(())?;
    for (axis, margin) in axes.iter().zip(margin) {
        let [before, after] = margin[..] else { return None };
        match space.find(axis.name).filter(|_| axis.block.is_none()) {
            Some(_) if before < 0 || after < 0 => return None,
            Some(place) => {
                padding[place] = padding[place].checked_add(before)?;
                padding[count + place] = padding[count + place].checked_add(after)?;
            }
            None => (before == 0 && after == 0).then_some(())?,
        }
    }
    Some(padding)
}

/// Operators whose last operand axis is summed over: two operations for each element of the result
/// and of that axis.
const PRODUCTS: &[&str] =
    &["relay.nn.dense", "relay.nn.matmul", "relay.nn.batch_matmul", "relay.nn.contrib_dense_pack"];

/// Operators whose results are parts of their operand.
const VIEWS: &[&str] = &["relay.split", "relay.strided_slice"];

/// Operators that sum over all but the first axis of their weight.
const CONVOLUTIONS: &[&str] = &["relay.nn.conv1d", "relay.nn.conv2d", "relay.nn.conv3d"];

pub(crate) fn register(registry: &mut Registry) {
    FUNCTIONS.iter().for_each(|function| registry.add_rule_function(*function));
    let free = |info: &&ir_core::OpInfo| {
        info.hook::<ReshapeOnly>().is_some() || info.hook::<NonComputational>().is_some()
    };
    let mut names: Vec<&str> = registry.ops().filter(free).map(|info| info.def.name).collect();
    names.extend(["relay.tuple", "relay.tuple_get"]);
    let mut attach = |name: &str, work: Work| {
        // Which operators there are is up to their families.
        let _ = registry.attach(Symbol::new(name), work);
    };
    names.into_iter().for_each(|name| attach(name, Work(|_, _, _| 0.0)));
    PRODUCTS.iter().for_each(|name| attach(name, Work(product)));
    CONVOLUTIONS.iter().for_each(|name| attach(name, Work(convolution)));
    let mut role = |name: &str, role: KernelRole| _ = registry.attach(Symbol::new(name), role);
    PRODUCTS.iter().chain(CONVOLUTIONS).for_each(|name| role(name, KernelRole::Anchor));
    VIEWS.iter().for_each(|name| role(name, KernelRole::View));
    role("relay.nn.relu", KernelRole::Epilogue);
}

fn elements(ty: Type) -> f64 {
    let extents = ty.as_tensor().map(|tensor| tensor.shape.iter());
    extents.into_iter().flatten().map(|dim| dim.known().unwrap_or(1) as f64).product()
}

fn product(operands: &[Type], attrs: AttrDict, result: Type) -> f64 {
    let data = operands.first().and_then(|ty| ty.as_tensor());
    let transposed = attrs.value::<bool>("transpose_a").unwrap_or(false);
    let axis = data.and_then(|tensor| {
        let from_end = if transposed { 2 } else { 1 };
        tensor.shape.get(tensor.shape.len().checked_sub(from_end)?)
    });
    2.0 * elements(result) * axis.and_then(|dim| dim.known()).unwrap_or(1) as f64
}

fn convolution(operands: &[Type], attrs: AttrDict, result: Type) -> f64 {
    let weight = operands.get(1).and_then(|ty| Some((*ty, ty.as_tensor()?)));
    let Some((ty, weight)) = weight else { return 2.0 * elements(result) };
    // Outputs come first, unless a layout says where they are, and where blocks of them.
    let layout = attrs.value::<String>("kernel_layout").unwrap_or_else(|| "O".to_string());
    let axes = layout.chars().filter(char::is_ascii_alphabetic).zip(&weight.shape);
    let outputs = axes.filter(|(axis, _)| axis.eq_ignore_ascii_case(&'O'));
    let outputs: f64 = outputs.map(|(_, dim)| dim.known().unwrap_or(1).max(1) as f64).product();
    2.0 * elements(result) * elements(ty) / outputs
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir_core::DType;

    #[test]
    fn a_convolution_is_as_much_work_in_any_layout() {
        let ty = |shape: &[i64]| Type::tensor(shape.iter().copied(), DType::FLOAT32);
        let operands = |weight: &[i64]| [ty(&[1, 8, 6, 6]), ty(weight)];
        let result = ty(&[1, 16, 4, 4]);
        let plain = convolution(&operands(&[16, 8, 3, 3]), AttrDict::empty(), result);
        assert_eq!(plain, (2 * 16 * 4 * 4 * 8 * 3 * 3) as f64);
        for (layout, weight) in [
            ("OHWI", &[16, 3, 3, 8][..]),
            ("HWIO", &[3, 3, 8, 16]),
            ("OIHW8i4o", &[4, 1, 3, 3, 8, 4]),
        ] {
            let attrs = AttrDict::empty().with("kernel_layout", &layout.to_string());
            assert_eq!(convolution(&operands(weight), attrs, result), plain, "{layout}");
        }
    }
}
