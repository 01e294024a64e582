//! Reads Rust source as far as its paths: which names a file uses, and of whom they are.

use std::collections::{BTreeMap, BTreeSet};

/// A word or a sign of a source file, and the line it stands in, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl Token {
    fn is_word(&self) -> bool {
        self.text.starts_with(|first: char| first.is_alphanumeric() || first == '_')
    }
}

/// A path that a source file uses, from its crate's name on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// `crate::net::Cidr` is `["crate", "net", "Cidr"]`, `std::fs::read` is `["std", "fs", "read"]`.
    pub(super) path: Vec<String>,
    pub(super) line: usize,
    /// Whether it stands in a module of tests.
    pub(super) in_tests: bool,
}

/// The words and signs of a text, without comments, texts and lifetimes. `::` is one sign.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: source, line: 1 };
    std::iter::from_fn(|| lexer.next()).collect()
}

/// The paths that the file of a module uses. `module` is `["ipam", "block"]` for `src/ipam/block.rs`, `externs` the
/// names of other crates.
pub(super) fn uses(module: &[&str], source: &str, externs: &BTreeSet<String>) -> Vec<Use> {
    let tokens = tokens(source);
    let mut walk = Walk {
        tokens: &tokens,
        at: 0,
        depth: 0,
        module: module.iter().map(ToString::to_string).collect(),
        inline: Vec::new(),
        found: Vec::new(),
        imports: BTreeMap::new(),
    };
    walk.run();
    let Walk { found, imports, .. } = walk;
    let resolve = |found: Found| Use {
        path: resolve(&found.module, &found.path, &imports, externs, 4),
        line: found.line,
        in_tests: found.module.iter().any(|name| name == "tests"),
    };
    found.into_iter().map(resolve).collect()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<Token> {
        loop {
            let first = self.rest.chars().next()?;
            let second = self.rest.chars().nth(1);
            if self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.skip_block_comment();
            } else if first == '"' {
                self.skip_text();
            } else if first == '\'' {
                self.skip_quote(second);
            } else if first.is_alphanumeric() || first == '_' {
                let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                let word = self.skip(end.unwrap_or(self.rest.len()));
                if !(["r", "br", "cr"].contains(&word.text.as_str()) && self.skip_raw_text()) {
                    return Some(word);
                }
            } else if first.is_whitespace() {
                self.skip(first.len_utf8());
            } else {
                let length = if self.rest.starts_with("::") { 2 } else { first.len_utf8() };
                return Some(self.skip(length));
            }
        }
    }

    /// Takes that many bytes.
    fn skip(&mut self, length: usize) -> Token {
        let (text, rest) = self.rest.split_at(length);
        let token = Token { text: text.to_owned(), line: self.line };
        self.line += text.matches('\n').count();
        self.rest = rest;
        token
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        while !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.skip(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.skip(self.rest.chars().next().map_or(0, char::len_utf8));
            }
        }
    }

    fn skip_text(&mut self) {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|&(_, c)| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        self.skip(end.map_or(self.rest.len(), |(at, _)| at + 1));
    }

    /// What follows an `r`, if that begins a raw text.
    fn skip_raw_text(&mut self) -> bool {
        let signs = self.rest.len() - self.rest.trim_start_matches('#').len();
        if !self.rest.split_at(signs).1.starts_with('"') {
            return false;
        }
        let end = format!("\"{}", "#".repeat(signs));
        self.skip(signs + 1);
        self.skip(self.rest.find(&end).map_or(self.rest.len(), |at| at + end.len()));
        true
    }

    /// A character such as `'a'` or `'\n'`, or the sign of a lifetime.
    fn skip_quote(&mut self, second: Option<char>) {
        let third = self.rest.chars().nth(2);
        if second == Some('\\') {
            // The character behind the backslash may be a quote itself.
            let end = self.rest.char_indices().skip(3).find(|&(_, c)| c == '\'');
            self.skip(end.map_or(self.rest.len(), |(at, _)| at + 1));
        } else if third == Some('\'') {
            self.skip(2 + second.map_or(0, char::len_utf8));
        } else {
            self.skip(1);
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            self.skip(end.unwrap_or(self.rest.len()));
        }
    }
}

/// A path as it is written, and the module in which.
struct Found {
    path: Vec<String>,
    line: usize,
    module: Vec<String>,
}

/// What a name means in a module.
type Imports = BTreeMap<(Vec<String>, String), Vec<String>>;

struct Walk<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    module: Vec<String>,
    /// The depths at which modules within the file begin.
    inline: Vec<usize>,
    found: Vec<Found>,
    imports: Imports,
}

impl Walk<'_> {
    fn run(&mut self) {
        while self.at < self.tokens.len() {
            match self.text(0) {
                "{" => self.depth += 1,
                "}" => {
                    self.depth -= 1;
                    if self.inline.last() == Some(&self.depth) {
                        self.inline.pop();
                        self.module.pop();
                    }
                }
                "mod" if self.text(2) == "{" => {
                    self.inline.push(self.depth);
                    self.module.push(self.text(1).to_owned());
                    self.depth += 1;
                    self.at += 2;
                }
                // `use<'a>` is a bound, no import.
                "use" if self.text(1) != "<" => {
                    self.at += 1;
                    self.tree(&[]);
                }
                _ if self.begins_a_path() => {
                    let line = self.line();
                    let path = self.path();
                    self.note(path, line);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| &token.text)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |token| token.line)
    }

    fn is_word(&self, ahead: usize) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(Token::is_word)
    }

    fn begins_a_path(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        let inside =
            before.is_some_and(|token| token.text == "." || token.text == "$" || self.follows_word(token));
        self.is_word(0) && self.text(1) == "::" && !inside
    }

    /// Whether a token is the `::` within a path; at its start it has no word before it.
    fn follows_word(&self, token: &Token) -> bool {
        let two_before = self.at.checked_sub(2).and_then(|at| self.tokens.get(at));
        token.text == "::" && two_before.is_some_and(|token| token.is_word() || token.text == ">")
    }

    /// Words joined by `::`; ends behind the last of them.
    fn path(&mut self) -> Vec<String> {
        let mut path = Vec::new();
        while self.is_word(0) {
            path.push(self.text(0).to_owned());
            self.at += 1;
            if self.text(0) != "::" || !self.is_word(1) {
                break;
            }
            self.at += 1;
        }
        path
    }

    /// What an import names; ends at the sign behind it.
    fn tree(&mut self, before: &[String]) {
        if self.text(0) == "::" {
            self.at += 1;
        }
        let line = self.line();
        let mut path = before.to_vec();
        path.extend(self.path());
        if self.text(0) == "::" {
            self.at += 1;
        }
        match self.text(0) {
            "{" => {
                while self.text(0) != "}" && self.at < self.tokens.len() {
                    self.at += 1;
                    if self.text(0) != "}" {
                        self.tree(&path);
                    }
                }
                self.at += 1;
            }
            "*" => {
                self.at += 1;
                self.note(path, line);
            }
            _ => {
                if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                    path.pop();
                }
                let mut name = path.last().cloned().unwrap_or_default();
                if self.text(0) == "as" {
                    self.text(1).clone_into(&mut name);
                    self.at += 2;
                }
                self.imports.insert((self.module.clone(), name), path.clone());
                self.note(path, line);
            }
        }
    }

    fn note(&mut self, path: Vec<String>, line: usize) {
        if !path.is_empty() {
            self.found.push(Found { path, line, module: self.module.clone() });
        }
    }
}

/// Follows `crate`, `self`, `super` and imports, the latter at most `steps` times.
fn resolve(
    module: &[String],
    path: &[String],
    imports: &Imports,
    externs: &BTreeSet<String>,
    steps: usize,
) -> Vec<String> {
    let Some((first, rest)) = path.split_first() else { return Vec::new() };
    let in_crate = |parts: &[&[String]]| {
        let mut path = vec!["crate".to_owned()];
        path.extend(parts.iter().copied().flatten().cloned());
        path
    };
    match first.as_str() {
        "crate" | "host_affine" => in_crate(&[rest]),
        "self" => in_crate(&[module, rest]),
        "super" => {
            let ups = path.iter().take_while(|name| *name == "super").count();
            let (above, _) = module.split_at(module.len().saturating_sub(ups));
            in_crate(&[above, path.split_at(ups).1])
        }
        _ => match imports.get(&(module.to_vec(), first.clone())) {
            Some(imported) if steps > 0 && imported.first() != Some(first) => {
                let mut whole = imported.clone();
                whole.extend(rest.iter().cloned());
                resolve(module, &whole, imports, externs, steps - 1)
            }
            _ if externs.contains(first) => path.to_vec(),
            _ => in_crate(&[module, path]),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> String {
        tokens(source).into_iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    fn paths(source: &str) -> Vec<String> {
        let externs = ["std", "nix"].map(str::to_owned).into();
        uses(&["ipam", "block"], source, &externs).into_iter().map(|found| found.path.join("::")).collect()
    }

    #[test]
    fn comments_texts_characters_and_lifetimes_are_no_code() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(words(r#"a("b \" c", b"d", 'e', '\'', '\\', b'"', "") f"#), "a ( , b , , , , b , ) f");
        assert_eq!(words("r\"a\\\" b r#\"c\" d\"# e br##\"f\"# g\"## h r#type"), "b e h r # type");
        assert_eq!(
            words("fn f<'a>(x: &'a str, y: 'é', z: &'static T)"),
            "fn f < > ( x : & str , y : , z : & T )"
        );
    }

    #[test]
    fn lines_are_counted_through_comments_and_texts() {
        let lines: Vec<_> =
            tokens("/* 1\n2 */ a\n\"3\n4\" b\nc").into_iter().map(|t| (t.text, t.line)).collect();
        assert_eq!(lines, [("a".into(), 2), ("b".into(), 4), ("c".into(), 5)]);
    }

    #[test]
    fn imports_are_taken_apart() {
        assert_eq!(
            paths("use crate::{api::{self, calico::IpPool as Pool, names::*}, net::Cidr};\nuse ::std::fs;"),
            ["crate::api", "crate::api::calico::IpPool", "crate::api::names", "crate::net::Cidr", "std::fs"]
        );
        assert_eq!(
            paths("pub(crate) use super::Error; fn f() -> impl A + use<'_> {}"),
            ["crate::ipam::Error"]
        );
    }

    #[test]
    fn paths_are_followed_through_supers_and_imports() {
        assert_eq!(paths("fn f() { super::super::cni::run::run() }"), ["crate::cni::run::run"]);
        assert_eq!(
            paths("fn f(x: &crate::net::Cidr) { nix::unistd::getpid(); }"),
            ["crate::net::Cidr", "nix::unistd::getpid"]
        );
        assert_eq!(
            paths("use crate::datastore as d; fn f(s: d::file::FileStore) {}"),
            ["crate::datastore", "crate::datastore::file::FileStore"]
        );
        assert_eq!(
            paths("use std::{fs, io}; fn f() { fs::read(io::empty::<u8>()); Vec::<u8>::new() }"),
            ["std::fs", "std::io", "std::fs::read", "std::io::empty", "crate::ipam::block::Vec"]
        );
    }

    #[test]
    fn modules_within_a_file_have_names_of_their_own() {
        let source = "use crate::net; mod a { fn f() { net::x(); super::super::g(); } } fn h() { net::y() }";
        assert_eq!(
            paths(source),
            ["crate::net", "crate::ipam::block::a::net::x", "crate::ipam::g", "crate::net::y"]
        );
    }

    #[test]
    fn what_tests_use_is_told_apart() {
        let found =
            uses(&["ipam"], "use a::b; #[cfg(test)] mod tests { use c::d; } use e::f;", &BTreeSet::new());
        assert_eq!(found.iter().map(|found| found.in_tests).collect::<Vec<_>>(), [false, true, false]);
    }
}
