//! Kernels for operators on tensors of unknown extents.
//!
//! Extents of operands are variables, some of them equal: as many different ones as typing allows. The
//! operators are written as tensor expressions for some numbers in their places, and what differs becomes
//! [open counts](te::compute::counts), as where programs have bounds ([`crate::bounds`]). So no operator
//! knows of this, and **for any extents that are as assumed, a kernel computes what the operators do for
//! these**. That is so for the numbers that are tried, up to the longest axis; kernels are used between the
//! least and the largest of them for which the operators are the same function.
//!
//! Operators that compute other extents than by sums and products, and those whose results are as large as
//! their data say, have no such kernel. Neither has an operand whose extent is 1 where another one is
//! assumed: whoever calls a kernel asks before whether extents are as assumed.

mod alone;
mod assumptions;

use ir_core::{DType, TensorData};
use te::compute::counts::OPEN;
use te::compute::parts::{Part, Source};
use te::compute::{ComputeBuilder, Tensor};

pub(crate) use alone::Alone;
use assumptions::{Assumed, Assumption};

use crate::bounds::formula::Formula;
use crate::lower_te::function::Function;

/// The longest extent that is tried.
const LONGEST: i64 = OPEN - 1;

/// The numbers that decide extents.
#[derive(Clone)]
pub(crate) struct Places {
    /// How many tensors the operands are that kernels take.
    pub(crate) tensors: usize,
    /// The axes of these that are open, as the number of the tensor and the axis; behind them, numbered on,
    /// the elements of other operands.
    pub(crate) axes: Vec<(usize, usize)>,
}

impl Places {
    /// Whether place number `place` is an element.
    fn is_element(&self, place: usize) -> bool {
        self.axes[place].0 >= self.tensors
    }
}

/// Kernels that compute some operators together, one after the other.
pub(crate) struct OpenKernels {
    /// What they are called.
    pub(crate) name: String,
    /// What decides the extents of everything.
    pub(crate) places: Places,
    /// What each of these is assumed to be.
    pub(crate) assumption: Assumption,
    /// The least that each variable is.
    pub(crate) least: Vec<i64>,
    /// The most that each is.
    pub(crate) most: Vec<i64>,
    /// What each of the counts of the kernels is.
    pub(crate) counts: Vec<Formula>,
    /// The kernels. Their parameters behind counts are the operands, then `constants`.
    pub(crate) parts: Vec<Part>,
    /// What of them the operators give.
    pub(crate) results: Vec<Source>,
    /// Constants that are no scalars.
    pub(crate) constants: Vec<TensorData>,
}

impl OpenKernels {
    /// The compute function of what has to be known of the extents of the operands before the kernels run:
    /// it takes the number at each place, and gives whether they are as assumed, and the counts that
    /// are none of them. `None` where there is nothing to know.
    pub(crate) fn extents(&self) -> Option<Function> {
        let mut builder = ComputeBuilder::new();
        let axes = self.assumption.len();
        let extents: Vec<Tensor> =
            (0..axes).map(|axis| builder.input(&format!("n{axis}"), &[], DType::INT64)).collect();
        let mut results = Vec::new();
        if self.is_assumed() {
            let fits = builder.compute("fits", &[], |e, _| {
                let mut all = None;
                for axis in 0..axes {
                    let value = e.load(&extents[axis], &[]);
                    let variable = match self.assumption[axis] {
                        Assumed::Variable(variable) => variable,
                        Assumed::Known(known) => {
                            let known = e.index(known);
                            let condition = e.eq(value, known);
                            all = Some(all.map_or(condition, |all| e.and(all, condition)));
                            continue;
                        }
                    };
                    let first = self.first(variable);
                    let (least, most) = (self.least[variable], self.most[variable]);
                    let is_element = self.places.is_element(axis);
                    let mut conditions = vec![];
                    if first != axis {
                        let other = e.load(&extents[first], &[]);
                        conditions.push(e.eq(value, other));
                    } else {
                        if least > 0 || is_element {
                            let least = e.index(least);
                            conditions.push(e.ge(value, least));
                        }
                        if most < LONGEST || is_element {
                            let most = e.index(most);
                            conditions.push(e.le(value, most));
                        }
                    }
                    for condition in conditions {
                        all = Some(all.map_or(condition, |all| e.and(all, condition)));
                    }
                }
                all.unwrap_or_else(|| e.constant(DType::BOOL, ir_core::Scalar::Int(1)))
            });
            results.push(fits);
        }
        for formula in self.counts.iter().filter(|formula| formula.as_extent().is_none()) {
            results.push(builder.compute("count", &[], |e, _| {
                let most = e.index(OPEN + 1);
                let mut sum = e.index(formula.constant);
                for (of, factor) in &formula.terms {
                    let mut term = None;
                    for variable in of {
                        let value = e.load(&extents[self.first(*variable)], &[]);
                        // What is larger than any count stays so.
                        let value = e.min(value, most);
                        term = Some(match term {
                            None => value,
                            Some(term) => {
                                let product = e.mul(term, value);
                                e.min(product, most)
                            }
                        });
                    }
                    let term = term.unwrap_or_else(|| e.index(1));
                    let term = e.mul_index(term, *factor);
                    sum = e.add(sum, term);
                }
                sum
            }));
        }
        if results.is_empty() {
            return None;
        }
        let item = builder.finish(&results).ok()?;
        Some(Function { name: "extents".to_string(), item, constants: vec![] })
    }

    /// Whether extents of operands may be others than the kernels are written for.
    pub(crate) fn is_assumed(&self) -> bool {
        let axes = 0..self.assumption.len();
        self.least.iter().any(|least| *least > 0)
            || self.most.iter().any(|most| *most < LONGEST)
            || self.least.len() < self.assumption.len()
            || axes.into_iter().any(|axis| self.places.is_element(axis))
    }

    /// The first axis whose extent is `variable`.
    pub(crate) fn first(&self, variable: usize) -> usize {
        let assumed = Assumed::Variable(variable);
        let first = self.assumption.iter().position(|other| *other == assumed);
        first.expect("a variable is the extent of an axis")
    }
}
