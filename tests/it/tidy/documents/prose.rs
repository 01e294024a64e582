//! Measures sentences.

use super::markdown::Prose;

/// Words that end in a period within a sentence.
const ABBREVIATIONS: [&str; 4] = ["e.g.", "i.e.", "etc.", "vs."];

/// The sentences of a document. A table cell has some only if it ends as a sentence does.
pub(super) fn sentences(prose: &[Prose]) -> Vec<String> {
    let counts = |part: &&Prose| !part.in_table || part.text.ends_with(['.', '!', '?']);
    prose.iter().filter(counts).flat_map(|part| split(&part.text)).collect()
}

/// Number of words of a sentence: parts between blanks that have a letter or a digit.
pub(super) fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

fn split(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut found = vec![Vec::new()];
    for (place, word) in words.iter().enumerate() {
        found.last_mut().expect("there is one").push(*word);
        let next = words.get(place + 1).and_then(|next| next.trim_start_matches(['(', '"']).chars().next());
        let begins = next.is_some_and(|first| first.is_uppercase() || first.is_numeric());
        // Inline code may begin a sentence too.
        let begins = begins || words.get(place + 1).is_some_and(|next| next.starts_with("code"));
        if begins && ends_sentence(word) {
            found.push(Vec::new());
        }
    }
    let texts = found.into_iter().map(|words| words.join(" "));
    texts.filter(|sentence| words_in(sentence)).collect()
}

fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches([')', '"']);
    bare.ends_with(['.', '!', '?']) && !ABBREVIATIONS.contains(&bare)
}

fn words_in(sentence: &str) -> bool {
    words(sentence) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        assert_eq!(
            split("One two. Three (four). code is five? 6."),
            ["One two.", "Three (four).", "code is five?", "6."]
        );
        assert_eq!(split("Rust 1.89 or newer, e.g. Debian's, see a.b. Then:").len(), 2);
        assert_eq!(words("A /26 — that is code, 64 addresses."), 7);
        let cell = |text: &str| Prose { text: text.to_owned(), in_table: true };
        assert_eq!(sentences(&[cell("no sentence. Really"), cell("One. Two.")]), ["One.", "Two."]);
    }
}
