//! The committed inputs of all targets, and random changes of them, show no fault.
//!
//! `PROPTEST_CASES` sets how many changes each target tries, `PROPTEST_RNG_SEED` the first seed,
//! and `FUZZ_TARGET` the only target.

use std::time::Instant;

use cpu_time::ProcessTime;
use fuzz::{TARGETS, arbitrary, corpus, dictionary, mutated, target};
use ir_core::pipeline::catch_panic;
use ir_core::random::Random;
use relay_generate::random_module;

/// Seconds of processor time that an input may take.
const LIMIT: f64 = 5.0;

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

/// Tries inputs that `make` makes of random numbers, for every target.
fn tried(make: impl Fn(&[(String, Vec<u8>)], &[String], &mut Random) -> Vec<u8>, cases: u64) {
    let (first, cases) = (number("PROPTEST_RNG_SEED", 0), number("PROPTEST_CASES", cases));
    let only = std::env::var("FUZZ_TARGET").ok();
    let chosen = TARGETS.iter().filter(|target| only.iter().all(|name| name == target.name));
    for target in chosen {
        let (inputs, words) = (corpus(target).unwrap(), dictionary(target));
        let start = Instant::now();
        for seed in first..first + cases {
            let input = make(&inputs, &words, &mut Random::new(seed));
            let before = ProcessTime::now();
            let ran = catch_panic(|| (target.run)(&input));
            let seconds = before.elapsed().as_secs_f64();
            let shown = String::from_utf8_lossy(&input);
            assert!(ran.is_ok(), "{}, seed {seed}: {ran:?}\n{shown}", target.name);
            assert!(seconds < LIMIT, "{}, seed {seed}: {seconds} s\n{shown}", target.name);
        }
        eprintln!("{}: {cases} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
    }
}

#[test]
fn changed_inputs_show_no_fault() {
    let changed = |inputs: &[(String, Vec<u8>)], words: &[String], random: &mut Random| {
        let mut pick = || random.choose(inputs).map(|(_, input)| input.as_slice());
        let (one, other) = (pick().unwrap_or_default(), pick().unwrap_or_default());
        mutated(one, other, words, random)
    };
    tried(changed, 200);
}

#[test]
fn arbitrary_inputs_show_no_fault() {
    tried(|_, words, random| arbitrary(words, random), 100);
}

/// Random programs with a few places changed, through random passes.
#[test]
fn broken_programs_show_no_fault() {
    let registry = tools::registry();
    let (first, cases) = (number("PROPTEST_RNG_SEED", 0), number("PROPTEST_CASES", 500));
    let target = target("pipeline").unwrap();
    let words = dictionary(&target);
    let passes: Vec<&str> = registry.passes().map(|pass| pass.name).collect();
    for seed in first..first + cases {
        let mut random = Random::new(seed);
        let module = random_module(&registry, seed, 1 + random.below(20));
        let mut text = Vec::new();
        match random.one_in(2) {
            true => {
                ir_core::text::module::print(&module, &registry, &Default::default(), &mut text)
            }
            false => {
                let options = ir_core::text::PrintOptions::complete();
                ir_core::text::print_with(&module, &registry, &options, &mut text)
            }
        }
        .unwrap();
        let chosen = (0..1 + random.below(5)).filter_map(|_| random.choose(&passes).copied());
        let mut input = chosen.collect::<Vec<_>>().join(",").into_bytes();
        input.push(b'\n');
        input.extend(mutated(&text, &text, &words, &mut random));
        let ran = catch_panic(|| (target.run)(&input));
        assert!(ran.is_ok(), "seed {seed}: {ran:?}\n{}", String::from_utf8_lossy(&input));
    }
}
