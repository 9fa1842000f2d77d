//! Algorithms on graphs given as lists of successors.
//!
//! They stand here rather than in petgraph, which the core does without: its crates get the order
//! that they need, successors first, and no graph is built before.

/// The strongly connected components of a graph (Tarjan, 1972), each sorted, successors first.
pub fn strongly_connected(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut order = vec![UNSEEN; edges.len()];
    let mut low = vec![0; edges.len()];
    let mut on_stack = vec![false; edges.len()];
    let mut stack = Vec::new();
    let mut components = Vec::new();
    let mut visited = 0;
    for root in 0..edges.len() {
        if order[root] != UNSEEN {
            continue;
        }
        // A node and the number of its edges already followed.
        let mut path = vec![(root, 0)];
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if *edge == 0 {
                (order[node], low[node]) = (visited, visited);
                visited += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            match edges[node].get(*edge) {
                Some(&next) => {
                    *edge += 1;
                    if order[next] == UNSEEN {
                        path.push((next, 0));
                    } else if on_stack[next] {
                        low[node] = low[node].min(order[next]);
                    }
                }
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                    if low[node] == order[node] {
                        let start = stack.iter().rposition(|n| *n == node);
                        let start = start.expect("the root of a component is still open");
                        let mut component = stack.split_off(start);
                        component.iter().for_each(|n| on_stack[*n] = false);
                        component.sort_unstable();
                        components.push(component);
                    }
                }
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::strongly_connected;

    #[test]
    fn successors_come_first() {
        let edges = [vec![1], vec![2], vec![1, 3], vec![], vec![4]];
        assert_eq!(strongly_connected(&edges), [vec![3], vec![1, 2], vec![0], vec![4]]);
        let chain: Vec<Vec<usize>> = (0..100_000).map(|i| vec![(i + 1) % 100_000]).collect();
        assert_eq!(strongly_connected(&chain).len(), 1);
    }
}
