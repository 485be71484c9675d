//! The requests, and what is right to make of each.

/// What becomes of the request behind a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// It is answered as itself.
    Runs,
    /// The connection ends before it.
    Dies,
}

/// A request that might be read in two ways.
pub(super) struct Case {
    pub(super) what: &'static str,
    /// Its bytes, with `KEY` where the key goes.
    bytes: Vec<u8>,
    /// The length of the body with which it arrives at the upstream; `None`: it doesn't.
    pub(super) arrives: Option<usize>,
    pub(super) behind: Behind,
    /// It gets no answer.
    pub(super) is_silent: bool,
    pub(super) at_the_beginning_it_is_http2: bool,
}

impl Case {
    fn new(what: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let (arrives, behind) = (None, Behind::Dies);
        Self { what, bytes, arrives, behind, is_silent: false, at_the_beginning_it_is_http2: false }
    }

    pub(super) fn request(&self, key: &str) -> Vec<u8> {
        let mut request = Vec::new();
        let mut rest = &self.bytes[..];
        while let Some(at) = rest.windows(3).position(|window| window == b"KEY") {
            request.extend_from_slice(&rest[..at]);
            request.extend_from_slice(key.as_bytes());
            rest = &rest[at + 3..];
        }
        request.extend_from_slice(rest);
        request
    }
}

const LINE: &str = "POST /orders HTTP/1.1\r\n";
const FIELDS: &str = "X-Account-Id: acc-1\r\nIdempotency-Key: KEY\r\n";

/// A case that is refused: these lines in the head of an order, and what follows it.
fn refused(what: &'static str, lines: impl AsRef<[u8]>, body: &str) -> Case {
    let head = format!("{LINE}Host: a\r\n{FIELDS}");
    Case::new(what, [head.as_bytes(), lines.as_ref(), b"\r\n", body.as_bytes()].concat())
}

/// One that is executed, as an order of so many bytes.
fn executed(what: &'static str, lines: impl AsRef<[u8]>, body: &str, length: usize) -> Case {
    Case { arrives: Some(length), behind: Behind::Runs, ..refused(what, lines, body) }
}

/// Another start of an order without a body.
fn start(what: &'static str, start: &str) -> Case {
    Case::new(what, format!("{start}{FIELDS}Content-Length: 0\r\n\r\n"))
}

pub(super) fn cases() -> Vec<Case> {
    [plain(), lengths(), codings(), both(), chunks(), lines(), hosts(), starts(), connections()]
        .into_iter()
        .flatten()
        .collect()
}

/// What is right, so that the judge is known to let it pass.
fn plain() -> Vec<Case> {
    vec![
        executed("a plain order", "Content-Length: 2\r\n", "{}", 2),
        executed(
            "an order in chunks",
            "Transfer-Encoding: chunked\r\n",
            "1\r\n{\r\n1;a=\"b\"\r\n}\r\n0\r\nX-T: 1\r\n\r\n",
            2,
        ),
        executed("an order without a body", "", "", 0),
        refused("a body that ends early", "Content-Length: 500\r\n", "{}"),
        Case {
            behind: Behind::Runs,
            ..refused("a key that is none", "Idempotency-Key: 2\r\nContent-Length: 2\r\n", "{}")
        },
    ]
}

fn lengths() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        "+2",
        "-2",
        "0x2",
        "2.0",
        "2e0",
        "2 2",
        "2,3",
        "2, 2",
        "2;",
        "\"2\"",
        "",
        "\u{ff12}",
        "\u{b}2",
        "2\u{c}",
        "2\0",
        "2_0",
        "18446744073709551616",
        "18446744073709551618",
        "99999999999999999999999999",
    ]
    .iter()
    .map(|length| refused("a length that is none", format!("Content-Length: {length}\r\n"), "{}"))
    .collect();
    cases.extend([
        refused("two lengths", "Content-Length: 2\r\nContent-Length: 3\r\n", "{}"),
        refused("two lengths, one of them 0", "Content-Length: 0\r\nContent-Length: 2\r\n", "{}"),
        executed("a length with spaces around it", "Content-Length: \t 2 \t\r\n", "{}", 2),
        executed("a length with zeros before it", "Content-Length: 0002\r\n", "{}", 2),
        executed("the same length twice", "Content-Length: 2\r\nContent-Length: 2\r\n", "{}", 2),
        executed(
            "a length in a field that is not the length's",
            "Content_Length: 40\r\nContent-Length: 2\r\n",
            "{}",
            2,
        ),
        executed("a length in a field of another name", "X-Content-Length: 40\r\nContent-Length: 2\r\n", "{}", 2),
    ]);
    cases
}

fn codings() -> Vec<Case> {
    const EMPTY: &str = "0\r\n\r\n";
    let mut cases: Vec<Case> = [
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "chunked, chunked",
        "chunked,chunked",
        "xchunked",
        "chunkedx",
        "chunked;q=1",
        "\"chunked\"",
        "identity",
        "chunked, identity",
        "identity, chunked",
        "",
        ",",
        "chunked,",
        ", chunked",
        "chun ked",
        "\u{b}chunked",
        "chunked\u{b}",
        "chunked\0",
        "chunked\u{a0}",
        "cow",
        "chunke\u{212a}d",
    ]
    .iter()
    .map(|coding| refused("a coding that is not taken", format!("Transfer-Encoding: {coding}\r\n"), EMPTY))
    .collect();
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: ";
    cases.extend([
        refused("chunked on two lines", format!("{twice}chunked\r\n"), EMPTY),
        refused("chunked, then another line", format!("{twice}identity\r\n"), EMPTY),
        refused("chunked, then an empty line", format!("{twice}\r\n"), EMPTY),
        Case::new(
            "chunks on 1.0",
            format!("POST /orders HTTP/1.0\r\nHost: a\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n{EMPTY}"),
        ),
        executed("a coding in capitals", "Transfer-Encoding: CHUNKED\r\n", EMPTY, 0),
        executed("a coding with spaces around it", "Transfer-Encoding: \t chunked \t\r\n", EMPTY, 0),
        executed(
            "a coding in a field that is not the coding's",
            "Transfer_Encoding: chunked\r\nContent-Length: 5\r\n",
            EMPTY,
            5,
        ),
        refused("a space before the coding's colon", "Transfer-Encoding : chunked\r\n", EMPTY),
        refused("a tab before the coding's colon", "Transfer-Encoding\t: chunked\r\n", EMPTY),
        refused("a coding folded", "Transfer-Encoding:\r\n chunked\r\n", EMPTY),
        refused("a coding behind a fold", "X-A: b\r\n\tTransfer-Encoding: chunked\r\n", EMPTY),
        refused("a coding behind a bare CR", "X-A: b\rTransfer-Encoding: chunked\r\n", EMPTY),
    ]);
    cases
}

/// The connection ends behind an answer to a request that says its length in two ways.
fn both() -> Vec<Case> {
    let dies = |case: Case| Case { behind: Behind::Dies, ..case };
    let (long, short) = ("Content-Length: 50\r\n", "Content-Length: 1\r\n");
    let (coding, body) = ("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n");
    vec![
        dies(executed("both framings, the length first and long", format!("{long}{coding}"), body, 2)),
        dies(executed("both framings, the length first and short", format!("{short}{coding}"), body, 2)),
        dies(executed("both framings, the coding first", format!("{coding}{long}"), body, 2)),
        refused("both framings, and the coding is not taken", format!("{long}Transfer-Encoding: xchunked\r\n"), body),
        refused("both framings, and the length is none", format!("Content-Length: x\r\n{coding}"), body),
    ]
}

fn chunks() -> Vec<Case> {
    let chunked = |what, body: &str| refused(what, "Transfer-Encoding: chunked\r\n", body);
    let mut cases: Vec<Case> = [
        "zz",
        "",
        "-2",
        "+2",
        "0x2",
        "2 2",
        "2x",
        "\u{ff12}",
        "2\0",
        "10000000000000000",
        "fffffffffffffffff",
        "ffffffffffffffff2",
    ]
    .iter()
    .map(|size| chunked("a chunk's size that is none", &format!("{size}\r\n{{}}\r\n0\r\n\r\n")))
    .collect();
    cases.extend([
        chunked("a chunk longer than it says", "2\r\n{}X\r\n0\r\n\r\n"),
        chunked("a chunk ended by a bare LF", "2\r\n{}\n0\r\n\r\n"),
        chunked("a chunk's size ended by a bare LF", "2\n{}\r\n0\r\n\r\n"),
        chunked("a chunk's size ended by a bare CR", "2\r{}\r\n0\r\n\r\n"),
        chunked("an extension ended by a bare LF", "2;a\n{}\r\n0\r\n\r\n"),
        chunked("an extension with a bare CR in it", "2;a\rb\r\n{}\r\n0\r\n\r\n"),
        chunked("an extension without end", &format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(20_000))),
        chunked("a last chunk that doesn't end", "2\r\n{}\r\n0\r\nX\r\n\r\n"),
        // What follows is taken for trailers, up to an empty line, and nothing of it is run.
        Case {
            behind: Behind::Dies,
            ..executed("a last chunk ended by a bare LF", "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\n", 2)
        },
        chunked("a request for trailers", "2\r\n{}\r\n0\r\nGET /poison HTTP/1.1\r\nHost: a\r\n\r\n"),
        chunked("trailers without end", &format!("0\r\n{}\r\n", "X-T: 1\r\n".repeat(5000))),
        chunked("no last chunk", "2\r\n{}\r\n"),
        executed("a size with zeros before it", "Transfer-Encoding: chunked\r\n", "00000002\r\n{}\r\n000\r\n\r\n", 2),
        executed(
            "a length among the trailers",
            "Transfer-Encoding: chunked\r\n",
            "2\r\n{}\r\n0\r\nContent-Length: 90\r\nTransfer-Encoding: chunked\r\nHost: b\r\nIdempotency-Key: b\r\n\r\n",
            2,
        ),
    ]);
    cases
}

/// Lines of a head.
fn lines() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        "X-A: b\0c",
        "X-A: b\u{1}c",
        "X-A: b\u{7f}c",
        "X-A: b\u{8}",
        "X-A: b\rc",
        "X-A: b\r",
        "X-A\0: b",
        "X A: b",
        "X-A : b",
        ": b",
        "X-A",
        "X-A\r\n: b",
        "(X-A): b",
        "X-\u{e9}: b",
        " X-A: b",
        "\tX-A: b",
        "X-A: b\r\n c",
        "X-A: b\r\n\tc",
        "X-A: b\r\n ",
    ]
    .iter()
    .map(|line| refused("a line that is none", format!("{line}\r\nContent-Length: 0\r\n"), ""))
    .collect();
    cases.extend([
        executed("a value of other bytes", b"X-A: \xff\xfe\r\nContent-Length: 0\r\n", "", 0),
        executed("a line ended by a bare LF", "X-A: b\nContent-Length: 2\r\n", "{}", 2),
        executed(
            "fields that are nearly others",
            "Idempotency_Key: z\r\nX_Account_Id: z\r\nContent-Length: 0\r\n",
            "",
            0,
        ),
    ]);
    cases
}

fn hosts() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nHost: b\r\n",
        "Host: u@a\r\n",
        "Host: u:p@a\r\n",
        "Host: a/b\r\n",
        "Host: a, b\r\n",
        "Host: a b\r\n",
        "Host: http://a\r\n",
        "Host: a?b\r\n",
        "Host: a#b\r\n",
        "Host: a\\b\r\n",
        "Host: \u{e9}\r\n",
    ]
    .iter()
    .map(|hosts| {
        start(
            if hosts.matches("Host").count() > 1 { "two hosts" } else { "a host that is none" },
            &format!("{LINE}{hosts}"),
        )
    })
    .collect();
    let whole = |target: &str| format!("POST {target} HTTP/1.1\r\nHost: a\r\n");
    cases.extend([
        start("a target with a user", &whole("http://u:p@a/orders")),
        start("a target without a scheme", &whole("a/orders")),
        start("a target that is an authority", &whole("a:80")),
        start("a target that is a query", &whole("?a")),
        start("a target that is everything", &whole("*")),
        start("two hosts and a whole target", &format!("{}Host: b\r\n", whole("http://a/orders"))),
        Case {
            arrives: Some(0),
            behind: Behind::Runs,
            ..start("a whole target of another host", &whole("http://b/orders"))
        },
    ]);
    cases
}

/// First lines.
fn starts() -> Vec<Case> {
    let mut cases: Vec<Case> = [
        "POST /orders HTTP/1.2",
        "POST /orders HTTP/2.0",
        "POST /orders HTTP/1.1x",
        "POST /orders http/1.1",
        "POST /orders HTTP/1",
        "POST /orders HTTP/01.1",
        "POST /orders HTTP/1.1 ",
        "POST /orders",
        "POST  /orders HTTP/1.1",
        "POST /orders  HTTP/1.1",
        "POST\t/orders HTTP/1.1",
        "POST /orders\tHTTP/1.1",
        "POST /ord ers HTTP/1.1",
        "POST /ord\0ers HTTP/1.1",
        "POST /ord\u{b}ers HTTP/1.1",
        "PO ST /orders HTTP/1.1",
        "PO(ST /orders HTTP/1.1",
        " POST /orders HTTP/1.1",
        "CONNECT a:80 HTTP/1.1",
        "CONNECT /orders HTTP/1.1",
        "POST /orders HTTP/1.1\r\n Host: a",
    ]
    .iter()
    .map(|line| start("a first line that is none", &format!("{line}\r\nHost: a\r\n")))
    .collect();
    cases.extend([
        Case::new("HTTP/0.9", "GET /poison-of-0.9\r\n"),
        Case {
            at_the_beginning_it_is_http2: true,
            is_silent: true,
            ..Case::new("a preface of HTTP/2 in the middle", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        },
        Case {
            arrives: Some(0),
            behind: Behind::Runs,
            ..start("empty lines before it", "\r\n\r\nPOST /orders HTTP/1.1\r\nHost: a\r\n")
        },
    ]);
    cases
}

/// What `Connection` may say, and what it may not take away.
fn connections() -> Vec<Case> {
    let named = "idempotency-key, x-account-id, host, content-length, content-type, transfer-encoding, oncekey-attempt";
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n";
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\nContent-Length: 2\r\n";
    vec![
        executed("fields that Connection names", format!("Connection: {named}\r\nContent-Length: 2\r\n"), "{}", 2),
        Case { behind: Behind::Runs, ..refused("an upgrade", upgrade, "{}") },
        executed("an offer of another HTTP", h2c, "{}", 2),
        Case {
            behind: Behind::Dies,
            ..executed("a last request", "Connection: close\r\nContent-Length: 2\r\n", "{}", 2)
        },
    ]
}
