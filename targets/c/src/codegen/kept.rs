//! What compilers are kept from in a function, by macros before it.

use std::ops::BitOrAssign;

/// What GCC is to leave as it is in a function.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kept {
    /// Branches around loads of one element at a time.
    pub(crate) branches: bool,
    /// Loads in loops over tiles of registers.
    pub(crate) registers: bool,
}

impl Kept {
    /// The lines before a function; `prefix` stands before the names of macros.
    pub(crate) fn attributes(self, prefix: &str) -> String {
        let kept = [(self.branches, branches(prefix)), (self.registers, registers(prefix))];
        kept.into_iter().filter(|(is, _)| *is).map(|(_, name)| name + "\n").collect()
    }

    /// The definitions of the macros.
    pub(crate) fn definitions(self, prefix: &str) -> String {
        let mut text = String::new();
        if self.branches {
            let name = branches(prefix);
            text += &format!(
                "
/* Before functions with loads that depend on conditions: where GCC before 14 vectorizes several of
   them side by side, under masks, it takes one mask for all. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14 \\
    && (defined(__AVX__) || defined(__ARM_FEATURE_SVE))
#define {name} __attribute__((optimize(\"no-tree-loop-if-convert\")))
#else
#define {name}
#endif
"
            );
        }
        if self.registers {
            let name = registers(prefix);
            text += &format!(
                "
/* Before functions whose loops fill the registers: GCC would keep what neighbouring windows share in
   more of them than there are, or compute many products before it sums them up, and take them from
   the stack. */
#if defined(__GNUC__) && !defined(__clang__)
#define {name} __attribute__((optimize(\"no-predictive-commoning\", \"no-tree-ter\")))
#else
#define {name}
#endif
"
            );
        }
        text
    }
}

impl BitOrAssign for Kept {
    fn bitor_assign(&mut self, other: Kept) {
        self.branches |= other.branches;
        self.registers |= other.registers;
    }
}

fn branches(prefix: &str) -> String {
    format!("{}KEEPS_BRANCHES", prefix.to_uppercase())
}

fn registers(prefix: &str) -> String {
    format!("{}FILLS_REGISTERS", prefix.to_uppercase())
}
