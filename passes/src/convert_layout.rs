//! One layout for all images of a function.

use ir_core::pass::OptionValue;
use ir_core::{FuncMut, FunctionPass, OpId, Pass, PassContext, PassResult};
use relay_operators::LayoutRule;
use relay_operators::layout::Layout;

use crate::emit::{attribute, with_attribute};
use crate::layouts::{Change, Need, Plan, carry, propagate};

/// The layout to convert to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target(pub Layout);

impl OptionValue for Target {
    const EXPECTS: &'static str = "an order of the axes N, C and those of space, such as NHWC";
    fn parse(text: &str) -> Option<Target> {
        let layout = Layout::parse(text).ok().filter(Layout::is_plain)?;
        let complete = ['N', 'C'].iter().all(|name| layout.position(*name).is_some());
        (complete && layout.rank() > 2).then_some(Target(layout))
    }
    fn print(&self) -> String {
        self.0.to_string()
    }
}

/// Computes convolutions, pools and what else names its layout in another layout.
///
/// Operators whose layout has the axes of `to` in another order get that of `to`: with
/// `to=NHWC` the two-dimensional ones, with `to=NDHWC` the three-dimensional ones. Kernels become
/// `HWIO` (`HWOI` for depthwise convolutions) where the channels of `to` come last, else `OIHW`.
/// `layout_transform` brings tensors to the layouts; `fold-constant` does so with those of
/// constants. Operators in between are computed in the new layout where that moves fewer elements,
/// as by `alter-op-layout`; run `simplify-inference` before. Kernels made by fusion stay as they
/// are.
///
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32],
///           %b: Tensor[(2), float32]) {
///   %0 = nn.conv2d(%x, %w, channels=2, kernel_size=[3, 3]);
///   nn.bias_add(%0, %b)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(2, 3, 3, 3), float32],
///     %b: Tensor[(2), float32]) -> Tensor[(1, 2, 6, 6), float32] {
///   %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NHWC");
///   %1 = layout_transform(%w, src_layout="OIHW", dst_layout="HWIO");
///   %2 = nn.conv2d(%0,
///       %1, channels=2, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO");
///   %3 = nn.bias_add(%2, %b, axis=3);
///   layout_transform(%3, src_layout="NHWC", dst_layout="NCHW")
/// }
/// ```
#[derive(Pass)]
#[pass(name = "convert-layout", function)]
pub struct ConvertLayout {
    /// The layout to convert to.
    #[default(Target(Layout::plain("NHWC")))]
    pub to: Target,
}

impl FunctionPass for ConvertLayout {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        let converted = propagate(f, "convert-layout", &|f, op, _| self.anchor(f, op))?;
        cx.count("converted", converted);
        Ok(())
    }
}

impl ConvertLayout {
    fn anchor(&self, f: &FuncMut<'_>, op: OpId) -> Option<Plan> {
        let rule = *f.registry.hook::<LayoutRule>(f.body.op_name(op))?;
        match rule {
            LayoutRule::Named { .. } => carry(f, op, rule, &self.change(f, op, "layout")?),
            LayoutRule::Convolution => self.convolution(f, op),
            _ => None,
        }
    }

    /// The change from the layout in attribute `key` of `op`, where there is one to make.
    fn change(&self, f: &FuncMut<'_>, op: OpId, key: &str) -> Option<Change> {
        let from = Layout::parse(&attribute::<String>(f, op, key)?).ok()?;
        let to = self.to.0.clone();
        (from.is_plain() && from != to && from.same_axes(&to)).then_some(Change { from, to })
    }

    fn convolution(&self, f: &FuncMut<'_>, op: OpId) -> Option<Plan> {
        let change = self.change(f, op, "data_layout")?;
        let out: String = attribute(f, op, "out_layout")?;
        if !out.is_empty() && Layout::parse(&out).ok()? != change.from {
            return None;
        }
        let written = Layout::parse(&attribute::<String>(f, op, "kernel_layout")?).ok()?;
        let kernel = self.kernel_layout(f, op, &change.from)?;
        if !written.is_plain() || !written.same_axes(&kernel) {
            return None;
        }
        let (name, mut attrs) = (f.body.op_name(op), f.body.attrs(op));
        let layouts = [
            ("data_layout", self.to.0.to_string()),
            ("kernel_layout", kernel.to_string()),
            ("out_layout", String::new()),
        ];
        for (key, layout) in layouts {
            attrs = with_attribute(f.registry, name, attrs, key, &layout);
        }
        let mut inputs: Vec<_> = f.body.operands(op).map(|value| (value, Need::Same)).collect();
        inputs.first_mut()?.1 = Need::As(change.clone());
        inputs.get_mut(1)?.1 = Need::As(Change { from: written, to: kernel });
        Some(Plan { name, attrs, inputs, joined: false, result: change })
    }

    /// The layout for the kernel of convolution `op`, whose data is as `data` says.
    fn kernel_layout(&self, f: &FuncMut<'_>, op: OpId, data: &Layout) -> Option<Layout> {
        let to = self.to.0.names();
        let space: String = to.chars().filter(|name| !"NC".contains(*name)).collect();
        if !to.ends_with('C') {
            // The default starts with the channels.
            let def = f.registry.def_of(f.body, op)?.attr("kernel_layout")?;
            let default: String = ir_core::AttrValue::from_attr(def.default?())?;
            let channels: String = default.chars().filter(|name| "OI".contains(*name)).collect();
            return Some(Layout::plain(&format!("{channels}{space}")));
        }
        let groups: i64 = attribute(f, op, "groups")?;
        let shape = &f.body.ty(f.body.operand(op, 0)).as_tensor()?.shape;
        let channels = shape.get(data.position('C')?)?.known();
        let depthwise = groups > 1 && channels == Some(groups);
        Some(Layout::plain(&format!("{space}{}", if depthwise { "OI" } else { "IO" })))
    }
}
