use std::fmt;

use super::Raw;

/// How deep values may nest, as in Go's reader.
const DEPTH_MAX: usize = 10_000;

/// Checks that a text is one JSON value with nothing but white space around it.
///
/// # Source
/// RFC 8259. The depth is bounded as in Go's `encoding/json`.
pub fn document(text: &[u8]) -> Result<Raw<'_>, SyntaxError> {
    let mut check = Check { text, at: 0, open: Vec::new() };
    check.space();
    let start = check.at;
    check.value()?;
    let end = check.at;
    check.space();
    if check.at < text.len() {
        return check.fail(Expected::End);
    }
    Ok(Raw { text: text.get(start..end).unwrap_or_default() })
}

/// Where and why a text is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: expected {expected}, found {}", Found(*.found))]
pub struct SyntaxError {
    /// From 0.
    offset: usize,
    expected: Expected,
    /// `None`: the text ends here.
    found: Option<u8>,
}

struct Check<'a> {
    text: &'a [u8],
    at: usize,
    /// The brackets that are open: `{` or `[`.
    open: Vec<u8>,
}

impl Check<'_> {
    /// Goes over one value. Keeps its own stack, so that depth costs a byte and not a call.
    fn value(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => self.string(Expected::Value)?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(bracket @ (b'{' | b'[')) => {
                    if self.open.len() >= DEPTH_MAX {
                        return self.fail(Expected::LessDepth);
                    }
                    self.at += 1;
                    self.open.push(bracket);
                    self.space();
                    match (bracket, self.peek()) {
                        (b'{', Some(b'}')) | (b'[', Some(b']')) => {}
                        (b'{', _) => {
                            self.key()?;
                            continue;
                        }
                        _ => continue,
                    }
                }
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => return self.fail(Expected::Value),
            }
            if !self.next_value()? {
                return Ok(());
            }
        }
    }

    /// Closes what ends behind a value, and goes to where the next value starts. `false`: there is none.
    fn next_value(&mut self) -> Result<bool, SyntaxError> {
        while let Some(&bracket) = self.open.last() {
            self.space();
            match (bracket, self.peek()) {
                (b'{', Some(b'}')) | (b'[', Some(b']')) => {
                    self.at += 1;
                    self.open.pop();
                }
                (_, Some(b',')) => {
                    self.at += 1;
                    if bracket == b'{' {
                        self.space();
                        self.key()?;
                    }
                    return Ok(true);
                }
                (b'{', _) => return self.fail(Expected::NextMember),
                _ => return self.fail(Expected::NextElement),
            }
        }
        Ok(false)
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        self.string(Expected::Key)?;
        self.space();
        match self.peek() {
            Some(b':') => {
                self.at += 1;
                Ok(())
            }
            _ => self.fail(Expected::Colon),
        }
    }

    fn string(&mut self, expected: Expected) -> Result<(), SyntaxError> {
        if self.peek() != Some(b'"') {
            return self.fail(expected);
        }
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.iter().take_while(|&&byte| !matches!(byte, b'"' | b'\\' | 0..0x20)).count();
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(_) => return self.fail(Expected::Escaped),
                None => return self.fail(Expected::Quote),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return self.fail(Expected::Hex);
                    }
                    self.at += 1;
                }
            }
            _ => return self.fail(Expected::EscapeLetter),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// At least one digit.
    fn digits(&mut self) -> Result<(), SyntaxError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.fail(Expected::Digit);
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), SyntaxError> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return self.fail(Expected::Value);
        }
        self.at += word.len();
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn fail<T>(&self, expected: Expected) -> Result<T, SyntaxError> {
        Err(SyntaxError { offset: self.at, expected, found: self.peek() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Value,
    Key,
    Colon,
    NextMember,
    NextElement,
    Quote,
    Escaped,
    EscapeLetter,
    Hex,
    Digit,
    LessDepth,
    End,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Value => "a value",
            Expected::Key => "a key in double quotes",
            Expected::Colon => "a colon",
            Expected::NextMember => "a comma or `}`",
            Expected::NextElement => "a comma or `]`",
            Expected::Quote => "the closing quote",
            Expected::Escaped => "control characters to be escaped",
            Expected::EscapeLetter => "one of `\"\\/bfnrtu`",
            Expected::Hex => "four hexadecimal digits",
            Expected::Digit => "a digit",
            Expected::LessDepth => "at most 10000 levels",
            Expected::End => "nothing more",
        })
    }
}

struct Found(Option<u8>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("the end"),
            Some(byte) => write!(f, "`{}`", byte.escape_ascii()),
        }
    }
}
