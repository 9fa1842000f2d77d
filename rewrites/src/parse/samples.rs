//! What rules are tried on: after `for`, or in a block below them.

use ir_core::diagnostics::did_you_mean;
use ir_core::text::cursor::{Cursor, Failed};
use ir_core::text::lexer::TokenKind;
use ir_core::text::types::{TypeName, parse_type};
use ir_core::{Attr, Diagnostic, Diagnostics, RuleArgument, Span, Symbol, Type};

use super::{Parser, half_family, resolve};
use crate::codes;
use crate::expression::{Nothing, evaluate};
use crate::rule::{Rule, Sample, Var};

/// A sample for any rule that has such a variable.
pub(super) struct Written {
    name: Symbol,
    span: Span,
    what: What,
}

enum What {
    /// `%x: T`, and whether it is written as a family.
    Type(Type, bool),
    /// `?p in [a, b]`.
    Attributes(Vec<Attr>),
}

impl Parser<'_> {
    /// `samples { name, name: sample, …; … }`, about rules above.
    pub(super) fn block_of_samples(&mut self) -> Result<(), Failed> {
        self.cursor.bump();
        self.cursor.expect(TokenKind::LeftBrace)?;
        while !self.cursor.eat(TokenKind::RightBrace) {
            if self.cursor.kind() == TokenKind::End {
                return Err(self.cursor.unexpected("`}`"));
            }
            if self.samples_of_some().is_err() {
                self.skip_samples();
            }
        }
        Ok(())
    }

    fn samples_of_some(&mut self) -> Result<(), Failed> {
        let mut names = vec![self.name_of_rule()?];
        while self.cursor.eat(TokenKind::Comma) {
            names.push(self.name_of_rule()?);
        }
        self.cursor.expect(TokenKind::Colon)?;
        let samples = self.samples()?;
        self.cursor.expect(TokenKind::Semicolon)?;
        names.into_iter().for_each(|(name, span)| self.give(name, span, &samples));
        Ok(())
    }

    fn name_of_rule(&mut self) -> Result<(Symbol, Span), Failed> {
        let start = self.cursor.token().start;
        let name = self.hyphenated()?;
        Ok((name, self.cursor.span(start, self.cursor.previous_end())))
    }

    /// Gives `samples` to the rule `name`, which is named at `span`.
    fn give(&mut self, name: Symbol, span: Span, samples: &[Written]) {
        let Some(place) = self.places.get(&name).copied() else {
            let message = format!("there is no rule `{name}` above its samples");
            let mut error = Diagnostic::error(codes::UNKNOWN_RULES, message).at(span);
            let known = self.rules.iter().flatten().map(|rule| rule.name.as_str());
            error.help = did_you_mean(name.as_str(), known);
            return self.cursor.diagnostics.push(error);
        };
        // What is wrong with a rule that is not there was reported.
        let Some(mut rule) = self.rules[place].take() else { return };
        let mut found = attach(&mut rule, samples);
        found.extend(resolve::faults(&rule).into_iter().map(|error| error.at(span)));
        self.rules[place] = found.is_empty().then_some(rule);
        self.cursor.diagnostics.extend(found);
    }

    /// Skips to the next samples, or to the end of the block.
    fn skip_samples(&mut self) {
        let at_end = |cursor: &Cursor<'_>| match cursor.kind() {
            TokenKind::End => true,
            // Attributes have braces, too.
            TokenKind::RightBrace => cursor.at_line_start(),
            _ => false,
        };
        while !at_end(&self.cursor) && !self.cursor.eat(TokenKind::Semicolon) {
            self.cursor.bump();
        }
    }

    /// `%x: T, ?p in [a, b]`.
    pub(super) fn samples(&mut self) -> Result<Vec<Written>, Failed> {
        let mut samples = Vec::new();
        loop {
            samples.push(self.sample()?);
            if !self.cursor.eat(TokenKind::Comma) {
                return Ok(samples);
            }
        }
    }

    fn sample(&mut self) -> Result<Written, Failed> {
        if self.cursor.eat(TokenKind::Question) {
            let token = self.cursor.expect(TokenKind::Identifier)?;
            let (name, span) =
                (Symbol::new(self.cursor.text_of(token)), self.cursor.span_of(token));
            if !self.cursor.eat_word("in") {
                return Err(self.cursor.unexpected("`in`"));
            }
            let list = self.expression()?;
            let choices = evaluate(&list, &Nothing, self.functions);
            return match choices.and_then(RuleArgument::attr::<Vec<Attr>>) {
                Some(choices) => Ok(Written { name, span, what: What::Attributes(choices) }),
                None => Err(self.cursor.unexpected("a list of attributes before this")),
            };
        }
        let token = self.cursor.expect(TokenKind::Local)?;
        let (name, span) =
            (Symbol::new(&token.name(self.cursor.source())), self.cursor.span_of(token));
        let family = self.eat_family();
        self.cursor.expect(TokenKind::Colon)?;
        let ty = parse_type(&mut self.cursor, &mut |_| Some(TypeName::Parameter))?;
        Ok(Written { name, span, what: What::Type(ty, family) })
    }
}

/// Adds `samples` to those of `rule`; what does not fit it.
pub(super) fn attach(rule: &mut Rule, samples: &[Written]) -> Diagnostics {
    let mut found = Diagnostics::new();
    for sample in samples {
        match fitting(rule, sample) {
            Ok(sample) => rule.samples.push(sample),
            Err(errors) => found.extend(errors),
        }
    }
    found
}

/// `sample` with the variable of `rule` that it names.
fn fitting(rule: &Rule, sample: &Written) -> Result<Sample, Diagnostics> {
    let variable = |names: &[Symbol], sigil: &str| {
        let place = names.iter().position(|name| *name == sample.name);
        place
            .map(Var)
            .ok_or_else(|| resolve::unbound(sigil, sample.name, sample.span, names.iter().copied()))
    };
    match &sample.what {
        What::Attributes(choices) => {
            Ok(Sample::Attributes(variable(&rule.attributes, "?")?, choices.clone()))
        }
        What::Type(ty, family) => {
            let var = variable(&rule.values, "%")?;
            match rule.families.get(var.0) == Some(family) {
                true => Ok(Sample::Type(var, *ty)),
                false => Err(half_family(sample.name.as_str(), sample.span).into()),
            }
        }
    }
}
