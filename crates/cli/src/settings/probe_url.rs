//! Where to ask about an unknown outcome: a URL with places for what names the operation (E7). No value can leave its place:
//! it is percent-encoded to the last character that means anything in a URL, and what a URL would still fold (`..` as a
//! whole segment, which has no other spelling) is asked about nowhere.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use oncekey_core::Identity;
use reqwest::Url;

/// The longest template, in bytes; a URL made of it is longer by what the values are.
const LONGEST: usize = 2048;

/// A URL in whose path and query `{scope}`, `{key}` and `{operation_id}` stand for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeUrl {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Scope,
    Key,
    OperationId,
}

impl ProbeUrl {
    /// The URL about an operation. `None` where a value would be folded away as a path's `.` or `..`.
    pub(crate) fn about(&self, identity: &Identity) -> Option<Url> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Scope => encode(identity.scope.value(), &mut text),
                Part::Key => encode(identity.key.as_str(), &mut text),
                Part::OperationId => encode(&identity.id().to_string(), &mut text),
            }
        }
        whole(&text)
    }

    /// Whether the URL tells the operations of two scopes apart that have one key.
    pub(crate) fn names_scope(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Scope | Part::OperationId))
    }

    /// Whether the request is made over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.text.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
    }
}

/// Everything but what RFC 3986 calls unreserved.
fn encode(value: &str, text: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}"); // a String takes everything
        }
    }
}

/// The URL that `text` is, if path and query are taken as they are written.
fn whole(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let (_, rest) = text.split_once("://")?;
    let target = &rest[rest.find(['/', '?'])?..];
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    (url.path() == path && url.query() == query).then_some(url)
}

impl FromStr for ProbeUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it needs a scheme")?;
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err("its scheme is neither http nor https".to_owned());
        }
        let target = rest.find('/').ok_or("it needs a path")?;
        if rest[..target].contains(['@', '{', '}', '?', '#']) {
            return Err("credentials and placeholders can't stand in its host".to_owned());
        }
        if text.len() > LONGEST || rest.contains('#') {
            return Err(format!("it can't hold a fragment or more than {LONGEST} bytes"));
        }
        let parts = parts(text)?;
        if !parts.iter().any(|part| matches!(part, Part::Key | Part::OperationId)) {
            return Err("without {key} or {operation_id} it is the same for all operations".to_owned());
        }
        let sample: String =
            parts.iter().map(|part| if let Part::Literal(literal) = part { literal } else { "x" }).collect();
        if whole(&sample).is_none_or(|url| !url.has_host()) {
            return Err("it is no URL whose path and query can be sent as they are written".to_owned());
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("a placeholder has no end")?;
        parts.push(Part::Literal(literal.to_owned()));
        parts.push(match name {
            "scope" => Part::Scope,
            "key" => Part::Key,
            "operation_id" => Part::OperationId,
            _ => return Err(format!("{{{name}}} is no placeholder")),
        });
        rest = after;
    }
    parts.push(Part::Literal(rest.to_owned()));
    let stray = |part: &Part| matches!(part, Part::Literal(literal) if literal.contains('}'));
    if parts.iter().any(stray) { Err("a `}` stands alone".to_owned()) } else { Ok(parts) }
}

impl fmt::Display for ProbeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use oncekey_core::{Key, Namespace, Scope};

    use super::*;

    fn identity(scope: &str, key: &str) -> Identity {
        let scope = Scope::new("header:X-Account-Id", scope).expect("a scope");
        Identity { namespace: Namespace::default(), scope, key: Key::from_decoded(key).expect("a key") }
    }

    fn about(template: &str, scope: &str, key: &str) -> Option<String> {
        let template: ProbeUrl = template.parse().expect(template);
        template.about(&identity(scope, key)).map(|url| url.to_string())
    }

    #[test]
    fn values_stand_where_their_names_stood() {
        let id = identity("acc-1", "k").id();
        for (template, expected) in [
            ("http://api:3000/by-key/{key}", "http://api:3000/by-key/k".to_owned()),
            ("https://api/{scope}/o?k={key}&i={operation_id}", format!("https://api/acc-1/o?k=k&i={id}")),
            ("http://[::1]:3000/{key}.json", "http://[::1]:3000/k.json".to_owned()),
        ] {
            assert_eq!(about(template, "acc-1", "k"), Some(expected));
        }
    }

    #[test]
    fn no_value_leaves_its_place() {
        let (path, query) = ("http://api/o/{key}/end", "http://api/o?key={key}&end=1");
        for (key, encoded) in [
            ("a/b", "a%2Fb"),
            ("../../admin", "..%2F..%2Fadmin"),
            ("a?b=c&d#e", "a%3Fb%3Dc%26d%23e"),
            ("%2e%2e", "%252e%252e"),
            ("a\\b", "a%5Cb"),
            ("a;b+c", "a%3Bb%2Bc"),
            ("http://evil@x:80/", "http%3A%2F%2Fevil%40x%3A80%2F"),
            ("{scope}", "%7Bscope%7D"),
        ] {
            assert_eq!(about(path, "s", key), Some(format!("http://api/o/{encoded}/end")));
            assert_eq!(about(query, "s", key), Some(format!("http://api/o?key={encoded}&end=1")));
        }
        assert_eq!(about("http://api/{scope}/{key}", "ä b", "k"), Some("http://api/%C3%A4%20b/k".to_owned()));
    }

    #[test]
    fn a_whole_segment_of_dots_is_asked_about_nowhere() {
        for template in ["http://api/o/{key}", "http://api/o/{key}/end", "http://api/o/.{key}", "http://api/{key}?a=b"]
        {
            assert_eq!(
                about(template, "s", ".."),
                if template.contains("/.{") { Some("http://api/o/...".into()) } else { None }
            );
        }
        assert_eq!(about("http://api/o/.{key}", "s", "."), None);
        assert_eq!(about("http://api/o?key={key}", "s", ".."), Some("http://api/o?key=..".to_owned()));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for (text, why) in [
            ("/by-key/{key}", "scheme"),
            ("ftp://api/{key}", "neither http nor https"),
            ("http://api?key={key}", "placeholders can't stand in its host|needs a path"),
            ("http://{key}/", "can't stand in its host"),
            ("http://user:secret@api/{key}", "credentials"),
            ("http://api/{key}#top", "fragment"),
            ("http://api/all", "the same for all operations"),
            ("http://api/{scope}", "the same for all operations"),
            ("http://api/{kye}", "{kye} is no placeholder"),
            ("http://api/{key", "no end"),
            ("http://api/key}/{key}", "stands alone"),
            ("http://api/a/../{key}", "as they are written"),
            ("http:///{key}", "as they are written"),
        ] {
            let refused = text.parse::<ProbeUrl>().expect_err(text);
            assert!(why.split('|').any(|why| refused.contains(why)), "{text}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_template_says_whether_it_tells_scopes_apart() {
        let names = |text: &str| text.parse::<ProbeUrl>().expect(text).names_scope();
        assert!(names("http://api/{scope}/{key}") && names("http://api/{operation_id}") && !names("http://api/{key}"));
    }
}
