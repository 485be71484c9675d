//! Where two JSON bodies differ, by pointer.

use std::cmp::Ordering;

use super::{Document, Member, Value, write};
use crate::fingerprint::pointer::escape;

/// A place at which two documents differ, with the canonical form of what each has there. Items of arrays count without
/// those that were left out.
pub(in crate::fingerprint) type Place = (String, [Option<String>; 2]);

/// All places, in the order of the documents. None exactly if the canonical forms are equal.
pub(in crate::fingerprint) fn places(one: &Document, other: &Document) -> Vec<Place> {
    let mut comparing = Comparing { texts: [&one.text, &other.text], path: String::new(), places: Vec::new() };
    comparing.values([Some(&one.value), Some(&other.value)]);
    comparing.places
}

struct Comparing<'a> {
    texts: [&'a str; 2],
    path: String,
    places: Vec<Place>,
}

impl<'a> Comparing<'a> {
    fn values(&mut self, values: [Option<&Value>; 2]) {
        match values {
            [Some(Value::Object(one)), Some(Value::Object(other))] => self.members(one, other),
            [Some(Value::Array(one)), Some(Value::Array(other))] => {
                for index in 0..one.len().max(other.len()) {
                    self.below(&index.to_string(), [one.get(index), other.get(index)]);
                }
            }
            values => {
                let [one, other] = self.forms(values);
                if one != other {
                    self.places.push((self.path.clone(), [one, other]));
                }
            }
        }
    }

    /// Both are sorted by name.
    fn members(&mut self, one: &[Member], other: &[Member]) {
        let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
        loop {
            let [ours, theirs] = [one.peek().map(|&m| self.name(0, m)), other.peek().map(|&m| self.name(1, m))];
            let (order, name) = match (ours, theirs) {
                (None, None) => return,
                (Some(ours), None) => (Ordering::Less, ours),
                (None, Some(theirs)) => (Ordering::Greater, theirs),
                (Some(ours), Some(theirs)) => (ours.cmp(theirs), ours.min(theirs)),
            };
            let here = if order.is_le() { one.next() } else { None };
            let there = if order.is_ge() { other.next() } else { None };
            self.below(&escape(name), [here.map(|member| &member.value), there.map(|member| &member.value)]);
        }
    }

    fn below(&mut self, name: &str, values: [Option<&Value>; 2]) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(name);
        self.values(values);
        self.path.truncate(length);
    }

    fn name(&self, side: usize, member: &Member) -> &'a str {
        &self.texts[side][member.name.clone()]
    }

    fn forms(&self, values: [Option<&Value>; 2]) -> [Option<String>; 2] {
        let form = |side: usize| {
            values[side].map(|value| {
                let mut form = Vec::new();
                write(value, self.texts[side], &mut form);
                String::from_utf8(form).expect("a canonical form is made of text")
            })
        };
        [form(0), form(1)]
    }
}
