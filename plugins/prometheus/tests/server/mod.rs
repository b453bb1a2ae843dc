//! A server that answers with the bytes that a test gives it, right or wrong.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::AbortHandle,
};

/// An HTTP date that matches no clock of a test.
pub(crate) const DATE: &str = "Tue, 24 Nov 2026 14:02:00 GMT";

/// A server on a free port of this machine. It is stopped when it is dropped.
pub(crate) struct Lying {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Lying {
    /// Starts a server that answers each request with the first of `answers` whose path begins the path of the request.
    pub(crate) async fn start(answers: Vec<(&'static str, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n")
                    && stream.read_buf(&mut request).await.unwrap() > 0
                {}
                let request = String::from_utf8(request).unwrap();
                let path = request.split(' ').nth(1).unwrap_or_default();
                let answer = answers.iter().find(|(of, _)| path.starts_with(of));
                let answer = answer.map_or(vec![], |(_, answer)| answer.clone());
                seen.lock().unwrap().push(request);
                // The client closes the connection when it has read enough.
                let _ = stream.write_all(&answer).await;
            }
        });
        Self {
            address,
            asked,
            task: task.abort_handle(),
        }
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Lying {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A whole answer with this status and body.
pub(crate) fn answer(status: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nDate: {DATE}\r\n{headers}Connection: close\r\n");
    format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A good answer with this JSON.
pub(crate) fn json(body: &str) -> Vec<u8> {
    answer("200 OK", &["Content-Type: application/json"], body)
}
