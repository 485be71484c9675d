//! One meaning, one word: names of items that use a word which the house has another for.
//!
//! Only declared names are looked at. In prose and in other people's APIs the words have their ordinary meanings.

use super::{Finding, files};

/// A word (or two in a row) that names don't use, and what is said instead.
const WORDS: [(&[&str], &str); 6] = [
    (&["hash"], "fingerprint"),
    (&["lock"], "claim, lease"),
    (&["entry"], "record"),
    (&["cache", "hit"], "replay"),
    (&["cleanup"], "sweep, purge"),
    (&["backend"], "store, upstream"),
];

/// What a declared name follows.
const KEYWORDS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];

/// Checks the names that a Rust file declares.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    if !files::is_rust(path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for name in declared(line) {
            for (words, instead) in WORDS {
                // `Hash::hash` is the standard library's name.
                if has_words(name, words) && !line.contains("fn hash<") {
                    findings.push(Finding::failure(format!("{path}:{number}: `{name}`: the word is {instead}")));
                }
            }
        }
    }
    findings
}

/// The names declared in a line, outside comments and strings.
fn declared(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let outside_strings = code.split('"').step_by(2);
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let words = outside_strings.flat_map(|part| part.split(move |character| !is_part(character)));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.windows(2).filter(|pair| KEYWORDS.contains(&pair[0])).map(|pair| pair[1]).collect()
}

/// Whether a name in any case has these words in a row.
fn has_words(name: &str, words: &[&str]) -> bool {
    let mut parts: Vec<String> = Vec::new();
    let mut after_lower = false;
    for character in name.chars() {
        if character == '_' || parts.is_empty() || (after_lower && character.is_uppercase()) {
            parts.push(String::new());
        }
        after_lower = character.is_lowercase();
        if let Some(part) = parts.last_mut().filter(|_| character != '_') {
            part.extend(character.to_lowercase());
        }
    }
    parts.windows(words.len()).any(|row| row == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check("crates/core/src/a.rs", line).len()
    }

    #[test]
    fn each_word_is_found_in_names() {
        assert_eq!(found("pub fn take_lock() {}"), 1);
        assert_eq!(found("struct RequestHash([u8; 32]);"), 1);
        assert_eq!(found("const CACHE_HIT: u8 = 0;"), 1);
        assert_eq!(found("enum CacheHit {}"), 1);
        assert_eq!(found("mod cleanup;"), 1);
        assert_eq!(found("pub(crate) trait Backend {}"), 1);
        assert_eq!(found("type Entry = u8;"), 1);
    }

    #[test]
    fn other_words_uses_comments_and_strings_are_not() {
        assert_eq!(found("fn block_on_clock() { map.entry(key); mutex.lock() }"), 0);
        assert_eq!(found("// a fn lock would be wrong"), 0);
        assert_eq!(found(&["let sentence = ", "fn lock", ";"].join("\"")), 0);
        assert_eq!(found("fn cache_for_hit() {}"), 0);
        assert_eq!(found("fn hash<H: Hasher>(&self, state: &mut H) {"), 0);
        assert!(check("README.md", "fn lock").is_empty());
    }
}
