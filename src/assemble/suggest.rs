//! What somebody may have meant by a word that nobody knows.

/// The word of `known` that is nearest to `word`, where one is near enough to have been meant.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(&word, candidate), *candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// "; did you mean `x`? Known are: …", to end a sentence about the unknown `word`.
pub(super) fn known_are(word: &str, known: &[&str]) -> String {
    let list = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let list = if known.is_empty() { "none".to_owned() } else { list };
    match nearest(word, known) {
        Some(meant) => format!("; did you mean `{meant}`? Known are: {list}"),
        None => format!("; known are: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered_and_a_far_one_is_not() {
        let known = ["at", "volume", "read_only", "io"];
        assert_eq!(nearest("volum", &known), Some("volume"));
        assert_eq!(nearest("readonly", &known), Some("read_only"));
        assert_eq!(nearest("Volume", &known), Some("volume"));
        assert_eq!(nearest("zebra", &known), None);
        assert_eq!(known_are("zebra", &known[..1]), "; known are: `at`");
        assert_eq!(known_are("main", &[]), "; known are: none");
    }
}
