//! Fusion: groups operators into kernels.
//!
//! The data flows one way: [`graph`] makes a forward dataflow graph of each block, [`dominators`]
//! its post-dominator tree, [`partition`] the groups, and [`kernels`] factors each group into a
//! function marked `Primitive=1`.

mod defuse;
mod dominators;
mod graph;
mod kernels;
mod partition;

pub use defuse::Defuse;

use ir_core::pass::OptionValue;
use ir_core::{BlockId, FuncMut, FunctionPass, Pass, PassContext, PassResult};
use relay::language::{fn_attributes, is_primitive};

/// How the groups are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// The post-dominator algorithm of the Relay paper (arXiv 1904.08368, section 4.1).
    Dominator,
}

impl OptionValue for Strategy {
    const EXPECTS: &'static str = "dominator";
    fn parse(text: &str) -> Option<Strategy> {
        (text == "dominator").then_some(Strategy::Dominator)
    }
    fn print(&self) -> String {
        "dominator".to_string()
    }
}

/// Groups operators into kernels.
///
/// Each group becomes a function marked `Primitive=1` and a call of it; equal kernels of a block
/// share one function. An operator joins its immediate post-dominator when every path between the
/// two can be computed inside one kernel: an elementwise tail joins the convolution before it, and
/// injective operators join each other. A group holds at most one operator such as a convolution.
/// Values bound with `let` end a group, as do branches and function boundaries.
/// `annotation.stop_fusion` is a barrier and disappears.
///
/// Cost is linear in the number of operations times `max-depth`.
///
/// ```relay
/// def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
///   %0 = nn.dense(%x, %w);
///   nn.relu(%0)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32])
///     -> Tensor[(2, 4), float32] {
///   %1 = fn (%p0: Tensor[(2, 3), float32], %p1: Tensor[(4, 3), float32], Primitive=1)
///       -> Tensor[(2, 4), float32] {
///     %0 = nn.dense(%p0, %p1);
///     nn.relu(%0)
///   };
///   %1(%x, %w)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "fuse", function)]
pub struct Fuse {
    /// How the groups are chosen.
    #[default(Strategy::Dominator)]
    pub strategy: Strategy,
    /// Most operators in a kernel.
    #[default(256)]
    pub max_depth: usize,
    /// 0 leaves every operator in a kernel of its own.
    #[default(2)]
    pub level: usize,
}

impl FunctionPass for Fuse {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if is_primitive(f.signature.attrs) {
            return Ok(());
        }
        for block in open_blocks(f) {
            let graph = graph::Graph::of_block(f, block);
            let max_depth = if self.level == 0 { 0 } else { self.max_depth };
            let groups = partition::partition(&graph, max_depth);
            kernels::outline(f, cx, &graph, &groups)?;
        }
        Ok(())
    }
}

/// The blocks of the function that are not inside a kernel, outer before inner.
fn open_blocks(f: &FuncMut<'_>) -> Vec<BlockId> {
    let mut blocks = vec![];
    let mut pending = vec![f.body.entry()];
    while let Some(block) = pending.pop() {
        blocks.push(block);
        for op in f.body.block_ops(block) {
            if !is_primitive(fn_attributes(f.body, op)) {
                pending.extend(f.body.regions(op).iter().map(|region| f.body.block_of(*region)));
            }
        }
    }
    blocks
}
