//! The shared vectors: keys (K2, K3) and fingerprints (F1–F8).

use base64::Engine;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncekey_core::fingerprint::{Body, Operation, Pointer};
use oncekey_core::{Fingerprint, Key, KeyFormat, Recipe};
use serde::Deserialize;

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
    #[serde(default)]
    ignore: Vec<String>,
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
        let ignore: Vec<Pointer> = self.ignore.iter().map(|pointer| pointer.parse().unwrap()).collect();
        let sent = base64::engine::general_purpose::STANDARD.decode(&self.body_base64).unwrap();
        let operation = Operation {
            method: &self.method.parse::<Method>().unwrap(),
            path: &self.path,
            query: Some(&self.query),
            headers: &headers,
            body: &Body::decode(&headers, &sent, 1024 * 1024).unwrap(),
        };
        Fingerprint::of(&operation, &Recipe::new(&named).unwrap().ignoring(ignore))
    }
}

#[test]
fn every_fingerprint_vector_holds() {
    let vectors: Fingerprints = serde_json::from_str(include_str!("../vectors/fingerprint.json")).unwrap();
    assert!(!vectors.cases.is_empty());
    for FingerprintCase { name, same, different, .. } in &vectors.cases {
        let first = same[0].fingerprint();
        for (index, request) in same.iter().enumerate() {
            assert_eq!(request.fingerprint(), first, "{name}: same {index}");
        }
        for (index, request) in different.iter().enumerate() {
            assert_ne!(request.fingerprint(), first, "{name}: different {index}");
        }
    }
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
