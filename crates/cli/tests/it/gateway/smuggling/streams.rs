//! The same for HTTP/2: heads and bodies that would be another request, or several, in HTTP/1.1.

use oncekey_testkit::frames::{Outcome, encoded, field, flag, kind};
use oncekey_testkit::{CountingUpstream, FrameClient};

use super::SETTINGS;
use crate::gateway::stand::Gateway;

/// What is right to make of a head and a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// It is executed.
    Executed,
    /// A problem says what is wrong with it.
    Refused,
    /// Its stream is reset, with PROTOCOL_ERROR: it is no request at all.
    Reset,
    /// The connection ends: the state that all its heads share may be broken.
    Ended,
}
use Right::{Ended, Executed, Refused, Reset};

/// What is tried, the field that is changed for it, its value (`None`: it is left out), and what is right then.
type Change = (&'static str, &'static [u8], Option<&'static [u8]>, Right);

type Fields<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The head of an order.
fn head(key: &str) -> Fields<'_> {
    vec![
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":authority", b"a"),
        (b":path", b"/orders"),
        (b"x-account-id", b"acc-1"),
        (b"idempotency-key", key.as_bytes()),
    ]
}

fn packed(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// A gateway and all that arrives behind it.
struct Trial {
    upstream: CountingUpstream,
    gateway: Gateway,
}

impl Trial {
    async fn new() -> Self {
        let upstream = CountingUpstream::start().await;
        let gateway = Gateway::start(&upstream.url(), SETTINGS).await;
        Self { upstream, gateway }
    }

    /// Sends a head and the frames behind it on a connection of their own, and sees that what becomes of it is right and that
    /// the next request on the connection is answered as itself.
    async fn judge(&self, what: &str, head: &[(&[u8], &[u8])], body: &[Vec<u8>], right: Right) {
        let known = self.upstream.arrivals().len();
        let mut client = FrameClient::connect(self.gateway.address).await.expect("connected");
        client.head(1, packed(head), body.is_empty()).await.expect("sent");
        for frame in body {
            // It fails if the gateway has ended the connection by now.
            let _ = client.write(frame).await;
        }
        let outcome = client.outcome(1).await.expect("frames");
        let fits = match right {
            Executed => outcome == Outcome::Answered(201),
            Refused => matches!(outcome, Outcome::Answered(400 | 413 | 431)),
            Reset => outcome == Outcome::Reset(1),
            Ended => matches!(outcome, Outcome::Closed(_)),
        };
        assert!(fits, "{what}: {outcome:?}, not {right:?}");
        let mut expected = Vec::new();
        if right == Executed {
            expected.push("/orders");
        }
        if right != Ended {
            let next: Fields<'_> =
                vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/next")];
            client.head(3, packed(&next), true).await.expect("sent");
            assert_eq!(client.outcome(3).await.expect("frames"), Outcome::Answered(200), "{what}");
            expected.push("/next");
        }
        let arrivals = self.upstream.arrivals().split_off(known);
        let targets: Vec<_> = arrivals.iter().map(|arrival| arrival.target.as_str()).collect();
        assert_eq!(targets, expected, "{what}");
    }
}

fn data(bytes: &str, ended: bool) -> Vec<u8> {
    encoded(kind::DATA, u8::from(ended), 1, bytes.as_bytes())
}

#[tokio::test]
async fn fields_that_would_be_other_lines_or_lengths_are_refused() {
    let trial = Trial::new().await;
    let lines: &[(&[u8], &[u8], Right)] = &[
        (b"x-a", b"b", Executed),
        (b"x-a", b"\xff", Executed),
        (b"x-a", b"b\r\nx-c: d", Ended),
        (b"x-a", b"b\nx-c: d", Ended),
        (b"x-a", b"b\r", Ended),
        (b"x-a", b"b\0c", Ended),
        (b"x-a", b"b\x01c", Ended),
        (b"x-a", b"b\x7f", Ended),
        (b"X-A", b"b", Ended),
        (b"Idempotency-Key", b"b", Ended),
        (b"x a", b"b", Ended),
        (b"x-a:", b"b", Ended),
        (b"x-a\r\nx-c", b"b", Ended),
        (b"", b"b", Ended),
        (b"connection", b"close", Reset),
        (b"connection", b"idempotency-key", Reset),
        (b"keep-alive", b"timeout=5", Reset),
        (b"proxy-connection", b"close", Reset),
        (b"transfer-encoding", b"chunked", Reset),
        (b"transfer-encoding", b"identity", Reset),
        (b"upgrade", b"websocket", Reset),
        (b"te", b"gzip", Reset),
        (b"te", b"trailers, chunked", Reset),
        (b"te", b"trailers", Executed),
        (b"host", b"a", Executed),
        (b"host", b"A", Executed),
        (b"host", b"b", Refused),
        (b"host", b"a:80", Refused),
        (b"host", b"", Refused),
        (b"idempotency-key", b"again", Refused),
        (b"x-account-id", b"acc-2", Refused),
        (b"idempotency_key", b"b", Executed),
        (b"content-length", b"1", Reset),
        (b"content-length", b"x", Reset),
        (b"content-length", b"+0", Reset),
        (b"content-length", b"0", Executed),
        (b":path", b"/poison", Reset),
        (b":method", b"GET", Reset),
        (b":status", b"200", Reset),
        (b":protocol", b"websocket", Reset),
        (b":unknown", b"a", Ended),
        (b"expect", b"100-continue", Executed),
    ];
    for (number, (name, value, right)) in lines.iter().enumerate() {
        let key = format!("line-{number}");
        let mut head = head(&key);
        head.push((name, value));
        let what = format!("{}: {:?}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        trial.judge(&what, &head, &[], *right).await;
    }
    let mut twice = head("twice");
    twice.extend([(&b"host"[..], &b"a"[..]), (b"host", b"a")]);
    trial.judge("two hosts", &twice, &[], Refused).await;
    trial.gateway.end().await;
}

#[tokio::test]
async fn pseudo_fields_that_are_no_target_are_refused() {
    let trial = Trial::new().await;
    let changes: &[Change] = &[
        ("no method", b":method", None, Reset),
        ("no scheme", b":scheme", None, Reset),
        ("no path", b":path", None, Reset),
        ("no authority and no host", b":authority", None, Refused),
        ("an empty path", b":path", Some(b""), Reset),
        ("a path without a slash", b":path", Some(b"orders"), Reset),
        ("a path that is everything", b":path", Some(b"*"), Refused),
        ("a path that is a whole target", b":path", Some(b"http://b/orders"), Reset),
        ("a path that is a query", b":path", Some(b"?a"), Refused),
        ("a path with a space", b":path", Some(b"/orders HTTP/1.1"), Reset),
        ("a path with lines", b":path", Some(b"/orders HTTP/1.1\r\nx-a: b"), Reset),
        ("a path with a tab", b":path", Some(b"/or\tders"), Reset),
        ("a method with a space", b":method", Some(b"GET /poison HTTP/1.1"), Ended),
        ("a method with lines", b":method", Some(b"GET\r\n"), Ended),
        ("an empty method", b":method", Some(b""), Ended),
        ("a tunnel", b":method", Some(b"CONNECT"), Reset),
        ("an empty authority", b":authority", Some(b""), Reset),
        ("an authority with a user", b":authority", Some(b"u:p@a"), Refused),
        ("an authority with a path", b":authority", Some(b"a/poison"), Reset),
        ("an authority with lines", b":authority", Some(b"a\r\nx-a: b"), Reset),
        ("an authority of two", b":authority", Some(b"a, b"), Reset),
        // Nothing is made of the scheme: whether a client came by TLS is seen, not believed.
        ("an empty scheme", b":scheme", Some(b""), Executed),
        ("a scheme with lines", b":scheme", Some(b"http\r\n"), Reset),
    ];
    for (number, (what, name, value, right)) in changes.iter().enumerate() {
        let key = format!("pseudo-{number}");
        let fields = head(&key).into_iter().filter_map(|field| match value {
            _ if field.0 != *name => Some(field),
            Some(value) => Some((*name, *value)),
            None => None,
        });
        trial.judge(what, &fields.collect::<Vec<_>>(), &[], *right).await;
    }
    let hosted: Fields<'_> = head("hosted").into_iter().filter(|(name, _)| *name != b":authority").collect();
    let hosted = [&hosted[..], &[(b"host", b"b")]].concat();
    trial.judge("a host in place of the authority", &hosted, &[], Executed).await;
    let mut late = head("late");
    late.swap(3, 5);
    trial.judge("a pseudo-field behind others", &late, &[], Reset).await;
    let tunnel: Fields<'_> = vec![(b":method", b"CONNECT"), (b":authority", b"a:80"), (b"idempotency-key", b"t")];
    trial.judge("a tunnel in its own form", &tunnel, &[], Refused).await;
    let extended: Fields<'_> = vec![
        (b":method", b"CONNECT"),
        (b":protocol", b"websocket"),
        (b":scheme", b"http"),
        (b":authority", b"a"),
        (b":path", b"/orders"),
    ];
    trial.judge("a tunnel for another protocol", &extended, &[], Reset).await;
    trial.gateway.end().await;
}

#[tokio::test]
async fn bodies_of_another_length_than_they_say_claim_nothing() {
    let trial = Trial::new().await;
    let length = |length: &'static [u8]| (&b"content-length"[..], length);
    let with = |key: &'static str, more: &[(&'static [u8], &'static [u8])]| [&head(key)[..], more].concat();
    trial
        .judge("as long as it says", &with("a", &[length(b"2")]), &[data("{", false), data("}", true)], Executed)
        .await;
    trial.judge("without a length", &with("b", &[]), &[data("{}", true)], Executed).await;
    trial.judge("too short", &with("c", &[length(b"3")]), &[data("{}", true)], Reset).await;
    trial.judge("too long", &with("d", &[length(b"1")]), &[data("{}", true)], Reset).await;
    trial
        .judge("too long by a further piece", &with("e", &[length(b"2")]), &[data("{}", false), data("x", true)], Reset)
        .await;
    trial.judge("a body where none was announced", &with("f", &[length(b"0")]), &[data("x", true)], Reset).await;
    let trailers =
        |fields: &[(&[u8], &[u8])]| encoded(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &packed(fields));
    let ended = [data("{", false), trailers(&[(b"x-t", b"1")])];
    trial.judge("too short, with trailers", &with("g", &[length(b"2")]), &ended, Reset).await;
    trial.judge("trailers", &with("h", &[length(b"1")]), &ended, Executed).await;
    let wrong = [data("{", false), trailers(&[(b":path", b"/poison")])];
    // It goes no further.
    trial.judge("a target in the trailers", &with("i", &[]), &wrong, Executed).await;
    let twice = with("j", &[length(b"2"), length(b"3")]);
    trial.judge("two lengths", &twice, &[data("{}", true)], Reset).await;
    trial.judge("the same length twice", &with("k", &[length(b"2"), length(b"2")]), &[data("{}", true)], Refused).await;
    trial.gateway.end().await;
}
