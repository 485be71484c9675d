//! Where two JSON bodies differ, by pointer. Works on their canonical forms, which are JSON without white space.

use std::cmp::Ordering;

use super::Document;
use crate::fingerprint::pointer::escape;

/// A place at which two documents differ, with the canonical form of what each has there. Items of arrays count without
/// those that were left out.
pub(in crate::fingerprint) type Place = (String, [Option<String>; 2]);

/// All places, in the order of the documents. None exactly if the canonical forms are equal.
pub(in crate::fingerprint) fn places(one: &Document, other: &Document) -> Vec<Place> {
    let mut comparing = Comparing::default();
    let [one, other] = [one, other].map(|document| read(&mut document.form()));
    comparing.values([Some(&one), Some(&other)]);
    comparing.places
}

/// A value, with its canonical form.
struct Value<'a> {
    form: &'a str,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Scalar,
    Array(Vec<Value<'a>>),
    /// Names unescaped, in their order.
    Object(Vec<(String, Value<'a>)>),
}

/// Reads the value that `rest` begins with.
fn read<'a>(rest: &mut &'a str) -> Value<'a> {
    let whole = *rest;
    let kind = match whole.as_bytes().first() {
        Some(b'[') => Kind::Array(list(rest, read)),
        Some(b'{') => Kind::Object(list(rest, |rest| {
            let name = string(rest);
            *rest = &rest[1..]; // the colon
            (name, read(rest))
        })),
        Some(b'"') => {
            string(rest);
            Kind::Scalar
        }
        _ => {
            *rest = &whole[whole.find([',', ']', '}']).unwrap_or(whole.len())..];
            Kind::Scalar
        }
    };
    Value { form: &whole[..whole.len() - rest.len()], kind }
}

/// What stands between two brackets.
fn list<'a, T>(rest: &mut &'a str, item: impl Fn(&mut &'a str) -> T) -> Vec<T> {
    let mut items = Vec::new();
    *rest = &rest[1..];
    while !rest.starts_with([']', '}']) {
        items.push(item(rest));
        *rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    *rest = &rest[1..];
    items
}

/// A string, unescaped.
fn string(rest: &mut &str) -> String {
    let mut text = String::new();
    let mut characters = rest[1..].chars();
    loop {
        match characters.next().expect("a string of a canonical form ends") {
            '"' => break,
            '\\' => text.push(match characters.next() {
                Some('u') => {
                    let code = &characters.as_str()[..4];
                    characters = characters.as_str()[4..].chars();
                    u32::from_str_radix(code, 16).ok().and_then(char::from_u32).expect("it escapes a control character")
                }
                escaped => escaped.expect("a string of a canonical form ends"),
            }),
            character => text.push(character),
        }
    }
    *rest = characters.as_str();
    text
}

#[derive(Default)]
struct Comparing {
    path: String,
    places: Vec<Place>,
}

impl Comparing {
    fn values(&mut self, values: [Option<&Value<'_>>; 2]) {
        match values.map(|value| value.map(|value| &value.kind)) {
            [Some(Kind::Object(one)), Some(Kind::Object(other))] => self.members(one, other),
            [Some(Kind::Array(one)), Some(Kind::Array(other))] => {
                for index in 0..one.len().max(other.len()) {
                    self.below(&index.to_string(), [one.get(index), other.get(index)]);
                }
            }
            _ => {
                let [one, other] = values.map(|value| value.map(|value| value.form));
                if one != other {
                    self.places.push((self.path.clone(), [one, other].map(|form| form.map(ToOwned::to_owned))));
                }
            }
        }
    }

    /// Both are sorted by name.
    fn members(&mut self, one: &[(String, Value<'_>)], other: &[(String, Value<'_>)]) {
        let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
        loop {
            let (order, name) = match (one.peek(), other.peek()) {
                (None, None) => return,
                (Some((ours, _)), None) => (Ordering::Less, ours),
                (None, Some((theirs, _))) => (Ordering::Greater, theirs),
                (Some((ours, _)), Some((theirs, _))) => (ours.cmp(theirs), ours.min(theirs)),
            };
            let here = if order.is_le() { one.next() } else { None };
            let there = if order.is_ge() { other.next() } else { None };
            self.below(&escape(name), [here, there].map(|member| member.map(|(_, value)| value)));
        }
    }

    fn below(&mut self, name: &str, values: [Option<&Value<'_>>; 2]) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(name);
        self.values(values);
        self.path.truncate(length);
    }
}
