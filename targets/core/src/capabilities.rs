//! What machines can do, and what the machine is that we run on.

use std::fs;
use std::path::Path;

use ir_core::CostTable;

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
    /// What there is besides, where kernels run on a graphics processor.
    pub gpu: Option<Gpu>,
}

/// What a graphics processor can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gpu {
    /// The most blocks of a launch, by axis.
    pub blocks: [i64; 3],
    /// The most threads of a block, by axis.
    pub threads: [i64; 3],
    /// The most threads of a block, on all axes together.
    pub block_threads: i64,
    /// Bytes of memory that the threads of a block share.
    pub shared_bytes: usize,
    /// Threads that run in step.
    pub warp: i64,
    /// Where buffers that share memory may start: at multiples of so many bytes, which are a multiple
    /// of [`ALIGNMENT`](crate::ALIGNMENT).
    pub alignment: i64,
}

impl Capabilities {
    /// Lanes of a vector register for elements of `bits` bits; 1 without vectors.
    pub fn lanes(&self, bits: usize) -> usize {
        (self.vector_bits / bits.max(1)).max(1)
    }

    /// Whether one instruction loads a whole vector of floats from places that are computed for each lane.
    pub fn gathers(&self) -> bool {
        self.isa == "avx512"
    }

    /// Where buffers that share memory may start: at multiples of so many bytes.
    pub fn alignment(&self) -> i64 {
        self.gpu.as_ref().map_or(te::loops::ALIGNMENT, |gpu| gpu.alignment)
    }
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

    /// What kernels of default schedules cost on a machine like this, by its vectors and threads
    /// alone: processors of the last years are meant, none in particular.
    pub fn costs(&self) -> CostTable {
        const GIGAHERTZ: f64 = 3.5;
        // What one thread reads and writes, in GB/s, and what all of them can.
        const BANDWIDTH: (f64, f64) = (15.0, 40.0);
        let threads = self.threads.max(1) as f64;
        // Most machines take two cycles for the widest vectors.
        let lanes = self.lanes(32).min(8) as f64;
        let cycles = GIGAHERTZ * threads;
        CostTable {
            launch: 0.1,
            bandwidth: (BANDWIDTH.0 * threads).min(BANDWIDTH.1),
            arithmetic: 2.0 * cycles * lanes,
            // Two multiply-adds per cycle; without vectors each waits for the one before.
            products: if self.vector_bits > 0 { 4.0 * cycles * lanes } else { 0.5 * cycles },
            // Polynomials of some ten steps.
            transcendental: cycles * lanes / 8.0,
        }
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
        KNOWN.iter().find(|known| known.0 == isa).copied().expect("what the host has is known");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Capabilities { isa, vector_bits, vector_registers, threads, caches: host_caches(), gpu: None }
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
    fn costs_follow_from_vectors_and_threads() {
        let of = |vector_bits, threads| Capabilities { vector_bits, threads, ..host() }.costs();
        for threads in [1, 2, 64] {
            let tables = [0, 128, 256, 512].map(|vector_bits| of(vector_bits, threads));
            assert!(tables.iter().all(CostTable::is_sound));
            assert!(tables.is_sorted_by(|less, more| less.products <= more.products));
        }
        let small = Capabilities { caches: [1, 1, 1], ..host() };
        assert_eq!(small.costs(), host().costs());
    }

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
