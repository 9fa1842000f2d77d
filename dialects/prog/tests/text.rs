//! The text of items: what is printed reads back as an equal item and prints the same again.

use ir_core::fingerprint::of_module;
use ir_core::text::module::{parse, print};
use ir_core::text::{Form, Style};
use ir_core::{Module, Random, Registry, verify};

/// Every statement, as it is printed.
const TEXT: &str = r#"prog.data @List {
  Nil,
  Cons(float32, List[]),
  "odd name"(Tensor[(2, 2), int8], ref((float32, List[])), ref(())),
}

prog.data @Void {
}

prog.func @map(%list: List[]) -> List[] {
  %mapped: List[] = switch %list {
    0 => {
      %0: List[] = construct 0
      yield %0
    }
    1(%x: float32, %rest: List[]) => {
      %y: float32 = kernel @square(%x)
      %1: List[] = call @map(%rest)
      %2: List[] = construct 1(%y, %1)
      yield %2
    }
    _ => {
      fail "neither \"Nil\" nor\n`Cons`"
    }
  }
  yield %mapped
}

prog.func @nothing() attributes {note = 3} {
  yield
}

prog.func @"odd name"(%"a b": bool) -> (float32, List[]) {
  call @nothing()
  %c = constant -0.5f
  %wide = constant 7
  %small = constant -7i8
  %true = constant True
  %t = constant dense<Tensor[(2), float32], [1.0, 2.0]>
  dup %t
  drop %t
  drop %t
  %nil: List[] = construct 0
  %cell: ref((float32, List[])) = cell(%c, %nil)
  %held: float32, %list: List[] = read %cell
  %list1: List[] = if %"a b" {
    yield %list
  } else {
    drop %list
    %0: List[] = construct 0
    yield %0
  }
  dup %list1
  write %cell(%held, %list1)
  drop %cell
  %empty: ref(()) = cell()
  write %empty()
  read %empty
  drop %empty
  yield %held, %list1
}

prog.func @loop(%n: int64) -> List[] {
  if %n {
    yield
  } else {
    yield
  }
  switch %n {
  }
  tail @loop(%n)
}

prog.func @others(%x: float32) -> float32 {
  %y: float32 = "te.exp"(%x)
  %z: float32 = "te.cast"(%y) {dtype = float32}
  %a: float32, %b: bool = "some.loop"(%z) {steps = [1, 2]} with (%i: int64, %j: int64) {
    "te.yield"(%i)
    "some.end"(%j)
  } with {
  } with (%k: bool) {
    fail ""
  }
  "some.effect"()
  yield %a
}

te.func @square(%x: float32) -> float32 {
  y[] = %x[] * %x[]
  return y
}
"#;

fn registry() -> Registry {
    Registry::from([te::dialect(), prog::dialect()])
}

fn printed(module: &Module) -> String {
    let mut out = Vec::new();
    print(module, &registry(), &Style::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn read(text: &str) -> Result<Module, Vec<String>> {
    let (module, found) = parse("text", text, &registry());
    match found.is_empty() {
        true => Ok(module),
        false => {
            let line = |found: &ir_core::Diagnostic| format!("{}: {}", found.code, found.message);
            Err(found.iter().map(line).collect())
        }
    }
}

/// Checks that `module` survives its text, and that the generic form has nothing more.
fn reads_back(module: &Module) {
    let text = printed(module);
    let again = read(&text).unwrap_or_else(|found| panic!("{found:?}\n{text}"));
    assert_eq!(printed(&again), text);
    assert!(of_module(&again) == of_module(module), "{text}");
}

#[test]
fn every_statement_reads_back() {
    let module = read(TEXT).unwrap();
    assert_eq!(printed(&module), TEXT);
    reads_back(&module);
}

#[test]
fn the_generic_form_is_of_the_same_items() {
    let registry = registry();
    let module = read(TEXT).unwrap();
    let mut out = Vec::new();
    let options = ir_core::text::PrintOptions::complete();
    ir_core::text::print_with(&module, &registry, &options, &mut out).unwrap();
    let (again, found) =
        Form::Generic.parse("generic", &String::from_utf8(out).unwrap(), &registry);
    assert!(found.is_empty(), "{found:?}");
    assert!(of_module(&again) == of_module(&module));
}

#[test]
fn operations_that_no_statement_has_print_as_others() {
    let registry = registry();
    let generic = r#"
"prog.func" @f : fn (bool) -> () {
  ^(%c: bool):
  "prog.if"(%c) ({
    "prog.yield"() : () -> ()
  }) : (bool) -> ()
  %x = "prog.constant"() {value = dense<float32, 1.0>} : () -> int8
  "prog.drop"(%x) {more = 1} : (int8) -> ()
  "prog.yield"() : () -> ()
}"#;
    let (module, _) = Form::Generic.parse("generic", generic, &registry);
    let text = printed(&module);
    let expected = "prog.func @f(%c: bool) {
  \"prog.if\"(%c) with {
    yield
  }
  %x: int8 = constant 1f
  \"prog.drop\"(%x) {more = 1}
  yield
}
";
    assert_eq!(text, expected);
    let without = text.replace(" {more = 1}", "");
    reads_back(&read(&without).unwrap());
}

#[test]
fn deep_blocks_need_no_native_stack() {
    const DEEP: usize = 10_000;
    let mut text = "prog.func @f(%c: bool) {\n".to_string();
    for _ in 0..DEEP {
        text += "if %c {\nyield\n} else {\n";
    }
    text += "yield\n";
    text += &"}\nyield\n".repeat(DEEP);
    let module = read(&(text + "}\n")).unwrap();
    assert!(verify(&module, &registry()).is_ok());
    reads_back(&module);
}

#[test]
fn broken_texts_are_refused() {
    const CHARACTERS: [char; 12] = ['(', ')', '}', '{', '%', '=', '1', '_', ',', ':', '"', '\n'];
    let mut refused = 0;
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let mut text: Vec<char> = TEXT.chars().collect();
        for _ in 0..1 + random.below(4) {
            let place = random.below(text.len());
            match random.below(4) {
                0 => drop(text.remove(place)),
                1 => text.insert(place, CHARACTERS[random.below(CHARACTERS.len())]),
                2 => {
                    let end = (place + random.below(40)).min(text.len());
                    drop(text.drain(place..end));
                }
                _ if random.one_in(8) => text.truncate(place + 1),
                _ => {
                    let start = random.below(text.len());
                    let end = (start + random.below(40)).min(text.len());
                    let piece: Vec<char> = text[start..end].to_vec();
                    text.splice(place..place, piece);
                }
            }
        }
        // Whatever was meant, reading ends without a panic, and what is accepted prints.
        let text: String = text.into_iter().collect();
        let (module, found) = parse("text", &text, &registry());
        refused += usize::from(!found.is_empty());
        let _ = verify(&module, &registry());
        if found.is_empty() {
            reads_back(&module);
        }
        printed(&module);
    }
    assert!(refused > 1_000, "only {refused} texts were refused");
}
