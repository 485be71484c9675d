//! What a program writes, line by line, while it runs.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::PATIENCE;

/// The lines of one output stream, complete ones only, without their line ends.
#[derive(Debug)]
pub struct Lines(watch::Receiver<Vec<String>>);

impl Lines {
    /// Reads a stream to its end, in a task of `readers`.
    pub(super) fn capture(stream: impl AsyncRead + Send + Unpin + 'static, readers: &mut JoinSet<()>) -> Self {
        let (sender, receiver) = watch::channel(Vec::new());
        readers.spawn(async move {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                sender.send_modify(|lines| lines.push(text));
                line.clear();
            }
        });
        Self(receiver)
    }

    /// All lines so far.
    pub fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// All lines, once the stream has ended: the program's end can be seen before its last words are read.
    pub async fn whole(&self) -> Vec<String> {
        let mut receiver = self.0.clone();
        // It ends with the stream's reader, since nothing suits it.
        let _ = tokio::time::timeout(PATIENCE, receiver.wait_for(|_| false)).await;
        self.all()
    }

    /// The first line that contains the text, written before or after this call. Fails when the stream ends without it,
    /// or after [`PATIENCE`], with all lines there were.
    pub async fn wait_for(&self, text: &str) -> io::Result<String> {
        let mut receiver = self.0.clone();
        let has_it = |lines: &Vec<String>| lines.iter().any(|line| line.contains(text));
        let waited = tokio::time::timeout(PATIENCE, receiver.wait_for(has_it)).await;
        let found = self.0.borrow().iter().find(|line| line.contains(text)).cloned();
        found.ok_or_else(|| {
            let why = if waited.is_err() { "not written in time" } else { "not written before the end" };
            io::Error::other(format!("`{text}` was {why}; the lines were:\n{}", self.all().join("\n")))
        })
    }
}
