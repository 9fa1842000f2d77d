//! Tensors of any extents up to a bound.

use ir_core::tensor::tensor_bytes;
use ir_core::{OpId, Type};
use prog::Bounded;
use prog::bounded::Shapes;

use super::Writer;

/// A tensor of a type, as C.
struct Array {
    bytes: usize,
    /// Of one element.
    size: usize,
    axes: usize,
    /// Its extents, as an array.
    extents: String,
}

impl Array {
    fn of(ty: Type) -> Array {
        let tensor = ty.as_tensor().expect("kernels take and give tensors");
        let shape = tensor.known_shape().expect("a kernel has known extents");
        let bytes = tensor_bytes(&shape, tensor.dtype).expect("the verifier knows its size");
        let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
        let extents = format!("(const int64_t[]){{{}}}", extents.join(", "));
        Array { bytes, size: tensor.dtype.bytes(), axes: shape.len(), extents }
    }
}

impl Writer<'_, '_> {
    /// Computes tensors by a kernel for the most extents. The results are new tensors.
    pub(super) fn bounded(&mut self, number: usize, op: OpId, bounded: &Bounded) {
        let body = self.functions[number].body;
        let p = self.cx.prefix.clone();
        let types: Vec<Type> = bounded.inputs.iter().map(|input| body.ty(*input)).collect();
        let results: Vec<Type> = body.results(op).map(|result| body.ty(result)).collect();
        let shapes = Shapes::in_module(bounded, self.cx.module, &types, &results);
        let shapes = shapes.expect("the verifier knows the kernel");
        let site = self.site(number, op);
        let failures = bounded.failures(self.cx.module).len();
        let checks = prog::sites::checks(self.cx.module, bounded.kernel).len();
        let memory = site + failures + checks;
        self.callees.push(bounded.kernel);
        let called = (self.cx.kernels)(bounded.kernel).expect("kernels are written before");
        self.line("{");
        self.depth += 1;
        self.read_counts(number, bounded, &shapes, site);
        let counts = 0..shapes.bounds.len();
        let mut arguments: Vec<String> =
            counts.map(|count| format!("(void *)(counts + {count})")).collect();
        let mut temporary = Vec::new();
        for ((input, ty), own) in bounded.inputs.iter().zip(&types).zip(&shapes.inputs) {
            if !prog::is_open(*ty) {
                arguments.push(self.argument(number, *input));
                continue;
            }
            let (name, array) = (self.name(number, *input).to_string(), Array::of(*own));
            let wide = format!("wide{}", temporary.len());
            let Array { bytes, size, axes, extents } = array;
            self.line(&format!("{p}tensor {wide};"));
            self.line(&format!("if ({p}new_open(p, {bytes}u, {memory}, &{wide})) {{ return 1; }}"));
            self.line("{");
            self.line(&format!("    int64_t part[{axes}];"));
            self.line(&format!("    memcpy(part, {name}.data - 48, sizeof part);"));
            self.line(&format!(
                "    {p}move({wide}.data, {extents}, {name}.data, part, part, {axes}, {size});"
            ));
            self.line("}");
            arguments.push(format!("(void *){wide}.data"));
            temporary.push(wide);
        }
        let inputs = temporary.len();
        let mut vectors = Vec::new();
        for (result, (ty, own)) in body.results(op).zip(results.iter().zip(&shapes.results)) {
            if !prog::is_open(*ty) {
                self.new_tensor(number, result, memory);
                arguments.push(self.argument(number, result));
                continue;
            }
            let Array { bytes, axes, .. } = Array::of(*own);
            let (wide, vector) =
                (format!("wide{}", temporary.len()), format!("extents{}", vectors.len()));
            self.line(&format!("{p}tensor {wide};"));
            self.line(&format!("if ({p}new_open(p, {bytes}u, {memory}, &{wide})) {{ return 1; }}"));
            self.line(&format!("int64_t {vector}[{axes}];"));
            arguments.push(format!("(void *){wide}.data"));
            temporary.push(wide);
            vectors.push(vector);
        }
        arguments.extend(vectors.iter().map(|vector| format!("(void *){vector}")));
        if checks > 0 {
            self.line(&format!("int32_t failed[{checks}];"));
            arguments.push("failed".to_string());
        }
        if called.workspace > 0 {
            arguments.push("p->scratch".to_string());
        }
        if called.takes_threads {
            arguments.push("p->threads".to_string());
        }
        let is_counted = self.cx.counters.contains(&bounded.kernel);
        if is_counted {
            self.count("visit", bounded.kernel);
        }
        self.line(&format!("{}({});", called.symbol, arguments.join(", ")));
        if is_counted {
            self.count("resume", self.functions[number].name);
        }
        if checks > 0 {
            let first = site + failures;
            self.line(&format!("for (int i = 0; i < {checks}; i++) {{"));
            self.line(&format!("    if (failed[i]) {{ return {p}fail(p, 2, {first} + i); }}"));
            self.line("}");
        }
        let open = body.results(op).zip(&shapes.results);
        let open = open.filter(|(result, _)| prog::is_open(body.ty(*result)));
        for (index, (result, own)) in open.enumerate() {
            let (name, array) = (self.name(number, result).to_string(), Array::of(*own));
            let Array { size, axes, extents, .. } = array;
            let (wide, vector) = (&temporary[inputs + index], &vectors[index]);
            let elements: Vec<String> =
                (0..axes).map(|axis| format!(" * (size_t){vector}[{axis}]")).collect();
            let bytes = format!("{size}u{}", elements.join(""));
            self.line(&format!("if ({p}new_open(p, {bytes}, {memory}, &{name})) {{ return 1; }}"));
            self.line(&format!("memcpy({name}.data - 48, {vector}, sizeof {vector});"));
            self.line(&format!(
                "{p}move({name}.data, {vector}, {wide}.data, {extents}, {vector}, {axes}, {size});"
            ));
        }
        for wide in temporary {
            self.line(&format!("{p}drop(p, {wide}.owner);"));
        }
        self.depth -= 1;
        self.line("}");
    }

    /// Reads the counts off the extents of inputs, and fails at `site`, or one behind it for each count,
    /// where they are none that the kernel takes.
    fn read_counts(&mut self, number: usize, bounded: &Bounded, shapes: &Shapes, site: usize) {
        let p = self.cx.prefix.clone();
        self.line(&format!("int64_t counts[{}];", shapes.bounds.len()));
        let mut known = vec![false; shapes.bounds.len()];
        let inputs = bounded.inputs.iter().zip(&shapes.inputs).zip(&shapes.axes);
        for ((input, own), axes) in inputs.filter(|(_, axes)| !axes.is_empty()) {
            let name = self.name(number, *input).to_string();
            let shape = own.as_tensor().and_then(|tensor| tensor.known_shape());
            let shape = shape.expect("a kernel has known extents");
            for (axis, (count, extent)) in axes.iter().zip(&shape).enumerate() {
                let found = format!("{p}extent({name}, {axis})");
                let expected = match count {
                    Some(count) if !std::mem::replace(&mut known[*count], true) => {
                        self.line(&format!("counts[{count}] = {found};"));
                        continue;
                    }
                    Some(count) => format!("counts[{count}]"),
                    None => extent.to_string(),
                };
                self.line(&format!("if ({found} != {expected}) {{"));
                self.line(&format!("    return {p}fail(p, 2, {site});"));
                self.line("}");
            }
        }
        for (count, (least, bound)) in bounded.least.iter().zip(&shapes.bounds).enumerate() {
            self.line(&format!("if (counts[{count}] < {least} || counts[{count}] > {bound}) {{"));
            self.line(&format!("    return {p}fail(p, 2, {});", site + 1 + count));
            self.line("}");
        }
    }
}
