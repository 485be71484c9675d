//! A collector of spans as a test needs one: it takes OTLP over HTTP or gRPC, and remembers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use oncekey_testkit::PATIENCE;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A span as it was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exported {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) span: String,
    /// Empty where it has none.
    pub(crate) parent: String,
    pub(crate) kind: i32,
    pub(crate) is_error: bool,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The trace and span of each link.
    pub(crate) links: Vec<(String, String)>,
    /// The service that it says it is of.
    pub(crate) service: String,
}

impl Exported {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

/// What came, and from whom.
#[derive(Clone, Debug, Default)]
struct Taken {
    spans: Vec<Exported>,
    /// The messages as they came, in their encoding.
    raw: Vec<Vec<u8>>,
    headers: Vec<HeaderMap>,
}

/// A collector on a free port, until it is dropped.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    taken: watch::Sender<Taken>,
    _serving: JoinSet<()>,
}

impl Collector {
    /// One that takes `http/protobuf`.
    pub(crate) async fn http() -> Self {
        let (listener, taken, mut serving) = prepared().await;
        let address = listener.local_addr().expect("an address");
        let noted = taken.clone();
        let take = move |headers: HeaderMap, body: Bytes| async move {
            let request = ExportTraceServiceRequest::decode(body).expect("a message of OTLP");
            note(&noted, request, headers);
            ExportTraceServiceResponse::default().encode_to_vec()
        };
        let router = axum::Router::new().route("/v1/traces", post(take));
        serving.spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { address, taken, _serving: serving }
    }

    /// One that takes gRPC.
    pub(crate) async fn grpc() -> Self {
        let (listener, taken, mut serving) = prepared().await;
        let address = listener.local_addr().expect("an address");
        let service = TraceServiceServer::new(Grpc(taken.clone()));
        serving.spawn(async move {
            let connections = tonic::transport::server::TcpIncoming::from(listener);
            let served = tonic::transport::Server::builder().add_service(service).serve_with_incoming(connections);
            served.await.expect("it serves");
        });
        Self { address, taken, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Exported> {
        self.taken.borrow().spans.clone()
    }

    /// Everything that came, as one text in which a canary would be found.
    pub(crate) fn text(&self) -> String {
        let taken = self.taken.borrow();
        taken.raw.iter().map(|message| String::from_utf8_lossy(message).into_owned()).collect()
    }

    /// The field of the first export.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let taken = self.taken.borrow();
        Some(taken.headers.first()?.get(name)?.to_str().ok()?.to_owned())
    }

    /// Waits until so many spans of a name have come, and gives them.
    pub(crate) async fn named(&self, name: &str, count: usize) -> Vec<Exported> {
        let mut taken = self.taken.subscribe();
        let is_named = |taken: &Taken| taken.spans.iter().filter(|span| span.name == name).cloned().collect::<Vec<_>>();
        let came = tokio::time::timeout(PATIENCE, taken.wait_for(|taken| is_named(taken).len() >= count)).await;
        let came =
            came.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {count} spans {name}")).expect("it is there");
        is_named(&came)
    }
}

async fn prepared() -> (TcpListener, watch::Sender<Taken>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    (listener, watch::Sender::default(), JoinSet::new())
}

struct Grpc(watch::Sender<Taken>);

#[tonic::async_trait]
impl TraceService for Grpc {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let headers = request.metadata().clone().into_headers();
        note(&self.0, request.into_inner(), headers);
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

fn note(taken: &watch::Sender<Taken>, request: ExportTraceServiceRequest, headers: HeaderMap) {
    let raw = request.encode_to_vec();
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let attributes = attributes(&resource.resource.unwrap_or_default().attributes);
        let service = attributes.get("service.name").cloned().unwrap_or_default();
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Exported {
                name: span.name,
                trace: hex(&span.trace_id),
                span: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind,
                is_error: span.status.is_some_and(|status| status.code == 2),
                attributes: self::attributes(&span.attributes),
                links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
                service: service.clone(),
            });
        }
    }
    taken.send_modify(|taken| {
        taken.spans.extend(spans);
        taken.raw.push(raw);
        taken.headers.push(headers);
    });
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("to memory");
        text
    })
}
