//! The architectures that code is generated for.

use ir_core::pass::OptionValue;

/// An architecture, such as `sm_80`. Code for one runs on that and on later ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Arch(u32);

/// Compute capability, and the first version of PTX that has it.
const KNOWN: [(u32, &str); 8] = [
    (70, "7.0"),
    (75, "7.0"),
    (80, "7.0"),
    (86, "7.1"),
    (89, "7.8"),
    (90, "7.8"),
    (100, "8.6"),
    (120, "8.7"),
];

impl Arch {
    /// What is chosen where nothing is said: the first with `bfloat16`.
    pub const DEFAULT: Arch = Arch(80);

    /// All of them, the oldest first.
    pub fn all() -> impl Iterator<Item = Arch> {
        KNOWN.iter().map(|known| Arch(known.0))
    }

    /// Ten times the major version of its compute capability, and the minor one.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The version of PTX that its code is written in.
    pub fn version(self) -> &'static str {
        let known = KNOWN.iter().find(|known| known.0 == self.0);
        known.expect("every architecture has a version").1
    }

    /// Whether it rounds to `bfloat16`, and has minima that keep NaN, as instructions.
    pub(crate) fn is_ampere(self) -> bool {
        self.0 >= 80
    }
}

impl OptionValue for Arch {
    const EXPECTS: &'static str = "sm_70, sm_75, sm_80, sm_86, sm_89, sm_90, sm_100 or sm_120";
    fn parse(text: &str) -> Option<Arch> {
        let number: u32 = text.strip_prefix("sm_")?.parse().ok()?;
        Arch::all().find(|arch| arch.0 == number)
    }
    fn print(&self) -> String {
        format!("sm_{}", self.0)
    }
}
