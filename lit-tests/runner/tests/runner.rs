//! Outcomes of tests, and `UPDATE=1`, on test files written for the purpose.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lit_runner::lit::{Commands, Config, Io, MARKER, Outcome, discover, lit_main, run};

type Result = std::result::Result<(), Box<dyn Error>>;

/// A folder of its own for each test.
fn folder(name: &str) -> std::io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runner").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn config(folder: &Path) -> Config {
    let mut config = Config::new(folder.join("temporary"));
    config.update = false;
    config.commands.register("panic", |_: &[String], _: &mut Io| -> i32 { panic!("broken") });
    config.commands.register("sleep", |_: &[String], _: &mut Io| {
        std::thread::sleep(Duration::from_secs(2));
        0
    });
    config
}

/// Runs one test file with the given text.
fn outcome(
    name: &str,
    text: &str,
    change: impl Fn(&mut Config),
) -> std::result::Result<(Outcome, String), Box<dyn Error>> {
    let folder = folder(name)?;
    let file = folder.join("a.test");
    fs::write(&file, text)?;
    let mut config = config(&folder);
    change(&mut config);
    let test = discover(&file)?.pop().ok_or("expected a test, found none")?;
    let outcome = run(&Arc::new(config), &test);
    Ok((outcome, fs::read_to_string(&file)?))
}

fn plain(name: &str, text: &str) -> std::result::Result<Outcome, Box<dyn Error>> {
    Ok(outcome(name, text, |_| {})?.0)
}

#[test]
fn a_failure_shows_what_ran() -> Result {
    let found = plain("failure", "// RUN: echo b | FileCheck %s\n// CHECK: a\n")?;
    let Outcome::Fail(log) = found else {
        return Err(format!("expected a failure, found {found:?}").into());
    };
    assert!(log.contains("a.test:1: RUN line failed: echo b | FileCheck"), "{log}");
    assert!(log.contains("a.test:2:11: error: CHECK: expected string not found in input"), "{log}");
    Ok(())
}

#[test]
fn a_panic_is_a_failure_that_not_alone_does_not_accept() -> Result {
    for text in ["// RUN: panic\n", "// RUN: not panic\n", "// RUN: panic | cat\n"] {
        let found = plain("panic", text)?;
        assert!(matches!(&found, Outcome::Fail(log) if log.contains("panic: broken")), "{found:?}");
    }
    assert_eq!(plain("crash", "// RUN: not --crash panic\n")?, Outcome::Pass);
    Ok(())
}

#[test]
fn expected_failures_must_fail() -> Result {
    assert_eq!(
        plain("xfail", "// RUN: false\n// XFAIL: unix\n// REQUIRES: unix\n")?,
        Outcome::ExpectedFailure
    );
    assert_eq!(plain("xpass", "// RUN: true\n// XFAIL: *\n")?, Outcome::UnexpectedPass);
    Ok(())
}

#[test]
fn features_decide_whether_a_test_runs() -> Result {
    let text = "// REQUIRES: a && !b\n// UNSUPPORTED: c\n// RUN: true\n";
    for (features, runs) in
        [(&["a"][..], true), (&["a", "b"], false), (&["a", "c"], false), (&[], false)]
    {
        let (found, _) = outcome("features", text, |config| {
            config.features.extend(features.iter().map(|&f| f.to_owned()));
        })?;
        assert_eq!(found == Outcome::Pass, runs, "{features:?}: {found:?}");
        assert!(!found.is_failure());
    }
    Ok(())
}

#[test]
fn what_cannot_be_run_is_unresolved() -> Result {
    for text in [
        "",
        "// RUN: echo 'a\n",
        "// RUN: echo %{nope}\n",
        "// RUN: | cat\n",
        "// REQUIRES: a b\n// RUN: true\n",
    ] {
        let found = plain("unresolved", text)?;
        assert!(matches!(found, Outcome::Unresolved(_)), "{text}: {found:?}");
    }
    Ok(())
}

#[test]
fn a_test_has_a_time_limit() -> Result {
    let limit = Duration::from_millis(100);
    let (found, _) = outcome("timeout", "// RUN: sleep\n", |config| config.time_limit = limit)?;
    assert_eq!(found, Outcome::Timeout(limit));
    Ok(())
}

#[cfg(unix)]
#[test]
fn only_allowed_programs_are_started() -> Result {
    let text =
        "// RUN: echo b a | tr ' ' '\\n' | sort | FileCheck %s\n// CHECK: a\n// CHECK-NEXT: b\n";
    assert!(plain("programs", text)?.is_failure());
    let allow = |config: &mut Config| config.programs.extend(["tr".to_owned(), "sort".to_owned()]);
    assert_eq!(outcome("programs", text, allow)?.0, Outcome::Pass);
    Ok(())
}

#[cfg(unix)]
#[test]
fn programs_are_killed_at_the_time_limit() -> Result {
    let (found, _) = outcome("killed", "// RUN: not tail -f %s\n", |config| {
        config.programs.insert("tail".to_owned());
        config.time_limit = Duration::from_millis(200);
    })?;
    assert!(matches!(found, Outcome::Timeout(_) | Outcome::Fail(_)), "{found:?}");
    Ok(())
}

#[test]
fn update_writes_checks_that_then_pass() -> Result {
    let update = |config: &mut Config| config.update = true;
    let text = "// RUN: echo -e '\\n %0 = a\\n\\nb[[1]] %s:1' | FileCheck %s\nbody\n";
    let (found, written) = outcome("update", text, update)?;
    assert_eq!(found, Outcome::Pass);
    let checks =
        "// CHECK: %0 = a\n// CHECK-EMPTY:\n// CHECK-NEXT: b{{\\[\\[}}1]] {{.*}}a.test:1\n";
    assert_eq!(written, format!("{text}\n{MARKER}\n{checks}"));
    // Again, nothing changes; and stale generated checks are replaced.
    assert_eq!(outcome("update", &written, update)?.1, written);
    let stale = written.replace("%0 = a\n", "%0 = old\n");
    assert!(outcome("update", &stale, |_| {})?.0.is_failure());
    assert_eq!(outcome("update", &stale, update)?.1, written);
    Ok(())
}

/// A file that is replaced rather than written leaves what else has its contents.
#[cfg(unix)]
#[test]
fn update_replaces_files_as_a_whole() -> Result {
    let folder = folder("whole")?;
    let (file, link) = (folder.join("a.test"), folder.join("link"));
    let text = "// RUN: echo b | FileCheck %s\n";
    fs::write(&file, text)?;
    fs::hard_link(&file, &link)?;
    let mut config = config(&folder);
    config.update = true;
    let test = discover(&file)?.pop().ok_or("expected a test, found none")?;
    assert_eq!(run(&Arc::new(config), &test), Outcome::Pass);
    assert_eq!(fs::read_to_string(&link)?, text);
    assert!(fs::read_to_string(&file)?.contains("// CHECK: b\n"));
    Ok(())
}

#[test]
fn update_leaves_written_checks_alone() -> Result {
    let text = "// RUN: echo b | FileCheck %s\n// CHECK: a\n";
    let (found, after) = outcome("keep", text, |config| config.update = true)?;
    assert!(found.is_failure());
    assert_eq!(after, text);
    Ok(())
}

#[test]
fn the_command_line_reports_by_exit_status() -> Result {
    let folder = folder("command-line")?;
    fs::write(folder.join("good.test"), "// RUN: true\n")?;
    let temporary = folder.join("temporary");
    let lit = |arguments: &[&str]| {
        let mut all = vec!["--temporary".to_owned(), temporary.display().to_string()];
        all.extend(arguments.iter().map(|&a| a.to_owned()));
        let (mut out, mut err) = (vec![], vec![]);
        let status = lit_main(Commands::standard(), &all, &mut out, &mut err);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status, text(out), text(err))
    };
    let path = folder.display().to_string();
    let nothing = String::new();
    assert_eq!(lit(&[&path]), (0, "Tests: 1\n  PASS: 1\n".to_owned(), nothing.clone()));
    fs::write(folder.join("bad.test"), "// RUN: false\n")?;
    let (status, out, _) = lit(&[&path]);
    assert_eq!((status, out.lines().next()), (1, Some("FAIL: bad.test (1 of 2)")));
    assert_eq!(lit(&[&path, "--filter", "good"]).0, 0);
    let none = "relay-lit: expected tests, found none\n".to_owned();
    assert_eq!(lit(&[&path, "--filter", "none"]), (2, nothing.clone(), none));
    let (status, out, err) = lit(&[]);
    assert_eq!((status, out), (2, nothing));
    assert!(err.contains("Usage: relay-lit"), "{err}");
    Ok(())
}
