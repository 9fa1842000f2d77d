//! From graphs to bodies: names, constants, control flow, and the operations in between.

mod gradient;
mod inputs;
mod lists;
mod recursion;
mod texts;

use std::rc::Rc;

use bytes::Bytes;
use ir_core::{
    Attr, AttrData, AttrDict, AttrValue, BlockId, Body, Diagnostic, Diagnostics, Effects, InferCx,
    InsertPoint, Item, Loc, LocData, Module, OpId, OpParts, Registry, SmallVec, Stop, Symbol,
    TensorData, TensorType, Type, TypeData, ValueId,
};
use relay::interpreter::{EvalCx, Evaluate};
use relay::language::{FUNC, OUTPUT_NAMES};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::node::Cx;
use crate::operators::{self, Convert, OfTexts, attributes};
use crate::order::in_order;
use crate::proto::{
    Attribute, AttributeValue, Function, FunctionKey, Graph, Node, SparseTensor, Tensor,
};
use crate::tensors::Files;
use crate::texts::TEXT;
use crate::wire::WireError;
use crate::{Import, Options, Weights};

use gradient::GRADIENT;
use lists::join;
pub(crate) use lists::{element_of, list_of};
pub(crate) use recursion::Recursion;
pub(crate) use texts::{Texts, count as count_texts};

/// Results of at most this many elements are computed while a model is imported: shapes and what
/// they are made from.
const FOLD_LIMIT: i64 = 4096;

/// … from operands of at most this many.
const FOLD_OPERAND_LIMIT: usize = 1 << 16;

/// At most this many nodes of inner graphs are converted: loops in loops grow fast.
const MAX_INNER_NODES: usize = 1_000_000;

/// Graphs nest at most this deep.
pub(crate) const MAX_DEPTH: usize = 32;

/// A value of the model.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A constant, which becomes an operation where one needs it.
    Constant(TensorData),
    /// The result of an operation, or a parameter.
    Computed(ValueId),
    /// A sequence, whose length is known; one that is computed or a parameter is a tuple.
    Sequence(Rc<[Value]>),
    /// Texts; what becomes a result is their code points along one more axis.
    Texts(Rc<Texts>),
    /// An optional value that is not there.
    Absent,
}

/// What is known about an element of a vector of extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    /// Its value.
    Known(i64),
    /// It is an extent of a value.
    Extent(ValueId, usize),
    /// Nothing.
    Unknown,
}

/// Why a node cannot be converted.
pub(crate) enum Fault {
    /// What was expected and found.
    Message(String),
    /// An extent that must be known is not.
    Open(String),
    /// The same, reported at a node inside.
    Reported(Diagnostics),
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        Fault::Message(message)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Fault {
        Fault::Message(message.to_string())
    }
}

impl From<Diagnostics> for Fault {
    fn from(found: Diagnostics) -> Fault {
        Fault::Reported(found)
    }
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Fault {
        Fault::Reported(crate::damaged(&error).into())
    }
}

/// Operands of an operator.
#[derive(Clone, Copy)]
enum Operands<'v> {
    /// One each.
    Each(&'v [Value]),
    /// One, a tuple of these.
    Tuple(&'v [Value]),
}

/// What became of an operator.
enum Applied {
    /// Its value.
    Folded(relay::interpreter::Value),
    /// An operation with this result.
    Inserted(ValueId),
}

/// What a node gives the function of the model that it applies, beside the values of its inputs.
#[derive(Default)]
struct Call<'a> {
    attributes: Vec<Attribute<'a>>,
    /// Inputs that the node leaves out.
    absent: FxHashSet<&'a str>,
}

impl<'a> Call<'a> {
    /// `node` with the attributes that the function was given, where it refers to them.
    fn resolved(&self, node: &Node<'a>) -> Node<'a> {
        let given = |attribute: &Attribute<'a>| match attribute.value {
            AttributeValue::Reference(name) => {
                let given = self.attributes.iter().find(|given| given.name == name)?;
                Some(Attribute { name: attribute.name, ..given.clone() })
            }
            _ => Some(attribute.clone()),
        };
        let attributes = node.attributes.iter().filter_map(given).collect();
        Node { attributes, ..node.clone() }
    }
}

type Reported<T> = Result<T, Diagnostics>;

/// A model while it is imported.
pub(crate) struct Importer<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) file: &'a [u8],
    pub(crate) opset: i64,
    pub(crate) body: Body,
    files: Files<'a>,
    options: &'a Options,
    /// Where operations go.
    block: BlockId,
    loc: Loc,
    /// Values by name, those of the innermost graph last.
    scopes: Vec<FxHashMap<&'a str, Value>>,
    /// How many graphs are around the innermost one, those that apply a function included.
    depth: usize,
    /// The graphs around that have gradients of their values.
    differentiated: Vec<Rc<Graph<'a>>>,
    /// The functions of the model.
    functions: FxHashMap<FunctionKey<'a>, Rc<Function<'a>>>,
    /// What the function that is being computed was given.
    call: Option<Call<'a>>,
    /// What is known about vectors of extents.
    elements: FxHashMap<ValueId, Vec<Element>>,
    /// The operations of constants, so that each block has one of a kind.
    constants: FxHashMap<(BlockId, Attr), ValueId>,
    /// Whether it has been said which operators cannot be imported.
    pub(crate) knows_missing: bool,
    /// Names of what nodes failed to give.
    failed: FxHashSet<&'a str>,
    /// Nodes of inner graphs that were converted.
    inner_nodes: usize,
    /// Nodes without a seed that drew random numbers.
    pub(crate) draws: u64,
    /// Names of extents that the model has.
    dim_names: Vec<Symbol>,
    /// Names that open extents of inputs get which have none: `x.0` for axis 0 of `x`.
    unnamed_dims: Vec<Symbol>,
    /// Constants that become parameters.
    weights: Weights,
    /// Whether a sequence is a list.
    has_lists: bool,
}

impl<'a> Importer<'a> {
    /// How the model is imported.
    pub(crate) fn options(&self) -> &Options {
        self.options
    }

    pub(crate) fn new(
        registry: &'a Registry,
        model: &'a Bytes,
        files: Files<'a>,
        (opset, functions): (i64, impl Iterator<Item = Function<'a>>),
        options: &'a Options,
    ) -> Importer<'a> {
        let body = Body::new();
        let block = body.entry();
        Importer {
            registry,
            file: model,
            opset,
            body,
            files,
            options,
            block,
            loc: Loc::UNKNOWN,
            scopes: vec![FxHashMap::default()],
            depth: 0,
            differentiated: Vec::new(),
            functions: functions.map(|function| (function.key(), Rc::new(function))).collect(),
            call: None,
            elements: FxHashMap::default(),
            constants: FxHashMap::default(),
            knows_missing: false,
            failed: FxHashSet::default(),
            inner_nodes: 0,
            draws: 0,
            dim_names: Vec::new(),
            unnamed_dims: Vec::new(),
            weights: Weights::default(),
            has_lists: false,
        }
    }

    /// The module whose `@main` computes `graph`.
    pub(crate) fn run(mut self, graph: &Graph<'a>) -> Reported<Import> {
        self.initializers(graph)?;
        let mut params = self.inputs(graph)?;
        params.extend(self.large_weights(graph));
        self.check_dims()?;
        self.nodes(graph)?;
        let result = self.result(graph)?;
        self.insert("relay.yield", &[result], &[], AttrDict::empty(), 0);
        self.sweep();
        let mut type_params: Vec<Symbol> = match self.options.shape_variables {
            true => self.dim_names.clone(),
            false => Vec::new(),
        };
        type_params.retain(|name| !self.options.dims.contains_key(name.as_str()));
        let ty = Type::new(TypeData::Function(ir_core::FunctionType {
            type_params: type_params.into(),
            params: params.into(),
            result: self.body.ty(result),
        }));
        let mut main = Item::new(FUNC, ty, Some(self.body));
        let names: Vec<String> = graph.outputs.iter().map(|out| out.name.to_string()).collect();
        main.signature.attrs = AttrDict::new([(Symbol::new(OUTPUT_NAMES), names.to_attr())]);
        let mut module = Module::new();
        module.items.insert(Symbol::new("main"), main);
        if self.has_lists {
            lists::add(&mut module, self.registry)?;
        }
        Ok(Import { module, weights: self.weights })
    }

    /// What `@main` gives.
    fn result(&mut self, graph: &Graph<'a>) -> Reported<ValueId> {
        let outputs = self.outputs(graph)?;
        self.loc = Loc::UNKNOWN;
        let outputs: Vec<Value> = outputs.into_iter().map(|value| self.given(value)).collect();
        match outputs.as_slice() {
            [] => {
                let message = "the graph has no outputs";
                Err(Diagnostics::from(Diagnostic::error("E0806", message)))
            }
            [one] => Ok(self.materialize(one)),
            many => Ok(self.tuple(many)),
        }
    }

    /// Erases operations that nobody uses, such as those of shapes that turned out to be known.
    fn sweep(&mut self) {
        let mut ops = self.body.post_order();
        // Users stand after what they use, so that one walk from the end finds all.
        while let Some(op) = ops.pop() {
            let effects = Effects::WRITE | Effects::DIVERGE;
            if self.body.is_live(op)
                && self.body.result_count(op) > 0
                && self.body.results(op).all(|result| self.body.is_unused(result))
                && !self.registry.effects(&self.body, op).intersects(effects)
            {
                self.body.erase(op);
            }
        }
    }

    fn initializers(&mut self, graph: &Graph<'a>) -> Reported<()> {
        let mut found = Diagnostics::new();
        let dense = graph.initializers.iter().map(|tensor| (tensor.name, tensor.range.start));
        let sparse = graph.sparse_initializers.iter().map(|t| (t.values.name, t.offset));
        let named: Vec<(&'a str, usize)> = dense.chain(sparse).collect();
        let count = graph.initializers.len();
        for (index, (name, offset)) in named.into_iter().enumerate() {
            let loaded = match graph.initializers.get(index) {
                Some(tensor) => self.load_value(tensor),
                None => {
                    let sparse = &graph.sparse_initializers[index - count];
                    self.load_sparse(sparse).map(Value::Constant)
                }
            };
            let defined = loaded.and_then(|value| self.define(name, value));
            if let Err(message) = defined {
                let message = format!("constant `{name}`, at byte {offset}: {message}");
                found.push(Diagnostic::error("E0805", message));
            }
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    /// The elements of `tensor`, zeros and all. The error is a message.
    pub(crate) fn load_sparse(&mut self, tensor: &SparseTensor<'a>) -> Result<TensorData, String> {
        self.files.load_sparse(tensor)
    }

    /// The elements of `tensor`. The error is a message.
    pub(crate) fn load(&mut self, tensor: &Tensor<'a>) -> Result<TensorData, String> {
        self.files.load(tensor)
    }

    /// The numbers or texts of `tensor`. The error is a message.
    pub(crate) fn load_value(&mut self, tensor: &Tensor<'a>) -> Result<Value, String> {
        match tensor.data_type {
            TEXT => {
                let points = crate::texts::load(self.file, tensor)?;
                self.texts(&Value::Constant(points))
            }
            _ => Ok(Value::Constant(self.load(tensor)?)),
        }
    }

    // ---- names -----------------------------------------------------------------------------

    /// Gives `value` a name, which must be a new one in the innermost graph. The error is a message.
    fn define(&mut self, name: &'a str, value: Value) -> Result<(), String> {
        let scope = self.scopes.last_mut().expect("a graph has a scope while it is read");
        match scope.insert(name, value) {
            None => Ok(()),
            Some(_) => Err(format!("expected a new name, found `{name}` again")),
        }
    }

    pub(crate) fn lookup(&self, name: &str) -> Result<Value, String> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.cloned().ok_or_else(|| format!("expected a value `{name}`, found none"))
    }

    // ---- graphs ----------------------------------------------------------------------------

    /// Converts the nodes of `graph`. One that takes what another one failed to give fails as well, without
    /// a word, so that each problem is reported once.
    fn nodes(&mut self, graph: &Graph<'a>) -> Reported<()> {
        let (mut found, mut is_whole) = (Diagnostics::new(), true);
        let has_gradients = graph.nodes.iter().any(|node| node.operator() == GRADIENT);
        if has_gradients {
            self.differentiated.push(Rc::new(graph.clone()));
        }
        let is_known = |name: &str| self.lookup(name).is_ok();
        for node in in_order(self.file, graph, is_known) {
            if let Err(errors) = self.node_at(node) {
                found.extend(errors);
                is_whole = false;
                let results = node.outputs.iter().filter(|name| !name.is_empty());
                self.failed.extend(results.copied());
            }
        }
        if has_gradients {
            self.differentiated.pop();
        }
        if is_whole { Ok(()) } else { Err(found) }
    }

    /// Converts `node`; what is made of it has its name as location.
    fn node_at(&mut self, node: &Node<'a>) -> Reported<()> {
        let outer = self.loc;
        self.loc = Loc::new(LocData::Imported(Symbol::new(node.title())));
        let converted = self.node(node);
        self.loc = outer;
        converted.map_err(|fault| match fault {
            Fault::Reported(found) => found,
            Fault::Message(message) => node_error(node, message).into(),
            Fault::Open(message) => {
                Diagnostic { help: self.open_help(), ..node_error(node, message) }.into()
            }
        })
    }

    fn node(&mut self, node: &Node<'a>) -> Result<(), Fault> {
        let call = self.call.as_ref();
        let is_absent = |name: &str| call.is_some_and(|call| call.absent.contains(name));
        let input = |name: &&str| match name.is_empty() || is_absent(name) {
            true => Ok(None),
            false if self.failed.contains(name) => Err(Fault::Reported(Diagnostics::new())),
            false => Ok(Some(self.lookup(name)?)),
        };
        let inputs = node.inputs.iter().map(input).collect::<Result<Vec<_>, Fault>>()?;
        let refers =
            |attribute: &Attribute<'_>| matches!(attribute.value, AttributeValue::Reference(_));
        let node = match call.filter(|_| node.attributes.iter().any(refers)) {
            Some(call) => &call.resolved(node),
            None => node,
        };
        let results = match self.functions.get(&node.function()).cloned() {
            Some(function) => self.apply_function(&function, node, inputs)?,
            None => self.convert(node, inputs)?,
        };
        for (index, name) in node.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            match results.get(index) {
                Some(value) => self.define(name, value.clone())?,
                None => {
                    let message = format!("result {index} is not supported");
                    return Err(Fault::Message(message));
                }
            }
        }
        Ok(())
    }

    /// The results of an operator that can be imported.
    fn convert(
        &mut self,
        node: &Node<'a>,
        inputs: Vec<Option<Value>>,
    ) -> Result<Vec<Value>, Fault> {
        let Some(operator) = operators::find(node) else {
            return Err(match self.knows_missing {
                true => Fault::Reported(Diagnostics::new()),
                false => Fault::Message("there is no such operator".to_string()),
            });
        };
        attributes::check(node)?;
        let of_texts = operator.of_texts;
        let found = if of_texts == OfTexts::Read { None } else { self.places(&inputs)? };
        let (rows, inputs) = match found {
            Some((rows, places)) => {
                let is_texts = |input: &Value| matches!(input, Value::Texts(_));
                let given = inputs.iter().enumerate();
                let mut given = given.filter_map(|(at, input)| Some((at, input.as_ref()?)));
                let wrong = given.find(|(at, input)| of_texts.takes(*at) != is_texts(input));
                if let Some((index, input)) = wrong {
                    let (expected, found) = match is_texts(input) {
                        true => ("numbers", "texts"),
                        false => ("texts", "numbers"),
                    };
                    let message = format!("operand {index}: expected {expected}, found {found}");
                    return Err(message.into());
                }
                (Some(rows), places)
            }
            None => (None, inputs),
        };
        let mut cx = Cx::new(self, node, inputs);
        let results = match operator.convert {
            Convert::One(convert) => vec![convert(&mut cx)?],
            Convert::Many(convert) => convert(&mut cx)?,
        };
        cx.check_operands()?;
        let Some(rows) = rows.filter(|_| matches!(of_texts, OfTexts::Move(..))) else {
            return Ok(results);
        };
        let texts = |places| Value::Texts(Rc::new(Texts { rows: rows.clone(), places }));
        Ok(results.into_iter().map(texts).collect())
    }

    /// The results of a function of the model, computed here. It sees no name of what is around it.
    fn apply_function(
        &mut self,
        function: &Function<'a>,
        node: &Node<'a>,
        inputs: Vec<Option<Value>>,
    ) -> Result<Vec<Value>, Fault> {
        let (expected, found) = (function.graph.inputs.len(), inputs.len());
        if found > expected {
            return Err(format!("expected at most {expected} operands, found {found}").into());
        }
        let mut call = Call { attributes: node.attributes.clone(), ..Call::default() };
        let is_given = |name: &str| node.attributes.iter().any(|given| given.name == name);
        let defaults = function.defaults.iter().filter(|default| !is_given(default.name));
        call.attributes.extend(defaults.cloned());
        let mut given = FxHashMap::default();
        let inputs = inputs.into_iter().chain(std::iter::repeat(None));
        for (input, value) in function.graph.inputs.iter().zip(inputs) {
            match value {
                Some(value) => _ = given.insert(input.name, value),
                None => _ = call.absent.insert(input.name),
            }
        }
        let scopes = std::mem::take(&mut self.scopes);
        let failed = std::mem::take(&mut self.failed);
        let call = self.call.replace(call);
        let opset = self.opset;
        self.opset = crate::opset(&function.opsets).unwrap_or(opset);
        let results = self.inline_with(&function.graph, given);
        (self.scopes, self.failed, self.call, self.opset) = (scopes, failed, call, opset);
        results
    }

    fn outputs(&mut self, graph: &Graph<'a>) -> Reported<Vec<Value>> {
        let outputs = graph.outputs.iter().map(|output| {
            self.lookup(output.name).map_err(|message| {
                let message = format!("output, at byte {}: {message}", output.offset);
                Diagnostics::from(Diagnostic::error("E0806", message))
            })
        });
        outputs.collect()
    }

    /// The results of a graph inside a node, computed here. `arguments` are the values of its
    /// inputs.
    pub(crate) fn inline(
        &mut self,
        graph: &Graph<'a>,
        arguments: &[Value],
    ) -> Result<Vec<Value>, Fault> {
        let inputs = graph.inputs.iter().map(|input| input.name);
        self.inline_with(graph, inputs.zip(arguments.iter().cloned()).collect())
    }

    /// As [`inline`](Importer::inline), where `given` are the values of the inputs by name.
    fn inline_with(
        &mut self,
        graph: &Graph<'a>,
        given: FxHashMap<&'a str, Value>,
    ) -> Result<Vec<Value>, Fault> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("expected graphs nested at most {MAX_DEPTH} deep").into());
        }
        self.inner_nodes += graph.nodes.len() + 1;
        if self.inner_nodes > MAX_INNER_NODES {
            return Err(
                format!("expected at most {MAX_INNER_NODES} nodes in all iterations").into()
            );
        }
        self.scopes.push(given);
        self.depth += 1;
        let results = self.initializers(graph).and_then(|()| {
            self.nodes(graph)?;
            self.outputs(graph)
        });
        self.depth -= 1;
        self.scopes.pop();
        Ok(results?)
    }

    /// The results of one of two graphs without inputs, by a scalar `bool`.
    pub(crate) fn branch(
        &mut self,
        condition: &Value,
        graphs: [&Graph<'a>; 2],
    ) -> Result<Vec<Value>, Fault> {
        let condition = self.materialize(condition);
        let op = self.insert_op("relay.if", &[condition], &[Type::unknown()], AttrDict::empty(), 2);
        let outer = self.block;
        let mut both: Vec<Vec<Value>> = Vec::new();
        for (index, graph) in graphs.into_iter().enumerate() {
            self.block = self.body.region_block(op, index);
            let results = self.inline(graph, &[]);
            self.block = outer;
            both.push(results?);
        }
        let (first, second) = (&both[0], &both[1]);
        if first.len() != second.len() {
            let (a, b) = (first.len(), second.len());
            return Err(format!("expected branches with as many results, found {a} and {b}").into());
        }
        let joined = first.iter().zip(second).map(|(a, b)| match (a, b) {
            (Value::Texts(_), _) | (_, Value::Texts(_)) => {
                Err("expected branches that give numbers, found texts".into())
            }
            (Value::Absent, Value::Absent) => Ok(Type::tuple([])),
            (Value::Absent, _) | (_, Value::Absent) => {
                Err("expected an optional value that is there in both branches, or in none".into())
            }
            _ => join(self.ty(a), self.ty(b)),
        });
        let joined: Vec<Type> = joined.collect::<Result<_, Fault>>()?;
        for (index, results) in both.iter().enumerate() {
            self.block = self.body.region_block(op, index);
            let results = results.iter().zip(&joined).map(|(value, ty)| self.fitted(value, *ty));
            let results: Vec<Value> = results.collect();
            let result = match results.as_slice() {
                [one] => self.materialize(one),
                many => self.tuple(many),
            };
            self.insert("relay.yield", &[result], &[], AttrDict::empty(), 0);
            self.block = outer;
        }
        let result = self.body.result(op, 0);
        Ok(match joined.as_slice() {
            [one] => {
                self.body.set_ty(result, *one);
                vec![Value::Computed(result)]
            }
            many => {
                self.body.set_ty(result, Type::tuple(many.iter().copied()));
                (0..many.len()).map(|index| self.field(result, index, many[index])).collect()
            }
        })
    }

    // ---- values ----------------------------------------------------------------------------

    pub(crate) fn ty(&self, value: &Value) -> Type {
        match value {
            Value::Constant(tensor) => tensor.ty(),
            Value::Computed(value) => self.body.ty(*value),
            // The values of a sequence are tensors, so that this goes one level down.
            Value::Sequence(values) => Type::tuple(values.iter().map(|value| self.ty(value))),
            Value::Absent => Type::tuple([]),
            Value::Texts(texts) => self.ty(&texts.places),
        }
    }

    /// The values of a sequence.
    pub(crate) fn sequence(&mut self, value: &Value) -> Result<Vec<Value>, String> {
        let found = match value {
            Value::Sequence(values) => return Ok(values.to_vec()),
            Value::Computed(id) => match self.body.ty(*id).as_tuple() {
                Some(types) => {
                    let id = *id;
                    let fields = types.iter().enumerate();
                    return Ok(fields.map(|(index, ty)| self.field(id, index, *ty)).collect());
                }
                None => self.ty(value).to_string(),
            },
            Value::Constant(_) => self.ty(value).to_string(),
            Value::Texts(_) => "texts".to_string(),
            Value::Absent => "an optional value that is not there".to_string(),
        };
        Err(format!("expected a sequence, found {found}"))
    }

    pub(crate) fn tensor(&self, value: &Value) -> Result<&'static TensorType, String> {
        if let Value::Texts(_) = value {
            return Err("expected numbers, found texts".to_string());
        }
        let ty = self.ty(value);
        ty.as_tensor().ok_or_else(|| format!("expected a tensor, found {ty}"))
    }

    /// The value as the result of an operation.
    pub(crate) fn materialize(&mut self, value: &Value) -> ValueId {
        let tensor = match value {
            Value::Computed(value) => return *value,
            Value::Sequence(values) => return self.tuple(&values.clone()),
            Value::Absent => return self.tuple(&[]),
            Value::Texts(texts) => match self.spelled(&texts.clone()) {
                Ok(points) => return self.materialize(&points),
                Err(_) => unreachable!("rows of code points are taken by their places"),
            },
            Value::Constant(tensor) => tensor,
        };
        let attr = Attr::new(AttrData::Tensor(tensor.clone()));
        if let Some(value) = self.constants.get(&(self.block, attr)) {
            return *value;
        }
        let attrs = AttrDict::new([(Symbol::new("value"), attr)]);
        let value = self.insert("relay.constant", &[], &[tensor.ty()], attrs, 0);
        self.constants.insert((self.block, attr), value);
        value
    }

    fn tuple(&mut self, fields: &[Value]) -> ValueId {
        let fields: Vec<ValueId> = fields.iter().map(|field| self.materialize(field)).collect();
        let ty = Type::tuple(fields.iter().map(|field| self.body.ty(*field)));
        self.insert("relay.tuple", &fields, &[ty], AttrDict::empty(), 0)
    }

    fn field(&mut self, tuple: ValueId, index: usize, ty: Type) -> Value {
        let attrs = AttrDict::empty().with("index", &(index as i64));
        Value::Computed(self.insert("relay.tuple_get", &[tuple], &[ty], attrs, 0))
    }

    fn insert_op(
        &mut self,
        name: &str,
        operands: &[ValueId],
        types: &[Type],
        attrs: AttrDict,
        regions: usize,
    ) -> OpId {
        let parts = OpParts::new(name, operands, types).attrs(attrs).regions(regions).at(self.loc);
        self.body.insert_op(InsertPoint::End(self.block), parts)
    }

    /// Inserts an operation and returns its result; of one without, what it ends with.
    fn insert(
        &mut self,
        name: &str,
        operands: &[ValueId],
        types: &[Type],
        attrs: AttrDict,
        regions: usize,
    ) -> ValueId {
        let op = self.insert_op(name, operands, types, attrs, regions);
        match types {
            [] => operands[0],
            _ => self.body.result(op, 0),
        }
    }

    // ---- operators -------------------------------------------------------------------------

    /// Operator `name` of the relay dialect on `operands`, its type inferred; computed right away
    /// where all operands are constants and the result is small.
    pub(crate) fn apply(
        &mut self,
        name: &str,
        operands: &[Value],
        attrs: AttrDict,
    ) -> Result<Value, String> {
        match self.apply_to(name, Operands::Each(operands), attrs)? {
            Applied::Folded(value) => match value.as_tensor() {
                Some(tensor) => Ok(Value::Constant(tensor.clone())),
                None => Err(format!("`{name}`: expected a tensor, found {}", value.describe())),
            },
            Applied::Inserted(value) => Ok(Value::Computed(value)),
        }
    }

    /// As [`apply`](Importer::apply), for an operator on a tuple of `fields`.
    pub(crate) fn apply_to_tuple(
        &mut self,
        name: &str,
        fields: &[Value],
        attrs: AttrDict,
    ) -> Result<Value, String> {
        match self.apply_to(name, Operands::Tuple(fields), attrs)? {
            Applied::Folded(value) => match value.as_tensor() {
                Some(tensor) => Ok(Value::Constant(tensor.clone())),
                None => Err(format!("`{name}`: expected a tensor, found {}", value.describe())),
            },
            Applied::Inserted(value) => Ok(Value::Computed(value)),
        }
    }

    /// As [`apply`](Importer::apply), for an operator that returns a tuple: its fields.
    pub(crate) fn apply_for_tuple(
        &mut self,
        name: &str,
        operands: &[Value],
        attrs: AttrDict,
    ) -> Result<Vec<Value>, String> {
        let none = |ty: String| format!("`{name}`: expected a tuple of tensors, found {ty}");
        match self.apply_to(name, Operands::Each(operands), attrs)? {
            Applied::Folded(value) => {
                let fields = value.as_tuple().map(|fields| fields.iter().map(|f| f.as_tensor()));
                let fields: Option<Vec<_>> = fields.and_then(Iterator::collect);
                let fields = fields.ok_or_else(|| none(value.describe()))?;
                Ok(fields.into_iter().cloned().map(Value::Constant).collect())
            }
            Applied::Inserted(tuple) => {
                let ty = self.body.ty(tuple);
                let fields = ty.as_tuple().ok_or_else(|| none(ty.to_string()))?;
                Ok(fields.iter().enumerate().map(|(at, ty)| self.field(tuple, at, *ty)).collect())
            }
        }
    }

    fn apply_to(
        &mut self,
        name: &str,
        operands: Operands<'_>,
        attrs: AttrDict,
    ) -> Result<Applied, String> {
        let (Operands::Each(values) | Operands::Tuple(values)) = operands;
        if values.iter().any(|value| matches!(value, Value::Texts(_))) {
            return Err("expected numbers, found texts".to_string());
        }
        let mut types: SmallVec<[Type; 4]> = values.iter().map(|value| self.ty(value)).collect();
        if let Operands::Tuple(_) = operands {
            types = SmallVec::from_iter([Type::tuple(types)]);
        }
        let constant = |index: usize| match (operands, values.get(index)) {
            (Operands::Each(_), Some(Value::Constant(tensor))) => {
                Some(Attr::new(AttrData::Tensor(tensor.clone())))
            }
            _ => None,
        };
        let (name, attrs, ty) = self.infer(name, &types, attrs, &constant)?;
        if let Some(value) = self.fold(&name, operands, attrs, ty) {
            return Ok(Applied::Folded(value));
        }
        let values: Vec<ValueId> = match operands {
            Operands::Each(values) => values.iter().map(|value| self.materialize(value)).collect(),
            Operands::Tuple(fields) => vec![self.tuple(fields)],
        };
        Ok(Applied::Inserted(self.insert(&name, &values, &[ty], attrs, 0)))
    }

    /// The full name, the attributes in canonical form, and the type of the result.
    fn infer(
        &self,
        name: &str,
        types: &[Type],
        attrs: AttrDict,
        constant: &dyn Fn(usize) -> Option<Attr>,
    ) -> Result<(String, AttrDict, Type), String> {
        let full = format!("relay.{name}");
        let infer = self.registry.def(full.as_str()).and_then(|def| Some((def, def.infer?)));
        let Some((def, infer)) = infer else {
            return Err(format!("the registry has no operator `{name}`"));
        };
        let attrs = def.normalize_attrs(attrs).map_err(|errors| errors.join("; "))?;
        match InferCx::with_constants(types, attrs, constant).answer(infer) {
            Ok(ty) => Ok((full, attrs, ty)),
            Err(Stop::Error(message)) => Err(format!("`{name}`: {message}")),
            Err(Stop::Stuck) => Err(format!("`{name}`: the type of the result is not known")),
        }
    }

    /// The value of an operator on constants, where it is small.
    fn fold(
        &self,
        name: &str,
        operands: Operands<'_>,
        attrs: AttrDict,
        ty: Type,
    ) -> Option<relay::interpreter::Value> {
        use relay::interpreter::Value as Known;
        let (Operands::Each(values) | Operands::Tuple(values)) = operands;
        let info = self.registry.info(name)?;
        let evaluate = info.hook::<Evaluate>()?;
        let parts = match ty.as_tuple() {
            Some(fields) => fields,
            None => &[ty],
        };
        let small = |ty: &Type| {
            let shape = ty.as_tensor().map(|tensor| (tensor.known_shape(), tensor.elements()));
            shape.is_some_and(|(known, count)| match known {
                Some(_) => count.is_some_and(|count| count <= FOLD_LIMIT),
                None => true,
            })
        };
        if values.is_empty() || info.def.effects != Effects::empty() || !parts.iter().all(small) {
            return None;
        }
        let known = values.iter().map(|value| match value {
            Value::Constant(tensor) if tensor.len() <= FOLD_OPERAND_LIMIT => {
                Some(Known::Tensor(tensor.clone()))
            }
            _ => None,
        });
        let known: Vec<Known> = known.collect::<Option<_>>()?;
        let known = match operands {
            Operands::Each(_) => known,
            Operands::Tuple(_) => vec![Known::tuple(known)],
        };
        // What fails here fails at run time as well, where it is reported.
        let value =
            (evaluate.0)(&EvalCx { operands: &known, attrs, result: ty, registry: self.registry })
                .ok()?;
        let size = value.as_tensor().map_or(0, TensorData::len);
        (size as i64 <= FOLD_LIMIT).then_some(value)
    }

    // ---- vectors of extents ----------------------------------------------------------------

    /// What is known about the elements of a scalar or vector of integers.
    pub(crate) fn elements(&self, value: &Value) -> Option<Vec<Element>> {
        match value {
            Value::Constant(tensor) if tensor.rank() <= 1 && tensor.dtype().is_integer() => {
                Some(tensor.to_i64().into_iter().map(Element::Known).collect())
            }
            Value::Computed(value) => self.elements.get(value).cloned(),
            _ => None,
        }
    }

    /// Remembers what is known about the elements of `value`; a constant where that is all.
    pub(crate) fn with_elements(&mut self, value: Value, elements: Vec<Element>) -> Value {
        let (Value::Computed(id), Ok(tensor)) = (&value, self.tensor(&value)) else { return value };
        let known: Option<Vec<i64>> = elements
            .iter()
            .map(|element| match element {
                Element::Known(value) => Some(*value),
                _ => None,
            })
            .collect();
        let shape = tensor.known_shape();
        if let (Some(known), Some(shape)) = (known, shape)
            && let Ok(tensor) = TensorData::from_i64(tensor.dtype, &shape, &known)
        {
            return Value::Constant(tensor);
        }
        self.elements.insert(*id, elements);
        value
    }
}

/// The error at `node`.
fn node_error(node: &Node<'_>, message: String) -> Diagnostic {
    let (operator, title, offset) = (node.operator(), node.title(), node.offset);
    Diagnostic::error("E0803", format!("{operator} `{title}`: {message}"))
        .note(format!("the node stands at byte {offset}"))
}
