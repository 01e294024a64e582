use super::Raw;

/// Finds the parts of a value that is known to be well formed.
///
/// It would not go astray on another text either, but what it found there would mean nothing.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Steps into a list or object. `false`: it is something else.
    pub(super) fn open(&mut self, bracket: u8) -> bool {
        let found = self.text.first() == Some(&bracket);
        self.at += usize::from(found);
        found
    }

    /// The next element of the list that was opened.
    pub(super) fn element(&mut self) -> Option<Raw<'a>> {
        self.advance()?;
        Some(self.value())
    }

    /// The next member of the object that was opened: what is between the quotes of its key, and its value.
    pub(super) fn member(&mut self) -> Option<(&'a [u8], Raw<'a>)> {
        self.advance()?;
        let start = self.at + 1;
        self.string();
        let key = self.text.get(start..self.at.saturating_sub(1)).unwrap_or_default();
        self.skip(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n' | b'\r'));
        Some((key, self.value()))
    }

    /// Goes to the next element or key. `None`: the bracket closes here.
    fn advance(&mut self) -> Option<()> {
        self.skip(|byte| matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'\r'));
        (!matches!(self.peek()?, b']' | b'}')).then_some(())
    }

    fn value(&mut self) -> Raw<'a> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{' | b'[') => self.nested(),
            _ => self.skip(|byte| !matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')),
        }
        Raw { text: self.text.get(start..self.at).unwrap_or_default() }
    }

    fn nested(&mut self) {
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Goes behind the closing quote.
    fn string(&mut self) {
        self.at += 1;
        loop {
            self.skip(|byte| !matches!(byte, b'"' | b'\\'));
            match self.peek() {
                Some(b'\\') => self.at += 2,
                Some(_) => {
                    self.at += 1;
                    return;
                }
                None => return,
            }
        }
    }

    fn skip(&mut self, over: impl Fn(u8) -> bool) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|&&byte| over(byte)).count();
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}
