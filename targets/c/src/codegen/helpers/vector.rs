//! Vectors: their types, loads and stores, and operations on all lanes.

use ir_core::DType;
use te::scalar::{ScalarOp, Typing};

use super::scalar::{arithmetic, bitwise, comparison, is_exact};
use super::{Helpers, Operand, function};
use crate::codegen::expr::{
    COMPARE, Expr, SUM, computed, is_half, is_odd, scalar, signed, storage, stored_bits, suffix,
    unsigned,
};
use crate::codegen::math;
use crate::codegen::ranges::Range;

/// An operand of a vector operation.
#[derive(Clone, Debug)]
pub(in crate::codegen) enum Lane {
    /// A vector.
    Vector(Expr),
    /// A scalar that stands in every lane.
    Splat(Expr),
}

/// How vectors are cut and put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::codegen) enum Regroup {
    Low,
    High,
    Join,
}

impl Helpers {
    /// The type of `lanes` lanes of `elem`, an element type that C computes in.
    pub(in crate::codegen) fn vector_type(&mut self, elem: DType, lanes: usize) -> String {
        let name = format!("{}x{lanes}", suffix(elem));
        let bytes = stored_bits(elem) / 8 * lanes;
        let c = storage(elem);
        self.types.entry(name.clone()).or_insert_with(|| {
            format!("typedef {c} {name} __attribute__((vector_size({bytes})));\n")
        });
        name
    }

    /// `typedef` of a vector at any address.
    fn unaligned_type(&mut self, elem: DType, lanes: usize) -> String {
        let bytes = stored_bits(elem) / 8;
        let c = storage(elem);
        let name = format!("{}_at", self.vector_type(elem, lanes));
        self.types.entry(name.clone()).or_insert_with(|| {
            format!(
                "typedef {c} {name} __attribute__((vector_size({}), aligned({bytes}), \
                 may_alias));\n",
                bytes * lanes
            )
        });
        name
    }

    /// The function that loads a vector from any address.
    fn load_plain(&mut self, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let unaligned = self.unaligned_type(elem, lanes);
        let parameters = format!("const {} *address", storage(elem));
        let body = format!("return *(const {unaligned} *)address;");
        self.define(format!("load_{vector}"), |_, n| function(&vector, n, &parameters, &body))
    }

    /// The function that loads `lanes` words of four bytes each from any address.
    pub(in crate::codegen) fn load_words(&mut self, lanes: usize) -> String {
        let (vector, attributes) = match lanes {
            1 => ("int32_t".to_string(), String::new()),
            _ => {
                let bytes = 4 * lanes;
                (self.vector_type(DType::INT32, lanes), format!("vector_size({bytes}), "))
            }
        };
        let of_bytes =
            if lanes == 1 { "i32_of_bytes".into() } else { format!("{vector}_of_bytes") };
        self.types.entry(of_bytes.clone()).or_insert_with(|| {
            format!(
                "typedef int32_t {of_bytes} __attribute__(({attributes}aligned(1), may_alias));\n"
            )
        });
        let body = format!("return *(const {of_bytes} *)address;");
        self.define(format!("load_{of_bytes}"), |_, n| {
            function(&vector, n, "const void *address", &body)
        })
    }

    fn store_plain(&mut self, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let unaligned = self.unaligned_type(elem, lanes);
        let parameters = format!("{} *address, {vector} value", storage(elem));
        let body = format!("*({unaligned} *)address = value;");
        self.define(format!("store_{vector}"), |_, n| function("void", n, &parameters, &body))
    }

    /// The vector of `lanes` elements of type `dtype` at `address`, as computed with: a `bool` as
    /// a mask of bytes, a 16-bit float as `float`.
    pub(in crate::codegen) fn load_vector(
        &mut self,
        dtype: DType,
        lanes: usize,
        address: &Expr,
    ) -> Expr {
        let dtype = scalar(dtype);
        if dtype.is_bool() {
            let load = self.load_plain(DType::UINT8, lanes);
            let mask = self.vector_type(DType::INT8, lanes);
            let bytes = Expr::call(&load, &[address]);
            return Expr::cast(&mask, &Expr::new(format!("{} != 0", bytes.text), COMPARE));
        }
        if is_half(dtype) {
            let load = self.load_plain(DType::UINT16, lanes);
            let widen = self.widen_half(dtype, lanes);
            return Expr::call(&widen, &[&Expr::call(&load, &[address])]);
        }
        let load = self.load_plain(dtype, lanes);
        Expr::call(&load, &[address])
    }

    /// The vector of every second of the elements from `address` on, as
    /// [`load_vector`](Helpers::load_vector) gives it. Nothing behind the last one is read.
    pub(in crate::codegen) fn load_every_second(
        &mut self,
        dtype: DType,
        lanes: usize,
        address: &Expr,
    ) -> Expr {
        let elem = if scalar(dtype).is_bool() { DType::INT8 } else { computed(scalar(dtype)) };
        let vector = self.vector_type(elem, lanes);
        let at = |offset: usize| Expr::new(format!("address + {offset}"), SUM);
        let low = self.load_vector(dtype, lanes, &Expr::atom("address")).text;
        let high = self.load_vector(dtype, lanes, &at(lanes - 1)).text;
        // The first half lies in the first vector, the others one element later in the second.
        let low_lanes: Vec<usize> = (0..lanes).step_by(2).collect();
        let high_lanes: Vec<usize> =
            (0..lanes).skip(1).step_by(2).map(|lane| lanes + lane).collect();
        let list = |lanes: Vec<usize>| {
            let lanes: Vec<String> = lanes.iter().map(usize::to_string).collect();
            lanes.join(", ")
        };
        let both = format!("const {vector} low = {low};\nconst {vector} high = {high};\n");
        let body = if stored_bits(elem) * lanes == 256 && stored_bits(elem) >= 32 {
            // By halves of a register, and then in order, as instructions do it.
            let (low_halves, high_halves) =
                (low_lanes.chunks(lanes / 4), high_lanes.chunks(lanes / 4));
            let halves = low_halves.zip(high_halves).flat_map(|(low, high)| [low, high].concat());
            let quarter = |number: usize| number * lanes / 4..(number + 1) * lanes / 4;
            let order = [0, 2, 1, 3].into_iter().flat_map(quarter).collect();
            format!(
                "{both}const {vector} halves = __builtin_shufflevector(low, high, {});\n\
                 return __builtin_shufflevector(halves, halves, {});",
                list(halves.collect()),
                list(order)
            )
        } else {
            let lanes = [low_lanes, high_lanes].concat();
            format!("{both}return __builtin_shufflevector(low, high, {});", list(lanes))
        };
        let parameters = format!("const {} *address", storage(scalar(dtype)));
        let name = format!("load_every_second_{}x{lanes}", suffix(scalar(dtype)));
        let name = self.define(name, |_, n| function(&vector, n, &parameters, &body));
        Expr::call(&name, &[address])
    }

    /// The vector that has each of the elements from `address` on in `times` lanes, as
    /// [`load_vector`](Helpers::load_vector) gives it. No other elements are read.
    pub(in crate::codegen) fn load_repeated(
        &mut self,
        dtype: DType,
        lanes: usize,
        times: usize,
        address: &Expr,
    ) -> Expr {
        let elem = if scalar(dtype).is_bool() { DType::INT8 } else { computed(scalar(dtype)) };
        let (vector, few) = (self.vector_type(elem, lanes), self.vector_type(elem, lanes / times));
        let elements = self.load_vector(dtype, lanes / times, &Expr::atom("address")).text;
        let list: Vec<String> = (0..lanes).map(|lane| (lane / times).to_string()).collect();
        let body = format!(
            "const {few} few = {elements};\nreturn __builtin_shufflevector(few, few, {});",
            list.join(", ")
        );
        let parameters = format!("const {} *address", storage(scalar(dtype)));
        let name = format!("load_{times}_times_{}x{lanes}", suffix(scalar(dtype)));
        let name = self.define(name, |_, n| function(&vector, n, &parameters, &body));
        Expr::call(&name, &[address])
    }

    /// The name of the function that gives the elements of an array of `dtype` at a place for each lane; `None` where no
    /// instruction does.
    pub(in crate::codegen) fn gather(&mut self, dtype: DType, lanes: usize) -> Option<String> {
        let (builtin, number) = match (dtype, lanes) {
            (DType::FLOAT64, 8) => ("gatherdiv8df", "double"),
            (DType::FLOAT32, 16) => ("gatherdiv16sf", "float"),
            _ => return None,
        };
        self.needs_string();
        let (vector, bytes) = (self.vector_type(dtype, lanes), stored_bits(dtype) / 8);
        // An instruction takes eight places.
        let body = format!(
            "{vector} result;\n\
             #if defined(__AVX512F__)\n\
             typedef {number} numbers __attribute__((vector_size({})));\n\
             typedef long long words __attribute__((vector_size(64)));\n\
             numbers parts[{}];\n\
             for (int part = 0; part < {}; part++) {{\n\
             \x20   words at;\n\
             \x20   memcpy(&at, &places[part * 8], sizeof at);\n\
             \x20   parts[part] = __builtin_ia32_{builtin}((numbers){{0}}, array, at, (uint8_t)-1, {bytes});\n\
             }}\n\
             memcpy(&result, parts, sizeof result);\n\
             #else\n\
             for (int lane = 0; lane < {lanes}; lane++) {{\n\
             \x20   result[lane] = array[places[lane]];\n\
             }}\n\
             #endif\n\
             return result;",
            8 * bytes,
            lanes / 8,
            lanes / 8,
        );
        let parameters = format!("const {} *array, const int64_t *places", storage(dtype));
        let name = format!("gather_{vector}");
        Some(self.define(name, |_, n| function(&vector, n, &parameters, &body)))
    }

    /// The name of the function that transposes a square tile of `lanes` rows and columns of `elem` in place.
    ///
    /// This takes log2(`lanes`) rounds.
    pub(in crate::codegen) fn transpose(&mut self, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let name = format!("transpose_{vector}");
        self.define(name, |helpers, name| {
            let at = |row: usize| Expr::new(format!("tile + {}", row * lanes), SUM);
            let mut body = String::new();
            for row in 0..lanes {
                let loaded = helpers.load_vector(elem, lanes, &at(row)).text;
                body += &format!("const {vector} row0_{row} = {loaded};\n");
            }
            let rounds = lanes.ilog2() as usize;
            let pattern = match lanes * stored_bits(elem) {
                ..=INTERLEAVED => interleaved,
                _ => exchanged,
            };
            for round in 0..rounds {
                for row in 0..lanes {
                    let ([a, b], list) = pattern(lanes, round, row);
                    let list: Vec<String> = list.iter().map(usize::to_string).collect();
                    body += &format!(
                        "const {vector} row{}_{row} = __builtin_shufflevector(row{round}_{a}, row{round}_{b}, {});\n",
                        round + 1,
                        list.join(", ")
                    );
                }
            }
            for row in 0..lanes {
                let stored = Expr::atom(format!("row{rounds}_{row}"));
                let store = helpers.store_vector(false, elem, (elem, lanes), &at(row), &stored);
                body += &format!("{store};\n");
            }
            function("void", name, &format!("{} *tile", storage(elem)), &body)
        })
    }

    /// The name of the function that halves an index, rounding down.
    pub(in crate::codegen) fn half(&mut self) -> String {
        self.add("int64_t", "half", "int64_t a", "return (a - (a & 1)) / 2;")
    }

    /// The name of the function that loads the lanes from `low` to before `end` of a vector, each `step`
    /// elements after the one before, and takes the others from `otherwise`.
    pub(in crate::codegen) fn load_between(
        &mut self,
        dtype: DType,
        lanes: usize,
        step: i64,
    ) -> String {
        let dtype = scalar(dtype);
        let elem = if dtype.is_bool() { DType::INT8 } else { computed(dtype) };
        let vector = self.vector_type(elem, lanes);
        let address = Expr::atom("&array[index]");
        let (whole, name, place) = match step {
            1 => (self.load_vector(dtype, lanes, &address), "load_between", "index + lane"),
            _ => {
                let whole = self.load_every_second(dtype, lanes, &address);
                (whole, "load_every_second_between", "index + 2 * lane")
            }
        };
        let stored = Expr::element("array", &Expr::atom(place));
        let element = match () {
            _ if dtype.is_bool() => format!("(int8_t)-({} != 0)", stored.text),
            _ if is_half(dtype) => Expr::call(&self.of_half(dtype), &[&stored]).text,
            _ => stored.text,
        };
        let whole = format!("if (low <= 0 && end >= {lanes}) {{\n    return {};\n}}", whole.text);
        let by_lane = format!(
            "for (int lane = 0; lane < {lanes}; lane++) {{\n    \
             if (lane >= low && lane < end) {{\n        otherwise[lane] = {element};\n    }}\n}}\n\
             return otherwise;"
        );
        let body = match masked_load(dtype, lanes, &vector).filter(|_| step == 1) {
            Some((feature, load)) => {
                format!("{whole}\n#if {feature}\n{load}\n#else\n{by_lane}\n#endif")
            }
            None => format!("{whole}\n{by_lane}"),
        };
        let parameters = format!(
            "const {} *array, int64_t index, int64_t low, int64_t end, {vector} otherwise",
            storage(dtype)
        );
        let name = format!("{name}_{}x{lanes}", suffix(dtype));
        self.define(name, |_, n| function(&vector, n, &parameters, &body))
    }

    /// The function that stores a vector past the caches, where the machine can and the address is
    /// aligned to the vector.
    fn stream_plain(&mut self, elem: DType, lanes: usize) -> String {
        let store = self.store_plain(elem, lanes);
        let bytes = stored_bits(elem) / 8 * lanes;
        let (feature, instruction) = match bytes {
            64 => ("__AVX512F__", "__builtin_ia32_movntps512"),
            32 => ("__AVX__", "__builtin_ia32_movntps256"),
            16 => ("__SSE__", "__builtin_ia32_movntps"),
            _ => return store,
        };
        let vector = self.vector_type(elem, lanes);
        let floats = self.vector_type(DType::FLOAT32, bytes / 4);
        let when_aligned = |statement: &str| {
            format!("if ((uintptr_t)address % {bytes} == 0) {{\n    {statement}\n    return;\n}}")
        };
        let clang = when_aligned(&format!(
            "__builtin_nontemporal_store(value, ({vector} *)(void *)address);"
        ));
        let gcc =
            when_aligned(&format!("{instruction}((float *)(void *)address, ({floats})value);"));
        let body = format!(
            "#if defined(__clang__)\n{clang}\n#elif defined({feature})\n{gcc}\n#endif\n\
             {store}(address, value);"
        );
        let parameters = format!("{} *address, {vector} value", storage(elem));
        self.define(format!("stream_{vector}"), |_, n| function("void", n, &parameters, &body))
    }

    /// The function after which others see what was stored past the caches.
    pub(in crate::codegen) fn stream_end(&mut self) -> String {
        let body = "#if defined(__SSE__)\n__builtin_ia32_sfence();\n#endif";
        self.add("void", "stream_end", "void", body)
    }

    /// The statement that stores `value`, as [`load_vector`](Helpers::load_vector) gives it; a
    /// mask has the element type `elem`.
    pub(in crate::codegen) fn store_vector(
        &mut self,
        streaming: bool,
        dtype: DType,
        (elem, lanes): (DType, usize),
        address: &Expr,
        value: &Expr,
    ) -> String {
        let dtype = scalar(dtype);
        let (stored, value) = if dtype.is_bool() {
            self.vector_type(elem, lanes);
            let ones = Expr::binary("&", value, &Expr::atom("1"));
            (DType::UINT8, self.converted(signed(elem), DType::UINT8, lanes, &ones))
        } else if is_half(dtype) {
            let (narrow, widen) = (self.narrow_half(dtype, lanes), self.widen_half(dtype, lanes));
            // What was rounded is there.
            let rounded = value.text.strip_prefix(&format!("{widen}("));
            let rounded = rounded.and_then(|text| text.strip_suffix(')')).filter(|t| is_closed(t));
            (
                DType::UINT16,
                match rounded {
                    Some(rounded) => Expr::atom(rounded.to_string()),
                    None => Expr::call(&narrow, &[value]),
                },
            )
        } else {
            (dtype, value.clone())
        };
        let store = match streaming {
            true => self.stream_plain(stored, lanes),
            false => self.store_plain(stored, lanes),
        };
        Expr::call(&store, &[address, &value]).text
    }

    /// `lanes` times `a` of type `elem`.
    pub(in crate::codegen) fn splat(&mut self, elem: DType, lanes: usize, a: &Expr) -> Expr {
        let vector = self.vector_type(elem, lanes);
        let list = vec!["a"; lanes].join(", ");
        let body = format!("return ({vector}){{{list}}};");
        let parameters = format!("{} a", storage(elem));
        let name =
            self.define(format!("splat_{vector}"), |_, n| function(&vector, n, &parameters, &body));
        Expr::call(&name, &[a])
    }

    fn full(&mut self, elem: DType, lanes: usize, lane: &Lane) -> Expr {
        match lane {
            Lane::Vector(expr) => expr.clone(),
            Lane::Splat(expr) => self.splat(elem, lanes, expr),
        }
    }

    /// The lanes of `a` where `mask` is set, else those of `b`.
    fn blend(&mut self, elem: DType, lanes: usize, mask: &str, a: &str, b: &str) -> String {
        let vector = self.vector_type(elem, lanes);
        let bits = self.vector_type(signed(elem), lanes);
        if elem.is_float() {
            format!("({vector})((({bits}){a} & {mask}) | (({bits}){b} & ~{mask}))")
        } else if elem.is_signed() {
            format!("({a} & {mask}) | ({b} & ~{mask})")
        } else {
            format!("({a} & ({vector}){mask}) | ({b} & ~({vector}){mask})")
        }
    }

    /// The name of the function that chooses lanes by a mask of the same width.
    pub(in crate::codegen) fn select(&mut self, elem: DType, lanes: usize) -> String {
        let vector = self.vector_type(elem, lanes);
        let mask = self.vector_type(signed(elem), lanes);
        let body = format!("return {};", self.blend(elem, lanes, "mask", "a", "b"));
        let parameters = format!("{mask} mask, {vector} a, {vector} b");
        self.define(format!("select_{vector}"), |_, n| function(&vector, n, &parameters, &body))
    }

    /// `op` on vectors of `lanes` lanes of element type `dtype`, which is no `bool`. Comparisons
    /// and tests give masks as wide as what is computed with.
    pub(in crate::codegen) fn vector(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        lanes: usize,
        operands: &[Lane],
        second: Range,
    ) -> Expr {
        use ScalarOp::*;
        let dtype = scalar(dtype);
        let elem = computed(dtype);
        if is_half(dtype) {
            let wide = self.vector(op, elem, lanes, operands, second);
            let whole = is_exact(op) || matches!(op.typing(), Typing::Comparison | Typing::Test);
            return if whole { wide } else { self.rounded_vector(dtype, lanes, wide) };
        }
        let in_place = dtype.is_float() || !dtype.is_signed() || matches!(op, And | Or | Xor);
        if let Some(symbol) = arithmetic(op, dtype).or(bitwise(op))
            && in_place
            && !is_odd(dtype)
        {
            // A vector and a scalar go together in C.
            match operands {
                [Lane::Vector(a) | Lane::Splat(a), Lane::Vector(b)]
                | [Lane::Vector(a), Lane::Splat(b)]
                    if elem.is_float() =>
                {
                    return Expr::binary(symbol, a, b);
                }
                [a, b] => {
                    let (a, b) = (self.full(elem, lanes, a), self.full(elem, lanes, b));
                    return Expr::binary(symbol, &a, &b);
                }
                _ => {}
            }
        }
        let full: Vec<Expr> =
            operands.iter().map(|operand| self.full(elem, lanes, operand)).collect();
        match op {
            Neg if dtype.is_float() => return Expr::unary("-", &full[0]),
            Not if !is_odd(dtype) => return Expr::unary("~", &full[0]),
            _ if op.typing() == Typing::Comparison => {
                let mask = self.vector_type(signed(elem), lanes);
                return Expr::cast(&mask, &Expr::binary(comparison(op), &full[0], &full[1]));
            }
            _ => {}
        }
        let function = self.vector_function(op, dtype, lanes, second);
        let arguments: Vec<&Expr> = full.iter().collect();
        Expr::call(&function, &arguments)
    }

    pub(super) fn rounded_vector(&mut self, dtype: DType, lanes: usize, expr: Expr) -> Expr {
        if !is_half(dtype) {
            return expr;
        }
        let (narrow, widen) = (self.narrow_half(dtype, lanes), self.widen_half(dtype, lanes));
        Expr::call(&widen, &[&Expr::call(&narrow, &[&expr])])
    }

    /// The function that applies `op` lane by lane.
    pub(super) fn vector_function(
        &mut self,
        op: ScalarOp,
        dtype: DType,
        lanes: usize,
        second: Range,
    ) -> String {
        use ScalarOp::*;
        let elem = computed(dtype);
        if matches!(op, Exp | Log | Tanh | Sigmoid | Atan | Erf) && dtype == DType::FLOAT32 {
            return math::function(self, op, elem, Some(lanes));
        }
        if matches!(op, Sin | Cos) && dtype == DType::FLOAT32 && lanes >= 4 {
            return math::sine(self, op, lanes);
        }
        let vector = self.vector_type(elem, lanes);
        let mask = self.vector_type(signed(elem), lanes);
        let word = format!("{}x{lanes}", suffix(unsigned(elem)));
        let test = matches!(op.typing(), Typing::Test);
        let number = matches!(op, Min | Max) && dtype.is_float() && !second.may_be_nan();
        let base = op.name().trim_start_matches("te.");
        let name = match number {
            true => format!("{base}_number_{vector}"),
            false => format!("{base}_{vector}"),
        };
        let direct = match op {
            _ if is_odd(dtype) => None,
            Add | Sub | Mul => {
                self.vector_type(unsigned(elem), lanes);
                let symbol = arithmetic(op, dtype).expect("it is one of C's own");
                Some(format!("return ({vector})(({word})a {symbol} ({word})b);"))
            }
            Neg => {
                self.vector_type(unsigned(elem), lanes);
                Some(format!("return ({vector})(-({word})a);"))
            }
            PairDot => Some(self.pair_products(lanes)),
            QuadDot => Some(self.quad_products(lanes)),
            Min | Max if dtype.is_float() => Some(self.float_extremum(op, elem, lanes, number)),
            Min | Max => {
                let (select, symbol) = (self.select(elem, lanes), extremum_order(op));
                Some(format!("return {select}(({mask})(a {symbol} b), a, b);"))
            }
            Abs if dtype.is_float() => {
                Some(format!("return ({vector})(({mask})a & INT{}_MAX);", stored_bits(elem)))
            }
            IsNan => Some(format!("return ({mask})(a != a);")),
            IsFinite => Some(format!("return ({mask})(a - a == 0);")),
            IsInf => Some(format!("return ({mask})((a == a) & (a - a != 0));")),
            _ => None,
        };
        let result = if test { &mask } else { &vector };
        let parameters = match op.arity() {
            1 => format!("{vector} a"),
            _ => format!("{vector} a, {vector} b"),
        };
        let body = direct.unwrap_or_else(|| self.lane_by_lane(op, dtype, &vector, lanes));
        self.define(name, |_, n| function(result, n, &parameters, &body))
    }

    /// The body of the products of pairs of 16 bits in `lanes` words.
    fn pair_products(&mut self, lanes: usize) -> String {
        let words = self.vector_type(DType::INT32, lanes);
        let bits = self.vector_type(DType::UINT32, lanes);
        let plain = format!(
            "const {words} low = (({words})(({bits})a << 16) >> 16) * (({words})(({bits})b << 16) >> 16);\n\
             const {words} high = (a >> 16) * (b >> 16);\n\
             return ({words})(({bits})low + ({bits})high);"
        );
        let (feature, name, rest) = match lanes {
            4 => ("defined(__SSE2__)", "pmaddwd128", ""),
            8 => ("defined(__AVX2__)", "pmaddwd256", ""),
            16 => (
                "defined(__AVX512BW__) && !defined(__clang__)",
                "pmaddwd512_mask",
                ", a, (uint16_t)-1",
            ),
            _ => return plain,
        };
        let halves = self.vector_type(DType::INT16, 2 * lanes);
        format!(
            "#if {feature}\nreturn ({words})__builtin_ia32_{name}(({halves})a, ({halves})b{rest});\n\
             #else\n{plain}\n#endif"
        )
    }

    /// The body of the products of four bytes in `lanes` words: as pairs of every second byte.
    fn quad_products(&mut self, lanes: usize) -> String {
        let words = self.vector_type(DType::INT32, lanes);
        let bits = self.vector_type(DType::UINT32, lanes);
        let halves = self.vector_type(DType::INT16, 2 * lanes);
        let unsigned = self.vector_type(DType::UINT16, 2 * lanes);
        let second = Range::of_type(DType::INT32);
        let pairs = self.vector_function(ScalarOp::PairDot, DType::INT32, lanes, second);
        format!(
            "const {words} even = {pairs}(({words})(({unsigned})a & 255), \
             ({words})(({halves})(({unsigned})b << 8) >> 8));\n\
             const {words} odd = {pairs}(({words})(({unsigned})a >> 8), ({words})(({halves})b >> 8));\n\
             return ({words})(({bits})even + ({bits})odd);"
        )
    }

    /// The function that adds what `dot` makes of `lanes` words and as many others to as many sums.
    pub(in crate::codegen) fn sum_of_words(&mut self, dot: ScalarOp, lanes: usize) -> String {
        let dtype = DType::INT32;
        let vector = self.vector_type(dtype, lanes);
        let second = Range::of_type(dtype);
        let products = self.vector_function(dot, dtype, lanes, second);
        let added = self.vector_function(ScalarOp::Add, dtype, lanes, second);
        let plain = format!("return {added}(sum, {products}(a, b));");
        let instruction = if dot == ScalarOp::QuadDot { "vpdpbusd" } else { "vpdpwssd" };
        // GCC 12 has it for narrower vectors only where the processor has both extensions.
        let feature = "defined(__AVX512VNNI__) && defined(__AVX512VL__) && !defined(__clang__)";
        let body = match lanes {
            4 | 8 | 16 => format!(
                "#if {feature}\nreturn ({vector})__builtin_ia32_{instruction}_v{lanes}si(sum, a, b);\n\
                 #else\n{plain}\n#endif"
            ),
            _ => plain,
        };
        let parameters = format!("{vector} sum, {vector} a, {vector} b");
        let name = dot.name().trim_start_matches("te.");
        self.define(format!("{name}_sum_{vector}"), |_, n| function(&vector, n, &parameters, &body))
    }

    /// The body of `op` on each lane of a `vector`.
    fn lane_by_lane(&mut self, op: ScalarOp, dtype: DType, vector: &str, lanes: usize) -> String {
        let operands = [Operand::any("a[lane]", dtype), Operand::any("b[lane]", dtype)];
        let lane = self.scalar(op, dtype, &operands[..op.arity()]).text;
        format!(
            "{vector} result;\nfor (int lane = 0; lane < {lanes}; lane++) {{\n    \
             result[lane] = {lane};\n}}\nreturn result;"
        )
    }

    /// The body of the smaller or the larger of floats, lane by lane. `number` is whether the second is
    /// no NaN.
    fn float_extremum(&mut self, op: ScalarOp, elem: DType, lanes: usize, number: bool) -> String {
        let vector = self.vector_type(elem, lanes);
        let mask = self.vector_type(signed(elem), lanes);
        let instruction = extremum_instruction(op, elem, lanes, number);
        // A function that only one branch of `#if` calls would be unused in the other.
        let mut choose = |chosen: &str, b: &str, a: &str| match instruction {
            Some(_) => self.blend(elem, lanes, &format!("({mask})({chosen})"), b, a),
            None => format!("{}(({mask})({chosen}), {b}, {a})", self.select(elem, lanes)),
        };
        let other = choose(&format!("b {} a", extremum_order(op)), "b", "a");
        let other = format!("const {vector} other = {other};");
        let plain = match number {
            true => format!("{other}\nreturn other; /* NaN where `a` is; `b` is not. */"),
            false => {
                let result = choose("b != b", "b", "other");
                // `a` where one is NaN.
                let other = match extremum_instruction(op, elem, lanes, true) {
                    Some((macros, text)) if lanes < 16 => {
                        let text = text.replacen("return", &format!("const {vector} other ="), 1);
                        format!("#if {macros}\n{text}\n#else\n{other}\n#endif")
                    }
                    _ => other,
                };
                format!("{other}\nreturn {result}; /* NaN where either is. */")
            }
        };
        match instruction {
            Some((macros, text)) => format!("#if {macros}\n{text}\n#else\n{plain}\n#endif"),
            None => plain,
        }
    }

    /// The lower or upper half of a vector, or two vectors as one.
    pub(in crate::codegen) fn regroup(
        &mut self,
        kind: Regroup,
        elem: DType,
        lanes: usize,
    ) -> String {
        let vector = self.vector_type(elem, lanes);
        let (base, first, count) = match kind {
            Regroup::Low => ("low", 0, lanes / 2),
            Regroup::High => ("high", lanes / 2, lanes / 2),
            Regroup::Join => ("join", 0, lanes * 2),
        };
        let result = self.vector_type(elem, count);
        let list: Vec<String> = (first..first + count).map(|lane| lane.to_string()).collect();
        let (parameters, second) = match kind {
            Regroup::Join => (format!("{vector} a, {vector} b"), "b"),
            _ => (format!("{vector} a"), "a"),
        };
        let body = format!("return __builtin_shufflevector(a, {second}, {});", list.join(", "));
        self.define(format!("{base}_{vector}"), |_, n| function(&result, n, &parameters, &body))
    }
}

/// Vectors of at most so many bits are interleaved by one instruction on most processors; within wider ones it works on
/// parts.
const INTERLEAVED: usize = 128;

/// One of the rounds that transpose a square of `lanes` rows: from which two rows a row comes, and from which lanes,
/// where those of the second row follow those of the first. All the elements, row after row, are halved, and one half
/// is put between the other; a row is thus the first or the second half of two rows.
fn interleaved(lanes: usize, _round: usize, row: usize) -> ([usize; 2], Vec<usize>) {
    let (half, first) = (lanes / 2, row % 2 * (lanes / 2));
    let pairs = (first..first + half).flat_map(|lane| [lane, lanes + lane]);
    ([row / 2, row / 2 + half], pairs.collect())
}

/// As [`interleaved`]. Blocks of one, two, four … lanes are exchanged between rows that are as far apart: of the rows
/// of a pair, the first keeps the first block of each two, and gets that of the other row for the second; the other
/// way round for the second row.
fn exchanged(lanes: usize, round: usize, row: usize) -> ([usize; 2], Vec<usize>) {
    let step = 1 << round;
    let first = row & !step;
    let from = |lane: usize| match (row & step == 0, lane & step == 0) {
        (true, true) => lane,
        (true, false) => lanes + lane - step,
        (false, true) => lane + step,
        (false, false) => lanes + lane,
    };
    ([first, first + step], (0..lanes).map(from).collect())
}

/// Whether the parentheses of `text` are pairs, so that those around it are one.
fn is_closed(text: &str) -> bool {
    let mut depth = 0i64;
    let never_below = text.chars().all(|character| {
        depth += i64::from(character == '(') - i64::from(character == ')');
        depth >= 0
    });
    never_below && depth == 0
}

/// The instructions for the lesser or greater of `a` and `b`, NaN where `a` is (and where `b` is,
/// unless it is a `number`), and what says that they are there: GCC does not find them in choices
/// by masks.
fn extremum_instruction(
    op: ScalarOp,
    elem: DType,
    lanes: usize,
    number: bool,
) -> Option<(&'static str, String)> {
    let base = if op == ScalarOp::Min { "min" } else { "max" };
    match (elem == DType::FLOAT32, lanes, number) {
        (true, 4, true) => {
            Some(("defined(__SSE__)", format!("return __builtin_ia32_{base}ps(b, a);")))
        }
        (true, 8, true) => {
            Some(("defined(__AVX__)", format!("return __builtin_ia32_{base}ps256(b, a);")))
        }
        // What is no number keeps `b`, where it is one of both.
        (true, 4 | 8, false) => {
            let (bits, name) = if lanes == 4 { ("128", "ps") } else { ("256", "ps256") };
            let ordered = format!("__builtin_ia32_cmpps{bits}_mask(b, b, 7, (uint8_t)-1)");
            Some((
                "defined(__AVX512F__) && defined(__AVX512VL__) && !defined(__clang__)",
                format!("return __builtin_ia32_{base}{name}_mask(b, a, b, (uint8_t){ordered});"),
            ))
        }
        (true, 16, _) => {
            let ordered = match number {
                true => "-1",
                false => "(int16_t)__builtin_ia32_cmpps512_mask(b, b, 7, (uint16_t)-1, 4)",
            };
            Some((
                "defined(__AVX512F__) && !defined(__clang__)",
                format!("return __builtin_ia32_{base}ps512_mask(b, a, b, {ordered}, 4);"),
            ))
        }
        _ => None,
    }
}

/// How C writes that of two numbers one is the extremum `op`.
fn extremum_order(op: ScalarOp) -> &'static str {
    if op == ScalarOp::Min { "<" } else { ">" }
}

/// Where processors load some lanes only, and how: from `low` to before `end`, and the others from `otherwise`.
/// These are not accessed, whatever their address.
fn masked_load(dtype: DType, lanes: usize, vector: &str) -> Option<(String, String)> {
    let bits = stored_bits(dtype);
    let (name, number, mask) = match (bits, bits * lanes) {
        (32, 512) => ("ups512", "float", "uint16_t"),
        (32, 256) => ("ups256", "float", "uint8_t"),
        (32, 128) => ("ups128", "float", "uint8_t"),
        (64, 512) => ("upd512", "double", "uint8_t"),
        (64, 256) => ("upd256", "double", "uint8_t"),
        (64, 128) => ("upd128", "double", "uint8_t"),
        _ => return None,
    };
    let feature = match bits * lanes {
        512 => "defined(__AVX512F__)",
        _ => "defined(__AVX512F__) && defined(__AVX512VL__)",
    };
    let bytes = bits / 8 * lanes;
    let all = (1u32 << lanes) - 1;
    let below = |bound: &str| {
        format!("({bound} <= 0 ? 0 : {bound} >= {lanes} ? {all} : (1 << {bound}) - 1)")
    };
    let (to_end, to_low) = (below("end"), below("low"));
    // Of which type the address is, compilers disagree.
    let load = format!(
        "typedef {number} numbers __attribute__((vector_size({bytes})));\n\
         const {mask} mask = ({mask})({to_end} & ~{to_low});\n\
         const void *const address = &array[index];\n\
         return ({vector})__builtin_ia32_load{name}_mask(address, (numbers)otherwise, mask);"
    );
    Some((feature.to_string(), load))
}
