//! When what only the result of a function needs is computed.

use super::graph::{Graph, Kind, Node};

/// An order in which operators that are fused into their readers, and that only the result needs in the end,
/// such as those of new weights in a step of training, are computed as soon as all of that is there which they
/// read. So a product of changes and activations does not wait, with both, for its use at the end of the
/// program. What reads nothing that is computed is computed where it is read first. Everything else stays in
/// order. Linear.
pub(super) fn as_soon_as_possible(graph: &Graph) -> Vec<usize> {
    let count = graph.nodes.len();
    let Some(end) = count.checked_sub(1) else { return vec![] };
    let mut moves: Vec<bool> = graph.nodes.iter().map(can_move).collect();
    for (number, node) in graph.nodes.iter().enumerate().rev() {
        if !moves[number] && number != end {
            node.operands.iter().for_each(|operand| moves[*operand] = false);
        }
    }
    // The node behind which each can be computed; nothing for what waits for none.
    let mut place: Vec<Option<usize>> = vec![None; count];
    for (number, node) in graph.nodes.iter().enumerate() {
        place[number] = match moves[number] {
            true => node.operands.iter().filter_map(|operand| place[*operand]).max(),
            false => Some(number),
        };
    }
    let mut first_reader: Vec<usize> = vec![end; count];
    let mut behind: Vec<Vec<usize>> = vec![vec![]; count];
    for (number, node) in graph.nodes.iter().enumerate().rev() {
        let at = place[number].unwrap_or(first_reader[number]);
        for operand in &node.operands {
            first_reader[*operand] = first_reader[*operand].min(at);
        }
        if moves[number] {
            behind[at].push(number);
        }
    }
    let mut order = Vec::with_capacity(count);
    for (number, behind) in behind.into_iter().enumerate() {
        let behind = behind.into_iter().rev();
        match (number == end, moves[number]) {
            (true, _) => order.extend(behind.chain([number])),
            (false, true) => {}
            (false, false) => {
                order.push(number);
                order.extend(behind);
            }
        }
    }
    order
}

/// Whether a node may be computed at another place, if none but the result and others like it read it.
fn can_move(node: &Node) -> bool {
    let is_free = matches!(node.kind, Kind::Cheap | Kind::Alias) || node.operands.is_empty();
    node.is_pure && node.is_read && is_free
}
