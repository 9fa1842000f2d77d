//! What commands of relay-opt read besides programs, models and arrays.

use std::path::Path;

use ir_core::CostTable;
use ir_core::pass::OptionValue;
use rewrites::extraction::{HAS_HIGHS, STRATEGIES};
use target_core::Calibration;
use tools::plugin::DESCRIPTION;
use tools::relay_opt::OK;

use crate::scratch::{relay_opt, with_files};

/// A small program for commands that take one.
const PROGRAM: &[u8] = b"def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) {
  nn.relu(nn.dense(%x, %w, units=None))
}
";

/// A reproducer, which nobody allowed to run programs. Those that name files are left out: the
/// files are none of ours.
pub(crate) fn reproducer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let header = text.lines().filter_map(|line| line.strip_prefix("//"));
    if header.take_while(|line| line.trim() != "input:").any(|line| line.contains('/')) {
        return;
    }
    with_files(&[("a.relay", data)], |folder| {
        relay_opt(folder, &["--run-reproducer", "a.relay"], b"");
    });
}

/// An e-graph. The first byte chooses how it is searched.
pub(crate) fn egraph(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let mut there = STRATEGIES.iter().filter(|strategy| HAS_HIGHS || strategy.name != "highs");
    let strategy = there.nth(usize::from(choice) % STRATEGIES.len());
    let name = strategy.map_or("auto", |strategy| strategy.name);
    let args = ["egraph", "extract", "-", "--budget", "10000", "--json", "--strategy", name];
    relay_opt(Path::new(""), &args, data);
}

/// A profile, of which `view` makes a page.
pub(crate) fn profile(data: &[u8]) {
    with_files(&[("a.json", data), ("program.relay", PROGRAM)], |folder| {
        let args = ["view", "program.relay", "--profile", "a.json", "-o", "view.html"];
        relay_opt(folder, &args, b"");
    });
}

/// The manifest of a folder that `compile` is to write again: files elsewhere stay.
pub(crate) fn manifest(data: &[u8]) {
    const KEPT: [&str; 2] = ["kept", "folder/kept"];
    with_files(&[("program.relay", PROGRAM)], |folder| {
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.join(name), bytes).expect("a file for an input");
        };
        std::fs::create_dir_all(folder.join("folder/out")).expect("a folder for an input");
        write("folder/out/manifest.json", data);
        KEPT.iter().for_each(|name| write(name, b""));
        let args = ["compile", "program.relay", "--target", "c{threads=1}", "-o", "folder/out"];
        relay_opt(folder, &args, b"");
        for name in KEPT {
            assert!(folder.join(name).exists(), "`{name}` was removed");
        }
        std::fs::remove_dir_all(folder.join("folder")).expect("a folder that was just written");
    });
}

/// A file that is no plugin: it is refused.
pub(crate) fn plugin(data: &[u8]) {
    // What describes itself as a plugin of this build would be loaded.
    let described = data.windows(DESCRIPTION.len()).any(|part| part == DESCRIPTION.as_bytes());
    if described {
        return;
    }
    with_files(&[("a.so", data), ("program.relay", PROGRAM)], |folder| {
        let ran = relay_opt(folder, &["--load-plugin", "a.so", "program.relay"], b"");
        assert_ne!(ran.status, OK, "a file that is no plugin is one");
    });
}

/// A command line that is not finished.
pub(crate) fn completion(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    relay_opt(Path::new(""), &["complete", line], b"");
}

/// A line with a target, and a program of which code is made. Those that run a compiler are left
/// out.
pub(crate) fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((target, program)) = text.split_once('\n') else { return };
    if target.contains("compiler") || target.contains("measured") {
        return;
    }
    relay_opt(Path::new(""), &["-", "--emit", "c", "--target", target], program.as_bytes());
}

/// Programs between lines `// -----`, with comments that announce diagnostics.
pub(crate) fn expectations(data: &[u8]) {
    let args = ["-", "--split-input-file", "--verify-diagnostics", "--pass", "cse"];
    relay_opt(Path::new(""), &args, data);
}

/// Costs: as text, which reads back, and as a file of measured ones.
pub(crate) fn costs(data: &[u8]) {
    if let Some(costs) = std::str::from_utf8(data).ok().and_then(CostTable::parse) {
        assert_eq!(CostTable::parse(&costs.print()), Some(costs));
    }
    with_files(&[], |folder| {
        let kept = Calibration {
            target: "c".to_string(),
            machine: "m".to_string(),
            compiler: "cc".to_string(),
            folder: folder.to_path_buf(),
        };
        std::fs::write(kept.path(), data).expect("a file for an input");
        if let Ok(costs) = kept.find() {
            assert!(costs.is_sound(), "costs that no machine has are taken: {costs:?}");
        }
    });
}
