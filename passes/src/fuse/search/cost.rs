//! What a kernel costs.

use relay::operators::FusionPattern;

use super::facts::Facts;

/// A machine, as far as kernels are compared on it: a kernel takes `launch`, and the longer of
/// reading and writing its bytes and of its arithmetic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::fuse) struct Machine {
    /// Microseconds to start a kernel.
    pub(in crate::fuse) launch: f64,
    /// Bytes that it reads or writes in a microsecond.
    pub(in crate::fuse) bandwidth: f64,
    /// Arithmetic operations in a microsecond.
    pub(in crate::fuse) arithmetic: f64,
}

impl Machine {
    /// Microseconds of the kernel of `members`, sorted, the last of which is its result.
    pub(super) fn cost(&self, facts: &Facts, members: &[usize]) -> f64 {
        let Some(&root) = members.last() else { return 0.0 };
        if members.iter().all(|member| facts.nodes[*member].plumbing) {
            return 0.0;
        }
        let mut read: Vec<usize> = vec![];
        let (mut bytes, mut work) = (facts.bytes[root], 0.0);
        // For how many elements each member is computed, from the last one on: what is inlined, for
        // each element of what reads it.
        let mut points: Vec<f64> = vec![0.0; members.len()];
        for (at, &member) in members.iter().enumerate().rev() {
            let node = &facts.nodes[member];
            let own = node.elements.max(1.0);
            let is_inlined = node.pattern <= FusionPattern::Injective && !node.dear;
            points[at] = if is_inlined { points[at].max(own) } else { own };
            work += node.work * (points[at] / own);
            for &operand in &node.operands {
                if let Ok(inside) = members.binary_search(&operand) {
                    points[inside] = points[inside].max(points[at]);
                    continue;
                }
                if read.contains(&operand) {
                    continue;
                }
                if node.plumbing && node.shape.is_some() {
                    // A projection reads its field only.
                    bytes += facts.bytes[member];
                    continue;
                }
                read.push(operand);
                bytes += facts.bytes[operand];
            }
        }
        self.launch + (bytes / self.bandwidth).max(work / self.arithmetic)
    }
}
