//! The program of the page that `view` writes, in node where there is one.

use std::process::Command;

const DIFFERENCE: &str = include_str!("../src/commands/view/difference.js");

/// What `program` prints behind the page's own code; nothing where node is missing.
fn node(program: &str) -> Option<String> {
    if Command::new("node").arg("--version").output().is_err() {
        assert!(std::env::var_os("REQUIRE_TOOLS").is_none(), "node is missing");
        eprintln!("skipped: node is missing");
        return None;
    }
    let output = Command::new("node").args(["-e", &format!("{DIFFERENCE}\n{program}")]).output();
    let output = output.expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Pairs are equal lines in order, and all lines that stand once in both texts in the same order.
#[test]
fn differences_pair_equal_lines() {
    let printed = node(
        r#"
        let seed = 1;
        const random = (bound) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % bound;
        for (let round = 0; round < 2000; round += 1) {
          const lines = () => Array.from({ length: random(30) }, () => `line ${random(1 + round % 12)}`);
          const [a, b] = [lines(), lines()];
          let [i, j] = [-1, -1];
          for (const [p, q] of common(a, b)) {
            if (p <= i || q <= j || a[p] !== b[q]) throw new Error(JSON.stringify([a, b]));
            [i, j] = [p, q];
          }
        }
        const show = (a, b) => JSON.stringify(common(a.split(""), b.split("")));
        console.log(show("abc", "abc"), show("axc", "ayc"), show("abcabba", "cbabac"), show("", "a"));
        "#,
    );
    let Some(printed) = printed else { return };
    assert_eq!(printed, "[[0,0],[1,1],[2,2]] [[0,0],[2,2]] [[2,0],[3,2],[4,3],[6,4]] []");
}

/// However many lines differ, each is read a few times: the page would stand still otherwise.
#[test]
fn differences_of_long_texts_read_each_line_a_few_times() {
    let printed = node(
        r#"
        const line = (index) => `  %${index} = add(%${index - 1}, %w${index % 100})`;
        const a = Array.from({ length: 100000 }, (_, index) => line(index));
        const edits = [(text) => text, (text, index) => (index % 10 ? text : `${text}x`), (text) => `${text}x`];
        edits.push((_, index) => line(index + 1), (_, index) => line(index % 7));
        // Lines are numbers once they are read.
        let reads = 0;
        const from = Int32Array.from.bind(Int32Array);
        const counted = { get: (lines, place) => ((reads += 1), lines[place]) };
        Int32Array.from = (lines, number) => new Proxy(from(lines, number), counted);
        for (const edit of edits) {
          reads = 0;
          common(a, a.map(edit));
          console.log(reads / a.length);
        }
        "#,
    );
    for reads in printed.iter().flat_map(|printed| printed.lines()) {
        let reads: f64 = reads.parse().expect("a number");
        assert!(reads < 20.0, "{printed:?}");
    }
}
