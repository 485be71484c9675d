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
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::pointer::{Below, Pointer};
use crate::json_text::write_string;

/// How deep arrays and objects may nest (F4). It also bounds the recursion here.
const MAX_DEPTH: usize = 128;

/// A JSON body, read.
#[derive(Debug)]
pub(super) struct Document {
    value: Value,
    /// What the ranges in the value point into.
    text: String,
}

impl Document {
    /// Reads a body, leaving out the values that `ignore` points to. `None` if it has no canonical form: not JSON, not
    /// UTF-8, a repeated member name, a lone surrogate, nested too deep, or a number whose exponent takes more than 64 bits.
    /// What is left out has to be JSON, nested no deeper than the rest, and is not judged otherwise. Takes time linear in
    /// the body's length, but for the sorting of names. The pointers must be sorted.
    pub(super) fn read(body: &[u8], ignore: &[Pointer]) -> Option<Self> {
        let input = std::str::from_utf8(body).ok()?;
        let mut reader = Reader { input, at: 0, text: String::new(), leaving_out: false };
        let value = reader.value(0, Below::root(ignore))?;
        reader.skip_white_space();
        (reader.at == body.len()).then_some(Self { value, text: reader.text })
    }

    /// Its canonical form.
    pub(super) fn form(&self) -> Vec<u8> {
        let mut form = Vec::with_capacity(self.text.len());
        write(&self.value, &self.text, &mut form);
        form
    }
}

/// A value as read. Scalars are ranges of the reader's text: a body of a million small numbers then costs no million
/// allocations.
#[derive(Debug)]
enum Value {
    /// A number in its canonical spelling, or `true`, `false`, `null`.
    Plain(Range<usize>),
    /// A string, unescaped.
    String(Range<usize>),
    Array(Vec<Value>),
    Object(Vec<Member>),
}

#[derive(Debug)]
struct Member {
    /// The name, unescaped.
    name: Range<usize>,
    value: Value,
}

fn write(value: &Value, text: &str, form: &mut Vec<u8>) {
    match value {
        Value::Plain(range) => form.extend(text[range.clone()].as_bytes()),
        Value::String(range) => write_string(&text[range.clone()], form),
        Value::Array(values) => {
            form.push(b'[');
            for (index, value) in values.iter().enumerate() {
                write_comma(index, form);
                write(value, text, form);
            }
            form.push(b']');
        }
        Value::Object(members) => {
            form.push(b'{');
            for (index, member) in members.iter().enumerate() {
                write_comma(index, form);
                write_string(&text[member.name.clone()], form);
                form.push(b':');
                write(&member.value, text, form);
            }
            form.push(b'}');
        }
    }
}

fn write_comma(index: usize, form: &mut Vec<u8>) {
    if index > 0 {
        form.push(b',');
    }
}

/// Reads a body once from front to back; each method returns `None` for what has no canonical form.
struct Reader<'a> {
    input: &'a str,
    at: usize,
    /// What [`Value`]'s ranges point into.
    text: String,
    /// Within a value that doesn't count: it has to be JSON, and is not judged otherwise.
    leaving_out: bool,
}

impl<'a> Reader<'a> {
    /// A value, with white space before it. `depth` counts the arrays and objects around it; `below` are the pointers to what
    /// is left out of it.
    fn value(&mut self, depth: usize, below: Below<'_>) -> Option<Value> {
        self.skip_white_space();
        match self.peek()? {
            b'{' if depth < MAX_DEPTH => self.object(depth + 1, below).map(Value::Object),
            b'[' if depth < MAX_DEPTH => self.array(depth + 1, below).map(Value::Array),
            b'"' => self.string().map(Value::String),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    /// A value that doesn't count.
    fn leave_out(&mut self, depth: usize) -> Option<()> {
        let start = self.text.len();
        let outer = std::mem::replace(&mut self.leaving_out, true);
        self.value(depth, Below::root(&[]))?;
        self.leaving_out = outer;
        self.text.truncate(start);
        Some(())
    }

    fn object(&mut self, depth: usize, below: Below<'_>) -> Option<Vec<Member>> {
        let mut members = Vec::new();
        self.at += 1;
        self.skip_white_space();
        if self.take(b'}') {
            return Some(members);
        }
        loop {
            self.skip_white_space();
            let name = self.string()?;
            self.skip_white_space();
            self.expect(b':')?;
            let below = below.child(&self.text[name.clone()]);
            if below.ends_here() {
                self.leave_out(depth)?;
            } else {
                members.push(Member { name, value: self.value(depth, below)? });
            }
            self.skip_white_space();
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        let name = |member: &Member| &self.text[member.name.clone()];
        members.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        let repeated = members.windows(2).any(|pair| name(&pair[0]) == name(&pair[1]));
        (!repeated || self.leaving_out).then_some(members)
    }

    fn array(&mut self, depth: usize, below: Below<'_>) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        let mut index = 0usize;
        self.at += 1;
        self.skip_white_space();
        if self.take(b']') {
            return Some(values);
        }
        loop {
            let below = if below.is_empty() { below } else { below.child(&index.to_string()) };
            if below.ends_here() {
                self.leave_out(depth)?;
            } else {
                values.push(self.value(depth, below)?);
            }
            index += 1;
            self.skip_white_space();
            if !self.take(b',') {
                break;
            }
        }
        self.expect(b']')?;
        Some(values)
    }

    fn word(&mut self, word: &str) -> Option<Value> {
        self.rest().starts_with(word).then(|| {
            self.at += word.len();
            let start = self.text.len();
            self.text.push_str(word);
            Value::Plain(start..self.text.len())
        })
    }

    fn number(&mut self) -> Option<Value> {
        let negative = self.take(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        let fraction = if self.take(b'.') { self.digits()? } else { "" };
        let exponent = if self.take(b'e') || self.take(b'E') { self.exponent()? } else { 0 };
        let start = self.text.len();
        let written = decimal::write(negative, [whole, fraction], exponent, &mut self.text);
        (written.is_some() || self.leaving_out).then_some(())?;
        Some(Value::Plain(start..self.text.len()))
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
