//! Who may ask what: every way to ask, on every route, on each kind of listener.

use axum::body::Body;
use http::{Method, Request};
use oncekey_admin::{Access, AdminToken, SameTokens, Tokens};

use crate::world::{World, ask, world, world_with};

const ID: &str = "00000000-0000-8000-8000-000000000000";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Health,
    Metrics,
    /// The dashboard's files, which hold no data.
    Page,
    Read,
    Change,
}

fn routes() -> Vec<(Method, String, Kind)> {
    vec![
        (Method::GET, "/healthz".to_owned(), Kind::Health),
        (Method::GET, "/readyz".to_owned(), Kind::Health),
        (Method::GET, "/readyz?store".to_owned(), Kind::Health),
        (Method::GET, "/metrics".to_owned(), Kind::Metrics),
        (Method::GET, "/".to_owned(), Kind::Page),
        (Method::GET, "/dashboard/main.js".to_owned(), Kind::Page),
        (Method::GET, "/dashboard/nothing.js".to_owned(), Kind::Read),
        (Method::GET, "/api/status".to_owned(), Kind::Read),
        (Method::GET, "/api/mismatches".to_owned(), Kind::Read),
        (Method::GET, "/nowhere".to_owned(), Kind::Read),
        (Method::GET, "/api/records".to_owned(), Kind::Read),
        (Method::HEAD, "/api/records".to_owned(), Kind::Read),
        (Method::GET, "/api/stats".to_owned(), Kind::Read),
        (Method::GET, format!("/api/records/{ID}"), Kind::Read),
        (Method::GET, format!("/api/records/{ID}?body=true"), Kind::Read),
        (Method::DELETE, format!("/api/records/{ID}"), Kind::Change),
        (Method::POST, format!("/api/records/{ID}/resolve"), Kind::Change),
        (Method::GET, "/api/audit".to_owned(), Kind::Read),
        (Method::GET, "/api/openapi.json".to_owned(), Kind::Read),
        (Method::POST, "/api/records/resolve".to_owned(), Kind::Change),
        (Method::POST, "/api/records/purge".to_owned(), Kind::Change),
        (Method::POST, "/api/sweep".to_owned(), Kind::Change),
    ]
}

/// The status that the access check gives, or `None` where the request got through to what it asked for.
async fn refusal(world: &World, method: &Method, path: &str, headers: &[Field]) -> Option<u16> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = ask(&world.router, request.body(Body::from(r#"{"as":"failed"}"#)).unwrap()).await;
    [401, 403, 415].contains(&answer.status).then_some(answer.status)
}

type Field = (&'static str, &'static str);

fn acting(secret: &str, loopback: bool) -> Access {
    Access::new(Tokens { act: Some(AdminToken::new(secret).unwrap()), read: None }, loopback).unwrap()
}

const JSON: Field = ("content-type", "application/json");

#[tokio::test]
async fn a_loopback_listener_without_a_token_is_open_to_local_programs_and_closed_to_web_pages() {
    let world = world().await;
    let host = ("host", "127.0.0.1:9464");
    // Headers; what a read gets; what a change gets.
    let cases: Vec<(Vec<Field>, Option<u16>, Option<u16>)> = vec![
        (vec![host, JSON], None, None),
        (vec![host, ("content-type", "Application/JSON; charset=utf-8")], None, None),
        (vec![("host", "127.0.0.1"), JSON], None, None),
        (vec![("host", "127.8.9.1:1"), JSON], None, None),
        (vec![("host", "localhost:9464"), JSON], None, None),
        (vec![("host", "LocalHost"), JSON], None, None),
        (vec![("host", "[::1]:9464"), JSON], None, None),
        (vec![host, ("origin", "http://127.0.0.1:9464"), JSON], None, None),
        // Led here by DNS, or by a name that only looks local.
        (vec![JSON], Some(403), Some(403)),
        (vec![("host", ""), JSON], Some(403), Some(403)),
        (vec![("host", "evil.example"), JSON], Some(403), Some(403)),
        (vec![("host", "127.0.0.1.evil.example:9464"), JSON], Some(403), Some(403)),
        (vec![("host", "localhost.evil.example"), JSON], Some(403), Some(403)),
        (vec![("host", "localhost@evil.example"), JSON], Some(403), Some(403)),
        (vec![("host", "evil@localhost"), JSON], Some(403), Some(403)),
        (vec![("host", "192.168.0.1:9464"), JSON], Some(403), Some(403)),
        (vec![("host", "0.0.0.0:9464"), JSON], Some(403), Some(403)),
        (vec![("host", "[::2]:9464"), JSON], Some(403), Some(403)),
        (vec![host, ("host", "evil.example"), JSON], Some(403), Some(403)),
        // Pages of other origins, also of other programs on this machine.
        (vec![host, ("origin", "http://evil.example"), JSON], Some(403), Some(403)),
        (vec![host, ("origin", "null"), JSON], Some(403), Some(403)),
        (vec![host, ("origin", ""), JSON], Some(403), Some(403)),
        (vec![host, ("origin", "http://127.0.0.1:3000"), JSON], Some(403), Some(403)),
        (vec![host, ("origin", "https://127.0.0.1:9464"), JSON], Some(403), Some(403)),
        (vec![host, ("origin", "http://localhost:9464"), JSON], Some(403), Some(403)),
        (
            vec![host, ("origin", "http://127.0.0.1:9464"), ("origin", "http://evil.example"), JSON],
            Some(403),
            Some(403),
        ),
        // What a page can send without asking first.
        (vec![host], None, Some(415)),
        (vec![host, ("content-type", "text/plain")], None, Some(415)),
        (vec![host, ("content-type", "text/plain; application/json")], None, Some(415)),
        (vec![host, ("content-type", "application/jsonp")], None, Some(415)),
        (vec![host, JSON, ("content-type", "text/plain")], None, Some(415)),
    ];
    for (headers, read, change) in cases {
        for (method, path, kind) in routes() {
            let expected = match kind {
                Kind::Health => None,
                Kind::Metrics | Kind::Page | Kind::Read => read,
                Kind::Change => change,
            };
            assert_eq!(refusal(&world, &method, &path, &headers).await, expected, "{method} {path} {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_token_is_asked_of_everyone_for_everything_but_health_and_metrics() {
    let world = world_with(acting("s3cret\n", true)).await;
    let cases: Vec<(Vec<Field>, bool)> = vec![
        (vec![("authorization", "Bearer s3cret")], true),
        (vec![("authorization", "bearer  s3cret ")], true),
        (vec![("authorization", "Bearer s3cret"), ("host", "admin.example"), ("origin", "http://evil.example")], true),
        (vec![], false),
        (vec![("host", "127.0.0.1:9464"), JSON], false),
        (vec![("authorization", "Bearer s3cre")], false),
        (vec![("authorization", "Bearer s3cret2")], false),
        (vec![("authorization", "Bearer S3CRET")], false),
        (vec![("authorization", "Bearer ")], false),
        (vec![("authorization", "Bearer")], false),
        (vec![("authorization", "s3cret")], false),
        (vec![("authorization", "Basic s3cret")], false),
        (vec![("authorization", "Bearer s3cret"), ("authorization", "Bearer other")], false),
        (vec![("cookie", "token=s3cret; authorization=Bearer s3cret")], false),
    ];
    for (headers, lets_in) in cases {
        for (method, path, kind) in routes() {
            let open = lets_in || matches!(kind, Kind::Health | Kind::Metrics | Kind::Page);
            let expected = if open { None } else { Some(401) };
            assert_eq!(refusal(&world, &method, &path, &headers).await, expected, "{method} {path} {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_refusal_for_want_of_a_token_names_the_scheme() {
    let world = world_with(acting("s3cret", false)).await;
    let answer = world.get("/api/records").await;
    assert_eq!(answer.status, 401);
    assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"oncekey admin\"");
    assert!(answer.detail().contains("Authorization: Bearer"));
}

#[tokio::test]
async fn another_address_without_a_token_serves_health_and_metrics_only() {
    let world = world_with(Access::new(Tokens::default(), false).unwrap()).await;
    for headers in [vec![], vec![("host", "127.0.0.1:9464"), JSON], vec![("authorization", "Bearer s3cret"), JSON]] {
        for (method, path, kind) in routes() {
            let open = matches!(kind, Kind::Health | Kind::Metrics);
            let expected = if open { None } else { Some(403) };
            assert_eq!(refusal(&world, &method, &path, &headers).await, expected, "{method} {path} {headers:?}");
        }
    }
    assert!(world.get("/api/records").await.detail().contains("admin.token"));
}

#[test]
fn an_empty_token_is_refused_and_none_is_shown_in_debug_output() {
    assert!(AdminToken::new("").is_err());
    assert!(AdminToken::new(" \n").is_err());
    assert_eq!(format!("{:?}", acting("s3cret", true)), "Tokens(Tokens { act: Some(AdminToken), read: None })");
}

fn both(act: Option<&str>, read: Option<&str>) -> Result<Access, SameTokens> {
    let token = |secret: Option<&str>| secret.map(|secret| AdminToken::new(secret).unwrap());
    Access::new(Tokens { act: token(act), read: token(read) }, true)
}

#[tokio::test]
async fn the_reading_token_looks_and_the_acting_one_changes() {
    let world = world_with(both(Some("s3cret"), Some("l00k")).unwrap()).await;
    for (presented, read, change) in [
        ("Bearer s3cret", None, None),
        ("Bearer l00k", None, Some(403)),
        ("Bearer l00", Some(401), Some(401)),
        ("Bearer s3cretl00k", Some(401), Some(401)),
        ("Basic l00k", Some(401), Some(401)),
    ] {
        for (method, path, kind) in routes() {
            let expected = match kind {
                Kind::Health | Kind::Metrics | Kind::Page => None,
                Kind::Read => read,
                Kind::Change => change,
            };
            let headers = [("authorization", presented), JSON];
            assert_eq!(refusal(&world, &method, &path, &headers).await, expected, "{method} {path} {presented}");
        }
    }
}

#[tokio::test]
async fn with_the_reading_token_alone_nobody_changes_anything() {
    let world = world_with(both(None, Some("l00k")).unwrap()).await;
    for (method, path, kind) in routes() {
        let expected = (kind == Kind::Change).then_some(403);
        let headers = [("authorization", "Bearer l00k"), ("host", "127.0.0.1:9464"), JSON];
        assert_eq!(refusal(&world, &method, &path, &headers).await, expected, "{method} {path}");
        let expected = matches!(kind, Kind::Read | Kind::Change).then_some(401);
        assert_eq!(refusal(&world, &method, &path, &headers[1..]).await, expected, "{method} {path} without a token");
    }
}

#[test]
fn one_token_for_both_roles_is_refused() {
    assert_eq!(both(Some("s3cret"), Some("s3cret\n")).unwrap_err(), SameTokens);
    assert!(both(None, None).is_ok());
}
