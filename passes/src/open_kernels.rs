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
//! assumed: whoever calls a kernel asks before whether extents are as assumed. Where all that are assumed equal
//! are 1, an index along them is 0, however definitions [write it](singles).

mod alone;
mod assumptions;
mod singles;

use ir_core::{DType, TensorData, ValueId};
use te::compute::counts::OPEN;
use te::compute::parts::{Part, Source, split};
use te::compute::simplify::simplify;
use te::compute::{ComputeBuilder, Expression, Tensor};

pub(crate) use alone::Alone;
pub(crate) use assumptions::MOST_VARIABLES;
use assumptions::{Assumed, Assumption};

use crate::bounds::formula::Formula;
use crate::bounds::function::{Counted, NO_FORMULA, open};
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

/// Kernels for any extents.
pub(crate) struct Written {
    /// What their counts are: of each the number of the extent.
    pub(crate) counts: Vec<usize>,
    /// The kernels. Their parameters behind counts are those of what was written.
    pub(crate) parts: Vec<Part>,
    /// What of them it gives.
    pub(crate) results: Vec<Source>,
}

impl Written {
    /// Kernels of what `write` writes for any `extents` extents.
    ///
    /// # Errors
    /// What of it is another function for others, or computes extents from them.
    pub(crate) fn of(
        extents: usize,
        write: impl Fn(&mut ComputeBuilder, &[i64]) -> Vec<Tensor>,
    ) -> Result<Written, String> {
        if extents > MOST_VARIABLES {
            return Err(format!("it has more than {MOST_VARIABLES} extents that are not known"));
        }
        let points = alone::points_of(extents);
        let mut items = Vec::with_capacity(points.len());
        for point in &points {
            let mut builder = ComputeBuilder::apart();
            let results = write(&mut builder, point);
            items.push(builder.finish(&results)?);
        }
        let Counted { mut item, counts } = open(&points, &items.iter().collect::<Vec<_>>())?;
        simplify(item.body_mut().ok_or("it has no body")?);
        let counts = counts.iter().map(Formula::as_extent).collect::<Option<Vec<usize>>>();
        let (parts, results) = split(&item)?;
        Ok(Written { counts: counts.ok_or(NO_FORMULA)?, parts, results })
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
    /// Of each variable others: where one of them is 0, it may be 0, too.
    pub(crate) unless: Vec<Vec<usize>>,
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
                let mut conditions = vec![];
                for axis in 0..axes {
                    let value = e.load(&extents[axis], &[]);
                    match self.assumption[axis] {
                        Assumed::Known(known) => {
                            let known = e.index(known);
                            conditions.push(e.eq(value, known));
                        }
                        assumed => {
                            let variable = assumed.variable().expect("it is no number");
                            conditions.extend(self.conditions(e, &extents, axis, variable));
                        }
                    }
                }
                let all = conditions.into_iter().reduce(|all, one| e.and(all, one));
                all.unwrap_or_else(|| e.constant(DType::BOOL, ir_core::Scalar::Int(1)))
            });
            results.push(fits);
        }
        for formula in self.counts.iter().filter(|formula| self.place(formula).is_none()) {
            results.push(builder.compute("count", &[], |e, _| {
                let (zero, most) = (e.index(0), e.index(OPEN + 1));
                let mut sum = e.index(formula.constant);
                for (of, factor) in &formula.terms {
                    let mut term = None;
                    for variable in of {
                        let value = self.variable(e, &extents, *variable);
                        // What is larger than any count stays so, and so does what is less than none.
                        let mut value = e.min(value, most);
                        if self.is_element(*variable) {
                            let least = e.index(-OPEN - 1);
                            value = e.max(value, least);
                        }
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
                e.max(sum, zero)
            }));
        }
        if results.is_empty() {
            return None;
        }
        let item = builder.finish(&results).ok()?;
        Some(Function { name: "extents".to_string(), item, constants: vec![] })
    }

    /// What is asked of the number at the place `axis`, which `variable` decides.
    fn conditions(
        &self,
        e: &mut Expression<'_>,
        numbers: &[Tensor],
        axis: usize,
        variable: usize,
    ) -> Vec<ValueId> {
        let value = e.load(&numbers[axis], &[]);
        let first = self.first(variable);
        if first != axis {
            let other = e.load(&numbers[first], &[]);
            return vec![e.eq(value, other)];
        }
        let (mut conditions, own) = (vec![], self.variable(e, numbers, variable));
        if let Assumed::Multiple { step, rest, .. } = self.assumption[axis] {
            let whole = e.mul_index(own, step);
            let rest = e.index(rest);
            let again = e.add(whole, rest);
            conditions.push(e.eq(value, again));
        }
        let (least, most) = (self.least[variable], self.most[variable]);
        if least > self.unbounded(variable) {
            let least = e.index(least);
            let mut condition = e.ge(own, least);
            for other in &self.unless[variable] {
                let (other, zero) = (self.variable(e, numbers, *other), e.index(0));
                let is_empty = e.eq(other, zero);
                condition = e.or(condition, is_empty);
            }
            conditions.push(condition);
        }
        if most < LONGEST || self.is_element(variable) {
            let most = e.index(most);
            conditions.push(e.le(own, most));
        }
        conditions
    }

    /// What `variable` is where places have these numbers.
    fn variable(&self, e: &mut Expression<'_>, numbers: &[Tensor], variable: usize) -> ValueId {
        let first = self.first(variable);
        let value = e.load(&numbers[first], &[]);
        match self.assumption[first] {
            Assumed::Multiple { step, rest, .. } => {
                let rest = e.index(rest);
                let multiple = e.sub(value, rest);
                let step = e.index(step);
                e.scalar(te::scalar::ScalarOp::FloorDiv, &[multiple, step])
            }
            _ => value,
        }
    }

    /// The place whose number `formula` is, where it is one.
    pub(crate) fn place(&self, formula: &Formula) -> Option<usize> {
        let place = self.first(formula.as_extent()?);
        matches!(self.assumption[place], Assumed::Variable(_)).then_some(place)
    }

    /// Whether extents of operands may be others than the kernels are written for.
    pub(crate) fn is_assumed(&self) -> bool {
        let axes = 0..self.assumption.len();
        self.least.iter().enumerate().any(|(variable, least)| *least > self.unbounded(variable))
            || self.most.iter().any(|most| *most < LONGEST)
            || self.least.len() < self.assumption.len()
            || self.assumption.iter().any(|one| matches!(one, Assumed::Multiple { .. }))
            || axes.into_iter().any(|axis| self.places.is_element(axis))
    }

    /// Whether `variable` is an element, which may be less than 0.
    fn is_element(&self, variable: usize) -> bool {
        self.places.is_element(self.first(variable))
    }

    /// The least number that says that `variable` may be any.
    fn unbounded(&self, variable: usize) -> i64 {
        if self.is_element(variable) { -LONGEST } else { 0 }
    }

    /// The first place that `variable` decides.
    fn first(&self, variable: usize) -> usize {
        let first = self.assumption.iter().position(|other| other.variable() == Some(variable));
        first.expect("a variable is the extent of an axis")
    }
}
