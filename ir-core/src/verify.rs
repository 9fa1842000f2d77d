//! The verifier. What it checks follows from declarations: fields, traits, the type relation, the
//! operation's own check, and use after definition. It reports everything that is wrong, not only
//! the first finding, in time linear in the module.

use std::ops::Deref;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::attributes::AttrDict;
use crate::body::{Body, ValueDef};
use crate::diagnostics::{Diagnostic, Diagnostics, did_you_mean};
use crate::ids::{BlockId, EntityId, OpId, ValueId};
use crate::infer::{InferCx, Stop};
use crate::intern::Symbol;
use crate::location::Span;
use crate::module::{Item, Module, Signatures};
use crate::registry::{Arity, Field, ItemCx, OpDef, Registry, Traits, VerifyCx};
use crate::types::{Dim, Type, TypeData, TypeParam};

/// Something that the verifier found no error in. Only [`verify`] makes one.
#[derive(Debug)]
pub struct Verified<'a, T>(&'a T);

impl<'a, T> Verified<'a, T> {
    /// What was verified.
    pub fn get(&self) -> &'a T {
        self.0
    }
}

impl<T> Clone for Verified<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Verified<'_, T> {}

impl<T> Deref for Verified<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0
    }
}

/// Checks a module. Errors hold every finding, in item order and program order.
pub fn verify<'a>(
    module: &'a Module,
    registry: &Registry,
) -> Result<Verified<'a, Module>, Diagnostics> {
    let signatures = module.signatures();
    let mut diagnostics = Diagnostics::new();
    for (name, item) in &module.items {
        diagnostics.extend(verify_item(*name, item, &signatures, registry));
    }
    if diagnostics.is_empty() { Ok(Verified(module)) } else { Err(diagnostics) }
}

/// Checks one item against the signatures of its module. What is wrong with the item as a whole
/// comes first, then what is wrong in its body, in program order.
pub fn verify_item(
    name: Symbol,
    item: &Item,
    signatures: &Signatures,
    registry: &Registry,
) -> Diagnostics {
    let base = item.signature.span;
    let mut diagnostics = Diagnostics::new();
    match registry.item(item.signature.op) {
        Some(def) => {
            let cx = ItemCx { name, item, registry, signatures };
            diagnostics.extend(def.verify.into_iter().flat_map(|verify| verify(&cx)));
        }
        None => {
            let kind = item.signature.op;
            let known = registry.items().map(|def| def.name);
            let mut found =
                Diagnostic::error("E0129", format!("`@{name}` is of the unknown kind `{kind}`"));
            found.help = did_you_mean(kind.as_str(), known);
            diagnostics.push(found.at(base));
        }
    }
    let Some(body) = &item.body else { return diagnostics };
    let mut verifier = Verifier {
        body,
        registry,
        signatures,
        base,
        done: vec![false; body.op_capacity()],
        open: vec![false; body.block_capacity()],
        infos: FxHashMap::default(),
        suggestions: FxHashMap::default(),
        attrs: FxHashMap::default(),
        diagnostics,
    };
    verifier.check_signature(name, item.signature.ty);
    verifier.walk();
    verifier.diagnostics
}

struct Verifier<'a> {
    body: &'a Body,
    registry: &'a Registry,
    signatures: &'a Signatures,
    base: Option<Span>,
    /// By operation: whether its results exist by now.
    done: Vec<bool>,
    /// By block: whether the walk is inside it.
    open: Vec<bool>,
    infos: FxHashMap<Symbol, Option<&'a OpDef>>,
    /// By the name of an unknown operation: what may have been meant.
    suggestions: FxHashMap<Symbol, Option<String>>,
    /// What is wrong with the attributes of an operation name; empty where nothing is.
    attrs: FxHashMap<(Symbol, AttrDict), Vec<String>>,
    diagnostics: Diagnostics,
}

enum Step {
    Enter(BlockId),
    Op(OpId),
    /// After the regions of an operation.
    Done(OpId),
    Leave(BlockId),
}

impl Verifier<'_> {
    fn walk(&mut self) {
        let body = self.body;
        let mut pending = vec![Step::Enter(body.entry())];
        while let Some(step) = pending.pop() {
            match step {
                Step::Enter(block) => {
                    self.open[block.index()] = true;
                    self.check_block(block);
                    pending.push(Step::Leave(block));
                    pending.extend(body.first_op(block).map(Step::Op));
                }
                Step::Op(op) => {
                    self.check_op(op);
                    if body.has_regions(op) {
                        pending.push(Step::Done(op));
                        let blocks = body.regions(op).iter().rev().map(|r| body.block_of(*r));
                        pending.extend(blocks.map(Step::Enter));
                    } else {
                        self.done[op.index()] = true;
                        pending.extend(body.next_op(op).map(Step::Op));
                    }
                }
                Step::Done(op) => {
                    self.done[op.index()] = true;
                    pending.extend(body.next_op(op).map(Step::Op));
                }
                Step::Leave(block) => self.open[block.index()] = false,
            }
        }
    }

    fn error(&mut self, code: &'static str, op: Option<OpId>, message: String) -> &mut Diagnostic {
        let span = op.and_then(|op| self.body.loc(op).span(self.base)).or(self.base);
        self.diagnostics.push(Diagnostic::error(code, message).at(span));
        match self.diagnostics.last_mut() {
            Some(diagnostic) => diagnostic,
            None => unreachable!("a diagnostic was just added"),
        }
    }

    fn check_signature(&mut self, name: Symbol, ty: Type) {
        if ty.facts().has_unknown || ty.facts().has_variable {
            self.error("E0127", None, format!("the type of `@{name}` is not inferred: {ty}"));
            return;
        }
        let Some(function) = ty.as_function() else { return };
        let body = self.body;
        let args = body.block_args(body.entry());
        let types: Vec<Type> = args.iter().map(|arg| body.ty(*arg)).collect();
        if *types != *function.params {
            let found = Type::function(types, function.result);
            self.error(
                "E0128",
                None,
                format!("the parameters of `@{name}` have types {ty}, its body's are {found}"),
            );
        }
        let end = body.last_op(body.entry()).filter(|op| body.operand_count(*op) > 0);
        if let Some(end) = end.filter(|op| self.is_terminator(*op) && !self.leaves(*op)) {
            let types: Vec<Type> = body.operands(end).map(|value| body.ty(value)).collect();
            // Several values are the fields of a tuple.
            let found = match types[..] {
                [one] => one,
                _ => Type::tuple(types),
            };
            if !compatible(function.result, found) {
                let result = function.result;
                self.error(
                    "E0128",
                    Some(end),
                    format!("`@{name}` returns {result}, its body ends with {found}"),
                );
            }
        }
    }

    fn check_block(&mut self, block: BlockId) {
        let body = self.body;
        for (index, arg) in body.block_args(block).iter().enumerate() {
            let parent = body.block_parent(block);
            self.check_type(*arg, parent, || format!("block argument {index}"));
        }
        let ends = body.last_op(block).is_some_and(|op| self.is_terminator(op));
        let parent = body.block_parent(block).and_then(|op| self.def(op));
        let free = parent.is_some_and(|def| def.traits.contains(Traits::NO_TERMINATOR));
        if !ends && !free {
            let at = body.last_op(block).or(body.block_parent(block));
            self.error("E0123", at, "the block does not end with a terminator".to_string());
        }
    }

    fn check_type(&mut self, value: ValueId, op: Option<OpId>, what: impl Fn() -> String) {
        let ty = self.body.ty(value);
        let facts = ty.facts();
        if facts.has_unknown || facts.has_variable {
            self.error("E0127", op, format!("the type of {} is not inferred: {ty}", what())).help =
                Some("run type inference first".to_string());
        }
    }

    fn def(&mut self, op: OpId) -> Option<&OpDef> {
        let (registry, name) = (self.registry, self.body.op_name(op));
        *self.infos.entry(name).or_insert_with(|| registry.def(name))
    }

    fn is_terminator(&mut self, op: OpId) -> bool {
        // An unknown operation is reported as such, and could be a terminator.
        self.def(op).is_none_or(|def| def.traits.contains(Traits::TERMINATOR))
    }

    fn leaves(&mut self, op: OpId) -> bool {
        self.def(op).is_some_and(|def| def.traits.contains(Traits::LEAVES))
    }

    fn check_op(&mut self, op: OpId) {
        let body = self.body;
        self.check_operands(op);
        let name = body.op_name(op);
        let registry = self.registry;
        let Some(def) = *self.infos.entry(name).or_insert_with(|| registry.def(name)) else {
            let help = self.suggestions.entry(name).or_insert_with(|| {
                did_you_mean(name.as_str(), registry.ops().map(|info| info.def.name))
            });
            let help = help.clone();
            let message = format!("no operation `{name}` is registered");
            self.error("E0120", Some(op), message).help = help;
            return;
        };
        for (index, result) in body.results(op).enumerate() {
            self.check_type(result, Some(op), || format!("result {index} of `{name}`"));
        }
        let counts = [
            ("operand", def.operands, body.operand_count(op)),
            ("result", def.results, body.result_count(op)),
            ("region", def.regions, body.regions(op).len()),
        ];
        let mut fits = true;
        for (what, fields, count) in counts {
            if !OpDef::arity_fits(fields, count) {
                fits = false;
                let expected = expected_count(fields, what);
                let message = format!("`{name}` expects {expected}, found {count}");
                self.error("E0121", Some(op), message);
            }
        }
        fits &= self.check_attrs(op, def);
        if def.traits.contains(Traits::TERMINATOR) && body.next_op(op).is_some() {
            let message = format!("the terminator `{name}` stands before the end of its block");
            self.error("E0123", Some(op), message);
        }
        // Hooks may rely on what was checked so far.
        if fits {
            self.check_relation(op, def);
            if let Some(verify) = def.verify {
                let signatures = self.signatures;
                let cx = VerifyCx { body, op, registry: self.registry, signatures };
                if let Err(message) = verify(&cx) {
                    self.error("E0125", Some(op), format!("`{name}`: {message}"));
                }
            }
        }
    }

    fn check_operands(&mut self, op: OpId) {
        let body = self.body;
        for (index, value) in body.operands(op).enumerate() {
            let defined = match body.def(value) {
                ValueDef::Argument(block, at) => {
                    self.open[block.index()] && body.block_args(block).get(at) == Some(&value)
                }
                ValueDef::Result(def, _) => {
                    self.done[def.index()]
                        && body.op_block(def).is_some_and(|block| self.open[block.index()])
                }
            };
            if !defined {
                let definition =
                    body.defining_op(value).and_then(|def| body.loc(def).span(self.base));
                let message = format!(
                    "operand {index} of `{}` is not defined at this place",
                    body.op_name(op)
                );
                let diagnostic = self.error("E0126", Some(op), message);
                *diagnostic = diagnostic
                    .clone()
                    .related(definition, "it is defined here")
                    .help("define the value before, in this block or one around it");
            }
        }
    }

    /// Whether the attributes fit the declaration.
    fn check_attrs(&mut self, op: OpId, def: &OpDef) -> bool {
        let attrs = self.body.attrs(op);
        if attrs.is_empty() && def.attrs.is_empty() {
            return true;
        }
        let key = (self.body.op_name(op), attrs);
        let wrong = self.attrs.entry(key).or_insert_with(|| match def.normalize_attrs(attrs) {
            Err(messages) => messages,
            Ok(normal) if normal == attrs => Vec::new(),
            Ok(normal) => {
                vec![format!("expected the normal form {normal:?}, found {attrs:?}")]
            }
        });
        if wrong.is_empty() {
            return true;
        }
        for message in wrong.clone() {
            self.error("E0122", Some(op), message);
        }
        false
    }

    /// Runs the type relation again.
    fn check_relation(&mut self, op: OpId, def: &OpDef) {
        let body = self.body;
        let Some(infer) = def.infer else { return };
        let name = body.op_name(op);
        let types: SmallVec<[Type; 4]> = body.operands(op).map(|value| body.ty(value)).collect();
        let constants = |index: usize| {
            let exists = index < body.operand_count(op);
            exists.then(|| self.registry.constant(body, body.operand(op, index)))?
        };
        let mut cx = InferCx::with_constants(&types, body.attrs(op), &constants);
        let inferred = cx.answer(infer);
        let refinements = std::mem::take(&mut cx.refinements);
        let problem = match inferred {
            // Whatever is not known well enough has been reported as not inferred.
            Err(Stop::Stuck) => None,
            Err(Stop::Error(message)) => Some(message),
            Ok(ty) => {
                let found = (body.result_count(op) == 1).then(|| body.ty(body.result(op, 0)));
                let refused = refinements.iter().find(|(index, ty)| {
                    types.get(*index).is_some_and(|found| !compatible(*ty, *found))
                });
                match (refused, found) {
                    (Some((index, ty)), _) => {
                        let found = types[*index];
                        Some(format!("expected operand {index} of type {ty}, found {found}"))
                    }
                    (None, Some(found)) if !compatible(ty, found) => {
                        Some(format!("expected a result of type {ty}, found {found}"))
                    }
                    _ => None,
                }
            }
        };
        if let Some(message) = problem {
            let types: Vec<String> = types.iter().map(Type::to_string).collect();
            let note = format!("operand types: {}", types.join(", "));
            self.error("E0124", Some(op), format!("`{name}`: {message}")).notes.push(note);
        }
    }
}

fn expected_count(fields: &[Field], what: &str) -> String {
    let required = fields.iter().filter(|field| field.arity == Arity::One).count();
    let plural = if required == 1 { "" } else { "s" };
    match fields.last().map(|field| field.arity) {
        Some(Arity::Many) => format!("at least {required} {what}{plural}"),
        Some(Arity::Optional) => format!("{required} or {} {what}s", required + 1),
        _ => format!("{required} {what}{plural}"),
    }
}

/// Whether a value of type `found` may stand where a relation says `expected`: equal, but for
/// extents that are `?` on either side and parts that the relation leaves open.
pub fn compatible(expected: Type, found: Type) -> bool {
    if expected == found {
        return true;
    }
    let dims = |a: &Dim, b: &Dim| a == b || *a == Dim::Any || *b == Dim::Any;
    let mut pending: SmallVec<[(Type, Type); 8]> = SmallVec::from_slice(&[(expected, found)]);
    // Types share parts, so that a pair can come up very often.
    let mut seen: FxHashSet<(Type, Type)> = FxHashSet::default();
    // Parameters of polymorphic functions that stand for one of their instances.
    let mut instantiated: SmallVec<[Symbol; 4]> = SmallVec::new();
    while let Some((a, b)) = pending.pop() {
        if a == b || !seen.insert((a, b)) {
            continue;
        }
        if matches!(b.data(), TypeData::Parameter(name) if instantiated.contains(name)) {
            continue;
        }
        let fits = match (a.data(), b.data()) {
            (TypeData::Unknown | TypeData::Variable(_), _) => true,
            (_, TypeData::Unknown | TypeData::Variable(_)) => true,
            (TypeData::Tensor(a), TypeData::Tensor(b)) => {
                a.dtype == b.dtype
                    && a.rank() == b.rank()
                    && a.shape.iter().zip(&b.shape).all(|(a, b)| dims(a, b))
            }
            (TypeData::Tuple(a), TypeData::Tuple(b)) => {
                pending.extend(a.iter().copied().zip(b.iter().copied()));
                a.len() == b.len()
            }
            (TypeData::Function(a), TypeData::Function(b)) => {
                pending.extend(a.params.iter().copied().zip(b.params.iter().copied()));
                pending.push((a.result, b.result));
                if a.type_params.is_empty() {
                    instantiated.extend_from_slice(&b.type_params);
                }
                (a.type_params.is_empty() || a.type_params == b.type_params)
                    && a.params.len() == b.params.len()
            }
            (TypeData::Ref(a), TypeData::Ref(b)) => {
                pending.push((*a, *b));
                true
            }
            (TypeData::Named { name: a, params: xs }, TypeData::Named { name: b, params: ys }) => {
                a == b
                    && xs.len() == ys.len()
                    && xs.iter().zip(ys).all(|(x, y)| match (x, y) {
                        (TypeParam::Type(x), TypeParam::Type(y)) => {
                            pending.push((*x, *y));
                            true
                        }
                        (TypeParam::Dim(x), TypeParam::Dim(y)) => dims(x, y),
                        _ => x == y,
                    })
            }
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    true
}
