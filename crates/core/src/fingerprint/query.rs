//! Query strings, read as forms are (F2): pairs decoded to bytes and stable-sorted by name.

/// A name and its value, decoded.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a query string, in the order in which they count: by name, and as sent among equal names. A pair without
/// `=` has an empty value; nothing between two `&` is no pair.
pub(super) fn pairs(query: &str) -> Vec<Pair> {
    let sent = query.as_bytes().split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = sent.map(pair).collect();
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs
}

fn pair(sent: &[u8]) -> Pair {
    match sent.iter().position(|byte| *byte == b'=') {
        Some(middle) => (decode(&sent[..middle]), decode(&sent[middle + 1..])),
        None => (decode(sent), Vec::new()),
    }
}

/// `+` is a space and `%XX` a byte; a `%` without two hex digits stands for itself. The result is bytes, not text: to put a
/// replacement character for what is not UTF-8 would make different queries equal.
fn decode(sent: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(sent.len());
    let mut rest = sent;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'+', _) => decoded.push(b' '),
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                decoded.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            (byte, _) => decoded.push(*byte),
        }
    }
    decoded
}

/// The value of an ASCII hex digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::pairs;

    fn read(query: &str) -> Vec<(String, String)> {
        let lossless = |bytes: Vec<u8>| bytes.iter().map(|byte| char::from(*byte)).collect();
        pairs(query).into_iter().map(|(name, value)| (lossless(name), lossless(value))).collect()
    }

    #[test]
    fn a_query_is_read_as_forms_are() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(""), []);
        assert_eq!(read("&&"), []);
        assert_eq!(read("a"), [pair("a", "")]);
        assert_eq!(read("="), [pair("", "")]);
        assert_eq!(read("a=b=c"), [pair("a", "b=c")]);
        assert_eq!(read("b=2&a=1&b=1&"), [pair("a", "1"), pair("b", "2"), pair("b", "1")]);
        assert_eq!(read("a+b=%2B%26%3d"), [pair("a b", "+&=")]);
        assert_eq!(read("a=%fF%00"), [pair("a", "\u{ff}\0")]);
    }

    #[test]
    fn a_percent_sign_that_encodes_nothing_stands_for_itself() {
        for sent in ["%", "%4", "%g1", "%1g", "%%", "%+1"] {
            let value = sent.replace('+', " ");
            assert_eq!(read(&format!("a={sent}")), [("a".to_owned(), value)], "{sent}");
        }
        assert_eq!(read("a=%%41"), [("a".to_owned(), "%A".to_owned())]);
    }
}
