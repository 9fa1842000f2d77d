//! Programs on tensors of extents that are known when they run, up to a bound, as one program.
//!
//! Where the extents of the parameters of a list of kernels are names, the program is lowered for some
//! numbers in their places, the bounds first, as any program is. What differs from one to the other are
//! numbers: extents of axes, and constants made of them. Each is found as a formula of the extents, from
//! more of them than the formula has unknowns, and becomes a [count](te::compute::counts) or an
//! expression of counts. **So a program with counts is, for any extents, the program that is lowered for
//! these**, but for where tensors lie; and no operator knows of counts. What differs in another way, such
//! as a window that is cut at a border, is refused.
//!
//! Extents that appear in a program are primes otherwise, so that none is mistaken for another.

pub(crate) mod formula;
pub(crate) mod function;
mod kernel;

use ir_core::{Diagnostic, Diagnostics, Dim, DimExprData, Module, Registry, Type};
use relay::language::FUNC;

use crate::bind_extents::bind_extents;
use crate::codes::BOUNDS;
pub use kernel::join;

/// What an extent may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Its name: a shape parameter of `@main`, or, of an extent that is `?`, its parameter and axis, as in
    /// `x.0`.
    pub name: String,
    /// The least that it is.
    pub least: i64,
    /// The most.
    pub most: i64,
}

/// A program for some extents.
pub struct Point {
    /// They, in the order of the bounds.
    pub extents: Vec<i64>,
    /// The program, all extents known.
    pub module: Module,
}

/// Numbers that programs do not mention, small and large. There is a prime number of them, as of the first
/// [`FEW`].
const PRIMES: [i64; 53] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97,
    101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193,
    197, 199, 211, 223, 227, 229, 233, 239, 241, 251,
];

/// How many numbers suffice for up to [`MOST_OF_FEW`] extents.
const FEW: usize = 19;

/// The most extents for which few numbers suffice.
pub(crate) const MOST_OF_FEW: usize = 4;

/// The most extents for which 53 numbers suffice.
pub(crate) const MOST_EXTENTS: usize = 8;

/// The numbers of which so many extents are taken.
fn primes(extents: usize) -> &'static [i64] {
    if extents <= MOST_OF_FEW { &PRIMES[..FEW] } else { &PRIMES }
}

/// The extents that a program is lowered for: `first`, and then others, out of `primes`, of which there is a
/// prime number.
pub(crate) fn points(first: &[i64], primes: &[i64]) -> Vec<Vec<i64>> {
    let others = 1..formula::least_points(first.len()) as i64;
    let prime = |point: i64, extent: i64| {
        // Where all extents would be the same number, which definitions may take for another case.
        let point = if point >= primes.len() as i64 - 7 { point + 1 } else { point };
        primes[(4 * point + 7 * extent + point * extent) as usize % primes.len()]
    };
    let others = others.map(|point| {
        (0..first.len() as i64).map(|extent| prime(point, extent)).collect::<Vec<i64>>()
    });
    std::iter::once(first.to_vec()).chain(others).collect()
}

/// For each axis of each parameter of `@main` what its extent is called where it is open: by its name, or,
/// where it is `?`, as `x.0` for axis 0 of `%x`. `None` where a parameter is no tensor, or an extent is
/// computed from others.
fn names(module: &Module) -> Option<Vec<Vec<Option<String>>>> {
    let main = module.get("main").filter(|item| item.signature.op == FUNC)?;
    let (body, function) = (main.body.as_deref()?, main.signature.ty.as_function()?);
    let params = function.params.iter().zip(body.block_args(body.entry())).enumerate();
    let names = params.map(|(index, (param, value))| {
        let name = |(axis, dim): (usize, &Dim)| match dim {
            Dim::Known(_) => Some(None),
            Dim::Expr(expr) => match expr.data() {
                DimExprData::Parameter(name) => Some(Some(name.to_string())),
                _ => None,
            },
            Dim::Any => {
                let name = body.name_hint(*value).name;
                let name = name.map_or_else(|| format!("arg{index}"), |name| name.to_string());
                Some(Some(format!("{name}.{axis}")))
            }
        };
        param.as_tensor()?.shape.iter().enumerate().map(name).collect()
    });
    names.collect()
}

/// Copies of `module`, a program without calls of functions, for the bounds of its extents and then for
/// others, with the bounds in the order of the parameters.
///
/// # Errors
/// Where an extent has no bound, and where the program contradicts extents.
pub fn split(
    module: &Module,
    registry: &Registry,
    bounds: &[Bound],
) -> Result<(Vec<Bound>, Vec<Point>), Diagnostics> {
    let span = module.get("main").and_then(|main| main.signature.span);
    let error = |message: String| Diagnostic::error(BOUNDS, message).at(span);
    let names = names(module).ok_or_else(|| {
        error(
            "the parameters of `@main` are no tensors with an extent of its own on each axis"
                .into(),
        )
        .help("write `def @main[n](%x: Tensor[(n, 4), float32])`, with a name for each extent")
    })?;
    let mut used: Vec<Bound> = Vec::new();
    for name in names.iter().flatten().flatten() {
        if used.iter().any(|bound| bound.name == *name) {
            continue;
        }
        let bound = bounds.iter().find(|bound| bound.name == *name);
        used.push(bound.cloned().ok_or_else(|| {
            error(format!("nothing says how large the extent `{name}` may be"))
                .help(format!("give it a bound, such as `--dim {name}=1..512`"))
        })?);
    }
    let most: Vec<i64> = used.iter().map(|bound| bound.most).collect();
    let function = module.get("main").and_then(|main| main.signature.ty.as_function());
    let params = function.map_or(&[][..], |function| &function.params);
    let mut all = Vec::new();
    for extents in points(&most, primes(most.len())) {
        let known = |(dim, name): (&Dim, &Option<String>)| {
            let number = used.iter().position(|bound| Some(&bound.name) == name.as_ref());
            number.map_or(*dim, |number| Dim::Known(extents[number]))
        };
        let types = params.iter().zip(&names).filter_map(|(ty, names)| {
            let tensor = ty.as_tensor()?;
            Some(Type::tensor(tensor.shape.iter().zip(names).map(known), tensor.dtype))
        });
        let types: Vec<Type> = types.collect();
        let mut module = module.clone();
        let errors = bind_extents(&mut module, registry, &types);
        if !errors.is_empty() {
            return Err(errors);
        }
        all.push(Point { extents, module });
    }
    Ok((used, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_a_point_differ() {
        for extents in 1..=MOST_EXTENTS {
            let first: Vec<i64> = (0..extents as i64).map(|extent| 1000 + extent).collect();
            for mut point in points(&first, primes(extents)) {
                point.sort_unstable();
                point.dedup();
                assert_eq!(point.len(), extents);
            }
        }
    }
}
