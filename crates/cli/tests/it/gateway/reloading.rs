//! SIGHUP: a file is taken over whole or not at all, a request sees one configuration from beginning to end, and no retry
//! becomes another request by it (F9).

use std::sync::atomic::{AtomicBool, Ordering};

use oncekey_testkit::{Answer, Call, Client, CountingUpstream};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};
use tokio::task::JoinSet;

use super::stand::{Gateway, order, until};

const GAUGE: &str = "oncekey_config_last_reload_successful";

/// What `/metrics` says on the line that begins so.
async fn metric(gateway: &Gateway, begin: &str) -> Option<String> {
    let text = String::from_utf8(gateway.ask("/metrics").await.body.to_vec()).expect("UTF-8");
    text.lines().find_map(|line| Some(line.strip_prefix(begin)?.trim().to_owned()))
}

fn traced(key: &str, trace: &str) -> Call {
    order(key).header("x-trace", trace)
}

async fn reload(gateway: &mut Gateway, settings: &str) -> String {
    let (taken, said) = gateway.reload(settings).await;
    assert!(taken, "{said:?}");
    said.join("\n")
}

#[tokio::test]
async fn routes_defaults_profile_and_upstream_are_taken_over_on_kept_connections_too() {
    let (one, other) = (CountingUpstream::start().await, CountingUpstream::start().await);
    let mut gateway = Gateway::start("", &format!("upstream = \"{}\"\n", one.url())).await;
    assert_eq!(metric(&gateway, GAUGE).await.as_deref(), Some("1"));
    let client = gateway.client();
    let used = order("\"used\"");
    client.call(&used).await.expect("an answer");
    let mismatch = Call::post("/orders").scope("acc-1").key("\"used\"").json("{}");
    assert_eq!(client.call(&mismatch).await.expect("an answer").status, 409);

    let settings = format!(
        "upstream = \"{}\"\nprofile = \"ietf\"\n[defaults]\nkey = \"required\"\n[[route]]\npath = \"/orders\"\n[[route]]\npath = \"/refunds\"\n",
        other.url()
    );
    reload(&mut gateway, &settings).await;
    assert_eq!(metric(&gateway, GAUGE).await.as_deref(), Some("1"));
    for route in ["/orders", "/refunds"] {
        let counter = format!("oncekey_requests_total{{route=\"{route}\",outcome=\"executed\"}}");
        assert_eq!(metric(&gateway, &counter).await.as_deref(), Some("0"), "{route}");
    }
    let classes = gateway.ask("/api/stats").await.json()["classes"].clone();
    assert_eq!(classes, serde_json::json!({"/orders": "at_most_once", "/refunds": "at_most_once"}));

    assert_eq!(client.call(&mismatch).await.expect("an answer").status, 422);
    assert!(client.call(&used).await.expect("an answer").is_replay());
    let keyless = client.call(&Call::post("/refunds").json("{}")).await.expect("an answer");
    assert_eq!(keyless.problem(), Some("key-missing"));
    assert_eq!(client.call(&order("\"new\"")).await.expect("an answer").status, 201);
    assert_eq!((one.total(), other.total()), (1, 1));

    // The file without the routes guards every path again; what `/refunds` counted stays counted.
    reload(&mut gateway, &format!("upstream = \"{}\"\n", one.url())).await;
    assert_eq!(client.call(&Call::post("/refunds").json("{}")).await.expect("an answer").status, 201);
    assert_eq!(one.total(), 2);
    gateway.end().await;
}

#[tokio::test]
async fn a_wrong_file_is_refused_whole_and_the_log_says_all_that_is_wrong() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "").await;
    let wrong = "profile = \"ietf\"\n[defaults]\nwait = 3\nkey = \"required\"\n[[route]]\npath = \"orders\"\n";
    let (taken, said) = gateway.reload(wrong).await;
    let said = said.join("\n");
    assert!(!taken, "{said}");
    for remark in ["oncekey.toml:3:8: defaults.wait: 3 needs a unit", "oncekey.toml:6:8: route.path: `orders`"] {
        assert!(said.contains(remark), "{said}");
    }
    assert_eq!(metric(&gateway, GAUGE).await.as_deref(), Some("0"));
    gateway.send(&order("\"used\"")).await;
    let mismatch = Call::post("/orders").scope("acc-1").key("\"used\"").json("{}");
    assert_eq!(gateway.send(&mismatch).await.status, 409);
    assert_eq!(gateway.send(&Call::post("/orders").json("{}")).await.status, 201);

    reload(&mut gateway, "profile = \"ietf\"\n").await;
    assert_eq!(metric(&gateway, GAUGE).await.as_deref(), Some("1"));
    assert_eq!(gateway.send(&mismatch).await.status, 422);
    gateway.end().await;
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_stays() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "").await;
    gateway.send(&order("\"k\"")).await;
    let said = reload(&mut gateway, "namespace = \"other\"\nlease = \"1m\"\nprofile = \"stripe\"\n").await;
    assert!(said.contains("namespace, lease"), "{said}");
    // In another namespace the key would be new.
    assert!(gateway.send(&order("\"k\"")).await.is_replay());
    let mismatch = Call::post("/orders").scope("acc-1").key("\"k\"").json("{}");
    assert_eq!(gateway.send(&mismatch).await.status, 400);
    assert_eq!(upstream.total(), 1);
    gateway.end().await;
}

#[tokio::test]
async fn a_route_that_requires_more_than_the_store_promises_is_refused() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "").await;
    let settings = "[[route]]\npath = \"/orders\"\nkey = \"required\"\nrequire = \"exactly_once\"\n";
    let (taken, said) = gateway.reload(settings).await;
    let said = said.join("\n");
    assert!(!taken && said.contains("route /orders: require = "), "{said}");
    assert_eq!(metric(&gateway, GAUGE).await.as_deref(), Some("0"));
    assert_eq!(gateway.send(&Call::post("/orders").json("{}")).await.status, 201, "the key is optional still");
    reload(&mut gateway, &settings.replace("exactly", "at_most")).await;
    assert_eq!(gateway.send(&Call::post("/orders").json("{}")).await.problem(), Some("key-missing"));
    gateway.end().await;
}

#[tokio::test]
async fn a_record_keeps_its_recipe_whatever_is_reloaded() {
    let upstream = CountingUpstream::start().await;
    // Without the cache each retry is judged by what the store has.
    let (plain, traces) =
        ("cache_for = \"0s\"\n", "cache_for = \"0s\"\n[defaults]\nfingerprint.headers = [\"X-Trace\"]\n");
    let mut gateway = Gateway::start(&upstream.url(), plain).await;
    assert_eq!(gateway.send(&traced("\"old\"", "1")).await.status, 201);
    reload(&mut gateway, traces).await;
    assert!(gateway.send(&traced("\"old\"", "2")).await.is_replay());
    // The new recipe is in force: it tells apart what comes now.
    assert_eq!(gateway.send(&traced("\"new\"", "1")).await.status, 201);
    assert_eq!(gateway.send(&traced("\"new\"", "2")).await.problem(), Some("key-reused"));

    reload(&mut gateway, plain).await;
    assert!(gateway.send(&traced("\"new\"", "1")).await.is_replay());
    assert_eq!(gateway.send(&traced("\"new\"", "2")).await.problem(), Some("key-reused"));
    assert!(gateway.send(&traced("\"old\"", "3")).await.is_replay());
    assert_eq!(upstream.total(), 2);
    gateway.end().await;
}

#[tokio::test]
async fn two_gateways_of_different_recipes_agree_on_each_record() {
    let upstream = CountingUpstream::start().await;
    let plain = Gateway::start(&upstream.url(), "").await;
    let traces = plain.second(&upstream.url(), "[defaults]\nfingerprint.headers = [\"X-Trace\"]\n").await;
    plain.send(&traced("\"of-plain\"", "1")).await;
    traces.send(&traced("\"of-traces\"", "1")).await;
    for gateway in [&plain, &traces] {
        assert!(gateway.send(&traced("\"of-plain\"", "2")).await.is_replay());
        assert!(gateway.send(&traced("\"of-traces\"", "1")).await.is_replay());
        assert_eq!(gateway.send(&traced("\"of-traces\"", "2")).await.problem(), Some("key-reused"));
    }
    assert_eq!(upstream.total(), 2);
    traces.end().await;
    plain.end().await;
}

#[tokio::test]
async fn what_runs_ends_under_the_policy_that_it_began_with() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "").await;
    let held = order("\"held\"").header("x-test-gate", "end");
    let client = gateway.client();
    let (first, ()) = tokio::join!(client.call(&held), async {
        upstream.arrived(1).await;
        // From now on a 201 would leave the record `failed`, and a retry would execute.
        reload(&mut gateway, "[defaults]\nretry_status = [201]\n").await;
        upstream.open("end");
    });
    assert_eq!(first.expect("an answer").status, 201);
    assert!(gateway.send(&held).await.is_replay());
    assert_eq!(upstream.total(), 1);
    for execution in 2..4 {
        assert!(!gateway.send(&order("\"later\"")).await.is_replay());
        assert_eq!(upstream.total(), execution);
    }
    gateway.end().await;
}

#[tokio::test]
async fn bounds_of_the_node_are_taken_over() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "max_inflight = 1\n").await;
    let (one, other) = (gateway.client(), gateway.client());
    let held = |key| order(key).header("x-test-gate", "end");
    let (first, second) = (held("\"first\""), held("\"second\""));
    let (first, second, ()) = tokio::join!(one.call(&first), other.call(&second), async {
        upstream.arrived(1).await;
        let said = reload(&mut gateway, "max_inflight = 2\n").await;
        assert!(!said.contains("need a restart"), "{said}");
        upstream.arrived(2).await;
        upstream.open("end");
    });
    assert_eq!((first.expect("an answer").status.as_u16(), second.expect("an answer").status.as_u16()), (201, 201));
    gateway.end().await;
}

#[tokio::test]
async fn the_admin_token_is_read_again_and_a_missing_one_refuses_the_reload() {
    let upstream = CountingUpstream::start().await;
    let kept = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(kept.path(), "first").expect("written");
    let settings = format!("[admin]\ntoken = \"file:{}\"\n", kept.path().display());
    let mut gateway = Gateway::start(&upstream.url(), &settings).await;
    let client = Client::new(gateway.admin);
    let asked = async |token: &str| {
        let call = Call::get("/api/stats").header("authorization", &format!("Bearer {token}"));
        client.call(&call).await.expect("an answer").status.as_u16()
    };
    assert_eq!((asked("first").await, asked("second").await), (200, 401));
    std::fs::write(kept.path(), "second").expect("written");
    reload(&mut gateway, &settings).await;
    assert_eq!((asked("first").await, asked("second").await), (401, 200));
    std::fs::write(kept.path(), "").expect("written");
    let (taken, said) = gateway.reload(&settings).await;
    assert!(!taken && said.iter().any(|line| line.contains("admin.token: file:")), "{said:?}");
    assert_eq!((asked("first").await, asked("second").await, asked("").await), (401, 200, 401));
    gateway.end().await;
}

/// One of two configurations, and what tells in a refusal that it is in force: its status, its type, its fixed field.
struct Face {
    profile: &'static str,
    status: u16,
    headers: &'static str,
}

const FACES: [Face; 2] = [
    Face { profile: "default", status: 409, headers: "" },
    Face { profile: "stripe", status: 400, headers: "\"X-Trace\"" },
];

impl Face {
    fn settings(&self) -> String {
        let Self { profile, headers, .. } = self;
        format!(
            "profile = \"{profile}\"\nproblem_type_base = \"/{profile}/\"\n[defaults]\nfingerprint.headers = [{headers}]\n\
             answer_headers = {{ X-Profile = \"{profile}\" }}\n[[route]]\npath = \"/{profile}\"\n[[route]]\npath = \"/orders\"\n"
        )
    }

    fn is_of(&self, answer: &Answer) -> bool {
        let type_ = format!("/{}/key-reused", self.profile);
        let body = answer.json();
        answer.status == self.status
            && body["type"] == *type_
            && body["status"] == self.status
            && answer.header("x-profile") == Some(self.profile)
    }
}

/// One operation, its retry, another request under its key, and one without: each answered as it must be, whatever is read
/// meanwhile.
async fn four_requests(client: &Client, key: &str) -> Result<(), String> {
    let first = client.call(&traced(key, "1")).await.map_err(|error| format!("{key}, first: {error}"))?;
    let retry = client.call(&traced(key, "1")).await.map_err(|error| format!("{key}, retry: {error}"))?;
    if first.status != 201 || first.is_replay() || !retry.is_replay() || first.body != retry.body {
        return Err(format!("{key}: {first:?}, then {retry:?}"));
    }
    let other = Call::post("/orders").scope("acc-1").key(key).json("{}");
    let other = client.call(&other).await.map_err(|error| format!("{key}, other: {error}"))?;
    if FACES.iter().filter(|face| face.is_of(&other)).count() != 1 {
        return Err(format!("{key}: neither one nor the other configuration: {other:?}"));
    }
    let unguarded = client.call(&Call::get("/anything")).await.map_err(|error| format!("{key}, unguarded: {error}"))?;
    if unguarded.status == 200 { Ok(()) } else { Err(format!("{key}: {unguarded:?}")) }
}

/// What the crowd below would see if answers were torn between configurations, or its requests lost.
#[tokio::test]
async fn control_answers_that_are_torn_and_requests_that_are_lost_are_caught() {
    let upstream = CountingUpstream::start().await;
    for (torn, whole) in [
        ("problem_type_base = \"/stripe/\"", "problem_type_base = \"/default/\""),
        ("X-Profile = \"stripe\"", "X-Profile = \"default\""),
        ("profile = \"stripe\"", "profile = \"default\""),
    ] {
        let settings = FACES[0].settings();
        assert!(settings.contains(whole), "{settings}");
        let gateway = Gateway::start(&upstream.url(), &settings.replacen(whole, torn, 1)).await;
        let caught = four_requests(&gateway.client(), "\"torn\"").await.expect_err(torn);
        assert!(caught.contains("neither one nor the other"), "{caught}");
    }
    let mut gateway = Gateway::start(&upstream.url(), &FACES[0].settings()).await;
    let client = gateway.client();
    four_requests(&client, "\"whole\"").await.expect("nothing is wrong yet");
    gateway.process.kill9().await.expect("killed");
    assert!(four_requests(&client, "\"lost\"").await.is_err());
}

#[tokio::test]
async fn no_request_is_lost_or_answered_wrongly_while_reloads_come_again_and_again() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), &FACES[0].settings()).await;
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let mut crowd = JoinSet::new();
    for number in 0..8 {
        let (client, over) = (gateway.client(), std::sync::Arc::clone(&over));
        crowd.spawn(async move {
            let mut keys = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let key = format!("\"client-{number}-{}\"", keys.len());
                four_requests(&client, &key).await?;
                keys.push(key);
            }
            Ok::<_, String>(keys)
        });
    }
    for round in 1..=60 {
        reload(&mut gateway, &FACES[round % 2].settings()).await;
        let before = upstream.total();
        until("requests under this configuration", || {
            let more = upstream.total() > before + 8;
            std::future::ready(more.then_some(()))
        })
        .await;
        // Several at once count as one or as several; the last that was written is in force in the end.
        for _ in 0..round % 4 {
            gateway.process.hang_up().expect("SIGHUP");
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut operations = 0;
    while let Some(client) = crowd.join_next().await {
        for key in client.expect("no panic").expect("every request is answered as it must be") {
            assert_eq!(upstream.executions("acc-1", &key), 1, "{key}");
            operations += 1;
        }
    }
    assert!(operations > 60, "{operations}");
    assert_eq!(metric(&gateway, GAUGE).await.as_deref(), Some("1"));
    gateway.end().await;
}

/// A pipe that somebody holds open and writes nothing to: the reload waits, and SIGTERM doesn't.
#[tokio::test]
async fn a_file_that_is_never_read_to_its_end_holds_up_no_end() {
    let mut gateway = Gateway::start("http://127.0.0.1:9", "").await;
    std::fs::remove_file(&gateway.file).expect("removed");
    mknodat(CWD, &gateway.file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    gateway.process.hang_up().expect("SIGHUP");
    // There is no writing end before somebody reads.
    let write = || openat(CWD, &gateway.file, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok();
    let _held = until("the reading of the pipe", || std::future::ready(write())).await;
    gateway.end().await;
}

#[tokio::test]
async fn an_emptied_file_is_refused() {
    let upstream = CountingUpstream::start().await;
    let mut gateway = Gateway::start(&upstream.url(), "[defaults]\nscope = [\"static:us\"]\n").await;
    let (taken, said) = gateway.reload("").await;
    assert!(!taken && said.join("\n").contains("nothing is in it any more"), "{said:?}");
    assert_eq!(metric(&gateway, GAUGE).await.as_deref(), Some("0"));
    let call = Call::post("/orders").key("\"k\"").json("{}");
    assert_eq!(gateway.send(&call).await.status, 201, "the scope is the one before");
}
