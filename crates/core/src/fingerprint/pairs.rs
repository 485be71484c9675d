//! Query strings and forms (F2, F5): pairs decoded to bytes and stable-sorted by name.
//!
//! What stands behind a `[]` in a name is no part of it in this: `i[][a]=1&i[][b]=2` is a list, and which pairs make up one of
//! its items follows from their order.

/// Pairs in the order in which they count: by ordering name, and as sent among equal ones. Names and values are parts of one
/// text, so that a body of a million small pairs costs no million allocations.
#[derive(Debug)]
pub(super) struct Pairs {
    text: Vec<u8>,
    sorted: Vec<Pair>,
    order: Order,
}

/// The part of a name by which its pair is sorted.
pub(super) type Order = fn(&[u8]) -> &[u8];

/// All of it.
pub(super) const fn by_name(name: &[u8]) -> &[u8] {
    name
}

/// Up to its first `[]`, behind which order counts.
pub(super) fn by_list(name: &[u8]) -> &[u8] {
    let list = name.windows(2).position(|pair| pair == b"[]");
    list.map_or(name, |at| &name[..at + 2])
}

/// A pair, the one as sent after another: where its name begins, where its value does, and where that ends.
#[derive(Debug)]
struct Pair([usize; 3]);

impl Pair {
    fn name<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.0[0]..self.0[1]]
    }

    fn value<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.0[1]..self.0[2]]
    }
}

impl Pairs {
    /// Reads `sent`. A pair without `=` has an empty value; nothing between two `&` is no pair.
    pub(super) fn read(sent: &[u8], order: Order) -> Self {
        let mut text = Vec::with_capacity(sent.len());
        let split = || sent.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let mut sorted = Vec::with_capacity(split().count());
        sorted.extend(split().map(|pair| read_pair(pair, &mut text)));
        // Where a pair begins tells which was sent first, so that no sorting needs room to be stable.
        let key = |pair: &Pair| (order(pair.name(&text)), pair.0[0]);
        sorted.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        Self { text, sorted, order }
    }

    /// The part of a name among whose pairs the order counts.
    pub(super) fn ordering_name<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        (self.order)(name)
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Names and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.sorted.iter().map(|pair| (pair.name(&self.text), pair.value(&self.text)))
    }
}

fn read_pair(sent: &[u8], text: &mut Vec<u8>) -> Pair {
    let middle = sent.iter().position(|byte| *byte == b'=').unwrap_or(sent.len());
    let start = text.len();
    decode(&sent[..middle], text);
    let value = text.len();
    decode(sent.get(middle + 1..).unwrap_or_default(), text);
    Pair([start, value, text.len()])
}

/// `+` is a space and `%XX` a byte; a `%` without two hex digits stands for itself. The result is bytes, not text: to put a
/// replacement character for what is not UTF-8 would make different requests equal.
fn decode(sent: &[u8], text: &mut Vec<u8>) {
    let mut rest = sent;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'+', _) => text.push(b' '),
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                text.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            (byte, _) => text.push(*byte),
        }
    }
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
    use super::{Pairs, by_list};

    fn read(query: &str) -> Vec<(String, String)> {
        let lossless = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
        let pairs = Pairs::read(query.as_bytes(), by_list);
        assert_eq!(pairs.len(), pairs.iter().count());
        pairs.iter().map(|(name, value)| (lossless(name), lossless(value))).collect()
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
        assert_eq!(read("b[]c=1&a[]d=2&a[]=3"), [pair("a[]d", "2"), pair("a[]", "3"), pair("b[]c", "1")]);
        assert_eq!(read("a[]=1&a=2"), [pair("a", "2"), pair("a[]", "1")]);
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
