//! Layouts that a loop keeps.

use ir_core::{Body, InsertPoint, Item, Module, OpId, Type, ValueId};
use relay_operators::layout::LayoutTransform;
use rustc_hash::FxHashSet;

use super::Function;

/// The layout of a parameter inside the function.
struct Layout {
    src: String,
    dst: String,
    ty: Type,
    /// The operations that bring the parameter there.
    transforms: Vec<OpId>,
    /// What uses it as it is, with the place of the operand.
    others: Vec<(OpId, usize)>,
}

impl Function {
    /// Passes tensors in the layout in which the function computes with them, where each call inside
    /// brings them back from it. How many.
    pub(super) fn keep_layouts(&self, module: &mut Module) -> u64 {
        let count = self.body(module).block_args(self.body(module).entry()).len();
        let mut kept = 0;
        for index in 0..count {
            if let Some(layout) = self.layout(self.body(module), index) {
                self.keep(module, index, &layout);
                kept += 1;
            }
        }
        if kept > 0 {
            self.set_type(module);
        }
        kept
    }

    /// The layout for parameter `index`, where it takes no more transforms than there are.
    fn layout(&self, body: &Body, index: usize) -> Option<Layout> {
        let param = body.block_args(body.entry())[index];
        let transform = |op| body.view::<LayoutTransform>(op);
        let calls: FxHashSet<OpId> = self.inside.iter().copied().collect();
        let users: Vec<(OpId, usize)> = body.uses(param).collect();
        let first =
            body.walk().find(|op| body.is::<LayoutTransform>(*op) && body.operand(*op, 0) == param);
        let LayoutTransform { src_layout: src, dst_layout: dst, .. } = transform(first?)?;
        let ty = body.ty(body.result(first?, 0));
        let mut layout = Layout { src, dst, ty, transforms: vec![], others: vec![] };
        for (user, place) in users {
            let is_same = transform(user)
                .is_some_and(|op| op.src_layout == layout.src && op.dst_layout == layout.dst);
            if is_same {
                layout.transforms.push(user);
            } else if !(calls.contains(&user) && place == index + 1) {
                layout.others.push((user, place));
            }
        }
        let mut brought_back = 0;
        for call in &self.inside {
            let arg = body.operand(*call, index + 1);
            if arg == param {
                continue;
            }
            self.inside_layout(body, arg, &layout)?;
            brought_back += 1;
        }
        let pays =
            brought_back > 0 && layout.others.len() <= brought_back + layout.transforms.len();
        pays.then_some(layout)
    }

    /// What `value` was in `layout` before it was brought back.
    fn inside_layout(&self, body: &Body, value: ValueId, layout: &Layout) -> Option<ValueId> {
        let (_, back) = body.view_def::<LayoutTransform>(value)?;
        let fits = back.src_layout == layout.dst
            && back.dst_layout == layout.src
            && body.ty(back.data) == layout.ty;
        fits.then_some(back.data)
    }

    fn keep(&self, module: &mut Module, index: usize, layout: &Layout) {
        for (caller, call) in &self.outside {
            let Some(body) = module.items.get_mut(caller).and_then(Item::body_mut) else {
                continue;
            };
            let (src_layout, dst_layout) = (layout.src.clone(), layout.dst.clone());
            let data = body.operand(*call, index + 1);
            let transform = LayoutTransform { data, src_layout, dst_layout };
            let (at, loc) = (InsertPoint::Before(*call), body.loc(*call));
            let arg = body.add(at, loc, &transform, layout.ty);
            body.set_operand(*call, index + 1, arg);
        }
        let body = module.items.get_mut(&self.name).and_then(Item::body_mut);
        let body = body.expect("the function has a body");
        let param = body.block_args(body.entry())[index];
        let plain = body.ty(param);
        for call in &self.inside {
            let arg = body.operand(*call, index + 1);
            let Some(inside) = self.inside_layout(body, arg, layout) else { continue };
            body.set_operand(*call, index + 1, inside);
            if let Some(back) = body.defining_op(arg).filter(|_| body.is_unused(arg)) {
                body.erase(back);
            }
        }
        for (user, place) in &layout.others {
            let (src_layout, dst_layout) = (layout.dst.clone(), layout.src.clone());
            let transform = LayoutTransform { data: param, src_layout, dst_layout };
            let (at, loc) = (InsertPoint::Before(*user), body.loc(*user));
            let value = body.add(at, loc, &transform, plain);
            body.set_operand(*user, *place, value);
        }
        body.set_ty(param, layout.ty);
        for transform in &layout.transforms {
            body.replace_all_uses(body.result(*transform, 0), param);
            body.erase(*transform);
        }
    }
}
