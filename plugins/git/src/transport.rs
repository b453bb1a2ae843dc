//! The way to a repository: a program whose pipes speak Git's protocol, or a connection. Each can be ended from outside,
//! so that a server that does not answer holds nothing longer than its caller waits.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, Read, Seek},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use gix::{
    bstr::ByteSlice,
    credentials::{helper, protocol},
    protocol::transport::{
        Protocol,
        client::{
            blocking_io::{Transport, connect},
            git::{ConnectMode, blocking_io::Connection},
        },
    },
    url::{ArgumentSafety, Scheme, Url},
};
use plugin_sdk::{Problem, with_causes};
use prodspec_gen::tree::Stop;

/// Maximum time until a connection is made.
const CONNECT: Duration = Duration::from_secs(10);
/// The port of Git's own protocol.
const PORT: u16 = 9418;
/// Maximum length of what a program says on its standard error output in a problem, in bytes.
const COMPLAINT: u64 = 2048;
/// Variables that would lead a local Git to another repository.
const VARIABLES: [&str; 8] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Where a repository is, and how to reach it.
pub(crate) struct Access {
    url: String,
    ssh: Vec<String>,
    login: Option<(String, String)>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("url", &self.shown())
            .finish_non_exhaustive()
    }
}

impl Access {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            ssh: vec!["ssh".into()],
            login: None,
        }
    }

    pub(crate) fn with_ssh<'a>(
        mut self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let all =
            std::iter::once(program.to_owned()).chain(arguments.into_iter().map(str::to_owned));
        self.ssh = all.collect();
        self
    }

    pub(crate) fn with_login(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.into(), password.into()));
        self
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn parsed(&self) -> Result<Url, Problem> {
        let parsed = gix::url::parse(self.url.as_bytes().as_bstr());
        // The error would repeat the URL, and a password in it.
        parsed.map_err(|_| self.problem("its URL is none of Git; check it"))
    }

    /// The URL without its password.
    fn shown(&self) -> String {
        match gix::url::parse(self.url.as_bytes().as_bstr()) {
            Ok(mut url) => {
                url.password = None;
                url.to_bstring().to_string()
            }
            Err(_) => "the repository".into(),
        }
    }

    /// The passwords, as they may appear in the texts of errors.
    fn secrets(&self) -> impl Iterator<Item = String> {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split('/').next().unwrap_or_default();
        let login = host.rsplit_once('@').map_or("", |(login, _)| login);
        let written = login
            .split_once(':')
            .map(|(_, password)| password.to_owned());
        let meant = gix::url::parse(self.url.as_bytes().as_bstr()).ok();
        let meant = meant.and_then(|url| url.password);
        let set = self.login.as_ref().map(|(_, password)| password.clone());
        let all = [written, meant, set].into_iter().flatten();
        all.filter(|secret| !secret.is_empty())
    }

    /// A problem with the repository.
    pub(crate) fn problem(&self, message: &str) -> Problem {
        let hide = |text: String, secret: String| text.replace(&secret, "(password)");
        let message = self.secrets().fold(message.to_owned(), hide);
        Problem::new(message).at(self.shown(), 0, 0)
    }

    /// The problem of an error, with what the other side said about it.
    pub(crate) fn says(&self, error: &(dyn std::error::Error + 'static), said: &str) -> Problem {
        let error = with_causes(error);
        let said = match said.trim() {
            "" => String::new(),
            said => format!(" ({said})"),
        };
        self.problem(&format!(
            "cannot be fetched: {error}{said}; check that the repository is there and this process may read it"
        ))
    }

    /// Answers with the login that was set. Never asks.
    pub(crate) fn credentials(
        &self,
    ) -> impl FnMut(helper::Action) -> Result<Option<protocol::Outcome>, gix::Error> + use<> {
        let login = self.login.clone();
        move |action| {
            let (Some((username, password)), helper::Action::Get(context)) = (&login, action)
            else {
                return Ok(None);
            };
            Ok(Some(protocol::Outcome {
                identity: gix::sec::identity::Account {
                    username: username.clone(),
                    password: password.clone(),
                    oauth_refresh_token: None,
                },
                next: context.into(),
            }))
        }
    }

    /// A Git that works on the repository at `clone`, and reaches the other one as this access does. It reads no
    /// configuration and asks nothing.
    pub(crate) fn git(&self, clone: &Path) -> Command {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(clone);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null");
        git.env("GIT_CONFIG_NOSYSTEM", "1");
        git.env("GIT_TERMINAL_PROMPT", "0");
        let ssh = [
            &self.ssh[..],
            &["-oBatchMode=yes".into(), "-oConnectTimeout=10".into()],
        ]
        .concat();
        let quoted = ssh
            .iter()
            .map(|word| gix::quote::single(word.as_bytes().as_bstr()).to_string());
        git.env("GIT_SSH_COMMAND", quoted.collect::<Vec<_>>().join(" "));
        if let Some((user, password)) = &self.login {
            // In the environment, which other users of this machine cannot read.
            let login = STANDARD.encode(format!("{user}:{password}"));
            git.env("GIT_CONFIG_COUNT", "1");
            git.env("GIT_CONFIG_KEY_0", "http.extraHeader");
            git.env(
                "GIT_CONFIG_VALUE_0",
                format!("Authorization: Basic {login}"),
            );
        }
        git
    }

    /// Connects to the repository.
    pub(crate) fn connect(&self, stop: &Stop) -> Result<(Channel, Wire), Problem> {
        let url = self.parsed()?;
        match url.scheme {
            Scheme::File => {
                let path = gix::path::from_bstr(url.path.as_bstr());
                let path = path.map_err(|error| self.says(&error, "check its path"))?;
                // Absolute, so that it is not taken for an option.
                let path = std::path::absolute(path);
                let path = path.map_err(|error| self.says(&error, "check its path"))?;
                let mut git = Command::new("git");
                git.arg("upload-pack").arg(path);
                self.start(git, &url, stop)
            }
            Scheme::Ssh => self.start(self.ssh_command(&url)?, &url, stop),
            Scheme::Git => self.dial(&url, stop),
            _ => {
                let connected = connect::connect(url, connect::Options::default());
                let transport = connected.map_err(|error| {
                    self.says(
                        &error,
                        "https needs a feature of gix; see the crate's documentation",
                    )
                })?;
                Ok((transport, Wire::default()))
            }
        }
    }

    /// The command that starts Git on the other host. It never asks anything.
    fn ssh_command(&self, url: &Url) -> Result<Command, Problem> {
        use ArgumentSafety::{Absent, Dangerous, Usable};

        let target = match (url.user_as_argument(), url.host_as_argument()) {
            (Absent, Usable(host)) => host.to_owned(),
            (Usable(user), Usable(host)) => format!("{user}@{host}"),
            (Dangerous(_), _) | (_, Dangerous(_) | Absent) => {
                return Err(self.problem("has no usable host or user; check its URL"));
            }
        };
        if url.path.trim_start().starts_with(b"-") {
            return Err(self.problem("its path would be taken for an option; check its URL"));
        }
        let mut ssh = Command::new(self.ssh.first().map_or("ssh", |program| program));
        ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
        ssh.args(["-o", "SendEnv=GIT_PROTOCOL"]);
        ssh.args(self.ssh.iter().skip(1));
        if let Some(port) = url.port {
            ssh.arg("-p").arg(port.to_string());
        }
        let path = gix::quote::single(url.path.as_bstr());
        ssh.arg(target).arg(format!("git-upload-pack {path}"));
        Ok(ssh)
    }

    /// Starts a program whose pipes speak the protocol.
    fn start(
        &self,
        mut command: Command,
        url: &Url,
        stop: &Stop,
    ) -> Result<(Channel, Wire), Problem> {
        let program = command.get_program().to_owned();
        let cannot = |error: std::io::Error| {
            let program = OsStr::to_string_lossy(&program);
            self.problem(&format!(
                "cannot run the program `{program}`, which is needed to reach it: {error}; install it"
            ))
        };
        command.env("GIT_PROTOCOL", "version=2");
        let started = Program::start(&mut command, Stdio::piped());
        let (program, complaints) = started.map_err(cannot)?;
        let Some((from, to)) = program.pipes() else {
            return Err(self.problem("the program that reaches it has no pipes; report this error"));
        };
        let path = url.path.clone();
        let process = ConnectMode::Process;
        let none = None::<(&str, Option<u16>)>;
        let transport = Connection::new(from, to, Protocol::V2, path, none, process, false);
        let transport = transport.custom_url(Some(url.to_bstring()));
        program.ends_with(stop);
        let wire = Wire {
            _program: Some(program),
            complaints: Some(complaints),
        };
        Ok((Box::new(transport), wire))
    }

    /// Connects to a server that speaks the protocol itself.
    fn dial(&self, url: &Url, stop: &Stop) -> Result<(Channel, Wire), Problem> {
        let cannot = |error: std::io::Error| self.says(&error, "");
        let host = url.host().unwrap_or_default();
        let addresses = (host, url.port.unwrap_or(PORT)).to_socket_addrs();
        let mut last = std::io::Error::other("the host has no address");
        for address in addresses.map_err(cannot)? {
            let stream = match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => stream,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            let closed = stream.try_clone().map_err(cannot)?;
            stop.when_over(move || drop(closed.shutdown(Shutdown::Both)));
            let to = stream.try_clone().map_err(cannot)?;
            let (path, host) = (url.path.clone(), Some((host, url.port)));
            let daemon = ConnectMode::Daemon;
            let transport = Connection::new(stream, to, Protocol::V2, path, host, daemon, false);
            let transport = transport.custom_url(Some(url.to_bstring()));
            return Ok((Box::new(transport), Wire::default()));
        }
        Err(cannot(last))
    }
}

/// Speaks Git's protocol.
pub(crate) type Channel = Box<dyn Transport + Send>;

/// What belongs to a channel, and is kept for as long as it is used.
#[derive(Default)]
pub(crate) struct Wire {
    _program: Option<Program>,
    /// What the program writes to its standard error output.
    complaints: Option<File>,
}

impl Wire {
    /// What the program has said on its standard error output.
    pub(crate) fn complaint(&self) -> String {
        self.complaints.as_ref().map(said_on).unwrap_or_default()
    }
}

/// The start of what was written to a file of complaints, on one line.
fn said_on(mut complaints: &File) -> String {
    let mut said = Vec::new();
    let _ = complaints.rewind();
    let _ = complaints.take(COMPLAINT).read_to_end(&mut said);
    let text = String::from_utf8_lossy(&said);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

/// A program that ends when this is dropped.
struct Program(Arc<Mutex<Child>>);

impl Program {
    /// Starts a program that speaks with this process on its standard output, and complains to a file.
    fn start(command: &mut Command, input: Stdio) -> io::Result<(Self, File)> {
        let complaints = tempfile::tempfile()?;
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C");
        command.stdin(input).stdout(Stdio::piped());
        command.stderr(complaints.try_clone()?);
        let child = command.spawn()?;
        Ok((Self(Arc::new(Mutex::new(child))), complaints))
    }

    /// Its standard output and input, once.
    fn pipes(&self) -> Option<(ChildStdout, ChildStdin)> {
        let mut child = child(&self.0);
        child.stdout.take().zip(child.stdin.take())
    }

    /// Kills the program when `stop` says so.
    fn ends_with(&self, stop: &Stop) {
        let killed = self.0.clone();
        stop.when_over(move || kill(&killed));
    }
}

/// What a program has said until it ended.
pub(crate) struct Said {
    /// Its standard output.
    pub(crate) output: String,
    /// Its standard error output, on one line.
    pub(crate) complaint: String,
    /// Whether it ended with the exit status 0.
    pub(crate) success: bool,
}

/// Runs a program to its end. It is killed when `stop` says so.
pub(crate) fn run(mut command: Command, stop: &Stop) -> io::Result<Said> {
    let (program, complaints) = Program::start(&mut command, Stdio::null())?;
    program.ends_with(stop);
    let output = child(&program.0).stdout.take();
    let mut bytes = Vec::new();
    // Not while the child is locked, so that it can be killed meanwhile.
    output.map_or(Ok(0), |mut output| output.read_to_end(&mut bytes))?;
    let status = child(&program.0).wait()?;
    Ok(Said {
        output: String::from_utf8_lossy(&bytes).into_owned(),
        complaint: said_on(&complaints),
        success: status.success(),
    })
}

impl Drop for Program {
    fn drop(&mut self) {
        kill(&self.0);
        let _ = child(&self.0).wait();
    }
}

fn kill(program: &Mutex<Child>) {
    let _ = child(program).kill();
}

fn child(program: &Mutex<Child>) -> MutexGuard<'_, Child> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_in_no_problem() {
        let url = "https://user:pass%2Fword@example.com/a.git";
        let access = Access::new(url).with_login("user", "token");
        let said = access
            .problem(&format!("{url} pass/word token"))
            .to_string();
        let expected = "https://user@example.com/a.git: https://user:(password)@example.com/a.git (password) (password)";
        assert_eq!(said, expected);
        assert!(!format!("{access:?}").contains("pass"));
        let wrong = Access::new("https://user:pass@/a");
        assert!(!wrong.parsed().unwrap_err().to_string().contains("pass"));
    }
}
