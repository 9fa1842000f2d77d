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

mod formula;
mod function;
mod kernel;

use ir_core::{Diagnostic, Diagnostics, Dim, DimExprData, Module, Registry, Symbol, Type};
use relay::language::FUNC;

use crate::bind_extents::bind_extents;
use crate::codes::BOUNDS;
pub use kernel::join;

/// What an extent may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Its name: a shape parameter of `@main`.
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

/// Numbers that programs do not mention, small and large.
const PRIMES: [i64; 13] = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43];

/// The extents that a program is lowered for: `bounds`, and then others.
fn points(bounds: &[i64]) -> Vec<Vec<i64>> {
    let others = 1..formula::least_points(bounds.len()) as i64;
    let prime = |point: i64, extent: i64| {
        PRIMES[(4 * point + 7 * extent + point * extent) as usize % PRIMES.len()]
    };
    let others = others.map(|point| {
        (0..bounds.len() as i64).map(|extent| prime(point, extent)).collect::<Vec<i64>>()
    });
    std::iter::once(bounds.to_vec()).chain(others).collect()
}

/// The names of the extents of the parameters of `@main`, in order; `None` where one is `?`, or a
/// parameter is no tensor.
fn names(module: &Module) -> Option<Vec<Symbol>> {
    let main = module.get("main").filter(|item| item.signature.op == FUNC)?;
    let function = main.signature.ty.as_function()?;
    let mut names = Vec::new();
    for param in &function.params {
        for dim in &param.as_tensor()?.shape {
            match dim {
                Dim::Known(_) => {}
                Dim::Expr(expr) => match expr.data() {
                    DimExprData::Parameter(name) if names.contains(&name) => {}
                    DimExprData::Parameter(name) => names.push(name),
                    _ => return None,
                },
                Dim::Any => return None,
            }
        }
    }
    Some(names)
}

/// Copies of `module`, a program without calls of functions, for the bounds of its extents and then for
/// others, with the bounds in the order of the parameters.
///
/// # Errors
/// Where an extent has no bound or no name, and where the program contradicts extents.
pub fn split(
    module: &Module,
    registry: &Registry,
    bounds: &[Bound],
) -> Result<(Vec<Bound>, Vec<Point>), Diagnostics> {
    let span = module.get("main").and_then(|main| main.signature.span);
    let error = |message: String| Diagnostic::error(BOUNDS, message).at(span);
    let names = names(module).ok_or_else(|| {
        error("the parameters of `@main` are tensors whose open extents have names".to_string())
            .help("write `def @main[n](%x: Tensor[(n, 4), float32])`, with a name for each extent")
    })?;
    let mut used = Vec::new();
    for name in names {
        let bound = bounds.iter().find(|bound| bound.name == name.as_str());
        used.push(bound.cloned().ok_or_else(|| {
            error(format!("nothing says how large the extent `{name}` may be"))
                .help(format!("give it a bound, such as `--dim {name}=1..512`"))
        })?);
    }
    let most: Vec<i64> = used.iter().map(|bound| bound.most).collect();
    let function = module.get("main").and_then(|main| main.signature.ty.as_function());
    let params = function.map_or(&[][..], |function| &function.params);
    let mut all = Vec::new();
    for extents in points(&most) {
        let known = |dim: &Dim| {
            let Dim::Expr(expr) = dim else { return *dim };
            let DimExprData::Parameter(name) = expr.data() else { return *dim };
            let number = used.iter().position(|bound| bound.name == name.as_str());
            number.map_or(*dim, |number| Dim::Known(extents[number]))
        };
        let types = params.iter().filter_map(|ty| {
            let tensor = ty.as_tensor()?;
            Some(Type::tensor(tensor.shape.iter().map(known), tensor.dtype))
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
