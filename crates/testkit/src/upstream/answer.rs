//! One request of the counting upstream, from its head to its answer.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRAILER, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::book::{Arrival, Book, question};
use super::content::Content;
use super::script::{Framing, Kind, Script};
use super::{Connection, raw, script};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Counts a request and answers it as it asks. An error ends the connection, and hyper writes nothing more on it.
pub(super) async fn answer(connection: Arc<Connection>, mut request: Request<Incoming>) -> io::Result<Response<Body>> {
    let Connection { socket, book, upgrade } = &*connection;
    if request.headers().contains_key(UPGRADE) {
        *upgrade.lock() = Some(hyper::upgrade::on(&mut request));
    }
    let (head, body) = request.into_parts();
    if let Some((scope, key)) = question(&head) {
        return Ok(tell(book.asked_about(scope, key)));
    }
    let arrival = book.arrive(&head)?;
    if upgrade.lock().is_some() {
        return Ok(switch_protocols());
    }
    let script = match Script::read(&head.method, &head.headers) {
        Ok(script) => script,
        Err(sentence) => return Ok(refuse(sentence)),
    };
    let received = receive(body, &script, book).await?;
    let arrival = book.take_effect(arrival, script.gates.effect.clone()).await;
    let content = Content::new(script.kind, &arrival, received);
    if let Some(gate) = &script.gates.answer {
        book.pass_gate(gate).await;
    }
    tokio::time::sleep(script.delay).await;
    if let Some(status) = script.informational {
        socket.write_raw(format!("HTTP/1.1 {status} Interim\r\nX-Interim: yes\r\n\r\n").as_bytes()).await?;
    }
    let response = head_of(&script, &arrival, &content);
    if script.cut.is_some() || script.framing == Framing::Close {
        raw::write(socket, book, &script, &response, &content).await?;
        return Err(io::Error::other("the script ends the connection here"));
    }
    Ok(response.map(|()| body_of(script, content, Arc::clone(book))))
}

/// Reads the request's body to its end, and keeps it only for an echo.
async fn receive(mut body: Incoming, script: &Script, book: &Book) -> io::Result<Bytes> {
    if let Some(gate) = &script.gates.read {
        book.pass_gate(gate).await;
    }
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        if let (Kind::Echo, Ok(data)) = (script.kind, frame.map_err(io::Error::other)?.into_data()) {
            kept.extend_from_slice(&data);
        }
    }
    book.body_received();
    Ok(kept.into())
}

/// The answer without its body: everything but the framing of close-delimited and cut answers.
pub(super) fn head_of(script: &Script, arrival: &Arrival, content: &Content) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = script.status;
    let headers = response.headers_mut();
    headers.insert("x-serial", arrival.serial.into());
    if let Some(media_type) = content.media_type() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    if script.framing == Framing::Length && !script::bodiless(script.status) {
        headers.insert(CONTENT_LENGTH, content.length().into());
    }
    for (name, _) in &script.trailers {
        headers.append(TRAILER, name.clone().into());
    }
    for (name, value) in &script.headers {
        headers.append(name, value.clone());
    }
    response
}

/// The body: its pieces as they are due, then the trailers.
fn body_of(script: Script, content: Content, book: Arc<Book>) -> Body {
    let gate = script.gates.body;
    let pieces = stream::unfold((content, 0), move |(content, number)| {
        let (gate, book) = (gate.clone(), Arc::clone(&book));
        async move {
            if let (1, Some(gate)) = (number, gate) {
                book.pass_gate(&gate).await;
            }
            let piece = content.piece(number)?;
            Some((Ok(Frame::data(piece)), (content, number + 1)))
        }
    });
    let mut trailers = HeaderMap::new();
    for (name, value) in script.trailers {
        trailers.append(name, value);
    }
    let last = (!trailers.is_empty()).then(|| Ok(Frame::trailers(trailers)));
    StreamBody::new(pieces.chain(stream::iter(last))).boxed_unsync()
}

/// What is known of an effect: the answer that its execution got, or nothing.
fn tell(effect: Option<Arrival>) -> Response<Body> {
    let Some(arrival) = effect else {
        let mut response = Response::new(Full::default().boxed_unsync());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let content = Content::new(Kind::Json, &arrival, Bytes::new());
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert("x-serial", arrival.serial.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CONTENT_LENGTH, content.length().into());
    let pieces = (0..).map_while(move |number| content.piece(number)).map(|piece| Ok(Frame::data(piece)));
    response.map(|()| StreamBody::new(stream::iter(pieces)).boxed_unsync())
}

fn refuse(sentence: String) -> Response<Body> {
    let mut response = Response::new(Full::from(sentence).boxed_unsync());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

fn switch_protocols() -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("echo"));
    response
}

/// What follows a 101: every byte comes back until the client ends its side.
pub(super) async fn echo(upgrade: OnUpgrade) -> io::Result<()> {
    let upgraded = upgrade.await.map_err(io::Error::other)?;
    let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
    tokio::io::copy(&mut from, &mut to).await?;
    Ok(())
}
