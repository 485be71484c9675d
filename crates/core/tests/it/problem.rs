//! What clients see when something is wrong (rules P).

use http::{HeaderName, StatusCode};
use oncekey_core::problem::{Code, Problem, Profile, Style};
use oncekey_core::{KeyError, RecordId, ScopeError};
use serde_json::{Value, json};

fn body(problem: &Problem) -> Value {
    body_in(problem, &Style::default())
}

fn body_in(problem: &Problem, style: &Style) -> Value {
    serde_json::from_slice(&problem.body(style)).unwrap()
}

/// The table of section 8, written out, and `request-invalid` beside it: the statuses in the profiles `default`, `ietf` and
/// `stripe`.
#[test]
fn every_code_has_the_statuses_and_the_retry_of_the_table() {
    let table = [
        ("key-missing", [400, 400, 400], "new-key"),
        ("key-invalid", [400, 400, 400], "new-key"),
        ("scope-missing", [400, 400, 400], "new-key"),
        ("scope-invalid", [400, 400, 400], "new-key"),
        ("request-invalid", [400, 400, 400], "new-key"),
        ("key-reused", [409, 422, 400], "new-key"),
        ("in-progress", [202, 409, 409], "same-key"),
        ("body-too-large", [413, 413, 413], "new-key"),
        ("response-not-stored", [409, 409, 409], "never"),
        ("upstream-unreachable", [502, 502, 502], "same-key"),
        ("outcome-unknown", [504, 504, 504], "same-key"),
        ("store-unavailable", [503, 503, 503], "same-key"),
        ("overloaded", [503, 503, 503], "same-key"),
        ("quota-exceeded", [429, 429, 429], "same-key"),
        ("record-unreadable", [500, 500, 500], "never"),
    ];
    let statuses = |code: Code| Profile::ALL.map(|profile| code.status(profile).as_u16());
    let codes = Code::ALL.map(|code| (code.as_str(), statuses(code), code.retry().as_str()));
    assert_eq!(codes, table);
}

#[test]
fn a_problem_states_the_status_of_its_profile() {
    for profile in Profile::ALL {
        let style = Style::of(profile);
        for code in Code::ALL {
            assert_eq!(style.status(code), code.status(profile), "{code:?}");
            if style.status(code) != StatusCode::ACCEPTED {
                let stated = body_in(&Problem::new(code), &style)["status"].as_u64();
                assert_eq!(stated, Some(u64::from(code.status(profile).as_u16())), "{code:?}");
            }
        }
        assert_eq!(Profile::named(profile.name()), Some(profile));
    }
    assert_eq!(Profile::named("strip"), None);
}

#[test]
fn a_problem_says_in_json_what_to_do() {
    let id = RecordId::from_bytes([0xab; 16]);
    let problem = Problem::response_not_stored(StatusCode::CREATED).about(id);
    assert_eq!(problem.media_type(&Style::default()), "application/problem+json");
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
    let style = Style { type_base: "https://e.example/p/".to_owned(), ..Style::default() };
    assert_eq!(body_in(&Problem::new(Code::Overloaded), &style)["type"], "https://e.example/p/overloaded");
}

#[test]
fn a_detail_of_any_characters_is_valid_json() {
    let detail: String = ('\0'..='\u{ff}').chain(['"', '\\', '\u{2028}', '😀']).collect();
    assert_eq!(body(&Problem::because(Code::RequestInvalid, detail.clone()))["detail"], detail);
}

#[test]
fn a_request_in_progress_is_a_202_without_the_form_of_a_problem_unless_the_route_says_otherwise() {
    let id = RecordId::from_bytes([0; 16]);
    let problem = Problem::new(Code::InProgress).about(id);
    let expected = json!({"detail": "Processing", "status": "processing", "operation_id": id.to_string()});
    let said_as = |in_progress: u16| {
        let style = Style { in_progress: StatusCode::from_u16(in_progress).unwrap(), ..Style::default() };
        (style.status(Code::InProgress).as_u16(), problem.media_type(&style), body_in(&problem, &style))
    };
    assert_eq!(said_as(202), (202, "application/json", expected));
    for other in [409, 423, 425] {
        let (status, media_type, body) = said_as(other);
        assert_eq!((status, media_type), (other, "application/problem+json"));
        assert_eq!((&body["status"], &body["code"]), (&json!(other), &json!("in-progress")));
    }
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
