//! What machines can do, and what the machine is that we run on.

use std::fs;
use std::path::Path;

/// What a machine can do, for schedules and code generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Name of the instruction set: `avx512`, `avx2`, `sse2`, `neon`, `scalar`.
    pub isa: &'static str,
    /// Width of a vector register in bits; 0 without vectors.
    pub vector_bits: usize,
    /// Number of vector registers.
    pub vector_registers: usize,
    /// Threads that run at once.
    pub threads: usize,
    /// Bytes of the caches of one core, nearest first: level 1 data, level 2, level 3.
    pub caches: [usize; 3],
}

impl Capabilities {
    /// Lanes of a vector register for elements of `bits` bits; 1 without vectors.
    pub fn lanes(&self, bits: usize) -> usize {
        (self.vector_bits / bits.max(1)).max(1)
    }
}

/// How long things take, for choosing between programs. Orders of magnitude, not promises.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// `float32` operations per second of all threads, a multiply-add counting as two.
    pub flops: f64,
    /// Bytes per second from and to main memory.
    pub bandwidth: f64,
    /// Seconds to start one kernel.
    pub launch: f64,
}

/// Instruction sets that we know, the most capable first: name, vector bits, vector registers.
const KNOWN: [(&str, usize, usize); 5] = [
    ("avx512", 512, 32),
    ("avx2", 256, 16),
    ("neon", 128, 32),
    ("sse2", 128, 16),
    ("scalar", 0, 0),
];

impl Capabilities {
    /// A machine with the instruction set `isa`, and otherwise like the one we run on; `None` for
    /// an unknown one.
    pub fn of_isa(isa: &str) -> Option<Capabilities> {
        let (isa, vector_bits, vector_registers) = *KNOWN.iter().find(|known| known.0 == isa)?;
        Some(Capabilities { isa, vector_bits, vector_registers, ..host() })
    }

    /// The instruction sets that [`of_isa`](Capabilities::of_isa) knows.
    pub fn isas() -> impl Iterator<Item = &'static str> + Clone {
        KNOWN.iter().map(|known| known.0)
    }
}

/// The machine we run on.
pub fn host() -> Capabilities {
    let isa = host_isa();
    let (_, vector_bits, vector_registers) =
        KNOWN.iter().find(|known| known.0 == isa).copied().unwrap_or(("scalar", 0, 0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Capabilities { isa, vector_bits, vector_registers, threads, caches: host_caches() }
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn host_isa() -> &'static str {
    let has_avx512 = std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512vl")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512dq");
    if has_avx512 {
        "avx512"
    } else if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        "avx2"
    } else if std::is_x86_feature_detected!("sse2") {
        "sse2"
    } else {
        "scalar"
    }
}

#[cfg(target_arch = "aarch64")]
fn host_isa() -> &'static str {
    if std::arch::is_aarch64_feature_detected!("neon") { "neon" } else { "scalar" }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
fn host_isa() -> &'static str {
    "scalar"
}

/// What the system says of the caches of the first core, with usual sizes where it says nothing.
fn host_caches() -> [usize; 3] {
    let mut caches = [32 << 10, 1 << 20, 8 << 20];
    for index in 0..5 {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let read = |name| fs::read_to_string(Path::new(&folder).join(name)).ok();
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size"))
        else {
            continue;
        };
        let level = level.trim().parse::<usize>().ok().and_then(|level| level.checked_sub(1));
        if let (Some(slot), Some(bytes)) = (level.and_then(|l| caches.get_mut(l)), bytes(&size))
            && kind.trim() != "Instruction"
        {
            *slot = bytes;
        }
    }
    caches
}

/// The number of bytes that text such as `32K` stands for.
fn bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_consistent() {
        let host = host();
        assert_eq!(Capabilities::of_isa(host.isa), Some(host.clone()));
        assert!(host.threads > 0 && host.caches.iter().all(|bytes| *bytes > 0));
        assert_eq!(Capabilities::of_isa("quux"), None);
        assert_eq!(Capabilities::of_isa("avx512").map(|c| c.lanes(32)), Some(16));
        assert_eq!((bytes("32K\n"), bytes("5x")), (Some(32 << 10), None));
    }
}
