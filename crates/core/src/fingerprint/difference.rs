//! What makes two requests differ, part by part, for people.

use std::collections::BTreeMap;

use super::canonical::{Canonical, Content};
use super::json::difference::places;
use super::media_type::MediaType;
use super::multipart::Part;
use super::pairs::Pairs;
use super::show::{shown, spelled};
use crate::json_text::write_string;

/// How many bytes around the first differing one are shown of raw bytes.
const EXCERPT: usize = 32;

/// One difference between two requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which part: `method`, `path`, `query`, `media_type`, `header`, `json`, `form`, `multipart` or `body` (bytes that are
    /// read as nothing).
    pub part: &'static str,
    /// Which one of that part: the name of a pair or a header, a JSON pointer, a part of a form; empty where there is one.
    pub name: String,
    /// What each request has there; `None` for nothing.
    pub values: [Option<String>; 2],
}

impl Difference {
    /// All differences between two requests; none exactly if their fingerprints are equal. Both should be made by one
    /// recipe, as the gateway compares them: requests by different recipes never have equal fingerprints.
    pub fn between(one: &Canonical<'_>, other: &Canonical<'_>) -> Vec<Self> {
        let mut found = Vec::new();
        let mut note = |part, values: [&str; 2]| {
            if values[0] != values[1] {
                let values = values.map(|value| Some(value.to_owned()));
                found.push(Self { part, name: String::new(), values });
            }
        };
        note("method", [one.method.as_str(), other.method.as_str()]);
        note("path", [one.path, other.path]);
        of_pairs("query", &one.query, &other.query, &mut found);
        of_media_types([&one.media_type, &other.media_type], &mut found);
        of_headers(one, other, &mut found);
        of_contents(&one.content, &other.content, &mut found);
        found
    }
}

fn of_pairs(part: &'static str, one: &Pairs, other: &Pairs, found: &mut Vec<Difference>) {
    let mut by_name: BTreeMap<_, [Vec<_>; 2]> = BTreeMap::new();
    for (side, pairs) in [one, other].into_iter().enumerate() {
        for pair in pairs.iter() {
            by_name.entry(pairs.ordering_name(pair.0)).or_default()[side].push(pair);
        }
    }
    for (list, values) in by_name {
        if values[0] != values[1] {
            let value = |&(name, value): &(&[u8], &[u8])| match &name[list.len()..] {
                [] => value.to_vec(),
                rest => [rest, b"=", value].concat(),
            };
            let values = values.map(|pairs| listed(&pairs.iter().map(value).collect::<Vec<_>>()));
            found.push(Difference { part, name: spelled(list), values });
        }
    }
}

/// One value as it is, several as a JSON list.
fn listed<T: AsRef<[u8]>>(values: &[T]) -> Option<String> {
    match values {
        [] => None,
        [value] => Some(spelled(value.as_ref())),
        values => {
            let mut list = vec![b'['];
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    list.push(b',');
                }
                write_string(&spelled(value.as_ref()), &mut list);
            }
            list.push(b']');
            Some(String::from_utf8(list).expect("JSON strings of texts are text"))
        }
    }
}

fn of_media_types(media_types: [&MediaType<'_>; 2], found: &mut Vec<Difference>) {
    if media_types[0] != media_types[1] {
        let values = media_types.map(|media_type| match media_type {
            MediaType::Absent => None,
            MediaType::One(essence) => Some(spelled(essence)),
            MediaType::Repeated(lines) => listed(lines),
        });
        found.push(Difference { part: "media_type", name: String::new(), values });
    }
}

fn of_headers(one: &Canonical<'_>, other: &Canonical<'_>, found: &mut Vec<Difference>) {
    let lines = |of: &Canonical<'_>, name: &str| {
        of.headers.iter().find(|(known, _)| *known == name).and_then(|(_, lines)| listed(lines))
    };
    for (name, _) in one.headers.iter().chain(&other.headers) {
        let values = [lines(one, name.as_str()), lines(other, name.as_str())];
        let difference = Difference { part: "header", name: name.to_string(), values };
        if difference.values[0] != difference.values[1] && !found.contains(&difference) {
            found.push(difference);
        }
    }
}

fn of_contents(one: &Content<'_>, other: &Content<'_>, found: &mut Vec<Difference>) {
    match (one, other) {
        (Content::Json(one), Content::Json(other)) => {
            found.extend(places(one, other).into_iter().map(|(name, values)| Difference {
                part: "json",
                name,
                values,
            }));
        }
        (Content::Form(one), Content::Form(other)) => of_pairs("form", one, other, found),
        (Content::Multipart(one), Content::Multipart(other)) => of_parts(one, other, found),
        (Content::Raw(one), Content::Raw(other)) => {
            let codings = [&one.codings, &other.codings].map(|lines| listed(lines));
            let content_types = [one.content_type, other.content_type].map(|line| line.map(spelled));
            for (name, values) in [("content-encoding", codings), ("content-type", content_types)] {
                if values[0] != values[1] {
                    found.push(Difference { part: "header", name: name.to_owned(), values });
                }
            }
            found.extend(of_bytes(one.bytes, other.bytes).map(|(name, values)| Difference {
                part: "body",
                name,
                values,
            }));
        }
        (one, other) => {
            let values = [one, other].map(|content| Some(content.kind().to_owned()));
            found.push(Difference { part: "body", name: String::new(), values });
        }
    }
}

fn of_parts(one: &[Part<'_>], other: &[Part<'_>], found: &mut Vec<Difference>) {
    for index in 0..one.len().max(other.len()) {
        let number = index + 1;
        let mut note = |name: String, values| found.push(Difference { part: "multipart", name, values });
        let (Some(ours), Some(theirs)) = (one.get(index), other.get(index)) else {
            let values = [one.get(index), other.get(index)].map(|part| part.map(|part| spelled(part.name)));
            note(format!("part {number}"), values);
            continue;
        };
        let mut fields: BTreeMap<String, [Option<String>; 2]> = BTreeMap::new();
        for (side, part) in [ours, theirs].into_iter().enumerate() {
            fields.entry("name".to_owned()).or_default()[side] = Some(spelled(part.name));
            fields.entry("media type".to_owned()).or_default()[side] = part.media_type.as_deref().map(spelled);
            for (name, value) in &part.parameters {
                fields.entry(spelled(name)).or_default()[side] = Some(spelled(value));
            }
        }
        for (field, values) in fields.into_iter().filter(|(_, values)| values[0] != values[1]) {
            note(format!("part {number} {field}"), values);
        }
        if let Some((place, values)) = of_bytes(ours.content, theirs.content) {
            note(format!("part {number} content from {place}"), values);
        }
    }
}

/// The first place at which bytes differ, and what is around it.
fn of_bytes(one: &[u8], other: &[u8]) -> Option<(String, [Option<String>; 2])> {
    if one == other {
        return None;
    }
    let at = one.iter().zip(other).position(|(one, other)| one != other).unwrap_or(one.len().min(other.len()));
    let excerpt = |bytes: &[u8]| Some(shown(&bytes[at..bytes.len().min(at + EXCERPT)]));
    Some((format!("byte {at}"), [excerpt(one), excerpt(other)]))
}
