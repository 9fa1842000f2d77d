//! How functions are entered, called and left.

use ir_core::{OpId, Symbol, Type, ValueId};

use super::super::c_type;
use super::frames::Wait;
use super::{Writer, function_name};

impl Writer<'_, '_> {
    fn c(&self, ty: Type) -> String {
        c_type(&self.cx.prefix, ty)
    }

    /// The declaration of the C function of a member, without its body.
    pub(super) fn prototype(&self, number: usize) -> String {
        let p = &self.cx.prefix;
        let function = &self.functions[number];
        let name = function_name(self.cx, function.name);
        let mut list = vec![format!("{p}state *p")];
        for (index, ty) in function.params.iter().enumerate() {
            list.push(format!("{} a{index}", self.c(*ty)));
        }
        for (index, ty) in function.results.iter().enumerate() {
            list.push(format!("{} *r{index}", self.c(*ty)));
        }
        format!("static int {name}({})", list.join(", "))
    }

    /// The structure with the parameters and results of a call of a member from outside.
    pub(super) fn call_type(&self, number: usize) -> String {
        let p = &self.cx.prefix;
        let function = &self.functions[number];
        let mut text = String::new();
        for (index, ty) in function.params.iter().enumerate() {
            text += &format!("    {} a{index};\n", self.c(*ty));
        }
        for (index, ty) in function.results.iter().enumerate() {
            text += &format!("    {} r{index};\n", self.c(*ty));
        }
        let name = format!("{p}call_{}_{number}", self.first);
        // A structure has at least one member.
        format!("typedef struct {name} {{\n{text}    char end;\n}} {name};\n\n")
    }

    /// The function through which others call a member of a group of several.
    pub(super) fn wrapper(&self, number: usize, comment: &str) -> String {
        let p = &self.cx.prefix;
        let function = &self.functions[number];
        let mut text = format!("\n/* {comment} */\n{}\n{{\n", self.prototype(number));
        text += &format!("    {p}call_{}_{number} call;\n", self.first);
        for index in 0..function.params.len() {
            text += &format!("    call.a{index} = a{index};\n");
        }
        let group = format!("{p}group_{}(p, {number}, &call)", self.first);
        text += &format!("    if ({group}) {{\n        return 1;\n    }}\n");
        for index in 0..function.results.len() {
            text += &format!("    *r{index} = call.r{index};\n");
        }
        text + "    return 0;\n}\n"
    }

    /// What comes first: the parameters of the members `numbers`, and the jump to the one called.
    pub(super) fn start(&self, numbers: &[usize]) -> String {
        let p = &self.cx.prefix;
        let mut text = match self.waits.any() {
            true => "    unsigned char *const bottom = p->frames;\n".to_string(),
            false => "    (void)p;\n".to_string(),
        };
        if self.holes.any() {
            text += &format!("    {p}object *root = 0;\n    {p}object **hole = &root;\n");
        }
        if let [number] = numbers {
            for (index, name) in self.parameter_names(*number).iter().enumerate() {
                text += &match name {
                    Some(name) => format!("    {name} = a{index};\n"),
                    None => format!("    (void)a{index};\n"),
                };
            }
            return text;
        }
        text += "    switch (entry) {\n";
        for &number in numbers {
            text += &format!("    case {number}:\n");
            let call = format!("(({p}call_{}_{number} *)call)", self.first);
            for (index, name) in self.parameter_names(number).iter().enumerate() {
                if let Some(name) = name {
                    text += &format!("        {name} = {call}->a{index};\n");
                }
            }
            text += &format!("        goto enter_{number};\n");
        }
        text + "    }\n"
    }

    /// The variables of the parameters of a member that anything reads.
    fn parameter_names(&self, number: usize) -> Vec<Option<String>> {
        let body = self.functions[number].body;
        let params = body.block_args(body.entry()).iter();
        let name = |param| self.name(number, param).to_string();
        params.map(|param| self.is_read(number, *param).then(|| name(*param))).collect()
    }

    /// The variables that hold the results of a function with results of `types`.
    fn register(&mut self, types: &[Type]) -> Vec<String> {
        if let Some((_, names)) = self.registers.iter().find(|(known, _)| known == types) {
            return names.clone();
        }
        let set = self.registers.len();
        let mut names = Vec::new();
        for (index, ty) in types.iter().enumerate() {
            let name = format!("r{set}_{index}");
            self.variables += &format!("    {} {name};\n", self.c(*ty));
            names.push(name);
        }
        self.registers.push((types.to_vec(), names.clone()));
        names
    }

    fn register_of(&self, types: &[Type]) -> &[String] {
        let found = self.registers.iter().find(|(known, _)| known == types);
        found.map_or(&[], |(_, names)| names)
    }

    /// Whether results are variables of the group first.
    fn has_registers(&self) -> bool {
        self.functions.len() > 1 || self.waits.any()
    }

    /// Ends member `number` with `values`.
    pub(super) fn give(&mut self, number: usize, values: &[ValueId]) {
        let names: Vec<String> =
            values.iter().map(|value| self.name(number, *value).to_string()).collect();
        match &names[..] {
            [name] if self.holes.any() => {
                self.line(&format!("*hole = {name};"));
                self.give_named(number, &["root".to_string()]);
            }
            names => self.give_named(number, names),
        }
    }

    /// Ends member `number` with the variables `names`.
    fn give_named(&mut self, number: usize, names: &[String]) {
        let types = self.functions[number].results.clone();
        if !self.has_registers() {
            for (index, name) in names.iter().enumerate() {
                self.line(&format!("*r{index} = {name};"));
            }
            return self.line("return 0;");
        }
        for (register, name) in self.register(&types).iter().zip(names) {
            self.line(&format!("{register} = {name};"));
        }
        self.line(if self.waits.any() { "goto returned;" } else { "goto leave;" });
    }

    /// Where a member jumps to that has given its results: what waits for them, or out.
    pub(super) fn returned(&self) -> String {
        if !self.waits.any() {
            return "leave:\n".to_string();
        }
        let mut text =
            "returned:\n    if (p->frames == bottom) {\n        goto leave;\n    }\n".to_string();
        text += "    switch (*(uint32_t *)(void *)p->frames) {\n";
        for number in 1..self.waits.all().len() {
            text += &format!("    case {number}:\n        goto resume_{number};\n");
        }
        text + "    default:\n        goto resume_0;\n    }\n"
    }

    /// The stores of the results of member `number` to where its caller wants them.
    pub(super) fn stores(&self, number: usize, indent: &str) -> String {
        let p = &self.cx.prefix;
        let registers = self.register_of(&self.functions[number].results);
        let mut text = String::new();
        for (index, register) in registers.iter().enumerate() {
            text += &match self.functions.len() {
                1 => format!("{indent}*r{index} = {register};\n"),
                _ => {
                    let call = format!("(({p}call_{}_{number} *)call)", self.first);
                    format!("{indent}{call}->r{index} = {register};\n")
                }
            };
        }
        text
    }

    /// How a member that is a C function of its own ends.
    pub(super) fn leave(&self, number: usize) -> String {
        if !self.waits.any() {
            return String::new();
        }
        format!("{}leave:\n{}    return 0;\n", self.returned(), self.stores(number, "    "))
    }

    /// The structures of frames.
    pub(super) fn frame_types(&self) -> String {
        let p = &self.cx.prefix;
        let mut text = String::new();
        for (number, Wait { function, kept }) in self.waits.all().iter().enumerate() {
            let name = format!("{p}frame_{}_{number}", self.first);
            text += &format!("typedef struct {name} {{\n    uint32_t state;\n");
            for (index, value) in kept.iter().enumerate() {
                text += &format!("    {} k{index};\n", self.c(self.ty(*function, *value)));
            }
            if self.holes.any() {
                text += &format!("    {p}object *root;\n    {p}object **hole;\n");
            }
            text += &format!("}} {name};\n");
        }
        text
    }

    /// Starts member `callee` on these values.
    pub(super) fn jump(&mut self, number: usize, callee: usize, arguments: &[ValueId]) {
        self.pass(number, callee, arguments);
        self.line(&format!("goto enter_{callee};"));
    }

    /// Gives the parameters of member `callee` these values. The values may be parameters.
    fn pass(&mut self, number: usize, callee: usize, arguments: &[ValueId]) {
        let names = self.parameter_names(callee);
        let own = if number == callee { names.clone() } else { Vec::new() };
        let own: Vec<String> = own.into_iter().flatten().collect();
        let mut moves = Vec::new();
        for (to, value) in names.into_iter().zip(arguments) {
            let Some(to) = to else { continue };
            let from = self.name(number, *value).to_string();
            if from != to {
                moves.push((to, from, self.c(self.ty(number, *value))));
            }
        }
        let clash = moves.iter().any(|(_, from, _)| own.contains(from));
        if !clash {
            for (to, from, _) in moves {
                self.line(&format!("{to} = {from};"));
            }
            return;
        }
        self.line("{");
        for (index, (_, from, ty)) in moves.iter().enumerate() {
            self.line(&format!("    {ty} t{index} = {from};"));
        }
        for (index, (to, ..)) in moves.iter().enumerate() {
            self.line(&format!("    {to} = t{index};"));
        }
        self.line("}");
    }

    fn member(&self, function: Symbol) -> Option<usize> {
        self.functions.iter().position(|member| member.name == function)
    }

    /// Calls a function, and goes on with its results.
    pub(super) fn call(
        &mut self,
        number: usize,
        op: OpId,
        function: Symbol,
        arguments: &[ValueId],
    ) {
        let body = self.functions[number].body;
        let results: Vec<ValueId> = body.results(op).collect();
        if results.iter().any(|result| self.holes.is_result(*result)) {
            // It starts where its result would be used.
            return;
        }
        let (Some(wait), Some(callee)) = (self.waits.number(number, op), self.member(function))
        else {
            let mut list = vec!["p".to_string()];
            list.extend(arguments.iter().map(|value| self.name(number, *value).to_string()));
            let results = results.iter().map(|value| format!("&{}", self.name(number, *value)));
            list.extend(results);
            let name = function_name(self.cx, function);
            self.line(&format!("if ({name}({})) {{ return 1; }}", list.join(", ")));
            return self.count("resume", self.functions[number].name);
        };
        let p = self.cx.prefix.clone();
        let frame = format!("{p}frame_{}_{wait}", self.first);
        let size = format!("(sizeof({frame}) + 15) / 16 * 16");
        let kept: Vec<String> = self.waits.all()[wait]
            .kept
            .iter()
            .map(|value| self.name(number, *value).to_string())
            .collect();
        self.line("{");
        let site = self.site(number, op);
        self.line(&format!("    {frame} *frame = ({frame} *){p}push(p, {size}, {site});"));
        self.line("    if (!frame) { return 1; }");
        self.line(&format!("    frame->state = {wait};"));
        for (index, name) in kept.iter().enumerate() {
            self.line(&format!("    frame->k{index} = {name};"));
        }
        if self.holes.any() {
            self.line("    frame->root = root;");
            self.line("    frame->hole = hole;");
            self.line("    hole = &root;");
        }
        self.line("}");
        self.jump(number, callee, arguments);
        self.line(&format!("resume_{wait}: {{"));
        if !kept.is_empty() || self.holes.any() {
            self.line(&format!("    {frame} *frame = ({frame} *)(void *)p->frames;"));
        }
        for (index, name) in kept.iter().enumerate() {
            self.line(&format!("    {name} = frame->k{index};"));
        }
        if self.holes.any() {
            self.line("    root = frame->root;");
            self.line("    hole = frame->hole;");
        }
        self.line(&format!("    p->frames += {size};"));
        self.line("}");
        self.count("resume", self.functions[number].name);
        let types: Vec<Type> = results.iter().map(|value| body.ty(*value)).collect();
        for (register, value) in self.register(&types).iter().zip(results) {
            if self.is_read(number, value) {
                let name = self.name(number, value).to_string();
                self.line(&format!("{name} = {register};"));
            }
        }
    }

    /// Ends a member by calling a function.
    pub(super) fn tail(&mut self, number: usize, function: Symbol, arguments: &[ValueId]) {
        if let Some(callee) = self.member(function) {
            return self.jump(number, callee, arguments);
        }
        let mut list = vec!["p".to_string()];
        list.extend(arguments.iter().map(|value| self.name(number, *value).to_string()));
        let types = self.functions[number].results.clone();
        let name = function_name(self.cx, function);
        if self.holes.any() {
            list.push("hole".to_string());
            self.line(&format!("if ({name}({})) {{ return 1; }}", list.join(", ")));
            return self.give_named(number, &["root".to_string()]);
        }
        if !self.has_registers() {
            list.extend((0..types.len()).map(|index| format!("r{index}")));
            return self.line(&format!("return {name}({});", list.join(", ")));
        }
        list.extend(self.register(&types).iter().map(|register| format!("&{register}")));
        self.line(&format!("if ({name}({})) {{ return 1; }}", list.join(", ")));
        self.line(if self.waits.any() { "goto returned;" } else { "goto leave;" });
    }
}
