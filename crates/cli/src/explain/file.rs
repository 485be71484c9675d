//! A request as somebody wrote it into a file, read by the parser and the rules that the gateway's clients meet (H1).

use std::convert::Infallible;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, request};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{join, sink};

use crate::exit::Failure;
use crate::front::admission;

/// Longest head that is read, in bytes: what `max_header_bytes` may be at most.
const HEAD: usize = 1024 * 1024;

/// A request out of a file.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) head: request::Parts,
    /// `None`: it was cut short, or framed wrongly.
    pub(super) body: Option<Bytes>,
    /// Why the gateway refuses it before anything looks at its key.
    pub(super) refused: Option<&'static str>,
    /// What was added to it, or left out.
    pub(super) notes: Vec<String>,
}

/// Reads the request in a file, or on stdin (`-`), blocking: the command does nothing else. One that is no HTTP at all is wrong usage: there is nothing to explain.
pub(super) async fn read(path: &Path) -> Result<Written, Failure> {
    let unreadable = |error| Failure::usage(format_args!("{}: can't be read: {error}", path.display()));
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        bytes = std::fs::read(path).map_err(unreadable)?;
    }
    parse(&bytes).await.map_err(|what| Failure::usage(format_args!("{}: {what}", path.display())))
}

/// Parses the text of a request.
pub(super) async fn parse(text: &[u8]) -> Result<Written, String> {
    let mut notes = Vec::new();
    let message = complete(text, &mut notes);
    let taken = Arc::new(Mutex::new(None));
    let take = |request: Request<Incoming>| {
        let taken = Arc::clone(&taken);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes);
            *taken.lock() = Some((head, body));
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    };
    let mut http = Builder::new();
    // All of it is there at once, and then nothing more.
    http.keep_alive(false).half_close(true).max_buf_size(HEAD);
    let served = http.serve_connection(TokioIo::new(join(message.as_slice(), sink())), service_fn(take)).await;
    let Some((head, body)) = taken.lock().take() else {
        let why = served.err().map_or("it is empty".to_owned(), |error| error.to_string());
        return Err(format!("no HTTP/1.1 request: {why}"));
    };
    let mut request = Request::from_parts(head, ());
    let refused = admission::admit(&mut request).err();
    if body.is_err() {
        notes.push("its body isn't framed as its head says; without Content-Length, it is all that follows".to_owned());
    }
    Ok(Written { head: request.into_parts().0, body: body.ok(), refused, notes })
}

/// The message as a client sends it: line ends of the head in full, and the fields that people leave out.
fn complete(text: &[u8], notes: &mut Vec<String>) -> Vec<u8> {
    let mut message = Vec::with_capacity(text.len() + 64);
    let (mut has_host, mut framed) = (false, false);
    let mut length = None;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        rest = rest.get(end + 1..).unwrap_or_default();
        if line.is_empty() {
            break;
        }
        if let Some(value) = field(line, "content-length") {
            length = std::str::from_utf8(value).ok().and_then(|value| value.parse::<usize>().ok());
            framed = true;
        }
        framed |= field(line, "transfer-encoding").is_some();
        has_host |= field(line, "host").is_some();
        message.extend_from_slice(line);
        message.extend_from_slice(b"\r\n");
    }
    if message.is_empty() {
        return message;
    }
    if !has_host {
        notes.push("it has no Host field, which a client sends; `localhost` is taken".to_owned());
        message.extend_from_slice(b"Host: localhost\r\n");
    }
    if !framed {
        rest = rest.strip_suffix(b"\n").map_or(rest, |rest| rest.strip_suffix(b"\r").unwrap_or(rest));
        if !rest.is_empty() {
            message.extend_from_slice(format!("Content-Length: {}\r\n", rest.len()).as_bytes());
        }
    }
    if let Some(over) = length.and_then(|length| rest.len().checked_sub(length)).filter(|over| *over > 0) {
        notes.push(format!("{over} bytes after the body are left out: it ends where Content-Length says"));
    }
    message.extend_from_slice(b"\r\n");
    message.extend_from_slice(rest);
    message
}

/// The value of a field line of that name.
fn field<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
}
