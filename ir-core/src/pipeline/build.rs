//! Pipelines as values, made by programs rather than read.

use crate::pass::{OptionValue, Pass};

use super::{Pipeline, Step};

impl Step {
    /// The pass that `P` declares, with its defaults.
    ///
    /// # Panics
    /// When it has no defaults, which is a mistake in its declaration.
    pub fn of<P: Pass>() -> Step {
        let def = P::def();
        let pass = (def.make)(&[]).unwrap_or_else(|message| panic!("{message}"));
        Step { def, options: vec![], span: None, pass }
    }

    /// The same with `value` for the option `key`.
    ///
    /// # Panics
    /// When the pass has no such option or takes no such value, which is a mistake of who writes
    /// this down.
    pub fn with(self, key: &str, value: impl OptionValue) -> Step {
        self.set(key, value.print())
    }

    /// The same with the flag `key`.
    ///
    /// # Panics
    /// When the pass has no such flag, which is a mistake of who writes this down.
    pub fn flag(self, key: &str) -> Step {
        self.set(key, String::new())
    }

    fn set(mut self, key: &str, value: String) -> Step {
        self.options.push((key.to_string(), value));
        self.pass = (self.def.make)(&self.options).unwrap_or_else(|message| panic!("{message}"));
        self
    }
}

impl Pipeline {
    /// These passes, then `steps`.
    pub fn then(mut self, steps: impl IntoIterator<Item = Step>) -> Pipeline {
        self.steps.extend(steps);
        self
    }
}

impl FromIterator<Step> for Pipeline {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Pipeline {
        Pipeline::default().then(steps)
    }
}

impl<const N: usize> From<[Step; N]> for Pipeline {
    fn from(steps: [Step; N]) -> Pipeline {
        steps.into_iter().collect()
    }
}
