//! "Did you mean": the known word that a mistyped one was meant to be.

/// The known word closest to `word`, letter case and underscores aside. `None`: none is close enough to be meant.
pub(super) fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        // A bound, so that a megabyte of key costs nothing.
        text.chars().take(64).filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
    };
    let word = plain(word);
    known
        .iter()
        .map(|known| (distance(&word, &plain(known)), *known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= word.len().div_ceil(3))
        .map(|(_, known)| known)
}

/// How many letters must be put in, left out or replaced to make one word of the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(b) {
            let replaced = diagonal + usize::from(from != to);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        row[0] = i + 1;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_was_meant_is_found() {
        let known = ["cidr", "blockSize", "disabled", "nodeSelector", "namespaceSelector"];
        for (typed, meant) in [
            ("block_size", Some("blockSize")),
            ("blocksize", Some("blockSize")),
            ("blokSize", Some("blockSize")),
            ("cdir", Some("cidr")),
            ("cidrs", Some("cidr")),
            ("nodeSelectors", Some("nodeSelector")),
            ("gateway", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, &known), meant, "{typed}");
        }
    }

    #[test]
    fn the_distance_is_the_number_of_changes() {
        for (a, b, wanted) in
            [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("abc", "abd", 1)]
        {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(distance(&letters(a), &letters(b)), wanted, "{a} {b}");
        }
    }
}
