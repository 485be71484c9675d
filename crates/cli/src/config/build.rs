//! Builds a [`Config`] out of what was stated. Each value suits its setting by now; what can still be wrong is how routes
//! stand beside each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use oncekey_core::policy::{OnStoreError, OnUnknown, Policy, Recording, Timing};
use oncekey_core::problem::{Profile, Style};
use oncekey_core::{KeyFormat, PromiseClass, Recipe};
use oncekey_tower::{Guard, OwnAnswers, Route, Routes};

use super::{
    AdminConfig, Config, Drain, GuardedRoute, Limits, ProbeConfig, StoreConfig, SweepConfig, TlsConfig, UpstreamConfig,
    UpstreamHttp, UpstreamTlsConfig,
};
use crate::front::FrontOptions;
use crate::jwt::JwtConfig;
use crate::settings::{Layer, ProbeHeaders, Remark, Stated, StatedRoute, Value, Values, built_in_route};

impl Config {
    /// The configuration that was stated, or what is wrong with its routes.
    pub(crate) fn build(stated: &Stated) -> Result<Self, Remark> {
        let top = Values::new([&stated.top]);
        let defaults = Values::new([&stated.defaults, &stated.top]);
        Ok(Self {
            listen: top.address("listen"),
            front: front(&top),
            tls: tls(&top),
            upstream: UpstreamConfig {
                url: top.upstream("upstream"),
                http: match top.word("upstream_http") {
                    "1.1" => UpstreamHttp::One,
                    "2" => UpstreamHttp::Two,
                    _ => UpstreamHttp::Auto,
                },
                tls: upstream_tls(&top),
                idle: top.duration("upstream_idle"),
                connect_timeout: defaults.duration("connect_timeout"),
            },
            admin: AdminConfig {
                listen: top.address("admin.listen"),
                token: top.secret("admin.token"),
                read_token: top.secret("admin.read_token"),
            },
            store: store(&top),
            sweep: SweepConfig { every: top.duration("sweep.every"), batch: narrowed(top.count("sweep.batch")) },
            limits: Limits {
                inflight: narrowed(top.count("max_inflight")),
                buffered: top.count("max_buffered"),
                waiters: narrowed(top.count("max_waiters_all")),
                records_per_scope: top.count("max_records_per_scope"),
            },
            drain: Drain { delay: top.duration("drain_delay"), limit: top.duration("drain") },
            own_answers: own_answers(&defaults),
            retry_after: defaults.duration("retry_after"),
            jwt: jwt(&top),
            routes: routes(stated)?,
        })
    }
}

fn front(top: &Values<'_>) -> FrontOptions {
    FrontOptions {
        max_connections: narrowed(top.count("max_connections")),
        max_streams: narrowed(top.count("max_streams")),
        max_header_bytes: narrowed(top.count("max_header_bytes")),
        max_headers: narrowed(top.count("max_headers")),
        head_timeout: top.duration("head_timeout"),
        body_timeout: top.duration("body_timeout"),
        write_timeout: top.duration("write_timeout"),
        idle_timeout: top.duration("idle_timeout"),
    }
}

/// What `[tls]` and `[client_cert]` say together; the checks refuse one half of a pair.
fn tls(top: &Values<'_>) -> Option<TlsConfig> {
    let (cert, key) = (top.file("tls.cert")?, top.file("tls.key")?);
    Some(TlsConfig { cert, key, client_ca: top.file("client_cert.ca") })
}

fn upstream_tls(top: &Values<'_>) -> Option<UpstreamTlsConfig> {
    let upstream = top.upstream("upstream");
    upstream.secure.then(|| UpstreamTlsConfig {
        ca: top.file("upstream_tls.ca"),
        cert: top.file("upstream_tls.cert"),
        key: top.file("upstream_tls.key"),
        server_name: top.optional_text("upstream_tls.server_name").unwrap_or(upstream.host),
    })
}

fn store(top: &Values<'_>) -> StoreConfig {
    StoreConfig {
        url: top.store("store"),
        namespace: top.namespace("namespace"),
        lease: top.duration("lease"),
        timeout: top.duration("store_timeout"),
        connections: narrowed(top.count("store_connections")),
        declared: top.declared(),
        start_timeout: top.duration("start_timeout"),
        auto_migrate: top.flag("auto_migrate"),
        record_retry: top.duration("record_retry"),
        cache_for: top.duration("cache_for"),
    }
}

/// Without a key set, no token can be verified, and what else is said of them counts for nothing.
fn jwt(top: &Values<'_>) -> Option<JwtConfig> {
    Some(JwtConfig {
        jwks: top.jwks("jwt.jwks")?,
        issuer: top.texts("jwt.issuer").pop(),
        audience: top.texts("jwt.audience"),
        leeway: top.duration("jwt.leeway"),
    })
}

/// A count whose bounds in the table fit the narrower type.
fn narrowed<T: TryFrom<u64>>(count: u64) -> T {
    T::try_from(count).ok().expect("the table bounds every count far below u32::MAX")
}

/// The routes, checked against each other. Without any, there is one that guards every path.
fn routes(stated: &Stated) -> Result<Vec<GuardedRoute>, Remark> {
    let bare = built_in_route();
    let route = |own: &Layer| guarded(&Values::new([own, &stated.defaults, &stated.top, &bare]));
    if stated.routes.is_empty() {
        return Ok(vec![route(&BTreeMap::new())]);
    }
    let all: Vec<_> = stated.routes.iter().map(|stated| route(&stated.own)).collect();
    check(&all, &stated.routes)?;
    Ok(all)
}

/// The router refuses all routes together; the first one with which it does is the one to point at.
fn check(all: &[GuardedRoute], stated: &[StatedRoute]) -> Result<(), Remark> {
    let upto = |count: usize| Routes::new(all[..count].iter().map(|guarded| guarded.route.clone()).collect());
    if upto(all.len()).is_ok() {
        return Ok(());
    }
    for (index, route) in stated.iter().enumerate() {
        if let Err(error) = upto(index + 1) {
            let at = route.own.get("path").or_else(|| route.own.get("methods"));
            let place = at.map_or(&route.place, |assigned| &assigned.place);
            return Err(Remark::new(place, "route", error.to_string()));
        }
    }
    Ok(())
}

fn guarded(values: &Values<'_>) -> GuardedRoute {
    let path = values.optional("path").map(|value| match value {
        Value::Text(path) => path.clone(),
        other => unreachable!("the table makes `path` a text, not {other:?}"),
    });
    let policy = Policy {
        route: path.clone().unwrap_or_else(|| "*".to_owned()),
        timing: timing(values),
        recording: recording(values),
        max_waiters: narrowed(values.count("max_waiters")),
        on_store_error: if values.word("on_store_error") == "open" { OnStoreError::Open } else { OnStoreError::Closed },
        on_unknown: on_unknown(values),
        max_attempts: narrowed(values.count("max_attempts")),
    };
    let route = Route {
        methods: values.methods("methods"),
        path,
        guard: guard(values),
        policy: Arc::new(policy),
        own_answers: own_answers(values),
        probe: None,
        transactions: None,
    };
    GuardedRoute { route, scope: values.scope("scope"), probe: probe(values), require: require(values) }
}

fn on_unknown(values: &Values<'_>) -> OnUnknown {
    match values.word("on_unknown") {
        "retry" => OnUnknown::Retry,
        "probe" => OnUnknown::Probe {
            settle: match values.optional("probe_settle") {
                Some(Value::Duration(settle)) => *settle,
                _ => values.duration("upstream_timeout"),
            },
        },
        _ => OnUnknown::Hold,
    }
}

fn probe(values: &Values<'_>) -> Option<ProbeConfig> {
    let headers = match values.optional("probe_headers") {
        Some(Value::ProbeHeaders(headers)) => headers.clone(),
        _ => ProbeHeaders::default(),
    };
    match (values.word("on_unknown"), values.optional("probe_url")) {
        ("probe", Some(Value::ProbeUrl(url))) => {
            Some(ProbeConfig { url: url.clone(), headers, fields: HeaderMap::new() })
        }
        _ => None,
    }
}

fn own_answers(values: &Values<'_>) -> OwnAnswers {
    let profile = Profile::named(values.word("profile")).expect("the table lists the names of the profiles");
    let in_progress = values.optional("in_progress_status").map(|value| match value {
        Value::Count(status) => StatusCode::from_u16(narrowed(*status)).expect("the table lists statuses"),
        other => unreachable!("the table makes `in_progress_status` a number, not {other:?}"),
    });
    let style = Style::of(profile);
    let in_progress = in_progress.unwrap_or(style.in_progress);
    let style = Style { in_progress, type_base: values.text("problem_type_base"), ..style };
    OwnAnswers { style, fields: values.fields("answer_headers") }
}

fn guard(values: &Values<'_>) -> Guard {
    Guard {
        key_required: values.word("key") == "required",
        key_header: values.header("key_header"),
        key_format: match values.word("key_format") {
            "uuid" => KeyFormat::Uuid,
            "uuid4" => KeyFormat::Uuid4,
            _ => KeyFormat::Any,
        },
        scope: Vec::new(),
        recipe: Recipe::new(&values.headers("fingerprint.headers"))
            .expect("the kind asks Recipe about each header")
            .ignoring(values.pointers("fingerprint.ignore")),
        max_request: values.count("max_request"),
        forward_key_as: values.headers("forward_key_as"),
    }
}

fn timing(values: &Values<'_>) -> Timing {
    Timing {
        ttl: values.duration("ttl"),
        unknown_ttl: values.duration("unknown_ttl"),
        wait: values.duration("wait"),
        retry_after: values.duration("retry_after"),
        answer_timeout: values.duration("answer_timeout"),
        upstream_timeout: values.duration("upstream_timeout"),
        connect_timeout: values.duration("connect_timeout"),
        record_timeout: values.duration("record_timeout"),
    }
}

fn recording(values: &Values<'_>) -> Recording {
    Recording {
        retry_status: values.statuses("retry_status"),
        unknown_status: values.statuses("unknown_status"),
        max_response: values.count("max_response"),
        stream: values.flag("stream"),
        store_set_cookie: values.flag("store_set_cookie"),
        drop_headers: values.headers("drop_headers"),
        trust_outcome: values.flag("trust_outcome"),
    }
}

fn require(values: &Values<'_>) -> Option<PromiseClass> {
    values.optional("require").map(|value| match value {
        Value::Word(word) => word.parse().expect("the table lists the names of the classes"),
        other => unreachable!("the table makes `require` a word, not {other:?}"),
    })
}
