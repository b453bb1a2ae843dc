//! A proxy before the server, which records what clients send and loses connections on demand.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use testing_postgres::Database;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf},
};

/// What happens to the next commit that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is passed on, and so is its answer.
    Pass,
    /// The connection ends before the server receives it.
    LoseRequest,
    /// The connection ends when the server has answered, before the client receives the answer.
    LoseAnswer,
}

/// A proxy, as a directory with a socket. It ends with the runtime of the test.
#[derive(Clone)]
pub(crate) struct Proxy(Arc<Shared>);

struct Shared {
    directory: tempfile::TempDir,
    database: String,
    state: Mutex<State>,
}

struct State {
    /// The socket of the server that new connections lead to.
    server: PathBuf,
    fate: Fate,
    /// The messages of clients, without those with which connections begin: type and content.
    messages: Vec<(char, Vec<u8>)>,
    /// Number of times that the server had answered everything before a client sent more.
    turns: usize,
    waiting: bool,
}

impl Proxy {
    pub(crate) fn before(database: &Database) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let url = database.url();
        let proxy = Self(Arc::new(Shared {
            directory,
            database: url.split_once('?').unwrap().0.to_owned(),
            state: Mutex::new(State {
                server: socket(database),
                fate: Fate::Pass,
                messages: Vec::new(),
                turns: 0,
                waiting: false,
            }),
        }));
        tokio::spawn(proxy.clone().accept(listener));
        proxy
    }

    /// The URL of the database through the proxy.
    pub(crate) fn url(&self) -> String {
        let directory = self.0.directory.path().display();
        format!("{}?host={directory}", self.0.database)
    }

    /// Passes new connections on to another server. Old ones stay where they are, as with most proxies and changes of
    /// addresses.
    pub(crate) fn redirect(&self, database: &Database) {
        self.0.state.lock().unwrap().server = socket(database);
    }

    /// Decides what happens to the next commit.
    pub(crate) fn set(&self, fate: Fate) {
        self.0.state.lock().unwrap().fate = fate;
    }

    /// Returns the messages that clients have sent since the last call, and in how many turns.
    pub(crate) fn sent(&self) -> (Vec<(char, Vec<u8>)>, usize) {
        let mut state = self.0.state.lock().unwrap();
        (
            std::mem::take(&mut state.messages),
            std::mem::take(&mut state.turns),
        )
    }

    async fn accept(self, listener: UnixListener) {
        while let Ok((client, _)) = listener.accept().await {
            let server = self.0.state.lock().unwrap().server.clone();
            let server = UnixStream::connect(server).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let lost = Arc::new(tokio::sync::Notify::new());
            let requests = self.clone().requests(from_client, to_server, lost.clone());
            let answers = self.clone().answers(from_server, to_client, lost);
            tokio::spawn(async move {
                futures::future::select(Box::pin(requests), Box::pin(answers)).await
            });
        }
    }

    /// Passes messages of a client on, until one is lost.
    async fn requests(
        self,
        mut client: OwnedReadHalf,
        mut server: OwnedWriteHalf,
        lost: Arc<tokio::sync::Notify>,
    ) {
        let mut pending: Vec<u8> = Vec::new();
        let (mut started, mut buffer) = (false, vec![0; 1 << 16]);
        while let Ok(read @ 1..) = client.read(&mut buffer).await {
            pending.extend_from_slice(&buffer[..read]);
            let (messages, used) = parse(&pending, &mut started);
            let commits = messages.iter().any(is_commit);
            let fate = self.note(messages, commits);
            if fate == Fate::LoseRequest {
                return;
            }
            if fate == Fate::LoseAnswer {
                lost.notify_one();
            }
            server.write_all(&pending[..used]).await.unwrap();
            pending.drain(..used);
        }
    }

    /// Records messages, and takes the fate of a commit.
    fn note(&self, messages: Vec<(char, Vec<u8>)>, commits: bool) -> Fate {
        let mut state = self.0.state.lock().unwrap();
        if !messages.is_empty() && !state.waiting {
            state.turns += 1;
            state.waiting = true;
        }
        state.messages.extend(messages);
        if commits {
            return std::mem::replace(&mut state.fate, Fate::Pass);
        }
        Fate::Pass
    }

    /// Passes answers on, until one is lost.
    async fn answers(
        self,
        mut server: OwnedReadHalf,
        mut client: OwnedWriteHalf,
        lost: Arc<tokio::sync::Notify>,
    ) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = server.read(&mut buffer).await {
            // The answer comes after the request was noted.
            if futures::FutureExt::now_or_never(lost.notified()).is_some() {
                return;
            }
            self.0.state.lock().unwrap().waiting = false;
            if client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }
}

fn socket(database: &Database) -> PathBuf {
    database.directory().join(".s.PGSQL.5432")
}

/// The whole messages at the start of `bytes`, and their length. The first one of a connection has no type.
fn parse(bytes: &[u8], started: &mut bool) -> (Vec<(char, Vec<u8>)>, usize) {
    let (mut messages, mut at) = (Vec::new(), 0);
    loop {
        let rest = &bytes[at..];
        let tag = usize::from(*started);
        let Some(length) = rest.get(tag..tag + 4) else {
            return (messages, at);
        };
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let Some(content) = rest.get(tag + 4..tag + length) else {
            return (messages, at);
        };
        if *started {
            messages.push((char::from(rest[0]), content.to_vec()));
        }
        *started = true;
        at += tag + length;
    }
}

/// Whether a message binds the parameters of a commit: more than those of any other statement.
fn is_commit((tag, content): &(char, Vec<u8>)) -> bool {
    // Portal and statement are texts that end with a zero; then come the formats, and the number of parameters.
    let mut rest = content.splitn(3, |byte| *byte == 0).skip(2);
    let Some(rest) = rest.next().filter(|_| *tag == 'B') else {
        return false;
    };
    let number = |at: usize| usize::from(u16::from_be_bytes([rest[at], rest[at + 1]]));
    number(2 + 2 * number(0)) == 17
}
