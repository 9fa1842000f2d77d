//! Readable modules: which dialect reads an item follows from the words that it starts with.

use std::io;

use ir_core::text::cursor::Failed;
use ir_core::text::lexer::TokenKind;
use ir_core::text::module::cursor::Cursor;
use ir_core::text::module::{
    Around, ItemPrinter, ItemReader, Opaque, Outline, Read, ReadItem, Start, Style, Syntax, parse,
    print,
};
use ir_core::{AttrDict, Diagnostic, Item, ItemDef, Module, Registry, Signature, Symbol, Type};

/// Items such as `note @name "text"`.
struct Notes {
    kinds: &'static [&'static str],
    starts: &'static [Start],
}

const NOTES: Notes = Notes { kinds: &["toy.note"], starts: &[Start::Global("note")] };
const WARNINGS: Notes = Notes { kinds: &["toy.warning"], starts: &[Start::Global("warning")] };

impl Syntax for Notes {
    fn starts(&self) -> &'static [Start] {
        self.starts
    }

    fn kinds(&self) -> &'static [&'static str] {
        self.kinds
    }

    fn version(&self) -> &'static str {
        "1"
    }

    fn outline(&self, _: &str, _: &Registry) -> Option<Outline> {
        None
    }

    fn metadata(&self, section: Option<&str>) -> Opaque {
        Opaque::new(section.map(str::len))
    }

    fn reader<'t>(&self, around: Around<'t>) -> Box<dyn ItemReader<'t> + 't> {
        Box::new(Reader { kind: self.kinds[0], around })
    }

    fn printer<'m>(&self, _: &'m Module, _: &'m Registry, _: Style) -> Box<dyn ItemPrinter + 'm> {
        Box::new(Printer { printed: 0 })
    }
}

struct Reader<'t> {
    kind: &'static str,
    around: Around<'t>,
}

impl Reader<'_> {
    fn note(&self, cursor: &mut Cursor<'_>) -> Result<ReadItem, Failed> {
        let start = cursor.bump().start;
        let name = cursor.expect(TokenKind::Global)?;
        let text = cursor.expect(TokenKind::String)?;
        let mut attrs = AttrDict::empty().with("text", &text.name(cursor.source).into_owned());
        if cursor.eat_word("long") {
            let metadata = self.around.metadata();
            let length = metadata.as_ref().and_then(Opaque::get::<Option<usize>>);
            attrs = attrs.with("length", &(length.copied().flatten().unwrap_or(0) as i64));
        }
        let span = Some(cursor.since(start));
        let signature = Signature { op: self.kind.into(), ty: Type::unknown(), attrs, span };
        let (place, item) = (cursor.span(name), Item { signature, body: None });
        let name = Symbol::new(&name.name(cursor.source));
        Ok(ReadItem { name, place, sigil: true, item, members: Vec::new() })
    }
}

impl<'t> ItemReader<'t> for Reader<'t> {
    fn item(&mut self, cursor: &mut Cursor<'t>) -> Read {
        let read = self.note(cursor);
        Read { failed: read.is_err(), item: read.ok(), references: None }
    }

    fn outside(&mut self, _: &mut Cursor<'t>) -> Option<Read> {
        None
    }
}

struct Printer {
    printed: usize,
}

impl ItemPrinter for Printer {
    fn item(&mut self, name: Symbol, item: &Item, out: &mut dyn io::Write) -> io::Result<()> {
        self.printed += 1;
        let word = item.signature.op.as_str().trim_start_matches("toy.");
        let text: String = item.signature.attrs.value("text").unwrap();
        writeln!(out, "{word} @{name} \"{text}\"")
    }

    fn end(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        match self.printed {
            0 => Ok(()),
            printed => writeln!(out, "#[metadata] {printed}"),
        }
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    for notes in [&NOTES, &WARNINGS] {
        registry.add_item(ItemDef::new(notes.kinds[0], "A text."));
        registry.add_syntax(notes);
    }
    registry
}

fn read(text: &str) -> (Module, Vec<String>) {
    let (module, found) = parse("text", text, &registry());
    let line = |found: &Diagnostic| format!("{}: {}", found.code, found.message);
    let lines = found.iter().map(line).collect();
    (module, lines)
}

#[test]
fn words_choose_the_syntax_and_kinds_the_order() {
    let text = "warning @b \"two\" note @a \"one\" warning @c \"three\"";
    let (module, found) = read(text);
    assert!(found.is_empty(), "{found:?}");
    let kinds: Vec<&str> = module.items.values().map(|item| item.signature.op.as_str()).collect();
    assert_eq!(kinds, ["toy.warning", "toy.note", "toy.warning"]);
    let mut out = Vec::new();
    print(&module, &registry(), &Style::default(), &mut out).unwrap();
    let printed = "#[version = \"1\"]\nnote @a \"one\"\n\nwarning @b \"two\"\n\n\
                   warning @c \"three\"\n\n#[metadata] 1\n\n#[metadata] 2\n";
    assert_eq!(String::from_utf8(out).unwrap(), printed);
}

#[test]
fn a_broken_item_hides_no_other_and_names_what_may_start_one() {
    let (module, found) = read("1 note @a warning @b \"text\" note @b \"text\" 2 3");
    assert_eq!(
        found,
        [
            "E0201: expected `note` or `warning`, found `1`",
            "E0201: expected a string, found the end of the item",
            "E0210: `@b` is defined twice",
            "E0201: expected `note` or `warning`, found `2`",
        ]
    );
    assert_eq!(module.items.len(), 1);
}

#[test]
fn versions_are_those_of_the_syntaxes_and_metadata_is_for_all() {
    let (_, found) = read("#[version = \"2\"] note @a \"text\"");
    assert_eq!(found, ["E0203: expected version \"1\", found \"2\""]);
    let (module, found) = read("#[version = \"1\"] note @a \"text\" long\n#[metadata] 12345");
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(module.items[0].signature.attrs.value("length"), Some(17i64));
}

#[test]
#[should_panic(expected = "two syntaxes have items that start with Global(\"note\")")]
fn two_syntaxes_with_one_start_are_refused() {
    let mut registry = registry();
    registry.add_syntax(&NOTES);
}
