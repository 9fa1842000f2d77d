//! Values that are computed again instead of being kept.

mod cut;
mod graph;
mod results;
mod schedule;
mod segments;

use ir_core::{
    Diagnostic, EntityId, FuncMut, FunctionPass, InsertPoint, OpId, OpParts, Pass, PassContext,
    PassResult, ValueId,
};
use relay::language::{Constant, is_primitive};
use relay_operators::annotation::StopFusion;

use crate::codes::BUDGET;
use graph::Graph;
use schedule::{Peak, Plan, Schedule};

/// Computes values of `@main` again where they are used late, instead of keeping them, so that it needs less
/// memory.
///
/// The gradient of a program reads what the program computed on its way, in the reverse order: the first values
/// are kept for the longest time. This pass looks for the place where values take the most memory. Of the
/// values that are made up to there and read behind it, it keeps those that take the fewest bytes and from
/// which the others follow by operators that are fused into what reads them, such as activations, casts and
/// broadcasts. These are computed again before their first use behind that place. No other operator is computed
/// twice, and memory never grows.
///
/// With `budget`, a number of bytes, other operators such as products are computed again as well where that is
/// not enough: the program is cut into segments, of which the values that others read are kept, and the rest is
/// computed again when it is needed (Chen et al., arXiv 1604.06174). Each operator is computed at most twice.
/// Where the values do not fit into the budget, that is error `E0663`, with the least that was reached.
///
/// The budget is about what values take at once that `@main` computes, in the order in which it computes
/// them, each as a tensor of its own. Parameters, constants and results lie in memory of the caller and do not
/// count. What a compiled program takes is near to that: what is inside of a kernel takes nothing, and a kernel
/// is computed where its last operator stands, which may be later.
///
/// What is computed again reads its operands through `annotation.stop_fusion`, so that `cse` does not merge it
/// with what it is; `fuse` removes these. What only the result needs, such as new weights, is computed as soon
/// as it can be. Every number stays as it is, bit by bit. The cost is linear in the size of the function.
///
/// ```relay
/// def @main(%x: Tensor[(64, 64), float32], %w: Tensor[(64, 64), float32]) {
///   %0 = nn.dense(%x, %w);
///   %1 = sigmoid(%0);
///   %2 = nn.dense(%1, %w);
///   %3 = nn.dense(%2, %w);
///   %4 = multiply(%0, %3);
///   nn.dense(%4, %1)
/// }
/// ```
/// becomes
/// ```relay
/// def @main(%x: Tensor[(64, 64), float32], %w: Tensor[(64, 64), float32]) -> Tensor[(64, 64), float32] {
///   %0 = nn.dense(%x, %w);
///   %1 = sigmoid(%0);
///   %2 = nn.dense(%1, %w);
///   %3 = nn.dense(%2, %w);
///   %4 = multiply(%0, %3);
///   %5 = annotation.stop_fusion(%0);
///   %6 = sigmoid(%5);
///   nn.dense(%4, %6)
/// }
/// ```
#[derive(Pass)]
#[pass(name = "rematerialize", function, never_after = "fuse")]
pub struct Rematerialize {
    /// The most bytes that values may take at once; nothing means that only what costs next to nothing is
    /// computed again.
    #[default(None)]
    pub budget: Option<u64>,
}

/// How often another place is looked for where memory is scarce.
const ROUNDS: usize = 16;

/// How soon what is kept has to be read again, in operations, so that it pays to keep it. What lives only
/// around the place where memory is scarce is needed there; how far that reaches, the program does not say, so
/// each is tried.
const SOON: [usize; 4] = [0, 4, 16, 64];

impl FunctionPass for Rematerialize {
    fn run(&self, f: &mut FuncMut<'_>, cx: &mut PassContext<'_>) -> PassResult {
        if f.name.as_str() != "main" || is_primitive(f.signature.attrs) {
            return Ok(());
        }
        let graph = Graph::of(f);
        if let (Some(op), Some(_)) = (graph.open, self.budget) {
            let message = "a value of unknown extents has no number of bytes for a budget";
            let help =
                "write numbers for the extents, as `bind-extents` does, or leave out `budget`";
            return Err(Diagnostic::error(BUDGET, message).at(f.op_span(op)).help(help).into());
        }
        let budget = self.budget.map(|budget| i64::try_from(budget).unwrap_or(i64::MAX));
        let before = peak(&graph, &Plan::none(&graph));
        let (graph, plan) = match budget {
            Some(budget) if before.bytes <= budget => (graph.clone(), Plan::none(&graph)),
            _ => self.choose(f, graph, before, budget)?,
        };
        let schedule = Schedule::of(&graph, &plan);
        let after = schedule.peak(&graph);
        cx.count("bytes live at once before", before.bytes as u64);
        cx.count("bytes live at once", after.bytes as u64);
        cx.count("computed again", apply(f, &graph, &plan, &schedule));
        Ok(())
    }
}

impl Rematerialize {
    /// The order in which to compute, and what to compute again, for a function whose values take `before`.
    fn choose(
        &self,
        f: &FuncMut<'_>,
        graph: Graph,
        before: Peak,
        budget: Option<i64>,
    ) -> Result<(Graph, Plan), Diagnostic> {
        let moved = graph.in_order(&results::as_soon_as_possible(&graph));
        let start = peak(&moved, &Plan::none(&moved));
        let (graph, start) =
            if start.bytes <= before.bytes { (moved, start) } else { (graph, before) };
        let cheap = cheap(&graph, start, budget);
        let reached = peak(&graph, &cheap).bytes;
        let Some(budget) = budget.filter(|budget| reached > *budget) else {
            return Ok((graph, cheap));
        };
        let work = graph.work(f);
        match segments::within(&graph, &cheap, start.place, &work, budget) {
            Ok(plan) => Ok((graph, plan)),
            Err(least) => {
                let least = least.min(reached);
                let message = format!(
                    "the values of `@{}` come down to {least} bytes at once, and the budget is {budget}",
                    f.name
                );
                let help = format!("give `budget={least}` or more, or fewer rows of a batch");
                let at = f.op_span(graph.nodes[start.place].op).or(f.base());
                Err(Diagnostic::error(BUDGET, message).at(at).help(help))
            }
        }
    }
}

fn peak(graph: &Graph, plan: &Plan) -> Peak {
    Schedule::of(graph, plan).peak(graph)
}

/// What to compute again at next to no cost, where the values of `graph` take `start`: until they fit into the
/// budget, if there is one.
fn cheap(graph: &Graph, start: Peak, budget: Option<i64>) -> Plan {
    let (mut plan, mut at) = (Plan::none(graph), start.place);
    let (mut best, mut least) = (plan.clone(), start.bytes);
    let mut places = vec![at];
    while places.len() <= ROUNDS && budget.is_none_or(|budget| least > budget) {
        let tried = SOON.into_iter().filter_map(|soon| {
            let again = cut::recomputed(graph, &plan, at, soon);
            if again.is_empty() {
                return None;
            }
            let mut tried = plan.clone();
            tried.compute_again(again, at);
            let tried = tried.with_aliases(graph);
            Some((peak(graph, &tried), tried))
        });
        let Some((reached, next)) = tried.min_by_key(|(reached, _)| reached.bytes) else { break };
        if reached.bytes > least {
            break;
        }
        plan = next;
        if reached.bytes < least {
            (best, least) = (plan.clone(), reached.bytes);
        }
        at = reached.place;
        if places.contains(&at) {
            break;
        }
        places.push(at);
    }
    best
}

/// Makes of `f` what `schedule` says of `graph`, by `plan`; how many operators it computes again.
fn apply(f: &mut FuncMut<'_>, graph: &Graph, plan: &Plan, schedule: &Schedule) -> u64 {
    let mut before: Option<OpId> = None;
    for node in &graph.nodes {
        if let Some(before) = before
            && f.body.prev_op(node.op) != Some(before)
        {
            f.body.move_op(node.op, InsertPoint::After(before));
        }
        before = Some(node.op);
    }
    let mut number = vec![None; f.body.op_capacity()];
    for (index, node) in graph.nodes.iter().enumerate() {
        number[node.op.index()] = Some(index);
    }
    let mut is_dropped = vec![false; graph.nodes.len()];
    schedule.dropped.iter().for_each(|node| is_dropped[*node] = true);
    let mut again: Vec<Option<ValueId>> = vec![None; graph.nodes.len()];
    let mut count = 0;
    for step in &schedule.steps {
        let (node, place) = (step.computed.node, step.place);
        let op = graph.nodes[node].op;
        // What the operation reads here, and whether that is another computation than before.
        let mut operands: Vec<ValueId> = f.body.operands(op).collect();
        let mut is_other = false;
        for operand in &mut operands {
            let read = f.body.defining_op(*operand).and_then(|op| number[op.index()]);
            if let Some(value) = read.filter(|read| plan.reads_again(*read, place)) {
                *operand =
                    again[value].expect("what is computed again is computed before it is read");
                is_other = true;
            }
        }
        if !step.computed.again {
            for (index, operand) in operands.into_iter().enumerate() {
                if f.body.operand(op, index) != operand {
                    f.body.set_operand(op, index, operand);
                }
            }
            continue;
        }
        let at = InsertPoint::Before(graph.nodes[place].op);
        let loc = f.body.loc(op).by_pass("rematerialize");
        if !is_other && !is_dropped[node] {
            let is_computed = |value: &&mut ValueId| {
                f.body.defining_op(**value).is_none_or(|op| !f.body.is::<Constant>(op))
            };
            if let Some(first) = operands.iter_mut().find(is_computed) {
                let ty = f.body.ty(*first);
                *first = f.body.add(at, loc, &StopFusion { data: *first }, ty);
            }
        }
        let results: Vec<_> = f.body.results(op).map(|result| f.body.ty(result)).collect();
        let parts = OpParts::new(f.body.op_name(op), &operands, &results);
        let copy = f.body.insert_op(at, parts.attrs(f.body.attrs(op)).at(loc));
        again[node] = Some(f.body.result(copy, 0));
        count += u64::from(!is_dropped[node]);
    }
    for node in &schedule.dropped {
        f.body.erase(graph.nodes[*node].op);
    }
    count
}
