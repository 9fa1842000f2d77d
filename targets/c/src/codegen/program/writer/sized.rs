//! Tensors of any extents, by kernels that are told them.

use ir_core::{OpId, Type, ValueId};
use prog::Sized;
use prog::sized::{ends_at_count, is_count};
use te::compute::counts::{OPEN, bounds, open_count};

use super::Writer;

impl Writer<'_, '_> {
    /// Computes tensors by a kernel for any extents. The results are new tensors, or one is an operand that nobody
    /// else has any more.
    pub(super) fn sized(&mut self, number: usize, op: OpId, sized: &Sized) {
        let body = self.functions[number].body;
        let p = self.cx.prefix.clone();
        let signature = self.cx.module.get(sized.function).map(|item| &item.signature);
        let counts = signature.map_or(0, |signature| bounds(signature).len());
        let (counts, inputs) = sized.inputs.split_at(counts);
        let results: Vec<ValueId> = body.results(op).collect();
        let (taken, given) = sized.split(results.len());
        let site = self.site(number, op);
        let checks = prog::sites::checks(self.cx.module, sized.function).len();
        let memory = site + 1 + checks;
        self.callees.push(sized.function);
        let called = (self.cx.kernels)(sized.function).expect("kernels are written before");
        let mut misfits = Vec::new();
        for count in counts {
            let name = self.name(number, *count);
            misfits.push(format!("{name} < 0 || {name} > {OPEN}"));
        }
        debug_assert!(is_count(OPEN) && !is_count(OPEN + 1));
        for (input, ty) in inputs.iter().zip(taken) {
            if ends_at_count(*ty) {
                let name = self.name(number, *input);
                let extents = self.extents(number, counts, *ty);
                let axes = extents.iter().enumerate();
                misfits.extend(
                    axes.map(|(axis, extent)| format!("{p}extent({name}, {axis}) != {extent}")),
                );
            }
        }
        if !misfits.is_empty() {
            self.line(&format!("if ({}) {{", misfits.join(" || ")));
            self.line(&format!("    return {p}fail(p, 2, {site});"));
            self.line("}");
        }
        let mut arguments: Vec<String> =
            sized.inputs.iter().map(|input| self.argument(number, *input)).collect();
        for (index, (result, ty)) in results.iter().zip(given).enumerate() {
            let last = self.last_use(number, op, &sized.inputs, index, &called);
            let is_same = |input: &ValueId| {
                let mut taken = inputs.iter().zip(taken);
                taken.any(|(other, taken)| other == input && taken == ty)
            };
            let last = last.filter(is_same);
            if let Some(input) = last {
                self.take_over(number, input, *result);
            }
            match ty.as_tensor().filter(|_| ends_at_count(*ty)) {
                Some(tensor) => {
                    let extents = self.extents(number, counts, *ty);
                    let (axes, extents) = (extents.len(), extents.join(", "));
                    let (name, size) = (self.name(number, *result), tensor.dtype.bytes());
                    let new = format!(
                        "{p}new_sized(p, (const int64_t[]){{{extents}}}, {axes}, {size}, {memory}, &{name})"
                    );
                    self.line(&format!("if ({new}) {{ return 1; }}"));
                }
                None => self.new_tensor(number, *result, memory),
            }
            if last.is_some() {
                self.depth -= 1;
                self.line("}");
            }
            arguments.push(self.argument(number, *result));
        }
        self.call_kernel(number, sized.function, &called, arguments, (site + 1, checks));
    }

    /// The extents of a tensor of type `ty` of a compute function that takes `counts`.
    fn extents(&self, number: usize, counts: &[ValueId], ty: Type) -> Vec<String> {
        let shape = ty.as_tensor().and_then(|tensor| tensor.known_shape());
        let shape = shape.expect("tensors of compute functions have extents");
        let extent = |extent: &i64| match open_count(*extent).and_then(|count| counts.get(count)) {
            Some(count) => self.name(number, *count).to_string(),
            None => extent.to_string(),
        };
        shape.iter().map(extent).collect()
    }
}
