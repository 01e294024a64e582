use std::collections::BTreeSet;
use std::fmt;

use super::{Node, Operator};

/// How deep parentheses may nest: far beyond what anyone writes, far within what a stack holds.
pub const NESTING_MAX: usize = 100;

/// How long a label may be, in characters.
const LABEL_MAX: usize = 512;

/// How much of a selector an error quotes, in characters.
const QUOTED_MAX: usize = 40;

/// Why a text is no selector. Positions are in characters, the first is 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Something stands where only something else may.
    #[error("expected {expected} at character {position}, found {found}")]
    Unexpected {
        /// Where.
        position: usize,
        /// All that may stand there.
        expected: &'static str,
        /// What does.
        found: Found,
    },
    /// A quoted value goes on to the end of the text.
    #[error("expected a closing {quote} for the value that starts at character {position}, found the end")]
    Unterminated {
        /// Where the value starts.
        position: usize,
        /// The quotation mark it starts with.
        quote: char,
    },
    /// A label has more characters than a label may have.
    #[error(
        "expected a label of at most {LABEL_MAX} characters at character {position}, found one of {length}"
    )]
    LongLabel {
        /// Where the label starts.
        position: usize,
        /// How many characters it has.
        length: usize,
    },
    /// Parentheses nest too deep.
    #[error("expected at most {NESTING_MAX} nested parentheses, found one more at character {position}")]
    Nested {
        /// Where the first that is too many opens.
        position: usize,
    },
}

/// What stands at the place of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: the selector ends there.
    End,
    /// A word, an operator or a single other character; a long one is cut.
    Text(String),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::End => f.write_str("the end"),
            // A newline is no blank in this language, so it must be seen.
            Found::Text(text) if text.contains(char::is_control) => write!(f, "`{}`", text.escape_debug()),
            Found::Text(text) => write!(f, "`{text}`"),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Node, SelectorError> {
    Parser::new(text).whole()
}

/// How often the parser looks for something at a place of a text.
#[cfg(test)]
pub(super) fn steps_of(text: &str) -> usize {
    let mut parser = Parser::new(text);
    let _ = parser.whole();
    parser.steps
}

/// Reads from the front of `rest`, which never starts with a blank.
struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    nesting: usize,
    #[cfg(test)]
    steps: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            rest: text,
            nesting: 0,
            #[cfg(test)]
            steps: 0,
        }
    }

    fn whole(&mut self) -> Result<Node, SelectorError> {
        self.skip_blanks();
        if self.rest.is_empty() {
            return Ok(Node::All);
        }
        let node = self.any_of()?;
        if self.rest.is_empty() { Ok(node) } else { Err(self.unexpected("`&&`, `||` or the end")) }
    }

    fn any_of(&mut self) -> Result<Node, SelectorError> {
        let mut parts = Vec::new();
        loop {
            match self.all_of()? {
                Node::Or(inner) => parts.extend(inner),
                part => parts.push(part),
            }
            if !self.take("||") {
                return Ok(one_or(parts, Node::Or));
            }
        }
    }

    fn all_of(&mut self) -> Result<Node, SelectorError> {
        let mut parts = Vec::new();
        loop {
            match self.operation()? {
                Node::And(inner) => parts.extend(inner),
                part => parts.push(part),
            }
            if !self.take("&&") {
                return Ok(one_or(parts, Node::And));
            }
        }
    }

    fn operation(&mut self) -> Result<Node, SelectorError> {
        let mut negated = false;
        // `!=` is a sign of its own, also where it cannot stand.
        while !self.rest.starts_with("!=") && self.take("!") {
            negated = !negated;
        }
        Ok(match (self.atom()?, negated) {
            (node, false) => node,
            (Node::Not(inner), true) => *inner,
            (node, true) => Node::Not(Box::new(node)),
        })
    }

    fn atom(&mut self) -> Result<Node, SelectorError> {
        if self.rest.starts_with('(') {
            return self.group();
        }
        // The functions are known by their parenthesis: `has`, `all` and `global` alone are labels.
        if self.take("has(") {
            let label = self.label("a label")?;
            self.expect(")", "`)`")?;
            return Ok(Node::Has(label));
        }
        for (function, node) in [("all(", Node::All), ("global(", Node::Global)] {
            if self.take(function) {
                self.expect(")", "`)`")?;
                return Ok(node);
            }
        }
        let label = self.label("a label, `has(LABEL)`, `all()`, `global()`, `!` or `(`")?;
        self.condition(label)
    }

    fn group(&mut self) -> Result<Node, SelectorError> {
        if self.nesting == NESTING_MAX {
            return Err(SelectorError::Nested { position: self.position() });
        }
        self.expect("(", "`(`")?;
        self.nesting += 1;
        let node = self.any_of()?;
        self.nesting -= 1;
        self.expect(")", "`&&`, `||` or `)`")?;
        Ok(node)
    }

    fn condition(&mut self, label: String) -> Result<Node, SelectorError> {
        for operator in [
            Operator::Equals,
            Operator::Differs,
            Operator::Contains,
            Operator::StartsWith,
            Operator::EndsWith,
        ] {
            if self.take_words(operator.text()) {
                return Ok(Node::Compare { label, operator, value: self.value()? });
            }
        }
        if self.take_words("in") {
            return Ok(Node::In { label, values: self.set()? });
        }
        if self.take_words("not in") {
            return Ok(Node::NotIn { label, values: self.set()? });
        }
        Err(self.unexpected("`==`, `!=`, `in`, `not in`, `contains`, `starts with` or `ends with`"))
    }

    fn label(&mut self, expected: &'static str) -> Result<String, SelectorError> {
        let (label, rest) = self.rest.split_at(word_length(self.rest));
        match label.len() {
            0 => Err(self.unexpected(expected)),
            1..=LABEL_MAX => {
                self.advance_to(rest);
                Ok(label.to_owned())
            }
            length => Err(SelectorError::LongLabel { position: self.position(), length }),
        }
    }

    fn value(&mut self) -> Result<String, SelectorError> {
        self.value_if_any()?.ok_or_else(|| self.unexpected("a value in quotes"))
    }

    fn value_if_any(&mut self) -> Result<Option<String>, SelectorError> {
        let Some(quote) = self.rest.chars().next().filter(|&c| c == '"' || c == '\'') else {
            return Ok(None);
        };
        let Some((value, rest)) = self.rest[1..].split_once(quote) else {
            return Err(SelectorError::Unterminated { position: self.position(), quote });
        };
        self.advance_to(rest);
        Ok(Some(value.to_owned()))
    }

    fn set(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        self.expect("{", "`{`")?;
        let mut values = BTreeSet::new();
        // What may follow: the last value may have a comma, too.
        let mut expected = "a value in quotes or `}`";
        while let Some(value) = self.value_if_any()? {
            values.insert(value);
            if !self.take(",") {
                expected = "`,` or `}`";
                break;
            }
        }
        self.expect("}", expected)?;
        Ok(values)
    }

    fn expect(&mut self, sign: &str, expected: &'static str) -> Result<(), SelectorError> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn take(&mut self, sign: &str) -> bool {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        let Some(rest) = self.rest.strip_prefix(sign) else {
            return false;
        };
        self.advance_to(rest);
        true
    }

    /// Takes words with any number of blanks between them, none included. All or nothing.
    fn take_words(&mut self, words: &str) -> bool {
        let before = self.rest;
        let taken = words.split(' ').all(|word| self.take(word));
        if !taken {
            self.rest = before;
        }
        taken
    }

    fn advance_to(&mut self, rest: &'a str) {
        #[cfg(test)]
        {
            self.steps += self.rest.len() - rest.len();
        }
        self.rest = rest;
        self.skip_blanks();
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn position(&self) -> usize {
        self.text.chars().count() - self.rest.chars().count() + 1
    }

    fn unexpected(&self, expected: &'static str) -> SelectorError {
        SelectorError::Unexpected { position: self.position(), expected, found: found_at(self.rest) }
    }
}

fn one_or(mut parts: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            many(parts)
        }
    }
}

fn found_at(rest: &str) -> Found {
    let Some(first) = rest.chars().next() else {
        return Found::End;
    };
    let two = ["&&", "||", "==", "!="].into_iter().find(|sign| rest.starts_with(sign)).map_or(0, str::len);
    let text = &rest[..word_length(rest).max(two).max(first.len_utf8())];
    // Only a word is long, and a word is ASCII.
    Found::Text(text.get(..QUOTED_MAX).map_or_else(|| text.to_owned(), |cut| format!("{cut}…")))
}

/// The length of the label that a text starts with; in bytes, which is characters.
fn word_length(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_./-".contains(byte)).count()
}
