//! The counting upstream over HTTP/2 without TLS: the same book and the same scripts, and what only frames can do.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::task::JoinSet;

use super::answer::head_of;
use super::book::Book;
use super::content::Content;
use super::script::{Breaks, Kind, Refusal, Script};
use super::socket::SharedSocket;
use crate::Cut;

/// How a stream leaves its connection.
enum Left {
    Open,
    /// The connection ends now, and how.
    Ended(Cut),
}

/// Serves one connection until it ends. How it ended is the client's to see.
pub(super) async fn serve(socket: SharedSocket, book: Arc<Book>) {
    let Ok(mut connection) = h2::server::handshake(socket.clone()).await else { return };
    let mut streams = JoinSet::new();
    loop {
        let left = tokio::select! {
            // First, since it writes out what a stream has sent before it leaves.
            biased;
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                streams.spawn(answer(socket.clone(), Arc::clone(&book), request, respond));
                continue;
            }
            Some(left) = streams.join_next() => left,
        };
        // A stream that failed was the client's to end.
        if let Ok(Ok(Left::Ended(cut))) = left {
            return end(connection, &socket, cut);
        }
    }
}

fn end(connection: Connection<SharedSocket, Bytes>, socket: &SharedSocket, cut: Cut) {
    if cut == Cut::Rst {
        // A connection that can't be reset was reset by the other side.
        let _ = socket.reset_on_close();
    }
    drop(connection);
}

/// Counts a request, unless it is refused, and answers it as it asks.
async fn answer(
    socket: SharedSocket,
    book: Arc<Book>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> io::Result<Left> {
    let (head, mut body) = request.into_parts();
    let script = match Script::read(&head.method, &head.headers) {
        Ok(script) => script,
        Err(sentence) => {
            book.arrive(&head)?;
            return refuse_script(&mut respond, sentence);
        }
    };
    if let Some(refusal) = script.on_stream.refusal
        && book.refuse(&head)
    {
        if let Some(gate) = &script.gates.answer {
            book.pass_gate(gate).await;
        }
        return refuse(&socket, refusal, &mut respond).await;
    }
    let arrival = book.arrive(&head)?;
    let received = receive(&mut body, &script, &book).await?;
    let arrival = book.take_effect(arrival, script.gates.effect.clone()).await;
    let content = Content::new(script.kind, &arrival, received);
    if let Some(gate) = &script.gates.answer {
        book.pass_gate(gate).await;
    }
    tokio::time::sleep(script.delay).await;
    if let Some(status) = script.informational {
        let mut interim = Response::new(());
        *interim.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
        respond.send_informational(interim).map_err(io::Error::other)?;
    }
    if script.on_stream.breaks.is_some() && script.on_stream.after.is_none() {
        return break_off(&socket, &script, &mut respond).await;
    }
    let response = head_of(&script, &arrival, &content);
    let bodiless = content.length() == 0 && script.trailers.is_empty() && script.on_stream.breaks.is_none();
    let empty = bodiless || head.method == Method::HEAD;
    let mut stream = respond.send_response(response, empty).map_err(io::Error::other)?;
    if empty {
        return Ok(Left::Open);
    }
    write(&mut stream, &book, &script, &content).await.map_err(io::Error::other)?;
    if script.on_stream.breaks.is_some() {
        return break_off(&socket, &script, &mut respond).await;
    }
    let mut trailers = HeaderMap::new();
    for (name, value) in script.trailers {
        trailers.append(name, value);
    }
    let ended = if trailers.is_empty() { stream.send_data(Bytes::new(), true) } else { stream.send_trailers(trailers) };
    ended.map(|()| Left::Open).map_err(io::Error::other)
}

fn refuse_script(respond: &mut SendResponse<Bytes>, sentence: String) -> io::Result<Left> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let mut stream = respond.send_response(response, false).map_err(io::Error::other)?;
    stream.send_data(sentence.into(), true).map(|()| Left::Open).map_err(io::Error::other)
}

/// Says that the request was not executed, which is true.
async fn refuse(socket: &SharedSocket, refusal: Refusal, respond: &mut SendResponse<Bytes>) -> io::Result<Left> {
    match refusal {
        Refusal::Stream => {
            respond.send_reset(Reason::REFUSED_STREAM);
            Ok(Left::Open)
        }
        Refusal::GoAway => {
            let before = respond.stream_id().as_u32().saturating_sub(2);
            socket.write_raw(&go_away(before)).await?;
            Ok(Left::Ended(Cut::Fin))
        }
    }
}

/// Ends an exchange that was executed, without its answer.
async fn break_off(socket: &SharedSocket, script: &Script, respond: &mut SendResponse<Bytes>) -> io::Result<Left> {
    match script.on_stream.breaks {
        Some(Breaks::Reset(code)) => {
            respond.send_reset(code);
            Ok(Left::Open)
        }
        Some(Breaks::GoAway) => {
            socket.write_raw(&go_away(respond.stream_id().as_u32())).await?;
            Ok(Left::Ended(Cut::Fin))
        }
        Some(Breaks::Cut(cut)) => Ok(Left::Ended(cut)),
        None => Ok(Left::Open),
    }
}

/// GOAWAY with this last stream and no error, as a server sends it that is told to end.
fn go_away(last: u32) -> Vec<u8> {
    [&[0, 0, 8, 7, 0, 0, 0, 0, 0][..], &last.to_be_bytes(), &[0; 4]].concat()
}

/// Reads the request's body to its end, and keeps it only for an echo. Until the gate opens, the client's window stays shut.
async fn receive(body: &mut RecvStream, script: &Script, book: &Book) -> io::Result<Bytes> {
    if let Some(gate) = &script.gates.read {
        book.pass_gate(gate).await;
    }
    let mut kept = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(io::Error::other)?;
        body.flow_control().release_capacity(data.len()).map_err(io::Error::other)?;
        if script.kind == Kind::Echo {
            kept.extend_from_slice(&data);
        }
    }
    book.body_received();
    Ok(kept.into())
}

/// Writes the body within the client's window, as far as the script lets it go.
async fn write(
    stream: &mut SendStream<Bytes>,
    book: &Book,
    script: &Script,
    content: &Content,
) -> Result<(), h2::Error> {
    let mut limit = script.on_stream.after.unwrap_or(u64::MAX);
    let mut number = 0;
    while let Some(mut piece) = content.piece(number).filter(|_| limit > 0) {
        if let (1, Some(gate)) = (number, &script.gates.body) {
            book.pass_gate(gate).await;
        }
        piece.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        limit -= piece.len() as u64;
        number += 1;
        while !piece.is_empty() {
            stream.reserve_capacity(piece.len());
            let granted = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
            let Some(granted) = granted.transpose()? else { return Ok(()) };
            stream.send_data(piece.split_to(granted.min(piece.len())), false)?;
        }
    }
    Ok(())
}
