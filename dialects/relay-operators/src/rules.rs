//! Functions that rewrite rules over relay's operators call.

use ir_core::{Attr, Registry, RuleFunction};

use crate::layout::Layout;

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

pub(crate) fn register(registry: &mut Registry) {
    FUNCTIONS.iter().for_each(|function| registry.add_rule_function(*function));
}
