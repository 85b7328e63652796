//! Label selectors in the Kubernetes grammar, for the query parameter `labels`.
//!
//! A comma is AND; `key`, `!key`, `key=v`, `key==v`, `key!=v`, `key in (a,b)`, `key notin (a,b)`,
//! `key>n`, `key<n`. `!=` and `notin` also match an absent key. A value in double quotes may have any
//! character; a quote or a backslash in it follows a backslash.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Most requirements of one selector; parsing refuses more.
const MAX_REQUIREMENTS: usize = 64;

/// Matches when all requirements hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selector {
    pub requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    pub key: String,
    pub test: Test,
}

/// A test of the value of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    Exists,
    Absent,
    /// One of these values; an absent key does not match.
    In(Vec<String>),
    /// None of these values; an absent key matches.
    NotIn(Vec<String>),
    /// An integer above this one.
    Greater(i64),
    /// An integer below this one.
    Less(i64),
}

/// A syntax error in a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}, at character {at} of '{text}'")]
pub struct InvalidSelector {
    pub text: String,
    /// Counted from 1.
    pub at: usize,
    pub reason: String,
}

// === impl Selector ===

impl Selector {
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let mut parser = Parser { text, at: 0 };
        let mut requirements = Vec::new();
        parser.skip_space();
        while !parser.is_done() {
            if requirements.len() == MAX_REQUIREMENTS {
                return Err(parser.error(format!("more than {MAX_REQUIREMENTS} requirements")));
            }
            requirements.push(parser.requirement()?);
            parser.skip_space();
            if parser.is_done() {
                break;
            }
            parser.expect(',')?;
            parser.skip_space();
            if parser.is_done() {
                return Err(parser.error("a requirement is missing after the comma"));
            }
        }
        Ok(Self { requirements })
    }

    pub fn and(&mut self, other: Self) {
        self.requirements.extend(other.requirements);
    }

    /// The values that all requirements list.
    pub fn listed_values(&self) -> usize {
        self.requirements.iter().map(|requirement| requirement.test.listed_values()).sum()
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

// === impl Requirement ===

impl Requirement {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.test.holds(labels.get(&self.key).map(String::as_str))
    }
}

impl Test {
    /// The values that it lists.
    pub fn listed_values(&self) -> usize {
        match self {
            Self::In(values) | Self::NotIn(values) => values.len(),
            Self::Exists | Self::Absent | Self::Greater(_) | Self::Less(_) => 0,
        }
    }

    /// Whether the test holds for a label's value; `None` means that the label is absent.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let integer = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            Self::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
            Self::Greater(bound) => integer().is_some_and(|number| number > *bound),
            Self::Less(bound) => integer().is_some_and(|number| number < *bound),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::Exists => write!(f, "{key}"),
            Test::Absent => write!(f, "!{key}"),
            Test::In(values) => match values.as_slice() {
                [value] => write!(f, "{key}={}", quoted_if_needed(value)),
                values => write!(f, "{key} in ({})", listed(values)),
            },
            Test::NotIn(values) => match values.as_slice() {
                [value] => write!(f, "{key}!={}", quoted_if_needed(value)),
                values => write!(f, "{key} notin ({})", listed(values)),
            },
            Test::Greater(bound) => write!(f, "{key}>{bound}"),
            Test::Less(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

/// Ends a word.
fn is_special(character: char) -> bool {
    character.is_whitespace() || character.is_control() || "=!<>,()".contains(character)
}

/// A value as a selector writes it.
fn quoted_if_needed(value: &str) -> Cow<'_, str> {
    if !value.contains(is_special) && !value.starts_with('"') {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn listed(values: &[String]) -> String {
    let values: Vec<_> = values.iter().map(|value| quoted_if_needed(value)).collect();
    values.join(",")
}

/// A recursive-descent parser over the text; `at` is a byte offset on a character boundary.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

// === impl Parser ===

impl Parser<'_> {
    fn requirement(&mut self) -> Result<Requirement, InvalidSelector> {
        if self.eat("!") {
            self.skip_space();
            let key = self.word("a key")?;
            return Ok(Requirement { key, test: Test::Absent });
        }
        let key = self.word("a key")?;
        self.skip_space();
        let test = if self.eat("==") || self.eat("=") {
            Test::In(vec![self.value()?])
        } else if self.eat("!=") {
            Test::NotIn(vec![self.value()?])
        } else if self.eat(">") {
            Test::Greater(self.integer()?)
        } else if self.eat("<") {
            Test::Less(self.integer()?)
        } else if self.is_done() || self.rest().starts_with(',') {
            Test::Exists
        } else {
            match self.word("an operator")?.as_str() {
                "in" => Test::In(self.list()?),
                "notin" => Test::NotIn(self.list()?),
                other => {
                    return Err(self.error(format!(
                        "'{other}' is not an operator (=, ==, !=, in, notin, >, <)"
                    )));
                }
            }
        };
        Ok(Requirement { key, test })
    }

    fn list(&mut self) -> Result<Vec<String>, InvalidSelector> {
        self.skip_space();
        self.expect('(')?;
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            self.skip_space();
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return Err(self.error("expected ',' or ')'"));
            }
        }
    }

    fn integer(&mut self) -> Result<i64, InvalidSelector> {
        let text = self.value()?;
        text.parse().map_err(|_| self.error(format!("'{text}' is not an integer")))
    }

    /// A value may be empty: `key=` matches the empty string.
    fn value(&mut self) -> Result<String, InvalidSelector> {
        self.skip_space();
        if self.eat("\"") { self.quoted() } else { Ok(self.take_word()) }
    }

    /// The rest of a value, up to the closing quote.
    fn quoted(&mut self) -> Result<String, InvalidSelector> {
        let mut value = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.at += at + 1;
                    return Ok(value);
                }
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                plain => value.push(plain),
            }
        }
        self.at = self.text.len();
        Err(self.error("a quote is missing at the end of the value"))
    }

    fn word(&mut self, what: &str) -> Result<String, InvalidSelector> {
        let word = self.take_word();
        if word.is_empty() { Err(self.error(format!("expected {what}"))) } else { Ok(word) }
    }

    fn take_word(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find(is_special).unwrap_or(rest.len());
        let word = rest[..end].to_owned();
        self.at += end;
        word
    }

    fn expect(&mut self, character: char) -> Result<(), InvalidSelector> {
        if self.rest().starts_with(character) {
            self.at += character.len_utf8();
            return Ok(());
        }
        Err(self.error(format!("expected '{character}'")))
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error(&self, reason: impl Into<String>) -> InvalidSelector {
        InvalidSelector {
            text: self.text.to_owned(),
            at: self.text[..self.at].chars().count() + 1,
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_form_of_the_grammar_matches() {
        let here = labels(&[("env", "prod"), ("n", "5"), ("example.com/team", "a-b_c.d")]);
        for (text, expected) in [
            ("", true),
            ("env", true),
            ("gone", false),
            ("!gone", true),
            ("!env", false),
            ("env=prod", true),
            ("env == prod", true),
            ("env!=prod", false),
            ("gone!=x", true),
            ("env in (dev, prod)", true),
            ("env in (dev)", false),
            ("env notin (dev,test)", true),
            ("gone notin (dev)", true),
            ("n>4", true),
            ("n > 5", false),
            ("n<6,n>4", true),
            ("env>1", false),
            ("example.com/team=a-b_c.d, env", true),
            ("env=", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(&here), expected, "{text}");
        }
    }

    #[test]
    fn a_value_in_quotes_may_have_any_character() {
        let here =
            labels(&[("list", "a,b"), ("say", r#"a "b\c""#), ("plain", "x"), ("p", "a=(b)")]);
        for (text, expected) in [
            (r#"list="a,b""#, true),
            (r#"list="a,b",plain=x"#, true),
            (r#"list in (x, "a,b")"#, true),
            (r#"list!="a,b""#, false),
            (r#"list notin ("a,b")"#, false),
            (r#"say="a \"b\\c\"""#, true),
            (r#"plain="x""#, true),
            (r#"plain="""#, false),
            (r#"p="a=(b)""#, true),
        ] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.matches(&here), expected, "{text}");
            let shown = selector.requirements[0].to_string();
            assert_eq!(Selector::parse(&shown).unwrap().requirements, selector.requirements[..1]);
        }
    }

    #[test]
    fn a_syntax_error_names_its_position() {
        for (text, message) in [
            (
                "env=prod,",
                "a requirement is missing after the comma, at character 10 of 'env=prod,'",
            ),
            ("=x", "expected a key, at character 1 of '=x'"),
            ("a in x", "expected '(', at character 6 of 'a in x'"),
            ("a in (x", "expected ',' or ')', at character 8 of 'a in (x'"),
            ("a>b", "'b' is not an integer, at character 4 of 'a>b'"),
            (r#"a="b"#, r#"a quote is missing at the end of the value, at character 5 of 'a="b'"#),
            ("a b", "'b' is not an operator (=, ==, !=, in, notin, >, <), at character 4 of 'a b'"),
            ("ü=1 x", "expected ',', at character 5 of 'ü=1 x'"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_requirement_is_displayed_as_it_was_written() {
        for text in
            ["a", "!a", "a=b", "a!=b", "a in (b,c)", "a notin (b,c)", "a>1", "a<-2", r#"a="b,c""#]
        {
            assert_eq!(Selector::parse(text).unwrap().requirements[0].to_string(), text);
        }
    }
}
