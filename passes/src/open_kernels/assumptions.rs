//! Which extents of operands are equal.

use crate::bounds::MOST_EXTENTS;

/// What an extent is assumed to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Assumed {
    /// The variable of that number.
    Variable(usize),
    /// A number.
    Known(i64),
    /// So many times the variable of that number, and so much more, which is less than one time.
    Multiple { variable: usize, step: i64, rest: i64 },
}

impl Assumed {
    /// The variable that it depends on.
    pub(super) fn variable(self) -> Option<usize> {
        match self {
            Assumed::Variable(variable) | Assumed::Multiple { variable, .. } => Some(variable),
            Assumed::Known(_) => None,
        }
    }

    /// What it is where variables are `values`; `None` where that is no number of 64 bits.
    pub(super) fn at(self, values: &[i64]) -> Option<i64> {
        match self {
            Assumed::Variable(variable) => Some(values[variable]),
            Assumed::Known(known) => Some(known),
            Assumed::Multiple { variable, step, rest } => {
                values[variable].checked_mul(step)?.checked_add(rest)
            }
        }
    }
}

/// Assumptions, one for each place.
pub(crate) type Assumption = Vec<Assumed>;

/// The most different extents of the operands of a kernel.
pub(crate) const MOST_VARIABLES: usize = MOST_EXTENTS;

/// The most open axes of which every way to be equal is tried.
const MOST_AXES: usize = 5;

/// The most open axes, and numbers, of which every way to be some of these is tried.
const MOST_KNOWN: (usize, usize) = (4, 3);

/// The most axes that are tried together, whether they need be what others are.
const TOGETHER: usize = 3;

/// How many variables there are.
pub(super) fn variables(assumption: &[Assumed]) -> usize {
    let numbers = assumption.iter().filter_map(|assumed| assumed.variable());
    numbers.max().map_or(0, |last| last + 1)
}

/// `assumption` where the variables in `steps` are `step` times others, and so much more.
pub(super) fn stepped(assumption: &[Assumed], step: i64, steps: &[(usize, i64)]) -> Assumption {
    let assumed = |assumed: &Assumed| {
        let rest = steps.iter().find(|one| Assumed::Variable(one.0) == *assumed);
        match rest {
            Some(&(variable, rest)) => Assumed::Multiple { variable, step, rest },
            None => *assumed,
        }
    };
    assumption.iter().map(assumed).collect()
}

/// The assumption about open `axes`, of tensors by number, that assumes as little as there is to assume, of
/// those for which operators are well typed; `None` where none is found. `shapes` are the extents of the
/// tensors that are known; behind them, numbered on, are others.
pub(super) fn least(
    axes: &[(usize, usize)],
    shapes: &[Vec<Option<i64>>],
    is_typed: impl Fn(&[Assumed]) -> bool,
) -> Option<Assumption> {
    let mut known: Vec<i64> = Vec::new();
    for extent in shapes.iter().flatten().flatten() {
        if *extent != 1 && !known.contains(extent) {
            known.push(*extent);
        }
    }
    let all = if axes.len() <= MOST_AXES { all(axes, &known) } else { vec![] };
    let least = all.into_iter().find(|one| is_typed(one));
    least.or_else(|| {
        let typed = by_position(axes, shapes).into_iter().find(|one| is_typed(one))?;
        Some(loosened(typed, is_typed))
    })
}

/// Ways for open axes to be variables, or one of the extents `known` of other axes: the more different ones,
/// the earlier.
fn all(all_axes: &[(usize, usize)], known: &[i64]) -> Vec<Assumption> {
    let axes = all_axes.len();
    let known = match axes <= MOST_KNOWN.0 && known.len() <= MOST_KNOWN.1 {
        true => known,
        false => &[],
    };
    let mut all: Vec<Assumption> = vec![vec![]];
    for _ in 0..axes {
        let longer = all.iter().flat_map(|one| {
            let old_and_new = (0..=variables(one)).map(Assumed::Variable);
            let choices = old_and_new.chain(known.iter().copied().map(Assumed::Known));
            choices.map(move |choice| one.iter().copied().chain([choice]).collect())
        });
        all = longer.collect();
    }
    let within = |one: &[Assumed]| {
        let pairs = (0..axes).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.filter(|(a, b)| all_axes[*a].0 == all_axes[*b].0 && one[*a] == one[*b]).count()
    };
    all.retain(|one| variables(one) > 0);
    all.sort_by_key(|one| (axes - variables(one), within(one)));
    all
}

/// Ways for axes to be equal that operators often ask for: none are, those are that are as far from the last
/// one, as operators broadcast, or from the first one, and all are. Where an axis of a known extent is at the
/// same place, others are as long.
fn by_position(axes: &[(usize, usize)], shapes: &[Vec<Option<i64>>]) -> Vec<Assumption> {
    let from_last = |tensor: usize, axis: usize| shapes[tensor].len() - 1 - axis;
    let known = |from: &dyn Fn(usize, usize) -> usize, place: usize| {
        shapes.iter().enumerate().find_map(|(tensor, shape)| {
            let extents = shape.iter().enumerate();
            let mut there = extents.filter(|(axis, _)| from(tensor, *axis) == place);
            there.find_map(|(_, extent)| extent.filter(|extent| *extent != 1))
        })
    };
    let at_places = |from: &dyn Fn(usize, usize) -> usize, with_known: bool| -> Assumption {
        let at = |(number, (tensor, axis)): (usize, &(usize, usize))| match *tensor < shapes.len() {
            true => {
                let place = from(*tensor, *axis);
                let known = known(from, place).filter(|_| with_known);
                known.map_or(Assumed::Variable(place), Assumed::Known)
            }
            // Elements are no extents of the same places.
            false => Assumed::Variable(usize::MAX - number),
        };
        canonical(&axes.iter().enumerate().map(at).collect::<Vec<_>>())
    };
    let from_first = |_: usize, axis: usize| axis;
    let mut ways = vec![
        (0..axes.len()).map(Assumed::Variable).collect(),
        at_places(&from_last, false),
        at_places(&from_first, false),
        vec![Assumed::Variable(0); axes.len()],
        at_places(&from_last, true),
        at_places(&from_first, true),
    ];
    ways.retain(|one: &Assumption| (1..=MOST_VARIABLES).contains(&variables(one)));
    ways
}

/// `assumption` without what is not needed for operators to be well typed: where they are, some axes are what
/// no others are.
fn loosened(mut assumption: Assumption, is_typed: impl Fn(&[Assumed]) -> bool) -> Assumption {
    for count in 1..=TOGETHER {
        for some in subsets(assumption.len(), count) {
            let of = assumption[some[0]];
            let like_it = assumption.iter().filter(|one| **one == of).count();
            let is_alone = matches!(of, Assumed::Variable(_)) && like_it == count;
            let is_full = variables(&assumption) == MOST_VARIABLES;
            if is_full || is_alone || some.iter().any(|axis| assumption[*axis] != of) {
                continue;
            }
            let mut looser = assumption.clone();
            some.iter().for_each(|axis| looser[*axis] = Assumed::Variable(usize::MAX));
            let looser = canonical(&looser);
            if is_typed(&looser) {
                assumption = looser;
            }
        }
    }
    assumption
}

/// The subsets of so many of the first numbers.
fn subsets(numbers: usize, count: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..count {
        let longer = all.iter().flat_map(|one| {
            let next = one.last().map_or(0, |last| last + 1);
            (next..numbers).map(move |next| one.iter().copied().chain([next]).collect())
        });
        all = longer.collect();
    }
    all
}

/// `assumption` with its variables numbered in the order in which they appear.
fn canonical(assumption: &[Assumed]) -> Assumption {
    let mut met: Vec<Assumed> = Vec::new();
    let number = |assumed: &Assumed| match assumed {
        Assumed::Known(_) | Assumed::Multiple { .. } => *assumed,
        Assumed::Variable(_) => {
            let number = met.iter().position(|other| other == assumed).unwrap_or_else(|| {
                met.push(*assumed);
                met.len() - 1
            });
            Assumed::Variable(number)
        }
    };
    assumption.iter().map(number).collect()
}
