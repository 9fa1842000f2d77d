//! Printing readable text: the items of every syntax, those that start with their kind, and what
//! stands behind all items.

use std::io::{self, Write};

use super::form::Style;
use crate::intern::Symbol;
use crate::module::{Item, Module};
use crate::registry::Registry;
use crate::text::{LargeTensors, PrintOptions};

/// Writes `module`: the version of the first syntax that has an item in it, the items of the
/// syntaxes by kind, then the items that start with their kind, in their order. Kinds that no syntax
/// has are left out. Errors are those of `out`.
pub fn print(
    module: &Module,
    registry: &Registry,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let is_used = |kinds: &[&str]| {
        let kind = |item: &Item| kinds.contains(&item.signature.op.as_str());
        module.items.is_empty() || module.items.values().any(kind)
    };
    let syntaxes = registry.syntaxes().all();
    if let Some(syntax) = syntaxes.iter().find(|syntax| is_used(syntax.kinds())) {
        writeln!(out, "#[version = \"{}\"]", syntax.version())?;
    }
    print_items(module, registry, style, out)
}

/// Item `name` as readable text, without the version, which stands before a module only.
pub fn item_text(
    name: Symbol,
    item: &Item,
    registry: &Registry,
    style: impl Into<Style>,
) -> String {
    let mut module = Module::new();
    module.items.insert(name, item.clone());
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = print_items(&module, registry, &style.into(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Everything but the version. An empty line stands before each item but the first.
fn print_items(
    module: &Module,
    registry: &Registry,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut first = true;
    let mut separate = |out: &mut dyn Write| match std::mem::take(&mut first) {
        true => Ok(()),
        false => out.write_all(b"\n"),
    };
    let mut printers = Vec::new();
    for syntax in registry.syntaxes().all() {
        let mut printer = syntax.printer(module, registry, *style);
        for &kind in syntax.kinds() {
            let items = module.items.iter().filter(|(_, item)| item.signature.op == kind);
            for (name, item) in items {
                separate(out)?;
                printer.item(*name, item, out)?;
            }
        }
        printers.push(printer);
    }
    let large_tensors = match style.elide {
        Some(_) => LargeTensors::Elide,
        None => LargeTensors::Bytes,
    };
    let options = PrintOptions { large_tensors, ..PrintOptions::default() };
    for (name, item) in &module.items {
        if let Some(syntax) = registry.item(item.signature.op).and_then(|def| def.syntax) {
            separate(out)?;
            (syntax.print)(*name, item, registry, &options, out)?;
        }
    }
    for mut printer in printers {
        printer.end(&mut Separated { out, begun: false })?;
    }
    Ok(())
}

/// Writes an empty line before the first byte.
struct Separated<'a> {
    out: &'a mut dyn Write,
    begun: bool,
}

impl Write for Separated<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !std::mem::replace(&mut self.begun, true) {
            self.out.write_all(b"\n")?;
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
