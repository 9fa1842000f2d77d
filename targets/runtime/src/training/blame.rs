//! Where a step of training begins to compute what is no number.

use ir_core::{Diagnostic, Diagnostics, OpId, ValueId};
use relay::interpreter::{Interpreter, Value, flatten};
use relay::language::{Yield, short_name};
use rustc_hash::FxHashMap;

use super::Trainer;
use crate::codes::NO_NUMBER;
use crate::{MAIN, Parameters};

impl Trainer<'_> {
    /// Whether the last [`step`](Trainer::step), before it was taken, gave a loss, a weight or a state with
    /// an element that is no number.
    ///
    /// # Errors
    /// None, unless the program is not what it said.
    pub fn gave_no_number(&self) -> Result<bool, Diagnostics> {
        for output in 0..=self.carried.len() {
            if self.program.output(output)?.to_f64().iter().any(|element| element.is_nan()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The error that says which operator was the first of the last step, before it was taken, to give what
    /// is no number without being given such. The reference interpreter looks for it.
    ///
    /// # Errors
    /// When the interpreter cannot run the step.
    pub fn blame(&self) -> Result<Diagnostic, Diagnostics> {
        let step = self.steps + 1;
        let error = Diagnostic::error(NO_NUMBER, format!("step {step} gave what is no number"));
        Ok(match self.first_without_number()? {
            None => error.note(match self.given_without_number()? {
                Some(given) => format!("{given} has it already"),
                None => "the reference interpreter gives numbers for it".to_string(),
            }),
            Some(op) => {
                let item = self.step.get(MAIN).expect("a step has a function");
                let body = item.body.as_deref().expect("a step has a body");
                let name = body.op_name(op);
                let span = body.loc(op).span(item.signature.span);
                error
                    .at(span)
                    .note(format!("`{}` is the first to give it", short_name(name.as_str())))
            }
        })
    }

    /// The program of a step, and its arguments as they are now.
    ///
    /// # Errors
    /// None, unless the program is not what it said.
    pub fn reproducer(&self) -> Result<(&ir_core::Module, arrays::Arrays), Diagnostics> {
        let inputs = Parameters::of_main(&self.step, self.registry).all.into_iter().enumerate();
        let arrays = inputs.map(|(index, input)| Ok((input.name, self.program.input(index)?)));
        Ok((&self.step, arrays.collect::<Result<_, Diagnostics>>()?))
    }

    /// What the step is given that is no number: where in the data, or which parameter.
    fn given_without_number(&self) -> Result<Option<String>, Diagnostics> {
        let inputs = Parameters::of_main(&self.step, self.registry).all;
        for (index, input) in inputs.into_iter().enumerate() {
            let elements = self.program.input(index)?.to_f64();
            let Some(element) = elements.iter().position(|element| element.is_nan()) else {
                continue;
            };
            let (name, row) = (input.name, self.batches.row(self.steps, index, element));
            return Ok(Some(match row {
                Some(row) => format!("row {row} of the data for `%{name}`, from 0 on,"),
                None => format!("`%{name}`"),
            }));
        }
        Ok(None)
    }

    fn first_without_number(&self) -> Result<Option<OpId>, Diagnostics> {
        let item = self.step.get(MAIN).expect("a step has a function");
        let body = item.body.as_deref().expect("a step has a body");
        let mut values: FxHashMap<ValueId, Value> = FxHashMap::default();
        for (index, param) in body.block_args(body.entry()).iter().enumerate() {
            values.insert(*param, Value::Tensor(self.program.input(index)?));
        }
        let is_one = |value: &Value| {
            let tensors = flatten(value).unwrap_or_default();
            tensors.iter().any(|tensor| tensor.to_f64().iter().any(|element| element.is_nan()))
        };
        let interpreter = Interpreter::new(&self.step, self.registry);
        for op in body.block_ops(body.entry()).filter(|op| !body.is::<Yield>(*op)) {
            let environment = |value: ValueId| values.get(&value).cloned();
            let value = interpreter.evaluate_op(body, op, item.signature.span, &environment)?;
            // Functions have no elements.
            if is_one(&value) && !body.operands(op).any(|operand| is_one(&values[&operand])) {
                return Ok(Some(op));
            }
            values.insert(body.result(op, 0), value);
        }
        Ok(None)
    }
}
