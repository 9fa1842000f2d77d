//! Memory that inputs ask for, which is granted before it is taken.
//!
//! A text of a few bytes can name a tensor of any size. What is allocated on the word of an input
//! goes through [`grant`] or [`buffer`], so that a size that cannot be had is an error with a place
//! and not the end of the process.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Why memory is not granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Bytes that are needed; `None` where they are too many to count.
    pub needed: Option<usize>,
    /// Bytes that there are.
    pub available: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = self.needed.map_or_else(|| "more than 8 EiB".to_string(), human);
        write!(f, "{needed} of memory are needed, and {} are available", human(self.available))
    }
}

impl std::error::Error for OutOfMemory {}

/// Bytes that may be granted until the system is asked again.
static GRANTED: AtomicUsize = AtomicUsize::new(0);

/// Whether so many bytes can be had now; `None` is more than can be counted. What is granted is not
/// set aside: the system is asked again after an eighth of what there was.
///
/// # Errors
/// They cannot.
pub fn grant(bytes: Option<usize>) -> Result<(), OutOfMemory> {
    /// What needs no leave.
    const SMALL: usize = 1 << 10;
    let Some(needed) = bytes else {
        return Err(OutOfMemory { needed: None, available: limit() });
    };
    let take = |left: usize| left.checked_sub(needed);
    if needed <= SMALL || GRANTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        return Ok(());
    }
    let available = limit();
    if needed > available {
        return Err(OutOfMemory { needed: bytes, available });
    }
    GRANTED.store((available - needed) / 8, Ordering::Relaxed);
    Ok(())
}

/// An empty vector with room for so many elements.
///
/// # Errors
/// There is no memory for it.
pub fn buffer<T>(elements: usize) -> Result<Vec<T>, OutOfMemory> {
    let bytes =
        elements.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    grant(bytes)?;
    let mut buffer = Vec::new();
    let refused = |_| OutOfMemory { needed: bytes, available: limit() };
    buffer.try_reserve_exact(elements).map_err(refused)?;
    Ok(buffer)
}

fn limit() -> usize {
    available().unwrap_or(isize::MAX as usize)
}

/// Bytes that the system can give this process without swapping; `None` where it does not say.
pub fn available() -> Option<usize> {
    let limits = [of_machine(), of_group(), of_process()];
    limits.into_iter().flatten().min()
}

fn of_machine() -> Option<usize> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    field(&text, "MemAvailable:")
}

/// What is left of the limit of the control group that the process is in, as containers have one.
fn of_group() -> Option<usize> {
    let number = |file: &str| -> Option<usize> {
        fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse().ok()
    };
    // Pages of files are given back where memory is needed.
    let stat = fs::read_to_string("/sys/fs/cgroup/memory.stat").unwrap_or_default();
    let of_files = |name: &str| -> usize {
        let bytes = |line: &str| line.strip_prefix(name)?.parse::<usize>().ok();
        stat.lines().filter_map(bytes).sum()
    };
    let files: usize = ["active_file ", "inactive_file "].map(of_files).iter().sum();
    let used = number("memory.current")?.saturating_sub(files);
    Some(number("memory.max")?.saturating_sub(used))
}

/// What is left of the limit on the addresses of the process.
#[cfg(unix)]
fn of_process() -> Option<usize> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

    let (limit, _) = getrlimit(Resource::RLIMIT_AS).ok()?;
    if limit == RLIM_INFINITY {
        return None;
    }
    let text = fs::read_to_string("/proc/self/status").ok()?;
    Some(usize::try_from(limit).ok()?.saturating_sub(field(&text, "VmSize:")?))
}

#[cfg(not(unix))]
fn of_process() -> Option<usize> {
    None
}

/// The bytes of the line of `text` that starts with `name`, which counts kibibytes.
fn field(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// A number of bytes for people.
pub fn human(bytes: usize) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        _ => format!("{value:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(grant(Some(0)).is_ok() && grant(Some(1 << 20)).is_ok());
        assert!(buffer::<u64>(1000).is_ok_and(|buffer| buffer.capacity() >= 1000));
        let error = buffer::<u64>(1 << 50).unwrap_err();
        assert!(error.to_string().starts_with("8.0 PiB of memory are needed, and "), "{error}");
        let error = buffer::<u64>(1 << 61).unwrap_err();
        assert!(error.to_string().starts_with("more than 8 EiB of memory are needed"), "{error}");
        assert_eq!((human(1023), human(1536)), ("1023 bytes".into(), "1.5 KiB".into()));
    }
}
