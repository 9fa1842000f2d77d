//! Trees level by level.

mod groups;
mod levels;
mod rows;
mod steps;

use ir_core::{Module, ModulePass, Pass, PassContext, PassResult};

/// Evaluates functions that follow data, such as a network over a tree, level by level.
///
/// Such a function matches data, computes in each clause without branches, and calls itself, or others
/// like it, on fields. What else a call is given is handed on, or computed before any call of the clause
/// returns. Where one has two calls to wait for, the calls are independent, so that one walk finds which
/// nodes of the data wait for which, and nodes for which all that they read has been computed are computed
/// together: operators whose definition computes rows from rows, such as a
/// product with a weight, run once for up to `rows` nodes, joined along an axis of 1. So the data of many
/// examples are computed together where a function goes through a list of them.
///
/// Nodes that are left over are computed by halves of `rows`; one that is computed twice fills up the
/// smallest that is enough. Nothing happens where no operator of any clause reads something once for
/// several nodes, or where the data are no more than a chain. Results of all nodes are kept until the last
/// is there. Linear in the size of the functions, and of `rows`.
///
/// ```relay
/// type Tree { Leaf(Tensor[(1, 2), float32]), Node(Tree, Tree) }
///
/// def @sums(%tree: Tree[], %w: Tensor[(2, 2), float32]) -> Tensor[(1, 2), float32] {
///   match (%tree) {
///     Leaf(%x) => %x,
///     Node(%a, %b) => nn.dense(add(@sums(%a, %w), @sums(%b, %w)), %w),
///   }
/// }
///
/// def @main(%tree: Tree[], %w: Tensor[(2, 2), float32]) { @sums(%tree, %w) }
/// ```
/// becomes, with `rows=2`,
/// ```relay
/// type Tree {
///   Leaf(Tensor[(1, 2), float32]),
///   Node(Tree[], Tree[]),
/// }
///
/// type Later {
///   Missing,
///   Present(Tensor[(1, 2), float32]),
/// }
///
/// type Work {
///   NoWork,
///   MoreWork(int32, Tensor[(1, 2), float32], ref(Later[]), Work[]),
/// }
///
/// type Work_1 {
///   NoWork_1,
///   MoreWork_1(int32, ref(Later[]), ref(Later[]), ref(Later[]), Work_1[]),
/// }
///
/// type Level {
///   Nodes(int32, ref(Work[]), ref(Work_1[]), ref(Above[])),
/// }
///
/// type Above {
///   Top,
///   Up(Level[]),
/// }
///
/// def @sums(%tree: Tree[], %w: Tensor[(2, 2), float32]) -> Tensor[(1, 2), float32] {
///   %0 = NoWork;
///   %1 = ref(%0);
///   %2 = NoWork_1;
///   %3 = ref(%2);
///   %4 = Top;
///   %5 = ref(%4);
///   %6 = Nodes(0, %1, %3, %5);
///   %7 = @inspect_sums(%tree, %6);
///   %8 = %7.1;
///   let %_ = @sums_levels(%6, %w);
///   %9 = ref_read(%8);
///   match? (%9) {
///     Present(%p: Tensor[(1, 2), float32]) => {
///       %p
///     },
///   }
/// }
///
/// def @main(%tree: Tree[], %w: Tensor[(2, 2), float32]) -> Tensor[(1, 2), float32] {
///   @sums(%tree, %w)
/// }
///
/// def @sums_levels(%p: Level[], %p1: Tensor[(2, 2), float32]) -> () {
///   match (%p) {
///     Nodes(_, %p2: ref(Work[]), %p3: ref(Work_1[]), %p4: ref(Above[])) => {
///       %10 = ref_read(%p2);
///       let %_ = @sums_rows(%10, %p1);
///       %11 = ref_read(%p3);
///       let %_1 = @sums_rows_1(%11, %p1);
///       %12 = ref_read(%p4);
///       match (%12) {
///         Top => {
///           ()
///         },
///         Up(%p5: Level[]) => {
///           @sums_levels(%p5, %p1)
///         },
///       }
///     },
///   }
/// }
///
/// def @sums_rows(%p: Work[], %p1: Tensor[(2, 2), float32]) -> () {
///   match (%p) {
///     NoWork => {
///       ()
///     },
///     MoreWork(%p2: int32, %p3: Tensor[(1, 2), float32], %p4: ref(Later[]), %p5: Work[]) => {
///       match? (%p) {
///         MoreWork(_, %p6: Tensor[(1, 2), float32], %p7: ref(Later[]), %p8: Work[]) => {
///           %13 = Present(%p6);
///           let %_ = ref_write(%p7, %13);
///           @sums_rows(%p8, %p1)
///         },
///       }
///     },
///   }
/// }
///
/// def @sums_rows_1(%p: Work_1[], %p1: Tensor[(2, 2), float32]) -> () {
///   match (%p) {
///     NoWork_1 => {
///       ()
///     },
///     MoreWork_1(%p2: int32, %p3: ref(Later[]), %p4: ref(Later[]), %p5: ref(Later[]),
///         %p6: Work_1[]) => {
///       %14 = greater_equal(%p2, 2);
///       if (%14) {
///         match? (%p) {
///           MoreWork_1(_, %p7: ref(Later[]), %p8: ref(Later[]), %p9: ref(Later[]), MoreWork_1(_,
///               %p10: ref(Later[]), %p11: ref(Later[]), %p12: ref(Later[]),
///               %p13: Work_1[])) => {
///             %15 = ref_read(%p7);
///             %16 = match? (%15) {
///               Present(%p14: Tensor[(1, 2), float32]) => {
///                 %p14
///               },
///             };
///             %17 = ref_read(%p10);
///             %18 = match? (%17) {
///               Present(%p15: Tensor[(1, 2), float32]) => {
///                 %p15
///               },
///             };
///             %19 = ref_read(%p8);
///             %20 = match? (%19) {
///               Present(%p16: Tensor[(1, 2), float32]) => {
///                 %p16
///               },
///             };
///             %21 = ref_read(%p11);
///             %22 = match? (%21) {
///               Present(%p17: Tensor[(1, 2), float32]) => {
///                 %p17
///               },
///             };
///             %23 = (%16, %18);
///             let %rows = concatenate(%23);
///             %24 = (%20, %22);
///             let %rows1 = concatenate(%24);
///             %25 = add(%rows, %rows1);
///             %26 = nn.dense(%25, %p1);
///             %27 = split(%26, indices_or_sections=2);
///             %28 = %27.0;
///             %29 = %27.1;
///             %30 = Present(%28);
///             let %_ = ref_write(%p9, %30);
///             %31 = Present(%29);
///             let %_1 = ref_write(%p12, %31);
///             @sums_rows_1(%p13, %p1)
///           },
///         }
///       } else {
///         %32 = equal(%p2, 1);
///         if (%32) {
///           match? (%p) {
///             MoreWork_1(_, %p18: ref(Later[]), %p19: ref(Later[]), %p20: ref(Later[]),
///                 %p21: Work_1[]) => {
///               %33 = ref_read(%p18);
///               %34 = match? (%33) {
///                 Present(%p22: Tensor[(1, 2), float32]) => {
///                   %p22
///                 },
///               };
///               %35 = ref_read(%p19);
///               %36 = match? (%35) {
///                 Present(%p23: Tensor[(1, 2), float32]) => {
///                   %p23
///                 },
///               };
///               %37 = add(%34, %36);
///               %38 = nn.dense(%37, %p1);
///               %39 = Present(%38);
///               let %_2 = ref_write(%p20, %39);
///               @sums_rows_1(%p21, %p1)
///             },
///           }
///         } else {
///           %40 = add(%p2, 1);
///           %41 = MoreWork_1(%40, %p3, %p4, %p5, %p);
///           @sums_rows_1(%41, %p1)
///         }
///       }
///     },
///   }
/// }
///
/// def @inspect_sums(%p: Tree[], %p1: Level[]) -> (Level[], ref(Later[])) {
///   %42 = Missing;
///   %43 = ref(%42);
///   match (%p) {
///     Leaf(%p2: Tensor[(1, 2), float32]) => {
///       match (%p1) {
///         Nodes(_, %p5: ref(Work[]), _, _) => {
///           %44 = ref_read(%p5);
///           %45 = match (%44) {
///             NoWork => {
///               0
///             },
///             MoreWork(%p6: int32, _, _, _) => {
///               %p6
///             },
///           };
///           %46 = add(%45, 1);
///           %47 = MoreWork(%46, %p2, %43, %44);
///           let %_ = ref_write(%p5, %47);
///           (%p1, %43)
///         },
///       }
///     },
///     Node(%p3: Tree[], %p4: Tree[]) => {
///       %48 = @inspect_sums(%p3, %p1);
///       %49 = %48.0;
///       let %x = %48.1;
///       %50 = @inspect_sums(%p4, %p1);
///       %51 = %50.0;
///       let %x1 = %50.1;
///       %52 = @higher_level(%49, %51);
///       %53 = @level_above(%52);
///       match (%53) {
///         Nodes(_, _, %p7: ref(Work_1[]), _) => {
///           %54 = ref_read(%p7);
///           %55 = match (%54) {
///             NoWork_1 => {
///               0
///             },
///             MoreWork_1(%p8: int32, _, _, _, _) => {
///               %p8
///             },
///           };
///           %56 = add(%55, 1);
///           %57 = MoreWork_1(%56, %x, %x1, %43, %54);
///           let %_1 = ref_write(%p7, %57);
///           (%53, %43)
///         },
///       }
///     },
///   }
/// }
///
/// def @level_above(%p: Level[]) -> Level[] {
///   match (%p) {
///     Nodes(%p1: int32, _, _, %p2: ref(Above[])) => {
///       %58 = ref_read(%p2);
///       match (%58) {
///         Top => {
///           %59 = add(%p1, 1);
///           %60 = NoWork;
///           %61 = ref(%60);
///           %62 = NoWork_1;
///           %63 = ref(%62);
///           %64 = Top;
///           %65 = ref(%64);
///           %66 = Nodes(%59, %61, %63, %65);
///           %67 = Up(%66);
///           let %_ = ref_write(%p2, %67);
///           %66
///         },
///         Up(%p3: Level[]) => {
///           %p3
///         },
///       }
///     },
///   }
/// }
///
/// def @higher_level(%p: Level[], %p1: Level[]) -> Level[] {
///   %68 = match (%p) {
///     Nodes(%p2: int32, _, _, _) => {
///       %p2
///     },
///   };
///   %69 = match (%p1) {
///     Nodes(%p3: int32, _, _, _) => {
///       %p3
///     },
///   };
///   %70 = less(%68, %69);
///   if (%70) {
///     %p1
///   } else {
///     %p
///   }
/// }
/// ```
#[derive(Pass)]
#[pass(name = "batch-recursion", module)]
pub struct BatchRecursion {
    /// The most nodes that are computed at once: 2 to 64.
    #[default(16)]
    pub rows: usize,
}

impl ModulePass for BatchRecursion {
    fn run(&self, module: &mut Module, cx: &mut PassContext<'_>) -> PassResult {
        for group in groups::groups(module, cx.registry) {
            let batched = levels::write(module, cx.registry, &group, self.rows.clamp(2, 64));
            cx.count(if batched { "batched" } else { "left alone" }, 1);
        }
        Ok(())
    }
}
