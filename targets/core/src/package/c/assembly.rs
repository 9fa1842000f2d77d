//! Files that become a part of a program: the assembler gives their parts symbols.

use crate::ALIGNMENT;

/// A file, and the symbols of its parts.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Its name, as [`File`](crate::package::File) has it.
    pub file: String,
    /// Symbols, where their parts start, and how many bytes they have.
    pub symbols: Vec<(String, usize, usize)>,
}

/// The text that gives symbols to the parts of `files`, which are `what` of the model `name`. Each file
/// starts at a multiple of [`ALIGNMENT`] bytes, and a byte that is 0 follows it.
pub fn assembly(name: &str, what: &str, files: &[Embedded]) -> String {
    let mut text = format!(
        "\
/* {what} of {name}. The assembler looks for files in the current folder, and in those that `-I`
   names. */

#if defined(__APPLE__)
#define SYMBOL(name) _##name
#else
#define SYMBOL(name) name
#endif

#if defined(__ELF__)
#define PART(name, file, offset, bytes) \\
    .globl name; .hidden name; .type name, %object; .size name, bytes; .set name, file + offset
    .section .rodata.{name}_data, \"a\", %progbits
#elif defined(__APPLE__)
#define PART(name, file, offset, bytes) \\
    .globl name; .private_extern name; .set name, file + offset
    .const
#else
#define PART(name, file, offset, bytes) \\
    .globl name; .set name, file + offset
    .section .rdata, \"dr\"
#endif
"
    );
    for (index, Embedded { file, symbols }) in files.iter().enumerate() {
        text += &format!(
            "
    .balign {ALIGNMENT}
file{index}:
    .incbin \"{file}\"
    /* So that a part without elements has a place, and texts an end. */
    .byte 0

"
        );
        for (symbol, offset, bytes) in symbols {
            text += &format!("PART(SYMBOL({symbol}), file{index}, {offset}, {bytes})\n");
        }
    }
    text + "\n#if defined(__ELF__)\n    .section .note.GNU-stack, \"\", %progbits\n#endif\n"
}
