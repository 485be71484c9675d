//! Spans and trace context, end to end: what a collector gets, what the upstream gets, and what either costs a request when the
//! collector is away.

pub(crate) mod collector;

use std::net::TcpListener;

use collector::{Collector, Exported};
use futures_util::future::{Either, select};
use oncekey_testkit::{CountingUpstream, PATIENCE, free_address};
use rusqlite::{Connection, OpenFlags};

use super::stand::{Gateway, oncekey, order};

const CLIENT: [&str; 2] = [
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
];

/// What a span may say; anything else needs a look at P2 first.
const ATTRIBUTES: [&str; 7] = [
    "http.request.method",
    "http.response.status_code",
    "oncekey.attempt",
    "oncekey.event",
    "oncekey.operation_id",
    "oncekey.outcome",
    "oncekey.route",
];

/// The environment of a gateway whose spans go to a collector without delay.
fn exporting<'a>(collector: &'a str, protocol: &'a str) -> [(&'a str, &'a str); 3] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
    ]
}

/// The trace and the span that a `traceparent` names.
fn parts(parent: &str) -> (&str, &str) {
    let mut parts = parent.split('-').skip(1);
    (parts.next().expect("a trace"), parts.next().expect("a span"))
}

fn only<'a>(spans: &'a [Exported], name: &str, trace: &str) -> &'a Exported {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name && span.trace == trace).collect();
    assert_eq!(found.len(), 1, "spans {name} of {trace} among {spans:#?}");
    found[0]
}

/// The head of the one recorded response, as it is kept.
fn kept_head(gateway: &Gateway) -> String {
    let database =
        Connection::open_with_flags(gateway.store_file(), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("it opens");
    let head: Vec<u8> = database.query_row("SELECT head FROM responses", (), |row| row.get(0)).expect("one response");
    String::from_utf8(head).expect("text")
}

#[tokio::test]
async fn a_replay_on_another_node_points_back_at_the_execution_that_the_upstream_saw() {
    let (upstream, collector) = (CountingUpstream::start().await, Collector::http().await);
    let url = collector.url();
    let settings = "[[route]]\npath = \"/orders\"\n";
    let one = Gateway::within(&exporting(&url, "http/protobuf"), &upstream.url(), settings).await;
    let two = one.second_within(&exporting(&url, "http/protobuf"), &upstream.url(), settings).await;
    let first = one.send(&order("k").header("traceparent", CLIENT[0]).header("tracestate", "vendor=1")).await;
    let replay = two.send(&order("k").header("traceparent", CLIENT[1])).await;
    assert_eq!((first.is_replay(), replay.is_replay()), (false, true));
    assert_eq!(first.header("traceparent").or(replay.header("traceparent")), None);
    let id = first.header("oncekey-operation-id").expect("an id").to_owned();
    one.end().await;
    two.end().await;

    // Both have drained: nothing is on its way any more.
    let spans = collector.spans();
    let ((trace, client), (later, later_client)) = (parts(CLIENT[0]), parts(CLIENT[1]));
    let request = only(&spans, "POST", trace);
    assert_eq!((request.parent.as_str(), request.kind, request.is_error), (client, 2, false));
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.response.status_code", "201"),
        ("oncekey.route", "/orders"),
        ("oncekey.outcome", "executed"),
        ("oncekey.operation_id", id.as_str()),
    ] {
        assert_eq!(request.attribute(name), Some(value), "{name}");
    }
    for (name, outcome) in [("claim", "granted"), ("execute", "completed"), ("record", "written")] {
        let step = only(&spans, name, trace);
        assert_eq!((&step.parent, step.attribute("oncekey.outcome")), (&request.span, Some(outcome)), "{name}");
        assert_eq!(step.attribute("oncekey.operation_id"), Some(id.as_str()), "{name}");
    }
    let execution = only(&spans, "execute", trace);
    assert_eq!(
        (execution.attribute("oncekey.attempt"), execution.attribute("oncekey.route")),
        (Some("1"), Some("/orders"))
    );
    let arrivals = upstream.arrivals();
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].headers["traceparent"], format!("00-{trace}-{}-01", execution.span));
    assert_eq!(arrivals[0].headers["tracestate"], "vendor=1");

    let repeated = only(&spans, "POST", later);
    assert_eq!((repeated.parent.as_str(), repeated.attribute("oncekey.outcome")), (later_client, Some("replayed")));
    let replayed = only(&spans, "replay", later);
    assert_eq!(replayed.parent, repeated.span);
    assert_eq!(replayed.links, [(execution.trace.clone(), execution.span.clone())]);
    assert_eq!(only(&spans, "claim", later).attribute("oncekey.outcome"), Some("held"));
    for span in &spans {
        assert_eq!(span.service, "oncekey");
        let strange: Vec<_> = span.attributes.keys().filter(|name| !ATTRIBUTES.contains(&name.as_str())).collect();
        assert!(strange.is_empty(), "{strange:?} of {span:?}");
    }
}

#[tokio::test]
async fn a_duplicate_that_waits_is_a_span_and_points_at_what_it_waited_for() {
    let (upstream, collector) = (CountingUpstream::start().await, Collector::http().await);
    let url = collector.url();
    let settings = "[defaults]\nwait = \"60s\"\nmax_waiters = 1\n";
    let gateway = Gateway::within(&exporting(&url, "http/protobuf"), &upstream.url(), settings).await;
    let call = |client: &str| order("k").header("x-test-gate", "g").header("traceparent", client);
    let (slow, duplicate) = (call(CLIENT[0]), call(CLIENT[1]));
    let duplicates = async {
        upstream.arrived(1).await;
        // Only one of them may wait, and the other one is told so while it does.
        let (one, other) = (gateway.send(&duplicate), gateway.send(&duplicate));
        let (one, other) = (std::pin::pin!(one), std::pin::pin!(other));
        let (turned_away, waiting) = match select(one, other).await {
            Either::Left((answer, other)) => (answer, Either::Left(other)),
            Either::Right((answer, one)) => (answer, Either::Right(one)),
        };
        assert_eq!(turned_away.problem(), Some("in-progress"));
        upstream.open("g");
        waiting.await
    };
    let (first, waited) = tokio::join!(gateway.send(&slow), duplicates);
    assert_eq!((first.is_replay(), waited.is_replay()), (false, true));
    gateway.end().await;

    let spans = collector.spans();
    let ((trace, _), (later, _)) = (parts(CLIENT[0]), parts(CLIENT[1]));
    let with = |outcome: &str| {
        let found = spans.iter().find(|span| span.trace == later && span.attribute("oncekey.outcome") == Some(outcome));
        found.unwrap_or_else(|| panic!("no {outcome} in {spans:#?}"))
    };
    let (wait, request) = (with("answered"), with("waited"));
    assert_eq!((wait.name.as_str(), request.name.as_str(), &wait.parent), ("wait", "POST", &request.span));
    let (execution, replay) = (only(&spans, "execute", trace), only(&spans, "replay", later));
    assert_eq!(replay.links, [(execution.trace.clone(), execution.span.clone())]);
    assert_eq!(replay.parent, request.span);
}

/// Whatever the route makes of it, the upstream is told the span of this request, not that of the client.
#[tokio::test]
async fn requests_without_a_key_or_a_route_are_spans_too() {
    let (upstream, collector) = (CountingUpstream::start().await, Collector::http().await);
    let url = collector.url();
    let settings = "[[route]]\npath = \"/orders\"\nkey = \"optional\"\n";
    let environment = [
        &exporting(&url, "http/protobuf")[..],
        &[("OTEL_SERVICE_NAME", "shop"), ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a")],
    ]
    .concat();
    let gateway = Gateway::within(&environment, &upstream.url(), settings).await;
    let no_key = oncekey_testkit::Call::post("/orders").header("traceparent", CLIENT[0]);
    let unguarded = oncekey_testkit::Call::get("/orders/7?q=1").header("traceparent", CLIENT[1]);
    for call in [&no_key, &unguarded] {
        assert!(gateway.send(call).await.status.is_success());
    }
    let garbled =
        oncekey_testkit::Call::get("/orders/7").header("traceparent", "00-xyz-1-01").header("tracestate", "a=1");
    assert!(gateway.send(&garbled).await.status.is_success());
    gateway.end().await;
    let spans = collector.spans();
    let arrivals = upstream.arrivals();
    for (client, (method, route, outcome), arrival) in
        [(CLIENT[0], ("POST", "/orders", "no_key"), 0), (CLIENT[1], ("GET", "-", "unguarded"), 1)]
    {
        let (trace, parent) = parts(client);
        let request = only(&spans, method, trace);
        assert_eq!((request.parent.as_str(), request.attribute("oncekey.route")), (parent, Some(route)));
        assert_eq!(request.attribute("oncekey.outcome"), Some(outcome));
        assert_eq!(arrivals[arrival].headers["traceparent"], format!("00-{trace}-{}-01", request.span));
        assert_eq!(request.service, "shop");
    }
    // Where the client's is wrong a new trace begins, and what belongs to the old one is left out.
    let begun = spans.iter().find(|span| span.parent.is_empty()).expect("a trace that begins here");
    assert_eq!(arrivals[2].headers["traceparent"], format!("00-{}-{}-01", begun.trace, begun.span));
    assert_eq!(arrivals[2].headers.get("tracestate"), None);
    assert_eq!(collector.header("x-tenant").as_deref(), Some("a"));
}

#[tokio::test]
async fn without_a_collector_context_passes_through_and_nothing_of_it_is_kept() {
    let upstream = CountingUpstream::start().await;
    let gateway = Gateway::start(&upstream.url(), "").await;
    gateway.send(&order("k").header("traceparent", CLIENT[0]).header("tracestate", "vendor=1")).await;
    let arrivals = upstream.arrivals();
    assert_eq!(arrivals[0].headers["traceparent"], CLIENT[0]);
    assert_eq!(arrivals[0].headers["tracestate"], "vendor=1");
    assert!(kept_head(&gateway).starts_with("1 201 stored\n"), "{}", kept_head(&gateway));
}

/// What a client leaves out of its trace is left out here, and told the upstream so; there is nothing to point back at.
#[tokio::test]
async fn an_execution_outside_the_sample_is_not_exported_and_not_kept() {
    let (upstream, collector) = (CountingUpstream::start().await, Collector::http().await);
    let url = collector.url();
    let gateway = Gateway::within(&exporting(&url, "http/protobuf"), &upstream.url(), "").await;
    let (trace, _) = parts(CLIENT[0]);
    gateway.send(&order("k").header("traceparent", &CLIENT[0].replace("-01", "-00"))).await;
    assert!(kept_head(&gateway).starts_with("1 201 stored\n"), "{}", kept_head(&gateway));
    let told = upstream.arrivals()[0].headers["traceparent"].to_str().expect("text").to_owned();
    assert!(told.starts_with(&format!("00-{trace}-")) && told.ends_with("-00"), "{told}");
    gateway.end().await;
    assert_eq!(collector.spans(), []);
}

#[tokio::test]
async fn spans_travel_over_grpc_too() {
    let (upstream, collector) = (CountingUpstream::start().await, Collector::grpc().await);
    let url = collector.url();
    let gateway = Gateway::within(&exporting(&url, "grpc"), &upstream.url(), "").await;
    gateway.send(&order("k").header("traceparent", CLIENT[0])).await;
    let execution = collector.named("execute", 1).await;
    assert_eq!(execution[0].trace, parts(CLIENT[0]).0);
    gateway.end().await;
}

/// A collector that takes connections and says nothing, and one that isn't there: requests are answered, and the end comes.
#[tokio::test]
async fn a_collector_that_hangs_or_is_away_fails_no_request_and_holds_up_no_end() {
    let upstream = CountingUpstream::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let away = free_address().expect("a port");
    for address in [silent.local_addr().expect("an address"), away] {
        for protocol in ["http/protobuf", "grpc"] {
            let url = format!("http://{address}");
            // Far less room than there are spans.
            let full = [("OTEL_BSP_MAX_QUEUE_SIZE", "16"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")];
            let environment = [&exporting(&url, protocol)[..], &full[..]].concat();
            let mut gateway = Gateway::within(&environment, &upstream.url(), "").await;
            for n in 0..40 {
                let key = format!("{address}-{}-{n}", protocol.len());
                assert_eq!(gateway.send(&order(&key)).await.status, 201);
            }
            if address == away {
                gateway.process.stderr().wait_for("spans can't be exported").await.expect("it is said");
            }
            gateway.process.terminate().expect("SIGTERM");
            assert!(gateway.process.exited(PATIENCE).await.expect("it ends").success());
            let log = gateway.process.stderr().whole().await;
            let said = log.iter().filter(|line| line.contains("spans can't be exported")).count();
            assert!(said <= 1, "{log:?}");
        }
    }
}

#[test]
fn what_is_asked_of_the_exporter_and_is_not_here_is_refused_at_start() {
    for (name, value) in [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "no url at all")] {
        let mut serve = oncekey();
        serve.args(["serve", "--upstream", "http://127.0.0.1:1", "--store", "memory:"]).env(name, value);
        let refused = serve.output().expect("it runs");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(64), "{told}");
        assert!(told.contains("OTEL_"), "{told}");
    }
    // Other commands export nothing, and have nothing against it.
    let other = oncekey().arg("check-config").env("OTEL_TRACES_EXPORTER", "zipkin").output().expect("it runs");
    assert_eq!(other.status.code(), Some(0), "{}", String::from_utf8_lossy(&other.stderr));
}
