//! Tests that lit runs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lit_runner::lit::{Commands, Config, Outcome, Test, run};

use crate::scratch::with_files;

/// The commands of tests that write no files.
const HARMLESS: [&str; 6] = ["echo", "printf", "cat", "count", "true", "FileCheck"];

fn config() -> Arc<Config> {
    static COMMANDS: OnceLock<Commands> = OnceLock::new();
    let commands = COMMANDS.get_or_init(|| {
        let standard = Commands::standard();
        let mut commands = Commands::default();
        for name in HARMLESS {
            if let Some(command) = standard.get(name).cloned() {
                commands.register(name, move |args: &[String], io: &mut _| command.run(args, io));
            }
        }
        commands
    });
    let temporary = std::env::temp_dir().join(format!("relay-fuzz-lit-{}", std::process::id()));
    let mut config = Config::new(temporary);
    config.commands = commands.clone();
    config.time_limit = Duration::from_secs(100);
    Arc::new(config)
}

/// A file with `RUN:` lines. Those that name files elsewhere are left out.
pub(crate) fn test(data: &[u8]) {
    let elsewhere = |part: &[u8]| part == b".." || part.starts_with(b"/") || part.starts_with(b"~");
    // What tests print of a panic, others may print too.
    let named = data.windows(5).any(|part| part == b"panic");
    if named || data.windows(2).any(elsewhere) {
        return;
    }
    with_files(&[("a.test", data)], |folder| {
        let test = Test { name: "a.test".to_string(), path: folder.join("a.test") };
        let config = config();
        match run(&config, &test) {
            Outcome::Timeout(_) => panic!("the test does not end"),
            Outcome::Fail(log) => assert!(!log.contains("panic: "), "{log}"),
            _ => {}
        }
        // What is not there need not go.
        let _ = std::fs::remove_dir_all(&config.temporary);
    });
}
