//! The named pipelines: levels of optimization, and what comes before code generation.
//!
//! A pipeline that depends on something is a function of it, so that nobody edits its text.

use std::sync::Arc;

use ir_core::pass::PassInstance;
use ir_core::pipeline::{Pipeline, Step, is_left_alone};
use ir_core::{CostTable, FuncMut, Item, Module, PassContext, PassResult, Registry};

use crate::alter_op_layout::AlterOpLayout;
use crate::batch_recursion::BatchRecursion;
use crate::canonicalize::Canonicalize;
use crate::combine_products::CombineProducts;
use crate::combine_scatters::CombineScatters;
use crate::cse::Cse;
use crate::dce::Dce;
use crate::defunctionalize::Defunctionalize;
use crate::dynamic_to_static::DynamicToStatic;
use crate::fold_constant::FoldConstant;
use crate::fold_explicit_padding::FoldExplicitPadding;
use crate::fold_scale_axis::FoldScaleAxis;
use crate::fuse::{Fuse, Strategy};
use crate::inline::Inline;
use crate::invariants::Invariants;
use crate::loops::{SimplifyLoops, TidyLoops, UnrollLoops, VectorizeLoops};
use crate::lower_prog::LowerProg;
use crate::lower_schedule::LowerSchedule;
use crate::lower_te::LowerTe;
use crate::math::CanonicalizeCast;
use crate::partial_eval::PartialEval;
use crate::refs_to_values::RefsToValues;
use crate::remove_unused_functions::RemoveUnusedFunctions;
use crate::simplify_expr::SimplifyExpr;
use crate::simplify_inference::SimplifyInference;
use crate::sink_gathers::SinkGathers;
use crate::specialize::Specialize;
use crate::winograd::Winograd;

/// How operators are put into kernels.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Fusion {
    /// In post-dominator groups, whatever the machine.
    #[default]
    Dominator,
    /// In the kernels that cost least by a table.
    Search(CostTable),
}

impl Fusion {
    fn step(self) -> Step {
        let fuse = Step::of::<Fuse>();
        match self {
            Fusion::Dominator => fuse.with("strategy", Strategy::Dominator),
            Fusion::Search(costs) => fuse.with("strategy", Strategy::Search).with("target", costs),
        }
    }
}

/// What a program is compiled for, as far as passes know.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compile {
    /// Numbers of 32 bits in a vector of the target, which layouts fill.
    pub lanes: usize,
    /// How kernels are chosen.
    pub fusion: Fusion,
    /// Whether convolutions may be computed with fewer products, and a greater error.
    pub fewer_products: bool,
    /// Whether it is packaged, so that nobody computes operators that have no kernels.
    pub packaged: bool,
    /// Whether it is compiled for some of the extents that it takes, so that what is done may not depend on their
    /// numbers.
    pub any_extents: bool,
}

impl Default for Compile {
    /// Vectors of 16 numbers, post-dominator groups, and fewer products.
    fn default() -> Compile {
        Compile {
            lanes: 16,
            fusion: Fusion::default(),
            fewer_products: true,
            packaged: false,
            any_extents: false,
        }
    }
}

/// Runs the passes of `pipeline` on `module` as a part of another pass: one after the other, on one function
/// at a time.
///
/// # Errors
/// Those of the first pass that has some.
pub(crate) fn apply(
    pipeline: &Pipeline,
    module: &mut Module,
    cx: &mut PassContext<'_>,
) -> PassResult {
    for step in pipeline.steps() {
        match &step.pass {
            PassInstance::Module(pass) => pass.run(module, cx)?,
            PassInstance::Function(pass) => {
                let (signatures, registry) = (module.signatures(), cx.registry);
                for (name, item) in &mut module.items {
                    let Item { signature, body: Some(body) } = item else { continue };
                    if is_left_alone(signature) {
                        continue;
                    }
                    let (name, body) = (*name, Arc::make_mut(body));
                    let mut f =
                        FuncMut { name, signature, body, signatures: &signatures, registry };
                    pass.run(&mut f, cx)?;
                }
            }
        }
    }
    Ok(())
}

/// Nothing.
pub fn o0() -> Pipeline {
    Pipeline::default()
}

/// Removes what inference does not need; makes no kernels.
pub fn o1() -> Pipeline {
    Pipeline::from([
        Step::of::<RemoveUnusedFunctions>(),
        Step::of::<SimplifyInference>(),
        Step::of::<FoldConstant>(),
        Step::of::<Dce>(),
    ])
}

/// [`o1`], merges and simplifies expressions, and groups operators into kernels.
pub fn o2() -> Pipeline {
    o1().then(behind_o1())
}

fn behind_o1() -> [Step; 4] {
    [Step::of::<Cse>(), Step::of::<SimplifyExpr>(), Step::of::<Dce>(), Fusion::Dominator.step()]
}

/// [`o2`], with scales folded into weights, which may change rounding. The order of passes is that
/// of the original.
pub fn o3() -> Pipeline {
    Pipeline::from(simplifications()).then([
        Step::of::<FoldConstant>(),
        Step::of::<Dce>(),
        Fusion::Dominator.step(),
    ])
}

/// To a first-order program: what `@main` reaches has no type parameters, all functions are functions of
/// the module, and none but kernels are values.
pub fn normalize() -> Pipeline {
    normalize_for(&[], false)
}

/// [`normalize`], for what the functions of `entry` reach; none is `@main`. Where `keep_loops`, none is unrolled.
pub fn normalize_for(entry: &[String], keep_loops: bool) -> Pipeline {
    let from = |step: Step| match entry {
        [] => step,
        names => step.with("entry", names.join("+")),
    };
    let partial_eval = Step::of::<PartialEval>();
    let partial_eval = if keep_loops { partial_eval.flag("keep-loops") } else { partial_eval };
    Pipeline::from([
        from(Step::of::<Specialize>()),
        from(partial_eval),
        Step::of::<RefsToValues>(),
        Step::of::<Defunctionalize>(),
        from(Step::of::<Inline>()),
        Step::of::<Dce>(),
        from(Step::of::<Invariants>()),
        from(Step::of::<RemoveUnusedFunctions>()),
    ])
}

/// The passes of [`o3`] that come before constants are folded for the last time.
fn simplifications() -> [Step; 8] {
    [
        Step::of::<RemoveUnusedFunctions>(),
        Step::of::<SimplifyInference>(),
        Step::of::<Cse>(),
        Step::of::<FoldConstant>(),
        Step::of::<FoldScaleAxis>(),
        Step::of::<SimplifyExpr>(),
        Step::of::<CanonicalizeCast>(),
        Step::of::<Canonicalize>(),
    ]
}

/// [`o3`] of one function without calls, with layouts for vectors: what comes before code
/// generation.
pub fn compile(options: &Compile) -> Pipeline {
    before_fusion(options).then([options.fusion.step()])
}

/// The passes of [`compile`] but the last.
pub fn before_fusion(options: &Compile) -> Pipeline {
    inlined().then(behind_inlining(options))
}

fn inlined() -> Pipeline {
    Pipeline::from([Step::of::<Inline>().flag("all")])
}

/// The passes of [`before_fusion`] but the first.
fn behind_inlining(options: &Compile) -> impl Iterator<Item = Step> + use<> {
    let padded = [Step::of::<FoldExplicitPadding>(), Step::of::<FoldConstant>()];
    let products = options.fewer_products.then(Step::of::<Winograd>);
    let on_tables = (!options.any_extents).then(Step::of::<SinkGathers>);
    let together = (!options.any_extents)
        .then(|| [Step::of::<CombineProducts>(), Step::of::<CombineScatters>()]);
    let layouts = Step::of::<AlterOpLayout>().with("width", options.lanes);
    let layouts = if options.any_extents { layouts.flag("constants") } else { layouts };
    simplifications()
        .into_iter()
        .chain(on_tables)
        .chain(together.into_iter().flatten())
        .chain(padded)
        .chain(products)
        .chain([layouts, Step::of::<Invariants>(), Step::of::<FoldConstant>(), Step::of::<Dce>()])
}

/// From kernels of Relay to tensor expressions.
pub fn to_tensor_expressions() -> Pipeline {
    Pipeline::from([Step::of::<LowerProg>(), Step::of::<LowerTe>()])
}

/// [`compile`], with functions that are values made data, and from kernels to tensor expressions.
pub fn lower(options: &Compile) -> Pipeline {
    // Functions that are known where they are called are inlined before they become data.
    let first_order = [
        Step::of::<Specialize>(),
        Step::of::<Defunctionalize>(),
        Step::of::<Inline>().flag("all"),
        Step::of::<RefsToValues>(),
        Step::of::<Invariants>(),
        Step::of::<BatchRecursion>(),
        Step::of::<Invariants>(),
    ];
    // Nobody binds extents before a package runs.
    let settled = options.packaged.then(Step::of::<DynamicToStatic>);
    inlined()
        .then(settled)
        .then(first_order)
        .then(behind_inlining(options))
        .then([options.fusion.step()])
        .then([lower_prog(options.packaged), Step::of::<LowerTe>()])
}

fn lower_prog(packaged: bool) -> Step {
    let lower_prog = Step::of::<LowerProg>();
    if packaged { lower_prog.flag("packaged") } else { lower_prog }
}

/// From scheduled tensor expressions to loops; the steps of schedules print where `print_steps` says so.
pub fn to_loops(print_steps: bool) -> Pipeline {
    let lower_schedule = Step::of::<LowerSchedule>();
    Pipeline::from([
        if print_steps { lower_schedule.flag("print-steps") } else { lower_schedule },
        Step::of::<VectorizeLoops>(),
        Step::of::<UnrollLoops>(),
        Step::of::<SimplifyLoops>(),
        Step::of::<TidyLoops>(),
    ])
}

/// Adds the named pipelines to `registry`.
pub(crate) fn register(registry: &mut Registry) {
    let behind_o1 = Pipeline::from(behind_o1());
    let named = [
        ("O0", o0().to_string(), "Nothing."),
        ("O1", o1().to_string(), "Removes what inference does not need; makes no kernels."),
        (
            "O2",
            format!("O1,{behind_o1}"),
            "O1, merges and simplifies expressions, and groups operators into kernels.",
        ),
        ("O3", o3().to_string(), "O2, with scales folded into weights, which may change rounding."),
        ("normalize", normalize().to_string(), "To a first-order program without type parameters."),
        (
            "compile",
            compile(&Compile::default()).to_string(),
            "O3, with layouts for vectors of 16 numbers: what comes before code generation.",
        ),
    ];
    for (name, text, doc) in named {
        registry.add_pipeline(name, text, doc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_the_values() {
        let mut registry =
            Registry::from([te::dialect(), prog::dialect(), relay_operators::dialect()]);
        crate::register(&mut registry);
        let compile = compile(&Compile::default());
        let (o0, o1, o2, o3, normalize) = (o0(), o1(), o2(), o3(), normalize());
        let named = [("O0", o0), ("O1", o1), ("O2", o2), ("O3", o3), ("compile", compile)];
        let named = named.into_iter().chain([("normalize", normalize)]);
        for (name, value) in named {
            let read = Pipeline::parse(name, &registry).expect("a pipeline");
            assert_eq!(read.to_string(), value.to_string(), "{name}");
        }
    }

    /// What is printed reads back: reproducers and keys of results hold it.
    #[test]
    fn options_reach_the_passes() {
        let mut registry =
            Registry::from([te::dialect(), prog::dialect(), relay_operators::dialect()]);
        crate::register(&mut registry);
        let costs = CostTable { launch: 2.5, ..CostTable::NOMINAL };
        let lowered = lower(&Compile {
            lanes: 4,
            fusion: Fusion::Search(costs),
            fewer_products: false,
            packaged: true,
            any_extents: true,
        })
        .to_string();
        assert!(lowered.contains("alter-op-layout{width=4,constants}"), "{lowered}");
        assert!(!lowered.contains("combine-products"), "{lowered}");
        assert!(lowered.contains("fuse{strategy=search,target={launch=2.5"), "{lowered}");
        assert!(lowered.ends_with(",lower-prog{packaged},lower-te"), "{lowered}");
        let read = Pipeline::parse(&lowered, &registry).expect("a pipeline");
        assert_eq!(read.to_string(), lowered);
    }
}
