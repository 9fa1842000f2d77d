//! Certificates: those of random programs hold, and those that someone changed do not.

use std::path::PathBuf;

use ir_core::{Random, Registry};
use relay_generate::random_module;
use tools::relay_opt::{DIAGNOSTICS, OK};

fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("proofs").join(test);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The status of relay-opt with these arguments, and what it said.
fn opt(registry: &Registry, folder: &std::path::Path, args: &[&str]) -> (i32, String) {
    let ran = tools::run_within(registry, folder, args, b"");
    (ran.status, ran.out + &ran.err)
}

fn cases(default: u64) -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn certificates_of_random_programs_hold() {
    let registry = tools::registry();
    let folder = folder("random");
    for seed in 0..cases(60) {
        let module = random_module(&registry, seed, 1 + (seed as usize * 7) % 60);
        let mut text = Vec::new();
        let options = ir_core::text::Style::default();
        ir_core::text::module::print(&module, &registry, &options, &mut text).unwrap();
        std::fs::write(folder.join("in.relay"), &text).unwrap();
        let passes = registry.strategies().map(|strategy| strategy.name);
        let passes = passes.map(|name| format!("eqsat{{strategy={name},cost=ops}}"));
        let others = ["rewrite", "eqsat", "simplify-expr", "div-to-mul", "fold-explicit-padding"];
        let fuse = ["fuse", "fuse{reassociate=true}", "fuse{target=c}"];
        let others = others.into_iter().chain(fuse);
        let passes: Vec<String> = passes.chain(others.map(String::from)).collect();
        let pass = &passes[seed as usize % passes.len()];
        let explain = ["in.relay", "--pass", pass, "--explain-rewrites=in.cert", "-o", "out.relay"];
        let program = || String::from_utf8_lossy(&text).into_owned();
        let (status, said) = opt(&registry, &folder, &explain);
        assert_eq!(status, OK, "seed {seed}, {pass}: {said}\n{}", program());
        let replay = ["rules", "replay", "in.cert", "in.relay", "--result", "out.relay"];
        let (status, said) = opt(&registry, &folder, &replay);
        assert_eq!(status, OK, "seed {seed}, {pass}: {said}\n{}", program());
    }
}

const PROGRAM: &str = "\
def @main(%x: Tensor[(4, 4), float32], %y: Tensor[(4, 4), float32], %w: Tensor[(4, 4), float32]) {
  %0 = transpose(%x, axes=[1, 0]);
  %1 = transpose(%0, axes=[1, 0]);
  %2 = nn.dense(%1, %w);
  %3 = nn.dense(%y, %w);
  %4 = add(%3, %2);
  %5 = multiply(%4, 1f);
  add(%5, 0f)
}
";

/// A folder with a program, its certificate and its result; the certificate.
fn explained(test: &str, registry: &Registry) -> (PathBuf, String) {
    let folder = folder(test);
    std::fs::write(folder.join("in.relay"), PROGRAM).unwrap();
    let pass = "eqsat{cost=ops}";
    let explain = ["in.relay", "--pass", pass, "--explain-rewrites=in.cert", "-o", "out.relay"];
    assert_eq!(opt(registry, &folder, &explain).0, OK);
    let text = std::fs::read_to_string(folder.join("in.cert")).unwrap();
    (folder, text)
}

/// Whether a changed certificate holds; where it does not, the error is in it.
fn holds(registry: &Registry, folder: &std::path::Path, bytes: &[u8]) -> bool {
    std::fs::write(folder.join("changed.cert"), bytes).unwrap();
    let replay = ["rules", "replay", "changed.cert", "in.relay", "--result", "out.relay"];
    let (status, said) = opt(registry, folder, &replay);
    let text = String::from_utf8_lossy(bytes);
    match status {
        OK => true,
        DIAGNOSTICS => {
            let located = ["--> changed.cert:", "--> out.relay:", "`changed.cert` is not text"]
                .iter()
                .any(|place| said.contains(place));
            assert!(located, "{said}\n{text}");
            false
        }
        _ => panic!("{said}\n{text}"),
    }
}

#[test]
fn a_line_that_is_changed_is_refused() {
    let registry = tools::registry();
    let (folder, text) = explained("changed", &registry);
    assert!(holds(&registry, &folder, text.as_bytes()), "{text}");
    assert!(text.matches("\nstep ").count() >= 3, "{text}");
    let lines: Vec<&str> = text.lines().collect();
    for (place, line) in lines.iter().enumerate() {
        let is_step = line.starts_with("step ") || line.starts_with("  ");
        if !is_step || line.trim_start().starts_with("//") {
            continue;
        }
        // Without the line, with another number, and with other words.
        let mut changed: Vec<Option<String>> = vec![None, Some(line.replacen('%', "%1", 1))];
        changed.push(Some(line.replacen("relay.", "relay.nn.", 1)));
        changed.push(Some(line.replacen(": ", ": not-", 1)));
        if let Some((before, after)) = line.split_once("(%")
            && let Some((a, rest)) = after.split_once(", %")
            && let Some((b, rest)) = rest.split_once(')')
            && a != b
        {
            changed.push(Some(format!("{before}(%{b}, %{a}){rest}")));
        }
        for new in changed.into_iter().filter(|new| new.as_deref() != Some(*line)) {
            let mut lines: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
            match &new {
                Some(new) => lines[place].clone_from(new),
                None => _ = lines.remove(place),
            }
            let text = lines.join("\n") + "\n";
            let shown = new.as_deref().unwrap_or("nothing");
            // The operands of a left side may stand in either order where that does not matter, and
            // then the rule is another instance.
            let swapped = line.contains("relay.add(") && line.starts_with("  from");
            let refused = !holds(&registry, &folder, text.as_bytes());
            assert!(refused || swapped, "`{line}` became `{shown}`");
        }
    }
}

#[test]
fn a_part_of_a_certificate_is_refused() {
    let registry = tools::registry();
    let (folder, text) = explained("cut", &registry);
    for end in 0..text.trim_end().len() {
        assert!(!holds(&registry, &folder, &text.as_bytes()[..end]), "{}", &text[..end]);
    }
}

/// Whatever becomes of a certificate, checking it ends well.
#[test]
fn random_changes_end_well() {
    let registry = tools::registry();
    let (folder, text) = explained("random-changes", &registry);
    for seed in 0..cases(300) {
        let mut random = Random::new(seed);
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=random.below(3) {
            let place = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[place] = random.below(256) as u8,
                1 => bytes[place] = b"%0123456789(),.: =-\n"[random.below(20)],
                2 => _ = bytes.remove(place),
                _ => {
                    let from = random.below(bytes.len());
                    let end = (from + random.below(60)).min(bytes.len());
                    let part = bytes[from..end].to_vec();
                    bytes.splice(place..place, part);
                }
            }
        }
        holds(&registry, &folder, &bytes);
    }
    for bytes in [&b""[..], b"certificate 1\n", b"certificate 2\n", b"\xff\xfe", b"function @main"]
    {
        holds(&registry, &folder, bytes);
    }
}

#[test]
fn a_certificate_is_of_one_program_and_its_result() {
    let registry = tools::registry();
    let (folder, text) = explained("other", &registry);
    let other = PROGRAM.replace("add(%3, %2)", "subtract(%3, %2)");
    std::fs::write(folder.join("in.relay"), other).unwrap();
    assert!(!holds(&registry, &folder, text.as_bytes()));
    std::fs::write(folder.join("in.relay"), PROGRAM).unwrap();
    let result = std::fs::read_to_string(folder.join("out.relay")).unwrap();
    std::fs::write(folder.join("out.relay"), result.replace("add(", "subtract(")).unwrap();
    assert!(!holds(&registry, &folder, text.as_bytes()));
}
