//! Measured costs on disk.

use std::fs;
use std::io;
use std::path::PathBuf;

use ir_core::files;
use ir_core::fingerprint::of_bytes;
use ir_core::pass::OptionValue;
use ir_core::{CostTable, Diagnostic, Diagnostics};

/// Where the measured costs of a target are kept, and for what.
///
/// A file holds the costs of one target on one machine, by which it is named. It says which
/// compiler made the kernels, and ends with a hash of itself: files that were cut off or changed,
/// and those of another compiler or another way of measuring, are seen as such. Nothing looks for
/// such files unless a target is told to use measured costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Calibration {
    /// The target with the options that its code depends on.
    pub target: String,
    /// What tells one machine from another, such as the name of the processor.
    pub machine: String,
    /// What tells one compiler from another, versions too.
    pub compiler: String,
    /// The folder of the files.
    pub folder: PathBuf,
}

impl Calibration {
    /// The file.
    pub fn path(&self) -> PathBuf {
        let name = of_bytes([self.target.as_bytes(), self.machine.as_bytes()]);
        self.folder.join(format!("costs-{name}.txt"))
    }

    /// Keeps `costs`, in place of earlier ones. The file gets its name last, so that nobody reads
    /// half of one.
    ///
    /// # Errors
    /// `E0905` where it cannot be written.
    pub fn keep(&self, costs: &CostTable) -> Result<PathBuf, Diagnostics> {
        let path = self.path();
        match files::write(&path, self.text(&self.compiler, costs)) {
            Ok(()) => Ok(path),
            Err(error) => {
                let message = format!("`{}` cannot be written: {error}", path.display());
                Err(Diagnostic::error("E0905", message)
                    .help("make room, or name another folder")
                    .into())
            }
        }
    }

    /// The costs that are kept.
    ///
    /// # Errors
    /// `E0912` where there are none, or they are to be ignored, with the reason.
    pub fn find(&self) -> Result<CostTable, Diagnostics> {
        let path = self.path();
        let found = match fs::read_to_string(&path) {
            Ok(text) => self.read(&text).map_err(|why| format!("`{}` {why}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err("nothing was measured on this machine".to_string())
            }
            Err(error) => Err(format!("`{}` cannot be read: {error}", path.display())),
        };
        found
            .map_err(|why| {
                let message = format!("no measured costs of `{}`: {why}", self.target);
                let help =
                    format!("`relay-opt calibrate --target '{}'` measures them", self.target);
                Diagnostic::error("E0912", message).help(help)
            })
            .map_err(Diagnostics::from)
    }

    /// The costs that a file with `text` holds, or why they are ignored.
    fn read(&self, text: &str) -> Result<CostTable, &'static str> {
        const BROKEN: &str = "is ignored: it is broken";
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        if line(TITLE).is_some_and(|version| version != VERSION) {
            return Err("is ignored: another version of this program measured it");
        }
        let compiler = line("compiler ").ok_or(BROKEN)?;
        let costs = line("costs ").and_then(CostTable::parse).ok_or(BROKEN)?;
        match compiler == one_line(&self.compiler) {
            _ if text != self.text(compiler, &costs) => Err(BROKEN),
            true => Ok(costs),
            false => Err("is ignored: it was measured with another compiler"),
        }
    }

    fn text(&self, compiler: &str, costs: &CostTable) -> String {
        let text = format!(
            "{TITLE}{VERSION}\ntarget {}\nmachine {}\ncompiler {}\ncosts {}\n",
            one_line(&self.target),
            one_line(&self.machine),
            one_line(compiler),
            costs.print()
        );
        let hash = of_bytes([text.as_bytes()]);
        format!("{text}hash {hash}\n")
    }
}

/// What such a file begins with.
const TITLE: &str = "measured costs, version ";

/// The way of measuring, counted up when figures are no longer comparable.
const VERSION: &str = "1";

/// `text` with a space for each end of a line.
fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_do_not_fit_are_ignored_with_the_reason() {
        let folder = std::env::temp_dir().join(format!("relay-costs-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let here = Calibration {
            target: "c{threads=2}".to_string(),
            machine: "x86_64 a processor\nflags".to_string(),
            compiler: "cc 12\nof somebody".to_string(),
            folder: folder.clone(),
        };
        let why = |calibration: &Calibration| {
            let error = calibration.find().expect_err("no costs");
            assert_eq!(error[0].code, "E0912");
            error[0].message.replace(&*calibration.path().to_string_lossy(), "FILE")
        };
        let costs = CostTable { launch: 0.25, transcendental: 1.5, ..CostTable::NOMINAL };
        assert!(why(&here).ends_with("nothing was measured on this machine"));
        let path = here.keep(&costs).expect("a folder that can be written to");
        assert_eq!(here.find(), Ok(costs));
        // Those of other targets and machines are other files.
        for other in [
            Calibration { target: "c{threads=1}".to_string(), ..here.clone() },
            Calibration { machine: "aarch64".to_string(), ..here.clone() },
        ] {
            assert!(why(&other).ends_with("nothing was measured on this machine"));
        }
        let newer = Calibration { compiler: "cc 13\nof somebody".to_string(), ..here.clone() };
        assert!(why(&newer).ends_with("`FILE` is ignored: it was measured with another compiler"));
        let text = fs::read_to_string(&path).expect("the file");
        let broken = [
            String::new(),
            text[..text.len() / 2].to_string(),
            text.replace("launch=0.25", "launch=0.26"),
            text.replace("launch=0.25", "launch=NaN"),
            text.replace("bandwidth=20", "bandwidth=0"),
            text.replace("cc 12", "cc 13"),
            text.replace("hash ", "hash 0"),
        ];
        for text in broken {
            fs::write(&path, &text).expect("the file");
            assert!(why(&here).ends_with("`FILE` is ignored: it is broken"), "{text}");
        }
        fs::write(&path, text.replace("version 1", "version 0")).expect("the file");
        assert!(why(&here).ends_with("another version of this program measured it"));
        // Measuring again mends it.
        here.keep(&CostTable::NOMINAL).expect("a folder that can be written to");
        assert_eq!(here.find(), Ok(CostTable::NOMINAL));
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }
}
