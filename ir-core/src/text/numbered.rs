//! A map from the numbers of values, as in `%12`, to what they stand for.

use rustc_hash::FxHashMap;

/// A map from numbers. Those that a program counts up are places of a table, which never takes
/// more memory than a few entries for each insertion; odd ones are hashed.
#[derive(Clone, Debug)]
pub struct Numbered<T> {
    table: Vec<Option<T>>,
    odd: FxHashMap<u32, T>,
    inserted: usize,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { table: Vec::new(), odd: FxHashMap::default(), inserted: 0 }
    }
}

impl<T> Numbered<T> {
    /// What `number` stands for.
    pub fn get(&self, number: u32) -> Option<&T> {
        match self.table.get(number as usize) {
            Some(Some(value)) => Some(value),
            _ if self.odd.is_empty() => None,
            _ => self.odd.get(&number),
        }
    }

    /// Lets `number` stand for `value`; returns what it stood for.
    pub fn insert(&mut self, number: u32, value: T) -> Option<T> {
        let index = number as usize;
        self.inserted += 1;
        if index >= self.table.len() {
            if index >= 2 * self.inserted + 64 {
                return self.odd.insert(number, value);
            }
            self.table.resize_with(index + 1, || None);
        }
        // It may have been odd before the table grew.
        let odd = if self.odd.is_empty() { None } else { self.odd.remove(&number) };
        self.table[index].replace(value).or(odd)
    }

    /// Lets `number` stand for nothing; returns what it stood for.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let place = self.table.get_mut(number as usize);
        place.and_then(Option::take).or_else(|| self.odd.remove(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0u32..200, 0u8..4), 0..300)) {
            let mut map = Numbered::default();
            let mut oracle = std::collections::BTreeMap::new();
            for (step, (number, what)) in steps.into_iter().enumerate() {
                let number = if number > 190 { number * 10_000_000 } else { number };
                match what {
                    0 => proptest::prop_assert_eq!(map.remove(number), oracle.remove(&number)),
                    1 => proptest::prop_assert_eq!(map.get(number), oracle.get(&number)),
                    _ => proptest::prop_assert_eq!(
                        map.insert(number, step),
                        oracle.insert(number, step)
                    ),
                }
                proptest::prop_assert!(map.table.len() <= 2 * map.inserted + 64);
            }
        }
    }
}
