//! The committed inputs of all targets, and random changes of them, show no fault.
//!
//! `PROPTEST_CASES` sets how many changes each target tries, `PROPTEST_RNG_SEED` the first seed.

use fuzz::{TARGETS, corpus, dictionary, mutated};
use ir_core::pipeline::catch_panic;
use ir_core::random::Random;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn committed_inputs_show_no_fault() {
    for target in TARGETS {
        let inputs = corpus(&target).unwrap();
        assert!(!inputs.is_empty(), "{}: no inputs", target.name);
        for (name, input) in inputs {
            let ran = catch_panic(|| (target.run)(&input));
            assert!(ran.is_ok(), "corpus/{}/{name}: {ran:?}", target.name);
        }
    }
}

#[test]
fn changed_inputs_show_no_fault() {
    let (first, cases) = (number("PROPTEST_RNG_SEED", 0), number("PROPTEST_CASES", 200));
    for target in TARGETS {
        let (inputs, words) = (corpus(&target).unwrap(), dictionary(&target));
        for seed in first..first + cases {
            let mut random = Random::new(seed);
            let mut pick = || random.choose(&inputs).map(|(_, input)| input.as_slice());
            let (Some(one), Some(other)) = (pick(), pick()) else { continue };
            let input = mutated(one, other, &words, &mut random);
            let ran = catch_panic(|| (target.run)(&input));
            let shown = String::from_utf8_lossy(&input);
            assert!(ran.is_ok(), "{}, seed {seed}: {ran:?}\n{shown}", target.name);
        }
    }
}
