//! Editing one function: what a function pass gets.

use smallvec::SmallVec;

use crate::attributes::{Attr, AttrDict};
use crate::body::{Body, InsertPoint, OpParts};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ids::{OpId, ValueId};
use crate::infer::{InferCx, Stop};
use crate::intern::Symbol;
use crate::location::{Loc, Span};
use crate::module::{Signature, Signatures};
use crate::op::{Op, OpFields};
use crate::registry::Registry;
use crate::types::Type;

/// One function, open for editing. It sees its own body, the signatures of the other items as they
/// were when the pass began, and the registry: a function pass cannot look at its siblings, so
/// function passes run in parallel.
pub struct FuncMut<'a> {
    /// The name of the function.
    pub name: Symbol,
    /// Its own signature.
    pub signature: &'a mut Signature,
    /// Its body.
    pub body: &'a mut Body,
    /// The signatures of all items.
    pub signatures: &'a Signatures,
    /// What exists.
    pub registry: &'a Registry,
}

impl FuncMut<'_> {
    /// All operations of kind `T`, in program order. Collected first, so editing is safe. Look at
    /// each with [`view`](FuncMut::view) when its turn comes: an edit may have changed its
    /// operands, or erased it.
    pub fn all<T: Op>(&self) -> Vec<OpId> {
        self.body.walk().filter(|op| self.body.view::<T>(*op).is_some()).collect()
    }

    /// The operation `op` as a `T`, as it now is; `None` where it is another or erased.
    pub fn view<T: Op>(&self, op: OpId) -> Option<T> {
        self.body.is_live(op).then(|| self.body.view(op)).flatten()
    }

    /// The operation that defines `value`, seen as a `T`.
    pub fn def<T: Op>(&self, value: ValueId) -> Option<T> {
        self.body.view_def(value).map(|(_, view)| view)
    }

    /// Inserts the operation that `op` describes and returns its result, its type inferred.
    /// Errors when the type relation fails.
    pub fn build<T: OpFields<ValueId>>(
        &mut self,
        at: InsertPoint,
        loc: Loc,
        op: &T,
    ) -> Result<ValueId, Diagnostics> {
        self.build_named(at, loc, Symbol::new(T::NAME), &op.operands(), op.attrs())
    }

    /// Inserts operation `name` and returns its result, its type inferred. `attrs` are taken as
    /// they are, defaults left out. Errors when the type relation fails.
    pub fn build_named(
        &mut self,
        at: InsertPoint,
        loc: Loc,
        name: Symbol,
        operands: &[ValueId],
        attrs: AttrDict,
    ) -> Result<ValueId, Diagnostics> {
        let types: SmallVec<[Type; 4]> = operands.iter().map(|v| self.body.ty(*v)).collect();
        let ty = match self.registry.def(name).and_then(|def| def.infer) {
            None => Ok(Type::unknown()),
            Some(infer) => {
                let body = &*self.body;
                let constants =
                    |i: usize| -> Option<Attr> { self.registry.constant(body, *operands.get(i)?) };
                InferCx::with_constants(&types, attrs, &constants).answer(infer)
            }
        };
        let ty = match ty {
            Ok(ty) => ty,
            Err(Stop::Stuck) => Type::unknown(),
            Err(Stop::Error(message)) => {
                let types: Vec<String> = types.iter().map(|ty| ty.to_string()).collect();
                return Err(Diagnostic::error("E0101", format!("`{name}`: {message}"))
                    .at(self.span(loc))
                    .note(format!("operand types: {}", types.join(", ")))
                    .into());
            }
        };
        let results = [ty];
        let parts = OpParts::new(name, operands, &results).attrs(attrs).at(loc);
        if let Err(message) = parts.check_width() {
            return Err(Diagnostic::error("E0101", format!("`{name}`: {message}"))
                .at(self.span(loc))
                .into());
        }
        let op = self.body.insert_op(at, parts);
        Ok(self.body.result(op, 0))
    }

    /// Makes every use of the single result of `op` a use of `value`, and erases `op`. A name
    /// hint of the result passes on to `value` where that has none.
    pub fn replace(&mut self, op: OpId, value: ValueId) {
        let result = self.body.result(op, 0);
        let hint = self.body.name_hint(result);
        if self.body.name_hint(value).name.is_none() && self.body.defining_op(value).is_some() {
            self.body.set_name_hint(value, hint);
        }
        self.body.replace_all_uses(result, value);
        self.body.erase(op);
    }

    /// Where the function starts in its source.
    pub fn base(&self) -> Option<Span> {
        self.signature.span
    }

    /// The source position behind `loc`.
    pub fn span(&self, loc: Loc) -> Option<Span> {
        loc.span(self.base())
    }

    /// The source position of `op`.
    pub fn op_span(&self, op: OpId) -> Option<Span> {
        self.span(self.body.loc(op))
    }
}
