//! How a file is read: as the gateway reads a connection, and with what people leave out.

use super::file::{Written, parse};

async fn read(text: &str) -> Result<Written, String> {
    parse(text.as_bytes()).await
}

#[track_caller]
fn body(written: &Written) -> Option<&str> {
    written.body.as_ref().map(|body| std::str::from_utf8(body).expect("text"))
}

#[tokio::test]
async fn line_ends_host_and_length_may_be_left_out() {
    let full = "POST /a?b HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nContent-Length: 4\r\n\r\nx\r\ny";
    let by_hand = "POST /a?b HTTP/1.1\nX-A: 1\n\nx\r\ny\n";
    for (text, notes) in [(full, 0), (by_hand, 1)] {
        let written = read(text).await.expect("a request");
        assert_eq!((written.head.uri.path(), written.head.uri.query()), ("/a", Some("b")));
        assert_eq!(written.head.headers["x-a"], "1");
        assert_eq!(body(&written), Some("x\r\ny"));
        assert_eq!((written.refused, written.notes.len()), (None, notes), "{:?}", written.notes);
    }
}

#[tokio::test]
async fn a_body_without_a_length_loses_one_line_end_at_its_end() {
    for (sent, expected) in [("", ""), ("x", "x"), ("x\n", "x"), ("x\r\n", "x"), ("x\n\n", "x\n"), ("\n", "")] {
        let written = read(&format!("POST / HTTP/1.1\nHost: x\n\n{sent}")).await.expect("a request");
        assert_eq!(body(&written), Some(expected), "{sent:?}");
    }
    for head in ["POST / HTTP/1.1", "POST / HTTP/1.1\n", "POST / HTTP/1.1\nHost: x\n"] {
        assert_eq!(body(&read(head).await.expect("a request")), Some(""));
    }
}

#[tokio::test]
async fn a_stated_framing_counts() {
    let chunked = "POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    assert_eq!(body(&read(chunked).await.expect("a request")), Some("abc"));
    let longer = read("POST / HTTP/1.1\nHost: x\nContent-Length: 2\n\nabc\n").await.expect("a request");
    assert_eq!((body(&longer), longer.notes.len()), (Some("ab"), 1));
    for cut in [
        "POST / HTTP/1.1\nHost: x\nContent-Length: 5\n\nabc\n",
        "POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n2\nab\n0\n\n",
    ] {
        let written = read(cut).await.expect("a request");
        assert_eq!((body(&written), written.notes.len()), (None, 1), "{cut:?}");
    }
}

#[tokio::test]
async fn what_the_gateway_refuses_is_refused_and_what_is_no_request_is_none() {
    let two_hosts = read("POST / HTTP/1.1\nHost: x\nHost: y\n\n").await.expect("a request");
    assert_eq!(two_hosts.refused, Some("there is more than one Host field"));
    let absolute = read("POST http://h/a?b HTTP/1.1\nHost: x\n\n").await.expect("a request");
    assert_eq!((absolute.refused, absolute.head.uri.to_string().as_str()), (None, "/a?b"));
    for text in ["", "\n", "{}", "POST /", "POST / HTTP/1.1\nno field\n\n", "POST / HTTP/3.0\n\n"] {
        assert!(read(text).await.is_err(), "{text:?}");
    }
}
