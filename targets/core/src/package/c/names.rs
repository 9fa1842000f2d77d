//! Names in generated code.
//!
//! Others include our headers among their own, in C and in C++, and so do we: names are no words of
//! these languages and no macros of the headers of C and POSIX. Nearly all of those are written in
//! capitals, which we therefore never use for a name of more than one letter.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};
use te::scalar::ScalarOp;

/// Words of C.
const C_WORDS: &str = "\
alignas alignof asm auto bool break case char complex const constexpr continue default do double else
enum extern false float for goto if imaginary inline int long noreturn nullptr register restrict return
short signed sizeof static static_assert struct switch thread_local true typedef typeof typeof_unqual
union unsigned void volatile while";

/// Words of C++ that are none of C.
const CPP_WORDS: &str = "\
and and_eq bitand bitor catch class co_await co_return co_yield compl concept const_cast consteval
constinit decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq
operator or or_eq private protected public reinterpret_cast requires static_cast template this throw try
typeid typename using virtual xor xor_eq";

/// Macros that are written in small letters, those of compilers in GNU mode among them; and macros
/// that we use.
const MACROS: &str = "\
INFINITY I NAN NULL d_fileno errno h_addr h_errno i386 linux math_errhandling mips sched_priority sparc
stderr stdin stdout sun unix";

/// What such macros begin with besides: the members of structures of POSIX.
const MACRO_STARTS: [&str; 5] = ["s6_", "sa_", "si_", "sigev_", "st_"];

/// What we call, or name in a way of our own, and what compilers know and warn of.
const OWN_WORDS: &str = "\
begin captures end fabs fabsf fmod fmodf j0 j1 jn lane main memcpy memmove memset outer ptrdiff_t rint
copysign rintf signbit size_t task workspace y0 y1 yn";

static WORDS: LazyLock<FxHashSet<String>> = LazyLock::new(|| {
    let texts = [C_WORDS, CPP_WORDS, MACROS, OWN_WORDS];
    let words = texts.iter().flat_map(|text| text.split_whitespace()).map(str::to_string);
    let functions = ScalarOp::ALL.iter().flat_map(|op| {
        let name = op.name().trim_start_matches("te.");
        [name.to_string(), format!("{name}f")]
    });
    words.chain(functions).collect()
});

/// Hands out names that nothing else has, in constant time on average.
#[derive(Clone, Default)]
pub struct Names {
    taken: FxHashSet<String>,
    /// By what numbers are put behind: which may be free.
    numbers: FxHashMap<String, Numbers>,
}

/// Numbers behind a name.
#[derive(Clone)]
struct Numbers {
    /// All from here on, as far as this is known.
    next: usize,
    /// Smaller ones that were handed out and came back.
    back: BTreeSet<usize>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { next: 1, back: BTreeSet::new() }
    }
}

impl Numbers {
    fn take(&mut self) -> usize {
        self.back.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

impl Names {
    /// Lets `name` be handed out again, once what it stood for is out of scope.
    pub fn release(&mut self, name: &str) {
        if !self.taken.remove(name) {
            return;
        }
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let Ok(number) = name[stem.len()..].parse() else { return };
        if let Some(numbers) = self.numbers.get_mut(stem)
            && (1..numbers.next).contains(&number)
        {
            numbers.back.insert(number);
        }
    }

    /// `base` as a C name, in small letters where it is like a macro, with the first number that
    /// makes it unique.
    pub fn fresh(&mut self, base: &str) -> String {
        let base = sanitized(base);
        match is_like_macro(&base) || (self.taken.contains(&base) && base.len() == 1) {
            true => self.unique(base.to_ascii_lowercase()),
            false => self.unique(base),
        }
    }

    /// `base` as a C name, whose capitals its user answers for, with the first number that makes it
    /// unique.
    pub fn fresh_public(&mut self, base: &str) -> String {
        self.unique(sanitized(base))
    }

    fn unique(&mut self, mut base: String) -> String {
        if base.split('_').any(is_type) {
            // No number would make it another.
            base.insert(0, 'v');
            base = base.replace('_', "");
        }
        if MACRO_STARTS.iter().any(|start| base.starts_with(start)) {
            base.insert_str(0, "v_");
        }
        if !base.ends_with('_') && !is_reserved(&base) && self.taken.insert(base.clone()) {
            return base;
        }
        // `i32` is a type, `i_32` is not.
        let is_kind = KINDS.contains(&base.as_str());
        if is_kind || base.ends_with(|c: char| c.is_ascii_digit()) {
            base.push('_');
        }
        let numbers = self.numbers.entry(base.clone()).or_default();
        loop {
            let name = format!("{base}{}", numbers.take());
            if !is_reserved(&name) && self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Whether `name` can be what public names start with, or the name of a function of others.
pub(super) fn is_name(name: &str) -> bool {
    sanitized(name) == name && !name.ends_with('_') && !is_reserved(name)
}

/// What names of types begin with.
const KINDS: [&str; 4] = ["bf", "f", "i", "u"];

/// `name` with what C does not allow replaced.
fn sanitized(name: &str) -> String {
    let mut text: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    // Names that start with `_` belong to the compiler.
    let start = text.trim_start_matches('_');
    if start.is_empty() || start.starts_with(|c: char| c.is_ascii_digit()) {
        text = format!("v{}", start);
    } else if start.len() < text.len() {
        text = start.to_string();
    }
    text
}

/// Whether `name` is written as macros are: it starts with a capital, and goes on with another, a
/// digit or `_`. `I` is one of `complex.h`.
fn is_like_macro(name: &str) -> bool {
    if name == "I" {
        return true;
    }
    let mut letters = name.bytes();
    let first = letters.next().is_some_and(|first| first.is_ascii_uppercase());
    first && letters.next().is_some_and(|second| !second.is_ascii_lowercase())
}

fn is_reserved(name: &str) -> bool {
    WORDS.contains(name)
        || name.ends_with("_t")
        // Our types and functions: `f32x16`, `exp_f32`, `load_u8x16`, `f32_of_bits`.
        || name.split('_').any(is_type)
}

/// Whether `text` is how helpers call a type.
fn is_type(text: &str) -> bool {
    let digits = KINDS.iter().find_map(|kind| text.strip_prefix(kind));
    digits.is_some_and(|rest| {
        let (bits, lanes) = rest.split_once('x').unwrap_or((rest, "1"));
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // One digit is a name such as `i1`, except for bytes.
        number(bits) && number(lanes) && (bits.len() > 1 || bits == "8" || rest.contains('x'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_came_back_is_the_first_to_be_handed_out() {
        let mut names = Names::default();
        let three: Vec<String> = (0..3).map(|_| names.fresh("a")).collect();
        assert_eq!(three, ["a", "a1", "a2"]);
        names.release("a1");
        names.release("never");
        assert_eq!([names.fresh("a"), names.fresh("a"), names.fresh("a2")], ["a1", "a3", "a2_1"]);
        names.release("a2_1");
        names.release("a");
        assert_eq!([names.fresh("a"), names.fresh("a2"), names.fresh("a2")], ["a", "a2_1", "a2_2"]);
    }

    #[test]
    fn many_names_take_linear_time() {
        let mut names = Names::default();
        for index in 0..200_000 {
            let name = names.fresh("value");
            // Loops give their names back, low ones too.
            if index % 2 == 0 {
                names.release(&name);
            }
            let inner = names.fresh("value");
            assert_ne!(inner, name.clone() + "x");
        }
    }

    /// Headers of C and POSIX.
    const HEADERS: &str = "\
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string threads time uchar wchar wctype
arpa/inet dirent dlfcn fcntl netdb netinet/in poll pthread sched semaphore strings sys/mman sys/resource
sys/select sys/socket sys/stat sys/time sys/types sys/un sys/wait termios unistd";

    /// As the C compiler of this system lists them, where there is one.
    #[test]
    fn no_name_is_a_macro_of_c_or_posix() {
        let includes = HEADERS.split_whitespace().map(|name| format!("-include{name}.h"));
        let output = std::process::Command::new("cc")
            .args(["-D_GNU_SOURCE", "-dM", "-E", "-xc"])
            .args(includes)
            .arg("/dev/null")
            .output();
        let Ok(output) = output else { return eprintln!("SKIPPED: cc is missing") };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Those with parameters mean nothing without parentheses behind.
        let macros: FxHashSet<&str> = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .filter(|name| !name.contains('(') && !name.starts_with('_'))
            .collect();
        assert!(macros.contains("EOF") && macros.contains("errno"));
        let mut names = Names::default();
        for name in &macros {
            let name = names.fresh(name);
            assert!(!macros.contains(name.as_str()), "{name}");
        }
    }

    #[test]
    fn names_are_no_words_and_no_macros() {
        let mut names = Names::default();
        let found = ["EOF", "M_PI", "PRId64", "X", "I", "new", "errno", "st_mtime", "NULL", "TRUE"]
            .map(|name| names.fresh(name));
        let expected =
            ["eof", "m_pi", "prid64", "X", "i", "new1", "errno1", "v_st_mtime", "null", "true1"];
        assert_eq!(found, expected);
        assert_eq!([names.fresh("X"), names.fresh("X")], ["x", "x1"]);
        assert_eq!(names.fresh_public("NET_main"), "NET_main");
        assert!(is_name("NET") && !is_name("new") && !is_name("a-b") && !is_name("NULL"));
    }
}
