//! Substitutions in `RUN:` lines.

use std::collections::BTreeMap;
use std::path::Path;

use super::discovery::Test;

/// The texts that `%` stands for in one test.
pub(super) struct Substitutions {
    /// By the text after the percent sign: `s`, or `{name}`.
    values: BTreeMap<String, String>,
}

impl Substitutions {
    /// Those of every test: `%s %S %p %t %T`, and `%{name}` for each user's name.
    pub(super) fn new(test: &Test, temporary: &Path, users: &BTreeMap<String, String>) -> Self {
        let directory = |path: &Path| path.parent().unwrap_or(Path::new(".")).display().to_string();
        let mut values: BTreeMap<String, String> =
            users.iter().map(|(name, value)| (format!("{{{name}}}"), value.clone())).collect();
        for (name, value) in [
            ("s", test.path.display().to_string()),
            ("S", directory(&test.path)),
            ("p", directory(&test.path)),
            ("t", temporary.display().to_string()),
            ("T", directory(temporary)),
        ] {
            values.insert(name.to_owned(), value);
        }
        Self { values }
    }

    /// `line` with every substitution made; `%%` is a percent sign, and other
    /// uses of `%` stay.
    ///
    /// # Errors
    /// A `%{name}` that is not defined.
    pub(super) fn apply(&self, line: &str) -> Result<String, String> {
        let mut result = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('%') {
            result.push_str(before);
            let known = self.values.iter().find(|(name, _)| after.starts_with(name.as_str()));
            rest = if let Some(after) = after.strip_prefix('%') {
                result.push('%');
                after
            } else if let Some((name, value)) = known {
                result.push_str(value);
                &after[name.len()..]
            } else if let Some((name, _)) = after.strip_prefix('{').and_then(|a| a.split_once('}'))
            {
                let known: Vec<String> =
                    self.values.keys().map(|name| format!("%{name}")).collect();
                return Err(format!("expected one of {}, found '%{{{name}}}'", known.join(", ")));
            } else {
                result.push('%');
                after
            };
        }
        result.push_str(rest);
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_names_are_replaced_once() {
        let test = Test { name: "d/a.test".to_owned(), path: "/src/d/a.test".into() };
        let users = BTreeMap::from([("tool".to_owned(), "x %s".to_owned())]);
        let substitutions = Substitutions::new(&test, Path::new("/tmp/d/a.test.tmp"), &users);
        assert_eq!(
            substitutions.apply("%{tool} %s %S/b %p %t.1 %T %% %%s %0 5%").as_deref(),
            Ok("x %s /src/d/a.test /src/d/b /src/d /tmp/d/a.test.tmp.1 /tmp/d % %s %0 5%")
        );
        assert!(substitutions.apply("%{nope}").is_err());
    }
}
