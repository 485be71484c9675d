//! Answers that hyper rightly refuses to give: a body that ends with the connection, and one that is cut short.

use std::io;

use http::Response;

use super::book::Book;
use super::content::Content;
use super::script::{Framing, Script};
use super::socket::SharedSocket;
use crate::Cut;

/// Writes the answer past hyper, as far as the script lets it go. The caller then drops the connection.
pub(super) async fn write(
    socket: &SharedSocket,
    book: &Book,
    script: &Script,
    response: &Response<()>,
    content: &Content,
) -> io::Result<()> {
    let limit = match script.cut {
        Some(cut) => cut.after,
        None => Some(u64::MAX),
    };
    if let Some(limit) = limit {
        socket.write_raw(&head(script, response)).await?;
        write_body(socket, book, script, content, limit).await?;
    }
    if script.cut.is_some_and(|cut| cut.how == Cut::Rst) {
        socket.reset_on_close()?;
    }
    Ok(())
}

fn head(script: &Script, response: &Response<()>) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(match script.framing {
        Framing::Length => b"\r\n",
        Framing::Chunked => b"transfer-encoding: chunked\r\n\r\n",
        Framing::Close => b"connection: close\r\n\r\n",
    });
    head
}

/// Writes at most `limit` bytes of the body. A chunked body never gets its last chunk: only cut ones come here.
async fn write_body(
    socket: &SharedSocket,
    book: &Book,
    script: &Script,
    content: &Content,
    mut limit: u64,
) -> io::Result<()> {
    let mut number = 0;
    while let Some(mut piece) = content.piece(number).filter(|_| limit > 0) {
        if let (1, Some(gate)) = (number, &script.gates.body) {
            book.pass_gate(gate).await;
        }
        piece.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        limit -= piece.len() as u64;
        number += 1;
        if script.framing == Framing::Chunked {
            let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
            socket.write_raw(&framed).await?;
        } else {
            socket.write_raw(&piece).await?;
        }
    }
    Ok(())
}
