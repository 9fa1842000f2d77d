//! What another layout of its operands is to an operator.

/// How an operator computes the same on tensors in another layout. It is what the layout passes
/// need to know to carry a layout through an operator; one without this hook keeps the layouts it
/// was written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutRule {
    /// Every element of the result comes from the elements at the same place of the operands,
    /// whose shapes broadcast.
    Pointwise,
    /// Adds operand 1, a vector along attribute `axis`, to operand 0.
    Bias,
    /// Computes along attribute `axis` of operand 0, whose shape the result has. Further operands
    /// are vectors along this axis, or scalars.
    Along,
    /// Attribute `layout`, and `out_layout` where there is one, name the layouts of the operands
    /// and of the result.
    Named {
        /// Whether the layout may have blocks.
        blocks: bool,
    },
    /// Attributes `data_layout`, `kernel_layout` and `out_layout` name the layouts of operands 0
    /// and 1 and of the result.
    Convolution,
    /// Joins the fields of operand 0, a tuple, along attribute `axis`.
    Joined,
    /// Adds margins to operand 0, as wide as attribute `pad_width` says for every axis.
    Padded,
    /// Takes a range of operand 0 along each of the axes in attribute `axes`, or along the first ones, from
    /// `begin` to `end` in steps of `strides`.
    Sliced,
    /// Combines the elements of operand 0 along the axes in attribute `axis`, in any order; with
    /// attributes `keepdims` and `exclude`.
    Reduced,
}
