//! Level by level, trees have the results that they have one by one.

use crate::common;

use common::{cases, keeps_meaning, parse, printed, registry, run, trees};
use ir_core::{Module, verify};

fn batched(module: &Module) -> bool {
    module.items.keys().any(|name| name.as_str().ends_with("_levels"))
}

#[test]
fn random_trees_keep_their_results() {
    let registry = registry();
    let mut changed = 0;
    for seed in cases(150) {
        let text = trees::program(seed);
        let module = parse("in", &text, &registry).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let rows = [2, 4, 16][seed as usize % 3];
        let pass = format!("batch-recursion{{rows={rows}}}");
        let after = keeps_meaning(&module, &pass, &registry);
        let after = after.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        changed += usize::from(batched(&after));
        keeps_meaning(&after, "invariants", &registry)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(changed > 0);
}

/// Weights in data of one constructor, and several trees: all come together, and see constants.
#[test]
fn trees_of_a_list_are_computed_together() {
    let registry = registry();
    let text = "
      type Tree { Leaf(Tensor[(1, 4), float32]), Node(Tree, Tree) }
      type Trees { End, Also(Tree, Trees) }
      type States { Done, State(Tensor[(1, 4), float32], States) }
      type Weights { Weights(Tensor[(4, 4), float32], Tensor[(4, 4), float32]) }
      def @state(%tree: Tree[], %weights: Weights[]) -> Tensor[(1, 4), float32] {
        match (%tree) {
          Leaf(%x) => match (%weights) { Weights(%w, _) => nn.dense(%x, %w) },
          Node(%a, %b) => {
            let %l = @state(%a, %weights);
            let %r = @state(%b, %weights);
            match (%weights) { Weights(_, %w) => tanh(nn.dense(add(%l, %r), %w)) }
          },
        }
      }
      def @states(%trees: Trees[], %weights: Weights[]) -> States[] {
        match (%trees) {
          End => Done(),
          Also(%tree, %rest) => State(@state(%tree, %weights), @states(%rest, %weights)),
        }
      }
      def @main(%trees: Trees[]) {
        @states(%trees, Weights(ones(shape=[4, 4], dtype=\"float32\"), ones(shape=[4, 4], dtype=\"float32\")))
      }";
    let mut module = parse("in", text, &registry).unwrap();
    run(&mut module, "fold-constant", &registry).unwrap();
    for pass in ["invariants", "batch-recursion", "invariants", "remove-unused-functions"] {
        run(&mut module, pass, &registry).unwrap();
        verify(&module, &registry).unwrap_or_else(|e| panic!("{pass}: {e:?}"));
    }
    let names: Vec<String> = module.items.keys().map(ToString::to_string).collect();
    let levels = names.iter().filter(|name| name.ends_with("_levels")).count();
    let text = printed(&module, &registry);
    assert_eq!(levels, 1, "{text}");
    assert!(!names.contains(&"state".to_string()), "{text}");
    assert!(text.contains("Tensor[(16, 4), float32]") && !text.contains("= Weights("), "{text}");
}

/// A node computes something for its parts, of which it has any number: all nodes of all trees do so
/// together, also where weights are constants.
#[test]
fn what_is_computed_for_parts_is_computed_together() {
    let registry = registry();
    let text = "
      type List { Nil, Cons(Tree, List) }
      type Tree { Node(Tensor[(1, 4), float32], List) }
      def @parts(%list: List[], %gate: Tensor[(1, 4), float32], %w: Tensor[(4, 4), float32]) -> Tensor[(1, 4), float32] {
        match (%list) {
          Nil => zeros(shape=[1, 4], dtype=\"float32\"),
          Cons(%tree, %rest) => add(multiply(%gate, @state(%tree, %w)), @parts(%rest, %gate, %w)),
        }
      }
      def @state(%tree: Tree[], %w: Tensor[(4, 4), float32]) -> Tensor[(1, 4), float32] {
        match (%tree) {
          Node(%x, %list) => {
            let %gate = sigmoid(nn.dense(%x, %w));
            add(%gate, @parts(%list, %gate, %w))
          },
        }
      }
      def @main(%list: List[], %w: Tensor[(4, 4), float32]) { @parts(%list, ones(shape=[1, 4], dtype=\"float32\"), WEIGHT) }";
    for weight in ["%w", "ones(shape=[4, 4], dtype=\"float32\")"] {
        let mut module = parse("in", &text.replace("WEIGHT", weight), &registry).unwrap();
        for pass in ["fold-constant", "invariants", "batch-recursion", "invariants"] {
            run(&mut module, pass, &registry).unwrap();
            verify(&module, &registry).unwrap_or_else(|e| panic!("{pass}: {e:?}"));
        }
        let text = printed(&module, &registry);
        assert!(batched(&module) && text.contains("Tensor[(16, 4), float32]"), "{text}");
        assert_eq!(text.matches("def @state_rows").count(), 2, "{text}");
    }
}

/// What gains nothing stays as it is: no product is shared, or no two nodes are ready together.
#[test]
fn chains_and_sums_stay() {
    let registry = registry();
    let chain = "
      type List { Nil, Cons(Tensor[(1, 4), float32], List) }
      def @f(%list: List[], %w: Tensor[(4, 4), float32]) -> Tensor[(1, 4), float32] {
        match (%list) {
          Nil => zeros(shape=[1, 4], dtype=\"float32\"),
          Cons(%x, %rest) => nn.dense(add(%x, @f(%rest, %w)), %w),
        }
      }
      def @main(%list: List[], %w: Tensor[(4, 4), float32]) { @f(%list, %w) }";
    let sum = "
      type Tree { Leaf(Tensor[(1, 4), float32]), Node(Tree, Tree) }
      def @f(%tree: Tree[]) -> Tensor[(1, 4), float32] {
        match (%tree) { Leaf(%x) => %x, Node(%a, %b) => add(@f(%a), @f(%b)) }
      }
      def @main(%tree: Tree[]) { @f(%tree) }";
    for text in [chain, sum] {
        let mut module = parse("in", text, &registry).unwrap();
        run(&mut module, "batch-recursion", &registry).unwrap();
        assert!(!batched(&module), "{}", printed(&module, &registry));
    }
}
