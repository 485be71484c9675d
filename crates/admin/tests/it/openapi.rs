//! The description of the API against the routes that there are and the answers that they give.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::world::{World, world};

async fn document(world: &World) -> Value {
    let answer = world.get("/api/openapi.json").await;
    assert_eq!((answer.status, answer.headers["content-type"].to_str().unwrap()), (200, "application/json"));
    answer.json()
}

/// The paths that the router's source names.
fn routed() -> BTreeSet<&'static str> {
    let source = include_str!("../../src/lib.rs");
    source.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[tokio::test]
async fn every_route_is_described_and_nothing_else() {
    let world = world().await;
    let document = document(&world).await;
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.keys().map(String::as_str).collect::<BTreeSet<_>>(), routed());
    for (path, methods) in paths {
        let mut described: BTreeSet<_> = methods.as_object().unwrap().keys().map(|m| m.to_uppercase()).collect();
        if described.contains("GET") {
            described.insert("HEAD".to_owned());
        }
        let path = path.replace("{id}", "00000000-0000-8000-8000-000000000000");
        let answer = world.send(Method::PATCH, &path, "").await;
        assert_eq!(answer.status, 405, "{path}");
        let allowed = answer.headers["allow"].to_str().unwrap().split(',').map(|m| m.trim().to_owned()).collect();
        assert_eq!(described, allowed, "{path}");
    }
}

#[tokio::test]
async fn the_words_for_an_unknown_path_name_every_one() {
    let world = world().await;
    let detail = world.get("/nowhere").await.detail();
    for path in routed() {
        assert!(detail.contains(&format!("{path},")) || detail.contains(&format!("{path}.")), "{path}: {detail}");
    }
}

#[tokio::test]
async fn every_answer_has_the_shape_that_is_described() {
    let world = world().await;
    let document = document(&world).await;
    let (completed, unknown) = (world.completed("k-1").await, world.unknown("k-2").await);
    world.processing("acc-2", "k-3").await;
    let shown = format!("/api/records/{completed}");
    let with_body = format!("{shown}?body=true");
    let resolve = format!("/api/records/{unknown}/resolve");
    let calls: [(Method, &str, &str, &str, u16); 19] = [
        (Method::GET, "/api/records", "/api/records", "", 200),
        (Method::GET, "/api/records", "/api/records?limit=0", "", 400),
        (Method::GET, "/api/records/{id}", &shown, "", 200),
        (Method::GET, "/api/records/{id}", &with_body, "", 200),
        (Method::GET, "/api/records/{id}", "/api/records/17", "", 404),
        (Method::POST, "/api/records/{id}/resolve", &resolve, r#"{"as":"failed","reason":"x"}"#, 200),
        (Method::POST, "/api/records/{id}/resolve", &resolve, r#"{"as":"failed"}"#, 409),
        (Method::POST, "/api/records/{id}/resolve", &resolve, "{}", 400),
        (Method::POST, "/api/records/resolve", "/api/records/resolve", r#"{"all":true,"as":"failed"}"#, 200),
        (Method::POST, "/api/records/resolve", "/api/records/resolve", r#"{"as":"failed"}"#, 400),
        (Method::POST, "/api/records/purge", "/api/records/purge", r#"{"filter":{"key":"k-2"},"dry_run":true}"#, 200),
        (Method::POST, "/api/records/purge", "/api/records/purge", "{}", 400),
        (Method::DELETE, "/api/records/{id}", &shown, r#"{"reason":"x"}"#, 200),
        (Method::DELETE, "/api/records/{id}", &shown, "", 404),
        (Method::POST, "/api/sweep", "/api/sweep", "", 200),
        (Method::GET, "/api/audit", "/api/audit", "", 200),
        (Method::GET, "/api/audit", "/api/audit?limit=1", "", 200),
        (Method::GET, "/api/stats", "/api/stats", "", 200),
        (Method::GET, "/api/openapi.json", "/api/openapi.json", "", 200),
    ];
    for (method, path, asked, body, status) in calls {
        let answer = world.send(method.clone(), asked, body).await;
        assert_eq!(answer.status, status, "{method} {asked}: {}", answer.text());
        let operation = &document["paths"][path][method.as_str().to_lowercase()];
        let content = operation["responses"][status.to_string()]["content"].as_object().expect(path);
        let (media_type, described) = content.iter().next().unwrap();
        assert_eq!(answer.headers["content-type"], media_type.as_str(), "{method} {asked}");
        check(&document, &described["schema"], &answer.json(), &format!("{method} {asked}"));
        if !body.is_empty() && status == 200 {
            let asked_for = &operation["requestBody"]["content"]["application/json"]["schema"];
            check(&document, asked_for, &serde_json::from_str(body).unwrap(), &format!("the body of {method} {path}"));
        }
    }
}

/// Holds a value against the part of JSON Schema that the document uses.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Err(wrong) = fits(document, schema, value) {
        panic!("{at}: {wrong} in {value}");
    }
}

fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix("#/components/schemas/").expect("a reference to a schema");
        let referred = document["components"]["schemas"].get(name).ok_or(format!("{name} is not described"))?;
        return fits(document, referred, value);
    }
    if let Some(any) = schema["oneOf"].as_array() {
        let fitting = any.iter().filter(|schema| fits(document, schema, value).is_ok()).count();
        return if fitting == 1 { Ok(()) } else { Err(format!("{fitting} of the kinds fit {value}")) };
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = if schema["type"].is_array() { schema["type"].clone() } else { json!([schema["type"]]) };
    if !kinds.as_array().unwrap().contains(&json!(kind)) {
        return Err(format!("{value} is {kind}, not {kinds}"));
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        return Err(format!("{value} is not one of {}", schema["enum"]));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(document, &schema["items"], item)?;
    }
    let Some(members) = value.as_object() else { return Ok(()) };
    for required in schema["required"].as_array().into_iter().flatten() {
        if !members.contains_key(required.as_str().unwrap()) {
            return Err(format!("{required} is missing"));
        }
    }
    for (name, member) in members {
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(described), _) => fits(document, described, member).map_err(|wrong| format!("{name}: {wrong}"))?,
            (None, Value::Bool(false)) => return Err(format!("{name} is not described")),
            (None, Value::Null) => {}
            (None, rest) => fits(document, rest, member)?,
        }
    }
    Ok(())
}

/// A check that lets everything through checks nothing.
#[tokio::test]
async fn a_shape_that_differs_is_noticed() {
    let document = document(&world().await).await;
    let schema = json!({"$ref": "#/components/schemas/ChangedMany"});
    let right = json!({"matched": 1, "changed": 1, "ids": ["a"], "more": false, "retry": "x"});
    assert_eq!(fits(&document, &schema, &right), Ok(()));
    for (name, value) in [("matched", json!("1")), ("ids", json!([1])), ("more", Value::Null), ("extra", json!(1))] {
        let mut wrong = right.clone();
        wrong[name] = value;
        assert!(fits(&document, &schema, &wrong).is_err(), "{wrong}");
    }
    let mut short = right;
    short.as_object_mut().unwrap().remove("retry");
    assert!(fits(&document, &schema, &short).is_err());
}
