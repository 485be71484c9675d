//! The canonical form of a JSON body (F3, F4, F7): two bodies have the same one exactly if they say the same, but for what
//! is left out.
//!
//! It is JSON itself: no white space, members sorted by name, strings in one spelling, numbers as exact decimals. So it
//! can be shown to people, and what keeps two values apart is JSON's own grammar.
//!
//! The reading is our own, since it must keep every digit of a number and notice repeated names and lone surrogates;
//! parsers made for handling data round the one and let the others pass.

mod decimal;
pub(super) mod difference;
pub(super) mod python;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::python::Style;
use super::pointer::{Below, Pointer};
use crate::json_text::write_string;

/// How deep arrays and objects may nest (F4). It also bounds the recursion here.
const MAX_DEPTH: usize = 128;

/// A JSON body, read: its canonical form.
///
/// It is written while the body is read, without a tree in between, which would be many times larger than a body of small
/// values.
#[derive(Debug)]
pub(super) struct Document {
    form: String,
}

impl Document {
    /// Reads a body, leaving out the values that `ignore` points to. `None` if it has no canonical form: not JSON, not
    /// UTF-8, a repeated member name, a lone surrogate, nested too deep, or a number whose exponent takes more than 64 bits.
    /// What is left out has to be JSON, nested no deeper than the rest, and is not judged otherwise. Takes time linear in
    /// the body's length, but for the sorting of names, and once more for each level whose members aren't in order. The
    /// pointers must be sorted.
    pub(super) fn read(body: &[u8], ignore: &[Pointer]) -> Option<Self> {
        Reader::new(std::str::from_utf8(body).ok()?, None).document(ignore)
    }

    /// Its canonical form.
    pub(super) fn form(&self) -> &str {
        &self.form
    }
}

/// A member of an object that is being read. Where it ends follows from where the next one begins.
#[derive(Clone, Copy)]
struct Member {
    /// Where its name begins, unescaped, in the reader's text.
    name: usize,
    /// Where it begins in the form.
    start: usize,
}

/// Reads a body once from front to back; each method returns `None` for what has no canonical form.
struct Reader<'a> {
    input: &'a str,
    at: usize,
    /// Unescaped: the names of the objects around this place, then the string or the number that is being read.
    text: String,
    /// The canonical form of what has been read.
    form: Vec<u8>,
    /// Within a value that doesn't count: it has to be JSON, and is not judged otherwise.
    leaving_out: bool,
    /// Writes as Python does, in this style, instead of the canonical form.
    python: Option<Style>,
}

impl<'a> Reader<'a> {
    const fn new(input: &'a str, python: Option<Style>) -> Self {
        Self { input, at: 0, text: String::new(), form: Vec::new(), leaving_out: false, python }
    }

    /// All of the input.
    fn document(mut self, ignore: &[Pointer]) -> Option<Document> {
        self.value(0, Below::root(ignore))?;
        self.skip_white_space();
        let form = String::from_utf8(self.form).expect("a canonical form is made of text");
        (self.at == self.input.len()).then_some(Document { form })
    }

    fn comma(&self) -> &'static [u8] {
        self.python.map_or(",", Style::comma).as_bytes()
    }

    /// Writes what is in the text there.
    fn write_string(&mut self, text: Range<usize>) {
        match self.python {
            None => write_string(&self.text[text], &mut self.form),
            Some(style) => python::write_string(&self.text[text], style.ascii, &mut self.form),
        }
    }

    /// A value, with white space before it. `depth` counts the arrays and objects around it; `below` are the pointers to what
    /// is left out of it.
    fn value(&mut self, depth: usize, below: Below<'_>) -> Option<()> {
        self.skip_white_space();
        match self.peek()? {
            b'{' if depth < MAX_DEPTH => self.object(depth + 1, below),
            b'[' if depth < MAX_DEPTH => self.array(depth + 1, below),
            b'"' => {
                let string = self.string()?;
                self.write_string(string.clone());
                self.text.truncate(string.start);
                Some(())
            }
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    /// A value that doesn't count.
    fn leave_out(&mut self, depth: usize) -> Option<()> {
        let start = self.form.len();
        let outer = std::mem::replace(&mut self.leaving_out, true);
        self.value(depth, Below::root(&[]))?;
        self.leaving_out = outer;
        self.form.truncate(start);
        Some(())
    }

    fn object(&mut self, depth: usize, below: Below<'_>) -> Option<()> {
        let names = self.text.len();
        let mut members = Vec::new();
        self.at += 1;
        self.form.push(b'{');
        self.skip_white_space();
        if !self.take(b'}') {
            loop {
                self.member(depth, below, &mut members)?;
                self.skip_white_space();
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        if !self.leaving_out {
            self.sort(&members)?;
        }
        self.text.truncate(names);
        self.form.push(b'}');
        Some(())
    }

    fn member(&mut self, depth: usize, below: Below<'_>, members: &mut Vec<Member>) -> Option<()> {
        self.skip_white_space();
        let name = self.string()?;
        self.skip_white_space();
        self.expect(b':')?;
        let below = below.child(&self.text[name.clone()]);
        if below.ends_here() {
            self.text.truncate(name.start);
            return self.leave_out(depth);
        }
        if !members.is_empty() {
            self.form.extend(self.comma());
        }
        members.push(Member { name: name.start, start: self.form.len() });
        self.write_string(name);
        self.form.extend(self.python.map_or(":", Style::colon).as_bytes());
        self.value(depth, below)
    }

    /// Puts the members of the object that ends here in the order of their names; `None` if one is repeated.
    fn sort(&mut self, members: &[Member]) -> Option<()> {
        let name = |index: usize| {
            let end = members.get(index + 1).map_or(self.text.len(), |next| next.name);
            &self.text[members[index].name..end]
        };
        let mut order: Vec<_> = (0..members.len()).collect();
        if order.is_sorted_by(|a, b| name(*a) < name(*b)) {
            return Some(());
        }
        order.sort_by(|a, b| name(*a).cmp(name(*b)));
        if self.python.is_some() {
            // Of members of one name the last counts.
            order.reverse();
            order.dedup_by(|earlier, last| name(*earlier) == name(*last));
            order.reverse();
        }
        if order.windows(2).any(|pair| name(pair[0]) == name(pair[1])) {
            return None;
        }
        let comma = self.comma();
        let start = members.first()?.start;
        let mut sorted = Vec::with_capacity(self.form.len() - start);
        for index in order {
            if !sorted.is_empty() {
                sorted.extend_from_slice(comma);
            }
            let end = members.get(index + 1).map_or(self.form.len(), |next| next.start - comma.len());
            sorted.extend_from_slice(&self.form[members[index].start..end]);
        }
        self.form.truncate(start);
        self.form.append(&mut sorted);
        Some(())
    }

    fn array(&mut self, depth: usize, below: Below<'_>) -> Option<()> {
        let (mut index, mut is_first) = (0usize, true);
        self.at += 1;
        self.form.push(b'[');
        self.skip_white_space();
        if !self.take(b']') {
            loop {
                let below = if below.is_empty() { below } else { below.child(&index.to_string()) };
                if below.ends_here() {
                    self.leave_out(depth)?;
                } else {
                    if !is_first {
                        self.form.extend(self.comma());
                    }
                    is_first = false;
                    self.value(depth, below)?;
                }
                index += 1;
                self.skip_white_space();
                if !self.take(b',') {
                    break;
                }
            }
            self.expect(b']')?;
        }
        self.form.push(b']');
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.rest().starts_with(word).then(|| {
            self.at += word.len();
            self.form.extend_from_slice(word.as_bytes());
        })
    }

    fn number(&mut self) -> Option<()> {
        let begin = self.at;
        let negative = self.take(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        let fraction = if self.take(b'.') { self.digits()? } else { "" };
        let exponent = if self.take(b'e') || self.take(b'E') { self.exponent()? } else { 0 };
        if self.python.is_some() {
            return python::write_number(&self.input[begin..self.at], &mut self.form);
        }
        let start = self.text.len();
        let written = decimal::write(negative, [whole, fraction], exponent, &mut self.text);
        (written.is_some() || self.leaving_out).then_some(())?;
        self.form.extend_from_slice(&self.text.as_bytes()[start..]);
        self.text.truncate(start);
        Some(())
    }

    fn exponent(&mut self) -> Option<i64> {
        let start = self.at;
        if !self.take(b'+') {
            self.take(b'-');
        }
        self.digits()?;
        self.input[start..self.at].parse().ok().or(self.leaving_out.then_some(0))
    }

    /// One digit or more.
    fn digits(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let length = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    /// A string, unescaped into the text.
    fn string(&mut self) -> Option<Range<usize>> {
        self.expect(b'"')?;
        let start = self.text.len();
        loop {
            let rest = self.rest();
            let plain = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0x00..=0x1f))?;
            self.text.push_str(&rest[..plain]);
            self.at += plain;
            if self.take(b'"') {
                return Some(start..self.text.len());
            }
            self.expect(b'\\')?;
            let character = self.escape()?;
            self.text.push(character);
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Option<char> {
        let kind = self.peek()?;
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return None,
        })
    }

    /// What follows `\u`: a character, or the first half of a surrogate pair and the second in an escape of its own.
    fn unicode_escape(&mut self) -> Option<char> {
        let first = self.code_unit()?;
        if self.leaving_out {
            return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        self.expect(b'\\')?;
        self.expect(b'u')?;
        let second = self.code_unit()?;
        if !(0xdc00..0xe000).contains(&second) {
            return None;
        }
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    }

    /// Four hex digits.
    fn code_unit(&mut self) -> Option<u32> {
        let digits = self.input.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.chars().try_fold(0, |unit, digit| Some(unit << 4 | digit.to_digit(16)?))
    }

    fn skip_white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// What has not been read.
    fn rest(&self) -> &'a str {
        &self.input[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.input.as_bytes().get(self.at).copied()
    }

    /// Reads `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }
}
