//! From verified kernels to PTX.
//!
//! Each kernel that is a [launch](target_core::gpu::launches) becomes an entry, whose parameters are
//! pointers to its buffers, in their order. Kernels that are lists of calls are no code: whoever runs
//! them makes the calls. **Equal modules give equal text.**
//!
//! Loops over `blockIdx` are the grid, loops over `threadIdx` the threads of a block. Those that follow
//! one another are phases of one launch; threads wait for one another where there is a `te.barrier`, and
//! nowhere else: whoever lowers to loops puts it there. **Statements outside of the loops over an axis
//! of threads run in the first of them only;** expressions, which have no effect, in all. Memory of one
//! thread that lies outside of such loops has them as its first dimensions, which every access names by
//! the index of its thread.
//!
//! Integers of the language are computed in 32 bits where [ranges](target_core::ranges) prove that they
//! fit, which indices nearly always do.

mod arithmetic;
mod assembly;
mod float;
mod grid;
mod kernel;
mod math;
mod memory;
mod values;

use ir_core::{Diagnostic, Diagnostics, Item, Module, OpId, Symbol, Verified};
use target_core::Gpu;
use target_core::gpu::launches::{Launch, is_list};
use te::loops::KERNEL;

use crate::arch::Arch;

/// Bits of 2/π after the point, behind 64 that are 0: enough for the largest `float64`.
const TWO_OVER_PI: [u64; 22] = [
    0x0000000000000000,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
    0xa9e391615ee61b08,
];

/// What the target does not have, used by the operation `op` of the item `item`.
fn refusal(item: &Item, op: Option<OpId>, message: impl Into<String>) -> Diagnostic {
    let body = item.body.as_deref();
    let loc = op.zip(body).and_then(|(op, body)| body.loc(op).span(item.signature.span));
    Diagnostic::error("E0902", message).at(loc.or(item.signature.span))
}

/// A kernel as an entry of the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The kernel.
    pub kernel: Symbol,
    /// What the entry is called.
    pub name: String,
    /// How many blocks and threads it runs on.
    pub launch: Launch,
    /// Bytes that the threads of a block share.
    pub shared: usize,
}

/// A module of PTX.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its text.
    pub text: String,
    /// Its entries, in order.
    pub entries: Vec<Entry>,
}

/// The kernels of `module` that are launches, for `arch`. `gpu` has the limits.
///
/// # Errors
/// `E0902` for what the target does not have, `E0915` for what is over a limit, of all kernels.
pub fn generate(
    module: Verified<'_, Module>,
    arch: Arch,
    gpu: &Gpu,
) -> Result<Source, Diagnostics> {
    let kernels = module.get().items.iter().filter(|(_, item)| item.signature.op == KERNEL);
    let (mut errors, mut entries, mut code) = (Diagnostics::new(), Vec::new(), String::new());
    let mut names = Names::default();
    let mut reads_two_over_pi = false;
    for (kernel, item) in kernels {
        let Some(body) = item.body.as_deref() else {
            let message =
                format!("`@{kernel}` has no body, and devices call no functions of others");
            errors.push(refusal(item, None, message));
            continue;
        };
        if is_list(body) {
            continue;
        }
        let name = names.fresh(kernel.as_str());
        match kernel::write(item, body, &name, arch, gpu) {
            Ok(kernel::Written { text, launch, shared, reads }) => {
                code += &text;
                reads_two_over_pi |= reads;
                entries.push(Entry { kernel: *kernel, name, launch, shared });
            }
            Err(found) => errors.extend(found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut text = "// Generated from tensor loops. Do not edit.\n".to_string();
    text += &format!(".version {}\n", arch.version());
    text += &format!(".target sm_{}\n.address_size 64\n", arch.number());
    if reads_two_over_pi {
        let words: Vec<String> = TWO_OVER_PI.iter().map(|word| format!("0x{word:016X}")).collect();
        let (count, words) = (words.len(), words.join(", "));
        text += &format!("\n.const .align 8 .u64 two_over_pi[{count}] = {{{words}}};\n");
    }
    Ok(Source { text: text + &code, entries })
}

/// Names of entries, each of its own.
#[derive(Default)]
struct Names(rustc_hash::FxHashMap<String, usize>);

impl Names {
    /// A name like `base`, of letters, digits and `_`.
    fn fresh(&mut self, base: &str) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let base: String = base.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
        // PTX has names that start with a digit for nothing, and reserves none that start with `te_`.
        let mut name = format!("te_{base}");
        loop {
            let count = self.0.entry(name.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                return name;
            }
            name = format!("{name}_{count}");
        }
    }
}
