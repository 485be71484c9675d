//! Profiles, the base of types and fixed fields, on what the layer answers and on what the gateway answers without it
//! (section 8, W2, P4).

use oncekey_testkit::{Answer, Call, CountingUpstream};

use super::stand::{Gateway, order};

fn type_of(answer: &Answer) -> String {
    answer.json()["type"].as_str().expect("a type").to_owned()
}

#[tokio::test]
async fn a_profile_chooses_the_statuses() {
    let upstream = CountingUpstream::start().await;
    for (profile, reused, running) in [("default", 409, 202), ("ietf", 422, 409), ("stripe", 400, 409)] {
        let settings = format!("profile = \"{profile}\"\n[defaults]\nwait = \"0s\"\n");
        let gateway = Gateway::start(&upstream.url(), &settings).await;
        gateway.send(&order("\"used\"")).await;
        let other = Call::post("/orders").scope("acc-1").key("\"used\"").json("{}");
        let refused = gateway.send(&other).await;
        assert_eq!((refused.status.as_u16(), refused.problem()), (reused, Some("key-reused")), "{profile}");

        let before = upstream.total();
        let slow = order("\"slow\"").header("x-test-gate", profile);
        let client = gateway.client();
        let (first, ()) = tokio::join!(client.call(&slow), async {
            upstream.arrived(before + 1).await;
            let again = gateway.send(&slow).await;
            assert_eq!((again.status.as_u16(), again.problem()), (running, Some("in-progress")), "{profile}");
            assert_eq!(again.header("retry-after"), Some("2"), "{profile}");
            let media_type = if running == 202 { "application/json" } else { "application/problem+json" };
            assert_eq!(again.header("content-type"), Some(media_type), "{profile}");
            upstream.open(profile);
        });
        assert_eq!(first.expect("an answer").status, 201);
        gateway.end().await;
    }
}

#[tokio::test]
async fn what_no_route_answers_looks_as_the_defaults_say() {
    // Nobody listens there any more.
    let gone = oncekey_testkit::free_address().expect("a port");
    let settings = "profile = \"ietf\"\nproblem_type_base = \"https://errors.example/\"\n[defaults]\nretry_after = \"7s\"\n\
                    answer_headers = { Access-Control-Allow-Origin = \"https://shop.example\" }\n\
                    [[route]]\npath = \"/orders\"\nproblem_type_base = \"/own/\"\nretry_after = \"9s\"\nanswer_headers = []\n";
    let gateway = Gateway::start(&format!("http://{gone}"), settings).await;

    let unguarded = gateway.send(&Call::get("/anything")).await;
    assert_eq!((unguarded.status.as_u16(), unguarded.problem()), (502, Some("upstream-unreachable")));
    assert_eq!(type_of(&unguarded), "https://errors.example/upstream-unreachable");
    assert_eq!(unguarded.header("retry-after"), Some("7"));
    assert_eq!(unguarded.header("access-control-allow-origin"), Some("https://shop.example"));

    let invalid = gateway.exchange("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await;
    assert_eq!(invalid.status, 400);
    let fields = String::from_utf8_lossy(&invalid.body).into_owned();
    assert!(fields.contains("\"https://errors.example/request-invalid\""), "{fields}");

    let guarded = gateway.send(&order("\"k\"")).await;
    assert_eq!((guarded.status.as_u16(), type_of(&guarded).as_str()), (502, "/own/upstream-unreachable"));
    assert_eq!(guarded.header("retry-after"), Some("9"));
    assert_eq!(guarded.header("access-control-allow-origin"), None);
    gateway.end().await;
}
