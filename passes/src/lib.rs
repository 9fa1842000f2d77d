//! The passes over modules, one file each.
//!
//! To add a pass, write a struct of its options with `#[derive(Pass)]` in a file of its own and
//! name it in [`register`].
//!
//! ```
//! use ir_core::pipeline::{Outcome, RunOptions, run};
//! use ir_core::text::{Form, item_text};
//! use ir_core::Registry;
//!
//! let mut registry = Registry::from([te::dialect(), prog::dialect(), relay_operators::dialect()]);
//! passes::register(&mut registry);
//! let text = "def @main(%x: Tensor[(2), float32]) { add(%x, multiply(2f, 3f)) }";
//! let (mut module, found) = Form::Readable.parse("add.relay", text, &registry);
//! assert!(found.is_empty(), "{found:?}");
//! let pipeline = passes::pipelines::o1();
//! let log = &mut std::io::sink();
//! let report = run(&pipeline, &mut module, &registry, RunOptions::default(), &mut [], log);
//! assert_eq!(report.expect("nothing is written").outcome, Outcome::Done);
//! let mut printed = Vec::new();
//! Form::Readable.print(&module, &registry, None, &mut printed).expect("memory takes it");
//! assert!(String::from_utf8_lossy(&printed).contains("add(%x, 6f"));
//! ```

use ir_core::Registry;

pub mod alter_op_layout;
pub mod batch_recursion;
pub mod bind_extents;
pub mod bounds;
mod branches;
pub mod by_rules;
pub mod canonicalize;
pub mod codes;
pub mod combine_parallel;
pub mod combine_products;
mod compute;
pub mod convert_layout;
pub mod cse;
pub mod dce;
pub mod defunctionalize;
pub mod draw_dropout;
pub mod dynamic_to_static;
pub mod effects;
pub mod emit;
pub mod eqsat;
pub mod eta_expand;
pub mod exec;
pub mod extents;
pub mod fold_constant;
pub mod fold_explicit_padding;
pub mod fold_scale_axis;
pub mod fuse;
pub mod gradient;
pub mod incremental;
pub mod infer_type;
pub mod inline;
pub mod invariants;
pub mod jvp;
pub mod lambda_lift;
pub mod layouts;
pub mod loops;
pub mod lower_prog;
pub mod lower_schedule;
pub mod lower_te;
pub mod math;
pub mod normal_forms;
mod open_kernels;
pub mod partial_eval;
pub mod pipelines;
pub mod refs_to_values;
pub mod rematerialize;
pub mod remove_unused_functions;
pub mod rewrite;
pub mod rows;
pub mod simplify_expr;
pub mod simplify_inference;
pub mod sink_gathers;
pub mod specialize;
mod tail_calls;
pub mod train_step;
pub mod vmap;
pub mod winograd;
pub mod worklist;

/// Adds all passes to `registry`, in alphabetical order, and the named pipelines.
pub fn register(registry: &mut Registry) {
    rewrites::library::register(registry);
    by_rules::register(registry);
    compute::register(registry);
    registry.pass::<alter_op_layout::AlterOpLayout>();
    registry.pass::<fold_scale_axis::BackwardFoldScaleAxis>();
    registry.pass::<batch_recursion::BatchRecursion>();
    registry.pass::<bind_extents::BindExtents>();
    registry.pass::<canonicalize::Canonicalize>();
    registry.pass::<math::CanonicalizeCast>();
    registry.pass::<combine_parallel::CombineParallelBatchMatmul>();
    registry.pass::<combine_parallel::CombineParallelConv2d>();
    registry.pass::<combine_parallel::CombineParallelDense>();
    registry.pass::<combine_products::CombineProducts>();
    registry.pass::<convert_layout::ConvertLayout>();
    registry.pass::<cse::Cse>();
    registry.pass::<dce::Dce>();
    registry.pass::<defunctionalize::Defunctionalize>();
    registry.pass::<fuse::Defuse>();
    registry.pass::<math::DivToMul>();
    registry.pass::<dynamic_to_static::DynamicToStatic>();
    registry.pass::<eqsat::Eqsat>();
    registry.pass::<eta_expand::EtaExpand>();
    registry.pass::<exec::Exec>();
    registry.pass::<gradient::ExpandGrad>();
    registry.pass::<math::FastMath>();
    registry.pass::<fold_constant::FoldConstant>();
    registry.pass::<fold_explicit_padding::FoldExplicitPadding>();
    registry.pass::<fold_scale_axis::FoldScaleAxis>();
    registry.pass::<fold_scale_axis::ForwardFoldScaleAxis>();
    registry.pass::<fuse::Fuse>();
    registry.pass::<gradient::Gradients>();
    registry.pass::<jvp::Jvp>();
    registry.pass::<vmap::Vmap>();
    registry.pass::<infer_type::InferType>();
    registry.pass::<inline::Inline>();
    registry.pass::<invariants::Invariants>();
    registry.pass::<lambda_lift::LambdaLift>();
    registry.pass::<lower_schedule::LowerSchedule>();
    registry.pass::<lower_prog::LowerProg>();
    registry.pass::<lower_te::LowerTe>();
    registry.pass::<partial_eval::PartialEval>();
    registry.pass::<refs_to_values::RefsToValues>();
    registry.pass::<rematerialize::Rematerialize>();
    registry.pass::<remove_unused_functions::RemoveUnusedFunctions>();
    registry.pass::<rewrite::Rewrite>();
    registry.pass::<simplify_expr::SimplifyExpr>();
    registry.pass::<simplify_inference::SimplifyInference>();
    registry.pass::<loops::SimplifyLoops>();
    registry.pass::<sink_gathers::SinkGathers>();
    registry.pass::<specialize::Specialize>();
    registry.pass::<train_step::TrainStep>();
    registry.pass::<draw_dropout::DrawDropout>();
    registry.pass::<loops::TidyLoops>();
    registry.pass::<normal_forms::ToAnf>();
    registry.pass::<normal_forms::ToBbnf>();
    registry.pass::<normal_forms::ToGnf>();
    registry.pass::<loops::UnrollLoops>();
    registry.pass::<loops::VectorizeLoops>();
    registry.pass::<winograd::Winograd>();
    pipelines::register(registry);
}
