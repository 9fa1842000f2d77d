//! What a run was told besides its passes, as reproducers record it.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use ir_core::{Diagnostic, Diagnostics};

use crate::driver::options::{Executor, seconds};

/// What a reproducer records.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Recorded {
    /// Whether results are compared, and what runs the program after the passes.
    pub(crate) miscompile: Option<Executor>,
    /// Files of rules.
    pub(crate) rules: Vec<String>,
    /// Plugins, which bring passes.
    pub(crate) plugins: Vec<String>,
    /// Seconds of `--timeout`.
    pub(crate) timeout: Option<u64>,
    /// That of `--pass-time-limit`.
    pub(crate) pass_time_limit: Option<Duration>,
}

impl Recorded {
    /// A run in `directory`, on which the paths of plugins and rules do not depend any more.
    pub(crate) fn new(rules: &[String], plugins: &[String], directory: &Path) -> Recorded {
        let whole = |path: &String| {
            let path = directory.join(path);
            std::path::absolute(&path).unwrap_or(path).display().to_string()
        };
        let rules = rules.iter().filter(|path| *path != "-").map(whole).collect();
        let plugins = plugins.iter().map(whole).collect();
        Recorded { rules, plugins, ..Recorded::default() }
    }

    /// As lines of a reproducer.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        let mut set = |name: &str, value: &str| settings.push((name.into(), value.into()));
        if let Some(executor) = self.miscompile {
            set("mode", "miscompile");
            let name = executor.to_possible_value();
            set("executor", name.as_ref().map_or("interp", |name| name.get_name()));
        }
        self.rules.iter().for_each(|path| set("rules", path));
        self.plugins.iter().for_each(|path| set("plugin", path));
        if let Some(seconds) = self.timeout {
            set("timeout", &seconds.to_string());
        }
        if let Some(limit) = self.pass_time_limit {
            set("pass-time-limit", &limit.as_secs_f64().to_string());
        }
        settings
    }

    /// What `settings` say.
    ///
    /// # Errors
    /// Those that mean nothing.
    pub(crate) fn read(settings: &[(String, String)]) -> Result<Recorded, Diagnostics> {
        let mut recorded = Recorded::default();
        for (name, value) in settings {
            let wrong = || {
                let message = format!("`{name}: {value}` of a reproducer means nothing here");
                Diagnostic::error("E0725", message)
            };
            match (name.as_str(), value.as_str()) {
                ("mode", "miscompile") => drop(recorded.miscompile.get_or_insert(Executor::Interp)),
                ("executor", name) => {
                    let executor = Executor::from_str(name, false).map_err(|_| wrong())?;
                    recorded.miscompile = Some(executor);
                }
                ("rules", path) => recorded.rules.push(path.to_string()),
                ("plugin", path) => recorded.plugins.push(path.to_string()),
                ("timeout", seconds) => {
                    recorded.timeout = Some(seconds.parse().map_err(|_| wrong())?);
                }
                ("pass-time-limit", text) => {
                    recorded.pass_time_limit = Some(seconds(text).map_err(|_| wrong())?);
                }
                _ => return Err(wrong().into()),
            }
        }
        Ok(recorded)
    }

    /// `error`, with what to do where passes are missing that plugins bring.
    pub(crate) fn explain(&self, mut error: Diagnostic) -> Diagnostic {
        const UNKNOWN_PASS: &str = "E0701";
        if error.code == UNKNOWN_PASS && !self.plugins.is_empty() {
            let options: String =
                self.plugins.iter().map(|path| format!(" --load-plugin {path}")).collect();
            error.help = Some(format!("the run that it repeats had{options}"));
        }
        error
    }
}
