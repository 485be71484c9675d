//! What clients see when something is wrong (rules P).

use http::{HeaderName, StatusCode};
use oncekey_core::problem::{Code, Problem, TYPE_BASE};
use oncekey_core::{KeyError, RecordId, ScopeError};
use serde_json::{Value, json};

fn body(problem: &Problem) -> Value {
    serde_json::from_slice(&problem.body(TYPE_BASE)).unwrap()
}

/// The table of section 8, written out, and `request-invalid` beside it.
#[test]
fn every_code_has_the_status_and_the_retry_of_the_table() {
    let table = [
        ("key-missing", 400, "new-key"),
        ("key-invalid", 400, "new-key"),
        ("scope-missing", 400, "new-key"),
        ("scope-invalid", 400, "new-key"),
        ("request-invalid", 400, "new-key"),
        ("key-reused", 409, "new-key"),
        ("in-progress", 202, "same-key"),
        ("body-too-large", 413, "new-key"),
        ("response-not-stored", 409, "never"),
        ("upstream-unreachable", 502, "same-key"),
        ("outcome-unknown", 504, "same-key"),
        ("store-unavailable", 503, "same-key"),
        ("overloaded", 503, "same-key"),
        ("record-unreadable", 500, "never"),
    ];
    let codes = Code::ALL.map(|code| (code.as_str(), code.status().as_u16(), code.retry().as_str()));
    assert_eq!(codes, table);
}

#[test]
fn a_problem_says_in_json_what_to_do() {
    let id = RecordId::from_bytes([0xab; 16]);
    let problem = Problem::response_not_stored(StatusCode::CREATED).about(id);
    assert_eq!(problem.media_type(), "application/problem+json");
    assert_eq!(
        body(&problem),
        json!({
            "type": "urn:oncekey:problem:response-not-stored",
            "title": "Response not stored",
            "status": 409,
            "detail": problem.detail,
            "code": "response-not-stored",
            "retry": "never",
            "operation_id": "abababab-abab-abab-abab-abababababab",
            "original_status": 201,
        })
    );
}

#[test]
fn what_a_problem_does_not_know_is_absent_from_it() {
    let members = body(&Problem::new(Code::KeyReused));
    assert!(members.get("operation_id").is_none() && members.get("original_status").is_none());
}

#[test]
fn the_type_base_can_be_replaced() {
    let body: Value = serde_json::from_slice(&Problem::new(Code::Overloaded).body("https://e.example/p/")).unwrap();
    assert_eq!(body["type"], "https://e.example/p/overloaded");
}

#[test]
fn a_detail_of_any_characters_is_valid_json() {
    let detail: String = ('\0'..='\u{ff}').chain(['"', '\\', '\u{2028}', '😀']).collect();
    assert_eq!(body(&Problem::because(Code::RequestInvalid, detail.clone()))["detail"], detail);
}

#[test]
fn a_request_in_progress_is_a_202_without_the_form_of_a_problem_unless_the_route_says_otherwise() {
    let id = RecordId::from_bytes([0; 16]);
    let accepted = Problem::in_progress(StatusCode::ACCEPTED).about(id);
    assert_eq!(accepted.media_type(), "application/json");
    let expected = json!({"detail": "Processing", "status": "processing", "operation_id": id.to_string()});
    assert_eq!(body(&accepted), expected);

    let conflict = Problem::in_progress(StatusCode::CONFLICT).about(id);
    assert_eq!(conflict.media_type(), "application/problem+json");
    assert_eq!(body(&conflict)["status"], 409);
    assert_eq!(body(&conflict)["code"], "in-progress");
}

#[test]
fn details_name_what_was_looked_for_and_what_to_change() {
    let detail = Problem::scope_missing(["header:X-Account-Id", "authorization"]).detail;
    assert!(detail.contains("header:X-Account-Id, then authorization") && detail.contains("`scope`"), "{detail}");
    let detail = Problem::key_missing(&HeaderName::from_static("idempotency-key")).detail;
    assert!(detail.contains("Idempotency-Key"), "{detail}");
    let detail = Problem::key_invalid(KeyError::TooLong).detail;
    assert!(detail.contains("longer than 255 characters"), "{detail}");
    let detail = Problem::scope_invalid("header:X-Account-Id", ScopeError::TooLong).detail;
    assert!(detail.contains("X-Account-Id") && detail.contains("longer than 255 characters"), "{detail}");
    assert!(Problem::body_too_large(1_048_576).detail.contains("1048576"));
    assert!(Problem::new(Code::OutcomeUnknown).detail.contains("do not repeat it under a new key"));
}

#[test]
fn every_code_has_a_detail_and_a_title_of_its_own() {
    let mut said: Vec<_> =
        Code::ALL.iter().flat_map(|code| [Problem::new(*code).detail, code.title().to_owned()]).collect();
    assert!(said.iter().all(|text| !text.is_empty()));
    said.sort();
    said.dedup();
    assert_eq!(said.len(), 2 * Code::ALL.len());
}
