//! Fusion: groups operators into kernels.
//!
//! The data flows one way: `graph` makes a forward dataflow graph of each block, `dominators`
//! its post-dominator tree, `partition` the groups, `search` cheaper kernels than these, and
//! `kernels` factors each into a function marked `Primitive=1`.

mod defuse;
mod dominators;
mod graph;
mod kernels;
mod partition;
mod search;

pub use defuse::{Defuse, expand_kernels};

use ir_core::pass::{OptionValue, PassDef, PassInstance};
use ir_core::{
    BlockId, CostTable, FuncMut, FunctionPass, OpId, Options, Pass, PassContext, PassResult,
    Registry,
};
use relay::language::{fn_attributes, is_primitive};
use rewrites::library::RuleSet;
use rewrites::proof::Recorder;
use rewrites::rule::{FloatClass, Rule};
use search::cost::Machine;

use crate::rewrite::{Chosen, explain};

/// How the groups are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// The post-dominator algorithm of the Relay paper (arXiv 1904.08368, section 4.1).
    Dominator,
    /// The cheapest kernels by a model of a machine, beginning with those of the former.
    Search,
}

impl OptionValue for Strategy {
    const EXPECTS: &'static str = "dominator or search";
    fn parse(text: &str) -> Option<Strategy> {
        match text {
            "dominator" => Some(Strategy::Dominator),
            "search" => Some(Strategy::Search),
            _ => None,
        }
    }
    fn print(&self) -> String {
        match self {
            Strategy::Dominator => "dominator".to_string(),
            Strategy::Search => "search".to_string(),
        }
    }
}

/// The options of [`Fuse`].
#[derive(Options)]
#[options(of = "pass `fuse`")]
pub struct FuseOptions {
    /// How the groups are chosen.
    #[default(Strategy::Search)]
    pub strategy: Strategy,
    /// Most operators in a kernel.
    #[default(MAX_DEPTH)]
    pub max_depth: usize,
    /// 0 leaves every operator in a kernel of its own.
    #[default(2)]
    pub level: usize,
    /// For `search`: sets, tags, rules, and files ending in `.rules`, by which the program may be
    /// rewritten; `off` leaves its operators as they are. The default is what `--rules` gives, or
    /// the sets `simplify`, `join`, `linear`, `merge` and `motion`.
    #[default(vec![])]
    pub rules: Vec<String>,
    /// For `search`: whether rules take part that round differently. Otherwise those alone do that
    /// keep every bit.
    #[default(false)]
    pub reassociate: bool,
    /// For `search`: whether a kernel may hold several reductions of the same rows, and what follows
    /// a reduction.
    #[default(true)]
    pub rows: bool,
    /// For `search`: whether a kernel may have several results.
    #[default(true)]
    pub several_results: bool,
    /// For `search`: the machine that kernels run on, a target such as `c{isa=avx2}` or figures. A
    /// `launch` is in µs, `bandwidth` in GB/s; the others are billions of operations in a second: plain
    /// `arithmetic`, `products`, and `transcendental` functions.
    #[default(CostTable::NOMINAL)]
    pub target: CostTable,
}

/// Groups operators into kernels.
pub struct Fuse {
    options: FuseOptions,
    rules: Chosen,
}

const DOC: &str = "Groups operators into kernels.

Each group becomes a function marked `Primitive=1` and a call of it; equal kernels of a block share \
one function. Values bound with `let` end a group, as do branches and function boundaries. \
`annotation.stop_fusion` is a barrier and disappears.

`strategy=dominator` is the algorithm of the Relay paper. An operator joins its immediate \
post-dominator when every path between the two can be computed inside one kernel: an elementwise \
tail joins the convolution before it, and injective operators join each other. A group holds at \
most one operator such as a convolution. Cost is linear in the number of operations times \
`max-depth`.

`strategy=search`, the default, begins with these groups and looks for the cheapest kernels by the \
cost table of `target`: a kernel takes a launch, and then the longer of its reads and writes and of \
its arithmetic (`docs/costs.md`). Beyond the groups, a kernel may hold several reductions over the \
same rows with what lies between them, so that softmax or a layer normalization is one kernel, and \
what is cheaper to compute again than to store is computed in each kernel that reads it. Kernels over \
the same elements or rows become one of several results, whose function yields a tuple, where that \
saves reads.

Rewriting is a part of the same choice: the kernels are sought in all forms that `rules` say are \
equal. Products of one operand, for example, become one product where that saves more than taking \
its parts costs the kernels that read them. What depends on constants alone costs nothing, and is \
computed by the compiler where it is chosen, but for `full` of more than 64 KiB, which stays as it is. \
Unless `reassociate` is given, every bit stays as it is.

The result never costs more than the groups. The program is searched in windows, of which equal \
ones are solved once; cost is linear in the number of operations.

```relay
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  %0 = nn.dense(%x, %w);
  nn.relu(%0)
}
```
becomes
```relay
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32])
    -> Tensor[(2, 4), float32] {
  %1 = fn (%p0: Tensor[(2, 3), float32], %p1: Tensor[(4, 3), float32], Primitive=1)
      -> Tensor[(2, 4), float32] {
    %0 = nn.dense(%p0, %p1);
    nn.relu(%0)
  };
  %1(%x, %w)
}
```";

impl Pass for Fuse {
    fn def() -> PassDef {
        PassDef {
            name: "fuse",
            doc: DOC,
            never_after: &[],
            options: FuseOptions::FIELDS,
            make: |options| {
                let options = FuseOptions::read(options)?;
                Ok(PassInstance::Function(Box::new(Fuse { options, rules: Chosen::default() })))
            },
        }
    }
}

/// The sets whose rules the search applies where nothing else is asked for.
const DEFAULT_RULES: [&str; 5] = ["simplify", "join", "linear", "merge", "motion"];

/// Most operators in a kernel, unless said otherwise.
const MAX_DEPTH: usize = 256;

impl FunctionPass for Fuse {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if is_primitive(f.signature.attrs) {
            return Ok(());
        }
        let searches = self.options.strategy == Strategy::Search && self.options.level > 0;
        let solver = searches.then(|| self.solver(f.registry, cx));
        let mut recorder = (searches && cx.explain).then(|| Recorder::new(f));
        let mut kernels = vec![];
        // Rewriting a block changes nothing of what is used of the blocks inside it.
        let inner = f.body.inner_uses();
        for block in open_blocks(f) {
            let graph = graph::Graph::of_block(f, block, &inner);
            let max_depth = if self.options.level == 0 { 0 } else { self.options.max_depth };
            let groups = partition::partition(&graph, max_depth);
            kernels.push(match &solver {
                Some(solver) => {
                    let recorder = recorder.as_mut();
                    let found = search::search(f, block, &graph, &groups, solver, recorder);
                    let found = found?;
                    tell(&found, cx);
                    if found.rewritten && self.options.reassociate {
                        cx.rounded_otherwise();
                    }
                    found.kernels
                }
                None => {
                    let op = |node: usize| graph.nodes[node].op;
                    let kernel = |of: Vec<usize>| kernels::Kernel {
                        members: of.into_iter().map(op).collect(),
                        also: vec![],
                    };
                    groups.members().into_iter().map(kernel).collect()
                }
            });
        }
        // What is explained is the rewriting: kernels compute what their operations did.
        if recorder.is_some() {
            let none = RuleSet::new([], f.registry);
            let rules = solver.and_then(|solver| solver.rules).unwrap_or(&none);
            explain(f, rules, recorder, cx)?;
        }
        for kernels in &kernels {
            kernels::outline(f, cx, kernels)?;
        }
        Ok(())
    }
}

impl Fuse {
    /// What the search solves windows with.
    fn solver<'a>(
        &'a self,
        registry: &'a Registry,
        cx: &mut PassContext<'_>,
    ) -> search::Solver<'a> {
        let FuseOptions { max_depth, rows, several_results: several, target, .. } = self.options;
        let keep: fn(&Rule) -> bool = match self.options.reassociate {
            true => |rule| matches!(rule.class, FloatClass::Exact | FloatClass::Reassociated),
            false => |rule| rule.class == FloatClass::Exact,
        };
        let no_rules = self.options.rules.iter().any(|rules| rules == "off");
        let rules = match no_rules {
            true => None,
            // Wrong rules are reported, and no window is rewritten.
            false => self.rules.get_where(&self.options.rules, &DEFAULT_RULES, keep, cx),
        };
        let operators = max_depth.min(search::MOST_OPERATORS);
        let limits = search::Limits { operators, rows, several };
        search::Solver {
            registry,
            rules,
            machine: Machine(target),
            limits,
            interrupt: cx.interrupt,
            threads: cx.threads,
        }
    }
}

/// Statistics of what was found for a block.
fn tell(found: &search::Found, cx: &mut PassContext<'_>) {
    if found.interrupted {
        cx.cut_short();
    }
    let nanoseconds = |microseconds: f64| (microseconds * 1e3).round() as u64;
    cx.count("modelled ns of operators alone", nanoseconds(found.unfused));
    cx.count("modelled ns of post-dominator groups", nanoseconds(found.before));
    cx.count("modelled ns", nanoseconds(found.after));
    cx.count("rewritten blocks", u64::from(found.rewritten));
    cx.count("pairs joined for several results", found.joined);
    cx.count("windows", found.windows);
    cx.count("different windows", found.different);
    cx.count("windows that were solved exactly", found.proven);
}

/// The operations that the post-dominator groups put into one kernel, for every kernel of more than
/// one; see the pass `fuse`.
pub fn groups(f: &FuncMut<'_>) -> Vec<Vec<OpId>> {
    let mut groups = Vec::new();
    if is_primitive(f.signature.attrs) {
        return groups;
    }
    let inner = f.body.inner_uses();
    for block in open_blocks(f) {
        let graph = graph::Graph::of_block(f, block, &inner);
        let members = partition::partition(&graph, MAX_DEPTH).members();
        let members = members.into_iter().filter(|members| members.len() > 1);
        groups.extend(members.map(|nodes| nodes.into_iter().map(|n| graph.nodes[n].op).collect()));
    }
    groups
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
