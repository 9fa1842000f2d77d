//! Ensembles of decision trees: all trees go down one level at a time.

use ir_core::{DType, TensorData};

use super::learned::{Labels, Transform, matrix};
use super::{Operator, many, one};
use crate::importer::{Fault, Value};
use crate::node::{Cx, attr, few};

pub(super) const OPERATORS: &[Operator] = &[
    one(
        "ai.onnx.ml.TreeEnsemble",
        "`take`, `gather`, comparisons and `where` for each level",
        |cx| {
            let (trees, aggregate) = of_version_5(cx)?;
            let transform = match cx.int("post_transform", 0)? {
                0 => Transform::None,
                1 => Transform::Softmax,
                2 => Transform::Logistic,
                other => {
                    return Err(format!("expected `post_transform` 0 to 2, found {other}").into());
                }
            };
            let scores = trees.scores(cx, aggregate)?;
            transform.apply(cx, &scores)
        },
    ),
    many(
        "ai.onnx.ml.TreeEnsembleClassifier",
        "`take`, `gather`, comparisons and `where` for each level",
        classify,
    ),
    one(
        "ai.onnx.ml.TreeEnsembleRegressor",
        "`take`, `gather`, comparisons and `where` for each level",
        |cx| {
            let targets = cx.int("n_targets", 1)?;
            let trees = of_version_3(cx, "target", targets)?;
            let aggregate = match cx.text("aggregate_function", "SUM")? {
                "SUM" => Aggregate::Sum,
                "AVERAGE" => Aggregate::Average,
                "MIN" => Aggregate::Min,
                "MAX" => Aggregate::Max,
                other => {
                    let message = format!("expected SUM, AVERAGE, MIN or MAX, found `{other}`");
                    return Err(message.into());
                }
            };
            let mut scores = trees.scores(cx, aggregate)?;
            if let Some(base) = numbers(cx, "base_values")?.filter(|base| !base.is_empty()) {
                let base = cx.floats_like(&base, &[base.len() as i64], &scores)?;
                scores = cx.op("add", &[&scores, &base])?;
            }
            Transform::of(cx)?.apply(cx, &scores)
        },
    ),
];

/// How a node compares an element of a row with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Compare(&'static str),
    Member,
}

/// The modes by their names and numbers.
const MODES: [(&str, Mode); 7] = [
    ("BRANCH_LEQ", Mode::Compare("less_equal")),
    ("BRANCH_LT", Mode::Compare("less")),
    ("BRANCH_GTE", Mode::Compare("greater_equal")),
    ("BRANCH_GT", Mode::Compare("greater")),
    ("BRANCH_EQ", Mode::Compare("equal")),
    ("BRANCH_NEQ", Mode::Compare("not_equal")),
    ("BRANCH_MEMBER", Mode::Member),
];

/// What becomes of the weights of all trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

/// A node; a leaf leads to itself.
#[derive(Clone, Debug)]
struct Node {
    feature: i64,
    value: f64,
    mode: Mode,
    /// Where to go where the comparison holds, and where not.
    next: [usize; 2],
    /// Whether it holds for what is no number.
    takes_nan: bool,
    /// The values that `Member` looks for.
    members: Vec<f64>,
    /// Of a leaf, targets and weights.
    weights: Vec<(usize, f64)>,
}

impl Node {
    fn leaf(at: usize) -> Node {
        Node {
            feature: 0,
            value: 0.0,
            mode: MODES[0].1,
            next: [at, at],
            takes_nan: false,
            members: vec![],
            weights: vec![],
        }
    }
}

/// All trees.
#[derive(Debug)]
struct Trees {
    roots: Vec<usize>,
    nodes: Vec<Node>,
    targets: usize,
}

/// Trees are at most so deep: each level is written.
const MOST_LEVELS: usize = 1000;

impl Trees {
    /// The number of steps from a root to the farthest leaf.
    fn levels(&self) -> Result<usize, Fault> {
        let mut reached: Vec<usize> = self.roots.clone();
        let is_leaf = |at: &usize| self.nodes[*at].next == [*at, *at];
        for level in 0..=MOST_LEVELS {
            reached.sort_unstable();
            reached.dedup();
            reached.retain(|at| !is_leaf(at));
            if reached.is_empty() {
                return Ok(level);
            }
            reached = reached.iter().flat_map(|at| self.nodes[*at].next).collect();
        }
        Err(format!("expected trees of at most {MOST_LEVELS} levels").into())
    }

    /// What the trees say of each row of operand 0, by target.
    fn scores(&self, cx: &mut Cx<'_, '_>, aggregate: Aggregate) -> Result<Value, Fault> {
        let levels = self.levels()?;
        let data = matrix(cx)?;
        let data = match cx.dtype(&data)?.is_float() {
            true => data,
            false => cx.cast(&data, DType::FLOAT32)?,
        };
        let dtype = cx.dtype(&data)?;
        let features = cx.ty(&data)?.shape[1].known();
        let Some(features) = features.filter(|features| *features > 0) else {
            return Err(Fault::Open("expected a known number of features".to_string()));
        };
        if let Some(node) = self.nodes.iter().find(|n| !(0..features).contains(&n.feature)) {
            let found = node.feature;
            return Err(format!("expected features below {features}, found {found}").into());
        }
        // Every row starts at all roots.
        let attrs = attr("begin", vec![0i64]).with("end", &vec![1i64]).with("axes", &vec![1i64]);
        let column = cx.op_with("strided_slice", &[&data], attrs)?;
        let zeros = cx.op("zeros_like", &[&column])?;
        let zeros = cx.cast(&zeros, DType::INT64)?;
        let roots: Vec<i64> = self.roots.iter().map(|root| *root as i64).collect();
        let roots = cx.int_vector(&roots);
        let mut state = cx.op("add", &[&zeros, &roots])?;
        let ints = |cx: &Cx<'_, '_>, of: &dyn Fn(&Node) -> i64| {
            cx.int_vector(&self.nodes.iter().map(of).collect::<Vec<i64>>())
        };
        let of_feature = ints(cx, &|node| node.feature);
        let if_true = ints(cx, &|node| node.next[0] as i64);
        let if_false = ints(cx, &|node| node.next[1] as i64);
        let takes_nan = ints(cx, &|node| node.takes_nan.into());
        let of_mode = ints(cx, &|node| place(node.mode));
        let values: Vec<f64> = self.nodes.iter().map(|node| node.value).collect();
        let values = cx.floats_like(&values, &[values.len() as i64], &data)?;
        let at = |cx: &mut Cx<'_, '_>, table: &Value, state: &Value| {
            cx.op_with("take", &[table, state], attr("axis", 0i64))
        };
        for _ in 0..levels {
            let feature = at(cx, &of_feature, &state)?;
            let element = cx.op_with("gather", &[&data, &feature], attr("axis", 1i64))?;
            let mut holds: Option<Value> = None;
            for (_, mode) in MODES {
                if !self.nodes.iter().any(|node| node.mode == mode) {
                    continue;
                }
                let found = match mode {
                    Mode::Compare(name) => {
                        let value = at(cx, &values, &state)?;
                        cx.op(name, &[&element, &value])?
                    }
                    Mode::Member => self.is_member(cx, &element, &state)?,
                };
                holds = Some(match holds {
                    None => found,
                    Some(others) => {
                        let own = at(cx, &of_mode, &state)?;
                        let own = cx.with_scalar("equal", &own, place(mode) as f64)?;
                        cx.op("where", &[&own, &found, &others])?
                    }
                });
            }
            let Some(mut holds) = holds else { break };
            if self.nodes.iter().any(|node| node.takes_nan) {
                let is_nan = cx.op("isnan", &[&element])?;
                let takes = at(cx, &takes_nan, &state)?;
                let takes = cx.cast(&takes, DType::BOOL)?;
                let takes = cx.op("logical_and", &[&is_nan, &takes])?;
                holds = cx.op("logical_or", &[&holds, &takes])?;
            }
            let (yes, no) = (at(cx, &if_true, &state)?, at(cx, &if_false, &state)?);
            state = cx.op("where", &[&holds, &yes, &no])?;
        }
        self.aggregated(cx, &state, aggregate, dtype)
    }

    /// Whether `element` is one of the members of its node.
    fn is_member(
        &self,
        cx: &mut Cx<'_, '_>,
        element: &Value,
        state: &Value,
    ) -> Result<Value, Fault> {
        let width = self.nodes.iter().map(|node| node.members.len()).max().unwrap_or(0).max(1);
        few("members of nodes", &[self.nodes.len() as i64, width as i64])?;
        // What is no number is equal to nothing.
        let row = |node: &Node| {
            let mut members = node.members.clone();
            members.resize(width, f64::NAN);
            members
        };
        let members: Vec<f64> = self.nodes.iter().flat_map(row).collect();
        let shape = [self.nodes.len() as i64, width as i64];
        let members = cx.floats_like(&members, &shape, element)?;
        let members = cx.op_with("take", &[&members, state], attr("axis", 0i64))?;
        let element = cx.expand_dims(element, 2)?;
        let equal = cx.op("equal", &[&members, &element])?;
        cx.op_with("any", &[&equal], attr("axis", vec![2i64]))
    }

    /// The weights of the leaves that `state` has for each row and tree.
    fn aggregated(
        &self,
        cx: &mut Cx<'_, '_>,
        state: &Value,
        aggregate: Aggregate,
        dtype: DType,
    ) -> Result<Value, Fault> {
        // What a leaf says nothing of changes nothing.
        let (name, neutral) = match aggregate {
            Aggregate::Sum | Aggregate::Average => ("sum", 0.0),
            Aggregate::Min => ("min", f64::INFINITY),
            Aggregate::Max => ("max", f64::NEG_INFINITY),
        };
        few("weights of leaves", &[self.nodes.len() as i64, self.targets as i64])?;
        let mut weights = vec![neutral; self.nodes.len() * self.targets];
        for (at, node) in self.nodes.iter().enumerate() {
            for (target, weight) in &node.weights {
                let weights = &mut weights[at * self.targets + target];
                *weights = if *weights == neutral { *weight } else { *weights + weight };
            }
        }
        let shape = [self.nodes.len() as i64, self.targets as i64];
        let weights = TensorData::from_f64(dtype, &shape, &weights);
        let weights = Value::Constant(weights.map_err(|error| error.to_string())?);
        let weights = cx.op_with("take", &[&weights, state], attr("axis", 0i64))?;
        let mut total = cx.op_with(name, &[&weights], attr("axis", vec![1i64]))?;
        if aggregate == Aggregate::Average {
            total = cx.with_scalar("divide", &total, self.roots.len() as f64)?;
        }
        if neutral != 0.0 {
            let zero = cx.scalar_like(0.0, &total)?;
            let is_none = cx.with_scalar("equal", &total, neutral)?;
            total = cx.op("where", &[&is_none, &zero, &total])?;
        }
        Ok(total)
    }
}

/// The place of `mode` among [`MODES`].
fn place(mode: Mode) -> i64 {
    MODES.iter().position(|(_, other)| *other == mode).map_or(0, |place| place as i64)
}

/// Attribute `name`, a list of numbers, or the tensor that takes its place.
fn numbers(cx: &mut Cx<'_, '_>, name: &str) -> Result<Option<Vec<f64>>, Fault> {
    match cx.tensor(&format!("{name}_as_tensor"))? {
        Some(tensor) => Ok(Some(tensor.to_f64())),
        None => cx.floats(name),
    }
}

/// `list[at]`, which must be there.
fn element<T: Clone>(list: &[T], at: usize, name: &str) -> Result<T, Fault> {
    list.get(at).cloned().ok_or_else(|| Fault::Message(format!("`{name}` has no element {at}")))
}

/// A number that is a place below `count`.
fn below(value: i64, count: usize, what: &str) -> Result<usize, Fault> {
    match usize::try_from(value) {
        Ok(place) if place < count => Ok(place),
        _ => Err(format!("expected {what} below {count}, found {value}").into()),
    }
}

/// The trees of an operator whose nodes and leaves are numbered.
fn of_version_5(cx: &mut Cx<'_, '_>) -> Result<(Trees, Aggregate), Fault> {
    let list = |cx: &Cx<'_, '_>, name: &str| cx.ints(name).map(Option::unwrap_or_default);
    let tensor = |cx: &mut Cx<'_, '_>, name: &str| {
        Ok::<Vec<f64>, Fault>(cx.tensor(name)?.map_or(vec![], |tensor| tensor.to_f64()))
    };
    let features = list(cx, "nodes_featureids")?;
    let (next, leafs) = (
        [list(cx, "nodes_truenodeids")?, list(cx, "nodes_falsenodeids")?],
        [list(cx, "nodes_trueleafs")?, list(cx, "nodes_falseleafs")?],
    );
    let missing = list(cx, "nodes_missing_value_tracks_true")?;
    let (values, modes) = (tensor(cx, "nodes_splits")?, tensor(cx, "nodes_modes")?);
    let (targets, weights) = (list(cx, "leaf_targetids")?, tensor(cx, "leaf_weights")?);
    let members = tensor(cx, "membership_values")?;
    let mut sets = members.split(|value| value.is_nan());
    let (count, leaves) = (features.len(), targets.len());
    let width = usize::try_from(cx.int("n_targets", 1)?).ok().filter(|width| *width > 0);
    let width = width.ok_or("expected at least one target")?;
    let mut nodes = Vec::new();
    for (at, feature) in features.iter().enumerate() {
        let mode = element(&modes, at, "nodes_modes")?;
        let found = MODES.iter().enumerate().find(|(number, _)| *number as f64 == mode);
        let mode = found.map(|(_, (_, mode))| *mode);
        let mode = mode.ok_or_else(|| format!("expected a mode from 0 to 6, found {mode:?}"))?;
        let mut ends = [0; 2];
        for (side, end) in ends.iter_mut().enumerate() {
            let id = element(&next[side], at, "nodes_truenodeids")?;
            *end = match element(&leafs[side], at, "nodes_trueleafs")? {
                0 => below(id, count, "nodes")?,
                _ => count + below(id, leaves, "leaves")?,
            };
        }
        nodes.push(Node {
            feature: *feature,
            value: element(&values, at, "nodes_splits")?,
            mode,
            next: ends,
            takes_nan: missing.get(at).is_some_and(|track| *track != 0),
            members: match mode {
                Mode::Member => sets.next().unwrap_or_default().to_vec(),
                Mode::Compare(_) => vec![],
            },
            weights: vec![],
        });
    }
    for (at, target) in targets.iter().enumerate() {
        let weight = element(&weights, at, "leaf_weights")?;
        let weights = vec![(below(*target, width, "targets")?, weight)];
        nodes.push(Node { weights, ..Node::leaf(count + at) });
    }
    let roots = list(cx, "tree_roots")?;
    let roots = roots.iter().map(|root| below(*root, nodes.len(), "roots"));
    let roots = roots.collect::<Result<Vec<usize>, Fault>>()?;
    if roots.is_empty() {
        return Err("expected at least one tree".into());
    }
    let aggregate = match cx.int("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(format!("expected `aggregate_function` 0 to 3, found {other}").into()),
    };
    Ok((Trees { roots, nodes, targets: width }, aggregate))
}

/// The trees of an operator whose nodes have the number of their tree and one in it; weights are the
/// attributes that begin with `weights`.
fn of_version_3(cx: &mut Cx<'_, '_>, weights: &str, targets: i64) -> Result<Trees, Fault> {
    let list = |cx: &Cx<'_, '_>, name: &str| cx.ints(name).map(Option::unwrap_or_default);
    let (trees, ids) = (list(cx, "nodes_treeids")?, list(cx, "nodes_nodeids")?);
    let features = list(cx, "nodes_featureids")?;
    let next = [list(cx, "nodes_truenodeids")?, list(cx, "nodes_falsenodeids")?];
    let missing = list(cx, "nodes_missing_value_tracks_true")?;
    let values = numbers(cx, "nodes_values")?.unwrap_or_default();
    let modes = cx.texts("nodes_modes")?.unwrap_or_default();
    let targets = usize::try_from(targets).ok().filter(|count| *count > 0);
    let targets = targets.ok_or("expected at least one target")?;
    let mut places = rustc_hash::FxHashMap::default();
    for (at, tree) in trees.iter().enumerate() {
        places.insert((*tree, element(&ids, at, "nodes_nodeids")?), at);
    }
    let find = |tree: i64, id: i64| {
        let found = places.get(&(tree, id)).copied();
        found.ok_or_else(|| Fault::Message(format!("tree {tree} has no node {id}")))
    };
    let (mut nodes, mut roots) = (Vec::new(), Vec::new());
    for (at, tree) in trees.iter().enumerate() {
        if at == 0 || trees[at - 1] != *tree {
            roots.push(at);
        }
        let mode = element(&modes, at, "nodes_modes")?;
        if mode == "LEAF" {
            nodes.push(Node::leaf(at));
            continue;
        }
        let found = MODES.iter().find(|(name, known)| *name == mode && *known != Mode::Member);
        let (_, mode) = found.ok_or_else(|| format!("expected a known mode, found `{mode}`"))?;
        let mut ends = [0; 2];
        for (side, end) in ends.iter_mut().enumerate() {
            *end = find(*tree, element(&next[side], at, "nodes_truenodeids")?)?;
        }
        nodes.push(Node {
            feature: element(&features, at, "nodes_featureids")?,
            value: element(&values, at, "nodes_values")?,
            mode: *mode,
            next: ends,
            takes_nan: missing.get(at).is_some_and(|track| *track != 0),
            ..Node::leaf(at)
        });
    }
    let of = |cx: &Cx<'_, '_>, part: &str| list(cx, &format!("{weights}_{part}"));
    let (of_tree, of_node, of_target) = (of(cx, "treeids")?, of(cx, "nodeids")?, of(cx, "ids")?);
    let given = numbers(cx, &format!("{weights}_weights"))?.unwrap_or_default();
    for (at, weight) in given.into_iter().enumerate() {
        let node = find(element(&of_tree, at, "treeids")?, element(&of_node, at, "nodeids")?)?;
        let target = below(element(&of_target, at, "ids")?, targets, "targets")?;
        nodes[node].weights.push((target, weight));
    }
    if roots.is_empty() {
        return Err("expected at least one tree".into());
    }
    Ok(Trees { roots, nodes, targets })
}

/// Labels, and the scores of all classes.
fn classify(cx: &mut Cx<'_, '_>) -> Result<Vec<Value>, Fault> {
    let labels = Labels::of(cx, "classlabels_int64s")?;
    let trees = of_version_3(cx, "class", labels.len() as i64)?;
    let weights = || trees.nodes.iter().flat_map(|node| &node.weights);
    let first = weights().next().map(|(target, _)| *target);
    let is_single = labels.len() == 2 && weights().all(|(target, _)| Some(*target) == first);
    let are_positive = weights().all(|(_, weight)| *weight >= 0.0);
    let mut scores = trees.scores(cx, Aggregate::Sum)?;
    let transform = Transform::of(cx)?;
    if let Some(mut base) = numbers(cx, "base_values")?.filter(|base| !base.is_empty()) {
        // One for two classes is that of the first.
        if base.len() < labels.len() && base.len() == 1 {
            base.resize(labels.len(), 0.0);
        }
        let base = cx.floats_like(&base, &[base.len() as i64], &scores)?;
        scores = cx.op("add", &[&scores, &base])?;
    }
    if !is_single {
        let label = labels.of_greatest(cx, &scores)?;
        return Ok(vec![label, transform.apply(cx, &scores)?]);
    }
    // Trees that speak of one class of two: its score decides alone.
    let place = first.unwrap_or(0) as i64;
    let attrs = attr("begin", vec![place]).with("end", &vec![place + 1]).with("axes", &vec![1i64]);
    let own = cx.op_with("strided_slice", &[&scores], attrs)?;
    let half = if are_positive { 0.5 } else { 0.0 };
    let is_second = cx.with_scalar("greater", &own, half)?;
    let is_second = cx.squeeze(&is_second, &[1])?;
    let classes = cx.cast(&is_second, DType::INT64)?;
    let label = labels.of_classes(cx, classes)?;
    if place == 1 {
        return Ok(vec![label, transform.apply(cx, &scores)?]);
    }
    // Where that is the first class, it counts as the second, and what is left as the first.
    let is_logistic = transform == Transform::Logistic;
    let scores = match are_positive {
        true => {
            let own = if is_logistic { transform.apply(cx, &own)? } else { own };
            let one = cx.scalar_like(1.0, &own)?;
            let rest = cx.op("subtract", &[&one, &own])?;
            cx.concatenate(&[rest, own], 1)?
        }
        false => {
            let rest = cx.op("negative", &[&own])?;
            let pair = cx.concatenate(&[rest, own], 1)?;
            if is_logistic { transform.apply(cx, &pair)? } else { pair }
        }
    };
    Ok(vec![label, scores])
}
