//! Which crate may depend on which: arrows run one way.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crates of the workspace by the folder they stand in, and what they depend on; what only their
/// tests need is apart.
struct Graph {
    folders: BTreeMap<String, String>,
    edges: Vec<(String, String)>,
    test_edges: Vec<(String, String)>,
}

fn graph() -> Graph {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_string();
    let root = text(&metadata["workspace_root"]);
    let mut graph = Graph { folders: BTreeMap::new(), edges: vec![], test_edges: vec![] };
    for package in metadata["packages"].as_array().unwrap() {
        let (name, manifest) = (text(&package["name"]), text(&package["manifest_path"]));
        let folder = manifest.trim_start_matches(&root).trim_start_matches('/');
        graph.folders.insert(name.clone(), folder.trim_end_matches("/Cargo.toml").to_string());
        for dependency in package["dependencies"].as_array().unwrap() {
            let edge = (name.clone(), text(&dependency["name"]));
            match dependency["kind"] == "dev" {
                true => graph.test_edges.push(edge),
                false => graph.edges.push(edge),
            }
        }
    }
    graph
}

/// The part of the house that a crate belongs to.
fn part(folder: &str) -> &str {
    match folder {
        "ir-core/arrays" | "ir-core/macros" | "ir-core/outputs" | "passes/analysis"
        | "targets/core" | "lit-tests/runner" | "rewrites/check" | "targets/runtime" => folder,
        "dialects/te"
        | "dialects/prog"
        | "dialects/relay"
        | "dialects/relay-operators"
        | "dialects/relay-generate" => folder.trim_start_matches("dialects/"),
        "tools/lsp" => folder,
        _ => folder.split('/').next().unwrap_or(folder),
    }
}

/// What each part may depend on, and why on nothing else.
const ARROWS: &[(&str, &[&str], &str)] = &[
    ("ir-core/macros", &[], "the macros generate text and know nothing"),
    ("ir-core/outputs", &[], "files are written alike by what knows no compiler"),
    (
        "ir-core",
        &["ir-core/macros", "ir-core/outputs"],
        "the core knows no dialect, so that every dialect can stand on it",
    ),
    ("ir-core/arrays", &["ir-core"], "files of tensors are read alike by what knows no language"),
    ("te", &["ir-core"], "tensor expressions serve more than one front end"),
    ("prog", &["te", "ir-core"], "whole programs are made of kernels, and know no language"),
    ("relay", &["te", "ir-core"], "the language knows no operator, so that one can change alone"),
    (
        "relay-operators",
        &["relay", "te", "ir-core"],
        "operators are declared, not driven: passes come after them",
    ),
    ("relay-generate", &["relay", "te", "ir-core"], "programs are made of what is registered"),
    ("rewrites", &["ir-core"], "rules know operations by name and hook, not as structs"),
    (
        "rewrites/check",
        &["rewrites", "relay", "ir-core"],
        "what checks rules runs in tests of who writes them: it needs an evaluator, and no tool",
    ),
    ("passes/analysis", &["ir-core"], "analyses serve every dialect"),
    (
        "passes",
        &["rewrites", "passes/analysis", "relay", "relay-operators", "prog", "te", "ir-core"],
        "passes know dialects, not targets or tools",
    ),
    ("targets/core", &["prog", "te", "ir-core"], "targets see loops, and programs of them"),
    ("lit-tests", &[], "test files and what runs them; what only tests need does not count"),
    (
        "targets",
        &["targets/core", "prog", "te", "ir-core"],
        "targets see loops, and programs of them, never relay",
    ),
    (
        "targets/runtime",
        &[
            "passes",
            "targets",
            "targets/core",
            "relay-operators",
            "relay",
            "prog",
            "te",
            "ir-core/arrays",
            "ir-core",
        ],
        "programs are compiled and run without a command line",
    ),
    ("frontends", &["relay", "te", "ir-core"], "importers make programs, by names of operators"),
    (
        "tools/lsp",
        &["passes", "passes/analysis", "relay-operators", "relay", "ir-core"],
        "editors know no targets and no command line, which starts the server",
    ),
    (
        "lit-tests/runner",
        &["ir-core/outputs"],
        "the test runner knows no compiler, so that others can use it",
    ),
];

/// Crates from outside that may be named in one crate only, or not in the core at all.
const NAMED_ONCE: [&str; 2] = ["egg", "salsa"];
const NOT_IN_CORE: [&str; 3] = ["egg", "salsa", "petgraph"];

/// What is wrong with a graph, one line each.
fn faults(graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for (from, to) in &graph.edges {
        let from_part = part(&graph.folders[from]);
        if from_part == "ir-core" && NOT_IN_CORE.contains(&to.as_str()) {
            faults.push(format!("{from} -> {to}: the core stays small and free of engines"));
        }
        let Some(to_part) = graph.folders.get(to).map(|folder| part(folder)) else { continue };
        let allowed = ARROWS.iter().find(|(name, _, _)| *name == from_part);
        if let Some((_, allowed, reason)) = allowed
            && !allowed.contains(&to_part)
        {
            faults.push(format!("{from} -> {to}: {reason}"));
        }
    }
    for engine in NAMED_ONCE {
        let users: BTreeSet<&str> = graph
            .edges
            .iter()
            .filter(|(_, to)| to == engine)
            .map(|(from, _)| from.as_str())
            .collect();
        if users.len() > 1 {
            let users = users.into_iter().collect::<Vec<_>>().join(", ");
            faults.push(format!("{users} -> {engine}: an engine is used behind one crate only"));
        }
    }
    faults
}

#[test]
fn arrows_run_one_way() {
    let graph = graph();
    assert!(graph.folders.values().any(|folder| folder == "ir-core") && !graph.edges.is_empty());
    let faults = faults(&graph);
    assert!(faults.is_empty(), "forbidden edges:\n{}", faults.join("\n"));
}

#[test]
fn every_crate_has_its_part() {
    for (name, folder) in graph().folders {
        let known = ARROWS.iter().any(|(part_name, _, _)| *part_name == part(&folder));
        let free = ["tools", "examples", "docs"].contains(&part(&folder));
        assert!(known || free, "{name} in {folder}: expected a part named in ARROWS");
    }
}

/// A crate whose tests need a crate that needs it is built twice, and cannot be published alone.
#[test]
fn tests_need_nothing_that_needs_their_crate() {
    let Graph { mut folders, edges, test_edges } = graph();
    let edges: Vec<_> = edges.into_iter().chain(test_edges).collect();
    loop {
        let needs =
            |name: &String| edges.iter().any(|(from, to)| from == name && folders.contains_key(to));
        let Some(ready) = folders.keys().find(|name| !needs(name)).cloned() else { break };
        folders.remove(&ready);
    }
    assert!(folders.is_empty(), "a circle among {:?}", folders.keys());
}

#[test]
fn every_crate_is_on_the_map() {
    let map = include_str!("../../docs/architecture.md");
    for folder in graph().folders.values() {
        assert!(map.contains(&format!("| `{folder}` |")), "{folder}: expected a line in the map");
    }
}

#[test]
fn forbidden_edges_are_found() {
    let folders = [
        ("ir-core", "ir-core"),
        ("relay", "dialects/relay"),
        ("te", "dialects/te"),
        ("prog", "dialects/prog"),
        ("passes", "passes"),
        ("rewrites", "rewrites"),
        ("analysis", "passes/analysis"),
        ("target-c", "targets/c"),
        ("tools", "tools"),
        ("lsp", "tools/lsp"),
    ];
    let edge = |from: &str, to: &str| {
        let folders = folders.map(|(name, folder)| (name.to_string(), folder.to_string()));
        let edges = vec![(from.to_string(), to.to_string())];
        faults(&Graph { folders: folders.into(), edges, test_edges: vec![] }).len()
    };
    for (from, to) in [
        ("ir-core", "relay"),
        ("ir-core", "petgraph"),
        ("ir-core", "egg"),
        ("te", "relay"),
        ("relay", "passes"),
        ("relay", "rewrites"),
        ("rewrites", "relay"),
        ("target-c", "relay"),
        ("passes", "target-c"),
        ("prog", "relay"),
        ("passes", "tools"),
        ("lsp", "tools"),
    ] {
        assert_eq!(edge(from, to), 1, "{from} -> {to}");
    }
    for (from, to) in
        [("relay", "te"), ("passes", "analysis"), ("tools", "target-c"), ("rewrites", "egg")]
    {
        assert_eq!(edge(from, to), 0, "{from} -> {to}");
    }
    let mut graph = Graph {
        folders: folders.map(|(name, folder)| (name.to_string(), folder.to_string())).into(),
        edges: vec![("rewrites".to_string(), "egg".to_string())],
        test_edges: vec![],
    };
    graph.edges.push(("tools".to_string(), "egg".to_string()));
    assert_eq!(faults(&graph).len(), 1);
}

/// Examples outside of the workspace are built with the packages that it is built with: others may not be
/// there where nothing can be fetched.
#[test]
fn examples_lock_the_versions_of_the_workspace() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let locked = |file: &str| -> BTreeSet<(String, String)> {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let field = |package: &str, name: &str| {
            let start = package.find(&format!("{name} = \""))? + name.len() + 4;
            package[start..].split('"').next().map(str::to_string)
        };
        let packages = text.split("[[package]]").skip(1);
        let packages = packages.filter(|package| package.contains("source = "));
        packages.map(|p| (field(p, "name").unwrap(), field(p, "version").unwrap())).collect()
    };
    let workspace = locked("Cargo.lock");
    assert!(workspace.len() > 100);
    for example in ["driver", "embed"] {
        let others = &locked(&format!("examples/{example}/Cargo.lock")) - &workspace;
        assert!(others.is_empty(), "{example}: {others:?}");
    }
}

/// Files of tests are modules of `tests/main.rs` where a crate has that; one that is not named there would
/// never run.
#[test]
fn every_file_of_tests_is_run() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for folder in graph().folders.values() {
        let tests = root.join(folder).join("tests");
        let Ok(main) = std::fs::read_to_string(tests.join("main.rs")) else { continue };
        let manifest = std::fs::read_to_string(tests.join("../Cargo.toml")).unwrap();
        for entry in std::fs::read_dir(&tests).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap().to_string();
            if path.extension().is_none_or(|extension| extension != "rs") || name == "main" {
                continue;
            }
            seen += 1;
            assert!(
                main.contains(&format!("\nmod {name};\n"))
                    || manifest.contains(&format!("[[test]]\nname = \"{name}\"")),
                "{} is neither a module of tests/main.rs nor a test of its own",
                path.display()
            );
        }
    }
    assert!(seen > 90, "{seen}");
}
