//! Scopes and their sources (S1–S3).

use oncekey_core::{Scope, ScopeError, ScopeSource, ScopeSourceError};

fn source(text: &str) -> Result<String, ScopeSourceError> {
    text.parse::<ScopeSource>().map(|source| source.to_string())
}

#[test]
fn a_header_source_has_one_name_however_it_is_configured() {
    for (configured, name) in [
        ("header:X-Account-Id", "header:X-Account-Id"),
        ("header:x-account-id", "header:X-Account-Id"),
        ("header:X-ACCOUNT-ID", "header:X-Account-Id"),
        ("header:tenant", "header:Tenant"),
        ("header:x--a", "header:X--A"),
        ("header:-", "header:-"),
        ("header:-x-", "header:-X-"),
        ("header:_x.y-1a", "header:_x.y-1a"),
    ] {
        assert_eq!(source(configured).as_deref(), Ok(name));
        assert_eq!(source(name).as_deref(), Ok(name), "a name is read back as itself");
    }
}

#[test]
fn a_static_value_is_no_part_of_the_sources_name() {
    assert_eq!("static:a:b".parse(), Ok(ScopeSource::Static("a:b".into())));
    assert_eq!(source("static:a:b").as_deref(), Ok("static"));
    assert_eq!(source("authorization").as_deref(), Ok("authorization"));
}

#[test]
fn a_cookies_name_keeps_its_case() {
    assert_eq!(source("cookie:Sid").as_deref(), Ok("cookie:Sid"));
    assert_eq!(source("cookie:__Host-sid").as_deref(), Ok("cookie:__Host-sid"));
}

#[test]
fn what_no_request_says_by_itself_is_refused() {
    for text in [
        "",
        "header",
        "static",
        "Authorization",
        "authorization:x",
        "jwt:sub",
        "client-cert",
        "query:a",
        "Header:X-A",
        " header:X-A",
    ] {
        assert_eq!(source(text), Err(ScopeSourceError::Unknown(text.to_owned())));
    }
    let incomplete = ["header:", "header: X-A", "header:X A", "header:é", "static:", "static:a\nb", "cookie:"];
    for text in incomplete.into_iter().chain(["cookie:a b", "cookie:a=b", "cookie:a;b", "cookie: a", "cookie:é"]) {
        assert_eq!(source(text), Err(ScopeSourceError::Incomplete(text.to_owned())));
    }
}

#[test]
fn a_scope_is_1_to_255_characters_without_controls() {
    let new = |value: &str| Scope::new("header:X-Account-Id", value).map(|scope| scope.value().to_owned());
    for value in ["a", "a b, c", "счёт", &"é".repeat(255)] {
        assert_eq!(new(value).as_deref(), Ok(value));
    }
    assert_eq!(new(""), Err(ScopeError::Empty));
    assert_eq!(new(&"é".repeat(256)), Err(ScopeError::TooLong));
    for value in ["a\0", "\t", "a\u{7f}", "\u{85}"] {
        assert_eq!(new(value), Err(ScopeError::Character));
    }
}

#[test]
fn the_source_is_part_of_a_scope() {
    let new = |source, value| Scope::new(source, value).unwrap();
    assert_eq!(new("header:X-A", "1"), new("header:X-A", "1"));
    assert_ne!(new("header:X-A", "1"), new("header:X-B", "1"));
}

#[test]
fn a_credentials_scope_holds_its_sha256_only() {
    assert_eq!(Scope::digest(b"Bearer abc"), "c355dce96c1612880d11940ffdd9014d386c253e0c3652a6cd06a7226f7bd2b6");
    assert_ne!(Scope::digest(b"Bearer abc"), Scope::digest(b"Bearer abd"));
}
