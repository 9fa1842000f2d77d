//! Which extents of operands are equal.

/// What an extent is assumed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Assumed {
    /// The variable of that number.
    Variable(usize),
    /// A number.
    Known(i64),
}

/// Assumptions, one for each place.
pub(crate) type Assumption = Vec<Assumed>;

/// The most different extents of the operands of a kernel.
pub(super) const MOST_VARIABLES: usize = 4;

/// The most open axes of which every way to be equal is tried.
const MOST_AXES: usize = 5;

/// The most open axes, and numbers, of which every way to be some of these is tried.
const MOST_KNOWN: (usize, usize) = (4, 3);

/// How many variables there are.
pub(super) fn variables(assumption: &[Assumed]) -> usize {
    let numbers = assumption.iter().map(|assumed| match assumed {
        Assumed::Variable(variable) => variable + 1,
        Assumed::Known(_) => 0,
    });
    numbers.max().unwrap_or(0)
}

/// Ways for open axes, of tensors by number, to be variables, or one of the extents `known` of other axes:
/// the more different ones, the earlier.
pub(super) fn assumptions(all_axes: &[(usize, usize)], known: &[i64]) -> Vec<Assumption> {
    let axes = all_axes.len();
    let known = match axes <= MOST_KNOWN.0 && known.len() <= MOST_KNOWN.1 {
        true => known,
        false => &[],
    };
    let mut all: Vec<Assumption> = vec![vec![]];
    if axes <= MOST_AXES {
        for _ in 0..axes {
            let longer = all.iter().flat_map(|one| {
                let old_and_new = (0..=variables(one)).map(Assumed::Variable);
                let choices = old_and_new.chain(known.iter().copied().map(Assumed::Known));
                choices.map(move |choice| one.iter().copied().chain([choice]).collect())
            });
            all = longer.collect();
        }
    } else {
        // From the last axis on, as operators broadcast.
        let last =
            |tensor: usize| all_axes.iter().rfind(|one| one.0 == tensor).map_or(0, |one| one.1);
        let aligned: Vec<usize> =
            all_axes.iter().map(|(tensor, axis)| last(*tensor) - axis).collect();
        let in_order: Vec<usize> = all_axes.iter().map(|(_, axis)| *axis).collect();
        all = vec![canonical(&aligned), canonical(&in_order)];
    }
    let within = |one: &[Assumed]| {
        let pairs = (0..axes).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.filter(|(a, b)| all_axes[*a].0 == all_axes[*b].0 && one[*a] == one[*b]).count()
    };
    all.retain(|one| (1..=MOST_VARIABLES).contains(&variables(one)));
    all.sort_by_key(|one| (axes - variables(one), within(one)));
    all.dedup();
    all
}

/// `variables`, numbered in the order in which they appear.
fn canonical(variables: &[usize]) -> Assumption {
    let mut known: Vec<usize> = Vec::new();
    let number = |variable: &usize| {
        let number = known.iter().position(|other| other == variable).unwrap_or_else(|| {
            known.push(*variable);
            known.len() - 1
        });
        Assumed::Variable(number)
    };
    variables.iter().map(number).collect()
}
