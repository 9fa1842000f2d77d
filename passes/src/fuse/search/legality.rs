//! Which operators one kernel may hold, so that it can be lowered and scheduled well.
//!
//! The default schedules compute a kernel in one nest of loops, of one of three kinds; they look at
//! shapes and reads only, and these rules are what makes them find each kind:
//!
//! - *maps*: elementwise operators, broadcasts and other injective ones, inlined into each other;
//! - *an anchor*, such as a convolution, and elementwise operators of its shape after it, applied to
//!   its tiles in registers;
//! - *rows*: reductions over the same last dimensions and what lies between them, computed a few
//!   rows at a time.
//!
//! A reduction over other dimensions is a kernel with what is elementwise before it.
//!
//! A kernel may have several results, which are computed in the same loops: maps of one shape, an
//! anchor and what follows it, and rows or numbers of the same rows.

use relay_operators::FusionPattern;

use super::facts::{Facts, Node};

/// The longest row, in elements, that is computed in a kernel of several stages.
const LONGEST_ROW: i64 = 1 << 16;

/// Whether the nodes `members`, each after those that it reads, may be a kernel that yields the last
/// one and the members `also`. With `rows` it may be one of several reductions.
pub(super) fn is_legal(facts: &Facts, members: &[usize], also: &[usize], rows: bool) -> bool {
    let Some((&root, inner)) = members.split_last() else { return false };
    if inner.is_empty() || also.is_empty() && members.iter().all(|node| is_map(facts, *node)) {
        return true;
    }
    let nodes = || members.iter().map(|member| &facts.nodes[*member]);
    // What is bound is stored, and what reads it is in other kernels.
    let is_read = |class: usize| nodes().any(|node| node.reads.contains(&class));
    let is_bound = |member: &usize| facts.class(*member).bound;
    if inner.iter().any(|member| {
        is_bound(member) && (!also.contains(member) || is_read(facts.nodes[*member].class))
    }) {
        return false;
    }
    let mut anchors = members.iter().filter(|member| facts.nodes[**member].is_anchor());
    let first_anchor = anchors.next();
    let reductions = nodes().filter(|node| is_reduction(node)).count();
    match (first_anchor, anchors.next(), reductions) {
        (None, _, 0) => {
            let inside = |class: &usize| facts.inside(members, *class).is_some();
            let shape = &facts.class(root).shape;
            let has_its_loops = |result: &usize| {
                let (node, class) = (&facts.nodes[*result], facts.class(*result));
                !node.plumbing && class.shape.is_some() && class.shape == *shape
            };
            facts.nodes[root].pattern != FusionPattern::Tuple
                && (also.is_empty() || also.iter().chain([&root]).all(has_its_loops))
                && nodes().all(|node| match node.pattern {
                    // What a join reads would be computed for every element of the result.
                    FusionPattern::Tuple => !node.reads.iter().any(inside),
                    pattern => node.plumbing || pattern <= FusionPattern::Injective,
                })
        }
        (Some(anchor), None, 0) => is_anchored(facts, members, also, *anchor),
        (None, _, 1) if also.is_empty() && is_reduction_of_map(facts, members) => true,
        (None, ..) => rows && works_on_rows(facts, members, also),
        _ => false,
    }
}

/// Whether `node` may be in every kernel of maps.
fn is_map(facts: &Facts, node: usize) -> bool {
    let is_bound = facts.class(node).bound;
    let node = &facts.nodes[node];
    let is_map = node.plumbing || node.pattern <= FusionPattern::Injective;
    is_map && !is_bound && node.rows.is_none() && node.pattern != FusionPattern::Tuple
}

fn is_reduction(node: &Node) -> bool {
    node.rows.is_some() || node.pattern == FusionPattern::Reduce
}

/// Whether a member would be stored because it costs much and is read several times.
fn is_stored(facts: &Facts, members: &[usize], member: usize) -> bool {
    let node = &facts.nodes[member];
    let reads = |other: &&usize| facts.nodes[**other].reads.contains(&node.class);
    node.dear && members.iter().filter(reads).count() > 1
}

/// Whether `members` are the anchor and elementwise operators of its shape, none of them before it.
/// Those in `also` are results.
fn is_anchored(facts: &Facts, members: &[usize], also: &[usize], anchor: usize) -> bool {
    let Node { pattern, reads, .. } = &facts.nodes[anchor];
    let Some(shape) = &facts.class(anchor).shape else { return false };
    *pattern == FusionPattern::OutFusable
        && reads.iter().all(|class| facts.inside(members, *class).is_none())
        && members.iter().filter(|member| **member != anchor).all(|member| {
            let node = &facts.nodes[*member];
            node.pattern <= FusionPattern::Broadcast
                && facts.class(*member).shape.as_ref() == Some(shape)
                && (also.contains(member) || !is_stored(facts, members, *member))
        })
}

/// Whether `members` are a reduction and what is elementwise before it.
fn is_reduction_of_map(facts: &Facts, members: &[usize]) -> bool {
    let Some((&root, inner)) = members.split_last() else { return false };
    facts.nodes[root].pattern == FusionPattern::Reduce
        && inner.iter().all(|member| {
            let node = &facts.nodes[*member];
            (node.pattern <= FusionPattern::Broadcast || node.reshape_only)
                && !is_stored(facts, members, *member)
        })
}

/// What a value is to a kernel of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// All elements of the rows.
    Whole,
    /// One number for each row, with extents 1 for the dimensions of the row.
    Numbers,
    /// One number for each row, without these dimensions.
    Short,
    /// All elements of the rows, which are numbered by other dimensions.
    Renumbered,
}

/// Rows of the extents `row`, numbered by `numbers`.
struct Domain<'a> {
    numbers: &'a [i64],
    row: &'a [i64],
}

impl Domain<'_> {
    fn form(&self, shape: &[i64]) -> Option<Form> {
        let Domain { numbers, row } = self;
        if let Some(rest) = shape.strip_prefix(*numbers) {
            match rest {
                [] => return Some(Form::Short),
                rest if rest == *row => return Some(Form::Whole),
                rest if rest.len() == row.len() && rest.iter().all(|extent| *extent == 1) => {
                    return Some(Form::Numbers);
                }
                _ => {}
            }
        }
        let count = |extents: &[i64]| extents.iter().fold(1i64, |n, e| n.saturating_mul(*e));
        let others = shape.strip_suffix(*row)?;
        (count(others) == count(numbers)).then_some(Form::Renumbered)
    }
}

/// Whether `members` are reductions of the same rows and what lies between them. Those in `also` are
/// results.
fn works_on_rows(facts: &Facts, members: &[usize], also: &[usize]) -> bool {
    let mut reductions =
        members.iter().map(|member| &facts.nodes[*member]).filter(|node| is_reduction(node));
    let Some(first) = reductions.next() else { return false };
    let (Some(rows), Some(domain)) = (first.rows, &first.operand_shape) else { return false };
    if reductions
        .any(|other| other.rows != first.rows || other.operand_shape.as_ref() != Some(domain))
    {
        return false;
    }
    let (numbers, row) = domain.split_at(rows.min(domain.len()));
    let domain = Domain { numbers, row };
    let length = row.iter().fold(1i64, |length, extent| length.saturating_mul(*extent));
    if numbers.is_empty() || row.is_empty() || length > LONGEST_ROW {
        return false;
    }
    let form = |class: usize| domain.form(facts.classes[class].shape.as_deref()?);
    let inside = |class: &&usize| facts.inside(members, **class).is_some();
    let Some(&root) = members.last() else { return false };
    // A kernel of one number for each row and no dimension for the row has no loop for its stages.
    let form_of = |member: &usize| form(facts.nodes[*member].class);
    matches!(form_of(&root), Some(Form::Whole | Form::Numbers))
        && also.iter().all(|result| !matches!(form_of(result), None | Some(Form::Renumbered)))
        && members.iter().all(|member| {
            let node = &facts.nodes[*member];
            let mut operands = node.reads.iter().filter(inside);
            match form(node.class) {
                None => false,
                Some(Form::Whole | Form::Numbers | Form::Short) if is_reduction(node) => true,
                // Renumbered rows are inlined into what reads them; nothing can be stored there.
                Some(Form::Renumbered) => {
                    !node.dear
                        && (node.pattern <= FusionPattern::Broadcast || node.reshape_only)
                        && operands.all(|operand| form(*operand) == Some(Form::Renumbered))
                }
                Some(Form::Whole) => {
                    node.pattern <= FusionPattern::Broadcast
                        || node.reshape_only
                            && operands.all(|operand| form(*operand) == Some(Form::Renumbered))
                }
                Some(Form::Numbers | Form::Short) => {
                    node.pattern <= FusionPattern::Broadcast || node.reshape_only
                }
            }
        })
}
