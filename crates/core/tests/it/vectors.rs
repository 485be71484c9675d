//! The shared vectors: keys (K2, K3) and fingerprints (F1–F4, F6 for raw bodies, F8). A case that is in neither list below
//! fails, so that none is passed over by mistake.

use base64::Engine;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncekey_core::fingerprint::Operation;
use oncekey_core::{Fingerprint, Key, KeyFormat, Recipe};
use serde::Deserialize;

/// Cases of the rules that are built.
const BUILT: [&str; 26] = [
    "member order and white space",
    "array order counts",
    "numbers by decimal value",
    "integers past 2^53",
    "decimal fractions beyond a double",
    "zero and minus zero",
    "huge exponents are never expanded",
    "string escapes",
    "surrogate pairs",
    "null is not absence",
    "duplicate members are raw bytes",
    "not JSON though it says so",
    "empty body",
    "top-level scalars and arrays",
    "vendor JSON types",
    "plain text is raw",
    "binary is raw",
    "method and path",
    "query",
    "equal query names keep their order",
    "named headers count",
    "nesting of 128 is still JSON",
    "nesting of 129 is raw bytes",
    "query bytes",
    "query forms",
    "media type case and parameters",
];

/// Cases that hold already because their bodies are raw either way.
const RAW_EITHER_WAY: [&str; 3] =
    ["what does not decode is raw", "multipart that does not parse is raw", "exponents beyond 64 bits are raw"];

/// Cases of rules that are not built: forms and multipart (F5), content codings (F6), ignored pointers (F7).
const NOT_BUILT: [&str; 7] = [
    "forms",
    "multipart: the boundary does not count",
    "compressed requests",
    "ignored pointers",
    "form bytes",
    "plain and gzip are one request",
    "br and zstd",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fingerprints {
    #[serde(rename = "about")]
    _about: String,
    cases: Vec<FingerprintCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FingerprintCase {
    name: String,
    #[serde(rename = "rule")]
    _rule: String,
    same: Vec<Request>,
    different: Vec<Request>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    method: String,
    path: String,
    query: String,
    content_type: String,
    #[serde(default)]
    content_encoding: Option<String>,
    body_base64: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    fingerprint_headers: Vec<String>,
    #[serde(default, rename = "ignore")]
    _ignore: Vec<String>,
}

impl Request {
    fn fingerprint(&self) -> Fingerprint {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_str(&self.content_type).unwrap());
        if let Some(coding) = &self.content_encoding {
            headers.insert("content-encoding", HeaderValue::from_str(coding).unwrap());
        }
        for (name, value) in &self.headers {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let named: Vec<HeaderName> = self.fingerprint_headers.iter().map(|name| name.parse().unwrap()).collect();
        let operation = Operation {
            method: &self.method.parse::<Method>().unwrap(),
            path: &self.path,
            query: Some(&self.query),
            headers: &headers,
            body: &base64::engine::general_purpose::STANDARD.decode(&self.body_base64).unwrap(),
        };
        Fingerprint::of(&operation, &Recipe::new(&named).unwrap())
    }
}

#[test]
fn every_fingerprint_vector_of_a_built_rule_holds() {
    let vectors: Fingerprints = serde_json::from_str(include_str!("../vectors/fingerprint.json")).unwrap();
    let mut held = 0;
    for case in &vectors.cases {
        let name = case.name.as_str();
        if NOT_BUILT.contains(&name) {
            continue;
        }
        assert!(BUILT.contains(&name) || RAW_EITHER_WAY.contains(&name), "`{name}` is in no list of this test");
        let first = case.same[0].fingerprint();
        for (index, request) in case.same.iter().enumerate() {
            assert_eq!(request.fingerprint(), first, "{name}: same {index}");
        }
        for (index, request) in case.different.iter().enumerate() {
            assert_ne!(request.fingerprint(), first, "{name}: different {index}");
        }
        held += 1;
    }
    assert_eq!(held, BUILT.len() + RAW_EITHER_WAY.len());
    assert_eq!(vectors.cases.len(), held + NOT_BUILT.len());
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(rename = "about")]
    _about: String,
    cases: Vec<KeyCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyCase {
    name: String,
    sent: String,
    key: Option<String>,
}

#[test]
fn every_key_vector_holds() {
    let vectors: Keys = serde_json::from_str(include_str!("../vectors/keys.json")).unwrap();
    assert!(!vectors.cases.is_empty());
    for case in vectors.cases {
        let key = Key::parse(case.sent.as_bytes(), KeyFormat::Any).ok();
        assert_eq!(key.as_ref().map(Key::as_str), case.key.as_deref(), "{}", case.name);
    }
}
