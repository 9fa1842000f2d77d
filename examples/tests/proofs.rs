//! Every result of the built-in strategies on graphs of well-known networks is explained, and, where
//! they are small enough for the interpreter, computes the same.

use std::path::PathBuf;

use examples::graphs;
use ir_core::pass::OptionValue;
use tools::relay_opt::OK;

/// Runs each strategy on the graphs, checks the certificates with the programs alone, and returns
/// how many steps there are.
fn explain(test: &str, graphs: &[(&str, String)], more: &[&str]) -> usize {
    let registry = tools::registry();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let opt = |args: &[&str]| {
        let ran = tools::run_within(&registry, &folder, args, b"");
        (ran.status, ran.err)
    };
    let mut steps = 0;
    for (name, text) in graphs {
        std::fs::write(folder.join("in.relay"), text).expect("the program can be written");
        for strategy in registry.strategies().map(|strategy| strategy.name) {
            let machine = graphs::ACCELERATOR.print();
            let pass = format!("eqsat{{strategy={strategy},cost=inference,target={{{machine}}}}}");
            let mut args =
                vec!["in.relay", "--pass", &pass, "--explain-rewrites=in.cert", "-o", "out.relay"];
            args.extend(more);
            let (status, said) = opt(&args);
            assert_eq!(status, OK, "{name}, {strategy}: {said}");
            let replay = ["rules", "replay", "in.cert", "in.relay", "--result", "out.relay"];
            let (status, said) = opt(&replay);
            assert_eq!(status, OK, "{name}, {strategy}: {said}");
            let text = std::fs::read_to_string(folder.join("in.cert")).expect("it was written");
            steps += text.matches("\nstep ").count();
        }
    }
    steps
}

#[test]
fn strategies_are_explained() {
    let graphs: Vec<(&str, String)> =
        graphs::PUBLISHED.iter().map(|(name, text)| (*name, text())).collect();
    assert!(explain("strategies", &graphs, &[]) > 1000);
}

#[test]
fn small_graphs_compute_the_same() {
    assert!(explain("small", &graphs::small(), &["--verify-semantics=1"]) > 100);
}
