//! Threefry with four words of 64 bits and 20 rounds, and generators that count and split.
//!
//! J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, *Parallel Random Numbers: As Easy as 1, 2, 3*, 2011;
//! the last words of a key are added once less than there, as the original does. Generators are those of
//! K. Claessen and M. Pałka, *Splittable Pseudorandom Number Generators using Cryptographic Hashing*, 2013.
//!
//! What is written here once computes numbers for the evaluator, and expressions for the definition.

use te::compute::Expression;
use te::scalar::ScalarOp;

use ir_core::{DType, Scalar, ValueId};

/// Words of a generator: four of a key, two of the path of splits that lead to it, two of a counter, of which the
/// second one counts, and two with the one bit of the path that the next split sets.
pub(super) const WORDS: usize = 10;

/// Words that a hash gives.
pub(super) const BLOCK: usize = 4;

/// By round, in turn, how far the second and the fourth word are rotated.
const ROTATIONS: [[u32; 2]; 8] =
    [[14, 16], [52, 57], [23, 40], [5, 37], [25, 33], [46, 12], [58, 22], [32, 32]];

/// What is added to the parity of a key.
const PARITY: u64 = 0x1BD1_1BDA_A9FC_1A22;

/// How words of 64 bits are computed with.
pub(super) trait Words {
    /// A word.
    type Word: Copy;
    /// Whether something holds.
    type Truth: Copy;
    /// The word `value`.
    fn word(&mut self, value: u64) -> Self::Word;
    /// The sum, which wraps.
    fn sum(&mut self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The bits that one of them has.
    fn xor(&mut self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The bits that any of them has.
    fn or(&mut self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// `a` with its bits `by` places further up; what leaves it is lost.
    fn up(&mut self, a: Self::Word, by: u32) -> Self::Word;
    /// `a` with its bits `by` places further down; what leaves it is lost.
    fn down(&mut self, a: Self::Word, by: u32) -> Self::Word;
    /// Whether `a` is less than `b`, without signs.
    fn is_less(&mut self, a: Self::Word, b: Self::Word) -> Self::Truth;
    /// `a` where `truth` holds, else `b`.
    fn choose(&mut self, truth: Self::Truth, a: Self::Word, b: Self::Word) -> Self::Word;
}

/// Computes numbers.
pub(super) struct Numbers;

impl Words for Numbers {
    type Word = u64;
    type Truth = bool;
    fn word(&mut self, value: u64) -> u64 {
        value
    }
    fn sum(&mut self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }
    fn xor(&mut self, a: u64, b: u64) -> u64 {
        a ^ b
    }
    fn or(&mut self, a: u64, b: u64) -> u64 {
        a | b
    }
    fn up(&mut self, a: u64, by: u32) -> u64 {
        a << by
    }
    fn down(&mut self, a: u64, by: u32) -> u64 {
        a >> by
    }
    fn is_less(&mut self, a: u64, b: u64) -> bool {
        a < b
    }
    fn choose(&mut self, truth: bool, a: u64, b: u64) -> u64 {
        if truth { a } else { b }
    }
}

impl Words for Expression<'_> {
    type Word = ValueId;
    type Truth = ValueId;
    fn word(&mut self, value: u64) -> ValueId {
        self.constant(DType::UINT64, Scalar::Int(value.cast_signed()))
    }
    fn sum(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.scalar(ScalarOp::Add, &[a, b])
    }
    fn xor(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.scalar(ScalarOp::Xor, &[a, b])
    }
    fn or(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.scalar(ScalarOp::Or, &[a, b])
    }
    fn up(&mut self, a: ValueId, by: u32) -> ValueId {
        let by = Words::word(self, by.into());
        self.scalar(ScalarOp::ShiftLeft, &[a, by])
    }
    fn down(&mut self, a: ValueId, by: u32) -> ValueId {
        let by = Words::word(self, by.into());
        self.scalar(ScalarOp::ShiftRight, &[a, by])
    }
    fn is_less(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.scalar(ScalarOp::Lt, &[a, b])
    }
    fn choose(&mut self, truth: ValueId, a: ValueId, b: ValueId) -> ValueId {
        self.select(truth, a, b)
    }
}

/// The words that `counter` is hashed to with `key`.
pub(super) fn hash<W: Words>(w: &mut W, key: [W::Word; 4], counter: [W::Word; 4]) -> [W::Word; 4] {
    let mut parity = w.word(PARITY);
    for word in key {
        parity = w.xor(parity, word);
    }
    let [a, b, c, d] = key;
    let key = [a, b, c, d, parity];
    let mut words = counter;
    for (round, [first, second]) in ROTATIONS.into_iter().cycle().take(20).enumerate() {
        if round % 4 == 0 {
            let turn = round / 4;
            for (place, word) in words.iter_mut().enumerate() {
                *word = w.sum(*word, key[(turn + place) % key.len()]);
            }
            let turn = w.word(turn as u64);
            words[3] = w.sum(words[3], turn);
        }
        let [a, b, c, d] = words;
        let (a, b) = mixed(w, a, b, first);
        let (c, d) = mixed(w, c, d, second);
        words = [a, d, c, b];
    }
    words
}

/// The sum of two words, and the second one, rotated, where it differs from that.
fn mixed<W: Words>(w: &mut W, a: W::Word, b: W::Word, rotation: u32) -> (W::Word, W::Word) {
    let sum = w.sum(a, b);
    let (high, low) = (w.up(b, rotation), w.down(b, 64 - rotation));
    let rotated = w.or(high, low);
    (sum, w.xor(rotated, sum))
}

/// The generator that gives the next `count` words, which is `generator` unless its counter ends before.
pub(super) fn ready<W: Words>(
    w: &mut W,
    generator: [W::Word; WORDS],
    count: u64,
) -> [W::Word; WORDS] {
    let [k0, k1, k2, k3, p0, p1, _, counter, b0, b1] = generator;
    let (zero, all) = (w.word(0), w.word(u64::MAX));
    // A path that is full becomes a key.
    let key = hash(w, [k0, k1, k2, k3], [all; 4]);
    let begin = w.word(1 << 63);
    let keyed = [key[0], key[1], key[2], key[3], zero, zero, zero, zero, begin, zero];
    // Else the path gets longer, by a one.
    let (longer0, longer1) = (w.or(p0, b0), w.or(p1, b1));
    let (next0, next1) = next_bit(w, b0, b1);
    let longer = [k0, k1, k2, k3, longer0, longer1, zero, zero, next0, next1];
    let bits = w.or(b0, b1);
    let has_bits = w.is_less(zero, bits);
    let end = w.word(u64::MAX - count);
    let has_numbers = w.is_less(counter, end);
    std::array::from_fn(|word| {
        let next = w.choose(has_bits, longer[word], keyed[word]);
        w.choose(has_numbers, generator[word], next)
    })
}

/// The words that block `block` of `generator` has.
pub(super) fn block<W: Words>(
    w: &mut W,
    generator: [W::Word; WORDS],
    block: W::Word,
) -> [W::Word; BLOCK] {
    let [k0, k1, k2, k3, rest @ ..] = generator;
    let counter = std::array::from_fn(|word| w.sum(rest[word], block));
    hash(w, [k0, k1, k2, k3], counter)
}

/// `generator` after `count` words.
pub(super) fn after<W: Words>(
    w: &mut W,
    generator: [W::Word; WORDS],
    count: u64,
) -> [W::Word; WORDS] {
    let count = w.word(count);
    let mut next = generator;
    next[6] = w.word(0);
    next[7] = w.sum(generator[7], count);
    next
}

/// Two generators that have no numbers in common. The first one gives those that `generator` would give.
pub(super) fn split<W: Words>(
    w: &mut W,
    generator: [W::Word; WORDS],
) -> ([W::Word; WORDS], [W::Word; WORDS]) {
    let [k0, k1, k2, k3, p0, p1, c0, c1, b0, b1] = generator;
    let zero = w.word(0);
    let key = hash(w, [k0, k1, k2, k3], [p0, p1, c0, c1]);
    let (first, second) = (w.word(1 << 63), w.word(1 << 62));
    let keyed =
        |path: W::Word| [key[0], key[1], key[2], key[3], path, zero, zero, zero, second, zero];
    let (next0, next1) = next_bit(w, b0, b1);
    let (longer0, longer1) = (w.or(p0, b0), w.or(p1, b1));
    let on = |path0, path1| [k0, k1, k2, k3, path0, path1, c0, c1, next0, next1];
    let bits = w.or(b0, b1);
    let has_bits = w.is_less(zero, bits);
    let mut chosen = |on: [W::Word; WORDS], keyed: [W::Word; WORDS]| {
        std::array::from_fn(|word| w.choose(has_bits, on[word], keyed[word]))
    };
    (chosen(on(p0, p1), keyed(zero)), chosen(on(longer0, longer1), keyed(first)))
}

/// The bit of a path after that of these words.
fn next_bit<W: Words>(w: &mut W, first: W::Word, second: W::Word) -> (W::Word, W::Word) {
    let (zero, high) = (w.word(0), w.word(1 << 63));
    let (down, below) = (w.down(first, 1), w.down(second, 1));
    // The last bit of the first word is followed by the first one of the second.
    let two = w.word(2);
    let is_last = w.is_less(first, two);
    let is_there = w.is_less(zero, first);
    let entered = w.choose(is_last, high, zero);
    (down, w.choose(is_there, entered, below))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer for a key and a counter of zeros, of the authors' library Random123 (`kat_vectors`), from which
    /// the last addition of the key is taken off: its fifth turn adds 5 to the last word, and zeros else.
    #[test]
    fn zeros_are_hashed_as_known() {
        let known = [
            0x0921_8EBD_E6C8_5537,
            0x5594_1F52_66D8_6105,
            0x4BD2_5E16_2824_34DC,
            0xEE29_EC84_6BD2_E40B,
        ];
        let mut found = hash(&mut Numbers, [0; 4], [0; 4]);
        found[3] = found[3].wrapping_add(5);
        assert_eq!(found, known);
    }

    #[test]
    fn bits_of_a_path_follow_one_another() {
        let (mut bit, mut met) = ((1u64 << 63, 0u64), 0);
        while bit != (0, 0) {
            assert_eq!(bit.0.count_ones() + bit.1.count_ones(), 1);
            bit = next_bit(&mut Numbers, bit.0, bit.1);
            met += 1;
        }
        assert_eq!(met, 128);
    }

    #[test]
    fn generators_go_on_behind_their_last_number() {
        let mut generator = [1, 2, 3, 4, 0, 0, 0, u64::MAX - 5, 1 << 63, 0];
        let next = ready(&mut Numbers, generator, 8);
        assert_eq!(next, [1, 2, 3, 4, 1 << 63, 0, 0, 0, 1 << 62, 0]);
        generator[8] = 0;
        let [k0, k1, k2, k3, rest @ ..] = ready(&mut Numbers, generator, 8);
        assert_eq!([k0, k1, k2, k3], hash(&mut Numbers, [1, 2, 3, 4], [u64::MAX; 4]));
        assert_eq!(rest, [0, 0, 0, 0, 1 << 63, 0]);
        generator[7] = 16;
        assert_eq!(ready(&mut Numbers, generator, 8), generator);
        assert_eq!(after(&mut Numbers, generator, 8)[7], 24);
    }
}
